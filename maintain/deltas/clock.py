"""Conditions on the current time in a view that follows changes: `at > now() - INTERVAL '1 hour'`.

The current time of a view is the time of its snapshot, whose number counts the milliseconds since
1970. So a view is still a function of a snapshot, and every process computes the same rows.

The clock is an operator with one row, which changes in every batch from the time of the first
snapshot to that of the second. A condition compares columns with the only value of a subquery over
this row, as it could compare them with `(SELECT max(x) FROM t)`. So rows that leave and enter by
time are those between the old and the new value (`lookups.Between`), which an index finds: a batch
reads the rows that change, not all rows that are shown. Materialize calls such conditions temporal
filters.
"""

from __future__ import annotations

import datetime as dt

from sqlglot import exp

from hornbeam_server.maintain.deltas.algebra import NOW, Aggregate, Call, Clock
from hornbeam_server.maintain.deltas.expressions import column, text
from hornbeam_server.maintain.deltas.operators import limits, renamed
from hornbeam_server.maintain.deltas.relations import Field
from hornbeam_server.maintain.deltas.zsets import Weighted, ZSet
from hornbeam_server.query.dialect.aggregates import Function
from hornbeam_server.query.dialect.functions import is_current_time
from hornbeam_server.query.typing.comparisons import EXCHANGED
from hornbeam_server.query.typing.constants import CONSTANT
from hornbeam_server.schema.intervals import Interval
from hornbeam_server.schema.trees import nodes_of

CLOCK = ""
"""The source of the clock's changes in a program. No relation has an empty name."""
_VALUE = "clock.value"
_ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_BOOLEAN = (
    *_ORDERED,
    exp.EQ,
    exp.NEQ,
    exp.Between,
    exp.In,
    exp.Is,
    exp.Connector,
    exp.Not,
    exp.Where,
)


def time_of(snapshot: int) -> dt.datetime:
    """The time of a snapshot."""
    return dt.datetime.fromtimestamp(snapshot / 1000, dt.UTC)


def ticked(before: int | None, after: int) -> ZSet:
    """The change of the clock between two snapshots. None: for a view that is being built."""
    rows: list[Weighted] = [((time_of(after),), 1)]
    if before is not None:
        rows.append(((time_of(before),), -1))
    return ZSet((NOW,), rows=rows)


def reads_clock(tree: exp.Expr) -> bool:
    """Does a SELECT name the current time?"""
    return any(map(is_current_time, nodes_of(tree, exp.Func)))


def clock_value() -> Aggregate:
    """The current time as an aggregate of the clock, whose state holds it from batch to batch."""
    clock = renamed(Clock(), {NOW.name: NOW.name})
    now = Call(Function.MAX, NOW.name, Field(_VALUE, NOW.duck, NOW.type))
    return Aggregate(clock, (), (now,), ())


def over_clock(value: exp.Expr) -> exp.Expr:
    """A copy of an expression over the current time, over the result of `clock_value`."""
    return _with_now(value, column(_VALUE))


def cut_at_moments(tree: exp.Expr) -> tuple[str, ...]:
    """The text of a SELECT for DuckDB, cut where the microseconds since 1970 of the current time
    belong: in one piece if it does not name the current time."""
    if not reads_clock(tree):
        return (text(tree),)
    whole, mark = text(tree), "moment"
    while mark in whole:
        mark += "_"
    now = exp.Anonymous(this="make_timestamptz", expressions=[exp.var(mark)])
    return tuple(text(_with_now(tree, now)).split(mark))


def _with_now(tree: exp.Expr, now: exp.Expr) -> exp.Expr:
    """A copy of the tree with `now` for the current time, of the type that each function has."""

    def moment(node: exp.Expr) -> exp.Expr:
        if not is_current_time(node):
            return node
        if isinstance(node, exp.CurrentDate):
            return exp.cast(now.copy(), "DATE", dialect="duckdb")
        if isinstance(node, exp.Localtimestamp):
            return exp.cast(now.copy(), "TIMESTAMP", dialect="duckdb")
        return now.copy()

    found: exp.Expr = exp.Paren(this=tree.copy()).transform(moment).this
    return found


