"""PostgreSQL's functions that DuckDB has under other names, or that a few of its functions make.

A template is an expression for DuckDB over the arguments `a`, `b`, … of a call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from types import MappingProxyType

from sqlglot import exp

from hornbeam_server.query.dialect.expansion import over_variable, variables
from hornbeam_server.query.dialect.grammar import NAME, expression
from hornbeam_server.query.dialect.macros import call as macro_call
from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.query.dialect.value_functions import CALLED, FUNCTIONS
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.trees import nodes_of
from hornbeam_server.schema.types import ColumnType, Kind

_JSON_KIND = """
CASE json_type(a) WHEN 'OBJECT' THEN 'object' WHEN 'ARRAY' THEN 'array' WHEN 'VARCHAR' THEN 'string'
WHEN 'BOOLEAN' THEN 'boolean' WHEN 'NULL' THEN 'null' ELSE CASE WHEN a IS NOT NULL THEN 'number' END
END
"""
_CAPITALS = """
array_to_string(list_transform(regexp_extract_all(a, '[\\pL\\pM\\pN]+|[^\\pL\\pM\\pN]+'),
lambda hornbeam_word: upper(hornbeam_word[1]) || lower(hornbeam_word[2:])), '')
"""
"""Words with a capital first letter, and small letters behind it."""
_OF_ELEMENTS = "replace(typeof(a), '[]', '')"
_TYPE_NAMES = f"""
CASE WHEN typeof(a) LIKE 'TUPLE%' OR typeof(a) LIKE 'STRUCT%' THEN 'record' ELSE
CASE {_OF_ELEMENTS} WHEN 'VARCHAR' THEN 'text' WHEN 'DOUBLE' THEN 'double precision'
WHEN 'FLOAT' THEN 'real' WHEN 'TINYINT' THEN 'smallint' WHEN 'TIMESTAMP' THEN
'timestamp without time zone' WHEN 'TIME' THEN 'time without time zone' WHEN 'BLOB' THEN 'bytea'
WHEN '"NULL"' THEN 'unknown' ELSE CASE WHEN typeof(a) LIKE 'DECIMAL%' OR typeof(a) LIKE '%HUGEINT%'
THEN 'numeric' ELSE lower({_OF_ELEMENTS}) END END
|| CASE WHEN typeof(a) LIKE '%[]' THEN '[]' ELSE '' END END
"""
_ERAS = ("c", "cent", "century", "centuries", "mil", "mils", "millennium", "millennia")
_TRUNCATED = f"""
CASE WHEN typeof(b) <> 'INTERVAL' AND lower(a) IN {_ERAS}
THEN date_trunc(a, b - INTERVAL 1 YEAR) + INTERVAL 1 YEAR ELSE date_trunc(a, b) END
"""
"""A century, and a millennium, of a date begins a year later than in DuckDB."""
_PARTS_OF_A_DAY = (
    *("h", "hour", "hours", "hr", "hrs", "m", "min", "mins", "minute", "minutes"),
    *("s", "sec", "secs", "second", "seconds", "ms", "msec", "msecs", "millisecond"),
    *("milliseconds", "us", "usec", "usecs", "microsecond", "microseconds"),
)
_LOCAL = "hornbeam_in_zone(c, CAST(b AS TIMESTAMPTZ))"
_TRUNCATED_IN_ZONE = f"""
CASE WHEN lower(a) IN {_PARTS_OF_A_DAY}
THEN CAST(b AS TIMESTAMPTZ) - ({_LOCAL} - date_trunc(a, {_LOCAL}))
WHEN lower(a) IN {_ERAS}
THEN hornbeam_in_zone(c, date_trunc(a, {_LOCAL} - INTERVAL 1 YEAR) + INTERVAL 1 YEAR)
ELSE hornbeam_in_zone(c, date_trunc(a, {_LOCAL})) END
"""
"""A part of a day keeps the offset of its timestamp: an hour may occur twice in a day."""
_BIN = """
CASE WHEN hornbeam_months(CAST(a AS INTERVAL)) <> 0 AND b IS NOT NULL AND c IS NOT NULL
THEN error('date_bin takes no interval with months or years.')
ELSE time_bucket(CAST(a AS INTERVAL), b, c) END
"""
_TRIMMED = """
CASE WHEN b BETWEEN 0 AND len(a) THEN list_slice(a, 1, len(a) - b)
ELSE error('The number of elements to trim is out of range.') END
"""
_LENGTH = """
CASE json_type(a) WHEN 'ARRAY' THEN CAST(json_array_length(a) AS INTEGER)
WHEN 'OBJECT' THEN error('The JSON is an object, which has no array length.')
ELSE error('The JSON is a single value, which has no array length.') END
"""
_ARRAY_AS_JSON = """
CASE WHEN b THEN error('array_to_json adds no line feeds here: leave its second argument out.')
WHEN NOT b THEN array_to_json(a) END
"""
_FILLED = """
CASE WHEN len(b) = 1 THEN list_transform(range(list_extract(b, 1)), lambda hornbeam_i: a)
WHEN len(b) = 0 THEN list_transform(range(0), lambda hornbeam_i: a)
WHEN len(b) > 1 THEN error('Arrays of several dimensions are not supported.')
ELSE error('The lengths of array_fill are NULL.') END
"""
_PADDED = "CASE WHEN c = '' THEN left(a, greatest(b, 0)) ELSE {}(a, b, nullif(c, '')) END"
_BACKWARDS = "CASE WHEN b = 1 THEN CAST(range(len(a), 0, -1) AS INTEGER[]) END"
_PLACES = "CASE WHEN b = 1 THEN CAST(range(1, len(a) + 1) AS INTEGER[]) END"
_PLACES_OR_BACKWARDS = f"CASE WHEN c THEN {_BACKWARDS} ELSE {_PLACES} END"
PLACES = macro("places")
"""The list of the rows of generate_subscripts, which takes the same arguments."""
_SET_LAX = """
CASE WHEN c IS NULL THEN jsonb_set(a, b, 'null', {0}) ELSE jsonb_set(a, b, c, {0}) END
"""
_SET_BY_CHOICE = """
CASE WHEN a IS NULL OR b IS NULL OR d IS NULL THEN NULL
WHEN c IS NOT NULL AND e IS NOT NULL THEN jsonb_set(a, b, c, d)
WHEN e = 'use_json_null' THEN jsonb_set(a, b, 'null', d)
WHEN e = 'delete_key' THEN jsonb_delete_path(a, b)
WHEN e = 'return_target' THEN CAST(a AS JSONB)
WHEN e = 'raise_exception' THEN error('The new value of jsonb_set_lax is NULL.')
ELSE error('jsonb_set_lax takes use_json_null, delete_key, return_target or raise_exception.') END
"""
TEMPLATES: Mapping[tuple[str, int], str] = MappingProxyType(
    {
        ("age", 1): "age(CAST(current_date AS TIMESTAMP), CAST(a AS TIMESTAMP))",
        ("array_fill", 2): _FILLED,
        ("btrim", 1): "trim(a, ' ')",
        ("btrim", 2): "trim(a, b)",
        ("date_trunc", 2): _TRUNCATED,
        ("date_trunc", 3): _TRUNCATED_IN_ZONE,
        ("date_bin", 3): _BIN,
        ("gcd", 2): "cast_to_type(greatest_common_divisor(a, b), greatest(a, b))",
        ("lcm", 2): "cast_to_type(least_common_multiple(a, b), greatest(a, b))",
        ("generate_subscripts", 2): f"unnest({_PLACES})",
        ("generate_subscripts", 3): f"unnest({_PLACES_OR_BACKWARDS})",
        ("initcap", 1): _CAPITALS,
        ("isfinite", 1): "hornbeam_is_finite(a)",
        ("array_to_json", 2): _ARRAY_AS_JSON,
        ("json_array_length", 1): f"CASE WHEN a IS NOT NULL THEN {_LENGTH} END",
        ("json_typeof", 1): _JSON_KIND,
        ("jsonb_set_lax", 3): _SET_LAX.format("TRUE"),
        ("jsonb_set_lax", 4): _SET_LAX.format("d"),
        ("jsonb_set_lax", 5): _SET_BY_CHOICE,
        ("justify_days", 1): "hornbeam_justify_days(a)",
        ("justify_hours", 1): "hornbeam_justify_hours(a)",
        ("justify_interval", 1): "hornbeam_justify_interval(a)",
        ("lpad", 2): "lpad(a, b, ' ')",
        ("make_timestamptz", 6): "CAST(make_timestamp(a, b, c, d, e, f) AS TIMESTAMPTZ)",
        ("octet_length", 1): "hornbeam_octets(a)",
        ("pg_typeof", 1): _TYPE_NAMES,
        (PLACES, 2): _PLACES,
        (PLACES, 3): _PLACES_OR_BACKWARDS,
        ("lpad", 3): _PADDED.format("lpad"),
        ("rpad", 2): "rpad(a, b, ' ')",
        ("rpad", 3): _PADDED.format("rpad"),
        ("timeofday", 0): "strftime(CAST(now() AS TIMESTAMP), '%a %b %d %H:%M:%S.%f %Y UTC')",
        ("trim_array", 2): _TRIMMED,
        ("trim_scale", 1): "a",
        ("to_timestamp", 2): "hornbeam_timestamp_by_template(a, b)",
    }
)
"""By name and number of arguments."""
RENAMED = {
    "clock_timestamp": "now",
    "every": "bool_and",
    "json_object_agg": "json_group_object",
    "statement_timestamp": "now",
}


def has_template(call: exp.Anonymous) -> bool:
    name = call.name.lower()
    if name == "date_trunc" and len(call.expressions) < 3:
        return len(call.expressions) == 2 and _may_be_era(call.expressions[0])
    count = len(call.expressions)
    return name in RENAMED or (name, count) in TEMPLATES or _is_value_function(name, count)


def _is_value_function(name: str, count: int) -> bool:
    return name in CALLED and count in CALLED[name].counts


def _may_be_era(part: exp.Expr) -> bool:
    return part.name.lower() in _ERAS if isinstance(part, exp.Literal) else True


def from_template(call: exp.Anonymous) -> exp.Expr:
    """The call, for which `has_template` holds, in DuckDB's functions."""
    name = call.name.lower()
    if name in RENAMED:
        call.set("this", RENAMED[name])
        return call
    if _is_value_function(name, len(call.expressions)):
        return value_call(name, *call.expressions)
    template = TEMPLATES[name, len(call.expressions)]
    return filled(template, dict(zip("abcdef", call.expressions, strict=False)))


