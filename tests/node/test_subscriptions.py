"""Subscriptions to the changes of relations and views, at an embedded node."""

import asyncio
import contextlib
from collections import Counter
from contextlib import asynccontextmanager
from random import Random

import pytest

from hornbeam_server.node.subscriptions.changes import RowChange
from hornbeam_server.node.subscriptions.sources import Committed
from hornbeam_server.schema.errors import (
    HornbeamError,
    InvalidRequest,
    NotFound,
    Overloaded,
    SnapshotTooOld,
    Unavailable,
    UnknownName,
)
from tests.node.live_world import TOTALS, apply, fill, opened, order, reached, until, view

LIVE = {"resident_refresh": True}
KINDS = {
    "customer": "",
    "orders": "",
    "totals": view(),
    "several": view("several", "SELECT o_total % 3 AS k, o_note FROM orders"),
    "now_totals": f"CREATE MATERIALIZED VIEW now_totals AS {TOTALS};\n",
    "now_ends": "CREATE MATERIALIZED VIEW now_ends AS SELECT o_c_id, min(o_total) AS least,"
    " max(o_total) AS most, count(DISTINCT o_note) AS notes FROM orders GROUP BY o_c_id;\n",
    "now_many": "CREATE MATERIALIZED VIEW now_many AS SELECT c_name, count(*) + 1 AS n FROM orders"
    " JOIN customer ON o_c_id = c_id GROUP BY c_name HAVING sum(o_total) > 20;\n",
    "now_all": "CREATE MATERIALIZED VIEW now_all AS SELECT count(*) AS n, max(o_total) AS most"
    " FROM orders;\n",
    "now_rows": "CREATE MATERIALIZED VIEW now_rows AS SELECT o_id, c_name FROM orders"
    " JOIN customer ON o_c_id = c_id WHERE o_total > 5;\n",
}
NOW = f"CREATE MATERIALIZED VIEW now_totals WITH (refresh = 'immediate') AS {TOTALS};\n"


class Reader:
    """A subscriber that applies all changes to the rows that it has seen."""

    def __init__(self, subscription):
        self.subscription = subscription
        self.moment = subscription.moment
        self.rows = Counter()
        self.seen = []

    async def begin(self):
        async for rows in self.subscription.rows():
            self.rows.update(map(self.subscription.shown, rows))

    async def step(self):
        step = await asyncio.wait_for(self.subscription.next(), 30)
        assert step.moment > self.moment
        self.moment = step.moment
        shown = self.subscription.shown
        for change in step.changes:
            before, after = shown(change.before), shown(change.after)
            self.seen.append((before, after))
            if before is not None:
                self.rows[before] -= 1
            if after is not None:
                self.rows[after] += 1
        return step

    async def until(self, ts):
        """Take all changes up to a timestamp."""
        await until(lambda: self._reached(ts))
        self.moment = self.subscription.reached

    async def _reached(self, ts):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await self.step()
        return self.subscription.reached >= ts

    def held(self):
        assert min(self.rows.values(), default=0) >= 0
        return +self.rows


@asynccontextmanager
async def reader(db, name, wanted=None, moment=None):
    async with db.subscriptions.open(name, wanted, moment) as subscription:
        found = Reader(subscription)
        if moment is None:
            await found.begin()
        yield found


async def reached_by(found, moment):
    return found.subscription.reached >= moment


async def answer(db, name, at):
    return Counter(await db.fetch(f"SELECT * FROM {name}", snapshot=at, use_views=False))


