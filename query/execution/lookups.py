"""Execution of access paths: the rows of one source through a `RowReader`, in batches.

All results are bounded by rows and by bytes: key lookups are sent in chunks and answered in parts,
scans return the store's batches.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import NamedTuple, TypeVar

import pyarrow as pa

from hornbeam_server.query.execution.measures import for_access
from hornbeam_server.query.optimizer.access_paths import Access, Parameters, Reach
from hornbeam_server.query.optimizer.key_ranges import keys, range_values, ranges, row_in_range
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.turns import chunks, pause, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.ports import BATCH_BYTES
from hornbeam_server.storage.snapshot import RowReader
from hornbeam_server.storage.together import all_settled

LOOKUP_BATCH = 256
"""Maximum keys or prefixes per call of the store."""
SCANS_AT_ONCE = 16
"""Maximum ranges whose first batches are read concurrently."""

Key = tuple[Value, ...]
B = TypeVar("B", list[Row], pa.RecordBatch)


class Found(NamedTuple):
    """Rows under a key. Unless `whole`, the next part continues with more rows of the key."""

    key: Key
    rows: list[Row]
    whole: bool


async def fetch(
    access: Access, reader: RowReader, parameters: Parameters, *, limit: int | None = None
) -> AsyncGenerator[list[Row], None]:
    """Yield batches of `access.output` rows. The path must not need join columns.

    `limit` is the maximum number of rows to read.
    """
    reader = for_access(reader, access)
    if _is_looked_up(access):
        wanted = keys(access, parameters)
        async with aclosing(lookup_rows(access, reader, wanted, parameters)) as found:
            async for rows in found:
                yield rows if limit is None else rows[:limit]
                if limit is not None and (limit := limit - len(rows)) <= 0:
                    return
        return
    scan = partial(_scan, access, reader)
    async with aclosing(_in_ranges(scan, ranges(access, parameters), limit)) as scanned:
        async for rows in scanned:
            yield rows


def has_columns(access: Access) -> bool:
    """May `fetch_columns` read the path? It reads ranges of keys, whose rows have all columns."""
    return access.covering and not _is_looked_up(access)


def _is_looked_up(access: Access) -> bool:
    return access.reach is Reach.POINT or (access.reach is Reach.PREFIX and not access.single)


def fetch_columns(
    access: Access,
    reader: RowReader,
    parameters: Parameters,
    at: Sequence[int],
    *,
    limit: int | None = None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The rows of `fetch` as record batches with the columns at the positions `at`, at least
    one. `has_columns` must hold."""
    scan = partial(_scan_columns, access, for_access(reader, access), at)
    return _in_ranges(scan, ranges(access, parameters), limit)


async def _in_ranges(
    scan: Callable[[KeyRange, int | None], AsyncGenerator[B, None]],
    key_ranges: Sequence[KeyRange],
    limit: int | None,
) -> AsyncGenerator[B, None]:
    """Yield the batches that `scan` reads of one range after the other."""
    for some_ranges in chunks(key_ranges, SCANS_AT_ONCE if limit is None else 1):
        scans = [scan(key_range, limit) for key_range in some_ranges]
        async with aclosing(_one_after_other(scans)) as scanned:
            async for batch in scanned:
                yield batch
                if limit is not None and (limit := limit - len(batch)) <= 0:
                    return


async def _one_after_other(
    scans: Sequence[AsyncGenerator[B, None]],
) -> AsyncGenerator[B, None]:
    """Yield the batches of one scan after the other. The first batches are read concurrently: most
    ranges have only one, and each may be a call to another machine."""
    async with AsyncExitStack() as stack:
        for scan in scans:
            stack.push_async_callback(scan.aclose)
        if len(scans) == 1:
            firsts = [await anext(scans[0], None)]
        else:
            firsts = await all_settled([anext(scan, None) for scan in scans])
        for first, scan in zip(firsts, scans, strict=True):
            if first is not None:
                yield first
                async for batch in scan:
                    yield batch


async def _scan(
    access: Access, reader: RowReader, key_range: KeyRange, limit: int | None
) -> AsyncGenerator[list[Row], None]:
    scan = reader.scan(access.layout.name, key_range, reverse=access.reverse, limit=limit)
    async for batch in scan:
        if access.covering:
            yield batch
        else:
            async with aclosing(_resolve(access, reader, batch)) as resolved:
                async for rows in resolved:
                    yield rows
        await turn(batch, 0)  # yield to other tasks; allows cancellation of a long scan


async def _scan_columns(
    access: Access, reader: RowReader, at: Sequence[int], key_range: KeyRange, limit: int | None
) -> AsyncGenerator[pa.RecordBatch, None]:
    name, reverse = access.layout.name, access.reverse
    async for batch in reader.scan_columns(name, at, key_range, reverse=reverse, limit=limit):
        yield batch
        await pause()  # as in `_scan`


