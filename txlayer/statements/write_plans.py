"""Write plans: INSERT, UPDATE, DELETE and MERGE compiled once per text and catalog version.

A plan has closures over rows and parameters, so no SQL is read when it runs. `query.expressions`
defines the meaning of scalar expressions. Expressions that it does not compile are evaluated by
DuckDB, row by row (`query.duckdb.scalar`), with the same meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hornbeam_server.query.binding.binder import BoundQuery
from hornbeam_server.query.binding.parameters import Reader
from hornbeam_server.query.engine import PreparedQuery
from hornbeam_server.schema.assignment import assign
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.model import Column, Relation
from hornbeam_server.schema.reals import text_of_real
from hornbeam_server.schema.rows import projection
from hornbeam_server.schema.types import ColumnType, Kind, Row, Value
from hornbeam_server.txlayer.statements.conflict_targets import Target
from hornbeam_server.txlayer.statements.requests import Parameters
from hornbeam_server.txlayer.statements.sequence_outputs import Outputs
from hornbeam_server.txlayer.statements.sequence_values import SequenceValue
from hornbeam_server.txlayer.statements.write_expressions import ByValues, Scalar


@dataclass(frozen=True, slots=True)
class Assignment:
    """Column number `position` takes the value of `scalar`, cast to the column's type."""

    position: int
    column: Column
    scalar: Scalar
    exact: bool
    """The value is a parameter that is bound with the column's type, so it is not cast."""
    value: Scalar
    """The value that the column takes. Raises TypeMismatch."""
    literal: str | None = None
    """The literal that `scalar` is, with quotes if it is text."""
    parameter: int | str | None = None
    """The parameter that the value is."""
    constant: bool = False
    """`value` is the same for all rows and parameters."""


def assignment(
    position: int,
    column: Column,
    scalar: Scalar,
    *,
    parameter: int | str | None = None,
    constant: bool = False,
    literal: str | None = None,
) -> Assignment:
    """An assignment. `parameter` is the parameter that `scalar` is, if it is bound with the
    column's type. With `constant` neither the row nor a parameter changes the value of `scalar`, so
    it is cast here."""

    def value(row: Row, parameters: Parameters) -> Value:
        computed = scalar(row, parameters)
        try:
            return assigned(computed, column.type)
        except TypeMismatch as error:
            raise named(error, column) from None

    if parameter is not None:
        return Assignment(position, column, scalar, True, scalar, parameter=parameter)
    if constant:
        with suppress(TypeMismatch):  # the statement raises it when it evaluates the value
            found = value((), ())
            return Assignment(
                position, column, scalar, False, lambda _r, _p: found, literal, constant=True
            )
    return Assignment(position, column, scalar, False, value, literal)


@dataclass(frozen=True, slots=True)
class Defaulted:
    """SET … = DEFAULT: column number `position` takes its default."""

    position: int
    column: Column


Assignments = tuple[Assignment | Defaulted, ...]
_INTEGERS = (Kind.INTEGER, Kind.BIGINT)


def row_after(assignments: Assignments, old: Row, seen: Row, parameters: Parameters) -> Row:
    """`old` with the assignments of SET, except defaults. Their expressions are over `seen`. Raises
    TypeMismatch."""
    new = list(old)
    for assignment in assignments:
        if not isinstance(assignment, Defaulted):
            new[assignment.position] = assignment.value(seen, parameters)
    return tuple(new)


def named(error: TypeMismatch, column: Column) -> TypeMismatch:
    """The error, with the name of the column that does not take a value."""
    error.message = f"Column {column.name}: {error.message}"
    error.details["column"] = column.name
    return error


def assigned(value: Value, type_: ColumnType) -> Value:
    """The value of an expression as a column of `type_` takes it. Raises TypeMismatch, also for
    text as BLOB: only parameters are decoded from Base64."""
    if type_.kind is Kind.BYTES and isinstance(value, str):
        raise TypeMismatch(
            "Text is not a value of type BLOB.",
            cure=r"Write '\x…' (hexadecimal), CAST(… AS BYTEA), or decode(…, 'base64').",
            type=type_.sql(),
        )
    if isinstance(value, float) and type_.kind in _INTEGERS and math.isfinite(value):
        value = round(value)  # halves to even, as CAST does
    return assign(type_, value)


