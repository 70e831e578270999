"""Results that DuckDB has in another form than PostgreSQL.

`sign` is a TINYINT there, `round` and the like keep integers, NULLIF keeps the type of its first
argument, and an undefined correlation or slope is NaN, not NULL.
"""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.query.dialect.reals import AROUND, READ
from hornbeam_server.query.dialect.sums import LEFT, WHOLE, TypeOf, number_kind
from hornbeam_server.schema.types import Kind

_UNDEFINED = frozenset({"corr", "regr_slope"})
_NUMERIC = {Kind.INTEGER: "whole_numeric", Kind.BIGINT: "long_numeric"}
"""The macros that make an integer a NUMERIC."""
AS_KIND = {"equal_double": Kind.DOUBLE, **dict.fromkeys(_NUMERIC.values(), Kind.DECIMAL)}
"""The kinds of numbers that the macros around a value give."""


def mark_result(node: exp.Expr, type_of: TypeOf) -> None:
    """Note the macros through which the value of a node (`AROUND`) or its first operand (`READ`) is
    read."""
    if LEFT in node.meta:
        return
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    if name in _UNDEFINED:
        node.meta[AROUND] = "defined"
    elif isinstance(node, exp.Nullif):
        _mark_nullif(node, type_of)
    elif isinstance(node, exp.Round) or name in WHOLE:
        _mark_rounded(node, type_of)
    elif name == "sign" and len(node.expressions) == 1:
        kind = number_kind(node.expressions[0], type_of)
        if kind is not None:
            node.meta[AROUND] = "whole_numeric" if kind is Kind.DECIMAL else "equal_double"


def _mark_nullif(node: exp.Nullif, type_of: TypeOf) -> None:
    given, kind = number_kind(node.this, type_of), number_kind(node, type_of)
    if given is not kind and kind is Kind.DOUBLE:
        node.meta[AROUND] = "equal_double"
    elif given in _NUMERIC and kind is Kind.DECIMAL:
        node.meta[AROUND] = _NUMERIC[given]


def _mark_rounded(node: exp.Expr, type_of: TypeOf) -> None:
    """An integer is rounded as a DOUBLE, and to a number of places as a NUMERIC."""
    called = isinstance(node, exp.Anonymous)
    given = node.expressions if called else [node.this, *filter(None, [node.args.get("decimals")])]
    kind = number_kind(given[0], type_of) if given else None
    if kind in _NUMERIC:
        node.meta[READ] = ["equal_double" if len(given) == 1 else _NUMERIC[kind]]
