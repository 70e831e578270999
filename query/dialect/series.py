"""generate_series with PostgreSQL's types.

DuckDB's own gives BIGINT for integers and TIMESTAMP for dates, and takes no NUMERIC. PostgreSQL
gives INTEGER, BIGINT or NUMERIC, as the arguments are, and TIMESTAMPTZ for dates. Binding notes the
type (`SERIES` in the meta of the call, or of its item of FROM) where the syntax shows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.dialect.listed_rows import Listed, lateral, named, rows_of
from hornbeam_server.query.dialect.sums import TypeOf, common_if_known, is_unlimited, number_type
from hornbeam_server.query.dialect.templates import filled
from hornbeam_server.schema.quotients import PLACES
from hornbeam_server.schema.trees import supersede
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind

SERIES = "generate_series"
"""The function's name, and the key in the meta of a call: the type of its values. In the meta of an
item of FROM: that, and the names of the columns."""
_MOMENTS = {Kind.DATE: Kind.TIMESTAMPTZ, **{k: k for k in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)}}
_STEPS = "CAST((CAST(b AS {t}) - a) * {u} AS HUGEINT) // CAST(CAST(c AS {t}) * {u} AS HUGEINT)"
_OF_NUMERIC = f"""
CASE WHEN c = 0 THEN error('The step of generate_series is 0.')
WHEN (c > 0 AND a > b) OR (c < 0 AND a < b) THEN CAST([] AS {{t}}[])
ELSE list_transform(range(CAST({_STEPS} + 1 AS BIGINT)),
lambda hornbeam_i: CAST(CAST(a AS {{t}}) + hornbeam_i * CAST(c AS {{t}}) AS {{t}})) END
"""


def series_type(call: exp.Expr, type_of: TypeOf) -> ColumnType | None:
    """The type of the values of generate_series; None if only DuckDB knows it. A text that is
    written, and NULL, take the type of the others."""
    given = [each for each in call.expressions if not _is_untyped(each)]
    bounds = [type_of(each) for each in given[:2]]
    kinds = {_MOMENTS[type_.kind] for type_ in bounds if type_ and type_.kind in _MOMENTS}
    if kinds:
        exact = {type_.kind for type_ in bounds if type_} & {Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
        return ColumnType(max(exact or kinds, key=[Kind.TIMESTAMP, Kind.TIMESTAMPTZ].index))
    common = common_if_known([number_type(each, type_of) for each in given])
    if common is None or common.kind is Kind.DOUBLE:
        return None
    if common.kind is not Kind.DECIMAL:
        return common
    places = PLACES if is_unlimited(common) else common.scale
    return ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, places)


def _is_untyped(node: exp.Expr) -> bool:
    inner = node.unnest()
    return isinstance(inner, exp.Null) or (isinstance(inner, exp.Literal) and inner.is_string)


def mark_series(node: exp.Expr, type_of: TypeOf) -> None:
    """Note the type of a call outside of FROM, which is a list there."""
    called = isinstance(node, exp.Anonymous) and node.name.lower() == SERIES
    if called and not isinstance(node.parent, exp.Table | exp.Lateral):
        found = series_type(node, type_of)
        if found is not None:
            node.meta[SERIES] = found


def write_series(node: exp.Expr) -> None:
    """Write a marked call, or a marked item of FROM, for DuckDB."""
    if isinstance(node, exp.Table | exp.Lateral):
        supersede(node, _in_from(node, *node.meta[SERIES]))
    else:
        supersede(node, _list(node.copy(), node.meta[SERIES]))


def _list(call: exp.Expr, type_: ColumnType) -> exp.Expr:
    """The list of the values."""
    if type_.kind is Kind.DECIMAL:
        return _list_of_numeric(call.expressions, type_)
    return exp.Cast(this=call, to=_written(type_, "[]"))


def _list_of_numeric(given: Sequence[exp.Expr], type_: ColumnType) -> exp.Expr:
    template = _OF_NUMERIC.format(t=type_.sql(), u=10 ** (type_.scale or 0))
    first, last, step = [*given, exp.Literal.number(1)][:3]
    return filled(template, {"a": first, "b": last, "c": step})


def _in_from(node: exp.Expr, type_: ColumnType, names: Sequence[str]) -> exp.Lateral:
    call, title, numbered = node.this.copy(), node.alias or names[0], len(names) == 2
    if type_.kind is Kind.DECIMAL:
        return rows_of([Listed(SERIES, _list(call, type_))], title, names, numbered=numbered)
    parts = [exp.to_identifier("value"), exp.to_identifier("place")][: len(names)]
    alias = exp.TableAlias(this=exp.to_identifier("series"), columns=parts)
    source = exp.Table(this=call, alias=alias, ordinality=numbered or None)
    value = exp.Cast(this=exp.column("value"), to=_written(type_))
    cells = [value, exp.column("place")][: len(names)]
    return lateral(named(cells, names, names).from_(source, copy=False), title, scalar=False)


def _written(type_: ColumnType, suffix: str = "") -> exp.DataType:
    return exp.DataType.build(type_.sql() + suffix, NAME)
