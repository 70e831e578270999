"""Questions about the parts of a SELECT. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from hornbeam_server.maintain.deltas.expressions import aggregates_in, has_on, is_windowed
from hornbeam_server.query.dialect.functions import is_aggregate


def parted(parts: Iterable[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Conditions without and with subqueries."""
    simple: list[exp.Expr] = []
    nested: list[exp.Expr] = []
    for part in parts:
        (nested if part.find(exp.Query) else simple).append(part)
    return simple, nested


def is_one_row(select: exp.Select) -> bool:
    """Is the SELECT an aggregate without GROUP BY?"""
    return not any(select.args.get(part) for part in ("group", "having", "distinct")) and any(
        aggregates_in(projection) for projection in select.expressions
    )


def is_of_rows(select: exp.Select) -> bool:
    """Does the SELECT have a result for each row of its FROM?"""
    windows = any(isinstance(n, exp.Window) for each in select.expressions for n in each.walk())
    return not (is_aggregated(select) or windows or select.args.get("distinct"))


def is_null_over_nothing(value: exp.Expr) -> bool:
    """Is an expression over aggregates NULL where there are no rows?"""
    match value:
        case exp.Sum() | exp.Avg() | exp.Min() | exp.Max():
            return True
        case exp.Filter() | exp.Paren() | exp.Neg() | exp.Cast():
            return is_null_over_nothing(value.this)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return any(map(is_null_over_nothing, (value.this, value.expression)))
    return False


def over_nothing(value: exp.Expr) -> exp.Expr | None:
    """The value of an expression over aggregates where there are no rows: a constant expression.
    None if it also reads the columns of a group."""

    def of_no_rows(part: exp.Expr) -> exp.Expr:
        call = part.this if isinstance(part, exp.Filter) else part
        if not is_aggregate(call) or is_windowed(part):
            return part
        return exp.Literal.number(0) if isinstance(call, exp.Count) else exp.Null()

    found = value.copy().transform(of_no_rows)
    return None if found.find(exp.Column) else found


def scalars(part: exp.Expr) -> list[exp.Subquery]:
    """The subqueries that are values in an expression, without those inside others."""
    found = part.walk(prune=lambda node: isinstance(node, exp.Query))
    return [s for s in found if isinstance(s, exp.Subquery) and not isinstance(s.parent, exp.In)]


def needs(part: exp.Expr, subquery: exp.Expr) -> bool:
    """Is a condition never true where the subquery's value is NULL?"""
    node = subquery.parent
    while isinstance(node, exp.Paren | exp.Neg | exp.Add | exp.Sub | exp.Mul | exp.Div):
        node = node.parent
    compares = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
    return node is part.unnest() and isinstance(node, compares)


def is_aggregated(select: exp.Select) -> bool:
    """Does the SELECT group or aggregate? (DISTINCT does not matter in EXISTS and IN.)"""
    return any(select.args.get(part) for part in ("group", "having")) or any(
        aggregates_in(projection) for projection in select.expressions
    )


def is_distinct(select: exp.Select) -> bool:
    return select.args.get("distinct") is not None and not has_on(select)


def star_of(node: exp.Expr) -> exp.Star | None:
    if isinstance(node, exp.Star):
        return node
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return node.this
    return None


def used_columns(tree: exp.Expr) -> dict[str, set[str]]:
    """Alias → the columns that the statement names through it, in any scope."""
    used: dict[str, set[str]] = {}
    for node in tree.walk():
        if (place := node.meta.get("column")) is not None:
            used.setdefault(place[1], set()).add(place[2])
        for entry in node.meta.get("columns", ()):
            used.setdefault(entry[1], set()).add(entry[2])
        for pair in node.meta.get("pairs", ()):
            for _, alias, name, _ in pair:
                used.setdefault(alias, set()).add(name)
    return used
