"""PostgreSQL's regular expressions, SIMILAR TO and `format`, in DuckDB's functions or in Python's.

DuckDB's expressions (RE2) are fast, and have PostgreSQL's meaning for plain patterns: whether such
a pattern matches. All else is Python (`query/values/matches.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.query.dialect.templates import value_call
from hornbeam_server.query.dialect.text_arrays import written_text
from hornbeam_server.query.values.matches import regex_of_similar

_PLACES = ("start", "length")
_PLAIN = re.compile(
    r"(?:[\w\s\-.|()*+?^$,:;<>=!@#%&~'\"/`]|\(\?:|\{[0-9]+(?:,[0-9]*)?\}|\\[^0-9A-Za-z]"
    r"|\\[dD]|\[\^?(?:[\w\s\-.|()*+?$,:;<>=!@#%&~'\"/`]|\\[^a-ce-zA-Z0-9]|\[:x?digit:\])+\])*"
)
"""Patterns that RE2 reads as PostgreSQL does."""


def constant_pattern(node: exp.Expr) -> str | None:
    """The pattern of `~` that a node spells, also with a cast to TEXT and as `similar_to_escape`,
    as pg_dump writes it; None if it is not constant."""
    inner = node.unnest()
    if isinstance(inner, exp.Cast) and inner.is_type(exp.DType.TEXT):
        return constant_pattern(inner.this)
    if isinstance(inner, exp.Anonymous) and inner.name.lower() == macro("similar_to_escape"):
        return constant_similar(inner.expressions)
    return written_text(inner)


def constant_similar(given: Sequence[exp.Expr]) -> str | None:
    """The regular expression of a constant pattern of SIMILAR TO, with its escape character if it
    has one; None if one of them is not constant."""
    texts = [constant_pattern(each) for each in given]
    known = [text for text in texts if text is not None]
    return regex_of_similar(*known) if len(known) == len(texts) else None


def is_plain_pattern(pattern: str) -> bool:
    grouped = pattern.replace("(?:", "(")
    return _PLAIN.fullmatch(pattern) is not None and "(?" not in grouped and pattern[:3] != "***"


def has_pattern(node: exp.Substring) -> bool:
    """Is it SUBSTRING(text FROM 'pattern'), or with a literal escape character behind FOR?"""
    return any(node.args.get(name) is not None and node.args[name].is_string for name in _PLACES)


def matched_part(node: exp.Substring) -> exp.Expr:
    """The part of a text that matches a pattern; with an escape character it is one of SIMILAR
    TO."""
    escape = node.args.get("length")
    name = "regexp_part" if escape is None else "similar_part"
    return value_call(name, node.this, node.args["start"], *([] if escape is None else [escape]))


def similar(node: exp.SimilarTo, escape: exp.Expr | None) -> exp.Expr:
    """`text SIMILAR TO pattern`, with ESCAPE."""
    return value_call("similar", node.this, node.expression, *([] if escape is None else [escape]))


def has_computed_escape(node: exp.Expr) -> bool:
    """Is it LIKE or ILIKE with an escape that DuckDB does not take: no literal of one byte?"""
    if not isinstance(node, exp.Escape) or not isinstance(node.this, exp.Like | exp.ILike):
        return False
    escape = node.expression
    written = isinstance(escape, exp.Literal) and escape.is_string
    return not (written and len(escape.name.encode()) <= 1)


def like_with_backslash(node: exp.Escape) -> exp.Expr:
    """LIKE with a computed escape as LIKE of a pattern whose escape is the backslash."""
    like: exp.Expr = node.this
    like.set("expression", value_call("like_escape", like.expression, node.expression))
    return like


def replaced(call: exp.Anonymous) -> exp.Expr:
    """regexp_replace: with a number, the fourth argument is where the search begins."""
    given = call.expressions
    if len(given) not in (3, 4, 5, 6):
        return call
    from_place = len(given) > 4 or (len(given) == 4 and _is_number(given[3]))
    return value_call("regexp_replace_from" if from_place else "regexp_replace", *given)


def _is_number(node: exp.Expr) -> bool:
    inner = node.unnest()
    inner = inner.this if isinstance(inner, exp.Neg) else inner
    return isinstance(inner, exp.Literal) and not inner.is_string


def normalized(call: exp.Anonymous) -> exp.Expr:
    """normalize, whose form is a word: `normalize(text, NFKC)`."""
    text, form = (*call.expressions, None, None)[:2]
    if text is None or not isinstance(form, exp.Column) or form.table:
        return value_call("normalize", *call.expressions) if call.expressions else call
    return value_call("normalize", text, exp.Literal.string(form.name))


def formatted(call: exp.Anonymous) -> exp.Expr:
    """Translate format: its values are texts."""
    template, *values = call.expressions or [exp.Null()]
    listed = exp.Array(expressions=[value_call("shown", value.copy()) for value in values])
    return value_call("format", template, listed)
