"""The log's payloads. The bytes below are in RECORDS.md; later versions must be able to read
them."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.log import following
from hornbeam_server.storage.log.records import (
    PIECE_BYTES,
    Batch,
    CellBatch,
    Checkpoint,
    Commit,
    KeyedCommit,
    commits,
    decode,
    encode,
    encode_batch,
    encode_commit,
    merged_writes,
)
from hornbeam_server.storage.ports import Position, Put

COMMIT = Commit(
    (1).to_bytes(16), 7, {"r.t.0": [Put(b"k", b"v")]}, [("t", None, b"v"), ("t", b"v", None)][:1]
)
READ = KeyedCommit(COMMIT.transaction_id, 7, COMMIT.writes, COMMIT.changes)
"""`COMMIT` as it is read."""
KEYED = KeyedCommit(COMMIT.transaction_id, 7, COMMIT.writes, COMMIT.changes, "r1")
BATCH_BYTES = bytes.fromhex(
    "9301cd03e891"
    "94c41000000000000000000000000000000001"
    "0781a5722e742e309192c4016bc40176"
    "9193a174c0c40176"
)
KEYED_BATCH_BYTES = bytes.fromhex(
    "9301cd03e891"
    "95c41000000000000000000000000000000001"
    "0781a5722e742e309192c4016bc40176"
    "9193a174c0c40176"
    "a27231"
)
CELL_BATCH_BYTES = bytes.fromhex(
    "9403cd03e891"
    "94c41000000000000000000000000000000001"
    "0781a5722e742e309192c4016bc40176"
    "9193a174c0c40176"
    "81a5612e762e309192c40267a1c40163"
)
CHECKPOINT_BYTES = bytes.fromhex("940293010163cd03e807")


def test_a_batch_is_written_as_documented_and_read_back():
    assert encode(Batch(1000, [msgspec.Raw(encode(COMMIT))])) == BATCH_BYTES
    batch = decode(BATCH_BYTES)
    assert isinstance(batch, Batch)
    assert batch.ts == 1000
    assert commits(batch) == [READ]
    assert isinstance(commits(batch)[0].writes["r.t.0"][0], Put)


def test_a_commit_with_an_idempotency_key_is_written_as_documented_and_read_back():
    assert encode(Batch(1000, [msgspec.Raw(encode(KEYED))])) == KEYED_BATCH_BYTES
    batch = decode(KEYED_BATCH_BYTES)
    assert isinstance(batch, Batch)
    assert commits(batch) == [KEYED]
    assert following.changes(batch)[0].changes == KEYED.changes


def test_a_version_that_does_not_know_idempotency_keys_reads_the_rest_of_their_commits():
    """Versions before subscriptions know these fields only."""
    older = msgspec.msgpack.Decoder(Commit)
    batch = decode(KEYED_BATCH_BYTES)
    assert isinstance(batch, Batch)
    assert older.decode(batch.commits[0]) == COMMIT


def test_a_batch_with_cells_is_written_as_documented_and_read_back():
    cells = {"a.v.0": [Put(b"g\xa1", b"c")]}
    assert b"".join(encode_batch(1000, [[encode(COMMIT)]], cells)) == CELL_BATCH_BYTES
    batch = decode(CELL_BATCH_BYTES)
    assert isinstance(batch, CellBatch)
    assert batch.ts == 1000
    assert commits(batch) == [READ]
    assert batch.cells == cells


def test_a_version_that_does_not_know_cells_refuses_their_batch():
    """Versions before immediate views know these records only."""
    older = msgspec.msgpack.Decoder(Batch | Checkpoint)
    with pytest.raises(msgspec.ValidationError):
        older.decode(CELL_BATCH_BYTES)


def test_a_checkpoint_is_written_as_documented_and_read_back():
    checkpoint = Checkpoint(Position(1, 1, 99), 1000, 7)
    assert encode(checkpoint) == CHECKPOINT_BYTES
    assert decode(CHECKPOINT_BYTES) == checkpoint


def test_fields_of_a_newer_writer_are_ignored():
    longer = msgspec.msgpack.encode([*msgspec.msgpack.decode(CHECKPOINT_BYTES), "later"])
    assert decode(longer) == decode(CHECKPOINT_BYTES)


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xc0", CHECKPOINT_BYTES[:-1], msgspec.msgpack.encode([99, 1]), b"\x93\x01\xa1a\x90"],
    ids=["empty", "nil", "cut", "unknown tag", "wrong type"],
)
def test_an_invalid_record_raises_corruption(payload):
    with pytest.raises(Corruption, match="log record"):
        decode(payload)


def test_a_damaged_commit_raises_corruption_with_its_batch():
    batch = decode(encode(Batch(1000, [msgspec.Raw(b"\x91\x01")])))
    assert isinstance(batch, Batch)
    with pytest.raises(Corruption, match="1000"):
        commits(batch)


def test_writes_of_several_transactions_are_merged():
    one, two = {"a": [Put(b"1", b"x")]}, {"a": [Put(b"2", b"")], "b": [Put(b"3", b"z")]}
    assert merged_writes([one, two]) == {
        "a": [Put(b"1", b"x"), Put(b"2", b"")],
        "b": [Put(b"3", b"z")],
    }
    assert one == {"a": [Put(b"1", b"x")]}


SIZES = st.sampled_from([0, 1, 31, 32, 255, 256, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1])
VALUES = st.builds(bytes, SIZES)
PUTS = st.lists(st.builds(Put, st.binary(max_size=40), VALUES), max_size=20)
COUNTS = st.sampled_from([1, 15, 16, 255, 256, 257, 600])
CHANGES = st.tuples(st.text(max_size=40), st.none() | VALUES, st.none() | VALUES)
COMMITS = st.builds(
    lambda id_, version, writes, count, changes, key: (KeyedCommit if key else Commit)(
        id_, version, {table: puts * count for table, puts in writes.items()}, changes, *key
    ),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 1 << 40),
    st.dictionaries(st.text(max_size=40), PUTS.filter(lambda p: len(p) < 3), max_size=20),
    COUNTS,
    st.lists(CHANGES, max_size=20),
    st.lists(st.text(max_size=300), max_size=1),
)


@given(st.lists(COMMITS, max_size=2), st.integers(0, 1 << 60), st.sampled_from([0, PIECE_BYTES]))
async def test_pieces_are_the_bytes_of_the_record(found, ts, size):
    pieces = [await encode_commit(commit, size) for commit in found]
    assert [b"".join(each) for each in pieces] == [encode(commit) for commit in found]
    batch = Batch(ts, [msgspec.Raw(encode(commit)) for commit in found])
    assert b"".join(encode_batch(ts, pieces)) == encode(batch)


def test_large_counts_have_the_headers_of_messagepack():
    changes = [("t", None, b"")] * 70_000
    commit = Commit(bytes(16), 1, {f"t{n}": [] for n in range(70_000)}, changes)
    assert b"".join(asyncio.run(encode_commit(commit, PIECE_BYTES))) == encode(commit)


def test_large_values_are_not_copied():
    value = bytes(PIECE_BYTES)
    commit = Commit(bytes(16), 1, {"t": [Put(b"k", value)]}, [("t", value, None)])
    pieces = asyncio.run(encode_commit(commit, PIECE_BYTES))
    assert [piece is value for piece in pieces] == [False, True, False, True, False]
    assert sum(piece is value for piece in encode_batch(5, [pieces])) == 2
