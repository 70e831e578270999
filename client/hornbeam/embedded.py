"""A database in this process: calls the server's application without a socket.

The application runs in an event loop in its own thread. All connections to a folder share one
application, since a folder can be opened only once. The server's packages are loaded by name, so
the client does not depend on them.

When the main thread ends, the databases that are still open are closed. Python then lets executors
refuse work before it calls the functions of `atexit`, so a database that ran on could only fail.
A process that is forked has no thread of its parent's database: its connections to it refuse.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # registers the end of executors before ours, which comes first
import logging
import os
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
_LOG = logging.getLogger(__name__)


class EmbeddedTransport(Transport):
    """Sends requests to the database in `folder`. The first transport to a folder opens it, the
    last closes it. Raises InterfaceError and DatabaseError when the folder cannot be opened."""

    def __init__(self, folder: str) -> None:
        self._embedded: _Embedded | None = _FOLDERS.borrow(folder)
        super().__init__(_InProcess(self._embedded), folder)

    def close(self) -> None:
        super().close()
        if self._embedded is not None:
            embedded, self._embedded = self._embedded, None
            _FOLDERS.give_back(embedded)


class LoopThread:
    """An event loop in a thread, for synchronous callers. Messages begin with `name`."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._name = name
        self._loop = loop
        self._submitting = threading.Lock()
        self._closed = False
        self._main_ended = False
        self._thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def runs(self) -> bool:
        """Whether the loop takes work. In a forked process it does not: its thread is missing."""
        return not self._closed and self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the loop, and return its result. Interrupting the caller cancels `work`.
        Raises InterfaceError when the loop is closed, or another process runs it."""
        future = self._submitted(work)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            if self._closed:
                raise self._refusal() from None
            raise
        except BaseException:
            future.cancel()
            raise
        finally:
            self._end_daemon()

    def post(self, call: Callable[[], object]) -> None:
        """Call `call` in the loop soon, without waiting for it. A closed loop calls nothing."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    async def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the loop, from another loop. Cancelling the caller cancels `work`. Raises
        InterfaceError as `run` does."""
        future = self._submitted(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and not (task and task.cancelling()):
                raise self._refusal() from None
            raise
        finally:
            self._end_daemon()

    def close(
        self, last: Coroutine[Any, Any, object] | None = None, *, main_ended: bool = False
    ) -> None:
        """Refuse further work, run `last`, cancel the running tasks, wait for their end, and stop
        the loop. `main_ended`: the reason is the end of the main thread."""
        with self._submitting:
            self._closed, self._main_ended = True, main_ended
        try:
            if last is not None:
                asyncio.run_coroutine_threadsafe(last, self._loop).result()
        finally:
            asyncio.run_coroutine_threadsafe(_ended(self._loop), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _submitted(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        if self._thread.is_alive():  # else the lock may be one that a thread of the parent holds
            with self._submitting:
                if not self._closed:
                    return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise self._refusal()

    def _end_daemon(self) -> None:
        """End a daemon thread when the main thread's end has closed the loop."""
        if self._main_ended:
            _end_daemon()

    def _refusal(self) -> InterfaceError:
        """The error for work that comes too late, or in another process."""
        self._end_daemon()
        if not self._closed:
            return InterfaceError(
                f"{self._name} was opened by the process that has forked this one.\n"
                "  Only one process opens a folder: serve it (hornbeam serve), and connect to that."
            )
        if not self._main_ended:
            return InterfaceError(f"{self._name} is closed.")
        return InterfaceError(
            f"{self._name} is closed, since the main thread has ended.\n"
            "  Let the main thread wait for the threads that use the database (Thread.join)."
        )


def _end_daemon() -> None:
    """End a daemon thread silently, as the end of the process does. Only to be called after the
    main thread has ended."""
    if threading.current_thread().daemon:
        raise SystemExit


def _too_late(folder: str | Path) -> InterfaceError:
    """The error for opening a folder after the main thread has ended."""
    _end_daemon()
    return InterfaceError(
        f"The database in {folder} cannot be opened: the main thread has ended.\n"
        "  Open it before, and wait for the threads that use it (Thread.join)."
    )


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
        self.loop = LoopThread(f"The database in {folder}", asyncio.new_event_loop())
        try:
            self.database, self.app = self.loop.run(_open(folder))
        except BaseException:
            self.loop.close()
            raise

    def close(self, *, main_ended: bool = False) -> None:
        self.loop.close(self.database.close(), main_ended=main_ended)


class _Folders:
    """The folders that this process has open."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget the databases of the parent, in a forked process."""
        self._lock = threading.Lock()
        self._open: dict[Path, _Embedded] = {}
        self.ended = False

    def borrow(self, path: str) -> _Embedded:
        """The database in a folder, for one more user. Raises InterfaceError, DatabaseError."""
        folder = Path(path).resolve()
        with self._lock:
            if self.ended:
                raise _too_late(folder)
            embedded = self._open.get(folder) or _Embedded(folder)
            self._open[folder] = embedded
            embedded.users += 1
            return embedded

    def give_back(self, embedded: _Embedded) -> None:
        """End the use by one user. The last one closes the database, unless it is closed, or
        belongs to the process that has forked this one."""
        with self._lock:
            embedded.users -= 1
            if not embedded.users and self._open.get(embedded.folder) is embedded:
                del self._open[embedded.folder]
                embedded.close()

    def close(self) -> None:
        """Close all databases, at the end of the main thread."""
        with self._lock:
            self.ended = True
            while self._open:
                folder, embedded = self._open.popitem()
                try:
                    embedded.close(main_ended=True)
                except Exception:  # another error than this would keep Python from its own work
                    _LOG.exception("The database in %s is not closed in good order.", folder)


_FOLDERS = _Folders()
# `atexit` comes too late, and nothing public comes before executors refuse work. They use the same
# function, and so do other libraries that work in the background. A Python without it has `atexit`.
getattr(threading, "_register_atexit", atexit.register)(_FOLDERS.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FOLDERS.forget)


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
        opening = asyncio.ensure_future(asyncio.to_thread(_FOLDERS.borrow, folder))
        try:
            return cls(await asyncio.shield(opening))
        except asyncio.CancelledError:  # the thread cannot be stopped, and opens the folder
            opening.add_done_callback(_give_back_opened)
            raise
        except (InterfaceError, RuntimeError):  # executors refuse work after the main thread's end
            if _FOLDERS.ended:
                raise _too_late(folder) from None
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
            try:
                await asyncio.to_thread(_FOLDERS.give_back, embedded)
            except RuntimeError:  # executors refuse work after the main thread's end
                if not _FOLDERS.ended:  # else its end has closed the folder
                    raise


def _give_back_opened(opening: asyncio.Future[_Embedded]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        threading.Thread(target=_FOLDERS.give_back, args=(opening.result(),)).start()


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
        if self._loop.runs:  # the end of the loop has ended the exchange
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
        if self._loop.runs:
            await self._loop.awaited(self._exchange.end())