@pytest.mark.parametrize("ring", [None, 1], ids=["ring", "log"])
async def test_changes_have_the_idempotency_key_of_their_request(tmp_path, monkeypatch, ring):
    if ring:
        monkeypatch.setattr("hornbeam_server.txlayer.commit.change_ring.RING_BYTES", ring)
    writes = [
        "INSERT INTO orders VALUES (5, 1, 1, 'one')",
        "INSERT INTO orders VALUES (6, 1, 1, 'two'), (7, 1, 1, 'rows')",
        "INSERT INTO orders VALUES (5, 1, 2, '') ON CONFLICT (o_id) DO UPDATE SET o_total = 9",
        "UPDATE orders SET o_total = 2 WHERE o_id = 5",
        "UPDATE orders SET o_total = 3 WHERE o_total < 3",
        "DELETE FROM orders WHERE o_id = 5",
    ]
    async with opened(tmp_path) as db:
        await apply(db)
        await fill(db, orders=0)
        async with reader(db, "orders") as orders:
            for number, sql in enumerate(writes):
                await db.execute(sql, idempotency_key=f"key {number}")
            await db.execute("INSERT INTO orders VALUES (8, 1, 80, 'without a key')")
            columns = ["o_id", "o_c_id", "o_total", "o_note"]
            await db.load("orders", columns, [(9, 1, 90, "")], idempotency_key="load")
            keys = []
            while "load" not in keys:
                keys += [change.idempotency_key for change in (await orders.step()).changes]
    assert [*dict.fromkeys(keys)] == [*[f"key {n}" for n in range(len(writes))], "", "load"]


async def test_a_relation_gives_each_transaction_with_old_and_new_rows(tmp_path):
    async with opened(tmp_path) as db:
        await apply(db)
        await fill(db, orders=2)
        async with reader(db, "orders") as orders:
            assert orders.held() == Counter({(0, 0, 0, None): 1, (1, 1, 1, None): 1})
            first = await db.execute("INSERT INTO orders VALUES (7, 1, 70, 'x'), (8, 1, 80, 'y')")
            second = await db.execute("UPDATE orders SET o_total = 71 WHERE o_id = 7")
            third = await db.execute("DELETE FROM orders WHERE o_id = 8")
            changes = []
            while len(changes) < 4:
                changes += (await orders.step()).changes
            assert changes == [
                RowChange(None, (7, 1, 70, "x"), first.commit_ts, first.transaction_id),
                RowChange(None, (8, 1, 80, "y"), first.commit_ts, first.transaction_id),
                RowChange(
                    (7, 1, 70, "x"), (7, 1, 71, "x"), second.commit_ts, second.transaction_id
                ),
                RowChange((8, 1, 80, "y"), None, third.commit_ts, third.transaction_id),
            ]
            assert [c.operation for c in changes] == ["insert", "insert", "update", "delete"]


@pytest.mark.parametrize("name", KINDS)
async def test_each_moment_has_the_rows_of_its_snapshot(tmp_path, name):
    random = Random(name)
    async with opened(tmp_path, KINDS[name], **LIVE) as db:
        await fill(db)
        await until(lambda: readable(db, name))
        async with reader(db, name) as found:
            assert found.held() == await answer(db, name, found.moment)
            for number in range(8):
                for _ in range(random.randint(1, 4)):
                    await write(db, random)
                await found.until(await order(db, 100 + number, 0, number))
                assert found.held() == await answer(db, name, found.moment)
            assert found.seen or name == "customer"


async def readable(db, name):
    with contextlib.suppress(HornbeamError):
        return await db.fetch(f"SELECT count(*) FROM {name}")


async def write(db, random):
    """A random transaction, which may change nothing."""
    one, other = random.randrange(12), random.randrange(3)
    note, total = random.choice([None, "x", "y"]), random.randrange(30)
    sql, values = random.choice(
        [
            (
                "INSERT INTO orders VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (one, other, total, note),
            ),
            ("DELETE FROM orders WHERE o_id = ?", (one,)),
            ("UPDATE orders SET o_total = ?, o_note = ? WHERE o_id < ?", (total, note, one)),
            ("UPDATE orders SET o_c_id = ? WHERE o_id = ?", (other, one)),
            ("UPDATE customer SET c_name = ? WHERE c_id = ?", (f"c{total % 4}", other)),
        ]
    )
    await db.execute(sql, values)


async def test_a_subscriber_goes_on_from_any_moment_that_it_has_seen(tmp_path):
    async with opened(tmp_path, view(), NOW, **LIVE) as db:
        await fill(db)
        await reached(db, db.watermark())
        for name in ("now_totals", "totals", "orders"):
            async with reader(db, name) as found:
                rows, moment = found.rows, found.moment
            for number in range(3):
                done = await order(db, f"{name}{number}".__hash__() % 10_000 + 50, 1, 1)
            await reached(db, done)
            async with reader(db, name, moment=moment) as found:
                found.rows = rows
                await found.until(done)
                assert len(found.seen) == 3 or name != "orders"
                assert found.held() == await answer(db, name, found.moment)
            async with reader(db, name, moment=found.moment) as again:
                done = await order(db, f"{name}9".__hash__() % 10_000 + 20_000, 2, 1)
                await again.step()
                assert len(again.seen) == 1


