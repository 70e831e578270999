"""Table stores under whole histories, and under calls that overlap."""

import asyncio
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Cell, Put
from tests.contract.contract_adapters import STORES, collect, examples, opened, over, run
from tests.depth import depth

every = over(STORES)

HISTORIES = depth(25, long=80)
# No key is a prefix of another; prefixes end before, inside and behind bytes of 0xff.
KEYS = (
    b"\0\0",
    b"\0\1",
    b"a\0",
    b"a\xff",
    b"b\0\0",
    b"b\0\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xff\0",
    b"\xff\xff\0",
    b"\xff\xff\xff",
)
BOUNDS = (b"", b"\0", b"a", b"b\0", b"\xff", b"\xff\xff", *KEYS)
VALUES = st.sampled_from([TOMBSTONE, b"x", b"y" * 30])
TIMES = st.integers(1, 8)


def model_rows(model, at):
    """The newest version of each key, unless it is a tombstone."""
    newest = {}
    for (key, ts), value in sorted(model.items()):
        if ts <= at:
            newest[key] = Cell(key, ts, value)
    return [newest[key] for key in sorted(newest) if newest[key].value != TOMBSTONE]


def model_purge(model, horizon):
    before = len(model)
    for key, ts in list(model):
        if any(other == key and ts < later <= horizon for other, later in model):
            del model[key, ts]
    for (key, ts), value in list(model.items()):
        if value == TOMBSTONE and ts <= horizon:
            del model[key, ts]
    return before - len(model)


class History:
    """A table and its model. Reads and writes stay at or above `horizon`, that of the last
    purge."""

    def __init__(self, store, table):
        self.store, self.table = store, table
        self.model, self.horizon = {}, 0

    async def put(self, puts, ts):
        if ts > self.horizon:
            await self.store.put({self.table: [Put(*put) for put in puts]}, ts)
            self.model.update({(key, ts): value for key, value in puts})

    async def purge(self, horizon):
        assert await self.store.purge(self.table, horizon) == model_purge(self.model, horizon)
        self.horizon = max(self.horizon, horizon)

    async def check(self, key, expected, value):
        found = {cell.key: cell.value for cell in model_rows(self.model, NEWEST)}.get(key)
        ts = self.horizon + 1
        done = await self.store.check_and_put(self.table, key, expected, value, ts)
        assert done == (found == expected)
        if done:
            last = max((ts for other, ts in self.model if other == key), default=0)
            self.model[key, max(ts, last + 1)] = value

    async def scan(self, start, end, at, reverse, limit):
        at = max(at, self.horizon)
        rows = [
            cell
            for cell in model_rows(self.model, at)
            if start <= cell.key and (end is None or cell.key < end)
        ]
        found = self.store.scan(self.table, start, end, at, reverse=reverse, limit=limit)
        expected = (rows[::-1] if reverse else rows)[:limit]
        assert await collect(found) == expected
        values = [cell.value for cell in expected]
        scan = self.store.scan_values
        found = scan(self.table, start, end, at, reverse=reverse, limit=limit)
        assert await collect(found) == values
        if (direct := self.store.direct) is not None:
            most = len(rows) if limit is None else limit
            assert values == direct.scan_directly(
                self.table, start, end, at, reverse=reverse, most=most
            )

    async def compare(self):
        for at in range(self.horizon, 12):
            rows = model_rows(self.model, at)
            by_key = {cell.key: cell for cell in rows}
            assert await collect(self.store.scan(self.table, b"", None, at)) == rows
            cells = await self.store.get(self.table, KEYS, at)
            assert cells == [by_key.get(key) for key in KEYS]
            if (direct := self.store.direct) is not None:
                assert cells == [direct.get_directly(self.table, key, at) for key in KEYS]
            groups = await self.store.scan_prefixes(self.table, BOUNDS, at)
            assert groups == [[c for c in rows if c.key.startswith(p)] for p in BOUNDS]


OPERATIONS = st.one_of(
    st.tuples(st.just("put"), st.lists(st.tuples(st.sampled_from(KEYS), VALUES)), TIMES),
    st.tuples(st.just("put"), st.lists(st.tuples(st.sampled_from(KEYS), VALUES)), TIMES),
    st.tuples(st.just("purge"), st.integers(0, 9)),
    st.tuples(
        st.just("check"),
        st.sampled_from(KEYS),
        st.sampled_from([None, b"x", TOMBSTONE]),
        st.sampled_from([b"x", TOMBSTONE]),
    ),
    st.tuples(
        st.just("scan"),
        st.sampled_from(BOUNDS),
        st.none() | st.sampled_from(BOUNDS),
        TIMES,
        st.booleans(),
        st.none() | st.integers(0, 4),
    ),
)


@every
def test_every_history_agrees_with_a_model(adapter, tmp_path):
    """Each history has a table in one store, between two tables that hold all keys, so that a leak
    would show. At the end the store is opened and read again."""
    histories = []

    async def play(store, number, operations):
        history = History(store, f"t{number}")
        tables = (f"before{number}", history.table, f"behind{number}")
        await asyncio.gather(*[store.create_table(table) for table in tables])
        for table in (f"before{number}", f"behind{number}"):
            await store.put({table: [Put(key, b"leaked") for key in KEYS]}, 1)
        for name, *arguments in operations:
            await getattr(history, name)(*arguments)
        await history.compare()
        histories.append(history)

    async def play_all():
        numbers, loop = count(), asyncio.get_running_loop()

        @settings(max_examples=examples(adapter, HISTORIES))
        @given(st.lists(OPERATIONS, max_size=14))
        def one(operations):
            played = play(store, next(numbers), operations)
            asyncio.run_coroutine_threadsafe(played, loop).result()

        async with opened(adapter, tmp_path) as store:
            await asyncio.to_thread(one)

    async def ask_again():
        async with opened(adapter, tmp_path) as store:
            for history in histories:
                history.store = store
                await history.compare()

    run(play_all())
    run(ask_again())
    assert len(histories) >= examples(adapter, HISTORIES)


