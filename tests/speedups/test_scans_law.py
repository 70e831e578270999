"""Python and the module read the same batches of rows of RocksDB, with the same errors."""

import random
from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hornbeam_server.storage.ports import BATCH_BYTES, TOMBSTONE
from hornbeam_server.storage.rocks.scans import NativeScan, PythonScan
from hornbeam_server.storage.rocks.store import RocksStore
from hornbeam_server.storage.rocks.versions import LARGEST, MOST_STEPS, newest_versions, table_end

TABLE = b"\0\0\0\x01"
KEYS = [b"a\x01", b"a\xff", b"b" * 40, b"c\0"]
VALUES = st.sampled_from([TOMBSTONE, b"v", b"w" * 10]) | st.binary(max_size=3)
VERSIONS = st.dictionaries(st.tuples(st.sampled_from(KEYS), st.integers(1, 30)), VALUES)
"""Up to 30 versions of a row: many more than a scan passes one by one."""


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    store = RocksStore.open(tmp_path_factory.mktemp("scans"))
    yield store._db
    store._db.close()


def physical(key, ts):
    return TABLE + key + (LARGEST - ts).to_bytes(8)


def batches(scan, method, most):
    """All batches of a scan."""
    found, ended = [], False
    while not ended:
        batch, ended = getattr(scan, method)(most)
        found.append(batch)
    return found


@given(
    versions=VERSIONS,
    at=st.integers(0, 31),
    start=st.sampled_from([b"", *KEYS]),
    end=st.sampled_from([None, *KEYS]),
    most=st.integers(1, 5),
)
@example({(KEYS[0], ts): b"v" for ts in range(1, 3 * MOST_STEPS)}, 2, b"", None, 1)
@example({(KEYS[0], ts): TOMBSTONE for ts in range(1, 31)}, 31, b"", None, 2)
def test_both_read_the_same_batches(native, db, versions, at, start, end, most):
    db.delete_range(TABLE, table_end(TABLE))
    for (key, ts), value in versions.items():
        db[physical(key, ts)] = value
    low, high = TABLE + start, table_end(TABLE) if end is None else TABLE + end
    if low >= high:
        return
    for method in ("cells", "values"):
        scans = (
            PythonScan(newest_versions(db, low, high, LARGEST - at)),
            NativeScan(native, db, low, high, LARGEST - at),
        )
        expected, found = [batches(scan, method, most) for scan in scans]
        assert found == expected
        assert [type(row) for row in chain(*found)] == [type(row) for row in chain(*expected)]


def test_both_end_a_batch_with_the_row_at_which_it_has_too_many_bytes(native, db):
    db.delete_range(TABLE, table_end(TABLE))
    for i in range(5):
        db[physical(b"k%d" % i, 1)] = bytes(BATCH_BYTES // 2)
    scans = (
        PythonScan(newest_versions(db, TABLE, table_end(TABLE), LARGEST - 1)),
        NativeScan(native, db, TABLE, table_end(TABLE), LARGEST - 1),
    )
    for scan in scans:
        assert [len(batch) for batch in batches(scan, "values", 100)] == [2, 2, 1]


def test_both_read_one_view_of_the_database(native, db):
    db.delete_range(TABLE, table_end(TABLE))
    for i in range(10):
        db[physical(b"k%d" % i, 1)] = b"old"
    scans = (
        PythonScan(newest_versions(db, TABLE, table_end(TABLE), LARGEST - 9)),
        NativeScan(native, db, TABLE, table_end(TABLE), LARGEST - 9),
    )
    begun = [scan.values(2)[0] for scan in scans]
    for i in range(20):
        for ts in range(2, 9):
            db[physical(b"k%d" % i, ts)] = b"new"
    for first, scan in zip(begun, scans, strict=True):
        assert [*first, *chain(*batches(scan, "values", 3))] == [b"old"] * 10


@pytest.mark.parametrize("place", [0.1, 0.3, 0.6, 0.9])
async def test_both_report_a_damaged_block(native, tmp_path, place):
    rng = random.Random(1)
    store = RocksStore.open(tmp_path)
    for i in range(5_000):
        store._db[physical(b"k%04d" % i, 1)] = rng.randbytes(90)
    store._db.flush()
    await store.close()
    (file,) = tmp_path.glob("*.sst")
    data = bytearray(file.read_bytes())
    at = int(len(data) * place)
    data[at : at + 40] = b"\xaa" * 40
    file.write_bytes(bytes(data))
    store = RocksStore.open(tmp_path)
    try:
        errors = []
        for scan in (
            PythonScan(newest_versions(store._db, TABLE, table_end(TABLE), 0)),
            NativeScan(native, store._db, TABLE, table_end(TABLE), 0),
        ):
            with pytest.raises(Exception, match="Corruption") as raised:
                batches(scan, "cells", 1_000)
            errors.append((type(raised.value), str(raised.value)))
        assert errors[0] == errors[1]
    finally:
        await store.close()
