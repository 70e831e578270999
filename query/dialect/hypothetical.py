"""Hypothetical-set aggregates: the rank that a row would have among the rows of a group.

`rank(x) WITHIN GROUP (ORDER BY y)` counts the rows that come before a row with the value x, so it
is written as `1 + count(CASE WHEN y < x THEN 1 END)`; the others follow from such counts, too. If x
has columns, it is a value of the group, which is NULL in a group over all values (ROLLUP, CUBE,
GROUPING SETS), while a column in `count` is that of a row. So x then stands behind the aggregate:
`1 + len(list_filter(list(y), lambda row: row < x))`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from hornbeam_server.query.dialect.macros import structure
from hornbeam_server.query.dialect.row_order import decided, precedes
from hornbeam_server.schema.errors import SqlError

FUNCTIONS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
_Test = Callable[[exp.Expr, exp.Expr, exp.Ordered], exp.Expr]
_ROW = "hornbeam_row"
"""The name of the variable for a row of a group."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """The rows of a group, of which aggregates count some. `keys`: the expressions of ORDER BY for
    a row; `condition`: that of FILTER."""

    keys: Sequence[exp.Expr]
    condition: exp.Expr | None

    def count(self, test: exp.Expr | None) -> exp.Expr:
        """The number of the rows for which `test` holds, or of all."""
        both = self._both(test)
        return exp.Count(this=exp.Star() if both is None else _if(both, _number(1)))

    def distinct(self, test: exp.Expr) -> exp.Expr:
        """The number of different keys of the rows for which `test` holds."""
        both = self._both(test)
        assert both is not None
        row = exp.Anonymous(this="row", expressions=[key.copy() for key in self.keys])
        return exp.Count(this=exp.Distinct(expressions=[_if(both, row)]))

    def _both(self, test: exp.Expr | None) -> exp.Expr | None:
        found = (self.condition, test)
        parts: list[exp.Expr] = [exp.Paren(this=each.copy()) for each in found if each is not None]
        return reduce(_and, parts) if parts else None


@dataclass(frozen=True, slots=True)
class _Listed:
    """The rows of a group in `rows`, a list of structures of their keys."""

    rows: exp.Expr
    keys: Sequence[exp.Expr]

    def count(self, test: exp.Expr | None) -> exp.Expr:
        return _length(self.rows.copy() if test is None else self._those(test))

    def distinct(self, test: exp.Expr) -> exp.Expr:
        return _length(exp.Anonymous(this="list_distinct", expressions=[self._those(test)]))

    def _those(self, test: exp.Expr) -> exp.Expr:
        chosen = exp.Lambda(this=test, expressions=[exp.to_identifier(_ROW)])
        return exp.Anonymous(this="list_filter", expressions=[self.rows.copy(), chosen])


def _listed(keys: Sequence[exp.Expr], condition: exp.Expr | None) -> _Listed:
    names = [f"k{i}" for i in range(len(keys))]
    row = structure({name: key.copy() for name, key in zip(names, keys, strict=True)})
    rows: exp.Expr = exp.Anonymous(this="list", expressions=[row])
    if condition is not None:
        rows = exp.Filter(this=rows, expression=exp.Where(this=condition.copy()))
    fields = [
        exp.Anonymous(
            this="struct_extract", expressions=[exp.column(_ROW), exp.Literal.string(name)]
        )
        for name in names
    ]
    return _Listed(rows, fields)


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

    if any(each.find(exp.AggFunc) is not None for each in given):
        raise SqlError(
            f"{name} has an aggregate among its values: aggregates cannot be nested.",
            cure="Compute it in a subquery, and give its column.",
        )
    values = [key.this for key in keys]
    of_group = any(each.find(exp.Column) is not None for each in given)
    rows = (_listed if of_group else _Counted)(values, condition)
    before = _in_order(rows.keys, given, keys, _is_before)
    if name == "rank":
        return _plus_one(rows.count(before))
    if name == "dense_rank":
        return _plus_one(rows.distinct(before))
    if name == "percent_rank":
        empty = exp.EQ(this=rows.count(None), expression=_number(0))
        share = _quotient(rows.count(before), rows.count(None))
        zero = exp.cast(_number(0), "DOUBLE")
        return exp.Paren(this=exp.Case(ifs=[exp.If(this=empty, true=zero)], default=share))
    behind = exp.Not(this=exp.Paren(this=_in_order(rows.keys, given, keys, _is_behind)))
    return exp.Paren(this=_quotient(_plus_one(rows.count(behind)), _plus_one(rows.count(None))))


def _in_order(
    row: Sequence[exp.Expr], given: Sequence[exp.Expr], keys: Sequence[exp.Ordered], test: _Test
) -> exp.Expr:
    """Does a row come before the given one, or behind it?"""
    pairs = list(zip(row, given, strict=True))
    tests = [test(*pair, key) for pair, key in zip(pairs, keys, strict=True)]
    return decided(pairs, tests)


def _is_before(row: exp.Expr, value: exp.Expr, key: exp.Ordered) -> exp.Expr:
    descending, first = bool(key.args.get("desc")), bool(key.args.get("nulls_first"))
    return precedes(row, value, descending=descending, nulls_first=first)


def _is_behind(row: exp.Expr, value: exp.Expr, key: exp.Ordered) -> exp.Expr:
    return _is_before(value, row, key)


def _if(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=value)])


def _length(rows: exp.Expr) -> exp.Expr:
    """The number of elements of a list, which is NULL without rows."""
    length = exp.Anonymous(this="len", expressions=[rows])
    return exp.Coalesce(this=length, expressions=[_number(0)])


def _and(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.And(this=left, expression=right)


def _plus_one(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Add(this=node, expression=_number(1)))


def _quotient(part: exp.Expr, whole: exp.Expr) -> exp.Expr:
    sides = [exp.cast(each, "DOUBLE", copy=False) for each in (part, whole)]
    return exp.Div(this=sides[0], expression=sides[1])


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)
