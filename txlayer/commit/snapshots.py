"""Snapshots of a node: the port, and its forms for a node that serves alone or has retired."""

from __future__ import annotations

from typing import Protocol

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.ports import Clock
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.commit.hlc import HybridClock


class Snapshots(Protocol):
    """The timestamps at which reads may be made."""

    def newest(self) -> int:
        """The newest snapshot that is known without a message to other members."""

    def at_once(self, least: int = 0) -> int | None:
        """The snapshot of `read_point` if it is known without waiting."""

    async def read_point(self, least: int = 0, *, strong: bool = False) -> int:
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
    """The snapshots of one slave. All its acknowledged and applied commits are at or below its
    watermark."""

    def __init__(self, committer: Committer, hlc: HybridClock) -> None:
        self._committer = committer
        self._hlc = hlc

    def newest(self) -> int:
        return self._committer.watermark()

    def at_once(self, least: int = 0) -> int | None:
        watermark = self._committer.watermark()
        return watermark if watermark >= least else None

    async def read_point(self, least: int = 0, *, strong: bool = False) -> int:
        committer = self._committer
        if least > committer.watermark():
            self._hlc.merge(least)
            # The commit at `least` may not be applied yet (HTTP 202).
            await committer.drain()
            if least > committer.watermark():
                # `least` is not from this process, which may answer only if it still owns the log.
                await committer.reserve()
        return committer.watermark()

    async def admit(self, ts: int) -> None:
        self._hlc.merge(ts)

    def follow(self, ts: int) -> None:
        """Make later commits later than `ts`, a timestamp of another node, however far it is ahead
        of this node's clock."""
        self._hlc.follow(ts)

    async def advanced(self, least: int) -> int:
        """Return the watermark, at or above `least`. While nothing is committed, the watermark
        cannot pass the timestamp that the log has reserved, so a later one is reserved."""
        idle = self._committer.idle
        return await self.read_point(max(least, self._hlc.observe()) if idle else least)


class LastSnapshots:
    """The single snapshot of a node that may not commit any more: the newest that it knew.

    The snapshot stays correct: all commits at or below it were applied before the node knew it, and
    no later owner commits there. Its rows are kept for the retention. The node gives the snapshot
    out for half of that time, so that queries under way have the other half.
    """

    def __init__(self, at: int, clock: Clock, retention_s: float) -> None:
        self._at = at
        self._clock = clock
        # The snapshot may be older than the loss of the other members: its own time counts then.
        self._began = clock.monotonic(), min(clock.wall_ms(), at)
        self._keep_s = retention_s / 2

    def newest(self) -> int:
        return self._at

    @property
    def behind_s(self) -> float:
        """The age of the snapshot in seconds, by the clock that advanced more: the monotonic clock
        stops while the machine sleeps, the wall clock can be set back."""
        monotonic, wall_ms = self._began
        return max(self._clock.monotonic() - monotonic, (self._clock.wall_ms() - wall_ms) / 1000)

    def at_once(self, least: int = 0) -> int | None:
        return None if least > self._at or self.behind_s > self._keep_s else self._at

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
