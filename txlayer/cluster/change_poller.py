"""Decides when a node queries the coordination service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hornbeam_server.storage.ports import Clock, Coordination

LOOK_S = 1.0
"""Maximum delay of news, in seconds."""


class Lookout:
    """Queries the service when there is news, else every `LOOK_S`.

    Every node looks for new versions of the assignment many times a second. A query each time would
    take a twentieth of a core of an idle node, and as much of the service.
    """

    def __init__(self, coordination: Coordination, clock: Clock) -> None:
        self._coordination = coordination
        self._clock = clock
        self._known: int | None = None
        self._again_at = 0.0

    async def look(self, ask: Callable[[], Awaitable[bool]]) -> None:
        """Call `ask` if there is news or `LOOK_S` has passed. When `ask` raises or returns False,
        the next look calls it again."""
        news, now = self._coordination.news, self._clock.monotonic()
        if news == self._known and now < self._again_at:
            return
        self._known = None
        if await ask():
            self._known, self._again_at = news, now + LOOK_S
