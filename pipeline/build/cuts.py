"""Keys at which to divide the scan of a relation."""

from __future__ import annotations

from hornbeam_server.storage.codec.keys import successor
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.ports import TableStore
from hornbeam_server.storage.rocks.store import between


async def cuts_of(
    store: TableStore, codec: LayoutCodec, at: int, parts: int
) -> tuple[list[bytes], list[bytes]]:
    """The keys at which the store splits the relation of `codec`, and the first key after its last
    row, as of `at`. If these give fewer than `parts` ranges, further cuts lie evenly between the
    first and last key. Each of these is the key of a row: a scan must not begin within the versions
    of a row."""
    table = codec.layout.table

    async def keys(start: bytes = b"", *, reverse: bool = False) -> list[bytes]:
        """The first key from `start` on, or the last key; empty if there is none."""
        found = store.scan(table, start, None, at, reverse=reverse, limit=1)
        return [cell.key async for cells in found for cell in cells]

    splits, last = await store.splits(table), await keys(reverse=True)
    if not last:
        return [], [b""]
    (first,) = await keys()
    wanted = _evenly(codec, first, last[0], parts - len(splits) - 1)
    inner = [key for start in wanted for key in await keys(start)]
    behind = successor(last[0])
    return [*splits, *inner], [] if behind is None else [behind]


def _evenly(codec: LayoutCodec, first: bytes, last: bytes, count: int) -> list[bytes]:
    """At most `count` keys between two keys: evenly by the first column that differs, if it is an
    integer, else as if the keys were numbers."""
    if count <= 0:
        return []
    lows, highs = codec.decode_key(first), codec.decode_key(last)
    same = next((i for i, (a, b) in enumerate(zip(lows, highs, strict=True)) if a != b), 0)
    low, high = lows[same], highs[same]
    if not (type(low) is int and type(high) is int):
        return between(first, last, count)
    steps = sorted({low + (high - low) * i // (count + 1) for i in range(1, count + 1)})
    return [codec.prefix((*lows[:same], step)) for step in steps]
