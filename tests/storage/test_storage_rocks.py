"""Properties of RocksDB's own: damage, second opens, numbers of tables, threads."""

import asyncio
import random
import time
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import WriteBatch

from hornbeam_server.schema.errors import Corruption, DiskFull, Unavailable
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Put
from hornbeam_server.storage.rocks import store as rocks
from hornbeam_server.storage.rocks import versions as rocks_versions
from hornbeam_server.storage.rocks.store import RocksStore
from hornbeam_server.storage.rocks.versions import seek_row, seek_rows
from tests.storage.storage_world import collect


def k(number):
    return b"%06d" % number


async def filled(path, count=5_000, size=90):
    store = RocksStore.open(path)
    await store.create_table("t")
    await store.put({"t": [Put(k(i), random.randbytes(size)) for i in range(count)]}, 5)
    return store


def damage(folder, at, files="*.sst"):
    (file,) = folder.glob(files)
    data = bytearray(file.read_bytes())
    place = int(len(data) * at)
    data[place : place + 40] = b"\xaa" * 40
    file.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("count", "size", "files"), [(5_000, 90, "*.sst"), (100, rocks.BLOB_BYTES, "*.blob")]
)
async def test_a_damaged_block_raises_corruption_and_never_reads_as_absent(
    tmp_path, count, size, files
):
    store = await filled(tmp_path, count, size)
    store._db.flush()
    await store.close()
    damage(tmp_path, 0.6, files)
    store = RocksStore.open(tmp_path)
    damaged = []
    for i in range(0, count, count // 100):
        try:
            (cell,) = await store.get("t", [k(i)], NEWEST)
            assert cell is not None
        except Corruption:
            damaged.append(i)
    assert damaged
    with pytest.raises(Corruption):
        await store.get("t", [k(i) for i in range(count)], NEWEST)
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


async def test_a_damaged_table_of_names_is_not_an_empty_store(tmp_path):
    store = await filled(tmp_path)
    store._db.flush()
    await store.close()
    damage(tmp_path, 0.0)
    for _ in range(2):  # the first failure does not keep the lock
        with pytest.raises(Corruption, match="checksum"):
            RocksStore.open(tmp_path)


async def test_a_folder_is_open_once(tmp_path):
    store = RocksStore.open(tmp_path)
    with pytest.raises(Unavailable, match="open already"):
        RocksStore.open(tmp_path)
    await store.close()
    await RocksStore.open(tmp_path).close()


async def test_table_numbers_are_never_reused(tmp_path):
    numbers = []
    for _ in range(3):
        store = RocksStore.open(tmp_path)
        for name in ("a", "b"):
            await store.create_table(name)
            numbers.append(store._tables[name])
            await store.drop_table(name)
        await store.close()
    assert numbers == [1, 2, 3, 4, 5, 6]


async def test_a_purge_batch_never_ends_inside_a_row(tmp_path, monkeypatch):
    """Otherwise a tombstone could be gone while the versions that it hides are not."""
    monkeypatch.setattr(rocks, "PURGE_BATCH", 1)
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


async def test_many_scans_and_large_puts_at_the_same_time(tmp_path):
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


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("IO error: No space left on device: While appending to file", DiskFull),
        ("IO error: Disk quota exceeded", DiskFull),
        ("Corruption: block checksum mismatch", Corruption),
        ("IO error: while reading", Unavailable),
    ],
)
async def test_errors_of_rocksdb_are_translated(tmp_path, status, error):
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


async def test_programming_errors_are_not_translated(tmp_path):
    store = await filled(tmp_path, 1)
    with pytest.raises(TypeError):
        await store.put({"t": [Put("text", b"v")]}, 9)
    await store.close()


async def test_a_crash_of_the_process_loses_no_put(tmp_path):
    """The next process opens the folder as it is, without a close."""
    store = await filled(tmp_path / "live", 100)
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in (tmp_path / "live").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    found = RocksStore.open(copy)
    assert len(await collect(found.scan("t", b"", None, 9))) == 100
    await found.close()
    await store.close()


