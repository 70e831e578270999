"""Where reads happen: snapshots that hold all of each commit at or below them, and nothing else.

On one slave that is its watermark. Among members it is the least watermark of all of them, and of
the dead whose logs are not recovered: a dead member's stands still (decision 21, rule 9).

No commit in a snapshot may have been made under a later catalog than the one that it is read under:
what the later one dropped is not kept any more. So a member counts watermarks that were told under
catalogs that it knows, and moves on to no snapshot while the assignment names a later one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from hornbeam_server.schema.errors import InvalidRequest, Unavailable
from hornbeam_server.storage.ports import Clock
from hornbeam_server.txlayer.committer import Committer
from hornbeam_server.txlayer.hlc import HybridClock
from hornbeam_server.txlayer.links import Links
from hornbeam_server.txlayer.messages import Reach, Reached
from hornbeam_server.txlayer.view import View

FRESH_S = 0.025
"""What a read that asks for nothing knows of other members is so old at most."""
HURRY_S = 0.25
"""Such a read waits so long for them."""
PATIENCE_S = 10.0
"""A read that asks for more waits so long until all answer, or a log is recovered that may have
it."""
RETRY_S = 0.05


class Snapshots(Protocol):
    """Timestamps to read at."""

    def newest(self) -> int:
        """The newest snapshot that is known without asking anybody."""

    async def read_point(self, least: int = 0, *, strong: bool = False) -> int:
        """A snapshot that holds everything up to `least`, and all that this node has acknowledged;
        `strong`: all that any node has acknowledged before the call.

        Raises InvalidRequest for a `least` in the future, Unavailable when it cannot be reached.
        """

    async def admit(self, ts: int) -> None:
        """Let this node commit nothing at or below `ts`, which a client got from the database.

        Raises InvalidRequest when it lies in the future, so that no node can have given it out,
        Unavailable when that is not known.
        """


class OwnSnapshots:
    """Of one slave: every commit acknowledged so far is at or below its watermark."""

    def __init__(self, committer: Committer, hlc: HybridClock) -> None:
        self._committer = committer
        self._hlc = hlc

    def newest(self) -> int:
        return self._committer.watermark()

    async def read_point(self, least: int = 0, *, strong: bool = False) -> int:
        committer = self._committer
        if least > committer.watermark():
            self._hlc.merge(least)
            # Committed, and not applied yet (an answer 202).
            await committer.drain()
            if least > committer.watermark():
                # Not from this process. It may answer only if it still owns the log.
                await committer.reserve()
        return committer.watermark()

    async def admit(self, ts: int) -> None:
        self._hlc.merge(ts)

    def follow(self, ts: int) -> None:
        """What another node of this database says lies in no future."""
        self._hlc.follow(ts)

    async def advanced(self, least: int) -> int:
        """The watermark, at least `least`. While nothing is committed it would stand at what the
        log has reserved: then more is reserved."""
        idle = self._committer.idle
        return await self.read_point(max(least, self._hlc.observe()) if idle else least)


class MembersSnapshots:
    """Of a member, which asks the others for their watermarks when what it knows is too old."""

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
        """Watermarks of the others, and of the dead; 0 where nothing is known."""
        self._counts = False
        """Was this node a member in the version before? Then who is new waits for its word."""
        self._asking: dict[str, tuple[int, asyncio.Future[Reached]]] = {}
        self._fresh_until = 0.0
        self._catalog = catalog
        self._newest = 0

    def newest(self) -> int:
        if self._catalog() >= self._view.assignment.catalog:
            self._newest = min([self._committer.watermark(), *self._known.values()])
        return self._newest

    async def read_point(self, least: int = 0, *, strong: bool = False) -> int:
        deadline = self._clock.monotonic() + PATIENCE_S
        if self._committer.watermark() < least:
            # Before anybody else is told of it: it may lie in the future.
            await self.admit(least)
            await self._ask(self._view.name, least)
        if strong:
            least = max(least, await self._acknowledged(deadline))
        else:
            await self._refresh(least)
        return await self._reached(least, deadline)

    async def admit(self, ts: int) -> None:
        try:
            await self._own.admit(ts)
        except InvalidRequest:
            # Or another member's clock is ahead. It gave out no more than commits that it has
            # acknowledged, and snapshots, which are no newer than the watermark of any member.
            answers = await self._told()
            if answers is None:
                raise Unavailable(
                    f"Timestamp {ts} lies in the future by this node's clock, and a node that may"
                    " have given it out does not answer.",
                    cure="Ask again in a moment.",
                ) from None
            for answer in answers:
                self._own.follow(max(answer.acknowledged, answer.watermark))
            await self._own.admit(ts)

    async def reach(self, least: int) -> Reached:
        """What members are told of this one's watermark. Raises Unavailable."""
        watermark = await self._own.advanced(least)
        return Reached(self._view.name, watermark, self._committer.acknowledged, self._catalog())

    def see(self) -> None:
        """Count who is new: it commits nothing before this member has acknowledged it, and then
        above the clock that is said with that, which is no less than any snapshot so far. Of who
        was there before this one was a member nothing is known."""
        assignment = self._view.assignment
        names = {m.name for m in (*assignment.members, *assignment.dead)} - {self._view.name}
        unknown = max(assignment.clock, self.newest()) if self._counts else 0
        self._known = {name: self._known.get(name, unknown) for name in names}
        self._counts = self._view.name in self._view.members

    # ------------------------------------------------------------ inside

    async def _acknowledged(self, deadline: float) -> int:
        """Nothing above this was told to anybody before the call: by members, all of which are
        asked, or by the dead, whose logs are recovered and in the assignment's clock."""
        while True:
            version, answers = self._view.version, await self._told()
            if answers is not None:
                told = (answer.acknowledged for answer in answers)
                return max([self._view.assignment.clock, self._committer.acknowledged, *told])
            await self._next_version(version, deadline)

    async def _told(self) -> list[Reached] | None:
        """What all other members say when asked now; None while one does not answer, or one that
        died is not recovered."""
        questions = [self._ask(name, 0, anew=True) for name in self._view.others]
        told = await asyncio.gather(*questions, return_exceptions=True)
        answers = [one for one in told if isinstance(one, Reached)]
        whole = len(answers) == len(told) and not self._view.assignment.dead
        return answers if whole else None

    async def _reached(self, least: int, deadline: float) -> int:
        """Waits for recovery, when what is asked for may be in the log of a member that died."""
        while (at := self.newest()) < least:
            version = self._view.version
            await self._ask(self._view.name, least)
            behind = [name for name in self._view.others if self._known[name] < least]
            await asyncio.gather(
                *(self._ask(name, least) for name in behind), return_exceptions=True
            )
            if self.newest() < least:
                await self._next_version(version, deadline)
        return at

    async def _next_version(self, version: int, deadline: float) -> None:
        """Wait for a version of the assignment after `version`, but not for long: who did not
        answer may do so the next time. Raises Unavailable at the deadline."""
        if self._clock.monotonic() >= deadline:
            raise Unavailable(
                "A node does not answer, or has died and is being recovered.",
                cure="Ask again in a moment, or read without a bookmark.",
            )
        if self._view.version == version:
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S):
                    await self._view.change()

    async def _refresh(self, least: int) -> None:
        """Know all that is older than `FRESH_S` of all members, and what this node has
        acknowledged. Whoever does not answer is left at what is known: reads get older, never
        wrong."""
        now = self._clock.monotonic()
        least = max(least, self._committer.acknowledged)
        if now < self._fresh_until and self.newest() >= least:
            return
        names = (self._view.name, *self._view.others)
        asked = [asyncio.ensure_future(self._ask(name, least)) for name in names]
        for question in asked:
            question.add_done_callback(_see)
        try:
            await asyncio.wait(asked, timeout=HURRY_S)
        finally:
            for question in asked:
                question.cancel()
        self._fresh_until = now + FRESH_S

    async def _ask(self, name: str, least: int, *, anew: bool = False) -> Reached:
        """The watermark of a member, at least `least`; shares a question that is under way, unless
        asked `anew`. A question goes on when who asked it does not wait any more: one's own may be
        in the middle of an append to the log. Raises Unavailable."""
        under_way = self._asking.get(name)
        if anew or under_way is None or under_way[0] < least or under_way[1].done():
            under_way = (least, asyncio.ensure_future(self._question(name, least)))
            under_way[1].add_done_callback(_see)
            self._asking[name] = under_way
        return await asyncio.shield(under_way[1])

    async def _question(self, name: str, least: int) -> Reached:
        if name == self._view.name:
            return await self.reach(least)
        answer = await self._links.ask(name, Reach(least))
        if not isinstance(answer, Reached) or answer.member != name:
            raise Unavailable(f"Node {name} does not say its watermark, but {answer!r}.")
        if name in self._known and answer.catalog <= self._catalog():
            self._known[name] = max(self._known[name], answer.watermark)
        self._own.follow(answer.acknowledged)
        return answer


