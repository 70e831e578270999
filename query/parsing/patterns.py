"""`x LIKE ANY (ARRAY[…])` and the like: a condition for each pattern."""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.query.dialect.text_arrays import texts_of
from hornbeam_server.query.parsing.nesting import chain
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.trees import supersede

SEVERAL = (exp.Any, exp.All)
"""The nodes around several patterns."""


def spell_patterns(tree: exp.Expr) -> None:
    """Replace LIKE and ILIKE of several patterns by a condition for each. Raises Unsupported for
    patterns that are no list."""
    for node in reversed(list(tree.find_all(exp.Like, exp.ILike))):  # parts first
        if isinstance(node.expression, SEVERAL):
            supersede(node, exp.Paren(this=_spelled(node)))


def _spelled(node: exp.Expr) -> exp.Expr:
    patterns = _patterns(node.expression.this.unnest())
    if not patterns:
        raise Unsupported(
            "LIKE ANY and LIKE ALL take ARRAY[…] with the patterns.",
            cure="Write EXISTS (SELECT 1 FROM unnest(patterns) AS p WHERE x LIKE p).",
        )
    negate = node.args.get("negate")
    conditions: list[exp.Expr] = [
        type(node)(this=node.this.copy(), expression=pattern.copy(), negate=negate)
        for pattern in patterns
    ]
    connector = exp.Or if isinstance(node.expression, exp.Any) else exp.And
    return chain(connector, conditions)


def _patterns(listed: exp.Expr) -> list[exp.Expr]:
    """The patterns in ARRAY[…] or '{a,b}'; empty for other values."""
    if isinstance(listed, exp.Array | exp.Tuple):
        return list(listed.expressions)
    texts = texts_of(listed) or []
    return [exp.Null() if text is None else exp.Literal.string(text) for text in texts]
