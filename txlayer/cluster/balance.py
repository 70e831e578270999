"""The division of slots among members, so that no member has much more load than another. Pure.

Weights of slots are whole numbers above 0; the load of a member is the sum of the weights of its
slots. Every change consists of single moves (`_Shares.best_move`): a slot goes from one member to
another whose load after the move is below the first one's load before it. So no move raises the
highest load, and each move lowers the sum of the squared loads: with fixed weights the moves end.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Sequence

NO_OWNER = ""
"""The owner of a slot without one: at first, and while its owner is dead and not recovered."""
PAYS = 10
"""Slots are moved to level loads if that relieves a member by at least 1/PAYS of the mean load. A
smaller gain is not worth the pause of a move, and may be random."""
MOST_AT_ONCE = 16
"""Maximum number of slots moved to level loads in one step; then rates are measured again."""


def rebalanced(
    slots: Sequence[str], names: Sequence[str], weights: Sequence[int], *, by_load: bool
) -> tuple[str, ...]:
    """Owners for all `slots` from among `names`; equal to `slots` when nothing is to be moved.

    Slots whose owner is not among `names` are handed over, and members without slots get a share.
    Else, if `weights` are measured (`by_load`), a few slots go to less loaded members.
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
    """Owners for all slots. Slots that none of `names` owns are given away, the heaviest first,
    each to the member with the lowest load. Without names all owners are `NO_OWNER`."""
    if not names:
        return (NO_OWNER,) * len(slots)
    shares = _Shares(slots, names, weights)
    given = [slot for slot, owner in enumerate(slots) if owner not in shares.load]
    for slot in sorted(given, key=lambda slot: -weights[slot]):
        shares.give(slot, shares.least(names))
    return tuple(shares.owners)


class _Shares:
    """The owners of slots and the load of each of `names`, changed move by move."""

    def __init__(self, slots: Sequence[str], names: Iterable[str], weights: Sequence[int]) -> None:
        self._weights = weights
        self.owners = list(slots)
        self.load = dict.fromkeys(names, 0)
        self._owned: dict[str, list[tuple[int, int]]] = {name: [] for name in self.load}
        """The (weight, slot) pairs of each member, in order."""
        for slot, owner in enumerate(slots):
            if owner in self.load:
                self.load[owner] += weights[slot]
                self._owned[owner].append((weights[slot], slot))
        for owned in self._owned.values():
            owned.sort()

    def level(self, to: Collection[str], most: int | None = None) -> None:
        """Make moves to members of `to`, until no move is left, or `most` moves are made."""
        moved = 0
        while to and moved != most:
            least = self.least(to)
            slot = self.best_move(least)
            if slot is None:
                return
            self.give(slot, least)
            moved += 1

    def best_move(self, to: str) -> int | None:
        """The slot that `to` should get, from the most loaded member that has a suitable one: its
        heaviest slot that leaves `to` with no more load than the giver, else its lightest slot. The
        slot is always lighter than the difference of their loads."""
        for name in sorted(self.load, key=lambda name: (-self.load[name], name)):
            gap, owned = self.load[name] - self.load[to], self._owned[name]
            heavier = bisect_left(owned, (gap // 2 + 1, 0))
            if heavier:
                return owned[heavier - 1][1]
            if owned and owned[0][0] < gap:
                return owned[0][1]
        return None

    def least(self, names: Iterable[str]) -> str:
        """The member of `names` with the lowest load."""
        return min(names, key=lambda name: (self.load[name], name))

    def give(self, slot: int, to: str) -> None:
        owner, weight = self.owners[slot], self._weights[slot]
        if owner in self.load:
            self.load[owner] -= weight
            self._owned[owner].remove((weight, slot))
        self.load[to] += weight
        insort(self._owned[to], (weight, slot))
        self.owners[slot] = to
