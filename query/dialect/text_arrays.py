"""Constant arrays of texts: `'{a,b}'` and `ARRAY['a', 'b']`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

_WORD = r'[^\s"{},\\]+'
_ELEMENT = re.compile(rf'\s*(?:"((?:[^"\\]|\\.)*)"|({_WORD}(?:\s+{_WORD})*))\s*(?:,|$)', re.DOTALL)


def texts_of(node: exp.Expr) -> list[str | None] | None:
    """The elements of a constant array of texts; None for other nodes."""
    node = node.unnest()
    if isinstance(node, exp.Cast):
        node = node.this.unnest()
    if isinstance(node, exp.Array):
        return _constants(node.expressions)
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    return texts_in(node.this)


def texts_in(written: str) -> list[str | None] | None:
    """The elements of PostgreSQL's text of an array, without nested arrays; None for other text."""
    written = written.strip()
    if written[:1] != "{" or written[-1:] != "}":
        return None
    inner, found, at = written[1:-1].strip(), list[str | None](), 0
    while at < len(inner):
        element = _ELEMENT.match(inner, at)
        if element is None or (element.end() == len(inner) and inner.endswith(",")):
            return None
        if element[1] is not None:
            found.append(re.sub(r"\\(.)", r"\1", element[1]))
        else:
            found.append(None if element[2].lower() == "null" else element[2])
        at = element.end()
    return found


def _constants(nodes: Sequence[exp.Expr]) -> list[str | None] | None:
    """The texts of literals; None if a node is none."""
    plain = [node.unnest() for node in nodes]
    if all(isinstance(node, exp.Null) or node.is_string for node in plain):
        return [None if isinstance(node, exp.Null) else node.this for node in plain]
    return None
