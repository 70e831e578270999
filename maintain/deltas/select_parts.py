"""Questions about the parts of a SELECT. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from hornbeam_server.maintain.deltas.expressions import aggregates_in, has_on


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
