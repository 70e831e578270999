"""Native execution without DuckDB: nested loops over access paths, filter, order, limit.

A native query is one SELECT over one source, or over several sources that are looked up by key. Its
expressions are those that `query/expressions` compiles. It may group by plain columns with plain
aggregates. Some subqueries are answered first (`query/optimizer/uncorrelated_subqueries.py`). All
decisions are made when the statement is prepared (`query/loops_plan.py`); a run only resolves
parameters, reads and calls closures.

Memory is bounded by rows and by bytes. Rows stream, except for an ORDER BY that no access path
delivers, for groups, and for the values of a subquery. A sort with LIMIT keeps LIMIT + OFFSET rows;
all others raise `TooManyRows` before the first row is yielded.
"""

from __future__ import annotations

import decimal
import itertools
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, TypeVar

import pyarrow as pa
from sqlglot import exp

from hornbeam_server.query.execution.lookups import LOOKUP_BATCH, Key, fetch, fetch_columns, lookup
from hornbeam_server.query.expressions import SortTerm, sort_rows
from hornbeam_server.query.optimizer.access_paths import Access, Parameters
from hornbeam_server.query.optimizer.key_ranges import value_of
from hornbeam_server.schema.errors import MemoryExceeded, SqlError, TypeMismatch
from hornbeam_server.schema.sizes import bytes_at, bytes_of, long_positions
from hornbeam_server.schema.turns import chunks
from hornbeam_server.schema.types import ColumnType, Row, Value
from hornbeam_server.storage.snapshot import RowReader

SORT_ROWS = 20_000
"""Maximum rows sorted, and maximum groups, in memory. DuckDB, which can spill, handles more."""
KEPT_BYTES = 32 << 20
"""Maximum bytes of text and binary values in a sort, in groups, or in a subquery's result."""
LIST_VALUES = 2_000
"""Maximum distinct values of a subquery that are looked up one by one; DuckDB joins more."""
JOINED_ROWS = 2_048
"""Size in rows of a batch of joined rows; the matches of one key may exceed it."""
MAX_PARTS = 4
"""Maximum parts of a lookup's result that are held in memory to join rows with."""
_EXACT = decimal.Context(prec=76)
B = TypeVar("B", Sequence[Row], pa.RecordBatch)


