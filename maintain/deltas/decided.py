"""Aggregates and windows with a single result.

SQL lets a database choose: the order of equal rows in `row_number()`, of the texts of `string_agg`
without ORDER BY, and of the doubles that a sum adds. A view that is kept would then differ from its
SELECT. So the columns that decide are added to ORDER BY, in the view's stored SELECT and in what
keeps the view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from hornbeam_server.maintain.deltas.expressions import IN_ANY_ORDER, limited, refused, text
from hornbeam_server.maintain.deltas.select_parts import star_of
from hornbeam_server.query.dialect.deviations import UNITS
from hornbeam_server.query.dialect.functions import function_name
from hornbeam_server.query.dialect.sums import SUMMED
from hornbeam_server.query.optimizer.aggregate_blocks import own_nodes
from hornbeam_server.schema.types import Kind

NUMBER = "number"
"""Key in the meta of a call: the number of the original call, of which others are copies."""
_BY_ROWS = frozenset({"row_number", "ntile", "lag", "lead", "first_value"})
"""Functions of windows whose result depends on the order of rows that ORDER BY has as equal."""
_BY_FRAME = frozenset({"last_value", "nth_value", "string_agg", "array_agg"})
"""The same, where equal rows are together in a frame: in a frame of ROWS, they have an order."""
_BY_VALUE = frozenset(
    {
        *("rank", "dense_rank", "percent_rank", "cume_dist"),
        *("count", "sum", "avg", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or"),
    }
)
WINDOWED = _BY_ROWS | _BY_FRAME | _BY_VALUE

_QUANTILES = frozenset({"quantile_cont", "quantile_disc", "median"})


def decide_call(call: exp.Func, adds_doubles: bool) -> None:
    """Add the arguments of an aggregate to its ORDER BY if its result depends on the order."""
    name = function_name(call)
    if name in IN_ANY_ORDER | _QUANTILES or UNITS in call.meta:
        return
    if isinstance(call, exp.Sum | exp.Avg | exp.Min | exp.Max):
        if not adds_doubles:
            return
        call.meta[SUMMED] = Kind.DOUBLE
    given = [call.this] if isinstance(call, exp.AggFunc) else call.expressions
    last = given[-1]
    order = last if isinstance(last, exp.Order) else None
    values = [*given[:-1], last if order is None else order.this]
    keys = [] if order is None else order.expressions
    arguments = (value for each in values for value in _values(each))
    decided = with_more(keys, (v for v in arguments if not isinstance(v, exp.Literal)))
    if not decided:
        return
    if order is not None:
        order.set("expressions", decided)
        return
    place = last.copy()
    last.replace(exp.Order(this=place, expressions=decided))


def _values(argument: exp.Expr) -> Iterable[exp.Expr]:
    return argument.expressions if isinstance(argument, exp.Distinct) else [argument]


def decide_rows(select: exp.Select, sql: str) -> None:
    """Write the windows of a SELECT, and the ORDER BY of its DISTINCT ON or LIMIT, so that no two
    rows are equal that differ in a column of the result. Doing so again changes nothing."""
    _write_named_windows(select)
    windows = list(windows_of(select))
    distinct = select.args.get("distinct")
    on = distinct.args.get("on") if distinct is not None else None
    if not windows and on is None and limited(select) is None:
        return
    columns = list(_deciding(select))
    for window in windows:
        if _needs_order(window, sql):
            order = window.args.get("order")
            keys = with_more([] if order is None else order.expressions, columns)
            window.set("order", exp.Order(expressions=keys))
    if on is not None or limited(select) is not None:
        order = select.args.get("order")
        first = on.expressions if isinstance(on, exp.Tuple) else [] if on is None else [on]
        keys = with_more([] if order is None else order.expressions, [*first, *columns])
        select.set("order", exp.Order(expressions=keys))


def windows_of(select: exp.Select) -> Iterator[exp.Window]:
    """The windows of a SELECT's output columns."""
    for projection in select.expressions:
        for node in own_nodes(projection):
            if isinstance(node, exp.Window):
                yield node


def _write_named_windows(select: exp.Select) -> None:
    """Write the windows of the WINDOW clause where they are used."""
    named = {window.name: window for window in select.args.get("windows") or ()}
    for window in list(windows_of(select)) if named else ():
        known = named.get(window.args["alias"].name) if window.args.get("alias") else None
        if known is None:
            continue
        for part in ("partition_by", "order", "spec"):
            if not window.args.get(part) and known.args.get(part):
                value = known.args[part]
                copies = [v.copy() for v in value] if isinstance(value, list) else value.copy()
                window.set(part, copies)
        window.set("alias", None)
    select.set("windows", None)


def _deciding(select: exp.Select) -> Iterator[exp.Expr]:
    """Expressions that have equal values only for rows that are the same for the result."""
    group = select.args.get("group")
    if group is not None:
        for key in group.expressions:
            position = isinstance(key, exp.Literal) and not key.is_string
            yield select.expressions[int(key.name) - 1].unalias() if position else key
        return
    for projection in select.expressions:
        star = star_of(projection)
        if star is not None:
            yield from map(_column, star.meta["columns"])
            continue
        for node in own_nodes(projection):
            if isinstance(node, exp.Column) and "column" in node.meta:
                yield node


def _column(entry: tuple[object, ...]) -> exp.Column:
    _, alias, name = entry[:3]
    column = exp.column(str(name), table=str(alias), quoted=True)
    column.meta["column"] = entry[:3]
    return column


def window_function(window: exp.Window) -> exp.Expr:
    inner: exp.Expr = window.this
    while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        inner = inner.this
    return inner


def _needs_order(window: exp.Window, sql: str) -> bool:
    """Whether the result depends on the order of rows that ORDER BY has as equal. Raises
    Unsupported for a function whose result may differ."""
    called = window_function(window)
    name = _called(window)
    if name not in WINDOWED:
        raise refused(f"{name or text(called)} with OVER", window, sql, "Aggregate with GROUP BY.")
    if name in _BY_FRAME and not depends_on_place(window):
        raise refused(
            f"{name}, whose result depends on the order of equal rows,", window, sql,
            "Write ROWS BETWEEN … AND … into OVER.",
        )  # fmt: skip
    return depends_on_place(window)


def depends_on_place(window: exp.Window) -> bool:
    """Whether the result for a row depends on its place among rows that ORDER BY has as equal."""
    spec = window.args.get("spec")
    rows = spec is not None and spec.args.get("kind") == "ROWS"
    return rows or _called(window) in _BY_ROWS


def _called(window: exp.Window) -> str:
    called = window_function(window)
    return function_name(called) if isinstance(called, exp.Func) else ""


def with_more(keys: Sequence[exp.Expr], values: Iterable[exp.Expr]) -> list[exp.Expr]:
    """The keys of an ORDER BY, and those values that are not among them."""
    known = {text(key.this) for key in keys}
    more = {text(value): value for value in values}
    added = (value.copy() for sql, value in more.items() if sql not in known)
    return [*keys, *(exp.Ordered(this=value, nulls_first=False) for value in added)]
