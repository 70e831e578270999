"""Seed 002's protocol as a system. It has Hornbeam's store, log, codecs, views and query engine,
but the paper's locks and marks.

It runs in this process, in an event loop in its own thread, without a network between client and
transaction manager. So the protocol alone is measured.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import uvloop

from bench.peers.paper_protocol import Slave
from bench.peers.port import Cannot, Design, Row, Task, Write
from bench.peers.results import PAPER
from hornbeam.embedded import LoopThread
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.storage.ports import Log, TableStore

BATCH = 500
"""Rows per write while loading."""

T = TypeVar("T")


class Paper:
    """The relations, indexes and views of a design in an empty store. The system calls `open_store`
    and `open_log` in its event loop, and closes their results."""

    def __init__(
        self,
        open_store: Callable[[], TableStore],
        open_log: Callable[[], Awaitable[Log]],
        design: Design,
    ) -> None:
        self.name = PAPER
        self.versions = {"hornbeam": importlib.metadata.version("hornbeam-server")}
        self._catalog = design.views
        self._engine = QueryEngine()
        self._loop = LoopThread("paper", uvloop.new_event_loop())
        self._store: TableStore | None = None
        self._log: Log | None = None
        try:
            self._slave = self._loop.run(self._opened(open_store, open_log))
        except BaseException:
            self.close()
            raise

    async def _opened(
        self, open_store: Callable[[], TableStore], open_log: Callable[[], Awaitable[Log]]
    ) -> Slave:
        self._store = open_store()
        self._log = await open_log()
        slave = Slave(self._store, self._log, self._catalog, self._engine)
        await slave.create()
        return slave

    def load(self, relation: str, rows: Iterable[Row]) -> None:
        """Insert rows, and their index rows and view rows."""
        types = [column.type for column in self._catalog.schema.relation(relation).columns]
        typed = (tuple(t.coerce(v) for t, v in zip(types, row, strict=True)) for row in rows)
        while batch := list(islice(typed, BATCH)):
            self._run(self._slave.load(relation, batch))

    def loaded(self) -> None:
        assert self._store is not None
        self._run(self._store.flush())

    def session(self) -> _Session:
        return _Session(self._slave, self._run)

    def lock_cycle(self, relation: str, keys: Sequence[tuple[Any, ...]]) -> None:
        """Only take the locks of rows of a root relation, and release them. Raises Cannot."""
        self._run(self._slave.lock_cycle(relation, keys))

    def sizes(self) -> Mapping[str, int]:
        """The bytes of keys and values of all versions, by table."""
        return self._run(self._sizes())

    async def _sizes(self) -> dict[str, int]:
        assert self._store is not None
        return {name: await self._store.size(table) for name, table in self._slave.tables.items()}

    def close(self) -> None:
        try:
            self._loop.run(self._closed())
        finally:
            self._loop.close()
            self._engine.close()

    async def _closed(self) -> None:
        if self._log is not None:
            await self._log.close()
        if self._store is not None:
            await self._store.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run(work)
        except HornbeamError as error:
            raise Cannot(str(error)) from error


class _Session:
    def __init__(self, slave: Slave, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._slave = slave
        self._run = run

    def run(self, task: Task, values: Sequence[Any]) -> list[Row]:
        if task.reads:
            rows: list[Row] = self._run(self._slave.read(task.sql, values))
            return rows
        self._run(self._slave.write(task.sql, values))
        return []

    def transact(self, writes: Sequence[Write]) -> None:
        if len(writes) != 1:
            raise Cannot("A transaction is one statement.")
        self.run(*writes[0])

    def close(self) -> None:
        """Do nothing: a session holds no resources."""
