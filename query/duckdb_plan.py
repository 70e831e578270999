"""Queries that DuckDB runs: reading their sources and running them.

Each relation of the statement is read through Hornbeam's access paths and registered in DuckDB
under a generated name. Only necessary conditions narrow a read (filters, and the join values of
sources read before); DuckDB evaluates the whole statement on the rows.

Memory is bounded: a source of up to `BUFFER_ROWS` rows and `BUFFER_BYTES` becomes one Arrow table.
A larger source is streamed into a temporary table, which DuckDB spills to disk. Results are
returned in batches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from hornbeam_server.query.duckdb.session import DuckSession
from hornbeam_server.query.execution.lookups import (
    Key,
    fetch,
    fetch_columns,
    getter,
    has_columns,
    lookup_rows,
)
from hornbeam_server.query.execution.loops import NativePlan
from hornbeam_server.query.optimizer.access_paths import Access, JoinColumn, Parameters
from hornbeam_server.query.optimizer.key_ranges import value_of
from hornbeam_server.query.optimizer.uncorrelated_subqueries import Lift
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.sizes import bytes_at, long_positions, pieces
from hornbeam_server.schema.types import ColumnType, Row, Value
from hornbeam_server.storage.codec.arrow import arrow_schema, to_record_batch
from hornbeam_server.storage.snapshot import RowReader

BUFFER_ROWS = 20_000
"""Maximum rows of one source that are held in this process; more go to a temporary table."""
BUFFER_BYTES = 8 << 20
"""Maximum bytes of their text and binary values, or of their Arrow data. Memory holds rows also as
Arrow data, and Arrow data again during the transfer."""
MAX_JOIN_VALUES = 2_000
"""Up to this many join values are always looked up; more are looked up only if reading the source
alone would read `SCAN_SHARE` times as many rows."""
SCAN_SHARE = 5


@dataclass(frozen=True, slots=True)
class SourceRead:
    """The read of one relation occurrence, registered as `name` with `columns`.

    `access` may need join values of sources that are read before; `alone` never does.
    """

    name: str
    access: Access
    alone: Access
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiftedQuery:
    """A subquery that is answered before the sources are read."""

    lift: Lift
    plan: NativePlan | ResidualPlan


@dataclass(frozen=True)
class ResidualPlan:
    """SQL for DuckDB over registered names, the names of its parameters, and the reads per
    block. `types` are the types of the result as far as binding knows them."""

    sql: str
    parameters: tuple[tuple[str, int | str], ...]
    blocks: tuple[tuple[SourceRead, ...], ...]
    lifted: tuple[LiftedQuery, ...]
    reason: str
    system: tuple[tuple[str, pa.Table], ...] = ()
    """The system relations that the statement reads, by the names that the SQL has."""
    live: tuple[str, ...] = ()
    """The names of those whose rows the session has, because they differ from run to run."""
    types: tuple[ColumnType | None, ...] = ()
    by_types: bool = False
    """May native code run the query when the types of its parameters are known?"""

    @property
    def accesses(self) -> tuple[Access, ...]:
        own = [read.access for reads in self.blocks for read in reads]
        inner = [access for item in self.lifted for access in item.plan.accesses]
        return (*own, *inner)

    @cached_property
    def all_live(self) -> frozenset[str]:
        """The live system relations that the statement and its subqueries read."""
        inner = (item.plan for item in self.lifted)
        found = (plan.all_live for plan in inner if isinstance(plan, ResidualPlan))
        return frozenset(self.live).union(*found)

    @cached_property
    def _joined(self) -> frozenset[str]:
        """The names of the sources whose values are looked up in other sources."""
        return frozenset(
            read.name
            for reads in self.blocks
            for alias in {c.alias for other in reads for c in other.access.join_columns}
            for read in reads
            if read.access.alias == alias
        )

    async def batches(
        self, reader: RowReader, parameters: Parameters, session: DuckSession
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the result in Arrow batches. No other query uses `session`."""
        values: dict[Any, Any] = dict(parameters)
        loaded: dict[str, Kept | None] = {}
        for name, table in self.system:
            session.register(name, table)
        for name in self.live:
            session.register_live(name)
        for item in self.lifted:
            await _answer(item, reader, values, session, loaded)
        for reads in self.blocks:
            rows = {name: kept for name, kept in loaded.items() if kept is not None}
            for read in reads:
                if read.name not in loaded:
                    keep = read.name in self._joined
                    loaded[read.name] = await _load(read, reader, values, session, rows, keep=keep)
                if (kept := loaded[read.name]) is not None:
                    rows[read.access.alias] = kept
        given = {name: values[key] for name, key in self.parameters}
        async with aclosing(session.query(self.sql, given)) as result:
            async for batch in result:
                yield batch


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows in memory, with the position of each column."""

    rows: Sequence[Row]
    positions: Mapping[str, int]


async def _answer(
    item: LiftedQuery,
    reader: RowReader,
    values: dict[Any, Any],
    session: DuckSession,
    loaded: dict[str, Kept | None],
) -> None:
    """Run a lifted subquery, and store its single value in `values` or register its column."""
    async with aclosing(
        plan_rows(item.plan, reader, values, DuckSession(session.workers, within=session))
    ) as source:
        if item.lift.filter is not None:
            async for batch in source:
                values[item.lift.name] = batch[0][0]  # one aggregate row
            return
        (column,) = item.lift.query.columns
        assert column.type is not None
        stored = [Column(column.name, column.type)]
        loaded[item.lift.name] = await _store(item.lift.name, stored, source, session)


async def _store(
    name: str,
    columns: Sequence[Column],
    source: AsyncIterator[Sequence[Row]],
    session: DuckSession,
) -> Kept | None:
    """Register the rows as `name` and return them; None if they were too many to hold in memory."""
    rows: list[Row] = []
    size, spilled = 0, False
    long = long_positions(column.type for column in columns)
    async for batch in source:
        for piece in pieces(batch, long, BUFFER_BYTES):
            rows.extend(piece)
            size += bytes_at(piece, long)
            if len(rows) > BUFFER_ROWS or size > BUFFER_BYTES:
                await session.append(name, _table(columns, rows), first=not spilled)
                spilled = True
                rows, size = [], 0
    if spilled:
        await session.append(name, _table(columns, rows), first=False)
        return None
    session.register(name, _table(columns, rows))
    return Kept(rows, {column.name: i for i, column in enumerate(columns)})


def _table(columns: Sequence[Column], rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_batches([to_record_batch(columns, rows)])


async def _store_columns(
    name: str,
    columns: Sequence[Column],
    source: AsyncIterator[pa.RecordBatch],
    session: DuckSession,
) -> None:
    """Register the rows as `name`, without keeping them."""
    schema = arrow_schema(columns)
    some: list[pa.RecordBatch] = []
    rows, size, spilled = 0, 0, False
    async for batch in source:
        some.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows > BUFFER_ROWS or size > BUFFER_BYTES:
            await session.append(name, pa.Table.from_batches(some, schema), first=not spilled)
            some, rows, size, spilled = [], 0, 0, True
    table = pa.Table.from_batches(some, schema)
    if spilled:
        await session.append(name, table, first=False)
    else:
        session.register(name, table)


async def plan_rows(
    plan: NativePlan | ResidualPlan,
    reader: RowReader,
    parameters: Parameters,
    own: DuckSession,
) -> AsyncGenerator[list[Row], None]:
    """Yield the rows of either kind of plan. A ResidualPlan uses and closes the session `own`."""
    if isinstance(plan, NativePlan):
        async with aclosing(plan.batches(reader, parameters)) as rows:
            async for some in rows:
                yield some
        return
    async with own, aclosing(plan.batches(reader, parameters, own)) as result:
        async for batch in result:
            yield own.rows(batch, plan.types)


async def _load(
    read: SourceRead,
    reader: RowReader,
    values: Parameters,
    session: DuckSession,
    kept: Mapping[str, Kept],
    *,
    keep: bool,
) -> Kept | None:
    """Read one source and register its rows. The result is that of `_store`; None unless `keep`, if
    the source is read as columns."""
    wanted = _wanted(read, values, kept)
    access = read.alone if wanted is None else read.access
    positions = access.output.positions
    at = [positions[name] for name in read.columns]
    columns = [access.output.columns[i] for i in at]
    if wanted is None and not keep and has_columns(access):
        async with aclosing(fetch_columns(access, reader, values, at)) as batches:
            await _store_columns(read.name, columns, batches, session)
        return None
    source = (
        fetch(access, reader, values)
        if wanted is None
        else lookup_rows(access, reader, wanted, values)
    )
    pick = getter(at)
    async with aclosing(source):
        picked = ([pick(row) for row in batch] async for batch in source)
        return await _store(read.name, columns, picked, session)


def _wanted(read: SourceRead, values: Parameters, kept: Mapping[str, Kept]) -> list[Key] | None:
    """The keys to look up, from the rows of the joined sources; None to read the source alone."""
    needed = read.access.join_columns
    if not needed or any(column.alias not in kept for column in needed):
        return None
    choices = _choices(read.access, values, kept)
    count = math.prod(len(some) for some, _ in choices)
    if count > max(MAX_JOIN_VALUES, read.alone.rows / SCAN_SHARE):
        return None
    places = [place for _, group in choices for place in group]
    back = getter([places.index(i) for i in range(len(places))])
    combined = itertools.product(*(some for some, _ in choices))
    return [back(tuple(itertools.chain.from_iterable(parts))) for parts in combined]


def _choices(
    access: Access, values: Parameters, kept: Mapping[str, Kept]
) -> list[tuple[list[Key], list[int]]]:
    """(distinct value tuples, positions of their equalities): one group per joined source, whose
    columns belong together, and one per equality without joins or with several operands."""
    groups: dict[str, list[tuple[int, JoinColumn]]] = {}
    choices: list[tuple[list[Key], list[int]]] = []
    for i, equality in enumerate(access.equalities):
        operands = equality.operands
        if len(operands) == 1 and isinstance(operands[0], JoinColumn):
            groups.setdefault(operands[0].alias, []).append((i, operands[0]))
            continue
        found: list[Value] = [None] if equality.null else _any_of(operands, values, kept)
        choices.append(([(value,) for value in found], [i]))
    for alias, members in groups.items():
        rows = kept[alias]
        pick = getter([rows.positions[column.column] for _, column in members])
        distinct = dict.fromkeys(map(pick, rows.rows))
        choices.append(([key for key in distinct if None not in key], [i for i, _ in members]))
    return choices


def _any_of(operands: Sequence[Any], values: Parameters, kept: Mapping[str, Kept]) -> list[Value]:
    """The distinct values of constants, parameters and columns in `kept`, without NULL."""
    found: dict[Value, None] = {}
    for operand in operands:
        if isinstance(operand, JoinColumn):
            rows = kept[operand.alias]
            position = rows.positions[operand.column]
            found.update(dict.fromkeys(row[position] for row in rows.rows))
        else:
            found[value_of(operand, values)] = None
    found.pop(None, None)
    return list(found)
