"""What operators learn of groups: in the status, in /metrics, and from the rules for alerts."""

from hornbeam_server.api.rest.metrics import Metrics
from hornbeam_server.api.rest.serializers import group_documents
from hornbeam_server.node.live.aside import node_of
from hornbeam_server.txlayer.cluster.membership_view import slot_of
from tests.node.live_world import fill, opened, order, reached, view

LIVE = {"resident_refresh": True}
SMALL = "SELECT o_id, CAST(o_note AS INTEGER) AS number FROM orders"


async def metrics_of(db):
    text, _ = await Metrics().render(db)
    lines = (line.rsplit(" ", 1) for line in text.decode().splitlines() if line[0] != "#")
    return {
        name.removeprefix("hornbeam_deferred_"): float(value)
        for name, value in lines
        if name.startswith("hornbeam_deferred")
    }


async def test_metrics_and_the_status_say_how_groups_are_kept(tmp_path):
    views = view(interval="1 h"), view("top", refresh="recompute")
    async with opened(tmp_path, *views, **LIVE) as db:
        await reached(db, 0)  # an empty view: the batch that builds it has no rows of `fill`
        await fill(db)
        before = await metrics_of(db)
        assert not any("bucket" in name for name in before)
        assert (await group_documents(db))[0]["commit_lag"] is None
        await db.live.refresh("live")
        found = await metrics_of(db)
        assert found['commit_lag_seconds_count{group="live"}'] == 1
        assert found['commit_lag_seconds_bucket{group="live",le="+Inf"}'] == 1
        assert found['commit_lag_seconds_bucket{group="live",le="300.0"}'] == 1
        assert 0 < found['commit_lag_seconds_sum{group="live"}'] < 300
        kept = {name: found[f'{name}{{group="live"}}'] for name in ("stopped", "left", "mine")}
        assert kept == {"stopped": 0, "left": 0, "mine": 1}
        left = {name: found[f'{name}{{group="default"}}'] for name in ("stopped", "left", "mine")}
        assert left == {"stopped": 0, "left": 1, "mine": 0}
        live, other = await group_documents(db)
        assert (live["node"], live["left"], live["commit_lag"]["batches"]) == ("local", None, 1)
        assert 0 < live["commit_lag"]["p50_s"] == live["commit_lag"]["p99_s"] <= 300
        assert other["left"] == "top is recomputed in each batch"
        assert [g["name"] for g in await group_documents(db, {"totals"}.__contains__)] == ["live"]


async def test_a_group_that_cannot_go_on_is_stopped(tmp_path):
    async with opened(tmp_path, view("numbers", SMALL), **LIVE) as db:
        await fill(db)
        await db.live.refresh("live")
        await order(db, 101, 1, 7, "five")
        while not (found := await metrics_of(db))['stopped{group="live"}']:
            pass
        assert (found['left{group="live"}'], found['mine{group="live"}']) == (0, 1)


class Among:
    """A member of a database of which another node owns all slots."""

    def owner(self, slot):
        assert slot == slot_of(("group", "live"))
        return "http://owner"


async def test_the_owner_of_a_groups_slot_does_its_batches_and_the_leader_builds(tmp_path):
    async with opened(tmp_path, view(interval="1 h"), **LIVE) as db:
        assert node_of("live", db.catalog, Among(), "http://leader") == "http://leader"
        await db.live.refresh("live")
        assert node_of("live", db.catalog, Among(), "http://leader") == "http://owner"
