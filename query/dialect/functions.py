"""Translation of PostgreSQL's functions and operators that DuckDB lacks or interprets differently.

A call is normally passed to DuckDB as written (`query/dialect/grammar.py`). This module handles the
exceptions: it translates a call into DuckDB's functions where that is exact, and otherwise refuses
it with a cure. From DuckDB's catalogue, it also recognises aggregates and functions that return
several rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from sqlglot import exp

from hornbeam_server.query.dialect.catalogue import AGGREGATES, ROWS
from hornbeam_server.query.dialect.grammar import EXACT
from hornbeam_server.query.dialect.hypothetical import counted, is_hypothetical
from hornbeam_server.query.dialect.interval_fields import is_cast_with_fields
from hornbeam_server.query.dialect.jsonb_rows import gives_rows, has_rows, with_rows
from hornbeam_server.query.dialect.macros import call as macro_call
from hornbeam_server.query.dialect.macros import structure
from hornbeam_server.query.dialect.moments import (
    at_time_zone,
    has_plain_zone,
    interval_of_parts,
    interval_with_fields,
    overlapping,
    timezone,
    truncated,
)
from hornbeam_server.query.dialect.numerics import has_exponent, without_exponent
from hornbeam_server.query.dialect.patterns import (
    formatted,
    has_computed_escape,
    has_pattern,
    like_with_backslash,
    matched_part,
    normalized,
    replaced,
    similar,
)
from hornbeam_server.query.dialect.session import session_value
from hornbeam_server.query.dialect.settings import current_setting
from hornbeam_server.query.dialect.templates import (
    arguments_by_name,
    filled,
    from_template,
    has_template,
    value_call,
)
from hornbeam_server.query.dialect.text_arrays import texts_of
from hornbeam_server.query.values.number_templates import number_size
from hornbeam_server.schema.errors import SqlError, Unsupported
from hornbeam_server.schema.trees import unlink

# --- JSON ------------------------------------------------------------------------------------

_EXTRACT: dict[type[exp.Expr], str] = {
    exp.JSONExtract: "json_extract",
    exp.JSONExtractScalar: "json_extract_string",
    exp.JSONBExtract: "json_extract",
    exp.JSONBExtractScalar: "json_extract_string",
}
_DIGITS = re.compile(r"[0-9]+")
_PLACE = re.compile(r"0|[1-9][0-9]*")
_ODD_PLACE = re.compile(r"\s*[+-]?[0-9]+\s*")
"""All spellings that PostgreSQL reads as a position in an array; DuckDB reads only `_PLACE`."""
_KEY_OF_ANY_TYPE = """
CASE WHEN typeof(key) IN ('TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT') THEN '$[' || key || ']'
WHEN regexp_full_match(CAST(key AS TEXT), '[0-9]+') THEN '$."' || key || '"'
ELSE '/' || replace(replace(CAST(key AS TEXT), '~', '~0'), '/', '~1') END
"""
"""DuckDB's path for the right operand of `->`: text is a key, an integer is an array position."""


def _pointer(key: str) -> str:
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _key_path(key: exp.Expr) -> exp.Expr:
    """DuckDB's path for the key `key`, which may contain any characters. A JSON pointer has no
    wildcards but reads digits as an array position too, so a key of digits is quoted."""
    inner = key.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string:
        digits = _DIGITS.fullmatch(inner.this)
        return exp.Literal.string(f'$."{inner.this}"' if digits else _pointer(inner.this))
    number = inner.this if isinstance(inner, exp.Neg) else inner
    if isinstance(number, exp.Null) or (isinstance(number, exp.Literal) and number.is_int):
        return inner
    return _filled(_KEY_OF_ANY_TYPE, key)


def _filled(template: str, value: exp.Expr) -> exp.Expr:
    """The expression `template`, in which `value` replaces the name `key`."""
    return filled(template, {"key": value})


def is_json_step(node: exp.Expr) -> bool:
    """Is the node `->`, `->>`, `#>` or `#>>`?"""
    return type(node) in _EXTRACT


