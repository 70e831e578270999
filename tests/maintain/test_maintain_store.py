"""Maintenance over the real store: a snapshot reads the rows of programs and builds."""

from random import Random

import pytest

from hornbeam_server.maintain.recompute import build_batches, scanned_relation
from hornbeam_server.storage.ports import TOMBSTONE, Put
from hornbeam_server.storage.rocks.store import RocksStore
from hornbeam_server.storage.snapshot import Snapshot
from tests.maintain.maintain_world import World
from tests.maintain.test_maintain_law import Transaction, changed_rows, draw_catalog


class StoreWorld(World):
    """A world that also commits to a store, which the programs read."""

    def __init__(self, catalog, store):
        super().__init__(catalog)
        self.store, self.now = store, 0

    def snapshot(self):
        return Snapshot(self.store, self.codecs, self.now)

    async def commit_to_store(self, rows):
        mutations = await self.programs.mutations(self.changes(rows), self.snapshot())
        self.apply(mutations)
        writes = {}
        for m in mutations:
            value = TOMBSTONE if m.new is None else self.codecs(m.layout).encode(m.new)
            table = self.catalog.layout(m.layout).table
            writes.setdefault(table, []).append(Put(m.key, value))
        self.now += 1
        await self.store.put(writes, self.now)

    async def stored(self, name):
        return [row async for batch in self.snapshot().scan(name) for row in batch]

    async def built(self, name):
        reader = self.snapshot()
        scanned = reader.scan(scanned_relation(self.catalog, name))
        batches = build_batches(self.catalog, self.codecs, [name], reader, scanned)
        return [pair async for batch in batches for pair in batch.rows[name]]


@pytest.mark.parametrize("seed", range(12))
async def test_incremental_rows_equal_built_rows_in_the_store(tmp_path, seed):
    random = Random(seed)
    store = RocksStore.open(tmp_path)
    world = StoreWorld(draw_catalog(random), store)
    for name in world.names:
        await store.create_table(world.catalog.layout(name).table)
    for _ in range(12):
        await world.commit_to_store(changed_rows(world, Transaction(world, random).run()))
    for name in world.names:
        rows = world.rows[name]
        stored = await world.stored(name)
        assert {world.key(name, row): row for row in stored} == rows
        assert stored == sorted(stored, key=world.codecs(name).key)
        assert {world.key(name, row): row for _, row in await world.built(name)} == rows
    await store.close()
