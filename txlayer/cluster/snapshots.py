"""The snapshots for reads. A snapshot holds all of each commit at or below it, and nothing else.

In a database of one slave, the newest snapshot is its watermark. Among members, it is the minimum
watermark of all members and of all dead members that are not recovered; the watermark of a dead
member stays where it is (decision 21, rule 9). For a member's own reads, which lay its logged rows
over the store, its own commits count once they are logged (`logged`, decision 84).

No commit in a snapshot may be made under a later catalog than the one under which it is read:
views and indexes that the later catalog dropped are not maintained any more. So a member counts
only watermarks that were reported under catalogs that it knows, and takes no newer snapshot while
the assignment names a later catalog than its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from hornbeam_server.schema.errors import InvalidRequest, Unavailable
from hornbeam_server.storage.ports import Clock
from hornbeam_server.txlayer.cluster.links import Links
from hornbeam_server.txlayer.cluster.membership_view import View
from hornbeam_server.txlayer.cluster.messages import Reach, Reached
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.commit.snapshots import OwnSnapshots

FRESH_S = 0.025
"""Maximum age of the other members' watermarks for a read without a bookmark, while they answer."""
HURRY_S = 0.25
"""Maximum wait of such a read for their answers."""
PATIENCE_S = 10.0
"""Maximum wait of a strong read, or of one with a bookmark, until all members answer and the logs
of dead members are recovered."""
RETRY_S = 0.05
_LOGGED = ""
"""The name of this member in a question for a snapshot whose own commits need only be logged."""


