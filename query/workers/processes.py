"""The server's side of a worker: a forked process behind a socket, or the calling process."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import chain
from typing import Protocol

import msgspec
import pyarrow as pa

from hornbeam_server.query.workers.control import ENVIRONMENT, LENGTH, Fork, Kill, Options
from hornbeam_server.query.workers.messages import (
    HEADER,
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    UNANSWERED,
    Envelope,
    Failed,
    Reply,
    Request,
    buffer,
    decode_reply,
    encode_request,
    raised,
    receive,
)
from hornbeam_server.schema.errors import Closing, MemoryExceeded, StatementTimeout, Unavailable

_PROGRAM = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[2]);"
    " importlib.import_module(sys.argv[3]).main(int(sys.argv[1]))"
)
_FORK_SERVER = "hornbeam_server.query.workers.forkserver"
_START_S = 60.0
"""Time limit in seconds for the fork server's start, which imports DuckDB and Arrow."""
_GROWN_BYTES = 96 << 20
"""A worker is not reused if its resident memory has grown by more than this since its first
reply."""


class Worker(Protocol):
    """A process that answers the requests of one session at a time, in order."""

    @property
    def spent(self) -> bool:
        """Whether the worker cannot, or should not, serve another session."""

    async def ask(self, requests: Sequence[Request]) -> Reply:
        """Send `requests` and return the reply to the last one; the others have no reply.

        Raises the HornbeamError that the worker reports, MemoryExceeded when the worker has ended,
        and Closing when it was killed. Cancelling the call kills the worker.
        """

    def ask_in_thread(self, requests: Sequence[Request], timeout_s: float | None = None) -> Reply:
        """The blocking form of `ask`, for threads. Also raises StatementTimeout after `timeout_s`
        seconds; the worker is killed then."""

    def post(self, request: Request) -> None:
        """Send a request that has no reply, without waiting."""

    def kill(self) -> None:
        """Kill the worker even while it runs; a pending `ask` fails. Idempotent and thread-safe."""

    def discard(self) -> None:
        """End a worker that has no user."""


class InlineWorker:
    """Runs statements in the calling process: deterministic, without limits, not interruptible.
    The calling process loads DuckDB only when an instance is created."""

    def __init__(self, options: Options) -> None:
        from hornbeam_server.query.workers.statements import Statements

        self._ended = False
        self._statements = Statements(options)

    @property
    def spent(self) -> bool:
        return self._ended

    async def ask(self, requests: Sequence[Request]) -> Reply:
        return self.ask_in_thread(requests)

    def ask_in_thread(self, requests: Sequence[Request], timeout_s: float | None = None) -> Reply:
        reply = None
        for request in requests:
            reply = self._statements.answer(request)
        assert reply is not None
        return reply

    def post(self, request: Request) -> None:
        self._statements.answer(request)

    def kill(self) -> None:
        self._ended = True

    def discard(self) -> None:
        self.kill()
        self._statements.close()


