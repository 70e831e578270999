"""Reading an embedded store beside the process that owns it."""

import os

import pytest

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.ports import NEWEST, Put
from hornbeam_server.storage.rocks import store as rocks
from hornbeam_server.storage.rocks.store import RocksStore, between


async def rows(store, start=b"", end=None, at=NEWEST):
    return [
        cell.key for batch in [b async for b in store.scan("t", start, end, at)] for cell in batch
    ]


async def test_several_readers_read_a_checkpoint_unchanged_by_later_puts(tmp_path):
    store = RocksStore.open(tmp_path / "store")
    await store.create_table("t")
    await store.put({"t": [Put(b"%04d" % n, b"v") for n in range(100)]}, 5)
    await store.checkpoint(tmp_path / "copy")
    await store.put({"t": [Put(b"late", b"v")]}, 6)
    readers = [RocksStore.open_checkpoint(tmp_path / "copy") for _ in range(2)]
    for reader in readers:
        assert await rows(reader) == [b"%04d" % n for n in range(100)]
    for reader in readers:
        with pytest.raises(Unavailable):
            await reader.put({"t": [Put(b"k", b"v")]}, 7)
        await reader.close()
    assert len(await rows(store)) == 101
    await store.close()


def test_a_missing_checkpoint_is_reported(tmp_path):
    with pytest.raises(Unavailable, match="nowhere"):
        RocksStore.open_checkpoint(tmp_path / "nowhere")


async def test_large_tables_are_split_into_parts_of_similar_size(tmp_path, monkeypatch):
    """The store's files have other tables beside this one, whose keys are no splits."""
    monkeypatch.setattr(rocks, "SPLIT_BYTES", 1 << 16)
    store = RocksStore.open(tmp_path / "store")
    for table in ("before", "t", "behind"):
        await store.create_table(table)
        puts = [Put(n.to_bytes(4), os.urandom(100)) for n in range(10_000)]
        await store.put({table: puts}, 5)
    await store.checkpoint(tmp_path / "copy")
    await store.close()
    copy = RocksStore.open_checkpoint(tmp_path / "copy")
    splits = await copy.splits("t")
    sizes = [
        len(await rows(copy, start, end))
        for start, end in zip([b"", *splits], [*splits, None], strict=True)
    ]
    assert sum(sizes) == 10_000
    assert len(sizes) > 5
    assert max(sizes) < 5_000
    await copy.close()


@pytest.mark.parametrize(
    ("low", "high", "count", "found"),
    [
        (b"b", b"a", 3, []),
        (b"a\x00", b"a\x04", 3, [b"a\x01", b"a\x02", b"a\x03"]),
        (b"a", b"a", 3, []),
        (b"", b"\xff", 1, [b"\x7f"]),
        (b"a", b"ab", 1, [b"a1"]),
        (b"b", b"c", 0, []),
    ],
)
def test_keys_between(low, high, count, found):
    assert between(low, high, count) == found
