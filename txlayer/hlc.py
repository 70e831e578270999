"""The hybrid logical clock: timestamps in milliseconds that follow wall time and never go back.

Kulkarni et al., "Logical Physical Clocks", with one counter instead of two: when the wall clock
stands still or jumps back, the logical part simply runs on from the last value.
"""

from __future__ import annotations

from schema.errors import InvalidRequest
from storage.ports import Clock

RESERVED_MS = 3_000
"""Timestamps are reserved so far ahead of wall time (txlayer/committer.py)."""
MAX_AHEAD_MS = RESERVED_MS + 500
"""A timestamp from outside may be this far ahead of our wall clock, not more: one machine with
a wrong clock must not drag the database into the future. Who comes after an owner that died begins
above what that one had reserved, so that much is nobody's fault."""


class HybridClock:
    """Issues timestamps. `last` is the highest one issued, merged or published so far."""

    def __init__(self, clock: Clock, last: int = 0) -> None:
        self._clock = clock
        self.last = last

    def tick(self) -> int:
        """A timestamp later than every one before."""
        self.last = max(self._clock.wall_ms(), self.last + 1)
        return self.last

    def merge(self, ts: int) -> None:
        """See to it that later timestamps are later than `ts`.

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
        """`merge` what another node of this database says, however far it is ahead."""
        self.last = max(self.last, ts)

    def ahead(self, ms: int) -> int:
        """A timestamp to reserve: not passed before wall time has gone on by `ms`, and not
        before the clock has caught up with what was reserved already."""
        return max(self.last, self._clock.wall_ms() + ms)

    def observe(self) -> int:
        """Now, for publishing as a watermark: no later tick falls on it or below."""
        self.last = max(self._clock.wall_ms(), self.last)
        return self.last
