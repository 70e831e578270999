"""Optimistic transactions, as the client library runs them: look, decide, commit if it still holds.

What a transaction looks at is one snapshot, and it notes the version of every row that was read.
Its commit is refused when one of them has changed (ReadConflict).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from cluster import NoAnswer
from simulation import PAUSE_S, Client

from api.database import Database
from schema.errors import HornbeamError
from storage.snapshot import ReadItem
from txlayer.model import Statement, TransactionResult


class Interactive:
    """One transaction of `client`."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.snapshot: int | None = None
        self._reads: dict[tuple[str, bytes], ReadItem] = {}

    async def look(self, sql: str, parameters: Sequence[Any] = (), **options: Any) -> list | None:
        """The rows of a query at the transaction's snapshot; None when there was no answer."""

        async def work(database: Database) -> tuple[int, list[tuple], list[ReadItem]]:
            async with database.query(
                sql,
                parameters,
                bookmark=self.client.bookmark,
                snapshot=self.snapshot,
                trace=True,
                **options,
            ) as result:
                rows = list(await result.stream.all())
                return result.snapshot, rows, result.reads

        try:
            self.snapshot, rows, reads = await self.client._cluster.ask(work)
        except (NoAnswer, HornbeamError) as error:
            self.client.journal.counts[f"look: {type(error).__name__}"] += 1
            await asyncio.sleep(PAUSE_S)
            return None
        for item in reads:
            self._reads.setdefault((item.layout, item.key), item)
        return rows

    async def commit(self, *statements: Statement) -> TransactionResult | None:
        """As `Client.transact`, if what was looked at has not changed."""
        return await self.client.transact(*statements, reads=tuple(self._reads.values()))
