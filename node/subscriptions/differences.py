"""The rows in which two snapshots of a relation or view differ."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from hornbeam_server.node.subscriptions.changes import RowChange
from hornbeam_server.schema.turns import chunks
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.snapshot import RowReader, RowVersion


async def of_keys(
    name: str, keys: Sequence[tuple[Value, ...]], before: RowReader, after: RowReader
) -> list[RowChange]:
    """The differences between the rows with these keys."""
    found = []
    for some in chunks(keys):
        old, new = await before.get(name, some), await after.get(name, some)
        pairs = zip(map(_row, old), map(_row, new), strict=True)
        found += [RowChange(a, b) for a, b in pairs if a != b]
    return found


def _row(version: RowVersion | None) -> Row | None:
    return None if version is None else version.row


async def of_scans(
    name: str, key: Callable[[Row], bytes], before: RowReader, after: RowReader
) -> AsyncGenerator[RowChange, None]:
    """The differences between all rows, in the order of their keys. Both snapshots are read whole,
    a batch at a time. `key` returns the encoded key of a row."""
    async with aclosing(_rows(before, name)) as olds, aclosing(_rows(after, name)) as news:
        old, new = await anext(olds, None), await anext(news, None)
        while old is not None or new is not None:
            if new is None or (old is not None and key(old) < key(new)):
                yield RowChange(old, None)
                old = await anext(olds, None)
            elif old is None or key(new) < key(old):
                yield RowChange(None, new)
                new = await anext(news, None)
            else:
                if old != new:
                    yield RowChange(old, new)
                old, new = await anext(olds, None), await anext(news, None)


async def _rows(reader: RowReader, name: str) -> AsyncGenerator[Row, None]:
    async with aclosing(reader.scan(name)) as batches:
        async for batch in batches:
            for row in batch:
                yield row