def as_values(tree: exp.Expr) -> exp.Expr:
    """A copy of a bound SELECT in which conditions compare with subqueries without FROM instead of
    expressions over the current time. BETWEEN and = become two comparisons, and in comparisons a
    column stands alone where it can."""
    tree = tree.copy()
    for node in list(tree.find_all(exp.Between, exp.EQ)):
        if reads_clock(node) and not node.args.get("symmetric"):
            node.replace(_two(node))
    for compared in list(tree.find_all(*_ORDERED)):
        if reads_clock(compared):
            compared.replace(_alone(compared))
    for now in [each for each in nodes_of(tree, exp.Func) if is_current_time(each)]:
        value = _whole(now)
        if not isinstance(value.parent, exp.Select):  # else it has the value already
            named = exp.alias_(value.copy(), "moment")
            value.replace(exp.Subquery(this=exp.Select(expressions=[named])))
    return tree


def _whole(node: exp.Expr) -> exp.Expr:
    """The largest expression around a node that reads no rows and is no condition."""
    around = node.parent
    if around is None or isinstance(around, _BOOLEAN) or _reads_rows(around):
        return node
    return _whole(around)


def value_of(subquery: exp.Subquery) -> exp.Expr | None:
    """The expression over the current time that a subquery of `as_values` has as its value; None
    for other subqueries."""
    query = subquery.this
    if not isinstance(query, exp.Select) or query.args.get("from_") or len(query.expressions) > 1:
        return None
    value: exp.Expr = query.expressions[0].unalias()
    return value if reads_clock(value) and not _reads_rows(value) else None


def _two(node: exp.Expr) -> exp.Expr:
    """BETWEEN or = as a lower and an upper limit."""
    ends = ("low", "high") if isinstance(node, exp.Between) else ("expression", "expression")
    low, high = (node.args[end] for end in ends)
    above, below = limits(node.this, low, high)
    return exp.Paren(this=exp.And(this=above, expression=below))


def _alone(node: exp.Expr) -> exp.Expr:
    """A comparison with the current time. `at + i > now()` becomes `at > now() - i`, and
    `now() - at < i` becomes `at > now() - i`, for an interval `i` of days and microseconds: in UTC,
    in which times are computed here, both have the same result."""
    compare: type[exp.Expr] = type(node)
    left, right = node.this.unnest(), node.args["expression"].unnest()
    if not _reads_rows(left):
        compare, left, right = EXCHANGED[compare], right, left
    if not isinstance(left, exp.Add | exp.Sub):
        return node
    first, second = left.this.unnest(), left.expression.unnest()
    if not _reads_rows(right) and _is_fixed(second):
        back = exp.Sub if isinstance(left, exp.Add) else exp.Add
        return compare(this=first.copy(), expression=_moved(right, second, back))
    since = isinstance(left, exp.Sub) and reads_clock(first) and not _reads_rows(first)
    if since and _is_fixed(right):
        return EXCHANGED[compare](this=second.copy(), expression=_moved(first, right, exp.Sub))
    return node


def _moved(moment: exp.Expr, interval: exp.Expr, sign: type[exp.Add | exp.Sub]) -> exp.Expr:
    return sign(this=exp.Paren(this=moment.copy()), expression=interval.copy())


def _is_fixed(node: exp.Expr) -> bool:
    """Is a node an interval whose length does not depend on the month?"""
    _, value = node.meta.get(CONSTANT, (None, None))
    return isinstance(value, Interval) and not value.months


def _reads_rows(node: exp.Expr | None) -> bool:
    return node is None or node.find(exp.Column, exp.Query, exp.AggFunc) is not None