@dataclass(frozen=True, slots=True)
class Subquery:
    """A query that is part of a write statement. `uses` maps the names of its parameters to the
    parameters of the statement."""

    prepared: PreparedQuery
    uses: Mapping[str, int | str]

    def parameters(self, parameters: Parameters) -> dict[str, Value]:
        values: Any = parameters  # keys are names for a mapping, numbers for a sequence
        return {name: values[key] for name, key in self.uses.items()}


@dataclass(frozen=True, slots=True)
class ValueQuery:
    """A subquery for values in expressions. The columns of its one row are the values of the
    parameters `names`; without a row they are NULL. `row`: its own parameters that are columns of
    the row for which the expression is evaluated, each with the column's position."""

    query: Subquery
    names: tuple[str, ...]
    row: tuple[tuple[str, int], ...]


Lifted = ValueQuery | SequenceValue


@dataclass(frozen=True, slots=True)
class Returning:
    """RETURNING: the names, types and scalars of its columns. The type is None if only DuckDB knows
    it. Scalars are over the written row."""

    columns: tuple[str, ...]
    types: tuple[ColumnType | None, ...]
    scalars: tuple[Scalar, ...]
    queries: tuple[Lifted, ...]

    @property
    def sql_types(self) -> tuple[str, ...]:
        return tuple("" if type_ is None else type_.sql() for type_ in self.types)

    def row(self, row: Row, parameters: Parameters) -> Row:
        return tuple(scalar(row, parameters) for scalar in self.scalars)


@dataclass(frozen=True, slots=True)
class ByKey:
    """A WHERE that fixes the whole primary key. `residual` is the rest of the condition."""

    key: tuple[Assignment, ...]
    residual: Scalar | None

    def values(self, parameters: Parameters) -> tuple[Value, ...] | None:
        """The values of the key, or None when no row can have them. Raises TypeMismatch."""
        key = []
        for part in self.key:
            wanted = part.scalar((), parameters)
            value = wanted if part.exact else _as_key(part.column.type, wanted)
            if value is None:
                return None
            key.append(value)
        return tuple(key)


def _as_key(type_: ColumnType, wanted: Value) -> Value:
    """`wanted` as a value of `type_`. None if it equals no such value: NULL, a fraction for an
    integer, or more digits or characters than the column has. Raises TypeMismatch."""
    try:
        value = type_.coerce(wanted)
    except TypeMismatch:
        if isinstance(wanted, str) is not (type_.kind is Kind.TEXT):
            raise
        return None
    return value if value == type_.comparand(wanted) else None


@dataclass(frozen=True, slots=True)
class BySearch:
    """A WHERE that needs a search: `query` finds primary keys at the transaction's snapshot.

    `predicate` checks a row again when it is locked. None: the statement reads other rows, by a
    subquery or FROM, so a row that changed since the snapshot aborts the transaction for a retry.
    The columns behind the key are the values of the parameters `names` for the found row. If the
    query finds a key several times, the smallest values count.
    """

    query: Subquery
    predicate: Scalar | None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conflict:
    """ON CONFLICT."""

    target: Target
    assignments: Assignments
    """The assignments of DO UPDATE; empty: DO NOTHING. Their expressions are over the existing row
    followed by the proposed row."""
    where: Scalar | None
    queries: tuple[Lifted, ...] = ()
    """For the assignments."""
    where_queries: tuple[Lifted, ...] = ()


WholeRow = Callable[[tuple[Value, ...]], Row]
"""Returns the values of all columns, given the values of all parameters."""


