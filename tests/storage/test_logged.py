"""Reads with logged rows over the store: the same as if the store had these rows."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.storage.logged import Layer, LoggedRows, LoggedStore
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Put
from hornbeam_server.storage.simulated.store import SimulatedStore

KEYS = [bytes([first, second]) for first in (97, 98, 99) for second in range(4)]
BATCH = st.dictionaries(
    st.sampled_from(KEYS), st.sampled_from([TOMBSTONE, b"x", b"y" * 7, b"z" * 30]), min_size=1
)


async def stores(stored, logged, applied):
    """A store with the batches `stored` and the keys `applied` of `logged`, under logged rows; and
    a store that has all of them. Batch number n has timestamp 10 * n."""
    below, whole = SimulatedStore(scan_rows=3), SimulatedStore(scan_rows=3)
    for store in (below, whole):
        await store.create_table("t")
    laid = LoggedRows()
    for number, batch in enumerate([*stored, *logged], start=1):
        puts, ts = [Put(*item) for item in batch.items()], 10 * number
        await whole.put({"t": puts}, ts)
        if number <= len(stored):
            await below.put({"t": puts}, ts)
        else:
            laid.add(Layer(ts, {"t": puts}))
            await below.put({"t": [put for put in puts if put.key in applied]}, ts)
    return LoggedStore(below, laid), whole


async def scanned(store, *arguments, **options):
    batches = [cells async for cells in store.scan("t", *arguments, **options)]
    assert all(batches)
    return [cell for cells in batches for cell in cells]


@given(
    st.lists(BATCH, max_size=3),
    st.lists(BATCH, max_size=3),
    st.sets(st.sampled_from(KEYS)),
    st.sampled_from([15, 25, 35, 45, NEWEST]),
    st.sampled_from([(b"", None), (b"b", None), (b"a\2", b"b\3")]),
    st.booleans(),
    st.sampled_from([None, 1, 2, 5, 20]),
)
def test_reads_are_those_of_a_store_that_has_the_rows(
    stored, logged, applied, at, bounds, reverse, limit
):
    async def run():
        over, whole = await stores(stored, logged, applied)
        assert await over.get("t", KEYS, at) == await whole.get("t", KEYS, at)
        prefixes = [b"a", b"b", b"c\1"]
        groups = await whole.scan_prefixes("t", prefixes, at)
        assert await over.scan_prefixes("t", prefixes, at) == groups
        options = {"reverse": reverse, "limit": limit}
        expected = await scanned(whole, *bounds, at, **options)
        assert await scanned(over, *bounds, at, **options) == expected
        batches = over.scan_values("t", *bounds, at, **options)
        values = [value async for batch in batches for value in batch]
        assert values == [cell.value for cell in expected]

    asyncio.run(run())


@given(
    st.lists(BATCH, max_size=2),
    st.lists(BATCH, max_size=2),
    st.sets(st.sampled_from(KEYS)),
    st.integers(1, 80),
)
def test_an_answer_within_a_room_is_the_beginning_of_the_whole(stored, logged, applied, room):
    async def run():
        over, whole = await stores(stored, logged, applied)
        found = await over.get("t", KEYS, NEWEST, room=room)
        assert found == (await whole.get("t", KEYS, NEWEST))[: len(found)]
        sizes = [len(cell.value) for cell in found if cell is not None]
        assert found
        assert sum(sizes[:-1]) < room
        groups = await over.scan_prefixes("t", [b"a", b"b"], NEWEST, room=room)
        assert groups == (await whole.scan_prefixes("t", [b"a", b"b"], NEWEST))[: len(groups)]
        assert sum(len(cell.value) for cells in groups for cell in cells) <= room

    asyncio.run(run())


async def test_a_row_that_is_applied_during_a_read_is_read():
    over, _ = await stores([], [{b"a\0": b"x"}], set())
    laid, below = over._logged, over._store
    (layer,) = laid.layers("t", NEWEST)
    get, scan_prefixes = below.get, below.scan_prefixes

    async def before(read, *arguments, **options):
        found = await read(*arguments, **options)  # the store has not got the row
        await below.put({"t": [Put(b"a\0", b"x")]}, layer.ts)
        laid.drop(layer)
        return found

    below.get = lambda *a, **o: before(get, *a, **o)
    (cell,) = await over.get("t", [b"a\0"], NEWEST)
    assert cell.value == b"x"
    assert laid.layers("t", NEWEST) == []
    assert (laid.rows, laid.bytes) == (0, 0)
    laid.add(layer)
    below.scan_prefixes = lambda *a, **o: before(scan_prefixes, *a, **o)
    ((cell,),) = await over.scan_prefixes("t", [b"a"], NEWEST)
    assert cell.value == b"x"


async def test_a_scan_keeps_the_rows_that_it_began_with():
    rows = dict.fromkeys(KEYS, b"x")
    over, whole = await stores([], [rows], set())
    (layer,) = over._logged.layers("t", NEWEST)
    scan = over.scan("t", b"", None, NEWEST)
    await over._store.put({"t": [Put(b"a\0", b"x")]}, layer.ts)
    found = [await anext(scan)]
    await over._store.put({"t": [Put(*item) for item in rows.items()]}, layer.ts)
    over._logged.drop(layer)
    found += [cells async for cells in scan]
    cells = [cell for batch in found for cell in batch]
    assert cells == await scanned(whole, b"", None, NEWEST)


async def test_values_are_read_without_their_rows_unless_logged_rows_are_in_the_range():
    over, _ = await stores([dict.fromkeys(KEYS, b"x")], [{b"b\0": b"y"}], set())
    below, read = over._store, []
    scan, scan_values = below.scan, below.scan_values
    below.scan = lambda *a, **o: read.append("rows") or scan(*a, **o)
    below.scan_values = lambda *a, **o: read.append("values") or scan_values(*a, **o)

    async def reads(start, end, at):
        read.clear()
        found = [each async for batch in over.scan_values("t", start, end, at) for each in batch]
        return found, read[0]

    assert await reads(b"a", b"b", NEWEST) == ([b"x"] * 4, "values")
    assert await reads(b"", None, 15) == ([b"x"] * 12, "values")
    assert await reads(b"a\2", b"b\1", NEWEST) == ([b"x", b"x", b"y"], "rows")
