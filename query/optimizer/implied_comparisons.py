"""Comparisons of one column with constants that follow from another one: `x > 5` implies `x > 3`.

PostgreSQL proves the conditions of partial indexes by the same rules (predtest.c).
"""

from __future__ import annotations

import datetime as dt
import operator
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from hornbeam_server.query.binding.algebra import Comparison, Filter

_ORDERED: tuple[tuple[type, ...], ...] = (
    (int, Decimal, float),
    (str,),
    (bytes,),
    (dt.datetime,),
    (dt.date,),
    (dt.time,),
    (uuid.UUID,),
)
"""The types whose values Python orders as SQL does."""
_HOLDS: Mapping[Comparison, Callable[[Any, Any], bool]] = {
    Comparison.EQ: operator.eq,
    Comparison.LT: operator.lt,
    Comparison.LE: operator.le,
    Comparison.GT: operator.gt,
    Comparison.GE: operator.ge,
}
_BELOW, _ABOVE = {Comparison.LT, Comparison.LE}, {Comparison.GT, Comparison.GE}


def filter_implies(given: Filter, wanted: Filter) -> bool:
    """Does `wanted` hold for each row for which `given` holds?"""
    if given.column != wanted.column:
        return False
    if (given.comparison, given.values) == (wanted.comparison, wanted.values):
        return True
    if not given.values or not wanted.values:
        return False
    if given.comparison in {Comparison.EQ, Comparison.IN}:
        return all(_satisfies(value, wanted) for value in given.values)
    (bound,) = given.values
    for side in (_BELOW, _ABOVE):
        if {given.comparison, wanted.comparison} <= side:
            # x < 5 excludes 5 itself, so it implies x < 5; x <= 5 does not.
            strict = given.comparison in {Comparison.LT, Comparison.GT}
            limit = wanted.comparison
            if strict:
                limit = Comparison.LE if side is _BELOW else Comparison.GE
            return _compare(limit, bound, wanted.values[0])
    return False


def _satisfies(value: Any, wanted: Filter) -> bool:
    if wanted.comparison is Comparison.IN:
        return any(_compare(Comparison.EQ, value, each) for each in wanted.values)
    return _compare(wanted.comparison, value, wanted.values[0])


def _compare(comparison: Comparison, one: Any, another: Any) -> bool:
    """Whether the comparison of two constants is known to hold. Parameters are no constants."""
    comparable = any(_kind(one, types) and _kind(another, types) for types in _ORDERED)
    return comparable and comparison in _HOLDS and _HOLDS[comparison](one, another)


def _kind(value: Any, types: tuple[type, ...]) -> bool:
    return type(value) in types
