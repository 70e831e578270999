"""Macros in DuckDB that are overloaded by the type of their argument: how text is parsed, and what
else PostgreSQL means by a function or an aggregate where only DuckDB knows the type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce

from sqlglot import exp

from hornbeam_server.query.dialect.array_macros import ARRAY_MACROS
from hornbeam_server.schema import spelling
from hornbeam_server.schema.intervals import LONGEST
from hornbeam_server.schema.quotients import QUOTIENT
from hornbeam_server.schema.trees import nodes_of
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind

EPOCH = ColumnType(Kind.DECIMAL, 20, 6)
"""The type of EXTRACT of `epoch`."""
CAST_FROM = "cast_from"
"""Key in the meta of a cast: the type of its argument."""
PARAMETER_TYPE = "parameter_type"
"""Key in the meta of a parameter's node: the type that its values are parsed as."""


def _read(pattern: str, text: str = "x") -> str:
    """A CASE that puts text which does not match `pattern` into quotes, so that the cast around it
    fails (TRY_CAST returns NULL)."""
    fits = f"regexp_full_match(x, {_quoted(pattern)})"
    return f"CASE WHEN {fits} THEN {text} ELSE '\"' || x || '\"' END"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_WIDE, _LONG = (f"DECIMAL({MAX_DECIMAL_PRECISION},{scale})" for scale in (9, 18))
