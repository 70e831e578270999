"""Conditions are BOOLEAN: PostgreSQL does not take a number for one, and DuckDB does."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.query.dialect.sums import TypeOf, number_type
from hornbeam_server.schema.errors import SqlError

_CLAUSES = {exp.Where: "WHERE", exp.Having: "HAVING"}
CONDITIONS = (*_CLAUSES, exp.And, exp.Or, exp.Not, exp.Join, exp.Case, exp.Is)
"""The nodes that `check_conditions` looks at. The condition of FILTER is a WHERE."""


def check_conditions(node: exp.Expr, type_of: TypeOf, sql: str) -> None:
    """Raise SqlError for a number where a condition stands."""
    for place, condition in _conditions(node):
        type_ = number_type(condition.unnest(), type_of)
        if type_ is not None:
            raise SqlError(
                f"{place} takes a condition, not {type_.kind.upper()}{at(condition, sql)}.",
                cure="Compare the value, such as n <> 0.",
            )


def _conditions(node: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """Yield the conditions in a node, each with the word before it."""
    match node:
        case exp.Where() | exp.Having():
            yield _CLAUSES[type(node)], node.this
        case exp.Join() if node.args.get("on") is not None:
            yield "ON", node.args["on"]
        case exp.And() | exp.Or():
            yield from ((type(node).__name__.upper(), side) for side in _sides(node))
        case exp.Not():
            yield "NOT", node.this
        case exp.Is() if isinstance(node.expression, exp.Boolean):
            yield "IS TRUE", node.this
        case exp.Case() if node.this is None:
            yield from (("WHEN", branch.this) for branch in node.args["ifs"])


def _sides(node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    return node.this, node.expression
