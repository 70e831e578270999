"""PostgreSQL's functions that DuckDB has under other names, or that a few of its functions make.

A template is an expression for DuckDB over the arguments `a`, `b`, `c` of a call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp

from hornbeam_server.query.dialect.grammar import expression
from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.query.dialect.value_functions import CALLED
from hornbeam_server.schema.errors import Unsupported

_JSON_KIND = """
CASE json_type(a) WHEN 'OBJECT' THEN 'object' WHEN 'ARRAY' THEN 'array' WHEN 'VARCHAR' THEN 'string'
WHEN 'BOOLEAN' THEN 'boolean' WHEN 'NULL' THEN 'null' ELSE CASE WHEN a IS NOT NULL THEN 'number' END
END
"""
_CAPITALS = """
array_to_string(list_transform(regexp_extract_all(a, '[\\pL\\pM\\pN]+|[^\\pL\\pM\\pN]+'),
lambda word: upper(word[1]) || lower(word[2:])), '')
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
_TRUNCATED = "date_trunc(a, b - INTERVAL 1 YEAR) + INTERVAL 1 YEAR"
"""A century, and a millennium, begins a year later than in DuckDB."""
_ERAS = {"century", "centuries", "millennium", "millennia"}
TEMPLATES: Mapping[tuple[str, int], str] = MappingProxyType(
    {
        ("btrim", 1): "trim(a, ' ')",
        ("btrim", 2): "trim(a, b)",
        ("date_trunc", 2): _TRUNCATED,
        ("date_bin", 3): "time_bucket(CAST(a AS INTERVAL), b, c)",
        ("initcap", 1): _CAPITALS,
        ("json_typeof", 1): _JSON_KIND,
        ("justify_days", 1): "hornbeam_justify_days(a)",
        ("justify_hours", 1): "hornbeam_justify_hours(a)",
        ("justify_interval", 1): "hornbeam_justify_interval(a)",
        ("lpad", 2): "lpad(a, b, ' ')",
        ("octet_length", 1): "hornbeam_octets(a)",
        ("pg_typeof", 1): _TYPE_NAMES,
        ("regexp_count", 2): "len(regexp_extract_all(a, b))",
        ("regexp_like", 2): "regexp_matches(a, b)",
        ("regexp_like", 3): "regexp_matches(a, b, c)",
        ("regexp_substr", 2): "CASE WHEN regexp_matches(a, b) THEN regexp_extract(a, b) END",
        ("rpad", 2): "rpad(a, b, ' ')",
        ("to_timestamp", 2): "hornbeam_timestamp_of_text(a, b)",
        ("sha256", 1): "unhex(sha256(a))",
    }
)
"""By name and number of arguments."""
RENAMED = {
    "every": "bool_and",
    "json_build_array": "json_array",
    "json_build_object": "json_object",
    "json_object_agg": "json_group_object",
}


def has_template(call: exp.Anonymous) -> bool:
    name = call.name.lower()
    if name == "date_trunc":
        return bool(call.expressions) and call.expressions[0].name.lower() in _ERAS
    count = len(call.expressions)
    return name in RENAMED or (name, count) in TEMPLATES or _is_value_function(name, count)


def _is_value_function(name: str, count: int) -> bool:
    return name in CALLED and count in CALLED[name].counts


def from_template(call: exp.Anonymous) -> exp.Expr:
    """The call, for which `has_template` holds, in DuckDB's functions."""
    name = call.name.lower()
    if name in RENAMED:
        call.set("this", RENAMED[name])
        return call
    if _is_value_function(name, len(call.expressions)):
        call.set("this", macro(name))
        return call
    template = TEMPLATES[name, len(call.expressions)]
    return filled(template, dict(zip("abc", call.expressions, strict=False)))


def filled(template: str, values: Mapping[str, exp.Expr]) -> exp.Expr:
    """The expression `template`, in which `values` replace the columns of their names."""
    tree = exp.Paren(this=expression(template).copy())
    for column in list(tree.find_all(exp.Column)):
        value = values.get(column.name)
        if value is not None:
            plain = isinstance(value, exp.Literal | exp.Column)
            column.replace(value.copy() if plain else exp.Paren(this=value.copy()))
    return tree


# --- patterns --------------------------------------------------------------------------------


def is_pattern(node: exp.Substring) -> bool:
    """Is it SUBSTRING(text FROM 'pattern')?"""
    start = node.args.get("start")
    text = isinstance(start, exp.Literal) and start.is_string
    return text and node.args.get("length") is None


def matched_part(node: exp.Substring) -> exp.Expr:
    """The part of a text that matches a pattern, or its first group in parentheses; NULL if no part
    matches."""
    pattern = node.args["start"]
    try:
        group = min(re.compile(pattern.this).groups, 1)
    except re.error:
        group = 0  # DuckDB reports the error
    template = f"CASE WHEN regexp_matches(a, b) THEN regexp_extract(a, b, {group}) END"
    return filled(template, {"a": node.this, "b": pattern})


# --- format ----------------------------------------------------------------------------------

_SPECIFIER = re.compile(r"%(?P<kind>[s%])|(?P<text>[^%]+)")


def formatted(call: exp.Anonymous) -> exp.Expr:
    """Translate format with a constant text whose specifiers are `%s` and `%%`."""
    template, *values = call.expressions or [None]
    constant = isinstance(template, exp.Literal) and template.is_string
    parts = list(_SPECIFIER.finditer(template.this)) if constant and template is not None else []
    if template is None or "".join(part[0] for part in parts) != template.name:
        raise Unsupported(
            "format takes a constant text with %s and %%.",
            cure="Write || or concat, or printf.",
        )
    if sum(part["kind"] == "s" for part in parts) > len(values):
        raise Unsupported("format has too few arguments.", cure="Give one value for each %s.")
    left = iter(values)
    pieces: list[exp.Expr] = [
        next(left).copy()
        if part["kind"] == "s"
        else exp.Literal.string("%" if part["kind"] else part["text"])
        for part in parts
    ]
    return exp.Anonymous(this="concat", expressions=[*pieces, exp.Literal.string("")])