_LOST = "error('NUMERIC without precision does not keep all digits of the value: say NUMERIC(p,s)')"
_DASHED = r"regexp_replace(trim(x, e' \t\n\v\f\r'), '^([0-9]{4})([0-9]{2})([0-9]{2})', '\1-\2-\3')"
_ZONED = reduce(
    lambda text, rule: f"regexp_replace({text}, '{rule[0]}', '{rule[1]}', 'g')",
    (
        (rf" *{spelling.UTC}$", "+00"),
        (r" *([+-])([0-9]?[0-9])([0-9]{2})$", r"\1\2:\3"),
        (r" +([+-])", r"\1"),
        (r"([:+-])([0-9])\b", r"\10\2"),
    ),
    _DASHED,
)
"""A timestamp with the zone as DuckDB reads it: `+02:30` for ` +230`."""
_FALSE = _read(spelling.FALSE, "'false'")
_TRUTH = f"CASE WHEN regexp_full_match(x, {_quoted(spelling.TRUE)}) THEN 'true' ELSE {_FALSE} END"
_BYTES_OF_TEXT = (
    "CASE WHEN NOT contains(x, chr(92)) THEN encode(x)"
    f" WHEN regexp_full_match(x, {_quoted(spelling.HEX)})"
    r" THEN unhex(regexp_replace(substr(x, 3), '\s', '', 'g')) WHEN x IS NULL THEN NULL"
    r" WHEN starts_with(x, '\x')"
    r" THEN error('text for bytes is written \x and pairs of hexadecimal digits')"
    " ELSE hornbeam_decode(x, 'escape') END"
)
_SHORT = "printf('%.15g', x)"
"""A DOUBLE with 15 significant digits, as PostgreSQL converts it to NUMERIC."""
_DIGITS = r"regexp_replace(CAST(x AS TEXT), '^(-?[0-9])([0-9]{15})\.([0-9]+)$', '\1.\2\3e+15')"
_TEXT_OF_DOUBLE = (
    "CASE CAST(x AS TEXT) WHEN 'inf' THEN 'Infinity' WHEN '-inf' THEN '-Infinity' WHEN 'nan' THEN"
    rf" 'NaN' ELSE regexp_replace(regexp_replace({_DIGITS}, '\.?0+e', 'e'), '\.0$', '') END"
)
"""A DOUBLE as PostgreSQL prints it: an exponent from 1e15 on (DuckDB: 1e16), no `.0`."""
_SHORT_REAL = "printf('%.6g', CAST(x AS DOUBLE))"
"""A REAL with 6 significant digits, as PostgreSQL converts it to NUMERIC."""
_FLOAT = "TRY_CAST(CAST(x AS TEXT) AS DOUBLE)"
"""A REAL as a DOUBLE, in an expression that DuckDB binds for all types."""
_REAL_DIGITS = "CASE {} ELSE printf('%.8e', {}) END".format(
    " ".join(
        f"WHEN CAST(printf('%.{n}e', {_FLOAT}) AS REAL) = CAST({_FLOAT} AS REAL)"
        f" THEN printf('%.{n}e', {_FLOAT})"
        for n in (5, 6, 7)
    ),
    _FLOAT,
)
"""A REAL with the digits that distinguish it, and an exponent."""
_TEXT_OF_REAL = (
    f"CASE WHEN {_FLOAT} = 0 OR NOT isfinite({_FLOAT}) THEN {_TEXT_OF_DOUBLE}"
    f" WHEN abs({_FLOAT}) BETWEEN 0.00009999999 AND 999999.96"
    rf" THEN regexp_replace(CAST(CAST({_REAL_DIGITS} AS DOUBLE) AS TEXT), '\.0$', '')"
    rf" ELSE regexp_replace({_REAL_DIGITS}, '\.?0+e', 'e') END"
)
"""A REAL as PostgreSQL prints it, where only DuckDB knows the type. Where Hornbeam knows it, Python
writes the text (`schema.reals`), which has fewer digits for a number below 1.2e-38."""
_REAL = (
    "CASE WHEN isinf(x) OR isnan(x) THEN CAST(x AS REAL)"
    " WHEN abs(x) >= 3.4028235677973366e38 OR (x <> 0 AND abs(x) <= 7.006492321624085e-46)"
    " THEN error('The number is out of range for type real.') ELSE CAST(x AS REAL) END"
)
"""A DOUBLE as a REAL. DuckDB's own cast makes zero of numbers that are too small."""
_SHORT_INTERVAL = (
    "regexp_replace(replace(CAST(x AS TEXT), 'month', 'mon'),"
    r" '(^| )(-1 (?:year|mon|day))( |$)', '\1\2s\3', 'g')"
)
_TEXT_OF_INTERVAL = (
    f"regexp_replace({_SHORT_INTERVAL}, '(-[0-9]+ (?:year|mon|day)s?) ([0-9])', "
    r"'\1 +\2', 'g')"
)
"""A part that follows a negative one has its sign."""
_TEXT = (
    f"CASE WHEN typeof(x) = 'DOUBLE' THEN {_TEXT_OF_DOUBLE} WHEN typeof(x) = 'FLOAT'"
    f" THEN hornbeam_text_of_float(x) WHEN typeof(x) = 'INTERVAL'"
    f" THEN {_TEXT_OF_INTERVAL} WHEN starts_with(typeof(x), 'DECIMAL')"
    r" THEN regexp_replace(CAST(x AS TEXT), '^(-?)\.', '\10.') ELSE CAST(x AS TEXT) END"
)
"""A value of any type as PostgreSQL prints it; DuckDB says `1 month` for `1 mon`, `.5` for `0.5`.
It evaluates only the branch of the type."""
_JSON = (
    "CASE WHEN typeof(x) = 'JSON' THEN CAST(x AS VARCHAR)"
    " WHEN starts_with(typeof(x), 'DECIMAL') OR typeof(x) = 'HUGEINT'"
    r" THEN regexp_replace(CAST(x AS VARCHAR), '^(-?)\.', '\10.')"
    " WHEN typeof(x) = 'TIMESTAMP' THEN '\"' || replace(CAST(x AS VARCHAR), ' ', 'T') || '\"'"
    " WHEN typeof(x) = 'TIMESTAMP WITH TIME ZONE'"
    " THEN '\"' || replace(CAST(x AS VARCHAR), ' ', 'T') || ':00\"'"
    " WHEN typeof(x) = 'BLOB'"
    " THEN '\"\\\\x' || lower(hex(CAST(CAST(x AS VARCHAR) AS BLOB))) || '\"'"
    " WHEN typeof(x) IN ('DOUBLE', 'FLOAT') AND CAST(x AS VARCHAR) IN ('inf', '-inf', 'nan')"
    f" THEN '\"' || {_TEXT_OF_DOUBLE} || '\"'"
    " WHEN typeof(x) = 'FLOAT' THEN hornbeam_text_of_float(x)"
    f" WHEN typeof(x) = 'INTERVAL' THEN '\"' || {_TEXT_OF_INTERVAL} || '\"'"
    " ELSE CAST(to_json(x) AS VARCHAR) END"
)
"""A value of any type as text of JSON, as to_jsonb of PostgreSQL."""
_JSON_KEY = (
    "CASE WHEN x IS NULL THEN error('A key of json_build_object is NULL.')"
    " WHEN typeof(x) = 'JSON' OR regexp_matches(typeof(x), '^(TUPLE|STRUCT|MAP)|\\[[0-9]*\\]$')"
    " THEN error('A key of json_build_object is no single value.')"
    " ELSE CAST(to_json(hornbeam_text_of_any(x)) AS VARCHAR) END"
)
"""A value of any type as the key of an object in JSON."""
_QUOTED_FIELD = r"""
CASE WHEN x IS NULL THEN '' WHEN x = '' OR regexp_matches(x, '[\s\v(),"\\]')
THEN '"' || replace(replace(x, '\', '\\'), '"', '""') || '"' ELSE x END
"""
"""The text of a column in the text of a row."""
_PART = "CAST(date_part('microseconds', x) AS BIGINT)"
_NEAR = f"CASE WHEN {_PART} % u * 2 {{more}} u THEN u - {_PART} % u ELSE - ({_PART} % u) END"
_EARLY, _LATE = (f"x + to_microseconds({_NEAR.format(more=more)})" for more in (">", ">="))
"""A time rounded to a unit of `u` microseconds; half a unit goes down before 2000, as in
PostgreSQL."""
_NO_MIDNIGHT = "error('there is no 24:00:00; the last time of a day is 23:59:59.999999')"
_DAY_US = 86_400_000_000
_MONTHS = "CAST(date_part('year', x) * 12 + date_part('month', x) AS HUGEINT)"
_DAYS = "CAST(date_part('day', x) AS HUGEINT)"
_TICKS = (
    "CAST((date_part('hour', x) * 60 + date_part('minute', x)) * 60000000"
    " + date_part('microseconds', x) AS HUGEINT)"
)
"""The parts of an interval."""


