"""Ranges of keys that were read: a change is noticed exactly if another read would show it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Put, TableReader
from hornbeam_server.storage.read_ranges import NotingStore, ReadRange, after
from hornbeam_server.storage.simulated.store import SimulatedStore
from hornbeam_server.txlayer.locking.guards import Guarded, Ranges
from hornbeam_server.txlayer.locking.read_checks import changed_range

TABLE, AT = "r.t.1", 10
KEYS = st.binary(min_size=2, max_size=2).map(lambda b: bytes(each % 4 for each in b))
PREFIXES = st.integers(0, 3).map(lambda n: bytes([n]))
ENDS = st.none() | KEYS


async def store_with(rows: Iterable[bytes], later: dict[bytes, bool]) -> SimulatedStore:
    """A store with `rows` at 5. After the snapshot AT, each key of `later` is put, or deleted."""
    store = SimulatedStore()
    await store.create_table(TABLE)
    await store.put({TABLE: [Put(key, b"old") for key in rows]}, 5)
    changes = [Put(key, b"new" if put else TOMBSTONE) for key, put in later.items()]
    await store.put({TABLE: changes}, AT + 5)
    return store


async def read(store: TableReader, what: tuple, at: int) -> object:
    """What the store answers to a read at a snapshot."""
    match what:
        case "get", key:
            return await store.get(TABLE, [key], at)
        case "prefixes", prefixes:
            return await store.scan_prefixes(TABLE, prefixes, at)
        case "scan", start, end, reverse, limit:
            scan = store.scan(TABLE, start, end, at, reverse=reverse, limit=limit)
            return [cell async for cells in scan for cell in cells]


READS = st.one_of(
    st.tuples(st.just("get"), KEYS),
    st.tuples(st.just("prefixes"), st.lists(PREFIXES, min_size=1, max_size=2)),
    st.tuples(st.just("scan"), KEYS, ENDS, st.booleans(), st.none() | st.integers(1, 3)),
)


@given(st.sets(KEYS), st.dictionaries(KEYS, st.booleans()), READS)
async def test_a_change_is_noticed_exactly_if_a_read_would_show_it(rows, later, what):
    store = await store_with(rows, later)
    ranges: list[ReadRange] = []
    before = await read(NotingStore(store, ranges), what, AT)
    changed = await changed_range(store, ranges, Guarded(since=AT + 1))
    assert (changed is not None) == (before != await read(store, what, NEWEST))


@given(st.sets(KEYS), READS)
async def test_a_guarded_range_has_all_keys_that_a_read_would_show(rows, what):
    store = await store_with(rows, {})
    ranges: list[ReadRange] = []
    before = await read(NotingStore(store, ranges), what, AT)
    guarded = Ranges.of(ranges)
    for number in range(16):
        key = bytes([number // 4, number % 4])
        changed = await store_with(rows, {key: key not in rows})
        if await read(changed, what, NEWEST) != before:
            assert guarded.have(TABLE, key)


@pytest.mark.parametrize("reverse", [False, True])
async def test_a_scan_that_is_left_early_has_read_up_to_its_last_row(reverse):
    keys = [b"%05d" % number for number in range(9_000)]
    store = await store_with(keys, {})
    ranges: list[ReadRange] = []
    scan = NotingStore(store, ranges).scan(TABLE, keys[5], keys[-5], AT, reverse=reverse)
    async with aclosing(scan) as batches:
        async for cells in batches:
            last = cells[-1].key
            break
    assert len(cells) < len(keys) - 10
    bounds = (last, keys[-5]) if reverse else (keys[5], after(last))
    assert ranges == [ReadRange(TABLE, *bounds, len(cells), AT)]


@given(st.lists(st.tuples(KEYS, ENDS)))
def test_ranges_have_the_keys_of_all_their_parts(bounds):
    ranges = Ranges({TABLE: bounds})
    for number in range(16):
        key = bytes([number // 4, number % 4])
        expected = any(start <= key and (end is None or key < end) for start, end in bounds)
        assert ranges.have(TABLE, key) == expected
        assert not ranges.have("r.other.1", key)
    parts = ranges.by_table[TABLE]
    assert all(one[1] is not None and one[1] < other[0] for one, other in pairwise(parts))


async def test_a_table_without_a_newer_commit_is_not_read_again():
    class Untouchable(SimulatedStore):
        def scan(self, *args, **options):
            raise AssertionError("read again")

    guarded = Guarded(since=AT, newest={TABLE: AT})
    ranges = [ReadRange(TABLE, b"a", None, 3, AT), ReadRange(TABLE, b"a", after(b"a"), 1, AT)]
    assert await changed_range(Untouchable(), ranges, guarded) is None


async def test_unnoted_tables_are_read_without_a_note():
    store = await store_with([b"\0\0"], {})
    ranges: list[ReadRange] = []
    noting = NotingStore(store, ranges, {TABLE})
    assert await noting.get(TABLE, [b"\0\0"], AT) == await store.get(TABLE, [b"\0\0"], AT)
    assert [cell async for cells in noting.scan(TABLE, b"", None, AT) for cell in cells]
    assert await noting.scan_prefixes(TABLE, [b"\0"], AT) == [await store.get(TABLE, [b"\0\0"], AT)]
    assert ranges == []
