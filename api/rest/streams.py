"""Large answers: sent in pieces, and stopped when the client disconnects.

Memory is bounded whatever the size of the result is: one batch is held at a time, and the next
batch is fetched when the socket has taken the previous one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import pyarrow as pa
from fastapi import Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from hornbeam_server.api.rest import problems
from hornbeam_server.api.rest.serializers import (
    column_documents,
    json_rows,
    tail_document,
    verify_document,
)
from hornbeam_server.node.database import Database
from hornbeam_server.node.query_stages import QueryResult
from hornbeam_server.schema.errors import HornbeamError, LimitExceeded
from hornbeam_server.schema.sizes import long_positions, pieces
from hornbeam_server.schema.turns import chunks
from hornbeam_server.schema.types import Row
from hornbeam_server.viewselect.watch import Report

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream"
"""Server-sent events."""
FIRST_ROWS = 2_000
FIRST_BYTES = 1 << 20
"""An answer of at most this many rows and bytes is sent whole, with a Content-Length."""
_ROWS_AT_ONCE = 64
PATIENCE_S = 0.05
"""Seconds after which a request watches for the disconnect of its client."""

T = TypeVar("T")
_encode = msgspec.json.encode


class Stream(Response):
    """A response whose body is produced while it is sent. `chunks`, and then `stack`, are closed
    however sending ends.

    Starlette's StreamingResponse cancels repeatedly while `chunks` cleans up, and does not close
    it, so that a query would leave its cursor open.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        media_type: str,
        headers: dict[str, str] | None = None,
        stack: AsyncExitStack | None = None,
    ) -> None:
        super().__init__(None, media_type=media_type, headers=headers)
        del self.headers["content-length"]
        self._chunks = chunks
        self._stack = stack or AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack, aclosing(self._chunks):
            await unless_gone(receive, self._send(send))

    async def _send(self, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        async for chunk in self._chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client disconnects.

    Raises ClientDisconnect then. Requires that the request's body has been read. Quick work costs
    only a timer that does not fire: `work` runs in the task of the request, and the watch begins
    after `PATIENCE_S`.
    """
    async with _Watch(receive):
        return await work


class _Watch:
    """A context that cancels its task when the client disconnects, as a timeout does."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._watcher: asyncio.Task[None] | None = None
        self._gone = False

    async def __aenter__(self) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._task = task
        self._timer = loop.call_later(PATIENCE_S, self._begin)

    def _begin(self) -> None:
        self._watcher = asyncio.ensure_future(self._wait())

    async def _wait(self) -> None:
        await _disconnected(self._receive)
        self._gone = True
        self._task.cancel()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        await _cancelled(self._watcher)
        if self._gone and self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise ClientDisconnect


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancelled(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel the tasks that still run, and wait until they have ended."""
    running = {task for task in tasks if task is not None and not task.done()}
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


# ---------------------------------------------------------------- queries


async def json_response(
    result: QueryResult, stack: AsyncExitStack, began: float, max_rows: int
) -> Response:
    """The answer as JSON. A large answer takes over `stack`, which keeps the query open. Raises the
    errors of the first rows."""
    batches = result.stream.batches()
    pieces = _json_pieces(result, batches, max_rows)
    whole = b'{"columns":' + _encode(column_documents(result.stream.columns)) + b',"rows":['
    rows = 0
    async for some, piece in pieces:
        whole += piece
        rows += some
        if rows > FIRST_ROWS or len(whole) > FIRST_BYTES:
            break
    else:
        body = whole + b"]," + _encode(tail_document(result, began))[1:]
        return Response(body, media_type="application/json")
    chunks = _json_chunks(result, whole, pieces, stack.pop_all(), began)
    return Stream(chunks, "application/json")


async def _json_chunks(
    result: QueryResult,
    begun: bytes,
    pieces: AsyncIterator[tuple[int, bytes]],
    stack: AsyncExitStack,
    began: float,
) -> AsyncGenerator[bytes, None]:
    """The pieces of one JSON document. An error in the middle ends it with a member `error`."""
    async with stack:
        yield begun
        del begun
        try:
            async for _, piece in pieces:
                yield piece
            tail = tail_document(result, began)
        except HornbeamError as error:
            tail = {"error": problems.problem(error)}
        yield b"]," + _encode(tail, enc_hook=str)[1:]


async def _json_pieces(
    result: QueryResult, batches: AsyncIterator[list[Row]], max_rows: int
) -> AsyncGenerator[tuple[int, bytes], None]:
    """The encoded rows in pieces of some MB, each with its number of rows. Raises LimitExceeded for
    more than `max_rows` rows."""
    columns, sent = result.stream.columns, 0
    long = long_positions(column.type for column in columns)
    async for batch in batches:
        if sent + len(batch) > max_rows:
            raise LimitExceeded(
                f"The answer has more than {max_rows} rows.",
                cure="Ask for the Arrow stream, or add a LIMIT.",
            )
        piece, rows = b"", 0
        parts = (
            p for some in chunks(batch, _ROWS_AT_ONCE) for p in pieces(some, long, FIRST_BYTES)
        )
        for some in parts:
            piece += (b"," if sent else b"") + _encode(json_rows(some, columns))[1:-1]
            rows, sent = rows + len(some), sent + len(some)
            if len(piece) > FIRST_BYTES:
                yield rows, piece
                piece, rows = b"", 0
        if rows:
            yield rows, piece


async def arrow_response(result: QueryResult, stack: AsyncExitStack) -> Response:
    """The answer as an Arrow stream, which takes over `stack`.

    Errors before the first batch are raised. A later error cuts the connection (`api/middleware`):
    the Arrow format has no place for it, and readers accept a stream without an end marker as
    whole.
    """
    batches = result.stream.arrow()
    first = await anext(batches, None)
    headers = {
        "Hornbeam-Snapshot": str(result.snapshot),
        "Hornbeam-Served-By": ",".join(result.served_by),
    }
    if result.tentative is not None:
        headers["Hornbeam-As-Of"] = str(result.tentative.as_of)
        headers["Hornbeam-Reason"] = quote(result.tentative.reason)
    return Stream(_arrow_chunks(result, first, batches, stack.pop_all()), ARROW, headers)


async def _arrow_chunks(
    result: QueryResult,
    first: pa.RecordBatch | None,
    batches: AsyncIterator[pa.RecordBatch],
    stack: AsyncExitStack,
) -> AsyncGenerator[bytes, None]:
    async with stack:
        schema = first.schema if first is not None else result.stream.schema
        sink = _Chunks()
        with pa.ipc.new_stream(sink, schema) as writer:
            if first is not None:
                writer.write_batch(first)
            yield sink.take()
            async for batch in batches:
                writer.write_batch(batch)
                yield sink.take()
        yield sink.take()


class _Chunks:
    """A file in memory whose written bytes are taken out between writes."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        return len(part)

    def flush(self) -> None:
        """Do nothing: no bytes are buffered apart from those to take."""

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: there is no resource to release."""

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


# ---------------------------------------------------------------- verification


async def verify_response(db: Database, names: list[str] | None, repair: bool) -> Response:
    """Lines of progress, then a line with the report. Errors before the first line are raised."""
    lines = _verify_lines(db, names, repair)
    first = await anext(lines)
    return Stream(_encoded(first, lines), NDJSON)


async def plan_response(work: Callable[[Report], Coroutine[Any, Any, dict[str, Any]]]) -> Response:
    """Lines of progress, then a line with the result of `work` as `plan`. Errors before the first
    line are raised. `work` may call its report function from another thread."""
    lines = _plan_lines(work)
    first = await anext(lines)
    return Stream(_encoded(first, lines), NDJSON)


async def _plan_lines(
    work: Callable[[Report], Coroutine[Any, Any, dict[str, Any]]],
) -> AsyncGenerator[dict[str, Any], None]:
    lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    loop, before = asyncio.get_running_loop(), -1

    def report(share: float) -> None:
        nonlocal before
        if int(share * 100) != before:
            before = int(share * 100)
            line = {"progress": {"done": before, "total": 100}}
            loop.call_soon_threadsafe(lines.put_nowait, line)

    task = asyncio.ensure_future(work(report))
    task.add_done_callback(lambda _: lines.put_nowait(None))
    try:
        while (line := await lines.get()) is not None:
            yield line
        yield {"plan": task.result()}
    finally:
        await _cancelled(task)


async def _encoded(
    first: dict[str, Any], lines: AsyncGenerator[dict[str, Any], None]
) -> AsyncGenerator[bytes, None]:
    async with aclosing(lines):
        yield _encode(first) + b"\n"
        try:
            async for line in lines:
                yield _encode(line, enc_hook=str) + b"\n"
        except HornbeamError as error:
            yield _encode({"error": problems.problem(error)}, enc_hook=str) + b"\n"


async def _verify_lines(
    db: Database, names: list[str] | None, repair: bool
) -> AsyncGenerator[dict[str, Any], None]:
    lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    def progress(name: str, done: int, total: int) -> None:
        lines.put_nowait({"progress": {"name": name, "done": done, "total": total}})

    task = asyncio.ensure_future(db.verify(names, repair=repair, progress=progress))
    task.add_done_callback(lambda _: lines.put_nowait(None))
    try:
        while (line := await lines.get()) is not None:
            yield line
        yield {"report": verify_document(task.result())}
    finally:
        await _cancelled(task)