def bounded_interval(value: str) -> str:
    """SQL for an interval, or an error if its microseconds are too many."""
    text = f"CASE WHEN abs({_TICKS}) > {LONGEST} THEN error('An interval is out of range: its time"
    return re.sub(r"\bx\b", value, f"{text} of day is at most 292 years.') ELSE x END")


def _justified(months: str, days: str, ticks: str) -> str:
    parts = (("months", months, "INTEGER"), ("days", days, "INTEGER"))
    whole = " + ".join(f"to_{name}(CAST({value} AS {type_}))" for name, value, type_ in parts)
    return f"(x) AS {whole} + to_microseconds(CAST({ticks} AS BIGINT))"


_ALL = f"(({_MONTHS} * 30 + {_DAYS}) * {_DAY_US} + {_TICKS})"
_OF_DAYS, _OF_TICKS = f"({_MONTHS} * 30 + {_DAYS})", f"({_DAYS} * {_DAY_US} + {_TICKS})"
_SHORT_NUMBER = r"\s*[+-]?[0-9]*(?:\.[0-9]{0,9}0*)?\s*"
_QUOTED_ELEMENT = "'\"' || regexp_replace(e, '([\"\\\\])', '\\\\\\1', 'g') || '\"'"
_ARRAY_TEXT = (
    "'{' || array_to_string(list_transform(x, lambda e: CASE WHEN e IS NULL THEN 'NULL' WHEN e = ''"
    " OR lower(e) = 'null' OR regexp_matches(e, '[ \\t\\n\\r\\v\\f\"{},\\\\]')"
    f" THEN {_QUOTED_ELEMENT} ELSE e END), ',') || '}}'"
)
"""A list of texts as PostgreSQL prints an array."""
_ELEMENTS = {
    "VARCHAR": "e",
    "DOUBLE": _TEXT_OF_DOUBLE.replace("CAST(x", "CAST(e"),
    "FLOAT": "hornbeam_text_of_float(e)",
    **dict.fromkeys(("INTEGER", "BIGINT", "DATE", "TIMESTAMP"), "CAST(e AS VARCHAR)"),
}
_TEXTS_OF_LISTS = tuple(
    f"(x {type_}[]) AS hornbeam_array_text(list_transform(x, lambda e: {text}))"
    for type_, text in _ELEMENTS.items()
)
_SHIFTED = (
    "cast_to_type(CASE WHEN typeof(a) IN ('TINYINT', 'SMALLINT')"
    " THEN (CAST(a AS HUGEINT) * CAST(pow(2, n & 31) AS HUGEINT) % 65536 + 98304) % 65536 - 32768"
    " WHEN typeof(a) = 'INTEGER'"
    " THEN (CAST(a AS HUGEINT) * CAST(pow(2, n & 31) AS HUGEINT) % 4294967296 + 6442450944)"
    " % 4294967296 - 2147483648"
    " ELSE (CAST(a AS HUGEINT) * CAST(pow(2, n & 63) AS HUGEINT) % 18446744073709551616"
    " + 27670116110564327424) % 18446744073709551616 - 9223372036854775808 END, a)"
)
"""`<<` with the bits of SMALLINT, INTEGER or BIGINT, also of a negative number; the places of a
shift wrap around."""
_SHIFTED_BACK = (
    "cast_to_type(CAST(a AS BIGINT) >> CAST(n & CASE WHEN typeof(a) IN ('TINYINT', 'SMALLINT',"
    " 'INTEGER') THEN 31 ELSE 63 END AS BIGINT), a)"
)
_OVERLAID = (
    "CASE WHEN start > 0 THEN substr(x, 1, start - 1) || y || substr(x, greatest(start + size, 1))"
    " WHEN start <= 0 THEN error('A negative substring length is not allowed.') END"
)
_SMALL = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT")
"""Types whose sum is a BIGINT; sums of other types keep DuckDB's type."""

