"""`~`, `~*` and SIMILAR TO in expressions that a schema declares, such as CHECK.

A node evaluates them for each row that it writes, so a pattern must not take any time. RE2, the
library that DuckDB has for plain patterns (`query/dialect/patterns.py`), takes a time that grows
with the length of the text alone. Queries leave patterns to DuckDB, which is faster for many rows.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from hornbeam_server.query.dialect.macros import call, macro
from hornbeam_server.query.dialect.patterns import (
    constant_pattern,
    constant_similar,
    is_plain_pattern,
)
from hornbeam_server.query.expressions.operands import (
    BOOLEAN,
    NotNativeError,
    Operand,
    require,
    unary,
)
from hornbeam_server.schema.errors import TypeMismatch, Unsupported
from hornbeam_server.schema.trees import supersede
from hornbeam_server.schema.types import Kind

FITS = "fits"
"""The function of a text, a plain pattern, and a truth value: does the case of letters not count?
Only our loops have it."""


def write_patterns(tree: exp.Expr) -> None:
    """Write `~`, `~*` and SIMILAR TO in a tree as calls of `FITS`. Raises Unsupported for a pattern
    that is not constant or not plain, and TypeMismatch for one that is wrong."""
    for node in list(tree.find_all(exp.RegexpLike, exp.RegexpILike, exp.Anonymous)):
        found = _matched(node)
        if found is None:
            continue
        value, pattern = found
        if pattern is None or not is_plain_pattern(pattern):
            raise Unsupported(
                "A pattern here is constant, and has only characters, \\d, brackets, groups,"
                " alternatives, quantifiers, ^ and $.",
                cure="Write the classes of characters out, such as [A-Za-z0-9_] for \\w.",
            )
        insensitive = isinstance(node, exp.RegexpILike)
        _test(pattern, insensitive=insensitive)("")
        given = exp.Literal.string(pattern), exp.Boolean(this=insensitive)
        supersede(node, call(FITS, value.copy(), *given))


def _matched(node: exp.Expr) -> tuple[exp.Expr, str | None] | None:
    """The value that a node matches with a pattern, and the pattern, None if it is not constant.
    None for other nodes. SIMILAR TO is a call."""
    if isinstance(node, exp.RegexpLike | exp.RegexpILike):
        return node.this, constant_pattern(node.expression)
    if not isinstance(node, exp.Anonymous) or node.name.lower() != macro("similar"):
        return None
    value, *pattern = node.expressions
    return value, constant_similar(pattern)


def fits(text: Operand, pattern: Operand, insensitive: Operand) -> Operand:
    """Whether a text matches a constant pattern."""
    if pattern.text is None or not insensitive.constant:
        raise NotNativeError
    test = _test(pattern.text, insensitive=insensitive.value)
    return unary(require(text, Kind.TEXT), BOOLEAN, test)


def _test(pattern: str, *, insensitive: bool) -> Callable[[str], bool]:
    """Whether a part of a text matches the pattern. The test raises TypeMismatch for a wrong
    pattern."""
    function = pc.get_function("match_substring_regex")
    options = pc.MatchSubstringOptions(f"(?s:{pattern})", ignore_case=insensitive)

    def test(text: str) -> bool:
        try:
            found: bool = function.call([pa.scalar(text)], options).as_py()
        except pa.ArrowInvalid as error:
            raise TypeMismatch(f"{pattern!r} is no regular expression: {error}.") from None
        return found

    return test
