"""Queries that never leave our code: nested loops over access paths, filter, order, limit.

One SELECT over one source or over several that are looked up key by key, with expressions that
`query/expressions` compiles, and optionally groups by plain columns with plain aggregates. Some
subqueries are answered first (`query/lift.py`). Everything is decided when the statement is
prepared; a run only resolves parameters, reads and calls closures. `query/native_plan.py` makes
the plans.

Memory is bounded: rows stream, but for an ORDER BY that no path delivers, for groups, and for the
values of a subquery. A sort keeps LIMIT + OFFSET rows; else these give up with `TooManyRows`
before anything has been yielded.
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
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass
from functools import reduce
from typing import Any

from sqlglot import exp

from query.access import Access, Parameters, value_of
from query.expressions import SortTerm, sort_rows
from query.fetch import LOOKUP_BATCH, Key, chunks, fetch, lookup
from schema.errors import SqlError
from schema.types import ColumnType, Row, Value
from storage.snapshot import RowReader

SORT_ROWS = 20_000
"""Rows that are sorted, and groups that are kept, in memory; more go to DuckDB, which can spill."""
LIST_VALUES = 2_000
"""Distinct values of a subquery that are looked up one by one; with more of them DuckDB joins."""
_EXACT = decimal.Context(prec=76)


class TooManyRows(Exception):
    """A sort, the groups or a subquery's values outgrew memory before anything was yielded."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """COUNT, SUM, MIN or MAX over a group; no argument means COUNT(*)."""

    kind: type[exp.Expr]
    argument: Callable[[Row, Any], Value] | None


@dataclass(frozen=True, slots=True)
class Grouping:
    """GROUP BY: a group's row is its key, then its aggregates.

    `whole`: all rows are one group, which is there even if they are none. `having` is asked of
    the group's row.
    """

    key: Callable[[Row], Key]
    aggregates: tuple[Aggregate, ...]
    whole: bool = False
    having: Callable[[Row, Any], Value] | None = None


