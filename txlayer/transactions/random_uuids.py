"""Random UUIDs of DEFAULT gen_random_uuid()."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable


class RandomUuids:
    """The random UUIDs of one transaction. They follow from `seed`, so that a commit gives the
    UUIDs of its dry run. Without a seed, the first one draws it from `fresh`."""

    def __init__(self, fresh: Callable[[], str], seed: str = "") -> None:
        self._fresh = fresh
        self._given = 0
        self.seed = seed

    def next(self) -> uuid.UUID:
        """A UUID of version 4 that no other call returns."""
        if not self.seed:
            self.seed = self._fresh()
        digest = hashlib.sha256(f"{self.seed}/{self._given}".encode()).digest()
        self._given += 1
        return uuid.UUID(bytes=digest[:16], version=4)
