"""Shared reads: the answers of the reader below, each of which is read once while there is room."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.storage import shared_reads
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.ports import Put
from hornbeam_server.storage.shared_reads import SharedReads
from hornbeam_server.storage.simulated.store import SimulatedStore
from hornbeam_server.storage.snapshot import Snapshot
from tests.storage.storage_world import catalog, collect

CODECS = Codecs(catalog())
CODEC = CODECS("t")
ROWS = [(i, n, "x" * n) for i in range(4) for n in range(i)]


class Noted(Snapshot):
    """Notes what is read."""

    def __init__(self, store):
        super().__init__(store, CODECS, 5)
        self.read = []

    async def get(self, layout, keys, *, room=None):
        self.read += keys
        return await super().get(layout, keys, room=room)

    async def prefixes(self, layout, prefixes, *, room=None):
        self.read += prefixes
        return await super().prefixes(layout, prefixes, room=room)


async def noted():
    store = SimulatedStore()
    await store.create_table(CODEC.layout.table)
    puts = [Put(CODEC.key(row), CODEC.encode(row)) for row in ROWS]
    await store.put({CODEC.layout.table: puts}, 5)
    return Noted(store)


KEYS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=6)
PREFIXES = st.lists(st.tuples(st.integers(0, 4)), max_size=4)
READS = st.lists(st.tuples(st.booleans(), KEYS, PREFIXES), max_size=6)


@given(READS, st.sampled_from([2, 5, 1_000]), st.sampled_from([3, 1_000]))
def test_answers_are_those_of_the_reader_however_little_is_remembered(reads, rows, size):
    async def scenario():
        below, direct = await noted(), await noted()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shared_reads, "MOST_ROWS", rows)
            patch.setattr(shared_reads, "MOST_BYTES", size)
            shared = SharedReads(below)
            for by_key, keys, prefixes in reads:
                method, asked = ("get", keys) if by_key else ("prefixes", prefixes)
                found = await getattr(shared, method)("t", asked)
                assert found == await getattr(direct, method)("t", asked)
        if rows == size == 1_000:
            assert len(set(below.read)) == len(below.read)

    asyncio.run(scenario())


async def test_absent_rows_are_remembered_too():
    below = await noted()
    shared = SharedReads(below)
    for _ in range(2):
        assert await shared.get("t", [(0, 0), (1, 0), (0, 0)]) == [
            None,
            *await Snapshot.get(below, "t", [(1, 0)]),
            None,
        ]
        assert await shared.prefixes("t", [(0,)]) == [[]]
    assert below.read == [(0, 0), (1, 0), (0,)]


async def test_reads_with_a_room_and_scans_are_those_of_the_reader():
    below = await noted()
    shared = SharedReads(below)
    for _ in range(2):
        assert len(await shared.get("t", [(3, 0), (3, 1)], room=1)) == 1
        assert len(await shared.prefixes("t", [(3,), (2,)], room=0)) == 0
        assert await collect(shared.scan("t", limit=2)) == ROWS[:2]
    assert below.read == [(3, 0), (3, 1), (3,), (2,)] * 2


async def test_it_forgets_everything_when_it_is_full(monkeypatch):
    monkeypatch.setattr(shared_reads, "MOST_BYTES", 3)
    below = await noted()
    shared = SharedReads(below)
    await shared.get("t", [(3, 1)])
    await shared.prefixes("t", [(3,)])  # 0 + 1 + 2 bytes of text, and the one before
    await shared.get("t", [(3, 1)])
    assert below.read == [(3, 1), (3,), (3, 1)]
