"""Window functions as the SELECT of a `Partition`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp

from hornbeam_server.maintain.deltas.algebra import Map, Partition
from hornbeam_server.maintain.deltas.decided import depends_on_place, window_function, with_more
from hornbeam_server.maintain.deltas.expressions import column, text
from hornbeam_server.maintain.deltas.operators import check_keys
from hornbeam_server.maintain.deltas.relations import describe
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.trees import nodes_of
from hornbeam_server.schema.types import Kind

FIRST = "?first"
"""The name of the output that numbers the rows of DISTINCT ON, or of LIMIT in a LATERAL subquery;
no SQL name has this spelling."""


def windows_in(values: Iterable[exp.Expr]) -> dict[str, exp.Window]:
    """The windows in renamed expressions, by their text."""
    return {text(found): found for value in values for found in nodes_of(value, exp.Window)}


def common_partition(windows: Iterable[exp.Window], sql: str) -> list[exp.Expr]:
    """The expressions that every window has in its PARTITION BY. Raises Unsupported."""
    parts = [{text(p): p for p in window.args.get("partition_by") or ()} for window in windows]
    first, *others = parts
    common = [part for key, part in first.items() if all(key in other for other in others)]
    if not common:
        place = next(iter(windows))
        raise Unsupported(
            "A window over all rows would be computed again from all of them in each batch"
            f"{at(place, sql)}."
            if not all(parts)
            else f"Windows have no expression of PARTITION BY in common{at(place, sql)}.",
            cure="Write PARTITION BY into OVER, or WITH (refresh = 'recompute')."
            if not all(parts)
            else "Compute each in a SELECT of its own in FROM.",
        )
    return common


def windowed(inner: Map, by: Sequence[str], windows: Mapping[str, exp.Window]) -> Partition:
    """The rows of `inner` with the results of windows, by the names of their columns. The key of
    `inner` decides between rows that are equal in all columns of the SELECT, so that hidden columns
    of the view have one value, too."""
    check_keys(tuple(inner.field[name] for name in by), "PARTITION BY")
    for window in windows.values():
        _check_exact(inner, window)
    columns = [quoted(field.name) for field in inner.fields]
    results = [
        f"{text(_decided(inner, window))} AS {quoted(name)}" for name, window in windows.items()
    ]
    sql = f"SELECT {', '.join([*columns, *results])} FROM input"
    described = describe(sql, {"input": inner.fields})
    fields = (*inner.fields, *described[len(inner.fields) :])
    return Partition(inner, tuple(by), sql, fields, inner.unique, "A window or DISTINCT ON")


def _decided(inner: Map, window: exp.Window) -> exp.Window:
    if not inner.unique or not depends_on_place(window):
        return window
    window = window.copy()
    order = window.args.get("order")
    keys = with_more([] if order is None else order.expressions, map(column, sorted(inner.unique)))
    window.set("order", exp.Order(expressions=keys))
    return window


def _check_exact(inner: Map, window: exp.Window) -> None:
    """Raise Unsupported for a window that adds doubles: the sum depends on their order."""
    call = window_function(window)
    if not isinstance(call, exp.Sum | exp.Avg):
        return
    (argument,) = describe(f"SELECT {text(call.this)} FROM input", {"input": inner.fields})
    if argument.type.kind is Kind.DOUBLE:
        raise Unsupported(
            f"{text(call)} with OVER depends on the order in which it adds doubles.",
            cure="CAST the argument to a DECIMAL.",
        )


def over_columns(value: exp.Expr, names: Mapping[str, str]) -> exp.Expr:
    """An expression with columns for its windows; `names` are their columns by their text."""

    def replaced(part: exp.Expr) -> exp.Expr:
        return column(names[text(part)]) if isinstance(part, exp.Window) else part

    return value.copy().transform(replaced)


def place_of_row(
    keys: Sequence[exp.Expr], ordered: Sequence[exp.Expr], values: Sequence[exp.Expr]
) -> exp.Window:
    """The place of a row among those with the same `keys`, in the order of `values`. `ordered` are
    the keys of ORDER BY that they stand for."""
    pairs = zip(ordered, values, strict=True)
    order = [exp.Ordered(**part.args | {"this": value}) for part, value in pairs]
    return exp.Window(
        this=exp.Anonymous(this="row_number"),
        partition_by=[key.copy() for key in keys],
        order=exp.Order(expressions=order),
    )


def is_among(rows: int, place: exp.Expr) -> exp.Expr:
    """The condition that a row is among the first rows."""
    return exp.LTE(this=place, expression=exp.Literal.number(rows))
