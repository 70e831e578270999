"""A database in this process: calls the server's application without a socket.

The application runs in an event loop in its own thread. All connections to a folder share one
application, since a folder can be opened only once. The server's packages are loaded by name, so
the client does not depend on them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from hornbeam.errors import InterfaceError, from_problem
from hornbeam.exchange import Answer, AsyncAnswer, Lost, Request
from hornbeam.server_package import server_module
from hornbeam.transport import Transport

T = TypeVar("T")
Headers = list[tuple[bytes, bytes]]
_CHUNKS_AHEAD = 4
_SHORT_BYTES = 1 << 20


class EmbeddedTransport(Transport):
    """Sends requests to the database in `folder`. The first transport to a folder opens it, the
    last closes it. Raises InterfaceError and DatabaseError when the folder cannot be opened."""

    def __init__(self, folder: str) -> None:
        self._embedded: _Embedded | None = _borrow(folder)
        super().__init__(_InProcess(self._embedded), folder)

    def close(self) -> None:
        super().close()
        if self._embedded is not None:
            embedded, self._embedded = self._embedded, None
            _give_back(embedded)


class LoopThread:
    """An event loop in a thread named `name`, for synchronous callers."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the loop, and return its result. Interrupting the caller cancels `work`."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def post(self, call: Callable[[], object]) -> None:
        """Call `call` in the loop soon, without waiting for it. A closed loop calls nothing."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    async def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the loop, from another loop. Cancelling the caller cancels `work`."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        """Cancel the running tasks, wait for their end, and stop the loop."""
        self.run(_ended(self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _ended(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
    await loop.shutdown_asyncgens()


class _Embedded:
    """An open database with its loop and application, and the number of transports that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.users = 0
        self.loop = LoopThread("hornbeam-embedded", asyncio.new_event_loop())
        try:
            self.database, self.app = self.loop.run(_open(folder))
        except BaseException:
            self.loop.close()
            raise

    def close(self) -> None:
        try:
            self.loop.run(self.database.close())
        finally:
            self.loop.close()


_open_folders: dict[Path, _Embedded] = {}
_registry_lock = threading.Lock()


def _borrow(path: str) -> _Embedded:
    folder = Path(path).resolve()
    with _registry_lock:
        embedded = _open_folders.get(folder) or _Embedded(folder)
        _open_folders[folder] = embedded
        embedded.users += 1
        return embedded


def _give_back(embedded: _Embedded) -> None:
    with _registry_lock:
        embedded.users -= 1
        if not embedded.users:
            del _open_folders[embedded.folder]
            embedded.close()


async def _open(folder: Path) -> tuple[Any, Any]:
    database, settings, app, errors = map(
        server_module, ("node.database", "node.settings", "api.rest.app", "schema.errors")
    )
    try:
        # A process that can open the folder can read all data, so a key would protect nothing.
        chosen = settings.load_settings(data=folder, authentication="none")
        opened = await database.Database.open(chosen)
    except errors.HornbeamError as error:
        problem = {"detail": error.message, "code": error.code, "cure": error.cure}
        raise from_problem(problem) from None
    except ValueError as error:
        raise InterfaceError(f"The settings are wrong: {error}") from None
    return opened, app.create_app(chosen, opened)


class _InProcess:
    """A carrier to an ASGI application in another thread's loop."""

    def __init__(self, embedded: _Embedded) -> None:
        self._app = embedded.app
        self._loop = embedded.loop

    def send(self, request: Request) -> Answer:
        exchange = _Exchange(self._app, request)
        try:
            status, headers, content = self._loop.run(exchange.answer())
        except BaseException:
            self._loop.post(exchange.cancel)
            raise
        if content is not None:
            return Answer(status, headers, (content,))
        body = _Body(exchange, self._loop)
        return Answer(status, headers, body, body.close)

    def close(self) -> None:
        pass


class AsyncInProcess:
    """The twin of `_InProcess` for callers in another event loop, which also closes the folder."""

    def __init__(self, embedded: _Embedded) -> None:
        self._embedded: _Embedded | None = embedded
        self._app = embedded.app
        self._loop = embedded.loop

    @classmethod
    async def open(cls, folder: str) -> AsyncInProcess:
        """Open `folder` in a thread. Raises InterfaceError and DatabaseError."""
        opening = asyncio.ensure_future(asyncio.to_thread(_borrow, folder))
        try:
            return cls(await asyncio.shield(opening))
        except asyncio.CancelledError:  # the thread cannot be stopped, and opens the folder
            opening.add_done_callback(_give_back_opened)
            raise

    async def send(self, request: Request) -> AsyncAnswer:
        exchange = _Exchange(self._app, request)
        try:
            status, headers, content = await self._loop.awaited(exchange.answer())
        except BaseException:
            self._loop.post(exchange.cancel)
            raise
        if content is not None:
            return AsyncAnswer.whole(status, headers, content)
        body = _AsyncBody(exchange, self._loop)
        return AsyncAnswer(status, headers, body, body.close)

    async def close(self) -> None:
        if self._embedded is not None:
            embedded, self._embedded = self._embedded, None
            await asyncio.to_thread(_give_back, embedded)


