"""The hybrid logical clock: timestamps in milliseconds that follow wall time and never go back.

Kulkarni et al., "Logical Physical Clocks", with one counter instead of two: when the wall clock
stands still or jumps back, the logical part continues from the last value.
"""

from __future__ import annotations

from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.storage.ports import Clock

RESERVED_MS = 3_000
"""Timestamps are reserved this far ahead of wall time (txlayer/commit/committer.py)."""
MAX_AHEAD_MS = RESERVED_MS + 500
"""Maximum distance of an external timestamp ahead of this node's wall clock: one machine with a
wrong clock must not drag the database into the future. The successor of a dead owner begins above
the owner's reserved timestamps, so a distance of `RESERVED_MS` is legitimate."""


class HybridClock:
    """Issues timestamps. `last` is the highest one issued, merged or published so far."""

    def __init__(self, clock: Clock, last: int = 0) -> None:
        self._clock = clock
        self.last = last

    def tick(self) -> int:
        """A timestamp later than every earlier one."""
        self.last = max(self._clock.wall_ms(), self.last + 1)
        return self.last

    def merge(self, ts: int) -> None:
        """Make all later timestamps later than `ts`.

        Raises InvalidRequest if `ts` is more than `MAX_AHEAD_MS` ahead of wall time.
        """
        if ts <= self.last:
            return
        ahead_ms = ts - self._clock.wall_ms()
        if ahead_ms > MAX_AHEAD_MS:
            raise InvalidRequest(
                f"Timestamp {ts} lies {ahead_ms} ms in the future.",
                cure="Pass a bookmark that this database gave out; check the machines' clocks.",
                ahead_ms=ahead_ms,
            )
        self.last = ts

    def follow(self, ts: int) -> None:
        """`merge` a timestamp of another node of this database, however far it is ahead."""
        self.last = max(self.last, ts)

    def ahead(self, ms: int) -> int:
        """A timestamp to reserve: `ms` ahead of wall time, or `last` if that is higher. Unless the
        clock is already ahead of wall time, it does not pass the timestamp within `ms`."""
        return max(self.last, self._clock.wall_ms() + ms)

    def observe(self) -> int:
        """The current time, for publishing as a watermark: all later ticks are above it."""
        self.last = max(self._clock.wall_ms(), self.last)
        return self.last
