"""ROUND and TRUNC of a NUMERIC to a number of places that is computed for each row.

DuckDB takes a constant number of places, which decides on the type of the result. PostgreSQL's
result has the places of the value at most, so a CASE has a branch for each number of places.
"""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.query.dialect.reals import READ
from hornbeam_server.query.dialect.sums import (
    TypeOf,
    digits_before_point,
    is_unlimited,
    number_type,
)
from hornbeam_server.query.dialect.templates import filled
from hornbeam_server.schema.quotients import PLACES as UNLIMITED
from hornbeam_server.schema.trees import supersede
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind

PLACES = "computed_places"
"""Key in the meta of such a call: the type of its value as a NUMERIC."""
_NUMBERS = {Kind.INTEGER: 10, Kind.BIGINT: 19}
"""The digits of integers, which are rounded as NUMERIC."""


def mark_places(node: exp.Expr, type_of: TypeOf) -> None:
    """Note the type of the value of such a call."""
    given = _arguments(node)
    if len(given) != 2 or given[1].find(exp.Column, exp.Query) is None:
        return
    type_ = number_type(given[0], type_of)
    if type_ is not None and type_.kind in _NUMBERS:
        type_ = ColumnType(Kind.DECIMAL, _NUMBERS[type_.kind], 0)
    if type_ is None or type_.kind is not Kind.DECIMAL:
        return
    if is_unlimited(type_):
        type_ = ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, UNLIMITED)
    node.meta.pop(READ, None)  # the template casts the value
    node.meta[PLACES] = type_


def write_places(node: exp.Expr) -> None:
    """Write a marked call for DuckDB."""
    type_: ColumnType = node.meta[PLACES]
    name = "round" if isinstance(node, exp.Round) else "trunc"
    value, places = _arguments(node)
    supersede(node, filled(_template(name, type_), {"a": value, "b": places}))


def _template(name: str, type_: ColumnType) -> str:
    scale, digits = type_.scale or 0, digits_before_point(type_)
    precision = min(digits + 1 + scale, MAX_DECIMAL_PRECISION)
    to = ColumnType(Kind.DECIMAL, precision, scale).sql()
    branches = (
        f"WHEN b = {places} THEN CAST({name}(CAST(a AS {type_.sql()}), {places}) AS {to})"
        for places in range(-digits, scale)
    )
    return (
        f"CASE WHEN a IS NULL THEN NULL WHEN b >= {scale} THEN CAST(a AS {to})"
        f" WHEN b < {-digits} THEN CAST(0 AS {to}) {' '.join(branches)} END"
    )


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Round):
        return [node.this, *filter(None, [node.args.get("decimals")])]
    truncated = isinstance(node, exp.Anonymous) and node.name.lower() == "trunc"
    return node.expressions if truncated else []
