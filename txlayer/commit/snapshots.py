"""Snapshots of a node: the port, and its forms for a node that serves alone or has retired."""

from __future__ import annotations

from typing import Protocol

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.ports import Clock
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.commit.hlc import HybridClock


class Snapshots(Protocol):
    """The timestamps at which reads may be made.

    A snapshot that is asked for with `logged` may hold commits of this node that the store has not
    got yet: only `Committer.reader` has all of its rows. The store has all rows of the others.
    """

    def newest(self, *, logged: bool = False) -> int:
        """The newest snapshot that is known without a message to other members."""

    def at_once(self, least: int = 0) -> int | None:
        """The snapshot of `read_point` if it is known without waiting."""

    async def read_point(
        self, least: int = 0, *, strong: bool = False, logged: bool = False
    ) -> int:
        """Return a snapshot at or above `least` with all commits that this node has acknowledged;
        `strong`: with all that any node has acknowledged before the call.

        Raises InvalidRequest for a `least` in the future, Unavailable when the snapshot cannot be
        reached in time.
        """

    async def admit(self, ts: int) -> None:
        """Make later commits of this node later than `ts`, which a client got from the database.

        Raises InvalidRequest when `ts` lies in the future, so that no node can have given it out,
        and Unavailable when that is not known.
        """


class OwnSnapshots:
    """The snapshots of one slave. All its applied commits are at or below its watermark, and all
    that it has answered while they are readable are at or below `Committer.readable`."""

    def __init__(self, committer: Committer, hlc: HybridClock) -> None:
        self._committer = committer
        self._hlc = hlc

    def newest(self, *, logged: bool = False) -> int:
        return self._committer.readable() if logged else self._committer.watermark()

    def at_once(self, least: int = 0) -> int | None:
        watermark = self._committer.watermark()
        return watermark if watermark >= least else None

    async def read_point(
        self, least: int = 0, *, strong: bool = False, logged: bool = False
    ) -> int:
        committer = self._committer
        if least > self.newest(logged=logged):
            self._hlc.merge(least)
            if logged:
                await committer.until_readable(least)
            else:
                await committer.drain()
            if least > self.newest(logged=logged):
                # `least` is not from this process, which may answer only if it still owns the log.
                await committer.reserve()
        return self.newest(logged=logged)

    async def admit(self, ts: int) -> None:
        self._hlc.merge(ts)

    def follow(self, ts: int) -> None:
        """Make later commits later than `ts`, a timestamp of another node, however far it is ahead
        of this node's clock."""
        self._hlc.follow(ts)

    async def advanced(self, least: int, *, logged: bool = False) -> int:
        """Return the watermark, at or above `least`. While nothing is committed, the watermark
        cannot pass the timestamp that the log has reserved, so a later one is reserved."""
        if self._committer.idle:
            least = max(least, self._hlc.observe())
        return await self.read_point(least, logged=logged)


class LastSnapshots:
    """The single snapshot of a node that may not commit any more: the newest that it knew.

    The snapshot stays correct: all commits at or below it were applied before the node knew it, and
    no later owner commits there. Its rows are kept for the retention. The node gives the snapshot
    out for half of that time, so that queries under way have the other half.
    """

    def __init__(self, at: int, logged: int, clock: Clock, retention_s: float) -> None:
        """`at`: the newest snapshot whose rows the store has; `logged`: that of
        `Committer.reader`, which keeps the rows that were not applied."""
        self._at = {False: at, True: logged}
        self._clock = clock
        # The snapshot may be older than the loss of the other members: its own time counts then.
        self._began = clock.monotonic(), min(clock.wall_ms(), at)
        self._keep_s = retention_s / 2

    def newest(self, *, logged: bool = False) -> int:
        return self._at[logged]

    @property
    def behind_s(self) -> float:
        """The age of the snapshot in seconds, by the clock that advanced more: the monotonic clock
        stops while the machine sleeps, the wall clock can be set back."""
        monotonic, wall_ms = self._began
        return max(self._clock.monotonic() - monotonic, (self._clock.wall_ms() - wall_ms) / 1000)

    def at_once(self, least: int = 0) -> int | None:
        at = self.newest()
        return None if least > at or self.behind_s > self._keep_s else at

    async def read_point(
        self, least: int = 0, *, strong: bool = False, logged: bool = False
    ) -> int:
        at = self.newest(logged=logged)
        if strong or least > at or self.behind_s > self._keep_s:
            raise Unavailable(
                f"This node has lost the others {self.behind_s:.0f} s ago, and answers only what"
                f" asks for nothing newer than snapshot {at}.",
                cure="Send it to another node, or again in a moment.",
                standby=True,
            )
        return at

    async def admit(self, ts: int) -> None:
        await self.read_point(ts, logged=True)
