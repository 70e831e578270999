"""Snapshots: reads with an overlay read the merged rows, and traces record the stored rows read."""

import asyncio
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.query.dialect.duckdb_types import from_record_batch
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.ports import BATCH_BYTES, NEWEST, TOMBSTONE, Put
from hornbeam_server.storage.simulated.store import SimulatedStore
from hornbeam_server.storage.snapshot import (
    Overlay,
    ReadItem,
    RememberingSnapshot,
    RowVersion,
    Snapshot,
)
from tests.storage.storage_world import catalog, collect

CODECS = Codecs(catalog())
CODEC = CODECS("t")
AT = 10


class Write(NamedTuple):
    layout: str
    key: bytes
    new: Row | None


async def store_of(rows):
    store = SimulatedStore()
    await store.create_table(CODEC.layout.table)
    puts = [Put(CODEC.key(row), CODEC.encode(row)) for row in rows]
    await store.put({CODEC.layout.table: puts}, 5)
    hidden = [Put(CODEC.key((0, 9, "")), CODEC.encode((0, 9, "later")))]
    await store.put({CODEC.layout.table: hidden}, AT + 1)
    return store


def key(*values):
    return CODEC.key_of(values)


def overlay(changes):
    return Overlay(
        [Write("t", key(*at), None if text is None else (*at, text)) for at, text in changes]
    )


async def test_get_finds_stored_own_deleted_and_absent_rows():
    trace = []
    mine = overlay([((0, 1), "mine"), ((0, 2), None)])
    store = await store_of([(0, 0, "a"), (0, 1, "b"), (0, 2, "c")])
    snapshot = Snapshot(store, CODECS, AT, mutations=mine, trace=trace)
    found = await snapshot.get("t", [(0, 0), (0, 1), (0, 2), (0, 3)])
    assert found == [
        RowVersion(key(0, 0), 5, (0, 0, "a")),
        RowVersion(key(0, 1), 0, (0, 1, "mine")),
        None,
        None,
    ]
    assert trace == [ReadItem("t", key(0, 0), 5), ReadItem("t", key(0, 3), None)]


async def test_a_trace_of_a_limited_scan_has_only_the_returned_rows():
    store = await store_of([(0, i, "s") for i in range(9)])
    for mine in (None, overlay([((0, 0), None), ((0, 2), "mine")])):
        trace = []
        snapshot = Snapshot(store, CODECS, AT, mutations=mine, trace=trace)
        rows = await collect(snapshot.scan("t", limit=3))
        stored = [key(*row[:2]) for row in rows if row[2] == "s"]
        assert len(rows) == 3
        assert trace == [ReadItem("t", k, 5) for k in stored]


SMALL = st.integers(0, 2)
KEYS = st.tuples(SMALL, SMALL)


@given(
    st.dictionaries(KEYS, st.just("stored")),
    st.dictionaries(KEYS, st.none() | st.just("mine")),
    st.none() | SMALL,
    st.booleans(),
    st.none() | st.integers(0, 5),
)
async def test_reads_return_the_merged_rows(stored, changed, prefix, reverse, limit):
    store = await store_of([(*k, text) for k, text in stored.items()])
    trace = []
    snapshot = Snapshot(store, CODECS, AT, mutations=overlay(changed.items()), trace=trace)
    merged = {k: v for k, v in {**stored, **changed}.items() if v is not None}
    below = () if prefix is None else (prefix,)
    expected = sorted((*k, v) for k, v in merged.items() if k[: len(below)] == below)
    scanned = await collect(snapshot.scan("t", KeyRange(below), reverse=reverse, limit=limit))
    assert scanned == (expected[::-1] if reverse else expected)[:limit]
    assert {item.key for item in trace} == {key(*r[:2]) for r in scanned if r[2] == "stored"}
    (group,) = await snapshot.prefixes("t", [below])
    assert [version.row for version in group] == expected
    assert [version.key for version in group] == [key(*row[:2]) for row in expected]