def json_step(node: exp.Expr) -> exp.Expr:
    """A node for which `is_json_step` holds, of a value that is no JSONB, for DuckDB. Raises
    Unsupported."""
    if isinstance(node, exp.JSONExtract | exp.JSONExtractScalar):
        return _arrow(node)
    return _steps(node)


def _arrow(node: exp.Expr) -> exp.Expr:
    return exp.Anonymous(
        this=_EXTRACT[type(node)], expressions=[node.this, _key_path(node.expression)]
    )


def _steps(node: exp.Expr) -> exp.Expr:
    """Translate `#>` and `#>>`, whose right operand is an array of texts."""
    return _extracted(_EXTRACT[type(node)], node.this, path_steps(node))


def path_steps(node: exp.Expr) -> list[str]:
    """The steps of `#>` and `#>>` of a value that is no JSONB. Raises Unsupported."""
    steps = texts_of(node.expression)
    if steps is None or None in steps:
        raise Unsupported(
            "#> and #>> of JSON take a constant array of texts, like '{a,b}'.",
            cure="Write j -> 'a' -> 'b', or j::JSONB.",
        )
    return _checked([str(step) for step in steps])


def _constants(nodes: Sequence[exp.Expr]) -> list[str] | None:
    plain = [node.unnest() for node in nodes]
    if all(isinstance(node, exp.Literal) and node.is_string for node in plain):
        return [node.this for node in plain]
    return None


def _checked(steps: list[str]) -> list[str]:
    """The steps of a path. Raises Unsupported for a step that DuckDB reads in another way."""
    for step in steps:
        if _ODD_PLACE.fullmatch(step) and not _PLACE.fullmatch(step):
            raise Unsupported(
                f"The step {step!r} of a JSON path is not supported.",
                cure=f"Write j -> {step.strip()}.",
            )
    return steps


def _extracted(function: str, value: exp.Expr, steps: Sequence[str]) -> exp.Expr:
    """A call of `function` with the path `steps`; a step of digits is a key or an array
    position."""
    path = exp.Literal.string("".join(map(_pointer, steps)))
    return exp.Anonymous(this=function, expressions=[value, path])


def _path_of_arguments(function: str) -> Callable[[exp.Anonymous], exp.Expr]:
    def written(call: exp.Anonymous) -> exp.Expr:
        value, *keys = call.expressions or [None]
        steps = _constants(keys)
        if value is None or not keys or steps is None:
            raise Unsupported(
                f"{call.name} takes JSON and the constant texts of a path.",
                cure="Write j -> key -> key.",
            )
        return _extracted(function, value, _checked(steps))

    return written


# --- numbers in text -------------------------------------------------------------------------


def _to_number(call: exp.Anonymous) -> exp.Expr:
    """Translate to_number, whose template gives the number of its digits. The digits of a
    template that is no constant are those of NUMERIC."""
    text, template = (*call.expressions, None, None)[:2]
    if text is None or template is None or len(call.expressions) != 2:
        return call
    written = macro_call("number_by_template", text, template)
    if not isinstance(template, exp.Literal) or not template.is_string:
        return macro_call("numeric_of_text", written)
    digits, places = number_size(template.this)
    return exp.cast(written, f"DECIMAL({digits},{places})", dialect="duckdb")


# --- ordered sets ----------------------------------------------------------------------------

_ORDERED_SETS = {
    "percentile_cont": ("quantile_cont", 1),
    "percentile_disc": ("quantile_disc", 1),
    "mode": ("mode", 0),
}
"""PostgreSQL's name → DuckDB's, and the number of arguments."""


