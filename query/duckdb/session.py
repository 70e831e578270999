"""One query's DuckDB session: registered relations, temporary tables, results in batches.

DuckDB runs in worker processes (`query.workers`); the event loop only awaits. A session takes a
worker on first use and holds a place only while the worker runs, so a client that reads its result
slowly does not block other statements.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Self, TypeVar

import pyarrow as pa

from hornbeam_server.query.dialect.duckdb_types import from_record_batch, with_known_types
from hornbeam_server.query.duckdb.scalar import evaluating
from hornbeam_server.query.workers.messages import (
    Append,
    Next,
    Query,
    Register,
    Reply,
    Request,
    Rows,
)
from hornbeam_server.query.workers.places import Place, Preempted
from hornbeam_server.query.workers.pool import Workers
from hornbeam_server.query.workers.processes import Worker
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.types import ColumnType, Row

T = TypeVar("T")
STEP_ROWS = 2_048
"""Maximum rows of a batch: converting them to Python values blocks the event loop."""


class DuckSession:
    """A DuckDB session. Closing it drops its registered relations and temporary tables."""

    def __init__(
        self,
        workers: Workers,
        *,
        within: DuckSession | None = None,
        restartable: bool = True,
        live: Mapping[str, pa.Table] = MappingProxyType({}),
    ) -> None:
        """`within`: the session of the enclosing statement, if this session answers a part of it. A
        session that is not `restartable` is never stopped in favour of others and never raises
        Preempted. `live` has the live system relations by name; those of `within` are known,
        too."""
        self.workers = workers
        self._live: Mapping[str, pa.Table] = live if within is None else within._live
        self.types: Sequence[ColumnType] = ()
        self.names: Sequence[str] = ()
        """Names of the result's columns, known from the first batch on."""
        self._within = within
        self._registered: list[Request] = []
        self._worker: Worker | None = None
        self._beyond = False
        self._long = within is not None and within.known_long
        self._restartable = restartable

    def register(self, name: str, table: pa.Table) -> None:
        """Make `table` visible as relation `name`."""
        self._registered.append(Register(name, table))

    def register_live(self, name: str) -> None:
        """Make a live system relation visible. Raises Unsupported where it has no rows."""
        if name not in self._live:
            raise Unsupported(
                "This statement reads the sessions, privileges or sizes of the server, which only"
                " queries do.",
                cure="Read them in a query, and write the values.",
            )
        self.register(name, self._live[name])

    async def append(self, name: str, table: pa.Table, *, first: bool) -> None:
        """Add rows to the temporary table `name`. The first call creates the table, or replaces it
        because a query may restart."""
        await self._ask(Append(name, table, first))

    async def query(
        self, sql: str, parameters: Mapping[str, Any]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The result in batches; `types` and `names` are known from the first one on."""
        rows = await self._ask(Query(sql, parameters))
        assert isinstance(rows, Rows)
        self.names, self.types = rows.names, rows.types
        while rows.batch is not None:
            self._restartable = False
            for start in range(0, rows.batch.num_rows, STEP_ROWS):
                yield rows.batch.slice(start, STEP_ROWS)
            if rows.last:
                return
            rows = await self._ask(Next())
            assert isinstance(rows, Rows)

    async def run(self, sql: str) -> None:
        """Run statements that have no result."""
        await self._ask(Query(sql, {}))

    async def evaluate(self, work: Callable[[], T]) -> T:
        """The result of `work`, which evaluates expressions (`query.duckdb.scalar`) in a thread.
        `work` is called again if it was stopped in favour of other statements."""
        while True:
            try:
                return await self._evaluate(work)
            except Preempted:
                self.begin_again()

    def begin_again(self) -> None:
        """Reset the session after Preempted; the statement restarts as a long one."""
        self.close()
        self._long = True

    def rows(self, batch: pa.RecordBatch, known: Sequence[ColumnType | None]) -> list[Row]:
        """The rows of a batch. `known` are the types of the columns that binding knows."""
        return from_record_batch(batch, with_known_types(self.types, known))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop all relations and give the worker back. Idempotent."""
        self._registered.clear()
        worker, self._worker = self._worker, None
        if worker is not None:
            self.workers.give_back(worker, beyond=self._beyond)

    async def _ask(self, request: Request) -> Reply:
        """The worker's reply. Raises HornbeamError, and Preempted before the first row."""
        async with self.workers.place(long=self._long) as place:
            worker = await self._taken(place)
            requests, self._registered = [*self._registered, request], []
            with _preempted(place):
                return await worker.ask(requests)

    async def _evaluate(self, work: Callable[[], T]) -> T:
        async with self.workers.place(long=self._long) as place:
            worker = await self._taken(place)
            future = self.workers.threads.submit(evaluating, worker, work)
            with _preempted(place):
                try:
                    return await asyncio.wrap_future(future)
                except asyncio.CancelledError:
                    worker.kill()  # the thread gets an error at once
                    await asyncio.gather(asyncio.wrap_future(future), return_exceptions=True)
                    raise

    async def _taken(self, place: Place) -> Worker:
        if self._worker is None:
            self._beyond = self._within is not None and self._within.holds_worker
            self._worker = await self.workers.take(beyond=self._beyond)
        if self._restartable:
            place.stop = self._worker.kill
        return self._worker

    @property
    def known_long(self) -> bool:
        return self._long

    @property
    def holds_worker(self) -> bool:
        """Whether this session or an enclosing one (`within`) holds a worker."""
        within = self._within
        return self._worker is not None or (within is not None and within.holds_worker)


@contextmanager
def _preempted(place: Place) -> Iterator[None]:
    """Raise Preempted instead of any error or result if the worker was stopped for others."""
    try:
        yield
    except Exception:
        if place.preempted:
            raise Preempted from None
        raise
    if place.preempted:
        raise Preempted