@given(
    st.dictionaries(KEYS, st.just("stored")),
    st.dictionaries(KEYS, st.none() | st.just("mine"), max_size=2),
    st.none() | SMALL,
    st.booleans(),
    st.none() | st.integers(0, 5),
    st.lists(st.integers(0, 2), min_size=1, max_size=4),
    st.booleans(),
)
async def test_columns_are_those_of_the_scanned_rows(
    stored, changed, prefix, reverse, limit, at, traced
):
    store = await store_of([(*k, text) for k, text in stored.items()])
    traces = [] if traced else None, [] if traced else None
    one, other = (
        Snapshot(store, CODECS, AT, mutations=overlay(changed.items()), trace=trace)
        for trace in traces
    )
    below = KeyRange(() if prefix is None else (prefix,))
    rows = await collect(one.scan("t", below, reverse=reverse, limit=limit))
    scan = other.scan_columns("t", at, below, reverse=reverse, limit=limit)
    batches = [batch async for batch in scan]
    found = [row for batch in batches for row in from_record_batch(batch)]
    assert found == [tuple(row[i] for i in at) for row in rows]
    assert traces[0] == traces[1]


async def test_an_overlay_of_other_layouts_changes_nothing():
    store = await store_of([(0, 0, "a")])
    snapshot = Snapshot(store, CODECS, AT, mutations=Overlay([Write("u", key(0, 0), None)]))
    assert await collect(snapshot.scan("t")) == [(0, 0, "a")]
    assert [v.row for (v,) in await snapshot.prefixes("t", [(0,)])] == [(0, 0, "a")]


def test_the_last_mutation_of_a_key_counts():
    twice = Overlay([Write("t", b"k", None), Write("t", b"k", (1, 1, "x"))])
    assert twice.rows("t") == {b"k": (1, 1, "x")}
    assert twice.between("t", b"", None) == [b"k"]
    assert twice.between("t", b"k\0", b"k") == []


async def test_other_tasks_run_while_large_rows_are_read():
    store = await store_of([(0, number, "x" * BATCH_BYTES) for number in range(4)])
    waited = []

    async def others():
        while True:
            await asyncio.sleep(0)
            waited.append(None)

    running = asyncio.ensure_future(others())
    await asyncio.sleep(0)
    found = await Snapshot(store, CODECS, AT).get("t", [(0, number) for number in range(4)])
    running.cancel()
    assert [version.row[1] for version in found] == [0, 1, 2, 3]
    assert len(waited) >= 3


async def test_an_unknown_layout_is_a_key_error():
    with pytest.raises(KeyError):
        await Snapshot(await store_of([]), CODECS, AT).get("none", [(1, 1)])


async def test_a_deleted_row_is_traced_as_absent():
    store = await store_of([(0, 0, "a")])
    await store.put({CODEC.layout.table: [Put(key(0, 0), TOMBSTONE)]}, 7)
    trace = []
    assert await Snapshot(store, CODECS, AT, trace=trace).get("t", [(0, 0)]) == [None]
    assert trace == [ReadItem("t", key(0, 0), None)]


async def test_a_row_is_read_once_until_the_snapshot_forgets_it():
    store = await store_of([(0, 0, "a")])
    asked, get = [], store.get

    async def counted(table, keys, at, *, room):
        asked.append(list(keys))
        return await get(table, keys, at, room=room)

    store.get = counted
    snapshot = RememberingSnapshot(store, CODECS, NEWEST)
    first = RowVersion(key(0, 0), 5, (0, 0, "a"))
    assert await snapshot.get("t", [(0, 0), (0, 1)]) == [first, None]
    changed = [Put(key(0, i), CODEC.encode((0, i, "b"))) for i in range(3)]
    await store.put({CODEC.layout.table: changed}, 20)
    last = RowVersion(key(0, 2), 20, (0, 2, "b"))
    assert await snapshot.get("t", [(0, 1), (0, 2), (0, 0), (0, 2)]) == [
        None,
        last,
        first,
        last,
    ]
    assert await snapshot.get("t", [(0, 0)]) == [first]
    assert asked == [[key(0, 0), key(0, 1)], [key(0, 2)]]
    snapshot.forget()
    assert await snapshot.get("t", [(0, 0), (0, 1)]) == [
        RowVersion(key(0, 0), 20, (0, 0, "b")),
        RowVersion(key(0, 1), 20, (0, 1, "b")),
    ]
