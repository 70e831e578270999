"""The rows of a result, which a portal takes in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Row = Sequence[Any]


class RowSource(Protocol):
    """The rows of one result, to be taken once."""

    async def take(self, limit: int) -> Sequence[Row]:
        """The next rows, at most `limit`, 0: as many as come together. None are left if it returns
        none. Raises the errors of the statement."""

    async def close(self) -> None:
        """Leave the rest. Idempotent."""


class Listed:
    """Rows in memory."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._next = 0

    async def take(self, limit: int) -> Sequence[Row]:
        end = self._next + limit if limit else len(self._rows)
        taken = self._rows[self._next : end]
        self._next += len(taken)
        return taken

    async def close(self) -> None:
        self._rows = ()