def test_a_batch_of_rocksdb_counts_its_writes():
    batch = WriteBatch(raw_mode=True)
    assert len(batch) == 0
    batch.put(b"k", b"v")
    batch.delete(b"k")
    assert len(batch) == 2


@given(
    stored=st.dictionaries(st.tuples(st.integers(0, 40), st.integers(1, 4)), st.booleans()),
    wanted=st.sets(st.integers(0, 40)),
    at=st.integers(0, 5),
)
def test_rows_of_ascending_keys_are_those_that_are_looked_up_one_by_one(
    versions, stored, wanted, at
):
    """Some of the stored versions are purged, and more are adjacent than a look-up
    of many rows passes."""
    db, prefix = versions, b"\0\0\0\1"
    db.delete_range(prefix, b"\0\0\0\2")
    for (number, ts), kept in stored.items():
        physical = prefix + k(number) + (rocks.LARGEST - ts).to_bytes(8)
        db[physical] = b"v%d" % ts
        if not kept:
            db.delete(physical)
    keys, stamp = [k(number) for number in sorted(wanted)], (rocks.LARGEST - at).to_bytes(8)
    expected = [seek_row(db, prefix + key, stamp) for key in keys]
    assert list(seek_rows(db, prefix, keys, stamp)) == expected
    assert list(seek_rows(db, prefix, keys[::-1], stamp)) == expected[::-1]


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """A RocksDB of which a look-up of many rows passes two purged entries at most."""
    store = RocksStore.open(tmp_path_factory.mktemp("versions"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rocks_versions, "MOST_SKIPPED", 2)
        yield store._db
    store._db.close()


async def test_missing_keys_do_not_scan_over_purged_rows(tmp_path):
    """Purged rows stay in RocksDB until they are compacted. To scan over 100 000 of them takes 10
    ms and more, and all requests wait meanwhile; to look for one row takes 2 µs."""
    keys = [k(number) for number in range(100_000)]
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


async def test_large_values_do_not_slow_look_ups_of_missing_keys(tmp_path):
    """A look-up reads a block of each level. Blocks with values of 1 MB take 0.4 ms each."""
    store = await filled(tmp_path, 100, 1 << 20)
    absent = [k(i) + b"-" for i in range(100)] * 5
    quickest = inf
    for _ in range(3):
        began = time.perf_counter()
        assert await store.get("t", absent, 10) == [None] * len(absent)
        quickest = min(quickest, time.perf_counter() - began)
    assert quickest < 0.05
    await store.close()


async def test_values_that_an_older_version_stored_in_table_files_are_read(tmp_path, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(rocks, "BLOB_BYTES", 1 << 40)
        store = await filled(tmp_path, 100, 10_000)
        before = await collect(store.scan("t", b"", None, NEWEST))
        store._db.flush()
        await store.close()
    assert not list(tmp_path.glob("*.blob"))
    store = RocksStore.open(tmp_path)
    assert await collect(store.scan("t", b"", None, NEWEST)) == before
    await store.put({"t": [Put(k(i), b"newer") for i in range(100)]}, 6)
    store._db.flush()
    store._db.compact_range(None, None)
    assert list(tmp_path.glob("*.blob"))
    assert await collect(store.scan("t", b"", None, 5)) == before
    await store.close()


async def test_a_purge_and_a_compaction_free_the_space_of_large_values(tmp_path):
    def size_on_disk():
        return sum(file.stat().st_size for file in tmp_path.glob("*.blob"))

    store = await filled(tmp_path, 200, 100_000)
    store._db.flush()
    assert size_on_disk() > 19 << 20
    await store.put({"t": [Put(k(i), TOMBSTONE) for i in range(150)]}, 6)
    await store.purge("t", 9)
    store._db.flush()
    store._db.compact_range(None, None)
    assert size_on_disk() < 6 << 20
    assert len(await collect(store.scan("t", b"", None, NEWEST))) == 50
    await store.close()


async def test_splits_account_for_large_values(tmp_path):
    store = await filled(tmp_path, 1_000, 100_000)
    store._db.flush()
    assert 8 <= len(await store.splits("t")) <= 20
    await store.close()