class MembersSnapshots:
    """The snapshots of a member. It asks the other members for their watermarks when the known ones
    are too old."""

    def __init__(
        self,
        own: OwnSnapshots,
        committer: Committer,
        view: View,
        links: Links,
        clock: Clock,
        catalog: Callable[[], int],
    ) -> None:
        """`catalog`: the version that this member uses."""
        self._own = own
        self._committer = committer
        self._view = view
        self._links = links
        self._clock = clock
        self._known: dict[str, int] = {}
        """The watermarks of the other members and of dead ones, by name; 0: unknown."""
        self._counts = False
        """Was this node a member in the last observed version? If so, nodes that join commit only
        after its acknowledgement."""
        self._asking: dict[str, tuple[int, asyncio.Future[Reached]]] = {}
        self._fresh_until = 0.0
        self._catalog = catalog
        self._newest = {False: 0, True: 0}

    def newest(self, *, logged: bool = False) -> int:
        if self._catalog() >= self._view.assignment.catalog:
            others, own = self._known.values(), self._own
            # Both: a question for one must not find the other one older.
            self._newest = {each: min([own.newest(logged=each), *others]) for each in self._newest}
        return self._newest[logged]

    def at_once(self, least: int = 0) -> int | None:
        return self._fresh(least, logged=False)

    def _fresh(self, least: int, *, logged: bool) -> int | None:
        newest = self.newest(logged=logged)
        fresh = self._clock.monotonic() < self._fresh_until
        return newest if fresh and newest >= max(least, self._committer.acknowledged) else None

    async def read_point(
        self, least: int = 0, *, strong: bool = False, logged: bool = False
    ) -> int:
        deadline = self._clock.monotonic() + PATIENCE_S
        if self._own.newest(logged=logged) < least:
            # Checked before `least` is sent to other members: it may lie in the future.
            await self.admit(least)
            await self._ask(self._here(logged), least)
        if strong:
            least = max(least, await self._acknowledged(deadline))
        else:
            await self._refresh(least, logged)
        return await self._reached(least, deadline, logged)

    async def admit(self, ts: int) -> None:
        try:
            await self._own.admit(ts)
        except InvalidRequest:
            # Another member's clock may be ahead. A member gives out only commits that it has
            # acknowledged, and snapshots, which are no newer than the watermark of any member.
            answers = await self._answers()
            if answers is None:
                raise Unavailable(
                    f"Timestamp {ts} lies in the future by this node's clock, and a node that may"
                    " have given it out does not answer.",
                    cure="Ask again in a moment.",
                ) from None
            for answer in answers:
                self._own.follow(max(answer.acknowledged, answer.watermark))
            await self._own.admit(ts)

    async def reach(self, least: int, *, logged: bool = False) -> Reached:
        """Return this member's answer to `Reach(least)`. Raises Unavailable."""
        watermark = await self._own.advanced(least, logged=logged)
        return Reached(self._view.name, watermark, self._committer.acknowledged, self._catalog())

    def see(self) -> None:
        """Apply the newest assignment: count the watermarks of its members and dead nodes.

        A node that joined after this member commits only after this member's acknowledgement, and
        above the clock in it, which is at or above all snapshots so far. That bounds its watermark.
        The watermark of a node that was there before this one was a member is unknown.
        """
        assignment = self._view.assignment
        names = {m.name for m in (*assignment.members, *assignment.dead)} - {self._view.name}
        unknown = max(assignment.clock, self.newest(logged=True)) if self._counts else 0
        self._known = {name: self._known.get(name, unknown) for name in names}
        self._counts = self._view.name in self._view.members

    # ------------------------------------------------------------ inside

    async def _acknowledged(self, deadline: float) -> int:
        """Return a timestamp at or above all commits that were acknowledged before the call. All
        members are asked for theirs; those of recovered members are at or below the assignment's
        clock. Raises Unavailable at the deadline."""
        while True:
            version, answers = self._view.version, await self._answers()
            if answers is not None:
                known = (answer.acknowledged for answer in answers)
                return max([self._view.assignment.clock, self._committer.acknowledged, *known])
            await self._next_version(version, deadline)

    async def _answers(self) -> list[Reached] | None:
        """The answers of all other members to a new question. None: a member does not answer, or a
        dead member is not recovered."""
        questions = [self._ask(name, 0, again=True) for name in self._view.others]
        results = await asyncio.gather(*questions, return_exceptions=True)
        answers = [one for one in results if isinstance(one, Reached)]
        whole = len(answers) == len(results) and not self._view.assignment.dead
        return answers if whole else None

    def _here(self, logged: bool) -> str:
        """The name of this member in a question for such a snapshot."""
        return _LOGGED if logged else self._view.name

    async def _reached(self, least: int, deadline: float, logged: bool) -> int:
        """Return a snapshot at or above `least`. Waits for the recovery of dead members, whose logs
        may hold commits below it. Raises Unavailable at the deadline."""
        while (at := self.newest(logged=logged)) < least:
            version = self._view.version
            await self._ask(self._here(logged), least)
            behind = [name for name in self._view.others if self._known[name] < least]
            await asyncio.gather(
                *(self._ask(name, least) for name in behind), return_exceptions=True
            )
            if self.newest(logged=logged) < least:
                await self._next_version(version, deadline)
        return at

    async def _next_version(self, version: int, deadline: float) -> None:
        """Wait at most `RETRY_S` for a version of the assignment after `version`: a member that did
        not answer may answer the next question. Raises Unavailable at the deadline."""
        if self._clock.monotonic() >= deadline:
            raise Unavailable(
                "A node does not answer, or has died and is being recovered.",
                cure="Ask again in a moment, or read without a bookmark.",
            )
        if self._view.version == version:
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S):
                    await self._view.change()

    async def _refresh(self, least: int, logged: bool) -> None:
        """Ask all members for their watermarks, unless the known ones are younger than `FRESH_S`
        and hold `least` and all commits that this node has acknowledged. When a member does not
        answer, its known watermark stays: reads get older, never wrong."""
        if self._fresh(least, logged=logged) is not None:
            return
        now = self._clock.monotonic()
        least = max(least, self._committer.acknowledged)
        names = (self._here(logged), *self._view.others)
        asked = [asyncio.ensure_future(self._ask(name, least)) for name in names]
        for question in asked:
            question.add_done_callback(_see)
        try:
            await asyncio.wait(asked, timeout=HURRY_S)
        finally:
            for question in asked:
                question.cancel()
        self._fresh_until = now + FRESH_S

    async def _ask(self, name: str, least: int, *, again: bool = False) -> Reached:
        """Return a member's answer, with a watermark at or above `least`. Shares a question that is
        under way, unless `again`. The question continues when no caller waits for it any more: a
        question to this node itself may be in an append to the log. Raises Unavailable."""
        under_way = self._asking.get(name)
        if again or under_way is None or under_way[0] < least or under_way[1].done():
            under_way = (least, asyncio.ensure_future(self._question(name, least)))
            under_way[1].add_done_callback(_see)
            self._asking[name] = under_way
        return await asyncio.shield(under_way[1])

    async def _question(self, name: str, least: int) -> Reached:
        """Ask a member."""
        if name in (self._view.name, _LOGGED):
            return await self.reach(least, logged=name == _LOGGED)
        answer = await self._links.ask(name, Reach(least))
        if not isinstance(answer, Reached) or answer.member != name:
            raise Unavailable(f"Node {name} does not say its watermark, but {answer!r}.")
        if name in self._known and answer.catalog <= self._catalog():
            self._known[name] = max(self._known[name], answer.watermark)
        self._own.follow(answer.acknowledged)
        return answer


def _see(question: asyncio.Future[Reached]) -> None:
    """Retrieve the error of a failed question: its caller may be gone."""
    if not question.cancelled():
        question.exception()
