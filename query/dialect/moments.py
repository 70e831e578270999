"""PostgreSQL's forms of times that DuckDB reads otherwise: time zones, OVERLAPS and
make_interval."""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.query.dialect.interval_fields import fields_of_cast
from hornbeam_server.query.dialect.macros import call as macro_call
from hornbeam_server.query.dialect.templates import (
    arguments_by_name,
    from_template,
    has_template,
    value_call,
)
from hornbeam_server.query.values.times import INTERVAL_PARTS
from hornbeam_server.query.values.zones import zone_of
from hornbeam_server.schema.errors import SqlError


def has_plain_zone(node: exp.AtTimeZone) -> bool:
    """Is the zone of AT TIME ZONE a name that DuckDB reads as PostgreSQL does?"""
    zone = node.args["zone"]
    return isinstance(zone, exp.Literal) and ("/" in zone.name or zone.name == "UTC")


def at_time_zone(node: exp.Expr) -> exp.Expr:
    """Translate AT TIME ZONE. Raises TypeMismatch and Unsupported."""
    return _in_zone(node.args["zone"], node.this)


def timezone(call: exp.Anonymous) -> exp.Expr:
    """Translate the function that is AT TIME ZONE. Raises TypeMismatch and Unsupported."""
    return _in_zone(*call.expressions) if len(call.expressions) == 2 else call


def truncated(call: exp.Anonymous) -> exp.Expr:
    """Translate date_trunc, which may have a zone. Raises TypeMismatch and Unsupported."""
    if len(call.expressions) == 3:
        part, time, zone = call.expressions
        call.set("expressions", [part, time, _zone(zone)])
    return from_template(call) if has_template(call) else call


def _in_zone(zone: exp.Expr, time: exp.Expr) -> exp.Expr:
    inner, time = time.unnest(), time.copy()
    if isinstance(inner, exp.Literal) and inner.is_string:
        time = exp.cast(time, exp.DType.TIMESTAMPTZ)
    return macro_call("in_zone", _zone(zone), time)


def _zone(zone: exp.Expr) -> exp.Expr:
    """DuckDB's name of a zone, which Python finds for each row unless it is written."""
    inner = zone.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string:
        return exp.Literal.string(zone_of(inner.name))
    return value_call("zone", zone.copy())


def interval_with_fields(node: exp.Expr) -> exp.Expr:
    """Translate a cast to INTERVAL with fields."""
    first, last, digits = fields_of_cast(node)
    words = [exp.Literal.string(word) for word in (first, last)]
    return value_call("interval_with_fields", node.this.copy(), *words, exp.Literal.number(digits))


def overlapping(node: exp.Expr) -> exp.Expr:
    """`(begin, end) OVERLAPS (begin, end)`. Raises SqlError for other operands."""
    sides = [side.unnest() for side in (node.this, node.expression)]
    pairs = [side.expressions for side in sides if isinstance(side, exp.Tuple)]
    if [len(pair) for pair in pairs] != [2, 2]:
        raise SqlError(
            "OVERLAPS takes two pairs.", cure="Write (begin, end) OVERLAPS (begin, end)."
        )
    return value_call("overlap", *(value.copy() for pair in pairs for value in pair))


def interval_of_parts(call: exp.Anonymous) -> exp.Expr:
    """make_interval, whose arguments have names; a part that is left out is 0. Raises SqlError."""
    parts = arguments_by_name(call, INTERVAL_PARTS)
    zero = exp.Literal.number(0)
    return value_call("make_interval", *(parts.get(name, zero).copy() for name in INTERVAL_PARTS))