_AVERAGED = ("TIMESTAMP", "TIMESTAMPTZ", "TIME", "TIMETZ", "INTERVAL")
"""Types whose average is DuckDB's, also of DATE, which is a TIMESTAMP. That of numbers is their sum
divided by their number. DuckDB would convert every number for an overload by DOUBLE."""
_EITHER = f"CASE WHEN TRUE THEN x ELSE CAST(NULL AS {QUOTIENT.sql()}) END"
"""`x` with the type of its average."""
_AVERAGE = (
    "CASE WHEN typeof(any_value(x)) IN ('DOUBLE', 'FLOAT')"
    " THEN CAST(CAST(sum(x) AS DOUBLE) / CAST(count(x) AS DOUBLE) AS VARCHAR)"
    " ELSE hornbeam_quotient_of_texts(CAST(sum(x) AS VARCHAR), CAST(count(x) AS VARCHAR)) END"
)
_EPOCH = (
    f"CASE typeof(x) WHEN 'INTERVAL' THEN CAST(date_part('epoch', x) AS {EPOCH.sql()})"
    f" ELSE CAST(CAST(epoch_us(x) AS DECIMAL(20,0)) * 0.000001 AS {EPOCH.sql()}) END"
)
"""EXTRACT of `epoch`. DuckDB's own has the microseconds of a DOUBLE."""
_NOT_AVERAGED = "sum(CAST(error('AVG takes numbers, dates, times and intervals.') AS INTEGER))"