def _within_group(node: exp.Expr) -> exp.Expr:
    """Translate `f(x) WITHIN GROUP (ORDER BY y)` to DuckDB's `f(y, x ORDER BY y)`."""
    call, order = node.this, node.expression
    if isinstance(node.parent, exp.Filter) and is_hypothetical(node.parent):
        return node
    known = _ORDERED_SETS.get(function_name(call)) if isinstance(call, exp.Anonymous) else None
    if known is None or len(order.expressions) != 1:
        raise Unsupported(
            "WITHIN GROUP is for percentile_cont, percentile_disc and mode, by one value, and for"
            " rank, dense_rank, percent_rank and cume_dist.",
            cure="Write ORDER BY into the call: f(x ORDER BY y).",
        )
    name, count = known
    if len(call.expressions) != count:
        raise SqlError(
            f"{call.name} takes {count} arguments before WITHIN GROUP, not"
            f" {len(call.expressions)}.",
            cure="Write percentile_cont(0.5) WITHIN GROUP (ORDER BY y), or mode() WITHIN GROUP"
            " (ORDER BY y).",
        )
    if count and _is_surely_null(call.expressions[0]):
        return filled("max(CASE WHEN a IS NULL THEN a END)", {"a": order.expressions[0].this})
    arguments: list[exp.Expr] = [order.expressions[0].this.copy(), *call.expressions]
    ordered = exp.Order(this=arguments.pop(), expressions=order.expressions)
    return exp.Anonymous(this=name, expressions=[*arguments, ordered])