@dataclass(frozen=True, slots=True)
class Lookup:
    """A joined source, with the distinct keys of its rows for a joined row so far."""

    access: Access
    keys: Callable[[Row, Parameters], Collection[Key]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A subquery that is answered first: by its one value, or by all those of its column."""

    name: str
    plan: NativePlan
    many: bool


@dataclass(frozen=True)
class NativePlan:
    """A query ready to run."""

    first: Access
    lookups: tuple[Lookup, ...]
    predicate: Callable[[Row, Any], Value] | None
    """The whole WHERE on a joined row; None when the access path alone fulfils it."""
    order: tuple[SortTerm, ...]
    delivered: int
    """Leading terms of `order` that the rows arrive in already."""
    grouping: Grouping | None
    """With it, `order` and `project` are asked of the groups' rows."""
    project: Callable[[Sequence[Row], Any], list[Row]]
    limit: Any
    offset: Any
    first_row_only: bool = False
    """MIN or MAX at an end of a key: one row answers."""
    types: tuple[ColumnType | None, ...] = ()
    """Of the result's columns."""
    answers: tuple[Answer, ...] = ()

    @property
    def accesses(self) -> tuple[Access, ...]:
        inner = (access for answer in self.answers for access in answer.plan.accesses)
        return (*inner, self.first, *(step.access for step in self.lookups))

    async def batches(
        self, reader: RowReader, parameters: Parameters
    ) -> AsyncGenerator[list[Row], None]:
        """The result, in batches. Raises TooManyRows before the first one."""
        limit, offset = row_count(self.limit, parameters), row_count(self.offset, parameters) or 0
        if limit == 0:
            return
        if self.answers:
            parameters = await _answered(self.answers, reader, parameters)
        wanted = None if limit is None else limit + offset
        async with aclosing(self._ordered(reader, parameters, wanted)) as source:
            async for batch in _slice(source, offset, limit):
                yield self.project(batch, parameters)

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
        """Joined rows that fulfil the WHERE."""
        limit = self._read_limit(wanted)
        async with aclosing(fetch(self.first, reader, parameters, limit=limit)) as source:
            async for batch in source:
                if not self.lookups:
                    yield self._matching(batch, parameters)
                    continue
                for some in chunks(batch):
                    rows = await self._join(some, reader, parameters)
                    yield self._matching(rows, parameters)

    def _read_limit(self, wanted: int | None) -> int | None:
        """Rows to read, when every row read is a row of the result."""
        if self.first_row_only:
            return 1
        in_order = self.delivered == len(self.order) and self.grouping is None
        return wanted if in_order and self.predicate is None and not self.lookups else None

    def _matching(self, rows: list[Row], parameters: Parameters) -> list[Row]:
        predicate = self.predicate
        if predicate is None:
            return rows
        return [row for row in rows if predicate(row, parameters)]

    async def _join(
        self, rows: Sequence[Row], reader: RowReader, parameters: Parameters
    ) -> list[Row]:
        for step in self.lookups:
            rows = await _extend(step, rows, reader, parameters)
        return list(rows)

    async def _sorted(
        self, source: AsyncIterator[Sequence[Row]], parameters: Parameters, wanted: int | None
    ) -> AsyncGenerator[list[Row], None]:
        """Sorted rows, at least `wanted` of them.

        With LIMIT, only rows that the delivered part of the order leaves equal are sorted
        together, and reading stops when enough of them are complete.
        """
        few = wanted is not None and wanted <= SORT_ROWS
        heads = self.order[: self.delivered] if few else ()
        rest = self.order[len(heads) :]
        group: list[Row] = []
        current: Any = None
        async for batch in source:
            for head, rows in itertools.groupby(
                batch, lambda row: tuple(term.value(row, parameters) for term in heads)
            ):
                if group and head != current:
                    yield sort_rows(group, rest, parameters)
                    group = []
                current = head
                group.extend(rows)
                group = _bounded(group, rest, parameters, wanted if few else None)
        yield sort_rows(group, rest, parameters)


# --- running ---------------------------------------------------------------------------------


def row_count(operand: Any, parameters: Parameters) -> int | None:
    """The value of LIMIT or OFFSET; NULL means none. Raises SqlError."""
    value = value_of(operand, parameters)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SqlError("LIMIT and OFFSET want a whole number that is not negative")
    return value


async def _answered(
    answers: Sequence[Answer], reader: RowReader, parameters: Parameters
) -> Parameters:
    """The parameters, and the subqueries' answers by their names. Raises TooManyRows."""
    values: dict[Any, Any] = dict(parameters)
    for answer in answers:
        found: dict[Value, None] = {}
        async with aclosing(answer.plan.batches(reader, values)) as source:
            async for rows in source:
                found.update(dict.fromkeys(value for (value,) in rows))
                if len(found) > LIST_VALUES:
                    raise TooManyRows
        if answer.many:
            found.pop(None, None)  # NULL equals nothing
            values[answer.name] = found
        else:
            (values[answer.name],) = found
    return values


async def _slice(
    source: AsyncIterator[Sequence[Row]], offset: int, limit: int | None
) -> AsyncGenerator[Sequence[Row], None]:
    skip, left = offset, limit
    async for batch in source:
        rows = batch[skip:] if skip else batch
        skip = max(0, skip - len(batch))
        if left is not None:
            rows = rows[:left]
            left -= len(rows)
        if rows:
            yield rows
        if left == 0:
            return


async def _extend(
    step: Lookup, rows: Sequence[Row], reader: RowReader, parameters: Parameters
) -> list[Row]:
    """Each row with each of its matches; order of `rows` is kept. NULL matches nothing."""
    wanted = [step.keys(row, parameters) for row in rows]
    distinct = list(dict.fromkeys(itertools.chain.from_iterable(wanted)))
    found: dict[Key, list[Row]] = {}
    for some in chunks(distinct):
        found.update(zip(some, await lookup(step.access, reader, some), strict=True))
    return [
        row + match
        for row, keys in zip(rows, wanted, strict=True)
        for key in keys
        for match in found[key]
    ]


def _bounded(
    group: list[Row], terms: Sequence[SortTerm], parameters: Parameters, wanted: int | None
) -> list[Row]:
    """Keep a group small: with LIMIT only its best rows matter. Raises TooManyRows without."""
    if wanted is None:
        if len(group) > SORT_ROWS:
            raise TooManyRows
        return group
    if len(group) > 2 * wanted + LOOKUP_BATCH:
        return sort_rows(group, terms, parameters)[:wanted]
    return group


async def _grouped(
    grouping: Grouping, source: AsyncGenerator[Sequence[Row], None], parameters: Parameters
) -> AsyncGenerator[list[Row], None]:
    """One row per group, in no order. Raises TooManyRows."""
    empty = [0 if aggregate.kind is exp.Count else None for aggregate in grouping.aggregates]
    groups: dict[Key, list[Value]] = {(): [*empty]} if grouping.whole else {}
    async with aclosing(source):
        async for batch in source:
            for key, rows in _by_key(grouping, batch).items():
                states = groups.setdefault(key, [*empty])
                for i, aggregate in enumerate(grouping.aggregates):
                    states[i] = _accumulate(aggregate, states[i], rows, parameters)
            if len(groups) > SORT_ROWS:
                raise TooManyRows
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


def _sum(values: Sequence[Any]) -> Value:
    """Exact, as DECIMAL(38, scale): what DuckDB's HUGEINT and DECIMAL sums are as values."""
    return reduce(_EXACT.add, values, decimal.Decimal(0))
