"""Expressions that a schema declares over the rows of a relation: CHECK and generated columns.

They have the meaning that they have in a query. Transactions evaluate them for every row that they
write, so an expression that only DuckDB evaluates is refused when the schema is planned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from sqlglot import exp

from hornbeam_server.query.binding.binder import bind_tree
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.query.dialect.functions import is_current_time, makes_or_takes_rows
from hornbeam_server.query.expressions.compiler import CompiledExpression, compile_expression
from hornbeam_server.query.expressions.conversions import compile_conversion_to
from hornbeam_server.query.expressions.operands import NUMBERS, Scope
from hornbeam_server.query.expressions.patterns import write_patterns
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.query.values.domains import domain_violation
from hornbeam_server.schema.catalog import RELATIONS, alone
from hornbeam_server.schema.errors import (
    CheckViolation,
    SqlError,
    TypeMismatch,
    Unsupported,
)
from hornbeam_server.schema.model import Check, Column, Relation
from hornbeam_server.schema.named_columns import unknown_column
from hornbeam_server.schema.sqltext import literal_sql, shown
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.types import UNORDERED, ColumnType, Kind, Row, Value

_TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
_PLACE = re.compile(r" \(line \d+, column \d+\)")
"""A place in the text that is parsed here, which no user has written."""


@dataclass(frozen=True, slots=True)
class RowCheck:
    """A compiled CHECK of `relation`."""

    relation: Relation
    check: Check
    expression: CompiledExpression

    def require(self, row: Row, number: int | None = None) -> None:
        """Raises CheckViolation if the CHECK is false for `row`, and the errors of its evaluation.
        `number` is the place of the row among several."""
        if self.expression(row) is False:
            raise self._violation(row, number)

    def holds(self, row: Row) -> bool:
        """Is the CHECK true or NULL for a stored `row`? A row for which it cannot be evaluated
        breaks it."""
        try:
            return self.expression(row) is not False
        except SqlError:
            return False

    def _violation(self, row: Row, number: int | None) -> CheckViolation:
        relation, check = self.relation, self.check
        if check.origin is not None:
            found = domain_violation(check.origin.domain, check.origin.constraint)
            found.details |= {"relation": relation.name, "row": number}
            return found
        key = tuple(row[i] for i in relation.key_positions)
        return CheckViolation(
            f"A row of {relation.name} {shown(relation.primary_key, key)} does not meet"
            f" {check.name}: CHECK ({check.sql}).",
            cure="Give it values for which the condition is true or NULL.",
            relation=relation.name,
            constraint=check.name,
            key=[literal_sql(value) for value in key],
            row=number,
        )


@dataclass(frozen=True, slots=True)
class GeneratedColumn:
    """A compiled generated column, at `position` of the rows of its relation."""

    position: int
    column: Column
    expression: CompiledExpression

    def value(self, row: Row) -> Value:
        """The value of the column in `row`, of which it reads only other columns. Raises
        TypeMismatch, and the errors of its evaluation."""
        try:
            return self.column.type.coerce(self.expression(row))
        except TypeMismatch as error:
            error.message = f"Column {self.column.name}: {error.message}"
            raise


@lru_cache(RELATIONS)
def generated_columns(relation: Relation) -> tuple[GeneratedColumn, ...]:
    """The generated columns of a relation. Raises the errors of `compile_generated`."""
    return tuple(
        GeneratedColumn(relation.positions[c.name], c, compile_generated(c, relation))
        for c in relation.generated
    )


def with_generated(columns: Sequence[GeneratedColumn], row: Row) -> Row:
    """`row` with the values of the generated columns `columns`. Raises the errors of `value`."""
    values = list(row)
    for column in columns:
        values[column.position] = column.value(row)
    return tuple(values)


def compile_generated(column: Column, relation: Relation) -> CompiledExpression:
    """Compile the expression of a generated column; its value is cast as PostgreSQL casts assigned
    values, and is to be coerced. Raises SqlError and its subclasses."""
    assert column.default is not None
    what = f"Generated column {relation.name}.{column.name}"
    source = _Source(relation, what, reads_generated=False)
    return _compile_assigned(column.default.sql, column, source)


def compile_conversion(sql: str, column: Column, relation: Relation) -> CompiledExpression:
    """Compile an expression over rows of `relation` that gives the values of `column`, of another
    type: those behind USING. Its value is cast as that of a generated column. Raises SqlError and
    its subclasses."""
    what = f"The conversion of {relation.name}.{column.name}"
    compiler = partial(compile_conversion_to, column.type.stored())
    try:
        return _compile_assigned(sql, column, _Source(relation, what, compiler))
    except TypeMismatch as error:
        to = column.type.ddl()
        error.cure = f"Say how: USING CAST({sql} AS {to}), or --using with schema apply."
        raise


def _compile_assigned(sql: str, column: Column, source: _Source) -> CompiledExpression:
    """Compile an expression whose value is assigned to `column`."""
    to = column.type.stored()
    compiled = source.compiled(sql)
    kind = to.kind if compiled.type is None else compiled.type.kind
    if kind is to.kind or (to.kind in {Kind.DECIMAL, Kind.DOUBLE} and kind in NUMBERS):
        return compiled
    alike = any({kind, to.kind} <= kinds for kinds in (NUMBERS, _TIMES))
    if to.kind is Kind.TEXT:
        return source.compiled(f"CAST(({sql}) AS TEXT)")
    if not alike:
        raise TypeMismatch(
            f"{source.what} is {to.sql()}, but its expression has another type.",
            cure=f"Write CAST(… AS {to.sql()}).",
        )
    return source.compiled(f"CAST(({sql}) AS {to.sql()})")


@lru_cache(RELATIONS)
def row_checks(relation: Relation) -> tuple[RowCheck, ...]:
    """The CHECKs of a relation, in the order in which they are evaluated: those of domains, by
    column, and then its own, by name. Raises the errors of `compile_check`."""
    of_domains = (check for check in relation.checks if check.origin is not None)
    checks = [*of_domains, *sorted(relation.own_checks, key=lambda check: check.name)]
    return tuple(RowCheck(relation, check, compile_check(check, relation)) for check in checks)


def compile_check(check: Check, relation: Relation) -> CompiledExpression:
    """Compile a CHECK. Raises SqlError and its subclasses for an expression that is invalid or that
    no CHECK can have."""
    compiled = _Source(relation, f"CHECK {check.name} of {relation.name}").compiled(check.sql)
    if compiled.type is not None and compiled.type.kind is not Kind.BOOLEAN:
        raise TypeMismatch(
            f"CHECK {check.name} of {relation.name} is not a condition, but a value of type"
            f" {compiled.type.sql()}.",
            cure="Compare the value, for example with > or IN.",
        )
    return compiled


@lru_cache(RELATIONS)
def row_condition(index: str, where: str, relation: Relation) -> Callable[[Row], bool]:
    """Whether a row of `relation` belongs to the partial index `index`: `where` is true for it.
    Raises SqlError and its subclasses for a condition that no index can have."""
    what = f"The condition of index {index}"
    compiled = _Source(relation, what).compiled(where)
    if compiled.type is not None and compiled.type.kind is not Kind.BOOLEAN:
        raise TypeMismatch(
            f"{what} is a value of type {compiled.type.sql()}.",
            cure="Compare the value, for example with > or IN.",
        )
    return lambda row: compiled(row) is True


@dataclass(frozen=True, slots=True)
class KeyFunction:
    """A compiled expression of an index: the value of a row, which has `type`."""

    type: ColumnType
    expression: CompiledExpression

    def __call__(self, row: Row) -> Value:
        """Raises TypeMismatch, and the errors of the evaluation."""
        return self.type.coerce(self.expression(row))


@lru_cache(RELATIONS)
def compile_key(index: str, sql: str, relation: Relation) -> KeyFunction:
    """Compile an expression of an index over rows of `relation`. Raises SqlError and its
    subclasses for an expression that no index can have."""
    what = f"Index {index}"
    compiled = _Source(relation, what).compiled(sql)
    type_ = compiled.type
    if type_ is None:
        raise TypeMismatch(f"{what}: {sql} is always NULL.", cure="Leave it out.")
    if type_.kind in UNORDERED:
        raise TypeMismatch(
            f"{what}: {sql} of type {type_.sql()} has no order in an index.",
            cure="Index a part of it as text or a number, such as (j ->> 'name') or (a[1]).",
        )
    return KeyFunction(type_.stored(), compiled)


def row_of_index(
    index: str, expressions: Sequence[tuple[str, str]], relation: Relation
) -> tuple[dict[str, int], Callable[[Row], Row]]:
    """A function that appends the values of `expressions`, pairs of name and SQL, to a row of
    `relation`, and the places of all columns in the longer row."""
    functions = [compile_key(index, sql, relation) for _, sql in expressions]
    names = (*relation.column_names, *(name for name, _ in expressions))
    places = {name: place for place, name in enumerate(names)}
    return places, lambda row: row + tuple([function(row) for function in functions])


class _RowScope:
    """The columns of a relation, `generated` ones included. There are no parameters."""

    def __init__(self, relation: Relation, generated: bool) -> None:
        self._relation = relation
        self._hidden = () if generated else {column.name for column in relation.generated}

    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        position = self._relation.positions.get(column.name)
        if position is None:
            raise unknown_column(self._relation, column.name)
        if column.name in self._hidden:
            raise Unsupported(
                f"{column.name} is a generated column itself.",
                cure="Write its expression instead of its name.",
            )
        return position, self._relation.columns[position].type.stored()

    def parameter_type(self, _: int | str) -> None:
        return None


@dataclass(frozen=True, slots=True)
class _Source:
    """The rows over which an expression is compiled. `what` names the expression in errors."""

    relation: Relation
    what: str
    compile: Callable[[exp.Expr, Scope], CompiledExpression | None] = compile_expression
    reads_generated: bool = True

    def compiled(self, sql: str) -> CompiledExpression:
        """Raises SqlError and its subclasses, of which Unsupported for an expression that only
        DuckDB evaluates."""
        relation, what = self.relation, self.what
        try:
            tree = parse(f"SELECT ({sql}) FROM {quoted(relation.name)}")
            try:
                _require_value_of_row(tree, what)
                (bound,) = bind_tree(tree, sql, alone(relation)).ast.expressions
                write_patterns(bound)
                compiled = self.compile(bound.unalias(), _RowScope(relation, self.reads_generated))
            finally:
                unlink(tree)
        except SqlError as error:
            message = _PLACE.sub("", error.message)
            located = message if message.startswith(what) else f"{what}: {message}"
            raise type(error)(located, cure=error.cure, **error.details) from None
        if compiled is None:
            raise Unsupported(
                f"{what} has an expression that only DuckDB evaluates, and rows are written without"
                f" DuckDB: {sql}.",
                cure="Use comparisons, arithmetic, LIKE, IN, CASE and the functions that"
                " docs/sql.md lists for CHECK, or do it in the application.",
            )
        return compiled


_Test = Callable[[exp.Expr], bool]


def _require_value_of_row(select: exp.Expr, what: str) -> None:
    """Raises Unsupported unless the expression that `select` selects depends on the row alone."""
    alone = isinstance(select, exp.Select) and len(select.expressions) == 1
    if not alone or select.args.get("where") or select.args.get("joins"):
        raise Unsupported(f"{what} is not one expression.", cure="Write one expression.")
    refused: tuple[tuple[_Test, str, str], ...] = (
        (
            lambda node: isinstance(node, exp.Query) and node is not select,
            "a subquery",
            "Compare columns of the row; a foreign key looks into another relation.",
        ),
        (
            lambda node: isinstance(node, exp.Window) or makes_or_takes_rows(node),
            "an aggregate or a window function",
            "Compare columns of the row.",
        ),
        (
            is_current_time,
            "the current time",
            "Give the time a column with DEFAULT now(), and read this column.",
        ),
        (lambda node: isinstance(node, exp.Placeholder), "a parameter", "Write a literal."),
    )
    for node in select.walk():
        for test, named, cure in refused:
            if test(node):
                raise Unsupported(f"{what} cannot have {named}.", cure=cure)
