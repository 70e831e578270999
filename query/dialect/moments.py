"""PostgreSQL's forms of times that DuckDB reads otherwise: zones as offsets, OVERLAPS and
make_interval."""

from __future__ import annotations

import re

from sqlglot import exp

from hornbeam_server.query.dialect.templates import value_call
from hornbeam_server.query.values.times import INTERVAL_PARTS
from hornbeam_server.schema.errors import SqlError, Unsupported

_OFFSET = re.compile(r"(?P<sign>[+-]?)(?P<hours>[0-9]{1,2})(?::?00)?")


def zone_offset(node: exp.Expr) -> str | None:
    """The name of the zone of AT TIME ZONE '+02', which is two hours west of UTC in PostgreSQL, as
    POSIX has it; None for other zones."""
    zone = node.args["zone"]
    found = (
        _OFFSET.fullmatch(zone.name) if isinstance(zone, exp.Literal) and zone.is_string else None
    )
    if found is None:
        return None
    west = int(found["hours"]) * (-1 if found["sign"] == "-" else 1)
    if not -14 <= west <= 12:
        raise Unsupported(f"The time zone {zone.name!r} is out of range.", cure="Name a zone.")
    return f"Etc/GMT{west:+d}" if west else "UTC"


def at_offset(node: exp.Expr) -> exp.Expr:
    name = zone_offset(node)
    assert name is not None
    return exp.AtTimeZone(this=node.this.copy(), zone=exp.Literal.string(name))


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
    parts: dict[str, exp.Expr] = {}
    for place, given in enumerate(call.expressions):
        named = isinstance(given, exp.Kwarg | exp.PropertyEQ)
        name = given.this.name.lower() if named else INTERVAL_PARTS[min(place, 6)]
        if name not in INTERVAL_PARTS or name in parts:
            raise SqlError(
                f"make_interval does not take {name} here.",
                cure=f"Its arguments are {', '.join(INTERVAL_PARTS)}, each at most once.",
            )
        parts[name] = given.expression if named else given
    zero = exp.Literal.number(0)
    return value_call("make_interval", *(parts.get(name, zero).copy() for name in INTERVAL_PARTS))