@every
async def test_a_recreated_table_is_empty_also_after_opening_again(adapter, tmp_path):
    for _ in range(3):
        async with opened(adapter, tmp_path) as store:
            await store.create_table("t")
            assert await collect(store.scan("t", b"", None, NEWEST)) == []
            await store.put({"t": [Put(key, b"old") for key in KEYS]}, 1)
        async with opened(adapter, tmp_path) as store:
            assert len(await collect(store.scan("t", b"", None, NEWEST))) == len(KEYS)
            await store.drop_table("t")


@every
async def test_dropping_a_table_leaves_its_neighbours(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        await asyncio.gather(*[store.create_table(table) for table in ("a", "b", "c")])
        for table in ("a", "b", "c"):
            await store.put({table: [Put(key, b"v") for key in KEYS]}, 1)
        await store.drop_table("b")
        for table in ("a", "c"):
            assert len(await store.get(table, KEYS, 1)) == len(KEYS)
            assert len(await collect(store.scan(table, b"", None, 1))) == len(KEYS)


@every
async def test_batches_are_bounded_and_never_empty(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        await store.create_table("t")
        await store.put({"t": [Put(i.to_bytes(4), b"v") for i in range(10_000)]}, 1)
        await store.put({"t": [Put(i.to_bytes(4), TOMBSTONE) for i in range(9_000)]}, 2)
        for at, rows in ((1, 10_000), (2, 1_000)):
            sizes = [len(batch) async for batch in store.scan("t", b"", None, at)]
            assert sum(sizes) == rows
            assert 0 < min(sizes) <= max(sizes) <= 4_096


@every
async def test_prefixes_of_many_rows_and_many_prefixes(adapter, tmp_path):
    """All rows are of one snapshot, however long the read takes."""
    async with opened(adapter, tmp_path) as store:
        keys = [i.to_bytes(2) for i in range(3_000)]
        await store.create_table("t")
        await store.put({"t": [Put(key, b"v") for key in keys]}, 1)
        there = set(keys)
        prefixes = [b"\x00\x01", b"", b"\x01", *keys, b"\xff", b"\x02"]
        reading = asyncio.create_task(store.scan_prefixes("t", prefixes, 1))
        for _ in range(20):
            await asyncio.sleep(0)
            await store.put({"t": [Put(key, b"later") for key in keys[::500]]}, 2)
        for prefix, cells in zip(prefixes, await reading, strict=True):
            rows = [prefix] if prefix in there else keys
            rows = [key for key in rows if key.startswith(prefix)]
            assert cells == [Cell(key, 1, b"v") for key in rows]


@every
async def test_a_scan_may_be_abandoned(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        await store.create_table("t")
        await store.put({"t": [Put(i.to_bytes(4), b"v") for i in range(5_000)]}, 1)
        scan = store.scan("t", b"", None, 1)
        await anext(scan)
        await scan.aclose()
        assert len(await collect(store.scan("t", b"", None, 1))) == 5_000


@every
async def test_scans_keep_their_snapshot_beside_puts_and_purges(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        keys = [i.to_bytes(4) for i in range(3_000)]
        await store.create_table("t")
        await store.put({"t": [Put(key, b"1") for key in keys]}, 1)

        async def write():
            for ts in range(2, 8):
                await store.put({"t": [Put(key, b"%d" % ts) for key in keys]}, ts)
                await store.purge("t", 1)

        async def read(reverse):
            for _ in range(3):
                cells = await collect(store.scan("t", b"", None, 1, reverse=reverse))
                assert sorted(cells) == [Cell(key, 1, b"1") for key in keys]

        await asyncio.gather(write(), read(False), read(True))
        assert {c.value for c in await collect(store.scan("t", b"", None, NEWEST))} == {b"7"}


@every
async def test_one_of_many_concurrent_checks_succeeds(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        await store.create_table("t")
        for expected in (None, b"a", b"b"):
            if expected is not None:
                await store.put({"t": [Put(b"k", expected)]}, 50 + expected[0])
            tries = [store.check_and_put("t", b"k", expected, b"%d" % i, 9) for i in range(8)]
            assert sum(await asyncio.gather(*tries)) == 1


@every
async def test_a_purge_removes_more_versions_than_fit_one_batch(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        keys = [i.to_bytes(4) for i in range(4_000)]
        await store.create_table("t")
        for ts, value in ((1, b"a"), (2, b"b"), (3, TOMBSTONE), (4, b"d")):
            await store.put({"t": [Put(key, value) for key in keys]}, ts)
        assert await store.purge("t", 3) == 3 * len(keys)
        assert await collect(store.scan("t", b"", None, 3)) == []
        assert len(await collect(store.scan("t", b"", None, 4))) == len(keys)


@every
async def test_closing_ends_running_scans(adapter, tmp_path):
    store = adapter.open(tmp_path)
    await store.create_table("t")
    await store.put({"t": [Put(i.to_bytes(4), b"v" * 50) for i in range(30_000)]}, 1)

    scans = [collect(store.scan("t", b"", None, 1)) for _ in range(4)]
    reads = [asyncio.create_task(scan) for scan in scans]
    await asyncio.sleep(0.002)
    await store.close()
    for read in reads:
        with pytest.raises(Unavailable, match="closed"):
            await read