class TooManyRows(Exception):
    """A sort, the groups or a subquery's values exceeded the memory limits before the first row."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """COUNT, SUM, MIN or MAX over a group; no argument means COUNT(*)."""

    kind: type[exp.Expr]
    argument: Callable[[Row, Any], Value] | None
    whole: bool = False
    """Whether this is a SUM whose type is BIGINT: of INTEGER, or cast to BIGINT."""
    empty: Value = None
    """The SUM of no values."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """GROUP BY. A group's row consists of its key, then its aggregates.

    `whole`: all rows form one group, which exists even without rows. `having` is evaluated on the
    group's row.
    """

    key: Callable[[Row], Key]
    aggregates: tuple[Aggregate, ...]
    whole: bool = False
    having: Callable[[Row, Any], Value] | None = None


@dataclass(frozen=True, slots=True)
class Outer:
    """What makes a join a LEFT JOIN: its whole `condition` on a joined row, and the NULLs of a row
    without a partner."""

    condition: Callable[[Row, Any], Value]
    nulls: Row


@dataclass(frozen=True, slots=True)
class Lookup:
    """A joined source. `keys` gives the distinct keys to look up for a row joined so far. `outer`
    is None for an inner join, whose condition is part of the plan's predicate. `only` has the
    conditions of the WHERE on a row joined so far; None if there are none."""

    access: Access
    keys: Callable[[Row, Parameters], Collection[Key]]
    outer: Outer | None = None
    only: Callable[[Row, Any], Value] | None = None

    def wanted(self, rows: Sequence[Row], parameters: Parameters) -> Sequence[Row]:
        """Those of `rows` for which a partner is looked up: the result has none of the others."""
        if self.only is None:
            return rows
        return [row for row in rows if self.only(row, parameters)]

    def joined(self, row: Row, matches: Iterable[Row], parameters: Parameters) -> list[Row]:
        """The row joined with those of `matches` that are its partners."""
        found = [row + match for match in matches]
        if self.outer is None:
            return found
        condition = self.outer.condition
        return [each for each in found if condition(each, parameters)]


@dataclass(frozen=True, slots=True)
class Answer:
    """A subquery that is answered first. Its result is one value, or all values of its column if
    `many`."""

    name: str
    plan: NativePlan
    many: bool


@dataclass(frozen=True)
class NativePlan:
    """A native query that is ready to run."""

    first: Access | None
    """None for a SELECT without FROM, which has one row without columns."""
    lookups: tuple[Lookup, ...]
    predicate: Callable[[Row, Any], Value] | None
    """The WHERE on a joined row, but for the conditions `only` of the lookups; None if nothing is
    left of it, or if the access path alone guarantees it."""
    order: tuple[SortTerm, ...]
    delivered: int
    """Number of leading terms of `order` that the access path delivers."""
    grouping: Grouping | None
    """If set, `order` and `project` are evaluated on the groups' rows."""
    project: Callable[[Sequence[Row], Any], list[Row]]
    limit: Any
    offset: Any
    first_row_only: bool = False
    """Whether one row answers the query: MIN or MAX at the end of a key."""
    types: tuple[ColumnType | None, ...] = ()
    """Types of the result's columns."""
    answers: tuple[Answer, ...] = ()
    columns: tuple[int, ...] | None = None
    """Positions of the result's columns in the rows of `first`, if these are the result and are
    read as columns; None for any other plan."""

    @property
    def accesses(self) -> tuple[Access, ...]:
        inner = (access for answer in self.answers for access in answer.plan.accesses)
        return (*inner, *self._joined)

    @property
    def _joined(self) -> tuple[Access, ...]:
        first = () if self.first is None else (self.first,)
        return (*first, *(step.access for step in self.lookups))

    async def batches(
        self, reader: RowReader, parameters: Parameters
    ) -> AsyncGenerator[list[Row], None]:
        """Yield the result in batches. Raises TooManyRows before the first batch."""
        begin, end = self.bounds(parameters)
        if begin == end:
            return
        if self.answers:
            parameters = await _answered(self.answers, reader, parameters)
        source = self._ordered(reader, parameters, end)
        async with aclosing(_slice(source, begin, end)) as batches:
            async for batch in batches:
                yield self.project(batch, parameters)

    async def record_batches(
        self, reader: RowReader, parameters: Parameters
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the result of a plan with `columns`."""
        assert self.columns is not None
        assert self.first is not None
        begin, end = self.bounds(parameters)
        if begin == end:
            return
        source = fetch_columns(self.first, reader, parameters, self.columns, limit=end)
        async with aclosing(_slice(source, begin, end)) as batches:
            async for batch in batches:
                yield batch

    def bounds(self, parameters: Parameters) -> tuple[int, int | None]:
        """The numbers of the first row that OFFSET and LIMIT leave, and of the row behind the last
        one, which is None without a LIMIT. Raises SqlError."""
        limit, offset = row_count(self.limit, parameters), row_count(self.offset, parameters) or 0
        return offset, None if limit is None else offset + limit

    async def _ordered(
        self, reader: RowReader, parameters: Parameters, wanted: int | None
    ) -> AsyncGenerator[Sequence[Row], None]:
        grouping = self.grouping
        source = (
            self._rows(reader, parameters, wanted)
            if grouping is None
            else _grouped(grouping, self._rows(reader, parameters, None), parameters)
        )
        if self.delivered < len(self.order):
            source = self._sorted(source, parameters, wanted)
        async with aclosing(source):
            async for batch in source:
                yield batch

    async def _rows(
        self, reader: RowReader, parameters: Parameters, wanted: int | None
    ) -> AsyncGenerator[Sequence[Row], None]:
        """Yield the joined rows that satisfy the WHERE."""
        if self.first is None:
            yield [()]
            return
        limit = self.read_limit(wanted)
        async with aclosing(fetch(self.first, reader, parameters, limit=limit)) as source:
            async for batch in source:
                if not self.lookups:
                    yield self.matching(batch, parameters)
                    continue
                for some in chunks(self.lookups[0].wanted(batch, parameters), LOOKUP_BATCH):
                    joining = _join(self.lookups, list(some), reader, parameters)
                    async with aclosing(joining) as joined:
                        async for rows in joined:
                            yield self.matching(rows, parameters)

    def read_limit(self, wanted: int | None) -> int | None:
        """The number of rows to read, if every row read is a result row; None for no limit."""
        if self.first_row_only:
            return 1
        return wanted if self.gives_what_it_reads else None

    @property
    def gives_what_it_reads(self) -> bool:
        """Is every row that `first` reads a row of the result, in its order?"""
        in_order = self.delivered == len(self.order) and self.grouping is None
        return in_order and self.predicate is None and not self.lookups

    def matching(self, rows: list[Row], parameters: Parameters) -> list[Row]:
        """The rows that satisfy the WHERE."""
        predicate = self.predicate
        if predicate is None:
            return rows
        return [row for row in rows if predicate(row, parameters)]

    async def _sorted(
        self, source: AsyncIterator[Sequence[Row]], parameters: Parameters, wanted: int | None
    ) -> AsyncGenerator[list[Row], None]:
        """Yield sorted rows, at least `wanted` of them.

        With LIMIT, the delivered terms of the order split the rows into groups of equal rows. Each
        group is sorted alone, so that reading can stop after enough groups.
        """
        few = wanted is not None and wanted <= SORT_ROWS
        heads = self.order[: self.delivered] if few else ()
        rest = self.order[len(heads) :]
        long = self._long_positions if self.grouping is None else ()
        group: list[Row] = []
        size, current, yielded = 0, None, False
        async for batch in source:
            for head, rows in itertools.groupby(
                batch, lambda row: tuple(term.value(row, parameters) for term in heads)
            ):
                if group and head != current:
                    yield sort_rows(group, rest, parameters)
                    group, size, yielded = [], 0, True
                current = head
                before = len(group)
                group.extend(rows)
                size += bytes_at(group[before:], long)
                best = _bounded(group, size, rest, parameters, wanted if few else None)
                if best is not group:
                    group, size = best, bytes_at(best, long)
                if size > KEPT_BYTES:
                    raise _too_large_to_sort() if yielded else TooManyRows
        yield sort_rows(group, rest, parameters)

    @cached_property
    def _long_positions(self) -> tuple[int, ...]:
        """Positions in joined rows whose values can have any length."""
        return long_positions(c.type for access in self._joined for c in access.output.columns)


# --- running ---------------------------------------------------------------------------------


def row_count(operand: Any, parameters: Parameters) -> int | None:
    """The value of LIMIT or OFFSET; NULL means none. Raises SqlError."""
    value = value_of(operand, parameters)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SqlError(
            "LIMIT or OFFSET is not a whole number of at least 0.",
            cure="Give a whole number, or NULL for no limit.",
        )
    return value


async def _answered(
    answers: Sequence[Answer], reader: RowReader, parameters: Parameters
) -> Parameters:
    """The parameters and the subqueries' results by name. Raises TooManyRows."""
    values: dict[Any, Any] = dict(parameters)
    for answer in answers:
        found: dict[Value, None] = {}
        size = 0
        async with aclosing(answer.plan.batches(reader, values)) as source:
            async for rows in source:
                new = [value for (value,) in rows if value not in found]
                found.update(dict.fromkeys(new))
                size += bytes_of(new)
                if len(found) > LIST_VALUES or size > KEPT_BYTES:
                    raise TooManyRows
        if answer.many:
            found.pop(None, None)  # NULL equals nothing
            values[answer.name] = found
        else:
            (values[answer.name],) = found
    return values


async def _slice(
    source: AsyncGenerator[B, None], begin: int, end: int | None
) -> AsyncGenerator[B, None]:
    skip, left = begin, None if end is None else end - begin
    async with aclosing(source):
        async for batch in source:
            rows = batch[skip:] if skip else batch
            skip = max(0, skip - len(batch))
            if left is not None:
                rows = rows[:left]
                left -= len(rows)
            if len(rows):
                yield rows
            if left == 0:
                return


async def _join(
    steps: Sequence[Lookup], rows: list[Row], reader: RowReader, parameters: Parameters
) -> AsyncGenerator[list[Row], None]:
    """Yield `rows`, which the first step wants, joined with their matches in each of `steps`, in
    the order of `rows`."""
    if not steps:
        yield rows
        return
    rest = steps[1:]
    async with aclosing(_extend(steps[0], rows, reader, parameters)) as extended:
        async for some in extended:
            wanted = list(rest[0].wanted(some, parameters)) if rest else some
            async with aclosing(_join(rest, wanted, reader, parameters)) as joined:
                async for more in joined:
                    yield more


async def _extend(
    step: Lookup, rows: Sequence[Row], reader: RowReader, parameters: Parameters
) -> AsyncGenerator[list[Row], None]:
    """Yield each row joined with each of its matches, in the order of `rows`. NULL matches nothing.

    A lookup's result arrives in parts. Up to `MAX_PARTS` parts are held in memory and joined; then
    a new lookup starts with the remaining rows. A single row with more matches is joined part by
    part.
    """
    wanted = [step.keys(row, parameters) for row in rows]
    done = 0
    while done < len(rows):
        found = await _some_matches(step.access, wanted[done:], reader, parameters)
        begin = done
        while done < len(rows) and all(key in found for key in wanted[done]):
            done += 1
        for batch in _pairs(step, rows[begin:done], wanted[begin:done], found, parameters):
            yield batch
        del found  # free the matches before the next lookup
        if begin == done:
            alone = step.outer
            async with aclosing(
                lookup(step.access, reader, list(wanted[done]), parameters)
            ) as parts:
                async for part in parts:
                    matches = (match for _, some, _ in part for match in some)
                    if joined := step.joined(rows[done], matches, parameters):
                        yield joined
                        alone = None
            if alone is not None:
                yield [rows[done] + alone.nulls]
            done += 1


async def _some_matches(
    access: Access, wanted: Sequence[Collection[Key]], reader: RowReader, parameters: Parameters
) -> dict[Key, list[Row]]:
    """All matches of the first keys in `wanted`, for as many keys as `MAX_PARTS` parts contain."""
    distinct = list(dict.fromkeys(itertools.chain.from_iterable(wanted)))
    found: dict[Key, list[Row]] = {}
    begun: list[Row] = []
    taken = 0
    async with aclosing(lookup(access, reader, distinct, parameters)) as parts:
        async for part in parts:
            for key, matches, whole in part:
                begun = begun + matches if begun else matches
                if whole:
                    found[key], begun = begun, []
            if (taken := taken + 1) == MAX_PARTS:
                break
    return found


def _pairs(
    step: Lookup,
    rows: Sequence[Row],
    wanted: Sequence[Collection[Key]],
    found: Mapping[Key, list[Row]],
    parameters: Parameters,
) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row, keys in zip(rows, wanted, strict=True):
        alone = step.outer
        for key in keys:
            if joined := step.joined(row, found[key], parameters):
                batch += joined
                alone = None
            if len(batch) >= JOINED_ROWS:
                yield batch
                batch = []
        if alone is not None:
            batch.append(row + alone.nulls)
    if batch:
        yield batch


def _bounded(
    group: list[Row],
    size: int,
    terms: Sequence[SortTerm],
    parameters: Parameters,
    wanted: int | None,
) -> list[Row]:
    """The group, cut to its best `wanted` rows when it grows too large. Without `wanted`, raises
    TooManyRows instead."""
    if wanted is None:
        if len(group) > SORT_ROWS:
            raise TooManyRows
        return group
    most = 2 * wanted + LOOKUP_BATCH if size <= KEPT_BYTES else wanted
    return sort_rows(group, terms, parameters)[:wanted] if len(group) > most else group


def _too_large_to_sort() -> MemoryExceeded:
    return MemoryExceeded(
        f"The rows to be sorted have more than {KEPT_BYTES} bytes.",
        cure="Give a smaller LIMIT, or sort keys alone and ask for their rows then.",
    )


async def _grouped(
    grouping: Grouping, source: AsyncGenerator[Sequence[Row], None], parameters: Parameters
) -> AsyncGenerator[list[Row], None]:
    """Yield one row per group, in no particular order. Raises TooManyRows."""
    empty = [0 if each.kind is exp.Count else each.empty for each in grouping.aggregates]
    groups: dict[Key, list[Value]] = {(): [*empty]} if grouping.whole else {}
    size = 0
    async with aclosing(source):
        async for batch in source:
            for key, rows in _by_key(grouping, batch).items():
                states = groups.get(key)
                if states is None:
                    states = groups[key] = [*empty]
                    size += bytes_of(key)
                size -= bytes_of(states)
                for i, aggregate in enumerate(grouping.aggregates):
                    states[i] = _accumulate(aggregate, states[i], rows, parameters)
                size += bytes_of(states)
            if len(groups) > SORT_ROWS or size > KEPT_BYTES:
                raise TooManyRows
    totals = [i for i, aggregate in enumerate(grouping.aggregates) if aggregate.whole]
    for states in groups.values():
        for i in totals:
            states[i] = _bigint(states[i])
    rows = [(*key, *states) for key, states in groups.items()]
    having = grouping.having
    yield rows if having is None else [row for row in rows if having(row, parameters)]


def _by_key(grouping: Grouping, rows: Sequence[Row]) -> Mapping[Key, Sequence[Row]]:
    if grouping.whole:
        return {(): rows}
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(grouping.key(row), []).append(row)
    return found


def _accumulate(
    aggregate: Aggregate, state: Any, rows: Sequence[Row], parameters: Parameters
) -> Value:
    if aggregate.argument is None:
        return int(state) + len(rows)
    argument = aggregate.argument
    values: Iterable[Any] = (argument(row, parameters) for row in rows)
    present = [value for value in values if value is not None]
    if aggregate.kind is exp.Count:
        return int(state) + len(present)
    if not present:
        kept: Value = state
        return kept
    if state is not None:
        present.append(state)
    if aggregate.kind is exp.Sum:
        return _sum(present)
    best: Value = min(present) if aggregate.kind is exp.Min else max(present)
    return best


def _bigint(total: Any) -> Value:
    if total is not None and not -(1 << 63) <= total < 1 << 63:
        raise TypeMismatch(f"The sum {total} is out of range for BIGINT.")
    return None if total is None else int(total)


def _sum(values: Sequence[Any]) -> Value:
    """The exact sum as a DECIMAL(38, scale), equal in value to DuckDB's HUGEINT or DECIMAL sum."""
    return reduce(_EXACT.add, values, decimal.Decimal(0))
