"""The types of functions' results, where they do not depend on the arguments.

Functions of JSONB, of arrays and those that Python computes are listed with their types
(`jsonb.FUNCTIONS`, `arrays.FUNCTIONS`, `value_functions.FUNCTIONS`), and are asked first: `length`
of bytes is such a function. The types are those that Hornbeam's results have: a length is a BIGINT
(PostgreSQL: INTEGER).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.macros import EPOCH, macro
from hornbeam_server.schema.types import ColumnType, Kind

_NODES: Mapping[type[exp.Expr], Kind] = {
    **dict.fromkeys((exp.Length, exp.StrPosition), Kind.BIGINT),
    **dict.fromkeys((exp.Pow, exp.Sqrt, exp.Cbrt), Kind.DOUBLE),
    **dict.fromkeys(
        (
            *(exp.Concat, exp.Lower, exp.Upper, exp.Substring, exp.Trim, exp.Left, exp.Right),
            *(exp.SplitPart, exp.RegexpReplace, exp.RegexpExtract, exp.JSONExtractScalar),
            *(exp.Replace, exp.Overlay),
        ),
        Kind.TEXT,
    ),
    exp.CurrentDate: Kind.DATE,
    exp.CurrentTimestamp: Kind.TIMESTAMPTZ,
    exp.Localtimestamp: Kind.TIMESTAMP,
}
_NAMES: Mapping[Kind, Sequence[str]] = {
    Kind.BIGINT: (
        *("bit_length", "char_length", "character_length", "currval", "dense_rank", "lastval"),
        *("nextval", "ntile", "rank", "row_number", "strpos", macro("octets")),
    ),
    Kind.INTEGER: ("ascii",),
    Kind.DOUBLE: (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "cot"),
        *("corr", "covar_pop", "covar_samp", "cume_dist", "degrees", "exp", "ln", "log", "log10"),
        *("log2", "percent_rank", "pi", "pow", "power", "radians", "random", "sin", "sinh"),
        *("sqrt", "tan", "tanh"),
    ),
    Kind.TEXT: (
        *("array_to_string", "btrim", "concat", "concat_ws", "format", "left", "lower", "lpad"),
        *("ltrim", "md5", "repeat", "replace", "reverse", "right", "rpad", "rtrim"),
        *("string_agg", "to_hex", "translate", "trim", "upper"),
    ),
    Kind.BOOLEAN: ("bool_and", "bool_or", "every", "starts_with", macro("is_finite")),
    Kind.DATE: ("make_date",),
    Kind.TIME: ("make_time",),
    Kind.TIMESTAMP: ("make_timestamp",),
    Kind.TIMESTAMPTZ: (
        *("clock_timestamp", "get_current_timestamp", "now", "statement_timestamp"),
        "transaction_timestamp",
    ),
    Kind.INTERVAL: (
        *("age", "justify_days", "justify_hours", "justify_interval", "make_interval", "to_days"),
        *(macro(f"justify_{part}") for part in ("days", "hours", "interval")),
    ),
    Kind.UUID: ("gen_random_uuid", "uuid"),
    Kind.JSON: ("json_agg", "json_build_array", "json_build_object", "json_object", "row_to_json"),
}
_BY_NAME: Mapping[str, ColumnType] = {
    **{name: ColumnType(kind) for kind, names in _NAMES.items() for name in names},
    macro("epoch"): EPOCH,
}


def type_of_result(node: exp.Expr) -> ColumnType | None:
    """The type of a function's result, if all arguments give the same one; None otherwise."""
    if isinstance(node, exp.Anonymous):
        return _BY_NAME.get(node.name.lower())
    kind = _NODES.get(type(node))
    return None if kind is None else ColumnType(kind)
