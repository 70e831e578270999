"""The newest commits of the database, from memory: for the views that nodes keep, and for those who
subscribe to changes."""

from __future__ import annotations

from collections.abc import Sequence

from hornbeam_server.storage.ports import Clock
from hornbeam_server.txlayer.commit.change_ring import Applied
from hornbeam_server.txlayer.commit.committer import Committer

LOOK_S = 1.0
"""Without knowledge of news, there may be some after this time."""


class NewestCommits:
    """The newest commits of a node that serves alone."""

    def __init__(self, committer: Committer, clock: Clock) -> None:
        self.committer = committer
        self.clock = clock

    async def news(self, after: int) -> None:
        """Return once a commit above `after` may be applied, or it is not known whether one is."""
        ring = self.committer.ring
        await (self.clock.sleep(LOOK_S) if ring is None else ring.news(after))

    async def between(self, after: int, upto: int) -> Sequence[Applied] | None:
        """The batches above snapshot `after` and at or below snapshot `upto`, in the order of their
        timestamps; None: they are not all in memory."""
        return self.own_between(after, upto)

    def own_between(self, after: int, upto: int) -> Sequence[Applied] | None:
        """The batches of this node alone. Above its watermark, a later owner of its log may have
        more than it knows."""
        ring = self.committer.ring
        if ring is None or not ring.has(after) or upto > self.committer.watermark():
            return None
        return ring.between(after, upto)
