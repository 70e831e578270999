"""Whole rows from given values: defaults, generated columns, NOT NULL and CHECK."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hornbeam_server.schema.assignment import assign, assign_all_of_file
from hornbeam_server.schema.copies import Copy
from hornbeam_server.schema.errors import ConstraintViolation, SqlError
from hornbeam_server.schema.model import Column, Default, DefaultKind, Relation
from hornbeam_server.schema.row_identity import is_row_identity, spread
from hornbeam_server.schema.rows import has_null
from hornbeam_server.schema.sequences import differs_by_row
from hornbeam_server.schema.sqltext import shown
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.schema.types import Kind, Row, Value
from hornbeam_server.txlayer.statements.identity_columns import Numbers
from hornbeam_server.txlayer.statements.write_plans import Assignments, Defaulted
from hornbeam_server.txlayer.transactions.compiled_catalog import CatalogState
from hornbeam_server.txlayer.transactions.random_uuids import RandomUuids


class NewRows:
    """Completes the rows of one attempt, whose current time is `now`."""

    def __init__(
        self, state: CatalogState, numbers: Numbers, uuids: RandomUuids, now: dt.datetime
    ) -> None:
        self._state = state
        self._constraints = state.constraints
        self._numbers = numbers
        self._uuids = uuids
        self._computed: dict[tuple[str, str], Value] = {}
        """The values of defaults that are expressions, by relation and column."""
        self._now = now

    async def complete(self, relation: Relation, values: Mapping[int, Value]) -> Row:
        """A whole row: the given values, and defaults for the rest. Raises the errors of
        `Constraints.completed`."""
        row = list(map(values.get, range(len(relation.columns))))
        if len(values) < len(row):
            for i, column in self._constraints[relation.name].defaults:
                if i not in values:
                    row[i] = await self.default(relation, column)
        return self._constraints.completed(relation, tuple(row))

    async def complete_each(
        self, relation: Relation, given: Sequence[Mapping[int, Value]]
    ) -> list[Row]:
        """`complete` for many rows. An error has the number of its row among several."""
        rows: list[Row] = []
        try:
            for some in chunks(given):
                for values in some:
                    rows.append(await self.complete(relation, values))  # noqa: PERF401
                await turn(some)
        except ConstraintViolation as error:
            if len(given) > 1:
                error.of_row(len(rows) + 1)
            raise
        return rows

    async def complete_all(
        self,
        relation: Relation,
        positions: Sequence[int],
        given: Sequence[Sequence[Any]],
        first: int,
    ) -> list[Row]:
        """Complete many rows like `complete`, column by column, and cast their values. `first`
        is the number of the first row in its batch. Raises TypeMismatch, and the errors of
        `Constraints.completed`."""
        values = dict(zip(positions, zip(*given, strict=True), strict=False))
        columns: list[Sequence[Value]] = []
        for i, column in enumerate(relation.columns):
            if i in values:
                columns.append(assign_all_of_file(column.type, values[i]))
            elif differs_by_row(column):
                columns.append([await self.default(relation, column) for _ in given])
            else:
                columns.append([await self.default(relation, column)] * len(given))
        rows: list[Row] = list(zip(*columns, strict=True))
        computed = self._constraints[relation.name].computes
        for i, row in enumerate(rows):
            if computed or has_null(row):
                rows[i] = self._constraints.completed(relation, row, first + i)
        return rows

    async def defaulted(self, relation: Relation, assignments: Assignments, row: Row) -> Row:
        """`row` with the defaults of SET … = DEFAULT."""
        new = list(row)
        for assignment in assignments:
            if isinstance(assignment, Defaulted):
                new[assignment.position] = await self.default(relation, assignment.column)
        return tuple(new)

    async def drawn(self, copy: Copy) -> dict[str, Value]:
        """The values of the columns of a copy that take numbers, for one row. The client does not
        know of them. Raises LimitExceeded."""
        unseen = NewRows(self._state, self._numbers.beside(), self._uuids, self._now)
        target = copy.target
        return {name: await unseen.default(target, target.column(name)) for name in copy.draws}

    async def default(self, relation: Relation, column: Column) -> Value:
        """The default of a column for one row; NULL if it has none."""
        match column.default:
            case None | Default(kind=DefaultKind.GENERATED):
                return None
            case Default(kind=DefaultKind.NOW):
                return assign(column.type, self._now)
            case Default(kind=DefaultKind.IDENTITY):
                number = await self._numbers.next(
                    self._state.catalog.counters[relation.name, column.name]
                )
                return spread(number) if is_row_identity(column) else column.type.coerce(number)
            case Default(kind=DefaultKind.UUID):
                found = self._uuids.next()
                return found if column.type.kind is Kind.UUID else str(found)
            case Default(kind=DefaultKind.EXPRESSION):
                return await self._expression(relation, column)
            case Default(value=value):
                return value

    async def _expression(self, relation: Relation, column: Column) -> Value:
        name, state = (relation.name, column.name), self._state
        if name in self._computed:
            return self._computed[name]
        default, sequences = state.default(column, relation), state.catalog.sequences
        numbers = {
            parameter: await self._numbers.next(sequences[sequence])
            for sequence, parameter in default.draws
        }
        value = await default.value(self._now, state.engine, numbers)
        if not numbers:
            self._computed[name] = value
        return value


async def complete_row(
    state: CatalogState,
    numbers: Numbers,
    uuids: Callable[[], RandomUuids],
    now: dt.datetime,
    relation: Relation,
    values: Mapping[int, Value],
) -> Row:
    """`NewRows.complete` for one row."""
    return await NewRows(state, numbers, uuids(), now).complete(relation, values)


def require_width(given: int, wanted: int, relation: Relation) -> None:
    """Raises SqlError unless a SELECT has the `wanted` number of columns. Checked when it runs:
    only DuckDB knows to how many columns it unnests a struct."""
    if given != wanted:
        raise SqlError(
            f"INSERT INTO {relation.name}: {wanted} columns, the SELECT gives {given}.",
            cure="Name the columns that are written, and give each a value.",
        )


def written_twice(relation: Relation, key: tuple[Value, ...]) -> SqlError:
    return SqlError(
        f"ON CONFLICT DO UPDATE would write a row of {relation.name} a second time:"
        f" {shown(relation.primary_key, key)}.",
        cure="Give each row once, or send one statement for each.",
    )