def whole_row_of(relation: Relation, row: Sequence[Assignment]) -> WholeRow | None:
    """A function to the row that VALUES gives, without a step for each column. None unless each
    column takes a positional parameter as it is bound, or a constant, or has no default and is
    NULL."""
    given = {each.position: each for each in row}
    parameters = 1 + max((a.parameter for a in row if isinstance(a.parameter, int)), default=-1)
    constants: list[Value] = []
    places: list[int] = []
    for position, column in enumerate(relation.columns):
        each = given.get(position)
        if each is not None and isinstance(each.parameter, int):
            places.append(each.parameter)
        elif each is None and column.default is None:
            places.append(parameters + len(constants))
            constants.append(None)
        elif each is not None and each.constant:
            places.append(parameters + len(constants))
            constants.append(each.value((), ()))
        else:
            return None
    known, pick = tuple(constants), projection(places)
    return lambda values: pick(values + known)


@dataclass(frozen=True, slots=True)
class InsertPlan:
    """The plan of an INSERT. `rows` has a tuple of assignments for each row of VALUES; `query` is
    the SELECT of INSERT … SELECT, and `query_positions` are the positions of its columns."""

    relation: Relation
    rows: tuple[tuple[Assignment, ...], ...]
    query: Subquery | None
    query_positions: tuple[int, ...]
    queries: tuple[Lifted, ...]
    """For the rows of VALUES."""
    conflict: Conflict | None
    returning: Returning | None
    bound: BoundQuery
    readers: tuple[Reader, ...]
    by_values: tuple[ByValues, ...]
    outputs: Outputs | None = None
    """The columns of `query` that take numbers from sequences."""
    reals: frozenset[int] = frozenset()
    """The places of the columns of `query` that are REAL and are assigned to text."""
    whole_row: WholeRow | None = None
    """`whole_row_of` the one row of VALUES. A plan with other rows needs another one."""

    def given(self, parameters: Parameters) -> Iterator[dict[int, Value]]:
        """The values of each row of VALUES, by position. Raises TypeMismatch."""
        return ({a.position: a.value((), parameters) for a in row} for row in self.rows)

    def selected(self, row: Row) -> dict[int, Value]:
        """The values by position that a row of INSERT … SELECT assigns. Raises TypeMismatch."""
        columns = self.relation.columns
        if self.reals:
            row = tuple([self._as_text(place, value) for place, value in enumerate(row)])
        typed = ((i, columns[i].type, v) for i, v in zip(self.query_positions, row, strict=True))
        return {i: assigned(value, t) for i, t, value in typed}

    def _as_text(self, place: int, value: Value) -> Value:
        return text_of_real(value) if place in self.reals and isinstance(value, float) else value


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    relation: Relation
    find: ByKey | BySearch
    assignments: Assignments
    queries: tuple[Lifted, ...]
    """For the assignments."""
    returning: Returning | None
    bound: BoundQuery
    readers: tuple[Reader, ...]
    by_values: tuple[ByValues, ...]


@dataclass(frozen=True, slots=True)
class DeletePlan:
    relation: Relation
    find: ByKey | BySearch
    returning: Returning | None
    bound: BoundQuery
    readers: tuple[Reader, ...]
    by_values: tuple[ByValues, ...]


@dataclass(frozen=True, slots=True)
class MergeUpdate:
    """WHEN MATCHED THEN UPDATE. `queries` are for the assignments."""

    assignments: Assignments
    queries: tuple[Lifted, ...]


@dataclass(frozen=True, slots=True)
class MergeDelete:
    """WHEN MATCHED THEN DELETE."""

    queries: tuple[Lifted, ...] = ()


@dataclass(frozen=True, slots=True)
class MergeInsert:
    """WHEN NOT MATCHED THEN INSERT. `queries` are for the values."""

    values: tuple[Assignment, ...]
    queries: tuple[Lifted, ...]

    def given(self, parameters: Parameters) -> dict[int, Value]:
        """The values of the row, by position. Raises TypeMismatch."""
        return {each.position: each.value((), parameters) for each in self.values}