_OF_TEXT: dict[str, str] = {
    "integer": _read(spelling.INTEGER),
    "decimal": _read(spelling.DECIMAL),
    "double": "CASE WHEN isinf(TRY_CAST(x AS DOUBLE)) AND regexp_matches(x, '[0-9]')"
    f" THEN '\"' || x || '\"' ELSE {_read(spelling.DOUBLE)} END",
    "boolean": _TRUTH,
    "date": _read(spelling.DATE, _DASHED),
    "time": _read(spelling.TIME),
    "timestamp": _read(spelling.TIMESTAMP, _DASHED),
    "timestamptz": _read(spelling.TIMESTAMPTZ, _ZONED),
    "uuid": _read(spelling.UUID),
    "bytes": _BYTES_OF_TEXT,
    "numeric": f"CASE WHEN NOT regexp_full_match(x, {_quoted(_SHORT_NUMBER)}) AND"
    f" regexp_full_match(x, {_quoted(spelling.DECIMAL)}) THEN {_LOST}"
    f" ELSE CAST({_read(spelling.DECIMAL)} AS {_WIDE}) END",
}
"""SQL that prepares the text `x` for a cast, by parse rule."""
_OF_DOUBLE = (
    f"CASE WHEN x IS NULL THEN NULL WHEN printf('%.15g', CAST(CAST({_SHORT} AS {_LONG}) AS DOUBLE))"
    f" = {_SHORT} THEN CAST({_SHORT} AS {_LONG}) ELSE {_LOST} END"
)
_MACROS: dict[str, Sequence[str]] = {
    **{f"{name}_of_text": (f"(x) AS {body}",) for name, body in _OF_TEXT.items()},
    **{name: ("(x) AS x", f"(x VARCHAR) AS {body}") for name, body in _OF_TEXT.items()},
    "numeric": (
        "(x) AS x",
        "(x INTEGER) AS CAST(x AS DECIMAL(10,0))",
        "(x BIGINT) AS CAST(x AS DECIMAL(19,0))",
        f"(x HUGEINT) AS CAST(x AS DECIMAL({MAX_DECIMAL_PRECISION},0))",
        f"(x VARCHAR) AS {_OF_TEXT['numeric']}",
    ),
    "numeric_of_double": (f"(x) AS {_OF_DOUBLE}",),
    "numeric_of_real": (f"(x) AS CAST({_SHORT_REAL} AS {_LONG})",),
    "digits_of_double": (f"(x) AS {_SHORT}",),
    "digits_of_real": (f"(x) AS {_SHORT_REAL}",),
    "real": (f"(x) AS {_REAL}",),
    "equal_double": ("(x) AS CAST(x AS DOUBLE)",),
    "whole_numeric": ("(x) AS CAST(x AS DECIMAL(10,0))",),
    "long_numeric": ("(x) AS CAST(x AS DECIMAL(19,0))",),
    "defined": ("(x) AS CASE WHEN NOT isnan(x) THEN x END",),
    "shortest": ("(x) AS CAST(hornbeam_text_of_real(x) AS DOUBLE)",),
    "array_text": (f"(x) AS {_ARRAY_TEXT}",),
    "array_of_any": ("(x) AS x", "(x VARCHAR) AS hornbeam_array_elements(x)"),
    "text": (f"(x) AS {_TEXT}", r"(x BLOB) AS '\x' || lower(hex(x))", *_TEXTS_OF_LISTS),
    "text_of_any": (f"(x) AS {_TEXT}",),
    "text_of_bytes": (r"(x) AS '\x' || lower(hex(x))",),
    "text_of_double": (f"(x) AS {_TEXT_OF_DOUBLE}",),
    "text_of_float": (f"(x) AS {_TEXT_OF_REAL}",),
    **{name: (reading,) for name, reading in ARRAY_MACROS.items()},
    "shift_left": (f"(a, n) AS {_SHIFTED}",),
    "shift_right": (f"(a, n) AS {_SHIFTED_BACK}",),
    "overlaid": (f"(x, y, start, size) AS {_OVERLAID}",),
    "json": (f"(x) AS {_JSON}",),
    "json_key": (f"(x) AS {_JSON_KEY}",),
    "label": ("(positions, labels, x) AS labels[list_position(positions, x)]",),
    "position_of_label": (
        "(name, positions, labels, x) AS CASE WHEN x IS NULL THEN NULL"
        " WHEN list_contains(labels, x) THEN positions[list_position(labels, x)]"
        " ELSE error('Invalid input value for enum ' || name || ': \"' || x || '\".') END",
    ),
    "quoted_field": (f"(x) AS {_QUOTED_FIELD}",),
    "field_of_row": (
        "(x) AS CASE WHEN typeof(x) = 'BOOLEAN' THEN coalesce(left(CAST(x AS VARCHAR), 1), '')"
        " ELSE hornbeam_quoted_field(hornbeam_text_of_any(x)) END",
        "(x BLOB) AS hornbeam_quoted_field(hornbeam_text_of_bytes(x))",
    ),
    "letter": ("(x) AS CASE WHEN x THEN 't' WHEN NOT x THEN 'f' END",),
    "octets": ("(x) AS strlen(x)", "(x BLOB) AS octet_length(x)"),
    "months": (f"(x) AS {_MONTHS}",),
    "days": (f"(x) AS {_DAYS}",),
    "ticks": (f"(x) AS {_TICKS}",),
    "interval_of_time": ("(x) AS (DATE '2000-01-01' + x) - TIMESTAMP '2000-01-01'",),
    "time_of_interval": (
        f"(x) AS CAST(TIMESTAMP '2000-01-01' + to_microseconds(CAST({_TICKS} AS BIGINT)) AS TIME)",
    ),
    "justify_days": (_justified(f"{_OF_DAYS} // 30", f"{_OF_DAYS} % 30", _TICKS),),
    "justify_hours": (
        _justified(_MONTHS, f"{_OF_TICKS} // {_DAY_US}", f"{_OF_TICKS} % {_DAY_US}"),
    ),
    "justify_interval": (
        _justified(
            f"{_ALL} // {30 * _DAY_US}",
            f"{_ALL} % {30 * _DAY_US} // {_DAY_US}",
            f"{_ALL} % {_DAY_US}",
        ),
    ),
    "seconds": (
        f"(x, u) AS CASE WHEN x < '2000-01-01' THEN {_EARLY} ELSE {_LATE} END",
        f"(x TIME, u) AS CASE WHEN {_LATE} < x - INTERVAL 1 SECOND THEN {_NO_MIDNIGHT}"
        f" ELSE {_LATE} END",
    ),
    "substring_from": ("(x, s) AS substring(x, CASE WHEN s < 1 THEN 1 ELSE s END)",),
    "substring": (
        "(x, s, n) AS CASE WHEN n < 0 THEN error('The length of a substring is negative.')"
        " WHEN s >= 1 THEN substring(x, s, n)"
        " ELSE substring(x, 1, CASE WHEN CAST(s AS BIGINT) + n <= 1 THEN 0"
        " ELSE CAST(s AS BIGINT) + n - 1 END) END",
    ),
    "between_symmetric": ("(x, a, b) AS (x BETWEEN a AND b OR x BETWEEN b AND a)",),
    "time": (
        "(x) AS x",
        f"(x VARCHAR) AS {_OF_TEXT['time']}",
        "(x TIMESTAMPTZ) AS CAST(x AS TIMESTAMP)",
    ),
    **{
        name: (
            f"(x, y) AS CAST(hornbeam_{name}_of_texts(CAST(x AS VARCHAR), CAST(y AS VARCHAR))"
            f" AS {QUOTIENT.sql()})",
        )
        for name in ("quotient", "product")
    },
    "remainder": ("(x, y) AS hornbeam_remainder_of_texts(CAST(x AS VARCHAR), CAST(y AS VARCHAR))",),
    "epoch": (f"(x) AS {_EPOCH}",),
    "in_zone": ("(zone, x) AS timezone(zone, x)",),
    "is_finite": ("(x) AS isfinite(x)", "(x INTERVAL) AS CASE WHEN x IS NOT NULL THEN TRUE END"),
    "summed": (
        "(x) AS list_sum([x])",
        *(f"(x {type_}) AS CAST(x AS BIGINT)" for type_ in _SMALL),
        f"(x BIGINT) AS CAST(x AS DECIMAL({MAX_DECIMAL_PRECISION},0))",
    ),
    "average": (
        f"(x) AS cast_to_type({_AVERAGE}, any_value({_EITHER}))",
        *(f"(x {type_}) AS avg(x)" for type_ in _AVERAGED),
        f"(x BOOLEAN) AS {_NOT_AVERAGED}",
    ),
}
TEXT_MACROS = frozenset(f"hornbeam_{name}_of_text" for name in _OF_TEXT if name != "numeric")
"""The macros that parse text for a cast."""
"""The overloads of each macro by its argument's type; an overload without a type takes all other
types. DuckDB cannot choose an overload while it does not know the type (`is_plain`)."""