def arguments_by_name(call: exp.Anonymous, names: Sequence[str]) -> dict[str, exp.Expr]:
    """The arguments of a call that may be written with their names. Raises SqlError for another
    name, and for one that is there twice."""
    found: dict[str, exp.Expr] = {}
    for place, given in enumerate(call.expressions):
        named = isinstance(given, exp.Kwarg | exp.PropertyEQ)
        name = given.this.name.lower() if named else "".join(names[place : place + 1])
        if name not in names or name in found:
            raise SqlError(
                f"{call.name.lower()} does not take {name or 'so many arguments'} here.",
                cure=f"Its arguments are {', '.join(names)}, each at most once.",
            )
        found[name] = given.expression if named else given
    return found


def value_call(name: str, *given: exp.Expr) -> exp.Expr:
    """The call of a function that Python computes. A text literal is a value of the parameter's
    type, as in PostgreSQL."""
    typed = [
        _typed(each, type_) for each, type_ in zip(given, FUNCTIONS[name].parameters, strict=False)
    ]
    return macro_call(name, *typed)


def _typed(node: exp.Expr, type_: ColumnType | None) -> exp.Expr:
    literal = isinstance(node, exp.Literal) and node.is_string
    if not literal or type_ is None or type_.kind is Kind.TEXT:
        return node
    return exp.cast(node, type_.sql(), dialect=NAME)


def filled(template: str, values: Mapping[str, exp.Expr]) -> exp.Expr:
    """The expression `template`, in which `values` replace the columns of their names. A large
    value that the template repeats is computed once."""
    tree = exp.Paren(this=expression(template).copy())
    columns = [column for column in nodes_of(tree, exp.Column) if column.name in values]
    places = Counter(column.name for column in columns)
    large = [name for name, count in places.items() if count > 1 and _is_large(values[name])]
    if tree.find(exp.Unnest, exp.Explode):
        large = []  # a lambda gives one value
    variable = dict(zip(large, variables(len(large)), strict=True)) if large else {}
    for column in columns:
        value = variable.get(column.name, values[column.name])
        plain = isinstance(value, exp.Literal | exp.Column) or column.name in variable
        column.replace(value.copy() if plain else exp.Paren(this=value.copy()))
    if not large:
        return tree
    return over_variable([values[name].copy() for name in large], tree)


_LARGE = 8
"""A value of more nodes is not repeated."""


def _is_large(value: exp.Expr) -> bool:
    return next(islice(value.walk(), _LARGE, None), None) is not None
