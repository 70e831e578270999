"""Queries that DuckDB runs: what to read for it, and running it.

Every relation that the statement names is read through our own access paths and handed to DuckDB
under a name of its own. What is read is narrowed by necessary conditions only (filters, and the
join values of sources read before); DuckDB evaluates the statement in full on what it gets.

Memory is bounded: a source of up to `BUFFER_ROWS` rows becomes one Arrow batch, a larger one is
streamed into a temporary table, which DuckDB spills to disk. Results come back in batches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from query.access import Access, JoinColumn, Parameters, value_of
from query.duck import to_record_batch
from query.fetch import Key, chunks, fetch, getter, lookup
from query.lift import Lift
from query.native import NativePlan
from query.session import Duck, DuckSession
from schema.model import Column
from schema.types import Row, Value
from storage.snapshot import RowReader

BUFFER_ROWS = 20_000
"""Rows of one source that are held as Python values; more of them go to a temporary table."""
MAX_JOIN_VALUES = 2_000
"""Join values that are always looked up; beyond, a scan must be `SCAN_SHARE` times larger."""
SCAN_SHARE = 5


@dataclass(frozen=True, slots=True)
class SourceRead:
    """One relation occurrence: registered as `name` with `columns`.

    `access` may need join values of sources read before it; `alone` never does.
    """

    name: str
    access: Access
    alone: Access
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiftedQuery:
    """A subquery that is answered before anything else."""

    lift: Lift
    plan: NativePlan | ResidualPlan


@dataclass(frozen=True)
class ResidualPlan:
    """SQL for DuckDB over registered names, with its parameters' names, and the reads per block."""

    sql: str
    parameters: tuple[tuple[str, int | str], ...]
    blocks: tuple[tuple[SourceRead, ...], ...]
    lifted: tuple[LiftedQuery, ...]
    reason: str

    @property
    def accesses(self) -> tuple[Access, ...]:
        own = [read.access for reads in self.blocks for read in reads]
        inner = [access for item in self.lifted for access in item.plan.accesses]
        return (*own, *inner)

    async def batches(
        self, reader: RowReader, parameters: Parameters, session: DuckSession
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The result in Arrow batches. `session` is this query's alone."""
        values: dict[Any, Any] = dict(parameters)
        loaded: dict[str, Kept | None] = {}
        for item in self.lifted:
            await _answer(item, reader, values, session, loaded)
        for reads in self.blocks:
            rows = {name: kept for name, kept in loaded.items() if kept is not None}
            for read in reads:
                if read.name not in loaded:
                    loaded[read.name] = await _load(read, reader, values, session, rows)
                if (kept := loaded[read.name]) is not None:
                    rows[read.access.alias] = kept
        given = {name: values[key] for name, key in self.parameters}
        async with aclosing(session.query(self.sql, given)) as result:
            async for batch in result:
                yield batch


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows in memory, with the place of each column."""

    rows: Sequence[Row]
    positions: Mapping[str, int]


async def _answer(
    item: LiftedQuery,
    reader: RowReader,
    values: dict[Any, Any],
    session: DuckSession,
    loaded: dict[str, Kept | None],
) -> None:
    """Run a lifted subquery: one value, or a registered column of values."""
    async with aclosing(plan_rows(item.plan, reader, values, session.duck)) as source:
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
    """Register the rows as `name`; None when they are too many to be kept here."""
    rows: list[Row] = []
    spilled = False
    async for batch in source:
        rows.extend(batch)
        if len(rows) > BUFFER_ROWS:
            await session.append(name, to_record_batch(columns, rows), first=not spilled)
            spilled = True
            rows = []
    if spilled:
        await session.append(name, to_record_batch(columns, rows), first=False)
        return None
    session.register(name, to_record_batch(columns, rows))
    return Kept(rows, {column.name: i for i, column in enumerate(columns)})


async def plan_rows(
    plan: NativePlan | ResidualPlan,
    reader: RowReader,
    parameters: Parameters,
    duck: Duck,
) -> AsyncGenerator[list[Row], None]:
    """Rows of either kind of plan."""
    if isinstance(plan, NativePlan):
        async with aclosing(plan.batches(reader, parameters)) as rows:
            async for some in rows:
                yield some
        return
    async with duck.session() as own, aclosing(plan.batches(reader, parameters, own)) as result:
        async for batch in result:
            yield own.rows(batch)


async def _load(
    read: SourceRead,
    reader: RowReader,
    values: Parameters,
    session: DuckSession,
    kept: Mapping[str, Kept],
) -> Kept | None:
    """Read one source and register it."""
    wanted = _wanted(read, values, kept)
    access = read.alone if wanted is None else read.access
    source = (
        fetch(access, reader, values) if wanted is None else _fetch_keys(access, reader, wanted)
    )
    positions = access.output.positions
    columns = [access.output.columns[positions[name]] for name in read.columns]
    pick = getter([positions[name] for name in read.columns])
    async with aclosing(source):
        picked = ([pick(row) for row in batch] async for batch in source)
        return await _store(read.name, columns, picked, session)


async def _fetch_keys(
    access: Access, reader: RowReader, wanted: Sequence[Key]
) -> AsyncGenerator[list[Row], None]:
    for some in chunks(wanted):
        yield list(itertools.chain.from_iterable(await lookup(access, reader, some)))


def _wanted(read: SourceRead, values: Parameters, kept: Mapping[str, Kept]) -> list[Key] | None:
    """The keys to look up, from the rows of the joined sources; None: read the source alone."""
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
    """(distinct value tuples, the equalities they are for): one group per joined source, whose
    columns belong together, and one per constant equality."""
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
    """The distinct values of constants, parameters and columns of kept rows, without NULL."""
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
