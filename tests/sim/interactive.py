"""Optimistic transactions, as the client library runs them: read, decide, commit if it still holds.

All reads of a transaction are of one snapshot, and it records the version of every row read, or the
ranges of keys if it is serializable. Writes can be tried, to get their results. The commit is
refused (ReadConflict) when a row that was read has changed, when rows in a range have changed, or
when a write that was tried would have another result. Writes may also be left pending:
later reads include them, and the commit executes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam_server.node.database import Database
from hornbeam_server.storage.read_ranges import ReadRange
from hornbeam_server.storage.snapshot import ReadItem
from hornbeam_server.txlayer.statements.requests import (
    Replay,
    Statement,
    StatementResult,
    TransactionRequest,
    TransactionResult,
)
from tests.sim.simulation import Client


class Interactive:
    """One transaction of `client`; a `stranger` begins without the client's bookmark."""

    def __init__(
        self, client: Client, *, stranger: bool = False, serializable: bool = False
    ) -> None:
        self.client = client
        self._serializable = serializable
        self._ranges: dict[ReadRange, None] = {}
        self._bookmark = 0 if stranger else client.bookmark
        self.snapshot: int | None = None
        self._reads: dict[tuple[str, bytes], ReadItem] = {}
        self._pending: tuple[Statement, ...] = ()
        self._replay: Replay | None = None

    async def look(self, sql: str, parameters: Sequence[Any] = (), **options: Any) -> list | None:
        """The rows of a query at the transaction's snapshot; None when there was no answer."""

        async def work(database: Database) -> tuple[int, list[tuple], list, list]:
            async with database.query(
                sql,
                parameters,
                bookmark=self._bookmark,
                snapshot=self.snapshot,
                pending=self._pending,
                replay=self._replay if self._pending else None,
                trace=True,
                serializable=self._serializable,
                **options,
            ) as result:
                rows = list(await result.stream.all())
                return result.snapshot, rows, result.reads or [], result.ranges or []

        answer = await self.client.ask_persistently("look", work)
        if answer is None:
            return None
        self.snapshot, rows, reads, ranges = answer
        assert self.snapshot >= self._bookmark, f"{self.snapshot} is before {self._bookmark}"
        for item in reads:
            self._reads.setdefault((item.layout, item.key), item)
        self._ranges.update(dict.fromkeys(ranges))
        return rows

    async def attempt(self, *statements: Statement) -> list[StatementResult] | None:
        """The results that writes would have, without executing them; None when they would fail, or
        had no answer.

        `commit` must get the same writes, and may get more after them.
        """
        request = TransactionRequest(
            statements, dry_run=True, bookmark=self._bookmark, replay=self._replay
        )
        answer = await self.client.ask_persistently(
            "try", lambda database: database.transact(request)
        )
        if answer is None:
            return None
        self._replay = answer.replay
        return list(answer.statements)

    async def write(self, *statements: Statement) -> list[StatementResult] | None:
        """`attempt` the writes, and leave them pending."""
        tried = await self.attempt(*self._pending, *statements)
        if tried is None:
            return None
        self._pending += statements
        return tried[-len(statements) :]

    async def commit(self, *statements: Statement) -> TransactionResult | None:
        """Commit like `Client.transact`, pending writes first, provided that reads and trials still
        hold."""
        return await self.client.transact(
            *self._pending,
            *statements,
            reads=tuple(self._reads.values()),
            ranges=tuple(self._ranges),
            serializable=self._serializable,
            replay=self._replay,
        )


def next_key(client: Client) -> str:
    """The idempotency key of the next transaction of `client`."""
    return f"{client.name}/{client._requests + 1}"
