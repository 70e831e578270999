"""Work on a store side by side: what waits for another machine is asked for at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from storage.ports import TableStore

T = TypeVar("T")


async def all_settled(works: Sequence[Awaitable[T]]) -> list[T]:
    """All results in order. On a failure too, nothing is under way any more."""
    found: list[T] = []
    for result in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        found.append(result)
    return found


async def read_together(store: TableStore, reads: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Results in order: read side by side if the store is remote, else one by one, since a task
    of its own takes longer than reading a row that is here."""
    if store.remote and len(reads) > 1:
        return await all_settled([read() for read in reads])
    return [await read() for read in reads]