async def lookup_rows(
    access: Access, reader: RowReader, wanted: Sequence[Key], parameters: Parameters
) -> AsyncGenerator[list[Row], None]:
    """Yield the rows of `lookup` in batches."""
    async with aclosing(lookup(access, reader, wanted, parameters)) as parts:
        async for part in parts:
            yield list(itertools.chain.from_iterable([found.rows for found in part]))


async def lookup(
    access: Access, reader: RowReader, wanted: Sequence[Key], parameters: Parameters
) -> AsyncGenerator[list[Found], None]:
    """Yield the rows under each key of `wanted`, in order, in parts of about BATCH_BYTES. A key is
    a tuple of values for the path's equalities; for a point path it is a whole key.

    A path with a range looks only the entries in its range up in the source. It may yield other
    rows, too: the conditions are evaluated for each row that it yields."""
    reader = for_access(reader, access)
    within = range_values(access, parameters)
    if within is None:  # a bound is NULL
        yield [Found(key, [], whole=True) for key in wanted]
        return
    inside = row_in_range(access, within)
    done = 0
    while done < len(wanted):
        some = wanted[done : done + LOOKUP_BATCH]
        groups = await _groups(access, reader, some)
        done += len(groups) or 1
        if inside is not None:
            groups = [list(filter(inside, group)) for group in groups]
        if not groups:  # the first key has more rows than fit into a part
            only = replace(within, prefix=some[0])
            async with aclosing(_scan(access, reader, only, None)) as scan:
                async for rows in scan:
                    yield [Found(some[0], rows, whole=False)]
            yield [Found(some[0], [], whole=True)]
        elif access.covering:
            yield [Found(*each, whole=True) for each in zip(some, groups, strict=False)]
        else:
            async with aclosing(_resolved(access, reader, some, groups)) as parts:
                async for part in parts:
                    yield part


async def _groups(access: Access, reader: RowReader, some: Sequence[Key]) -> list[list[Row]]:
    """The rows of `access.layout` per key, for as many of the first keys as fill a part; empty if
    the rows of the first key alone exceed a part."""
    layout = access.layout.name
    if access.reach is Reach.POINT:
        found = await reader.get(layout, some, room=BATCH_BYTES)
        return [[] if version is None else [version.row] for version in found]
    groups = [
        [version.row for version in group]
        for group in await reader.prefixes(layout, some, room=BATCH_BYTES)
    ]
    return [group[::-1] for group in groups] if access.reverse else groups


async def _resolved(
    access: Access, reader: RowReader, some: Sequence[Key], groups: Sequence[list[Row]]
) -> AsyncGenerator[list[Found], None]:
    """Yield, per key, the source's rows that the index entries in `groups` point to."""
    left = deque((key, len(group)) for key, group in zip(some, groups, strict=False))
    entries = list(itertools.chain.from_iterable(groups))
    async with aclosing(_resolve(access, reader, entries)) as batches:
        async for rows in batches:
            part, begin = [], 0
            while left and (begin < len(rows) or not left[0][1]):
                key, count = left.popleft()
                mine = rows[begin : begin + count]
                begin += len(mine)
                part.append(Found(key, mine, whole=len(mine) == count))
                if len(mine) < count:
                    left.appendleft((key, count - len(mine)))
            yield part
    if left:
        yield [Found(key, [], whole=True) for key, _ in left]


async def _resolve(
    access: Access, reader: RowReader, entries: Sequence[Row]
) -> AsyncGenerator[list[Row], None]:
    """Yield the source's rows that index entries point to, in order, in batches. Raises Corruption
    if a row is missing."""
    key_of = source_key(access)
    wanted = [key_of(entry) for entry in entries]
    while wanted:
        found = await reader.get(access.source.name, wanted[:LOOKUP_BATCH], room=BATCH_BYTES)
        if None in found:
            raise dangling(access)
        yield [version.row for version in found if version is not None]
        wanted = wanted[len(found) :]


def source_key(access: Access) -> Callable[[Row], Key]:
    """A function from an index entry to the key of the source's row."""
    return getter([access.layout.positions[part.column] for part in access.source.key])


def dangling(access: Access) -> Corruption:
    """The error of an index entry without a row."""
    return Corruption(
        f"Index {access.layout.name} points to a row that {access.source.name} lacks.",
        cure=f"Run `hornbeam verify {access.layout.name} --repair`.",
    )


def getter(positions: Sequence[int]) -> Callable[[Row], Key]:
    """A function that returns the values at `positions` as a tuple, for any number of positions
    (unlike `itemgetter`)."""
    if len(positions) == 1:
        position = positions[0]
        return lambda row: (row[position],)
    return itemgetter(*positions) if positions else lambda _row: ()
