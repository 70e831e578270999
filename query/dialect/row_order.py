"""The order of rows: the first values that differ decide, and NULL is a value of its own."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp


def decided(pairs: Sequence[tuple[exp.Expr, exp.Expr]], tests: Sequence[exp.Expr]) -> exp.Expr:
    """`tests`, one for each pair of values, as one condition: that of the first pair whose values
    differ holds, or that of the last pair."""
    *firsts, found = tests
    for (a, b), test in reversed(list(zip(pairs, firsts, strict=False))):
        same = exp.NullSafeEQ(this=a.copy(), expression=b.copy())
        rest = exp.Paren(this=exp.And(this=same, expression=exp.Paren(this=found)))
        found = exp.Or(this=exp.Paren(this=test), expression=rest)
    return found


def precedes(
    a: exp.Expr, b: exp.Expr, *, descending: bool = False, nulls_first: bool = False
) -> exp.Expr:
    """Is value `a` before value `b` in this order?"""
    null, other = (a, b) if nulls_first else (b, a)
    kind = exp.GT if descending else exp.LT
    either = exp.Or(this=_is_null(null), expression=kind(this=a.copy(), expression=b.copy()))
    return exp.And(this=exp.Not(this=_is_null(other)), expression=exp.Paren(this=either))


def _is_null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.Paren(this=node.copy()), expression=exp.Null())
