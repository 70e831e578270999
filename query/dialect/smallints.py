"""SMALLINT in expressions: an INTEGER whose arithmetic is refused beyond 16 bits.

DuckDB has the value of a cast to SMALLINT as an INTEGER, as it has the columns: otherwise it would
take the 1 of `small + 1` for a SMALLINT, too. Binding marks arithmetic over SMALLINT alone (`SMALL`
in its meta) where the syntax shows the types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.sums import operands_that_meet
from hornbeam_server.schema.trees import supersede

IsSmall = Callable[[exp.Column], bool]
"""Is a column a SMALLINT?"""
SMALL = "smallint"
"""Key in the meta of a node: is its value refused beyond 16 bits?"""
_SMALLINT = exp.DType.SMALLINT
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_SHIFTS = (exp.BitwiseLeftShift, exp.BitwiseRightShift)
_SAME = (exp.Paren, exp.Neg, exp.Abs, exp.Min, exp.Max, exp.Window, exp.Filter, exp.Nullif)
"""Nodes whose type is that of their argument."""


def mark_smallint(node: exp.Expr, is_small: IsSmall) -> None:
    """Note whether a sum, product or the like is a SMALLINT."""
    if isinstance(node, (*_ARITHMETIC, *_SHIFTS, exp.Neg, exp.Abs)) and is_smallint(node, is_small):
        node.meta[SMALL] = True


def write_smallint(node: exp.Expr) -> None:
    """Write the casts around a marked node for DuckDB. The node itself is still to be written."""
    if SMALL not in node.meta:
        return
    if isinstance(node, _SHIFTS):  # its places wrap around
        supersede(node.this, exp.cast(node.this, _SMALLINT))
    place = exp.Null()
    node.replace(place)
    small = exp.cast(node, _SMALLINT, copy=False)  # DuckDB reports a number that is none
    supersede(place, exp.cast(small, exp.DType.INT, copy=False))


def is_smallint(node: exp.Expr, is_small: IsSmall) -> bool:
    """Does the syntax show that a value is a SMALLINT? The operand on the right is first, so that a
    long sum is not gone through for each of its parts."""
    inner = node.unnest()
    if isinstance(inner, _ARITHMETIC):
        return all(is_smallint(side, is_small) for side in (inner.expression, inner.this))
    if isinstance(inner, (*_SAME, *_SHIFTS)):
        return is_smallint(inner.this, is_small)
    if isinstance(inner, exp.Cast):
        return inner.is_type(_SMALLINT)
    if isinstance(inner, exp.Column):
        return is_small(inner)
    return are_smallint(operands_that_meet(inner), is_small)


def are_smallint(nodes: Sequence[exp.Expr], is_small: IsSmall) -> bool:
    """Are all values, except NULL, SMALLINT?"""
    given = [node for node in nodes if not isinstance(node, exp.Null)]
    return bool(given) and all(is_smallint(node, is_small) for node in given)