async def test_a_moment_that_the_node_has_not_reached_is_awaited(tmp_path, monkeypatch):
    """Another node may have given it. Changes up to it are not sent again."""
    newest, go_on = Committed.newest, asyncio.Event()
    go_on.set()

    async def later(self):
        await go_on.wait()
        return await newest(self)

    monkeypatch.setattr(Committed, "newest", later)
    async with opened(tmp_path) as db:
        await apply(db)
        await fill(db, orders=1)
        async with reader(db, "orders") as first:
            go_on.clear()
            known = await order(db, 5, 0, 5)
            asyncio.get_running_loop().call_later(0.05, go_on.set)
            async with reader(db, "orders", moment=known) as second:
                await order(db, 6, 0, 6)
                await second.step()
                assert [after[0] for _, after in second.seen] == [6]
            await first.step()
            assert first.seen[0] == (None, (5, 0, 5, None))


async def test_changes_that_left_the_ring_come_from_the_log(tmp_path, monkeypatch):
    monkeypatch.setattr("hornbeam_server.txlayer.commit.change_ring.RING_BYTES", 1)
    async with opened(tmp_path, NOW) as db:
        await fill(db, orders=1)
        async with reader(db, "orders") as orders, reader(db, "now_totals") as totals:
            moments = orders.moment, totals.moment
        for number in range(5, 10):
            done = await order(db, number, 0, number)
        async with (
            reader(db, "orders", moment=moments[0]) as orders,
            reader(db, "now_totals", moment=moments[1]) as totals,
        ):
            await orders.step()
            await totals.step()
            assert [after[0] for _, after in orders.seen] == [5, 6, 7, 8, 9]
            assert totals.seen == [(("c0", 1, 0), ("c0", 6, 35))]
            assert orders.moment >= done


async def test_a_subscriber_gets_only_the_rows_that_it_wants(tmp_path):
    async with opened(tmp_path) as db:
        await apply(db)
        await fill(db)
        async with (
            reader(db, "orders", {"o_c_id": 1}) as of_one,
            reader(db, "orders", {"o_c_id": 2}) as of_two,
            reader(db, "orders", {"o_id": "3"}) as three,
        ):
            assert {row[0] for row in of_one.held()} == {1, 4, 7}
            assert three.held() == Counter({(3, 0, 3, None): 1})
            done = await db.execute("UPDATE orders SET o_c_id = 2 WHERE o_id = 4")
            await of_one.step()
            await of_two.step()
            assert of_one.seen == [((4, 1, 4, None), None)]
            assert of_two.seen == [(None, (4, 2, 4, None))]
            done = await db.execute("UPDATE orders SET o_total = 1 WHERE o_id = 3")
            await three.until(done.commit_ts)
            assert three.seen == [((3, 0, 3, None), (3, 0, 1, None))]
            with pytest.raises(UnknownName, match="no column o_totl"):
                await reader(db, "orders", {"o_totl": 1}).__aenter__()
        assert db.committer.ring is None
        assert not db.subscriptions.count


async def test_a_step_for_many_subscribers_lets_others_have_turns(tmp_path, monkeypatch):
    monkeypatch.setattr("hornbeam_server.node.subscriptions.tails.WOKEN_AT_ONCE", 3)
    woken = []

    async def follow(found):
        step = await found.subscription.next()
        woken.append("subscriber")
        return step

    async def turns():
        while len(woken) < 50:
            await asyncio.sleep(0)
            woken.append("other")

    async with opened(tmp_path) as db, contextlib.AsyncExitStack() as stack:
        await apply(db)
        await fill(db, orders=1)
        readers = [await stack.enter_async_context(reader(db, "orders")) for _ in range(10)]
        following = [asyncio.ensure_future(follow(each)) for each in readers]
        await asyncio.sleep(0)
        await order(db, 5, 0, 5)
        await asyncio.gather(turns(), *following)
    steps = {id(each.result()) for each in following}
    assert len(steps) == 1, "all have the same step"
    first, last = woken.index("subscriber"), len(woken) - woken[::-1].index("subscriber") - 1
    assert "other" in woken[first:last]


