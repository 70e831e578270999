"""STDDEV and VARIANCE of exact numbers, which are NUMERIC, for DuckDB.

PostgreSQL computes them from the count, the sum and the sum of squares, which are exact. DuckDB's
own are DOUBLE. Numbers of at most 64 bits are counted in units of their last decimal place. Each is
split into two halves, so that no sum of squares overflows. Other numbers are listed. A variance of
BIGINT stays DuckDB's, since it may have more digits than a quotient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.query.dialect.sums import (
    EXACT,
    TypeOf,
    number_kind,
    whole,
    with_clauses_of,
)
from hornbeam_server.query.dialect.templates import filled
from hornbeam_server.schema.quotients import QUOTIENT, deviation, units_of
from hornbeam_server.schema.trees import supersede
from hornbeam_server.schema.types import Kind

if TYPE_CHECKING:
    import duckdb

UNITS = "units"
"""Key in the meta of a call: the decimal places of the numbers, or `LISTED`."""
LISTED = -1
"""The mark of numbers that are listed: their sums may overflow."""
_DIGITS = 18
"""A number of so many digits has at most 64 bits."""
_HALF = 32
"""The bits of the lower half of a number."""


class _Measure(NamedTuple):
    """`sample`: divided by the count less one. `root`: the square root of the variance."""

    sample: bool
    root: bool


_MEASURES = {
    **dict.fromkeys(("stddev", "stddev_samp"), _Measure(sample=True, root=True)),
    **dict.fromkeys(("variance", "var_samp"), _Measure(sample=True, root=False)),
    "stddev_pop": _Measure(sample=False, root=True),
    "var_pop": _Measure(sample=False, root=False),
}


# ---------------------------------------------------------------- writing


def is_deviation(node: exp.Expr, type_of: TypeOf) -> bool:
    """Is this such a call, and a NUMERIC? Notes how the numbers are added up (`UNITS`)."""
    measure = _MEASURES.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None
    if measure is None or len(node.expressions) != 1:
        return False
    (value,) = node.expressions
    kind, type_ = number_kind(value, type_of), type_of(value)
    if kind not in EXACT or (kind is Kind.BIGINT and not measure.root):
        return False
    decimal = type_ if type_ is not None and type_.kind is Kind.DECIMAL else None
    narrow = decimal is not None and (decimal.precision or _DIGITS + 1) <= _DIGITS
    listed = isinstance(value, exp.Distinct) or (kind is Kind.DECIMAL and not narrow)
    node.meta[UNITS] = LISTED if listed else 0 if decimal is None else decimal.scale or 0
    return True


def write_deviation(node: exp.Expr) -> None:
    """Write a marked call, with its FILTER and OVER."""
    name, places, (value,) = node.name.lower(), node.meta[UNITS], node.expressions
    top, form = whole(node), "list" if places == LISTED else "sums"
    if form == "list":
        distinct = isinstance(value, exp.Distinct)
        text = filled("CAST(x AS VARCHAR)", {"x": value.expressions[0] if distinct else value})
        given = [_over(top, "list", exp.Distinct(expressions=[text]) if distinct else text)]
    else:
        calls = ((called, filled(sql, {"x": value})) for called, sql in _sums(places))
        given = [exp.cast(_over(top, *each), "VARCHAR", dialect="duckdb") for each in calls]
        given.append(exp.Literal.string(str(places)))
    function = exp.Anonymous(this=macro(f"{name}_of_{form}"), expressions=given)
    supersede(top, exp.Cast(this=function, to=exp.DataType.build(QUOTIENT.sql(), NAME)))


def _sums(places: int) -> Sequence[tuple[str, str]]:
    """The aggregates from which a deviation follows: their names, and their arguments as SQL."""
    units = f"CAST(x * {10**places} AS BIGINT)" if places else "CAST(x AS BIGINT)"
    high, low = f"({units} >> {_HALF})", f"({units} & {(1 << _HALF) - 1})"
    square = f"CAST({low} AS UBIGINT) * CAST({low} AS UBIGINT)"
    sums = (units, f"{high} * {high}", f"{high} * {low}", square)
    return (("count", "x"), *(("sum", sql) for sql in sums))


def _over(top: exp.Expr, name: str, argument: exp.Expr) -> exp.Expr:
    """The aggregate `name` with the FILTER and OVER of another."""
    return with_clauses_of(top, exp.Anonymous(this=name, expressions=[argument]))


# ---------------------------------------------------------------- the functions in DuckDB


def _of_sums(
    measure: _Measure,
    count: str,
    total: str | None,
    high: str | None,
    mixed: str | None,
    low: str | None,
    places: str,
) -> str | None:
    """From the count, the sum, the sums of squares of halves, and the decimal places, as texts.
    The sums of nothing are None."""
    parts = (int(high or 0) << 2 * _HALF, int(mixed or 0) << _HALF + 1, int(low or 0))
    sample, root = measure
    return deviation(int(count), int(total or 0), sum(parts), int(places), sample=sample, root=root)


def _of_list(measure: _Measure, texts: Sequence[str | None] | None) -> str | None:
    """From the numbers as texts."""
    places, numbers = units_of([text for text in texts or () if text is not None])
    squares = sum(number * number for number in numbers)
    total, (sample, root) = sum(numbers), measure
    return deviation(len(numbers), total, squares, places, sample=sample, root=root)


class _Form(NamedTuple):
    function: Callable[..., str | None]
    types: tuple[str, ...]


_FORMS = {"sums": _Form(_of_sums, ("VARCHAR",) * 6), "list": _Form(_of_list, ("VARCHAR[]",))}


def _create(form: _Form, measure: _Measure, name: str, database: duckdb.DuckDBPyConnection) -> None:
    create: Any = database.create_function
    function = partial(form.function, measure)
    create(name, function, list(form.types), "VARCHAR", null_handling="special")


FUNCTIONS: Mapping[str, Callable[[duckdb.DuckDBPyConnection], None]] = {
    (full := macro(f"{name}_of_{kind}")): partial(_create, form, measure, full)
    for name, measure in _MEASURES.items()
    for kind, form in _FORMS.items()
}
"""By name: what creates the function in a database."""
