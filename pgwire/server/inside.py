"""Requests to the application in this process: those of REST, without HTTP.

So limits, grants, audit log and metrics are those of REST. The principal is in the scope of each
request (`SENDER`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.types import ASGIApp, Message, Scope

from hornbeam.aio.transport import AsyncTransport
from hornbeam.exchange import AsyncAnswer, Lost, Request
from hornbeam.transport import problem_of
from hornbeam_server.pgwire.ports import BACKEND, ROWS, SENDER, Handed, RowsAtOnce, WholeRows
from hornbeam_server.pgwire.server.channel import Channel, cancelled
from hornbeam_server.pgwire.session.failures import CANCELLED

T = TypeVar("T")
AT_ONCE = 16
"""Queries of a connection that are answered at once before other tasks have a turn."""
_ERROR = 400
_QUERY = "/v1/query"
_UNKNOWN = b'"outcome":"unknown"'


class Inside(AsyncTransport):
    """Requests of one connection. `principal` is that of its client, `client` its address, `pid`
    the number of its session."""

    def __init__(
        self, app: ASGIApp, at_once: RowsAtOnce, principal: Any, client: tuple[str, int], pid: int
    ) -> None:
        self._inside = _Carrier(app, principal, client, pid)
        super().__init__(self._inside, "this node")
        self._at_once = at_once
        self._principal = principal
        self._answered = 0
        """Queries that were answered at once."""
        self._waits: asyncio.Future[Any] | None = None

    async def whole(self, body: bytes) -> WholeRows | None:
        """The rows of a query that can be answered at once; None: `rows` answers it. After
        `AT_ONCE` of them, other tasks have a turn: a client may send many queries together."""
        found = self._at_once(self._principal, body)
        if found is not None:
            self._answered += 1
            if self._answered % AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    async def rows(self, body: bytes) -> Handed:
        """The rows of a query. Raises DatabaseError."""
        return await self._inside.rows(self._envelope.request("POST", _QUERY, body))

    async def unless_cancelled(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, which is no request. Raises OperationalError once `cancel` is called."""
        self._waits = task = asyncio.ensure_future(work)
        try:
            return await task
        except asyncio.CancelledError:
            if self._waits is not None:  # the connection ends, or a time limit has passed
                raise
            raise cancelled(CANCELLED) from None
        finally:
            self._waits = None

    def cancel(self) -> None:
        """End the requests under way. Their statements fail, unless they have succeeded."""
        self._inside.cancel()
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None


class _Exchange:
    """One request, and what the application answers."""

    def __init__(self, app: ASGIApp, scope: Scope, body: bytes) -> None:
        self._body: bytes | None = body
        self._gone = asyncio.Event()
        self.cancelled = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self.content = b""
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def end(self) -> None:
        """Cancel the application if it still runs, and wait for its end."""
        self.task.cancel()
        await asyncio.wait({self.task})

    def cancel(self) -> None:
        self.cancelled = True
        self.task.cancel()

    def answer(self) -> AsyncAnswer:
        """The answer, after the end of the application. Raises Lost, DatabaseError."""
        failed = not self.status or self.status >= _ERROR
        if self.cancelled and failed and _UNKNOWN not in self.content:
            raise cancelled(CANCELLED)
        if not self.status:
            if not self.task.cancelled() and (error := self.task.exception()) is not None:
                raise Lost(str(error)) from error
            raise Lost("The application ended without an answer.")
        return AsyncAnswer.whole(self.status, self.headers, self.content)

    async def _receive(self) -> Message:
        if self._body is None:
            await self._gone.wait()  # the client is gone when the task is cancelled
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {n.decode().lower(): v.decode("latin-1") for n, v in message["headers"]}
        else:
            self.content += message.get("body", b"")


class _Carrier:
    """Calls the application."""

    def __init__(self, app: ASGIApp, principal: Any, client: tuple[str, int], pid: int) -> None:
        self._app = app
        self._principal = principal
        self._client = client
        self._pid = pid
        self._under_way: set[_Exchange] = set()

    def cancel(self) -> None:
        for exchange in self._under_way:
            exchange.cancel()

    async def close(self) -> None:
        for exchange in list(self._under_way):
            await exchange.end()

    async def send(self, request: Request) -> AsyncAnswer:
        """The whole answer. Raises Lost, DatabaseError."""
        exchange = self._begun(request)
        try:
            await asyncio.wait({exchange.task})
        except BaseException:
            await exchange.end()
            raise
        return exchange.answer()

    async def rows(self, request: Request) -> Handed:
        """The rows of a query. Raises DatabaseError."""
        channel = Channel()
        exchange = self._begun(request, channel)
        try:
            both: set[asyncio.Future[Any]] = {exchange.task, channel.head}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await exchange.end()
            raise
        if not channel.head.done():
            answer = exchange.answer()
            raise problem_of(answer.status, await answer.read())
        exchange.task.add_done_callback(_losing(channel, exchange))
        columns, tail = channel.head.result()
        return Handed(tuple(columns), channel.batches(), tail, exchange.end)

    def _begun(self, request: Request, channel: Channel | None = None) -> _Exchange:
        exchange = _Exchange(self._app, self._scope(request, channel), request.body)
        self._under_way.add(exchange)
        exchange.task.add_done_callback(lambda _: self._under_way.discard(exchange))
        return exchange

    def _scope(self, request: Request, channel: Channel | None) -> Scope:
        path, _, query = request.path.partition("?")
        length = str(len(request.body))
        headers = {**request.headers, "Host": "localhost", "Content-Length": length}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "headers": [(n.lower().encode(), v.encode()) for n, v in headers.items()],
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "server": ("localhost", None),
            "client": self._client,
            "root_path": "",
            SENDER: self._principal,
            BACKEND: self._pid,
        }
        if channel is not None:
            scope[ROWS] = channel
        return scope


def _losing(channel: Channel, exchange: _Exchange) -> Callable[[asyncio.Future[None]], None]:
    def lose(task: asyncio.Future[None]) -> None:
        if not task.cancelled():
            task.exception()  # retrieved; the application has logged it
        if exchange.cancelled:
            channel.end(cancelled(CANCELLED).problem)
        channel.lose()

    return lose
