"""Functions that have one name for several types, such as `length` of text and of BYTEA.

Binding marks a node with the name of its function (`OVERLOAD` in its meta) where the syntax shows
that an argument is of type BYTEA or DECIMAL, or that SUBSTRING takes a pattern. All other nodes are
functions of text and numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.macros import call
from hornbeam_server.query.dialect.sums import LEFT, TypeOf, number_kind
from hornbeam_server.schema.trees import supersede
from hornbeam_server.schema.types import Kind

OVERLOAD = "overload"
"""Key in the meta of a node: the name of its function (`query/dialect/value_functions.py`)."""
_NODES: Mapping[type[exp.Expr], str] = {
    exp.Length: "bytes_length",
    exp.Substring: "bytes_part",
    exp.StrPosition: "bytes_position",
    exp.Overlay: "bytes_overlay",
    exp.Trim: "bytes_trim",
}
_OF_DECIMALS: Mapping[tuple[str, int], str] = {
    ("gcd", 2): "numeric_gcd",
    ("greatest_common_divisor", 2): "numeric_gcd",
    ("lcm", 2): "numeric_lcm",
    ("least_common_multiple", 2): "numeric_lcm",
    ("sqrt", 1): "numeric_sqrt",
    ("exp", 1): "numeric_exp",
    ("ln", 1): "numeric_ln",
    ("log", 1): "numeric_log10",
    ("log10", 1): "numeric_log10",
    ("log", 2): "numeric_log",
    ("power", 2): "numeric_power",
    ("pow", 2): "numeric_power",
}
_QUOTIENTS = {*_OF_DECIMALS.values()} - {"numeric_gcd", "numeric_lcm"}
"""Functions whose result has the type of a quotient."""
_OF_WHOLE = {("log", 2)}
"""Functions that are those of NUMERIC for integers, too."""
_CALLS: Mapping[tuple[str, int], str] = {
    ("bit_count", 1): "bytes_bit_count",
    ("bit_length", 1): "bytes_bit_length",
    ("ltrim", 2): "bytes_ltrim",
    ("rtrim", 2): "bytes_rtrim",
    ("strpos", 2): "bytes_position",
}
_KEPT = frozenset({"sign", "floor", "ceil", "ceiling", "trunc"})
_TRIMMED = {"LEADING": "bytes_ltrim", "TRAILING": "bytes_rtrim"}


def overload_of(node: exp.Expr, type_of: TypeOf) -> str | None:
    """The name of the function that computes `node`; None for functions of text and numbers."""
    called = _called(node)
    if LEFT in node.meta:
        return None
    if called in _OF_DECIMALS:
        kinds = {number_kind(each, type_of) for each in arguments(node)}
        exact = Kind.DECIMAL in kinds or (called in _OF_WHOLE and None not in kinds)
        return _OF_DECIMALS[called] if exact and Kind.DOUBLE not in kinds else None
    found = _CALLS.get(called) if isinstance(node, exp.Anonymous) else _NODES.get(type(node))
    if found is None:
        return None
    given = [_kind(each, type_of) for each in arguments(node)]
    if isinstance(node, exp.Substring) and Kind.TEXT in given[1:]:
        return "regexp_part" if len(given) == 2 else "similar_part"
    if given[:1] != [Kind.BYTES] or (isinstance(node, exp.Trim) and len(given) == 1):
        return None
    return _TRIMMED.get(node.args.get("position") or "", found)


def _called(node: exp.Expr) -> tuple[str, int]:
    """The name of a call, and the number of its arguments. `^` is the call of `power`."""
    if isinstance(node, exp.Pow):
        return "power", 2
    called = isinstance(node, exp.Anonymous)
    return (node.name.lower(), len(node.expressions)) if called else ("", 0)


def leave_to_duckdb(node: exp.Expr) -> None:
    """Leave `sqrt`, `power` and the like of NUMERIC to DuckDB, whose results are DOUBLE, and
    `sign`, `round`, `trunc` and `nullif`, which keep integers there."""
    kept = _called(node)[0] in _KEPT or isinstance(node, exp.Round | exp.Nullif)
    if _OF_DECIMALS.get(_called(node)) in _QUOTIENTS or kept:
        node.meta[LEFT] = True
        node.meta.pop(OVERLOAD, None)


def _kind(node: exp.Expr, type_of: TypeOf) -> Kind | None:
    inner = node.unnest()
    if isinstance(inner, exp.DPipe):
        return _kind(inner.this, type_of) or _kind(inner.expression, type_of)
    type_ = type_of(inner)
    return None if type_ is None else type_.kind


def arguments(node: exp.Expr) -> Sequence[exp.Expr]:
    """The arguments of a node that may have an overload."""
    if isinstance(node, exp.Anonymous):
        return node.expressions
    names = ("this", "substr", "expression", "start", "from_", "length", "for_")
    return [node.args[name] for name in names if node.args.get(name) is not None]


def write_overload(node: exp.Expr) -> None:
    """Write a marked node for DuckDB."""
    given = [each.copy() for each in arguments(node)]
    supersede(node, call(node.meta[OVERLOAD], *given))