def _give_back_opened(opening: asyncio.Future[_Embedded]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        threading.Thread(target=_give_back, args=(opening.result(),)).start()


class _Exchange:
    """One request and its answer in ASGI messages. The application waits for a slow reader."""

    def __init__(self, app: Any, request: Request) -> None:
        self._app = app
        self._request = request
        self._body: bytes | None = request.body
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue(_CHUNKS_AHEAD)
        self._ended = asyncio.Event()
        self._task: asyncio.Future[Any] | None = None

    async def answer(self) -> tuple[int, dict[str, str], bytes | None]:
        """Start the application. Returns the answer's status, its headers with names in lower case,
        and its body if that is short, since each piece of a body changes the thread."""
        status, headers = await self._begin()
        named = {name.decode().lower(): value.decode("latin-1") for name, value in headers}
        length = named.get("content-length")
        is_short = length is not None and int(length) <= _SHORT_BYTES
        return status, named, await self._rest() if is_short else None

    async def _begin(self) -> tuple[int, Headers]:
        self._start: asyncio.Future[tuple[int, Headers]]
        self._start = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._app(self._scope(), self._receive, self._send))
        return await self._unless_ended(self._start)

    async def next(self) -> bytes | None:
        """The next piece of the body; None at its end."""
        if not self._chunks.empty():
            return self._chunks.get_nowait()
        getting = asyncio.ensure_future(self._chunks.get())
        try:
            return await self._unless_ended(getting)
        finally:
            getting.cancel()

    async def _rest(self) -> bytes:
        pieces = []
        try:
            while (piece := await self.next()) is not None:
                pieces.append(piece)
        finally:
            await self.end()
        return b"".join(pieces)

    def cancel(self) -> None:
        """Cancel the application if it still runs. A caller that is interrupted does so even after
        the answer has begun, since it may not have got it."""
        self._ended.set()
        if self._task is not None:
            self._task.cancel()

    async def end(self) -> None:
        """Cancel the application if it still runs, and wait for its end."""
        self.cancel()
        assert self._task is not None
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.exception()  # only retrieved; the application has answered and logged it

    async def _unless_ended(self, waited: asyncio.Future[T]) -> T:
        """The result of `waited`, which only the application can set. Raises Lost when the
        application ends first."""
        assert self._task is not None
        await asyncio.wait({waited, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not waited.done():
            await asyncio.sleep(0)  # the application's last step may have set the result
        if waited.done():
            return waited.result()
        raise Lost("The application ended in the middle of its answer.")

    def _scope(self) -> dict[str, Any]:
        path, _, query = self._request.path.partition("?")
        length = str(len(self._request.body))
        headers = {**self._request.headers, "Host": "localhost", "Content-Length": length}
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self._request.method,
            "headers": [(n.lower().encode(), v.encode()) for n, v in headers.items()],
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "server": ("embedded", None),
            "client": ("embedded", 0),
            "root_path": "",
        }

    async def _receive(self) -> dict[str, Any]:
        if self._body is None:
            await self._ended.wait()
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._start.set_result((message["status"], list(message["headers"])))
        elif message["type"] == "http.response.body":
            if message.get("body"):
                await self._chunks.put(message["body"])
            if not message.get("more_body", False):
                await self._chunks.put(None)


class _Body:
    """The body of an exchange, piece by piece."""

    def __init__(self, exchange: _Exchange, loop: LoopThread) -> None:
        self._exchange = exchange
        self._loop = loop

    def __iter__(self) -> Iterator[bytes]:
        try:
            while (chunk := self._loop.run(self._exchange.next())) is not None:
                yield chunk
        finally:
            self.close()

    def close(self) -> None:
        self._loop.run(self._exchange.end())


class _AsyncBody:
    """The body of an exchange, piece by piece, for another loop."""

    def __init__(self, exchange: _Exchange, loop: LoopThread) -> None:
        self._exchange = exchange
        self._loop = loop

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while (chunk := await self._loop.awaited(self._exchange.next())) is not None:
                yield chunk
        finally:
            await self.close()

    async def close(self) -> None:
        await self._loop.awaited(self._exchange.end())
