"""The views of a batch are divided among the nodes. The owner of its slot computes a view, or else
the node that does the batch."""

import asyncio
from collections import Counter

import pytest

from hornbeam_server.node.live import sharing
from hornbeam_server.node.live.computation import Computation
from hornbeam_server.node.live.maintainer import IDLE_S
from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.txlayer.cluster.messages import Compute, Refused
from hornbeam_server.txlayer.cluster.shared_views import SharedViews
from hornbeam_server.txlayer.cluster.slot_rates import MEASURED_S
from tests.node.live_world import apply, fill, order, require_equal, view
from tests.txlayer.nodes_world import nodes
from tests.virtual_time import in_virtual_time

NAMES = [f"v{number}" for number in range(9)]


def select(number):
    return (
        f"SELECT c_name, sum(o_total + {number}) AS total FROM orders"
        " JOIN customer ON o_c_id = c_id GROUP BY c_name"
    )


@pytest.fixture
def computed(monkeypatch):
    """The views that were computed, by node, for batches with changes."""
    found = {}
    rows = Computation.rows

    async def counted(self, work, fed, most_rows, budget=None, *, without=()):
        result = await rows(self, work, fed, most_rows, budget, without=without)
        if result.changes.changed:
            names = [name for name in work.refreshed if name not in without]
            found.setdefault(self, Counter()).update(names)
        return result

    monkeypatch.setattr(Computation, "rows", counted)
    return found


async def nine_views(share_s=0.0):
    """Three nodes that keep nine views in one group, over three customers and some orders. They
    divide each batch after one that took `share_s`."""
    world = await nodes(0, 0, 0, resident_refresh=True, resident_share_s=share_s)
    leader = world.leader
    views = [view(n, select(i), group="live") for i, n in enumerate(NAMES)]
    await leader.do(apply(leader.database, *views))
    await leader.do(fill(leader.database, customers=3, orders=6))
    for number in (100, 101):  # nodes keep their commits in memory once they were asked for them
        await ordered(world, number)
    return world


async def ordered(world, number):
    """Order, and wait until the views show it. Returns the seconds that this took."""
    leader, began = world.leader, asyncio.get_running_loop().time()
    done = await leader.do(order(leader.database, number, number % 3, number))
    while True:
        state = await leader.do(leader.database.deferred.state("live"))
        views = [leader.database.catalog.readable(name) for name in NAMES]
        if all(views) and state.as_of >= done and state.batch is None:
            return asyncio.get_running_loop().time() - began
        await asyncio.sleep(0.01)


async def require_equal_views(world):
    for name in NAMES:
        assert await world.leader.do(require_equal(world.leader.database, name))


@in_virtual_time
async def test_each_view_is_computed_once_by_the_owner_of_its_slot(computed):
    world = await nine_views()
    computed.clear()
    await ordered(world, 200)
    assert len(computed) == 3, "each node computes"
    assert sum(computed.values(), Counter()) == Counter(NAMES)
    await require_equal_views(world)
    await world.end()


@in_virtual_time
async def test_a_batch_after_a_short_one_is_not_divided(computed):
    world = await nine_views(share_s=1e6)
    computed.clear()
    await ordered(world, 200)
    assert list(computed.values()) == [Counter(NAMES)]
    await world.end()


@pytest.mark.parametrize("refusal", ["an error", "a refusal", "silence"])
@in_virtual_time
async def test_views_that_no_other_node_computes_are_computed_here(refusal, computed, monkeypatch):
    """Also after a while if the other one is silent."""
    world = await nine_views()

    async def refuse(*_):
        if refusal == "an error":
            raise Unavailable("It fails.")
        await asyncio.sleep(0 if refusal == "a refusal" else 1e6)
        return Refused("no", "not computed")

    if refusal == "an error":
        for node in world.all:
            node.database.member.shared_views.compute = refuse
    else:
        monkeypatch.setattr(SharedViews, "answer", refuse)
    computed.clear()
    took_s = await ordered(world, 200)
    assert (took_s >= sharing.HELP_S) == (refusal == "silence"), took_s
    assert took_s < sharing.HELP_S + 1
    assert list(computed.values()) == [Counter(NAMES)]
    await require_equal_views(world)
    await world.end()


@in_virtual_time
async def test_a_node_that_dies_during_a_batch_costs_some_seconds(monkeypatch):
    world = await nine_views()
    (doing,) = [node for node in world.all if node.database.live.does_batch("live")]
    dying = next(node for node in world.all if node not in (doing, world.leader))
    died = []

    async def die(_):
        died.append(dying.name)
        dying.die()
        await asyncio.sleep(1e6)

    dying.database.member.shared_views.compute = die
    assert await ordered(world, 200) < IDLE_S
    assert died
    await require_equal_views(world)
    await world.end()


@in_virtual_time
async def test_rows_are_computed_under_one_catalog_only():
    world = await nine_views()
    node = world.leader
    version = node.database.catalog.version
    answer = node.database.member.shared_views.answer
    for asked in (version - 1, version + 1):
        request = Compute("live", 0, 1, asked, [], NAMES[:1], [])
        refused = await node.do(answer(request))
        assert isinstance(refused, Refused)
        assert f"catalog {version}, not {asked}" in refused.why
    await world.end()


@in_virtual_time
async def test_rows_that_fit_in_no_message_are_not_sent(computed, monkeypatch):
    world = await nine_views()
    monkeypatch.setattr("hornbeam_server.txlayer.cluster.shared_views.ROWS_BYTES", 1)
    computed.clear()
    await ordered(world, 200)
    assert len(computed) == 3, "they are computed and thrown away"
    monkeypatch.setattr(sharing, "ROWS_BYTES", 1)
    computed.clear()
    await ordered(world, 201)
    assert list(computed.values()) == [Counter(NAMES)], "the commits are too large"
    await require_equal_views(world)
    await world.end()


@in_virtual_time
async def test_changed_rows_of_views_are_work_of_their_slots():
    world = await nine_views()
    for node in world.all:
        node.database.member.rates.restart()
    await ordered(world, 200)
    await asyncio.sleep(MEASURED_S)
    rates = [await node.do(newest(node)) for node in world.all]
    assert all(rates)
    assert sum(sum(each.values()) for each in rates) >= len(NAMES) * 60 / (MEASURED_S + 2)
    await world.end()


async def newest(node):
    return node.database.member.rates.newest()
