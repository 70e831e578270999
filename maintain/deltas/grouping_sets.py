"""GROUPING SETS, ROLLUP and CUBE: the lists of grouping columns of which the result is a union."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from hornbeam_server.maintain.deltas.expressions import text

_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)
MAX_SETS = 64
"""Maximum number of sets: each is an aggregate of its own."""


def has_sets(group: exp.Expr | None) -> bool:
    return group is not None and any(isinstance(part, _SETS) for part in group.expressions)


def grouping_sets(group: exp.Expr) -> list[list[exp.Expr]]:
    """The grouping expressions of each set. Elements of GROUP BY multiply."""
    choices = [_sets(part) for part in group.expressions]
    return [list(itertools.chain.from_iterable(each)) for each in itertools.product(*choices)]


def _sets(part: exp.Expr) -> list[list[exp.Expr]]:
    units = [_columns(each) for each in part.expressions]
    match part:
        case exp.GroupingSets():
            return [found for each in part.expressions for found in _sets(each)]
        case exp.Rollup():
            ends = range(len(units), -1, -1)
            return [list(itertools.chain.from_iterable(units[:end])) for end in ends]
        case exp.Cube():
            return [list(itertools.chain.from_iterable(each)) for each in _subsets(units)]
    return [_columns(part)]


def _columns(part: exp.Expr) -> list[exp.Expr]:
    return list(part.expressions) if isinstance(part, exp.Tuple) else [part.unnest()]


def _subsets(units: Sequence[list[exp.Expr]]) -> Iterator[tuple[list[exp.Expr], ...]]:
    for size in range(len(units), -1, -1):
        yield from itertools.combinations(units, size)


def of_set(part: exp.Expr, missing: Mapping[str, exp.Expr]) -> exp.Expr | None:
    """What stands for a renamed expression in a set that lacks the keys `missing` (text → NULL of
    its type): NULL for such a key, and a number for GROUPING. None for other expressions."""
    if isinstance(part, exp.Anonymous) and part.name.lower() == "grouping":
        bits = [str(int(text(each.unnest()) in missing)) for each in part.expressions]
        return exp.Literal.number(int("".join(bits), 2))
    found = missing.get(text(part.unnest())) if missing else None
    return None if found is None else found.copy()
