"""The assignments of SET: `a = 1`, `(a, b) = (1, 2)`, `(a, b) = ROW(1, 2)`, and
`(a, b) = (SELECT …)`."""

from __future__ import annotations

from sqlglot import exp


def is_assignment(node: exp.Expr) -> bool:
    """Whether the node is `column = value` in SET."""
    return isinstance(node.parent, exp.Update | exp.OnConflict)


def both_sides(node: exp.EQ) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
    """The columns and the values of an assignment. The values are None if they are the columns of
    one subquery's row. Both sides may differ in length."""
    columns = node.this.unnest()
    if columns is node.this and not isinstance(columns, exp.Tuple):
        return [columns], [node.expression]
    lefts = columns.expressions if isinstance(columns, exp.Tuple) else [columns]
    values = node.expression.unnest()
    if isinstance(values, exp.Tuple) or _is_row(values):
        return lefts, values.expressions
    if isinstance(values, exp.Query) and len(lefts) > 1:
        return lefts, None
    return lefts, [node.expression]


def _is_row(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == "row"
