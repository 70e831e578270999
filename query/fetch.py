"""Running access paths: rows of one source through a `RowReader`, in batches.

Everything here is bounded: key look-ups go out in chunks, scans come back in the store's batches.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from operator import itemgetter
from typing import TypeVar

from query.access import Access, Parameters, Reach, keys, ranges
from schema.errors import Corruption
from schema.types import Row, Value
from storage.codec.keyrange import KeyRange
from storage.snapshot import RowReader
from storage.together import all_settled

LOOKUP_BATCH = 256
"""Keys or prefixes per call of the store."""
SCANS_AT_ONCE = 16
"""Ranges whose first batches are read side by side."""

Key = tuple[Value, ...]
T = TypeVar("T")


def chunks(items: Sequence[T], size: int = LOOKUP_BATCH) -> Iterator[Sequence[T]]:
    """`items` in pieces of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


async def fetch(
    access: Access, reader: RowReader, parameters: Parameters, *, limit: int | None = None
) -> AsyncGenerator[list[Row], None]:
    """Batches of `access.output` rows. The path must not need join columns.

    With `limit`, at most so many rows are read.
    """
    if access.reach is Reach.POINT or (access.reach is Reach.PREFIX and not access.single):
        for some in chunks(keys(access, parameters)):
            rows = list(itertools.chain.from_iterable(await lookup(access, reader, some)))
            yield rows if limit is None else rows[:limit]
            if limit is not None and (limit := limit - len(rows)) <= 0:
                return
        return
    for some_ranges in chunks(ranges(access, parameters), SCANS_AT_ONCE if limit is None else 1):
        async with aclosing(_scans(access, reader, some_ranges, limit)) as scans:
            async for rows in scans:
                yield rows
                if limit is not None and (limit := limit - len(rows)) <= 0:
                    return


async def _scans(
    access: Access, reader: RowReader, key_ranges: Sequence[KeyRange], limit: int | None
) -> AsyncGenerator[list[Row], None]:
    """One range after the other, but their first batches are read side by side: most ranges have
    no second one, and each may be a call to another machine."""
    async with AsyncExitStack() as stack:
        scans = [_scan(access, reader, key_range, limit) for key_range in key_ranges]
        for scan in scans:
            stack.push_async_callback(scan.aclose)
        if len(scans) == 1:
            firsts = [await anext(scans[0], None)]
        else:
            firsts = await all_settled([anext(scan, None) for scan in scans])
        for first, scan in zip(firsts, scans, strict=True):
            if first is not None:
                yield first
                async for rows in scan:
                    yield rows


async def _scan(
    access: Access, reader: RowReader, key_range: KeyRange, limit: int | None
) -> AsyncGenerator[list[Row], None]:
    scan = reader.scan(access.layout.name, key_range, reverse=access.reverse, limit=limit)
    async for batch in scan:
        yield batch if access.covering else await _resolve(access, reader, batch)
        await asyncio.sleep(0)  # a long scan lets others run, and can be cancelled


async def lookup(access: Access, reader: RowReader, wanted: Sequence[Key]) -> list[list[Row]]:
    """For each tuple of equality values, in order, the rows under it in key order.

    For a point path these are whole keys. At most `LOOKUP_BATCH` at a time.
    """
    layout = access.layout.name
    if access.reach is Reach.POINT:
        found = await reader.get(layout, wanted)
        groups = [[] if version is None else [version.row] for version in found]
    else:
        groups = [
            [version.row for version in group] for group in await reader.prefixes(layout, wanted)
        ]
        if access.reverse:
            groups = [group[::-1] for group in groups]
    if access.covering:
        return groups
    rows = iter(await _resolve(access, reader, list(itertools.chain.from_iterable(groups))))
    return [list(itertools.islice(rows, len(group))) for group in groups]


async def _resolve(access: Access, reader: RowReader, entries: Sequence[Row]) -> list[Row]:
    """The source's rows that index entries point to, in order."""
    source_key = getter([access.layout.positions[part.column] for part in access.source.key])
    rows: list[Row] = []
    for some in chunks([source_key(entry) for entry in entries]):
        for version in await reader.get(access.source.name, some):
            if version is None:
                raise Corruption(
                    f"index {access.layout.name} points to a row that {access.source.name} lacks",
                    cure=f"run `hornbeam verify {access.layout.name} --repair`",
                )
            rows.append(version.row)
    return rows


def getter(positions: Sequence[int]) -> Callable[[Row], Key]:
    """The values at `positions` as a tuple; like `itemgetter`, but for any number of them."""
    if len(positions) == 1:
        position = positions[0]
        return lambda row: (row[position],)
    return itemgetter(*positions) if positions else lambda _row: ()