def definitions() -> Mapping[str, str]:
    """The statement that creates each macro in a database, by the macro's name."""
    return {
        macro(name): f"CREATE MACRO {macro(name)}{', '.join(readings)}"
        for name, readings in _MACROS.items()
    }


_PREFIX = "hornbeam_"


def macro(name: str) -> str:
    return f"{_PREFIX}{name}"


def is_macro(name: str) -> bool:
    return name.lower().startswith(_PREFIX)


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=macro(name), expressions=list(arguments))


def structure(fields: Mapping[str, exp.Expr]) -> exp.Expr:
    """DuckDB's structure of these fields."""
    pairs = [
        exp.PropertyEQ(this=exp.to_identifier(name), expression=value)
        for name, value in fields.items()
    ]
    return exp.Anonymous(this="struct_pack", expressions=pairs)


_OPAQUE = (
    exp.AggFunc, exp.Window, exp.Query, exp.Lambda, exp.Anonymous, exp.Explode, exp.Unnest,
)  # fmt: skip


def is_plain(node: exp.Expr) -> bool:
    """Whether DuckDB knows the type of `node` when it chooses a macro's overload. It does not know
    the types of aggregates and of expressions over them."""
    if isinstance(node, exp.Literal | exp.Null):
        return False
    if isinstance(node, exp.Placeholder) and node.meta.get(PARAMETER_TYPE) is not None:
        return False  # its value was already parsed
    aliased = any(column.meta.get("alias") for column in nodes_of(node, exp.Column))
    return not (aliased or node.find(*_OPAQUE) or node.find_ancestor(exp.Lambda))