class LastSnapshots:
    """Of a node that may not commit any more: one snapshot, the newest that it knew.

    It stays right: what is at or below it was applied before it was known, and nobody commits there
    afterwards, whoever has taken over. How long it stays there the retention says; the half that
    is left is for queries that run.
    """

    def __init__(self, at: int, clock: Clock, retention_s: float) -> None:
        self._at = at
        self._clock = clock
        # It may be older than the loss of the others: some may not have answered before.
        self._began = clock.monotonic(), min(clock.wall_ms(), at)
        self._keep_s = retention_s / 2

    def newest(self) -> int:
        return self._at

    @property
    def behind_s(self) -> float:
        """The snapshot is so old. By the clock that went further: one stands still while the
        machine sleeps, the other can be set back."""
        monotonic, wall_ms = self._began
        return max(self._clock.monotonic() - monotonic, (self._clock.wall_ms() - wall_ms) / 1000)

    async def read_point(self, least: int = 0, *, strong: bool = False) -> int:
        if strong or least > self._at or self.behind_s > self._keep_s:
            raise Unavailable(
                f"This node has lost the others {self.behind_s:.0f} s ago, and answers only what"
                f" asks for nothing newer than snapshot {self._at}.",
                cure="Send it to another node, or again in a moment.",
                standby=True,
            )
        return self._at

    async def admit(self, ts: int) -> None:
        await self.read_point(ts)


def _see(question: asyncio.Future[Reached]) -> None:
    """Whoever asked may have gone before it failed."""
    if not question.cancelled():
        question.exception()