MergeAction = MergeUpdate | MergeDelete | MergeInsert


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The plan of a MERGE. `query` finds all pairs of a source row with a row of the target that
    it matches, and the source rows without such a row. Its columns are the primary key of the row
    of the target (NULL without one), the number of the action for the pair (NULL: DO NOTHING), and
    the values of the parameters `names`."""

    relation: Relation
    query: Subquery
    names: tuple[str, ...]
    actions: tuple[MergeAction, ...]
    bound: BoundQuery
    readers: tuple[Reader, ...]
    by_values: tuple[ByValues, ...]
    returning: None = None


@dataclass(frozen=True, slots=True)
class TruncatePlan:
    """The plan of a TRUNCATE: the relations to empty, each with the search for its keys. No other
    relation references one of them."""

    relations: tuple[tuple[Relation, Subquery], ...]
    bound: BoundQuery
    readers: tuple[Reader, ...] = ()
    by_values: tuple[ByValues, ...] = ()


RowPlan = InsertPlan | UpdatePlan | DeletePlan | MergePlan


@dataclass(frozen=True, slots=True)
class Step:
    """A write that is a part of a statement. `uses` maps the names of its parameters to those of
    the statement; `catalog` also has the relations with the rows of earlier steps; `rows` is the
    relation that takes what its RETURNING gives."""

    plan: RowPlan
    uses: Mapping[str, int | str]
    catalog: Catalog
    rows: str | None


@dataclass(frozen=True, slots=True)
class Block:
    """A query that is a part of a statement, and takes numbers from sequences for `outputs`.
    `rows` is the relation that takes its rows."""

    query: Subquery
    outputs: Outputs
    rows: str


@dataclass(frozen=True, slots=True)
class StepsPlan:
    """The plan of a statement whose WITH writes, or whose parts take numbers: its steps in order,
    and the statement itself."""

    steps: tuple[Step | Block, ...]
    last: Step | Subquery
    bound: BoundQuery
    readers: tuple[Reader, ...]
    by_values: tuple[ByValues, ...] = ()

    @property
    def sources(self) -> frozenset[str]:
        """Names of the relations and views that the searches of all steps read."""
        found = [query for part in self.parts for query in searches(part)]
        return frozenset[str]().union(*(query.prepared.sources for query in found))

    @property
    def parts(self) -> tuple[RowPlan | Subquery, ...]:
        """The writes and the queries of the statement."""
        last = self.last if isinstance(self.last, Subquery) else self.last.plan
        steps = (each.query if isinstance(each, Block) else each.plan for each in self.steps)
        return (*steps, last)


WritePlan = RowPlan | TruncatePlan | StepsPlan


def searches(plan: RowPlan | Subquery) -> Iterator[Subquery]:
    """The queries that a plan runs: for values, and for its rows."""
    if isinstance(plan, Subquery):
        yield plan
        return
    yield from (each.query for each in value_queries(plan) if isinstance(each, ValueQuery))
    match plan:
        case InsertPlan(query=Subquery() as query) | MergePlan(query=query):
            yield query
        case UpdatePlan(find=BySearch(query=query)) | DeletePlan(find=BySearch(query=query)):
            yield query


def needs_duckdb(plan: WritePlan, parameters: Parameters) -> bool:
    """Does DuckDB evaluate any expression of the plan for these parameters? Such expressions may
    take long, so only `QueryEngine.evaluate` may call them."""
    return any(each.of_row or each.native(parameters) is None for each in plan.by_values)


def untyped(plan: WritePlan) -> tuple[int | str, ...]:
    """The parameters in expressions whose types are those of their values."""
    if not plan.by_values:
        return ()
    return tuple(dict.fromkeys(name for each in plan.by_values for name in each.untyped))


def value_queries(plan: RowPlan) -> tuple[Lifted, ...]:
    """All values of a plan that its rows do not have: those of queries and of sequences."""
    found = plan.returning.queries if plan.returning is not None else ()
    match plan:
        case InsertPlan(queries=own, conflict=Conflict() as conflict):
            return (*own, *conflict.where_queries, *conflict.queries, *found)
        case InsertPlan(queries=own) | UpdatePlan(queries=own):
            return (*own, *found)
        case MergePlan(actions=actions):
            return tuple(query for action in actions for query in action.queries)
    return found
