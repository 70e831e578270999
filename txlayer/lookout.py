"""When to ask the coordination service how things stand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from storage.ports import Clock, Coordination

LOOK_S = 1.0
"""How long news may be late, at most."""


class Lookout:
    """Asks when there is news, and else now and then.

    Every node looks for new versions of the assignment many times a second; a question and its
    answer each time would take a twentieth of a core of an idle node, and as much of the service.
    """

    def __init__(self, coordination: Coordination, clock: Clock) -> None:
        self._coordination = coordination
        self._clock = clock
        self._known: int | None = None
        self._again_at = 0.0

    async def look(self, ask: Callable[[], Awaitable[bool]]) -> None:
        """Call `ask` if there is reason to. When it raises, or says that there was nothing to be
        found, there is reason to next time."""
        news, now = self._coordination.news, self._clock.monotonic()
        if news == self._known and now < self._again_at:
            return
        self._known = None
        if await ask():
            self._known, self._again_at = news, now + LOOK_S
