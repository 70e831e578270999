"""Rows whose columns say which sessions to end: `pg_cancel_backend` and `pg_terminate_backend`
(`query/parsing/system_signals.py`). A session is ended when its row is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hornbeam_server.pgwire.ports import NamedType
from hornbeam_server.pgwire.session.rows import Row, RowSource

_SIGNALS = {f"pg_catalog.{name}" for name in ("pg_cancel_backend", "pg_terminate_backend")}


class Signals(Protocol):
    """Ends sessions for a client."""

    async def signal(self, function: str, arguments: str) -> bool:
        """What a call of `pg_cancel_backend` or `pg_terminate_backend` gives. The `arguments` have
        a blank between them. Raises Failure and OperationalError."""


def signals_in(columns: Sequence[NamedType]) -> Mapping[int, str]:
    """The places of the columns that say which sessions to end, and their functions."""
    return {
        place: column.type.rpartition(".")[2]
        for place, column in enumerate(columns)
        if column.type in _SIGNALS
    }


class Signalling:
    """A `RowSource` that ends sessions. The columns at `places` say which, by their functions."""

    def __init__(self, rows: RowSource, places: Mapping[int, str], signals: Signals) -> None:
        self._rows = rows
        self._places = places
        self._signals = signals

    async def take(self, limit: int) -> Sequence[Row]:
        return [await self._signalled(row) for row in await self._rows.take(limit)]

    async def close(self) -> None:
        await self._rows.close()

    async def _signalled(self, row: Row) -> Row:
        values = list(row)
        for place, function in self._places.items():
            if values[place] is not None:
                values[place] = await self._signals.signal(function, values[place])
        return values
