"""Hypothetical-set aggregates: the rank that a row would have among the rows of a group.

`rank(x) WITHIN GROUP (ORDER BY y)` counts the rows that come before a row with the value x, so it
is written as `1 + count(CASE WHEN y < x THEN 1 END)`; the others follow from such counts, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from sqlglot import exp

from hornbeam_server.query.dialect.row_order import decided, precedes
from hornbeam_server.schema.errors import SqlError

FUNCTIONS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
_Test = Callable[[exp.Expr, exp.Expr, exp.Ordered], exp.Expr]


def is_hypothetical(node: exp.Expr) -> bool:
    """Is the node such an aggregate, with its FILTER if it has one?"""
    if isinstance(node, exp.Filter):
        return _is_bare(node.this)
    filtered = isinstance(node.parent, exp.Filter) and node.arg_key == "this"
    return _is_bare(node) and not filtered


def _is_bare(node: exp.Expr) -> bool:
    called = node.this if isinstance(node, exp.WithinGroup) else None
    return isinstance(called, exp.Anonymous) and called.name.lower() in FUNCTIONS


def counted(node: exp.Expr) -> exp.Expr:
    """The aggregate, for which `is_hypothetical` holds, as counts. Raises SqlError."""
    condition = node.expression.this if isinstance(node, exp.Filter) else None
    group = node.this if isinstance(node, exp.Filter) else node
    name, given, keys = (
        group.this.name.lower(),
        group.this.expressions,
        group.expression.expressions,
    )
    if len(given) != len(keys):
        raise SqlError(
            f"{name} takes {len(given)} values, and WITHIN GROUP orders by {len(keys)}.",
            cure="Give a value for each expression of ORDER BY.",
        )

    def count(test: exp.Expr | None, value: exp.Expr | None = None) -> exp.Expr:
        parts = [each for each in (condition, test) if each is not None]
        if not parts:
            return exp.Count(this=exp.Star())
        wrapped: list[exp.Expr] = [exp.Paren(this=each.copy()) for each in parts]
        both = reduce(_and, wrapped)
        shown = exp.Case(ifs=[exp.If(this=both, true=value or _number(1))])
        return exp.Count(this=exp.Distinct(expressions=[shown]) if value else shown)

    before = _in_order(given, keys, _is_before)
    if name == "rank":
        return _grouped(_plus_one(count(before)), given)
    if name == "dense_rank":
        values = exp.Anonymous(this="row", expressions=[key.this.copy() for key in keys])
        return _grouped(_plus_one(count(before, values)), given)
    if name == "percent_rank":
        share = _quotient(count(before), count(None))
        empty = exp.EQ(this=count(None), expression=_number(0))
        found = exp.Case(
            ifs=[exp.If(this=empty, true=exp.cast(_number(0), "DOUBLE"))], default=share
        )
        return _grouped(found, given)
    behind = exp.Not(this=exp.Paren(this=_in_order(given, keys, _is_behind)))
    return _grouped(_quotient(_plus_one(count(behind)), _plus_one(count(None))), given)


def _grouped(value: exp.Expr, given: Sequence[exp.Expr]) -> exp.Expr:
    """The value, which DuckDB refuses if one of `given` has columns that are not grouped."""
    for each in given:
        if each.find(exp.Column) is not None:
            zero = exp.Case(ifs=[exp.If(this=_is_null(each), true=_number(0))], default=_number(0))
            value = exp.Add(this=value, expression=zero)
    return exp.Paren(this=value)


def _in_order(given: Sequence[exp.Expr], keys: Sequence[exp.Ordered], test: _Test) -> exp.Expr:
    """Does a row come before the given one, or behind it?"""
    pairs = [(key.this, value) for value, key in zip(given, keys, strict=True)]
    tests = [test(*pair, key) for pair, key in zip(pairs, keys, strict=True)]
    return decided(pairs, tests)


def _is_before(row: exp.Expr, value: exp.Expr, key: exp.Ordered) -> exp.Expr:
    descending, first = bool(key.args.get("desc")), bool(key.args.get("nulls_first"))
    return precedes(row, value, descending=descending, nulls_first=first)


def _is_behind(row: exp.Expr, value: exp.Expr, key: exp.Ordered) -> exp.Expr:
    return _is_before(value, row, key)


def _is_null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.Paren(this=node.copy()), expression=exp.Null())


def _and(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.And(this=left, expression=right)


def _plus_one(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Add(this=node, expression=_number(1)))


def _quotient(part: exp.Expr, whole: exp.Expr) -> exp.Expr:
    sides = [exp.cast(each, "DOUBLE", copy=False) for each in (part, whole)]
    return exp.Div(this=sides[0], expression=sides[1])


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)
