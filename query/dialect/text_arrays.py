"""Constant texts, and arrays of them: `'{a,b}'` and `ARRAY['a', 'b']`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from hornbeam_server.schema.arrays import elements_of


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
    """The elements of PostgreSQL's text of an array; None for other text."""
    try:
        return elements_of(written)
    except ValueError:
        return None


def _constants(nodes: Sequence[exp.Expr]) -> list[str | None] | None:
    """The texts of literals; None if a node is none."""
    plain = [node.unnest() for node in nodes]
    if all(isinstance(node, exp.Null) or node.is_string for node in plain):
        return [None if isinstance(node, exp.Null) else node.this for node in plain]
    return None


def written_text(node: exp.Expr) -> str | None:
    """The text of a string literal; None for any other node."""
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    return str(node.this) if isinstance(node, exp.ByteString | exp.RawString) else None
