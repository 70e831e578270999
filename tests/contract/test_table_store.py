"""The guarantees of every table store (`storage.ports.TableStore`)."""

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.schema.errors import Corruption, Unavailable
from hornbeam_server.storage.ports import BATCH_BYTES, NEWEST, TOMBSTONE, Cell, Put
from tests.contract.contract_adapters import STORES, collect, examples, opened, over, run
from tests.depth import depth

every = over(STORES)


def k(number):
    return b"%06d" % number


async def filled(store, count=10, ts=5):
    await store.create_table("t")
    await store.put({"t": [Put(k(i), b"v%d" % i) for i in range(count)]}, ts)


@every
async def test_tables_are_created_and_dropped_idempotently(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        for name in ("b", "a", "b"):
            await store.create_table(name)
        assert await store.tables() == ["a", "b"]
        await store.put({"a": [Put(b"k", b"old")]}, 1)
        await store.drop_table("a")
        await store.drop_table("a")
        assert await store.tables() == ["b"]
        await store.create_table("a")
        assert await store.get("a", [b"k"], NEWEST) == [None]
        assert await store.size("a") == 0


@every
async def test_errors_name_a_missing_table(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        with pytest.raises(Corruption, match="none"):
            await store.get("none", [b"k"], 1)
        with pytest.raises(Corruption, match="none"):
            await store.put({"none": [Put(b"k", b"v")]}, 1)
        with pytest.raises(Corruption, match="none"):
            await collect(store.scan("none", b"", None, 1))
        if store.direct is not None:
            with pytest.raises(Corruption, match="none"):
                store.direct.get_directly("none", b"k", 1)
            with pytest.raises(Corruption, match="none"):
                store.direct.scan_directly("none", b"", None, 1, reverse=False, most=1)


@every
async def test_get_returns_the_newest_version_at_or_below_the_timestamp(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        await store.create_table("t")
        for ts, value in ((1, b"one"), (3, b"three"), (5, TOMBSTONE), (7, b"seven")):
            await store.put({"t": [Put(b"k", value)]}, ts)
        seen = [(await store.get("t", [b"k"], at))[0] for at in range(9)]
        one, three, seven = (
            Cell(b"k", 1, b"one"),
            Cell(b"k", 3, b"three"),
            Cell(b"k", 7, b"seven"),
        )
        assert seen == [None, one, one, three, three, None, None, seven, seven]
        assert await store.get("t", [b"x", b"k", b"", b"k"], 3) == [None, three, None, three]
        assert await store.get("t", [], 3) == []


@every
async def test_a_put_may_be_repeated(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        await store.create_table("t")
        for value, forced in ((b"first", True), (b"second", False), (b"third", True)):
            await store.put({"t": [Put(b"k", value)]}, 4, forced=forced)
            assert await store.get("t", [b"k"], 4) == [Cell(b"k", 4, value)]
        await store.put({}, 5)


@every
async def test_concurrent_calls_have_the_results_of_separate_calls(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        await store.create_table("t")
        await store.create_table("u")
        puts = [{"t": [Put(k(0), b"%d" % ts), Put(k(ts), b"t")]} for ts in range(1, 9)]
        puts += [{"t": [Put(k(ts), b"t")], "u": [Put(k(0), b"u")]} for ts in range(11, 19)]
        await asyncio.gather(*(store.put(writes, ts) for ts, writes in enumerate(puts, 1)))
        asked = [[k(0)], [k(3), k(0)], [k(99)], [], [k(i) for i in range(150)], [k(0), k(0)]]
        wanted = [(keys, at) for at in (4, 6, NEWEST) for keys in asked]
        found = await asyncio.gather(*(store.get("t", keys, at) for keys, at in wanted))
        assert found == [await store.get("t", keys, at) for keys, at in wanted]
        assert [cell.value for cell in found[0]] == [b"4"]
        assert [cell and cell.ts for cell in found[1]] == [3, 4]
        assert [cell.value for cell in found[6]] == [b"6"]
        assert [cell.value for cell in found[12]] == [b"8"]
        assert sum(cell is not None for cell in found[16]) == 17
        assert await store.get("u", [k(0)], NEWEST) == [Cell(k(0), 16, b"u")]


@every
async def test_scans_of_many_batches(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        await filled(store, 5_000)
        forward = [k(i) for i in range(10, 4_990)]
        for limit in (None, 0, 1, 255, 256, 257, 5_000):
            for reverse, expected in ((False, forward), (True, forward[::-1])):
                scan = store.scan("t", k(10), k(4_990), 9, reverse=reverse, limit=limit)
                cells = await collect(scan)
                assert [cell.key for cell in cells] == expected[:limit]
                scan = store.scan_values("t", k(10), k(4_990), 9, reverse=reverse, limit=limit)
                assert await collect(scan) == [cell.value for cell in cells]


@every
async def test_a_scan_omits_later_puts(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        await filled(store, 5_000)
        seen = []
        async for batch in store.scan("t", b"", None, 9):
            seen += batch
            await store.put({"t": [Put(k(i), TOMBSTONE) for i in range(5_000)]}, 10)
            await store.put({"t": [Put(k(i), b"new") for i in range(5_000, 5_100)]}, 11)
        assert seen == [Cell(k(i), 5, b"v%d" % i) for i in range(5_000)]


@every
async def test_rows_of_prefixes_come_in_the_order_of_the_prefixes(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        await filled(store, 30)
        await store.put({"t": [Put(k(11), TOMBSTONE)]}, 6)
        groups = await store.scan_prefixes("t", [b"00002", b"9", b"00001", b"000029"], 9)
        numbers = [[int(cell.key) for cell in group] for group in groups]
        assert numbers == [list(range(20, 30)), [], [10, *range(12, 20)], [29]]
        assert await store.scan_prefixes("t", [], 9) == []


@every
async def test_tables_are_separate(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        for name in ("a", "b", "c"):
            await store.create_table(name)
            await store.put({name: [Put(key, name.encode()) for key in (b"", b"\xff" * 9)]}, 1)
        for reverse in (False, True):
            cells = await collect(store.scan("b", b"", None, 9, reverse=reverse))
            assert [cell.value for cell in cells] == [b"b", b"b"]
        assert [cell.value for cell in (await store.scan_prefixes("b", [b""], 9))[0]] == [b"b"] * 2


@every
async def test_check_and_put_compares_with_the_newest_version_and_writes_after_it(
    adapter, tmp_path
):
    async with opened(adapter, tmp_path) as store:
        await store.create_table("t")
        assert not await store.check_and_put("t", b"k", b"x", b"y", 1)
        assert await store.check_and_put("t", b"k", None, b"a", 10)
        assert not await store.check_and_put("t", b"k", None, b"b", 11)
        assert await store.check_and_put("t", b"k", b"a", b"b", 3)
        assert await store.get("t", [b"k"], NEWEST) == [Cell(b"k", 11, b"b")]
        await store.put({"t": [Put(b"k", TOMBSTONE)]}, 20)
        assert await store.check_and_put("t", b"k", None, b"again", 4)
        assert await store.get("t", [b"k"], NEWEST) == [Cell(b"k", 21, b"again")]


@every
async def test_size_follows_the_stored_versions(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        await filled(store, 100, ts=1)
        first = await store.size("t")
        await filled(store, 100, ts=2)
        second = await store.size("t")
        await store.purge("t", 2)
        assert 600 < first < second
        assert await store.size("t") == first


LARGE = BATCH_BYTES * 2 // 5
"""Three such rows fill a batch."""


async def filled_with_large_rows(store):
    """12 large rows between many small ones, in four groups."""
    await store.create_table("t")
    puts = [
        Put(b"%d/%03d" % (group, i), bytes([65 + group]) * (LARGE if i in (0, 20, 40) else 9))
        for group in range(4)
        for i in range(60)
    ]
    await store.put({"t": puts}, 5)
    return [Cell(key, 5, value) for key, value in puts]


def bytes_of(cells):
    return sum(len(cell.value) for cell in cells)


@every
@pytest.mark.parametrize("limit", [None, 100])
async def test_a_batch_of_a_scan_ends_at_its_maximum_of_bytes(adapter, tmp_path, limit):
    async with opened(adapter, tmp_path) as store:
        cells = await filled_with_large_rows(store)
        for reverse in (False, True):
            scan = store.scan("t", b"", None, NEWEST, reverse=reverse, limit=limit)
            batches = [batch async for batch in scan]
            wanted = (cells[::-1] if reverse else cells)[:limit]
            assert list(itertools.chain(*batches)) == wanted
            assert all(0 <= bytes_of(batch[:-1]) < BATCH_BYTES for batch in batches)
            assert len(batches) >= bytes_of(wanted) // (BATCH_BYTES + LARGE)


@every
async def test_a_get_with_limited_room_returns_the_first_keys(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        cells = await filled_with_large_rows(store)
        keys = [b"none", *(cell.key for cell in cells)]
        for room in (1, 100, LARGE + 1, BATCH_BYTES):
            found = []
            while len(found) < len(keys):
                some = await store.get("t", keys[len(found) :], NEWEST, room=room)
                assert some
                assert bytes_of(cell for cell in some[:-1] if cell is not None) < room
                found += some
            assert found == [None, *cells]
        assert await store.get("t", keys, NEWEST) == [None, *cells]
        assert await store.get("t", [], NEWEST, room=1) == []


@every
async def test_prefixes_with_limited_room_return_the_first_groups(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        cells = await filled_with_large_rows(store)
        by_group = [cells[i : i + 60] for i in (180, 0, 60, 120)]
        prefixes = [b"3/", b"none", b"0/", b"1/", b"2/"]
        whole = [by_group[0], [], *by_group[1:]]
        size = bytes_of(by_group[0])
        for room, answered in ((0, 0), (size - 1, 0), (size, 2), (2 * size, 3)):
            found = await store.scan_prefixes("t", prefixes, NEWEST, room=room)
            assert found == whole[: len(found)]
            assert min(answered, 1) <= len(found) <= answered
        assert await store.scan_prefixes("t", prefixes, NEWEST, room=5 * size) == whole
        assert await store.scan_prefixes("t", prefixes, NEWEST) == whole


@every
async def test_scans_between_splits_cover_the_table(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        await filled(store, 2_500)
        await store.flush()
        splits = await store.splits("t")
        assert splits == sorted(set(splits))
        starts, ends = [b"", *splits], [*splits, None]
        parts = [
            await collect(store.scan("t", start, end, 9))
            for start, end in zip(starts, ends, strict=True)
        ]
        assert list(itertools.chain(*parts)) == await collect(store.scan("t", b"", None, 9))
        with pytest.raises(Corruption, match="none"):
            await store.splits("none")


@every
async def test_close_is_idempotent_and_later_calls_fail(adapter, tmp_path):
    store = adapter.open(tmp_path)
    await filled(store, 5_000)
    scan = store.scan("t", b"", None, 9)
    await anext(scan)
    await store.close()
    await store.close()
    for call in (
        store.get("t", [b"k"], 1),
        store.scan_prefixes("t", [b"k"], 1),
        store.put({"t": [Put(b"k", b"v")]}, 1),
        store.put({"t": [Put(b"k", b"v")]}, 1, forced=True),
        store.put({"t": [Put(k(i), b"v") for i in range(5_000)]}, 1),
        store.check_and_put("t", b"k", None, b"v", 1),
        store.purge("t", 1),
        store.flush(),
        store.create_table("u"),
    ):
        with pytest.raises(Unavailable):
            await call
    if store.direct is not None:
        with pytest.raises(Unavailable):
            store.direct.get_directly("t", k(1), 9)
        with pytest.raises(Unavailable):
            store.direct.scan_directly("t", b"", None, 9, reverse=False, most=1)


@over(STORES, reopen=True)
async def test_content_survives_closing_and_opening_again(adapter, tmp_path):
    async with opened(adapter, tmp_path) as store:
        await filled(store, 3_000)
        await store.create_table("gone")
        await store.drop_table("gone")
        await store.flush()
    async with opened(adapter, tmp_path) as store:
        assert await store.tables() == ["t"]
        assert len(await collect(store.scan("t", b"", None, 9))) == 3_000


KEYS = st.sampled_from([b"a\x01", b"b\x01", b"c\x01"])
TIMES = st.integers(1, 8)
PUTS = st.dictionaries(
    st.tuples(KEYS, TIMES), st.sampled_from([TOMBSTONE, b"x", b"y"]), max_size=14
)


def model_get(puts, key, at):
    times = [ts for (other, ts) in puts if other == key and ts <= at]
    if not times or puts[key, max(times)] == TOMBSTONE:
        return None
    return Cell(key, max(times), puts[key, max(times)])


def model_kept(puts, horizon):
    """The versions that some snapshot at or above `horizon` needs."""
    return {
        (key, ts): value
        for (key, ts), value in puts.items()
        if ts > horizon or model_get(puts, key, horizon) == Cell(key, ts, value)
    }


@every
def test_reads_before_and_after_a_purge_agree_with_a_model(adapter, tmp_path_factory):
    async def check_reads(store, puts, at, start, end, limit):
        keys = [b"a\x01", b"b\x01", b"c\x01"]
        cells = [model_get(puts, key, at) for key in keys]
        assert await store.get("t", keys, at) == cells
        rows = [c for c in cells if c is not None]
        assert await store.scan_prefixes("t", [b"", b"b"], at) == [
            rows,
            [c for c in rows if c.key.startswith(b"b")],
        ]
        inside = [c for c in rows if start <= c.key and (end is None or c.key < end)]
        for reverse in (False, True):
            found = await collect(store.scan("t", start, end, at, reverse=reverse, limit=limit))
            assert found == (inside[::-1] if reverse else inside)[:limit]

    async def scenario(puts, horizon, start, end, limit):
        async with opened(adapter, tmp_path_factory.mktemp("store")) as store:
            await store.create_table("t")
            for (key, ts), value in puts.items():
                await store.put({"t": [Put(key, value)]}, ts)
            for at in range(10):
                await check_reads(store, puts, at, start, end, limit)
            kept = model_kept(puts, horizon)
            assert await store.purge("t", horizon) == len(puts) - len(kept)
            assert await store.purge("t", horizon) == 0
            for at in range(horizon, 10):
                await check_reads(store, puts, at, start, end, limit)
            size = sum(len(key) + len(value) for (key, _), value in kept.items())
            assert size <= await store.size("t") <= size + len(kept)

    @settings(max_examples=examples(adapter, depth(15, long=40)))
    @given(PUTS, TIMES, KEYS, st.none() | KEYS, st.none() | st.integers(0, 3))
    def every_example(puts, horizon, start, end, limit):
        run(scenario(puts, horizon, start, end, limit))

    every_example()
