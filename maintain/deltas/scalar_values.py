"""Scalar subqueries in expressions: their rows, joined with those of the outer SELECT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from hornbeam_server.maintain.deltas.algebra import Join, JoinKind, Map, Node
from hornbeam_server.maintain.deltas.expressions import Scope, column, names_in, no_subquery, rename
from hornbeam_server.maintain.deltas.select_parts import (
    is_null_over_nothing,
    needs,
    over_nothing,
    scalars,
)
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.schema.errors import Unsupported

JoinRows = Callable[[JoinKind, Node, Node, Sequence[exp.Expr], exp.Expr], Join]
_ONLY = "?"
"""The alias of such a value; no SQL alias has this spelling."""


@dataclass(frozen=True)
class Values:
    """A scalar subquery: its value is the last column of `rows`. `equal` are the conditions on
    these rows and an outer row. `over_nothing` is the value if no row meets them; None for
    NULL."""

    rows: Map
    equal: Sequence[exp.Expr]
    over_nothing: exp.Expr | None


def is_open(part: exp.Expr, found: Sequence[exp.Expr], values: Sequence[Values]) -> bool:
    """May a condition be true where a subquery that reads an outer SELECT finds no rows, or does it
    have several subqueries?"""
    correlated = any(value.equal for value in values)
    missing = any(value.over_nothing is not None for value in values)
    return len(found) > 1 or (correlated and (missing or not needs(part, found[0])))


def with_values(
    join: JoinRows, part: exp.Expr, values: Sequence[Values], base: Node, scope: Scope
) -> tuple[Node, exp.Expr]:
    """The rows of `base` joined with the values of the subqueries in `part`, and `part` with
    columns for them."""
    part = exp.Paren(this=part.copy())
    names = dict(scope.columns.get(_ONLY, {}))
    for subquery, found in zip(scalars(part), values, strict=True):
        base = join(JoinKind.LEFT, base, found.rows, found.equal, subquery)
        key, last = found.rows.fields[0].name, found.rows.fields[-1]
        names |= {key: key, last.name: last.name}
        value: exp.Expr = value_column(last.name)
        if found.over_nothing is not None:
            missing = exp.Is(this=value_column(key), expression=exp.Null())
            typed = exp.cast(found.over_nothing, last.duck, dialect="duckdb")
            case = exp.Case(ifs=[exp.If(this=missing, true=typed)], default=value)
            value = exp.Paren(this=case)
        subquery.replace(value)
    scope.columns[_ONLY] = names
    return base, part.this


def condition_over(part: exp.Expr, value: Values, scope: Scope) -> exp.Expr:
    """A condition with a column for the subquery in it."""
    name = value.rows.fields[-1].name
    part = part.copy()
    scalars(part)[0].replace(value_column(name))
    condition = rename(part, Scope(scope.sql, scope, {_ONLY: {name: name}}, scope.aliased))
    no_subquery(condition, scope.sql)
    return condition


def value_over_nothing(value: exp.Expr, subquery: exp.Expr, sql: str) -> exp.Expr | None:
    """The value of a correlated subquery that finds no rows; None for NULL."""
    if is_null_over_nothing(value):
        return None
    found = over_nothing(value)
    if found is None:
        raise Unsupported(
            "A subquery that reads an outer SELECT has a value where it finds no rows"
            f"{at(subquery, sql)}.",
            cure="LEFT JOIN a subquery with GROUP BY in FROM, and COALESCE what it counts.",
        )
    return found


def correlation(part: exp.Expr, inner: Scope, subquery: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """The sides of an equality: the subquery's own columns first, then the outer columns."""
    sides = (part.this, part.expression) if isinstance(part, exp.EQ) else ()
    for mine, theirs in (sides, sides[::-1]) if sides else ():
        if names_in(mine) and names_in(mine) <= inner.own and not names_in(theirs) & inner.own:
            return mine, theirs
    raise Unsupported(
        f"A subquery reads an outer SELECT other than by ={at(subquery, inner.sql)}.",
        cure="Compare columns of both with = in its WHERE, or join in FROM.",
    )


def value_column(name: str) -> exp.Column:
    """The column that holds the value of a subquery."""
    found = column(name)
    found.meta["column"] = (None, _ONLY, name)
    return found
