"""`x LIKE ANY (ARRAY[…])`, `x ~ ANY (ARRAY[…])` and the like: a condition for each pattern."""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.query.dialect.arrays import is_all
from hornbeam_server.query.dialect.grammar import NEGATED
from hornbeam_server.query.dialect.text_arrays import texts_of
from hornbeam_server.query.parsing.nesting import chain
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.trees import supersede

SEVERAL = (exp.Any, exp.All)
"""The nodes around several patterns."""
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Like: "LIKE",
    exp.ILike: "ILIKE",
    exp.RegexpLike: "~",
    exp.RegexpILike: "~*",
}


def has_several_patterns(node: exp.Expr) -> bool:
    """Is the node an operator with ANY or ALL of patterns?"""
    if type(node) not in _OPERATORS:
        return False
    other = node.expression
    return isinstance(other, SEVERAL) or (isinstance(other, exp.Anonymous) and is_all(other))


def spell_patterns(tree: exp.Expr) -> None:
    """Replace operators with several patterns by a condition for each pattern. Raises Unsupported
    for patterns that are no list."""
    for node in reversed(list(tree.find_all(*_OPERATORS))):  # parts first
        if has_several_patterns(node):
            outer = node.parent if _is_negated(node) else node
            assert outer is not None
            supersede(outer, _spelled(node))


def _is_negated(node: exp.Expr) -> bool:
    """Is the operator `!~` or `!~*`?"""
    return node.parent is not None and node.parent.meta.get(NEGATED, False)


def _spelled(node: exp.Expr) -> exp.Expr:
    several = node.expression
    listed = several.this if isinstance(several, SEVERAL) else several.expressions[0]
    patterns = _patterns(listed.unnest())
    if patterns is None:
        name = _OPERATORS[type(node)]
        raise Unsupported(
            f"{name} ANY and {name} ALL take ARRAY[…] with the patterns.",
            cure=f"Write EXISTS (SELECT 1 FROM unnest(patterns) AS p WHERE x {name} p).",
        )
    is_any = isinstance(several, exp.Any)
    if not patterns:
        return exp.Boolean(this=not is_any)
    conditions = [_condition(node, pattern) for pattern in patterns]
    return exp.Paren(this=chain(exp.Or if is_any else exp.And, conditions))


def _condition(node: exp.Expr, pattern: exp.Expr) -> exp.Expr:
    """The operator with one pattern."""
    found = type(node)(this=node.this.copy(), expression=pattern.copy())
    if node.args.get("negate"):
        found.set("negate", True)
    return exp.Not(this=found) if _is_negated(node) else found


def _patterns(listed: exp.Expr) -> list[exp.Expr] | None:
    """The patterns in ARRAY[…] or '{a,b}'; None for other values."""
    if isinstance(listed, exp.Array | exp.Tuple):
        return list(listed.expressions)
    texts = texts_of(listed)
    if texts is None:
        return None
    return [exp.Null() if text is None else exp.Literal.string(text) for text in texts]
