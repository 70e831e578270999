"""Cooperative scheduling of long work on the event loop: after each part, other tasks run.

A server answers all its clients on one event loop. Work whose time grows with the number of rows is
done in parts: `for some in chunks(rows): …; await turn(some)`. So a large transaction delays a
short read by milliseconds, not by seconds. Many large transactions delay it no more: each round of
the loop resumes only one of the tasks that wait for a turn, in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Sized
from contextvars import Context
from itertools import islice
from typing import TypeVar
from weakref import WeakKeyDictionary

ROWS_A_TURN = 256
"""Maximum rows processed in one turn: some milliseconds."""

BYTES_A_TURN = 4 << 20
"""Bytes copied in one turn: some milliseconds, too."""

T = TypeVar("T")
_LINES: WeakKeyDictionary[asyncio.AbstractEventLoop, deque[asyncio.Future[None]]] = (
    WeakKeyDictionary()
)
"""The tasks that wait for a turn, by event loop."""


def chunks(items: Sequence[T], size: int = ROWS_A_TURN) -> Iterable[Sequence[T]]:
    """`items` in pieces of at most `size`."""
    if len(items) <= size:  # nearly always: neither a generator nor a copy
        return (items,) if items else ()
    return (items[start : start + size] for start in range(0, len(items), size))


async def turn(done: Sized, most: int = ROWS_A_TURN) -> None:
    """Let other tasks run if `done` has at least `most` items, that is, if a whole part is done."""
    if len(done) >= most:
        await pause()


async def pause() -> None:
    """Let other tasks run, and wait for a turn."""
    loop = asyncio.get_running_loop()
    line = _LINES.get(loop)
    if line is None:
        line = _LINES[loop] = deque()
    mine = loop.create_future()
    line.append(mine)
    if len(line) == 1:
        _go_on_soon(loop, line)
    await mine


def _go_on(loop: asyncio.AbstractEventLoop, line: deque[asyncio.Future[None]]) -> None:
    """Resume the first task in the line now, and the next task in the next round of the loop."""
    first = line.popleft()
    if not first.done():  # it may be cancelled
        first.set_result(None)
    if line:
        _go_on_soon(loop, line)


def _go_on_soon(loop: asyncio.AbstractEventLoop, line: deque[asyncio.Future[None]]) -> None:
    """Schedule `_go_on` in a new context, so that the line moves even if the current task never
    runs again.

    The simulation kills a process, and its tasks, while others share its loop.
    """
    loop.call_soon(_go_on, loop, line, context=Context())


async def selected(items: Sequence[T], wanted: Callable[[T], object]) -> list[T]:
    """The `items` that satisfy `wanted`."""
    if len(items) < ROWS_A_TURN:
        return list(filter(wanted, items))
    found: list[T] = []
    for some in chunks(items):
        found += filter(wanted, some)
        await turn(some)
    return found


async def worked_off(steps: Iterable[int]) -> None:
    """Run all steps. Each step processes a row and yields the number of bytes that it copied."""
    rows = size = 0
    for copied in steps:
        rows, size = rows + 1, size + copied
        if rows >= ROWS_A_TURN or size >= BYTES_A_TURN:
            rows = size = 0
            await pause()


async def made(items: Iterable[T]) -> list[T]:
    """All `items` of an iterable that computes them lazily."""
    remaining = iter(items)
    found = some = list(islice(remaining, ROWS_A_TURN))
    while len(some) == ROWS_A_TURN:
        await pause()
        some = list(islice(remaining, ROWS_A_TURN))
        found += some
    return found