async def test_a_subscriber_may_wait_for_some_time(tmp_path):
    async with opened(tmp_path) as db:
        await apply(db)
        await fill(db, orders=1)
        async with reader(db, "orders") as orders:
            assert await orders.subscription.next_within(0.01) is None
            await order(db, 5, 0, 5)
            step = await orders.subscription.next_within(30)
            assert [change.after[0] for change in step.changes] == [5]
            orders.subscription._queue.end(Unavailable("ended"))
            with pytest.raises(Unavailable, match="ended"):
                await orders.subscription.next_within(30)


async def test_wrong_names_and_moments_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("hornbeam_server.node.subscriptions.subscriptions.WAIT_S", 0.05)
    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        await reached(db, db.watermark())
        for name, moment, error in (
            ("nothing", None, NotFound),
            ("orders", 1 << 60, InvalidRequest),
            ("totals", 1 << 60, InvalidRequest),
            ("totals", 5, SnapshotTooOld),
            ("orders", 5, SnapshotTooOld),
        ):
            with pytest.raises(error):
                await reader(db, name, moment=moment).__aenter__()
        assert not db.subscriptions.count


async def test_too_many_subscribers_and_too_slow_ones_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("hornbeam_server.node.subscriptions.tails.QUEUE_BYTES", 2_000)
    async with opened(tmp_path, max_subscriptions=2) as db:
        await apply(db)
        await fill(db, orders=0)
        async with reader(db, "orders") as slow, reader(db, "orders", {"o_id": 5}) as quick:
            with pytest.raises(Overloaded, match="2 subscriptions"):
                await reader(db, "customer").__aenter__()
            for number in range(30):
                done = await order(db, number, 0, number)
            await quick.step()
            await until(lambda: reached_by(quick, done))
            with pytest.raises(Overloaded, match="too slow"):
                await slow.step()


async def test_an_altered_relation_ends_its_subscriptions_and_they_go_on(tmp_path):
    async with opened(tmp_path) as db:
        await apply(db)
        await fill(db, orders=1)
        async with reader(db, "orders") as orders:
            await order(db, 5, 0, 5)
            await orders.step()
            await apply(db, tables=TABLES_LONGER)
            done = await db.execute("INSERT INTO orders VALUES (6, 0, 6, 'x', 'more')")
            with pytest.raises(Unavailable, match="altered"):
                await orders.step()
        async with reader(db, "orders", moment=orders.moment) as again:
            await again.until(done.commit_ts)
            assert again.seen == [(None, (6, 0, 6, "x", "more"))]


async def test_a_dropped_view_ends_its_subscriptions(tmp_path):
    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        await reached(db, db.watermark())
        async with reader(db, "totals") as totals:
            await apply(db)
            with pytest.raises(NotFound, match="no relation or view totals"):
                await totals.step()


async def test_a_rebuilt_view_ends_its_subscriptions(tmp_path):
    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        await reached(db, db.watermark())
        async with reader(db, "totals") as totals:
            await db.deferred.rebuild(["totals"])
            with pytest.raises(Unavailable, match="rebuilt"):
                await totals.until(1 << 60)
        with pytest.raises(SnapshotTooOld):
            await reader(db, "totals", moment=totals.moment).__aenter__()


async def test_closing_the_database_ends_all_subscriptions(tmp_path):
    async with opened(tmp_path) as db:
        await apply(db)
        async with reader(db, "orders") as orders:
            db.subscriptions.close()
            with pytest.raises(Unavailable, match="ending"):
                await orders.step()
            with pytest.raises(Unavailable, match="ending"):
                await reader(db, "orders").__aenter__()


TABLES_LONGER = """
CREATE TABLE customer (c_id INT PRIMARY KEY, c_name TEXT);
CREATE TABLE orders (
    o_id INT PRIMARY KEY, o_c_id INT REFERENCES customer (c_id), o_total BIGINT, o_note TEXT,
    o_more TEXT
);
"""
