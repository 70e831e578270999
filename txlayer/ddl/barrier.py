"""The barrier between two versions of the catalog: no transaction runs across it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.commit.read_holds import Readers
from hornbeam_server.txlayer.transactions.manager import TransactionManager


class Barrier(Protocol):
    """The means by which a change of the catalog reaches all transactions and queries."""

    def closed(self) -> AbstractAsyncContextManager[None]:
        """Keep all transactions out, at every node, while the context lasts. All earlier
        transactions are applied then."""

    def announce(self, version: int) -> None:
        """Report, inside `closed`, the version that is in force when the context ends."""

    async def past(self, version: int) -> None:
        """Return when no query, at any node, reads a version below `version`."""

    async def current_timestamp(self) -> int:
        """Return a current timestamp. All commits at or below it, of any node, are applied, and no
        later commit gets a timestamp at or below it."""


class OwnBarrier:
    """The barrier of a database that one process serves."""

    def __init__(self, manager: TransactionManager, readers: Readers, committer: Committer) -> None:
        self._manager = manager
        self._readers = readers
        self._committer = committer

    def closed(self) -> AbstractAsyncContextManager[None]:
        return self._manager.closed()

    def announce(self, version: int) -> None:
        """Do nothing: there is no other process."""

    async def past(self, version: int) -> None:
        await self._readers.wait_until_past(version)

    async def current_timestamp(self) -> int:
        at = await self._committer.reserve()
        await self._committer.drain()
        return at