class WorkerProcess:
    """A forked worker. One task or thread uses it at a time, except for `kill`."""

    def __init__(self, server: ForkServer, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self._server = server
        self._connection = connection
        self._at_first: int | None = None
        self._grown = self._killed = False
        self._killing = threading.Lock()

    @property
    def spent(self) -> bool:
        return self._killed or self._grown or _hung_up(self._connection)

    async def ask(self, requests: Sequence[Request]) -> Reply:
        loop = asyncio.get_running_loop()
        connection = self._connection
        try:
            connection.setblocking(False)
            for piece in chain.from_iterable(map(encode_request, requests)):
                await loop.sock_sendall(connection, piece)
            sizes = await _receive(loop, connection, HEADER.size)
            head_bytes, body_bytes = _sizes(sizes)
            content = await _receive(loop, connection, head_bytes + body_bytes)
            envelope = decode_reply(content[:head_bytes], content[head_bytes:])
        except BaseException as error:
            ending = self._killed  # by the owner of the workers, which is closed
            self.discard()
            raise _lost(error, ending=ending) from None
        return self._reply(envelope)

    def ask_in_thread(self, requests: Sequence[Request], timeout_s: float | None = None) -> Reply:
        connection = self._connection
        try:
            connection.settimeout(timeout_s)
            for piece in chain.from_iterable(map(encode_request, requests)):
                connection.sendall(piece)
            head_bytes, body_bytes = _sizes(receive(connection, HEADER.size))
            content = receive(connection, head_bytes + body_bytes)
            envelope = decode_reply(content[:head_bytes], content[head_bytes:])
        except BaseException as error:
            ending = self._killed  # by the owner of the workers, which is closed
            self.discard()
            raise _lost(error, ending=ending) from None
        return self._reply(envelope)

    def post(self, request: Request) -> None:
        assert isinstance(request, UNANSWERED)
        with contextlib.suppress(OSError):  # the next request notices
            self._connection.setblocking(False)
            self._connection.send(b"".join(encode_request(request)))

    def kill(self) -> None:
        with self._killing:
            if self._killed:
                return
            self._killed = True
        self._server.kill(self.pid)
        # shutdown() wakes a task or thread that waits for a reply; close() would not.
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def discard(self) -> None:
        self.kill()
        self._connection.close()

    def _reply(self, envelope: Envelope) -> Reply:
        if self._at_first is None:
            self._at_first = envelope.resident
        self._grown = envelope.resident > self._at_first + _GROWN_BYTES
        if isinstance(envelope.reply, Failed):
            raise raised(envelope.reply)
        return envelope.reply


def _hung_up(connection: socket.socket) -> bool:
    """Whether the other end has closed: the kernel may have killed an idle worker to free memory.
    The connection must have no pending reply."""
    try:
        connection.setblocking(False)  # a socket timeout would apply even with MSG_DONTWAIT
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


async def _receive(
    loop: asyncio.AbstractEventLoop, connection: socket.socket, size: int
) -> memoryview:
    content = buffer(size)
    received = 0
    while received < size:
        count = await loop.sock_recv_into(connection, content[received:])
        if not count:
            raise ConnectionError
        received += count
    return content


def _sizes(header: memoryview) -> tuple[int, int]:
    head_bytes, body_bytes = HEADER.unpack(header)
    if head_bytes > MAX_HEAD_BYTES or body_bytes > MAX_BODY_BYTES:
        raise ConnectionError
    return head_bytes, body_bytes


def _lost(error: BaseException, *, ending: bool) -> BaseException:
    """The exception to raise when a request to a worker failed with `error`. `ending`: the worker
    was killed while the request ran."""
    if isinstance(error, TimeoutError):
        return timed_out()
    if isinstance(error, OSError | msgspec.MsgspecError | pa.ArrowException | ValueError):
        if ending:
            return Closing(
                "The database was closed while the statement ran.",
                cure="Try again when it is open, or at another node.",
            )
        return MemoryExceeded(
            "The process that ran the statement has ended, most likely for lack of memory.",
            cure="Narrow the statement, or ask the administrator to raise query_headroom_mb.",
        )
    return error


def timed_out() -> StatementTimeout:
    return StatementTimeout(
        "The statement ran into its time limit.", cure="Narrow it, or allow more time."
    )


class ForkServer:
    """The handle of this process's fork server, which starts on first use. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Serialises starting the fork server, stopping it, and asking it for a worker."""
        self._sending = threading.Lock()
        """Guards `_control`. The event loop takes this lock too, so no holder may block."""
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self) -> None:
        """Start the fork server ahead of its first use. Does not wait until it is ready."""
        with self._lock:
            self._start()

    def fork(self, options: Options) -> WorkerProcess:
        """A new worker. Takes about 10 ms; the first call takes about 500 ms. Raises
        Unavailable."""
        ours, theirs = socket.socketpair()
        try:
            with self._lock, theirs:
                pid = self._fork(options, theirs)
        except BaseException:
            ours.close()
            raise
        return WorkerProcess(self, pid, ours)

    def kill(self, pid: int) -> None:
        with contextlib.suppress(OSError):  # the fork server and its workers have ended
            self._send(Kill(pid))

    def close(self) -> None:
        """End the fork server and all its workers. Idempotent."""
        with self._lock:
            self._stop()

    def forget(self) -> None:
        """Drop the fork server after a fork: it belongs to the parent process."""
        self._lock, self._sending = threading.Lock(), threading.Lock()
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.returncode = 0  # not a child of this process
        self._process = self._control = None

    def _fork(self, options: Options, theirs: socket.socket) -> int:
        for last_try in (False, True):
            try:
                self._start()
                self._send(Fork(options), [theirs.fileno()])
                return self._answer()
            except OSError as error:
                self._stop()
                if last_try:
                    raise Unavailable(
                        f"No process could be started to run the statement: {error}.",
                        cure="Look at the limits of processes and memory of the server's user.",
                    ) from error
        raise AssertionError

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self._stop()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-I", "-c", _PROGRAM, str(theirs.fileno()),
                    json.dumps(sys.path), _FORK_SERVER,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C in a terminal must reach only the server process
                env=os.environ | ENVIRONMENT,
            )  # fmt: skip
        ours.settimeout(_START_S)
        with self._sending:
            self._control = ours

    def _stop(self) -> None:
        with self._sending:
            if self._control is not None:
                self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def _send(self, message: Fork | Kill, descriptors: Sequence[int] = ()) -> None:
        content = pickle.dumps(message)
        with self._sending:
            if self._control is not None:
                socket.send_fds(self._control, [LENGTH.pack(len(content)) + content], descriptors)

    def _answer(self) -> int:
        assert self._control is not None
        length = LENGTH.unpack(receive(self._control, LENGTH.size))[0]
        pid: int = pickle.loads(receive(self._control, length))
        return pid


FORK_SERVER = ForkServer()
atexit.register(FORK_SERVER.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=FORK_SERVER.forget)


async def fork_worker(options: Options) -> Worker:
    """A worker in a separate process. Raises Unavailable."""
    forked: Future[WorkerProcess] = Future()
    asyncio.get_running_loop().run_in_executor(None, _fork, options, forked)
    try:
        return await asyncio.shield(asyncio.wrap_future(forked))
    except asyncio.CancelledError:
        # Called in the thread that forks: the event loop may have ended by then.
        forked.add_done_callback(_discard)
        raise


def _fork(options: Options, forked: Future[WorkerProcess]) -> None:
    try:
        forked.set_result(FORK_SERVER.fork(options))
    except BaseException as error:
        forked.set_exception(error)


def _discard(forked: Future[WorkerProcess]) -> None:
    if forked.exception() is None:
        forked.result().discard()


async def inline_worker(options: Options) -> Worker:
    """A worker in the calling process."""
    return InlineWorker(options)
