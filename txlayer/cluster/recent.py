"""What the members have in memory, and tell one another: their newest commits, and the keys of the
rows that their last batches of views have put.

    later(after) ─▶ a commit above `after` is applied     recent(after, upto) ─▶ the commits between

**Commits.** A member answers with its own commits above a snapshot `after` and at or below a
snapshot `upto`, if all of them are in its ring and its watermark has reached `upto`. The answers of
all members are all commits of the database, if in the assignment that was in force at this node
before it asked no member is dead and the clock is at or below `after`:

- The clock is at or above every timestamp in a recovered log. So a node that was a member before
  has committed nothing above `after`.
- A node that is not a member yet commits only after this member has acknowledged it, and above the
  clock in the acknowledgement. This member's watermark has reached `upto` before it reads the
  assignment, so such commits are above `upto`.

Otherwise the sealed logs have the commits.

**Batches.** The node that does a group's batches is asked for their keys. The answer is a hint of
which rows to compare: without it both snapshots are compared whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter

from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.storage.ports import Clock, Put
from hornbeam_server.storage.together import first_of
from hornbeam_server.txlayer.cluster.links import Links
from hornbeam_server.txlayer.cluster.membership_view import View, slot_of
from hornbeam_server.txlayer.cluster.messages import (
    BatchesAfter,
    BatchesDone,
    Later,
    News,
    Recent,
    RecentCommits,
)
from hornbeam_server.txlayer.cluster.shared_questions import SharedQuestions
from hornbeam_server.txlayer.commit.change_ring import Applied
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.commit.newest_commits import LOOK_S, NewestCommits
from hornbeam_server.txlayer.commit.snapshots import OwnSnapshots
from hornbeam_server.txlayer.views.recent_batches import Batch, RecentBatches

WAIT_S = 1.0
"""Maximum time after which a member answers that it has no news."""
LEASE_S = 30.0
"""A member keeps its newest commits in memory for so long after another one has asked for them."""
ANSWER_BYTES = 8 << 20
"""Maximum bytes of commits in an answer."""
_FOLLOWER = "members"


class MembersCommits(NewestCommits):
    """The newest commits of all members, at one of them."""

    def __init__(
        self, committer: Committer, clock: Clock, own: OwnSnapshots, view: View, links: Links
    ) -> None:
        super().__init__(committer, clock)
        self._own = own
        self._view = view
        self._links = links
        self._lease: asyncio.TimerHandle | None = None
        self._questions = SharedQuestions(self._news_of)

    async def news(self, after: int) -> None:
        others = [self._questions.news(name, after) for name in self._view.others]
        await first_of(super().news(after), self._view.change(), *others)

    async def between(self, after: int, upto: int) -> Sequence[Applied] | None:
        if await self._reached(after, upto) is None:
            return None
        view, assignment = self._view, self._view.assignment
        if assignment.dead or after < assignment.clock or not view.may_commit:
            return None
        asked = [self._asked(name, after, upto) for name in view.others]
        found: list[Applied] = []
        for batches in (self.own_between(after, upto), *await asyncio.gather(*asked)):
            if batches is None:
                return None
            found += batches
        return sorted(found, key=attrgetter("ts"))

    async def later(self, request: Later) -> News:
        """The answer to another member: whether there is news, as soon as there is."""
        self._lend()
        ring = self.committer.ring
        assert ring is not None, "as it is lent"
        wait_s = min(request.timeout_s, WAIT_S)
        await first_of(ring.news(request.after), self.clock.sleep(wait_s))
        return News(self._view.name, not ring.is_current(request.after))

    async def recent(self, request: Recent) -> RecentCommits:
        """The answer to another member: the commits of this one. Raises Unavailable."""
        self._lend()
        found = await self._reached(request.after, request.upto)
        if found is None or sum(batch.bytes for batch in found) > ANSWER_BYTES:
            return RecentCommits(self._view.name, None)
        return RecentCommits(self._view.name, [*map(_sent, found)])

    def close(self) -> None:
        if self._lease is not None:
            self._lease.cancel()

    def _lend(self) -> None:
        """Keep the newest commits for the other members for `LEASE_S`."""
        self.close()
        self.committer.follow(_FOLLOWER)
        loop = asyncio.get_running_loop()
        self._lease = loop.call_later(LEASE_S, self.committer.unfollow, _FOLLOWER)

    async def _reached(self, after: int, upto: int) -> Sequence[Applied] | None:
        """The commits of this member, once all up to `upto` are applied. Its later commits, and the
        clocks in its acknowledgements, are above `upto`. Raises Unavailable."""
        if self.committer.ring is not None and self.committer.watermark() < upto:
            self._own.follow(upto)
            await self._own.advanced(upto)
        return self.own_between(after, upto)

    async def _asked(self, name: str, after: int, upto: int) -> Sequence[Applied] | None:
        """The commits of another member; None: it does not have them all, or does not answer."""
        try:
            answer = await self._links.ask(name, Recent(after, upto))
        except HornbeamError:
            return None
        if not isinstance(answer, RecentCommits) or answer.member != name or answer.batches is None:
            return None
        return [
            Applied(ts, [[commit] for commit in commits], cells, size)
            for ts, commits, cells, size in answer.batches
        ]

    async def _news_of(self, name: str, after: int) -> None:
        """Return once another member has news, or after a while if it does not answer."""
        while True:
            try:
                answer = await self._links.ask(name, Later(after, WAIT_S))
            except HornbeamError:
                answer = None
            if not isinstance(answer, News):
                await self.clock.sleep(LOOK_S)
                return
            if answer.is_later:
                return


def _sent(batch: Applied) -> tuple[int, list[bytes], dict[str, list[Put]], int]:
    """A batch as an answer has it."""
    commits = [b"".join(pieces) for pieces in batch.commits]
    return batch.ts, commits, {table: [*puts] for table, puts in batch.cells.items()}, batch.bytes


class MembersBatches:
    """The last batches of groups of views, those of the other members included."""

    def __init__(
        self, view: View, links: Links, clock: Clock, recent: Callable[[str], RecentBatches]
    ) -> None:
        """`recent` returns the batches of a group that are known here."""
        self._view = view
        self._links = links
        self._clock = clock
        self._recent = recent
        self._questions = SharedQuestions(partial(self.learn, timeout_s=LOOK_S))

    async def news(self, group: str, after: int) -> None:
        """Do as `learn`, for at most `LOOK_S`. All who wait for a group ask once."""
        await self._questions.news(group, after)

    async def learn(self, group: str, after: int, timeout_s: float) -> None:
        """Add to the known batches those above snapshot `after` of the member that does them, once
        one is finished. Returns after `timeout_s` without one."""
        owner = self._view.assignment.owner(slot_of(("group", group)))
        if owner is None or owner.name == self._view.name:
            await self._clock.sleep(timeout_s)
            return
        try:
            answer = await self._links.ask(owner.name, BatchesAfter(group, after, timeout_s))
        except HornbeamError:
            answer = None
        if not isinstance(answer, BatchesDone):
            await self._clock.sleep(timeout_s)
            return
        for batch in answer.batches:
            self._recent(group).add(*batch)

    async def answer(self, request: BatchesAfter) -> BatchesDone:
        """The answer to another member. The batches may have some that are not finished."""
        recent = self._recent(request.group)
        if recent.finished <= request.after and request.timeout_s > 0:
            wait_s = min(request.timeout_s, WAIT_S)
            await first_of(recent.news(), self._clock.sleep(wait_s))
        found: list[Batch] = recent.above(request.after)
        return BatchesDone([(b.after, b.upto, {t: [*k] for t, k in b.keys.items()}) for b in found])
