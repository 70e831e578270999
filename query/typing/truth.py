"""Conditions are BOOLEAN: PostgreSQL takes no value of another type for one, and DuckDB does."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hornbeam_server.query.dialect.grammar import IS_UNKNOWN, at
from hornbeam_server.query.dialect.operand_kinds import is_interval
from hornbeam_server.query.dialect.sums import TypeOf, number_type, operands_that_meet
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.types import ColumnType, Kind

_CLAUSES = {exp.Where: "WHERE", exp.Having: "HAVING", exp.Qualify: "QUALIFY"}
CONDITIONS = (*_CLAUSES, exp.And, exp.Or, exp.Not, exp.Join, exp.Case, exp.Is, exp.Merge, exp.When)
"""The nodes that `check_conditions` looks at. The condition of FILTER is a WHERE."""
_CHOSEN = (exp.Literal, exp.Null)


def check_conditions(node: exp.Expr, type_of: TypeOf, sql: str) -> None:
    """Raise SqlError for a value that is not BOOLEAN where a condition stands."""
    for place, condition in _conditions(node):
        kind = _kind(condition.unnest(), type_of)
        if kind not in (None, Kind.BOOLEAN):
            raise SqlError(
                f"{place} takes a condition, not {kind.upper()}{at(condition, sql)}.",
                cure=_CURES.get(kind, "Compare the value, such as n <> 0."),
            )


_CURES = {
    Kind.TEXT: "Compare the value, such as name = 'x', or write CAST(value AS BOOLEAN).",
    Kind.JSON: "Compare the value, or write CAST(value AS BOOLEAN).",
}


def _kind(condition: exp.Expr, type_of: TypeOf) -> Kind | None:
    """The kind of a value; None if only DuckDB knows it, and of text that has no type yet, which is
    read as BOOLEAN."""
    if isinstance(condition, exp.Literal) and condition.is_string:
        return None
    if (number := number_type(condition, type_of)) is not None:
        return number.kind
    if is_interval(condition, type_of):
        return Kind.INTERVAL
    known: ColumnType | None = type_of(condition)
    if known is not None:
        return known.kind
    return Kind.TEXT if _chooses_text(condition) else None


def _chooses_text(node: exp.Expr) -> bool:
    """Does a node choose among literals of text? Then it is TEXT, as in PostgreSQL."""
    match node:
        case exp.Select(expressions=[value]):
            chosen = [value.unalias()]
        case exp.Nullif():
            chosen = [node.this, node.expression]
        case _:
            chosen = [*operands_that_meet(node)]
    return any(each.is_string for each in chosen) and all(
        isinstance(each, _CHOSEN) and (each.is_string or isinstance(each, exp.Null))
        for each in chosen
    )


def _conditions(node: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """Yield the conditions in a node, each with the word before it."""
    match node:
        case exp.Where() | exp.Having() | exp.Qualify():
            yield _CLAUSES[type(node)], node.this
        case exp.Join() | exp.Merge() if isinstance(node.args.get("on"), exp.Expr):
            yield "ON", node.args["on"]
        case exp.When() if node.args.get("condition") is not None:
            yield "AND", node.args["condition"]
        case exp.And() | exp.Or():
            yield from ((type(node).__name__.upper(), side) for side in _sides(node))
        case exp.Not():
            yield "NOT", node.this
        case exp.Is() if isinstance(node.expression, exp.Boolean):
            yield "IS TRUE", node.this
        case exp.Is() if IS_UNKNOWN in node.meta:
            yield "IS UNKNOWN", node.this
        case exp.Case() if node.this is None:
            yield from (("WHEN", branch.this) for branch in node.args["ifs"])


def _sides(node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    return node.this, node.expression
