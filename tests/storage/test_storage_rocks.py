"""What is RocksDB's own: damage, second opens, numbers of tables, threads."""

import asyncio
import time

import pytest
from rocksdict import WriteBatch
from storage_world import collect, run

from hornbeam_server.schema.errors import Corruption, DiskFull, Unavailable
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Put
from hornbeam_server.storage.rocks import store as rocks
from hornbeam_server.storage.rocks.store import RocksStore


def k(number):
    return b"%06d" % number


async def filled(path, count=5_000):
    store = RocksStore.open(path)
    await store.create_table("t")
    await store.put({"t": [Put(k(i), b"v" * 90) for i in range(count)]}, 5)
    return store


def damage(folder, at):
    (file,) = folder.glob("*.sst")
    data = bytearray(file.read_bytes())
    place = int(len(data) * at)
    data[place : place + 40] = b"\xaa" * 40
    file.write_bytes(bytes(data))


def test_a_damaged_block_is_corruption_and_never_absence(tmp_path):
    async def scenario():
        store = await filled(tmp_path)
        store._db.flush()
        await store.close()
        damage(tmp_path, 0.6)
        store = RocksStore.open(tmp_path)
        damaged = []
        for i in range(0, 5_000, 50):
            try:
                (cell,) = await store.get("t", [k(i)], NEWEST)
                assert cell is not None
            except Corruption:
                damaged.append(i)
        assert damaged
        for reverse in (False, True):
            with pytest.raises(Corruption):
                await collect(store.scan("t", b"", None, NEWEST, reverse=reverse))
        with pytest.raises(Corruption):
            await store.scan_prefixes("t", [b""], NEWEST)
        with pytest.raises(Corruption):
            await store.purge("t", 9)
        with pytest.raises(Corruption):
            await store.size("t")
        with pytest.raises(Corruption):
            await store.check_and_put("t", k(damaged[0]), None, b"v", 9)
        await store.close()

    run(scenario())


def test_a_damaged_table_of_names_is_not_an_empty_store(tmp_path):
    async def scenario():
        store = await filled(tmp_path)
        store._db.flush()
        await store.close()

    run(scenario())
    damage(tmp_path, 0.0)
    for _ in range(2):  # and the first failure does not keep the lock
        with pytest.raises(Corruption, match="checksum"):
            RocksStore.open(tmp_path)


def test_a_folder_is_open_once(tmp_path):
    async def scenario():
        store = RocksStore.open(tmp_path)
        with pytest.raises(Unavailable, match="open already"):
            RocksStore.open(tmp_path)
        await store.close()
        await RocksStore.open(tmp_path).close()

    run(scenario())


def test_numbers_of_tables_are_never_given_twice(tmp_path):
    async def scenario():
        numbers = []
        for _ in range(3):
            store = RocksStore.open(tmp_path)
            for name in ("a", "b"):
                await store.create_table(name)
                numbers.append(store._tables[name])
                await store.drop_table(name)
            await store.close()
        assert numbers == [1, 2, 3, 4, 5, 6]

    run(scenario())


def test_a_purge_batch_never_ends_inside_a_row(tmp_path, monkeypatch):
    """Else a tombstone could be gone while what it hides is not."""
    monkeypatch.setattr(rocks, "PURGE_BATCH", 1)

    async def scenario():
        store = RocksStore.open(tmp_path)
        await store.create_table("t")
        for ts in range(1, 6):
            await store.put({"t": [Put(k(i), b"v") for i in range(3)]}, ts)
        await store.put({"t": [Put(k(i), TOMBSTONE) for i in range(3)]}, 6)
        sizes = []

        class Watched:
            def __init__(self, db):
                self._db = db

            def __getattr__(self, name):
                return getattr(self._db, name)

            def write(self, batch):
                sizes.append(len(batch))
                self._db.write(batch)

        store._db = Watched(store._db)
        assert await store.purge("t", 9) == 18
        assert sizes == [6, 6, 6]
        await store.close()

    run(scenario())


def test_many_scans_and_large_puts_at_the_same_time(tmp_path):
    async def scenario():
        store = await filled(tmp_path)

        async def write(ts):
            await store.put({"t": [Put(k(i), b"w%d" % ts) for i in range(5_000)]}, ts)

        async def scan(at):
            cells = await collect(store.scan("t", b"", None, at))
            return {cell.ts for cell in cells}, len(cells)

        first = [scan(5) for _ in range(4)]
        results = await asyncio.gather(*first, write(6), write(7))
        assert results[:4] == [({5}, 5_000)] * 4
        assert await scan(7) == ({7}, 5_000)
        await store.close()

    run(scenario())


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("IO error: No space left on device: While appending to file", DiskFull),
        ("IO error: Disk quota exceeded", DiskFull),
        ("Corruption: block checksum mismatch", Corruption),
        ("IO error: while reading", Unavailable),
    ],
)
def test_what_rocksdb_says_becomes_one_of_our_errors(tmp_path, status, error):
    async def scenario():
        store = await filled(tmp_path, 1)
        db = store._db

        class Failing:
            def write(self, _batch):
                raise Exception(status)

        store._db = Failing()
        for count in (1, 2_000):  # on the loop, and in a thread
            with pytest.raises(error) as caught:
                await store.put({"t": [Put(k(i), b"v") for i in range(count)]}, 9)
            assert type(caught.value) is error
        store._db = db
        await store.close()

    run(scenario())


def test_mistakes_of_ours_are_not_disguised(tmp_path):
    async def scenario():
        store = await filled(tmp_path, 1)
        with pytest.raises(TypeError):
            await store.put({"t": [Put("text", b"v")]}, 9)
        await store.close()

    run(scenario())


def test_a_crash_of_the_process_loses_no_put(tmp_path):
    """The folder as it is without any close is what the next process opens."""

    async def scenario():
        store = await filled(tmp_path / "live", 100)
        copy = tmp_path / "copy"
        copy.mkdir()
        for file in (tmp_path / "live").iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
        found = RocksStore.open(copy)
        assert len(await collect(found.scan("t", b"", None, 9))) == 100
        await found.close()
        await store.close()

    run(scenario())


def test_a_batch_of_rocksdb_counts_its_writes():
    batch = WriteBatch(raw_mode=True)
    assert len(batch) == 0
    batch.put(b"k", b"v")
    batch.delete(b"k")
    assert len(batch) == 2


def test_rows_that_were_purged_are_not_passed_for_each_that_is_missing(tmp_path):
    """They stay in RocksDB until they are compacted. To pass 100 000 of them takes 10 ms and more,
    and all requests wait meanwhile; to look for one row takes 2 µs."""
    keys = [k(number) for number in range(100_000)]

    async def scenario():
        store = RocksStore.open(tmp_path)
        await store.create_table("t")
        for ts, value in ((1, b"value"), (2, TOMBSTONE)):
            for start in range(0, len(keys), 5_000):
                await store.put({"t": [Put(k, value) for k in keys[start : start + 5_000]]}, ts)
        assert await store.purge("t", 5) == 2 * len(keys)
        few, began = keys[:200], time.perf_counter()
        assert await store.get("t", few, 10) == [None] * len(few)
        assert await store.scan_prefixes("t", few, 10) == [[]] * len(few)
        for key in few:
            assert await collect(store.scan("t", key, key + b"\0", 10)) == []
        assert time.perf_counter() - began < 0.5
        await store.close()

    asyncio.run(scenario())
