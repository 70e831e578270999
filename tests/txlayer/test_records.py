"""The log's payloads. The bytes below are in RECORDS.md; later versions must be able to read
them."""

import msgspec
import pytest

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.log.records import (
    Batch,
    Checkpoint,
    Commit,
    commits,
    decode,
    encode,
    merged_writes,
)
from hornbeam_server.storage.ports import Position, Put

COMMIT = Commit(
    (1).to_bytes(16), 7, {"r.t.0": [Put(b"k", b"v")]}, [("t", None, b"v"), ("t", b"v", None)][:1]
)
BATCH_BYTES = bytes.fromhex(
    "9301cd03e891"
    "94c41000000000000000000000000000000001"
    "0781a5722e742e309192c4016bc40176"
    "9193a174c0c40176"
)
CHECKPOINT_BYTES = bytes.fromhex("940293010163cd03e807")


def test_a_batch_is_written_as_documented_and_read_back():
    assert encode(Batch(1000, [msgspec.Raw(encode(COMMIT))])) == BATCH_BYTES
    batch = decode(BATCH_BYTES)
    assert isinstance(batch, Batch)
    assert batch.ts == 1000
    assert commits(batch) == [COMMIT]
    assert isinstance(commits(batch)[0].writes["r.t.0"][0], Put)


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