def _is_surely_null(node: exp.Expr) -> bool:
    """Whether a value is NULL: the word, a cast of it, or arithmetic with it."""
    inner = node.unnest()
    if isinstance(inner, exp.Cast | exp.Neg):
        return _is_surely_null(inner.this)
    if isinstance(inner, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return _is_surely_null(inner.this) or _is_surely_null(inner.expression)
    return isinstance(inner, exp.Null)


# --- aggregates ------------------------------------------------------------------------------

_OWN_SEPARATORS = """
list_aggregate(list_transform(
list_filter(rows, lambda hornbeam_row: hornbeam_row.text IS NOT NULL),
lambda hornbeam_row, hornbeam_place: CASE WHEN hornbeam_place = 1 THEN hornbeam_row.text
ELSE coalesce(hornbeam_row.sign, '') || hornbeam_row.text END), 'string_agg', '')
"""


def _joined(call: exp.Anonymous) -> exp.Expr:
    """Translate string_agg whose separator differs from row to row: that of a row stands before its
    text. Texts with NULL between them follow each other. Raises Unsupported."""
    text, sign = (*call.expressions, None, None)[:2]
    order = sign if isinstance(sign, exp.Order) else None
    sign = sign.this if isinstance(sign, exp.Order) else sign
    if sign is not None and _is_null(sign):
        sign.replace(exp.Literal.string(""))
        return call
    if text is None or sign is None or sign.find(exp.Column) is None:
        return call
    if isinstance(text, exp.Distinct) or isinstance(call.parent, exp.Filter | exp.Window):
        raise Unsupported(
            "string_agg with DISTINCT, FILTER or OVER takes a constant separator.",
            cure="Write a CASE for FILTER, or aggregate the rows of a subquery.",
        )
    row = structure({"text": text.copy(), "sign": sign.copy()})
    if order is not None:
        row = exp.Order(this=row, expressions=[key.copy() for key in order.expressions])
    rows = exp.Anonymous(this="list", expressions=[row])
    return filled(_OWN_SEPARATORS, {"rows": rows})


def _in_order(call: exp.Anonymous) -> exp.Expr:
    """Translate array_agg of distinct values: PostgreSQL sorts them, DuckDB has them in any
    order."""
    values = call.expressions[0] if len(call.expressions) == 1 else None
    if isinstance(values, exp.Distinct) and len(values.expressions) == 1:
        keys = [exp.Ordered(this=values.expressions[0].copy(), nulls_first=False)]
        call.set("expressions", [exp.Order(this=values.copy(), expressions=keys)])
    return call


def _is_null(node: exp.Expr) -> bool:
    inner = node.unnest()
    return isinstance(inner.this if isinstance(inner, exp.Cast) else inner, exp.Null)


# --- calls -----------------------------------------------------------------------------------


_HEX = """
lower(CASE WHEN typeof(key) IN ('TINYINT', 'SMALLINT', 'INTEGER') THEN right(to_hex(key), 8)
ELSE to_hex(key) END)
"""


def _to_hex(call: exp.Anonymous) -> exp.Expr:
    """Translate to_hex: lower-case digits, two's complement in the size of the argument's type."""
    return _filled(_HEX, call.expressions[0]) if len(call.expressions) == 1 else call


_SECONDS = {"s", "sec", "secs", "second", "seconds"}
_MILLISECONDS = {"ms", "msec", "msecs", "millisecond", "milliseconds"}
_PARTS = {
    **dict.fromkeys(_SECONDS, ("DECIMAL(14,6)", 1_000_000)),
    **dict.fromkeys(_MILLISECONDS, ("DECIMAL(14,3)", 1_000)),
}
"""Parts that have a fraction: the type of EXTRACT, and the microseconds of a unit."""


def _date_part(call: exp.Anonymous) -> exp.Expr:
    """Translate date_part and EXTRACT: in DuckDB, seconds and milliseconds have no fraction, and
    `epoch` is always a DOUBLE."""
    part, value = (*call.expressions, None, None)[:2]
    constant = isinstance(part, exp.Literal) and part.is_string
    exact = call.meta.get(EXACT)
    if exact and part is not None and part.name.lower() == "epoch":
        return macro_call("epoch", call.expressions[1])
    found = _PARTS.get(part.name.lower()) if constant and part is not None else None
    if found is None or value is None or len(call.expressions) != 2:
        return call
    type_, unit = found
    template = f"CAST(date_part('microseconds', key) AS DOUBLE) / CAST({unit} AS DOUBLE)"
    return _filled(f"CAST({template} AS {type_})" if exact else template, value)


def _series(call: exp.Anonymous) -> exp.Expr:
    """Translate generate_series in SELECT, GROUP BY and ORDER BY, where it gives several rows;
    DuckDB's is a list, which its functions of lists take."""
    part: exp.Expr = call
    while part.parent is not None and not isinstance(part.parent, exp.Query | exp.From | exp.Join):
        part = part.parent
        if takes_lists(part):
            return call
    if not isinstance(part.parent, exp.Select) or part.arg_key not in _OF_ROWS:
        return call
    return exp.Anonymous(this="unnest", expressions=[call.copy()])


_OF_ROWS = ("expressions", "group", "order")
"""The clauses of a SELECT in which a function may return several rows."""


def takes_lists(node: exp.Expr) -> bool:
    """Is the node a call of a function of lists?"""
    return isinstance(node, exp.Func) and function_name(node).startswith(("unnest", "list", "arr"))


def _is_row(node: exp.Expr) -> bool:
    spelled = isinstance(node, exp.Anonymous) and node.name.lower() == "row"
    return spelled or isinstance(node, exp.Tuple)


def _document_of_row(call: exp.Anonymous) -> exp.Expr:
    """Translate to_json, to_jsonb and row_to_json of ROW(…), an object with the keys f1, f2, …"""
    row = call.expressions[0].unnest() if len(call.expressions) == 1 else None
    if row is None or not _is_row(row):
        return call
    if call.name.lower() != "to_jsonb":
        return object_text([(f"f{i}", value) for i, value in enumerate(row.expressions, start=1)])
    pairs = []
    for i, value in enumerate(row.expressions, start=1):
        inner = exp.Anonymous(this=call.name, expressions=[value.copy()])
        shown = _document_of_row(inner) if _is_row(value.unnest()) else value.copy()
        pairs += [exp.Literal.string(f"f{i}"), shown]
    return exp.Anonymous(this="jsonb_build_object", expressions=pairs)


def _json(call: exp.Anonymous) -> exp.Expr:
    """Translate to_json: a timestamp has a T, a number all its digits."""
    found = _document_of_row(call)
    if found is not call or len(call.expressions) != 1:
        return found
    text = macro_call("json", call.expressions[0].copy())
    return exp.cast(text, exp.DType.JSON, copy=False)


def _built_array(call: exp.Anonymous) -> exp.Expr:
    """Translate json_build_array, with the blanks that PostgreSQL writes."""
    return _joined_parts("[", [[json_member(value)] for value in call.expressions], "]")


def _built_object(call: exp.Anonymous) -> exp.Expr:
    """Translate json_build_object, whose keys may have any type. Raises SqlError."""
    given = call.expressions
    if len(given) % 2:
        raise SqlError(
            "json_build_object has a key without a value.", cure="Write a value behind each key."
        )
    pairs = [
        [macro_call("json_key", key.copy()), exp.Literal.string(" : "), json_member(value)]
        for key, value in zip(given[::2], given[1::2], strict=True)
    ]
    return _joined_parts("{", pairs, "}")


def object_text(members: Iterable[tuple[str, exp.Expr]]) -> exp.Expr:
    """The object of these members, as row_to_json writes it."""
    parts: list[exp.Expr] = []
    for name, value in members:
        key = json.dumps(name, ensure_ascii=False)
        parts += [exp.Literal.string(f"{',' if parts else '{'}{key}:"), json_member(value)]
    text = exp.Anonymous(this="concat", expressions=[*parts, exp.Literal.string("}")])
    return exp.cast(text, exp.DType.JSON, copy=False)


def json_member(value: exp.Expr) -> exp.Expr:
    """The text of a value in JSON, as to_json gives it."""
    written = exp.Anonymous(this="to_json", expressions=[value.copy()])
    found = _json(written)
    if found is not written:
        unlink(written)
    text = exp.cast(found, exp.DType.TEXT, copy=False)
    return exp.Anonymous(this="coalesce", expressions=[text, exp.Literal.string("null")])


def _joined_parts(begin: str, parts: Sequence[Sequence[exp.Expr]], end: str) -> exp.Expr:
    """JSON of these parts, with commas between them."""
    texts: list[exp.Expr] = [exp.Literal.string(begin)]
    for i, part in enumerate(parts):
        texts += [exp.Literal.string(", "), *part] if i else part
    text = exp.Anonymous(this="concat", expressions=[*texts, exp.Literal.string(end)])
    return exp.cast(text, exp.DType.JSON, copy=False)


def _object_of_texts(call: exp.Anonymous) -> exp.Expr:
    """Translate json_object of an array of texts, or of an array of keys and one of values. Raises
    Unsupported."""
    if len(call.expressions) not in (1, 2):
        raise Unsupported(
            "json_object takes an array of keys and values, or an array of each.",
            cure="Write json_build_object(key, value, …).",
        )
    text = value_call("json_object", *(each.copy() for each in call.expressions))
    return exp.cast(text, exp.DType.JSON)


def _parts_of_name(call: exp.Anonymous) -> exp.Expr:
    """Translate parse_ident, whose arguments may have names. Raises SqlError."""
    given = arguments_by_name(call, _OF_NAME)
    if "str" not in given:
        raise SqlError("parse_ident takes a name.", cure="Write parse_ident('shop.item').")
    return value_call("parse_ident", *(given[name].copy() for name in _OF_NAME if name in given))


_OF_NAME = ("str", "strict")


def _added_up(template: str) -> Callable[[exp.Anonymous], exp.Expr]:
    """Translate a call to a sum, in which the template stands for each argument."""

    def added_up(call: exp.Anonymous) -> exp.Expr:
        zero: exp.Expr = exp.Literal.number(0)
        numbers = (filled(template, {"a": each}) for each in call.expressions)
        return exp.Paren(this=reduce(_sum, numbers, zero))

    return added_up


def _sum(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Add(this=left, expression=right)


_CALLS: dict[str, Callable[[exp.Anonymous], exp.Expr]] = {
    "array_agg": _in_order,
    "current_setting": current_setting,
    "date_part": _date_part,
    "date_trunc": truncated,
    "generate_series": _series,
    "string_agg": _joined,
    "to_hex": _to_hex,
    "json_build_array": _built_array,
    "json_build_object": _built_object,
    "json_object": _object_of_texts,
    "row_to_json": _document_of_row,
    "to_json": _json,
    "to_jsonb": _document_of_row,
    "to_number": _to_number,
    "format": formatted,
    "make_interval": interval_of_parts,
    "normalize": normalized,
    "parse_ident": _parts_of_name,
    "num_nonnulls": _added_up("CASE WHEN a IS NULL THEN 0 ELSE 1 END"),
    "num_nulls": _added_up("CASE WHEN a IS NULL THEN 1 ELSE 0 END"),
    "regexp_replace": replaced,
    "timezone": timezone,
    "json_extract_path": _path_of_arguments("json_extract"),
    "json_extract_path_text": _path_of_arguments("json_extract_string"),
}
"""PostgreSQL's functions that DuckDB lacks or interprets differently."""

_OPERATORS: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.AtTimeZone: at_time_zone,
    exp.Cast: interval_with_fields,
    exp.Overlaps: overlapping,
    exp.WithinGroup: _within_group,
}


def _similar_to(node: exp.Expr) -> exp.SimilarTo | None:
    """SIMILAR TO, with ESCAPE if it has one; None for other nodes."""
    if isinstance(node, exp.Escape):
        return node.this if isinstance(node.this, exp.SimilarTo) else None
    inside = isinstance(node.parent, exp.Escape) and node.arg_key == "this"
    return node if isinstance(node, exp.SimilarTo) and not inside else None


_NAMES = {exp.Column, exp.Identifier}
"""Nodes that are not translated, and that most trees are full of."""


def is_translated(node: exp.Expr) -> bool:
    """Whether the node needs a translation (`in_duckdb`) from PostgreSQL to DuckDB."""
    if type(node) in _NAMES:
        return False
    if isinstance(node, exp.Literal):
        return has_exponent(node)
    if has_rows(node) or is_hypothetical(node):
        return True
    if isinstance(node, exp.Anonymous):
        known = node.name.lower() in _CALLS or has_template(node)
        return known or session_value(node) is not None
    if isinstance(node, exp.SimilarTo | exp.Escape):
        return _similar_to(node) is not None or has_computed_escape(node)
    if isinstance(node, exp.Substring):
        return has_pattern(node)
    if isinstance(node, exp.Cast):
        return is_cast_with_fields(node)
    if isinstance(node, exp.AtTimeZone):
        return not has_plain_zone(node)
    return type(node) in _OPERATORS or session_value(node) is not None


def in_duckdb(node: exp.Expr) -> exp.Expr:
    """Translate `node`, for which `is_translated` holds, to DuckDB. The result reuses parts of
    `node`. Raises Unsupported."""
    if has_rows(node):
        return with_rows(node)
    if is_hypothetical(node):
        return counted(node)
    constant = session_value(node)
    if constant is not None:
        return constant
    if isinstance(node, exp.Substring):
        return matched_part(node)
    if isinstance(node, exp.Literal):
        return without_exponent(node)
    found = _similar_to(node)
    if found is not None:
        return similar(found, node.expression if isinstance(node, exp.Escape) else None)
    if isinstance(node, exp.Escape):
        return like_with_backslash(node)
    if isinstance(node, exp.Anonymous):
        translate = _CALLS.get(node.name.lower(), from_template)
        return translate(node)
    return _OPERATORS[type(node)](node)


# --- the catalogue ---------------------------------------------------------------------------


def function_name(node: exp.Func) -> str:
    """The function's SQL name in lower case."""
    name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    return name.lower()


def is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.AggFunc):
        return True
    return isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES


_NOW_CALLS = {"now", "get_current_timestamp", "transaction_timestamp"}


def is_current_time(node: exp.Expr) -> bool:
    """Does the node ask for the current time or date?"""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _NOW_CALLS
    return isinstance(node, exp.CurrentTimestamp | exp.CurrentDate | exp.Localtimestamp)


def returns_rows(node: exp.Func) -> bool:
    """Does a call, as PostgreSQL has it, return several rows?"""
    name = function_name(node)
    return name in ROWS or name == "generate_series" or gives_rows(node)


def makes_or_takes_rows(node: exp.Expr) -> bool:
    """Whether the node is an aggregate or a function that returns several rows."""
    several = isinstance(node, exp.Anonymous) and node.name.lower() in ROWS
    return several or is_aggregate(node)
