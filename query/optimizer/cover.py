"""Search for the best disjoint sets, which chooses the views that answer a block. Pure."""

from __future__ import annotations

from collections.abc import Sequence

MAX_CANDIDATES = 14
"""Maximum number of candidate view uses in one block for the exhaustive search."""

Weight = tuple[int, ...]
"""Greater is better. The first part counts most, is positive, and is at most the set's size."""


def best_disjoint(sets: Sequence[frozenset[str]], weights: Sequence[Weight]) -> tuple[int, ...]:
    """The indexes of the disjoint sets with the greatest sum of weights; ties prefer earlier sets.

    The search is exhaustive, except for branches whose remaining sets cannot add enough of the
    weights' first part.
    """
    nothing = tuple(0 for _ in weights[0]) if weights else ()
    best: tuple[Weight, tuple[int, ...]] = nothing, ()
    left = [sum(weight[0] for weight in weights[number:]) for number in range(len(sets) + 1)]

    def search(start: int, taken: tuple[int, ...], used: frozenset[str], total: Weight) -> None:
        nonlocal best
        if total > best[0]:
            best = total, taken
        for number in range(start, len(sets)):
            if total[0] + left[number] < best[0][0]:
                return
            if used.isdisjoint(sets[number]):
                more = tuple(a + b for a, b in zip(total, weights[number], strict=True))
                search(number + 1, (*taken, number), used | sets[number], more)

    search(0, (), frozenset(), nothing)
    return best[1]
