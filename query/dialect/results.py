"""Results that DuckDB has in another form than PostgreSQL: `sign` is a TINYINT, and an undefined
correlation or slope is NaN, not NULL."""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.query.dialect.overloads import LEFT
from hornbeam_server.query.dialect.reals import AROUND
from hornbeam_server.query.dialect.sums import TypeOf, number_kind
from hornbeam_server.schema.types import Kind

_UNDEFINED = frozenset({"corr", "regr_slope"})


def mark_result(node: exp.Expr, type_of: TypeOf) -> None:
    """Note the macro through which the value of a node is read (`AROUND`)."""
    called = isinstance(node, exp.Anonymous) and LEFT not in node.meta
    name = node.name.lower() if called else ""
    if name in _UNDEFINED:
        node.meta[AROUND] = "defined"
    elif name == "sign" and len(node.expressions) == 1:
        kind = number_kind(node.expressions[0], type_of)
        if kind is not None:
            node.meta[AROUND] = "whole_numeric" if kind is Kind.DECIMAL else "equal_double"
