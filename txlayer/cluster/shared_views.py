"""Members compute views of a batch for the member that does it.

    compute(views, commits) ─▶ rows        the member that asks puts them

The rows follow from the database at the snapshots of the batch and from the commits between them.
So it does not matter which member computes them, when, or how often, and an answer that comes late
is lost without harm. The member that does the batch computes by itself what no other one answers.

A view is computed by the owner of its slot. The changed rows that a member applies to a view count
as work in that slot, so the leader moves views away from members with much to do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from hornbeam_server.schema.errors import HornbeamError, Unavailable
from hornbeam_server.storage.ports import Put
from hornbeam_server.txlayer.cluster.links import Links
from hornbeam_server.txlayer.cluster.membership_view import View, slot_of
from hornbeam_server.txlayer.cluster.messages import Compute, Refused, RowsComputed
from hornbeam_server.txlayer.cluster.slot_rates import SlotRates

ROWS_BYTES = 8 << 20
"""Maximum bytes of commits in a question, and of rows in an answer."""


class SharedViews:
    """What one member computes for others, and asks them to compute."""

    def __init__(self, view: View, links: Links, rates: SlotRates) -> None:
        self._view = view
        self._links = links
        self._rates = rates
        self.compute: Callable[[Compute], Awaitable[Mapping[str, Sequence[Put]]]] = _not_open
        """Computes rows at this member. It raises HornbeamError."""

    def by_member(self, views: Iterable[str]) -> dict[str, list[str]]:
        """`views`, each under the name of the other member that owns its slot. Those of this member
        are left out, and those whose slot no member owns."""
        found: dict[str, list[str]] = {}
        others = frozenset(self._view.others)
        for name in views:
            owner = self._view.owner(slot_of(_slot_name(name)))
            if owner in others:
                found.setdefault(owner, []).append(name)
        return found

    def count(self, view: str, rows: int) -> None:
        """Count changed rows that this member has applied to a view."""
        self._rates.count(_slot_name(view), rows)

    async def ask(self, member: str, request: Compute) -> Mapping[str, Sequence[Put]] | None:
        """The rows that another member has computed; None: it does not answer, or refuses."""
        try:
            answer = await self._links.ask(member, request)
        except HornbeamError:
            return None
        return answer.puts if isinstance(answer, RowsComputed) else None

    async def answer(self, request: Compute) -> RowsComputed | Refused:
        """The answer to another member."""
        try:
            found = await self.compute(request)
        except HornbeamError as error:
            return Refused(error.message, "not computed")
        if size_of(found) > ROWS_BYTES:
            return Refused("The rows are too large for a message.", "not computed")
        return RowsComputed({table: [*puts] for table, puts in found.items()})


def size_of(rows: Mapping[str, Sequence[Put]]) -> int:
    """Bytes of keys and values."""
    return sum(len(key) + len(value) for puts in rows.values() for key, value in puts)


def _slot_name(view: str) -> tuple[str, str]:
    return ("view", view)


async def _not_open(request: Compute) -> Mapping[str, Sequence[Put]]:
    raise Unavailable("The node is not open yet.")
