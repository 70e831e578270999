"""Who is to own which slots, so that no member has much more to do than another. Pure.

What a slot weighs is given in whole numbers, each above 0; a member's load is the sum of those of
its slots. Everything is made of single moves (`_Shares.best_move`): a slot goes from one member to
another whose load stays below what the first one's was. So no move raises the highest load, each
lowers the sum of the loads' squares, and as long as the weights stay the same there is an end to
them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Sequence

NOBODY = ""
"""Owner of a slot that has none: at first, and while who owned it is dead and not recovered."""
PAYS = 10
"""Slots are moved for the sake of load if it relieves somebody by one part in so many of what is
each one's share: less is not worth the pause that a move is, and may be chance."""
MOST_AT_ONCE = 16
"""Slots that are moved for the sake of load in one step; then all is measured anew."""


def rebalanced(
    slots: Sequence[str], names: Sequence[str], weights: Sequence[int], *, by_load: bool
) -> tuple[str, ...]:
    """Owners for all `slots` from among `names`; `slots` itself when all is well.

    Slots whose owner is not among them are handed over; who owns nothing gets a share; else, if
    `weights` have been measured (`by_load`), a few slots go to whoever is less loaded.
    """
    newcomers = set(names).difference(slots)
    shares = _Shares(handed_over(slots, names, weights), names, weights)
    shares.level(newcomers)
    if by_load and shares.owners == list(slots):
        relieved = _Shares(slots, names, weights)
        relieved.level(names)
        most = max((shares.load[name] - relieved.load[name] for name in names), default=0)
        if most * PAYS * len(names) >= sum(weights):
            shares.level(names, MOST_AT_ONCE)
    return tuple(shares.owners)


def handed_over(
    slots: Sequence[str], names: Sequence[str], weights: Sequence[int]
) -> tuple[str, ...]:
    """Owners for those of `slots` that none of `names` owns, the heaviest first, each to who has
    least to do. Without names nobody owns any."""
    if not names:
        return (NOBODY,) * len(slots)
    shares = _Shares(slots, names, weights)
    given = [slot for slot, owner in enumerate(slots) if owner not in shares.load]
    for slot in sorted(given, key=lambda slot: -weights[slot]):
        shares.give(slot, shares.least(names))
    return tuple(shares.owners)


class _Shares:
    """Owners of slots, and what each of `names` has to do; changed move by move."""

    def __init__(self, slots: Sequence[str], names: Iterable[str], weights: Sequence[int]) -> None:
        self._weights = weights
        self.owners = list(slots)
        self.load = dict.fromkeys(names, 0)
        self._owned: dict[str, list[tuple[int, int]]] = {name: [] for name in self.load}
        """(weight, slot), in order."""
        for slot, owner in enumerate(slots):
            if owner in self.load:
                self.load[owner] += weights[slot]
                self._owned[owner].append((weights[slot], slot))
        for owned in self._owned.values():
            owned.sort()

    def level(self, to: Collection[str], most: int | None = None) -> None:
        """Make moves to members of `to`, until there is none left, or `most` are made."""
        moved = 0
        while to and moved != most:
            least = self.least(to)
            slot = self.best_move(least)
            if slot is None:
                return
            self.give(slot, least)
            moved += 1

    def best_move(self, to: str) -> int | None:
        """The slot that `to` should get, of whoever has most to do of those that have one for it:
        the heaviest that does not turn the two round, else the lightest. In any case it is lighter
        than their difference."""
        for name in sorted(self.load, key=lambda name: (-self.load[name], name)):
            gap, owned = self.load[name] - self.load[to], self._owned[name]
            heavier = bisect_left(owned, (gap // 2 + 1, 0))
            if heavier:
                return owned[heavier - 1][1]
            if owned and owned[0][0] < gap:
                return owned[0][1]
        return None

    def least(self, names: Iterable[str]) -> str:
        """Who has least to do."""
        return min(names, key=lambda name: (self.load[name], name))

    def give(self, slot: int, to: str) -> None:
        owner, weight = self.owners[slot], self._weights[slot]
        if owner in self.load:
            self.load[owner] -= weight
            self._owned[owner].remove((weight, slot))
        self.load[to] += weight
        insort(self._owned[to], (weight, slot))
        self.owners[slot] = to
