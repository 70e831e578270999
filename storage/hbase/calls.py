"""Calls to HBase's Thrift gateways, with deadlines and repetitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TypeVar

from hornbeam_server.schema.errors import Corruption, Unavailable
from hornbeam_server.storage.hbase import names
from hornbeam_server.storage.hbase.gateways import Address, CallFailed, Gateways
from hornbeam_server.storage.hbase.kinds import Kind
from hornbeam_server.storage.hbase.thrift2 import THRIFT_2
from hornbeam_server.storage.together import all_settled
from hornbeam_server.storage.tracing import Span, current, note, part, within

T = TypeVar("T")
Client = Any
"""A client of a gateway, as `Kind.client` makes it."""
THREADS = 32
"""Maximum number of concurrent calls in threads."""
TIMEOUT_S = 15.0
"""Deadline of a call with its repetitions, in seconds. An attempt of a repeatable call has the
share `ATTEMPT` of that: a gateway that waits for a region pauses ever longer, and a new request
finds the region sooner."""
ATTEMPT = 0.4
SEARCH_S = 900.0
"""Deadline of a call that searches a whole table: HBase reads some 500 000 rows a second."""
PAUSES_S = (0.05, 0.2, 0.8)
"""Pauses before a failed call is repeated, in seconds."""
SPAN = "gateway call"
"""The name of the span of a call, with its repetitions."""


class Calls:
    """Calls to the gateways of one namespace, from the event loop or from threads, repeated within
    their deadline."""

    def __init__(
        self,
        gateways: Sequence[tuple[str, int]],
        namespace: str,
        timeout_s: float,
        kind: Kind = THRIFT_2,
    ) -> None:
        self.kind = kind
        addresses = [Address(*address) for address in gateways]
        self._gateways = Gateways(addresses, kind)
        self._searching = Gateways(addresses, kind)
        """For calls that search a whole table; their deadline is SEARCH_S."""
        self.namespace = namespace
        self.timeout_s = timeout_s
        self.sound: set[str] = set()
        """Tables that were found to exist with the right settings."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="hbase")
        self._full_names: dict[str, bytes] = {}
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def refuse(self) -> None:
        """Refuse further calls, and abort searches. Calls that run go on."""
        self._closed = True
        self._searching.abort()

    async def close(self) -> None:
        """Wait for the calls that run, each until its deadline at most."""
        await asyncio.to_thread(self._threads.shutdown)
        self._gateways.close()

    def name(self, table: str) -> Any:
        return self.kind.name(self.namespace, table)

    def full_name(self, table: str) -> bytes:
        name = self._full_names.get(table)
        if name is None:
            name = self.namespace.encode() + b":" + names.encode(table)
            self._full_names[table] = name
        return name

    def require_sound(self, table: str, client: Client) -> None:
        """Raises Corruption unless the table exists with Hornbeam's settings."""
        if table in self.sound:
            return
        if not client.tableExists(self.name(table)):
            self._is_missing(table)
        wrong = self.kind.difference(client, self.name(table))
        if wrong:
            raise Corruption(
                f"Table {table} exists in HBase with other settings: {wrong}.",
                cure="Alter it, or give Hornbeam a namespace of its own.",
            )
        self.sound.add(table)

    def _is_missing(self, table: str) -> NoReturn:
        self.sound.discard(table)
        raise Corruption(
            f"Table {table} does not exist in HBase's namespace {self.namespace}.",
            cure="Look whether it was dropped or disabled in HBase. If its rows are lost, restore a"
            " backup.",
        )

    def require_open(self) -> None:
        if self._closed:
            raise Unavailable("The store is closed.")

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await self.begin(work)

    def begin(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work` in a thread. Cancelling the future only stops the wait."""
        self.require_open()
        asked, parent = time.monotonic(), current()
        span = None if parent is None else parent.child(SPAN, {})

        def in_time() -> T:
            if time.monotonic() - asked > self.timeout_s:
                raise Unavailable(
                    "HBase is too slow: all connections were busy for too long.",
                    cure="Try again later. If it lasts, look at the gateways and region servers.",
                )
            with within(span):
                return work()

        running = asyncio.get_running_loop().run_in_executor(self._threads, in_time)
        if span is not None:
            running.add_done_callback(partial(_end, span))
        return running

    async def all(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """All results in order. After a failure, too, all works have ended."""
        self.require_open()
        if len(works) == 1:
            return [await self.in_thread(works[0])]
        return await all_settled([self.in_thread(work) for work in works])

    async def call_at_once(self, table: str, function: str, call: bytes) -> Any:
        """The answer to a repeatable call. The event loop makes the call itself if the table is
        known to be sound and a connection is free. Otherwise, or if that fails, `call` makes it
        in a thread, in the time that is left."""
        began = time.monotonic()
        if table in self.sound:
            with suppress(CallFailed), part(SPAN, _attributes, table, function):
                return await self._gateways.call_at_once(
                    function, call, began + self.timeout_s * ATTEMPT
                )
        left_s = self.timeout_s - (time.monotonic() - began)

        def again(client: Client, _name: bytes) -> Any:
            return client.ask(function, call)

        return await self.in_thread(partial(self.call, table, again, timeout_s=left_s))

    def call(
        self,
        table: str,
        work: Callable[[Client, bytes], T],
        *,
        repeatable: bool = True,
        timeout_s: float | None = None,
        search: bool = False,
    ) -> T:
        """Do `work` on an existing table; repeat it if that may help. Runs in a thread. A `search`
        may take SEARCH_S; it ends when the store is closed."""
        name = self.full_name(table)
        note({"db.collection.name": table})

        def on_table(client: Client) -> T:
            self.require_sound(table, client)
            return work(client, name)

        attempt_s = self.timeout_s * (ATTEMPT if repeatable else 1)
        if search:
            timeout_s = attempt_s = SEARCH_S
        try:
            return self.repeat(
                f"Table {table}",
                on_table,
                self.timeout_s if timeout_s is None else timeout_s,
                attempt_s,
                repeatable=repeatable,
                gateways=self._searching if search else self._gateways,
            )
        except CallFailed as failed:
            if failed.refused:
                self._require_existence(table)
            raise

    def _require_existence(self, table: str) -> None:
        """Raises Corruption if the table does not exist. HBase's refusals do not say that for
        certain, so this method asks HBase."""
        name = self.name(table)
        if not self.repeat(
            f"Table {table}",
            lambda client: client.tableExists(name),
            self.timeout_s,
            self.timeout_s * ATTEMPT,
        ):
            self._is_missing(table)

    def repeat(
        self,
        what: str,
        work: Callable[[Client], T],
        timeout_s: float,
        attempt_s: float,
        *,
        repeatable: bool = True,
        gateways: Gateways | None = None,
    ) -> T:
        gateways = gateways or self._gateways
        deadline = time.monotonic() + timeout_s
        for pause in (*PAUSES_S, None):
            try:
                return gateways.call(work, min(deadline, time.monotonic() + attempt_s))
            except CallFailed as failed:
                in_time = pause is not None and time.monotonic() + pause < deadline
                if failed.lasting or (failed.sent and not repeatable) or not in_time:
                    failed.message = f"{what} is out of reach. {failed.message}"
                    failed.args = (failed.message,)
                    raise
            time.sleep(pause or 0)
        raise AssertionError("the last try returns or raises")


def _attributes(table: str, function: str) -> dict[str, str | int | float]:
    return {"db.collection.name": table, "rpc.method": function}


def _end(span: Span, running: asyncio.Future[Any]) -> None:
    span.end(asyncio.CancelledError() if running.cancelled() else running.exception())
