"""Counts of requests under way."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

LASTING = frozenset({"/v1/subscribe"})
"""Routes whose answers last. They do not count: `max_subscriptions` limits them."""


class Occupancy:
    """The number of requests under way by name, and the limit for each name."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._inside: Counter[str] = Counter()

    def is_full(self, name: str = "") -> bool:
        return self._inside[name] >= self.limit

    @contextlib.contextmanager
    def entered(self, name: str = "") -> Iterator[None]:
        """Count a request for the time of the `with` statement."""
        self._inside[name] += 1
        try:
            yield
        finally:
            self._inside[name] -= 1
            if not self._inside[name]:
                del self._inside[name]
