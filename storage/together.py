"""Concurrent work with as few tasks as possible: requests to other machines are sent at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.storage.ports import TableReader

T = TypeVar("T")


async def all_settled(works: Sequence[Awaitable[T]]) -> list[T]:
    """All results in order. Raises the first failure in this order, after all works have ended.

    The calling task does the first work; each other work gets a task of its own.
    """
    others = [asyncio.ensure_future(work) for work in works[1:]]
    found: list[T] = []
    failures: list[Exception] = []
    try:
        for work in (*works[:1], *others):
            try:
                found.append(await work)
            except Exception as error:
                failures.append(error)
    except BaseException:
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        raise
    if failures:
        raise failures[0]
    return found


async def some_at_once(works: Sequence[Callable[[], Awaitable[T]]], most: int) -> list[T]:
    """As `all_settled`, while at most `most` works run at a time."""
    places = asyncio.Semaphore(most)

    async def placed(work: Callable[[], Awaitable[T]]) -> T:
        async with places:
            return await work()

    return await all_settled([placed(work) for work in works])


async def read_together(store: TableReader, reads: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Results of `reads` in order. They run concurrently if the store is remote, else one by one,
    since a task takes longer than a read of a row on this machine."""
    if store.remote and len(reads) > 1:
        return await all_settled([read() for read in reads])
    return [await read() for read in reads]


async def first_of(*works: Awaitable[object]) -> None:
    """Return when one of `works` has ended; the others are cancelled. Raises its failure."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


async def all_tried(works: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Do `works` one after the other. After an OSError or a HornbeamError the later works still
    run, and the first such error is raised at the end. Any other error is raised at once."""
    failed: OSError | HornbeamError | None = None
    for work in works:
        try:
            await work()
        except (OSError, HornbeamError) as error:
            failed = failed or error
    if failed is not None:
        raise failed


async def settled(future: asyncio.Future[None], seconds: float) -> None:
    """Return when `future` is done, or after `seconds`: then it is done by this call. Only the
    caller waits for it.

    It does for one future what `asyncio.wait` does for many, in a fraction of the time.
    """
    if future.done():
        return
    timer = asyncio.get_running_loop().call_later(seconds, _end, future)
    try:
        await future
    finally:
        timer.cancel()


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def to_the_end(
    work: Coroutine[Any, Any, T], on_cancellation: Callable[[], None] = lambda: None
) -> T:
    """The result of `work`. A cancellation is raised after its end, which `on_cancellation` may
    bring about."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        on_cancellation()
        await asyncio.wait({task})
        raise
