"""Coroutines that never wait, for callers that block.

The code between a caller and its node is written once, as coroutines. Over an event loop they wait
for the node. Over sockets that block, what they await has returned before they look at it, so such
a coroutine runs to its end at once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
Pause = Callable[[float], Awaitable[None]]
"""Waits for some seconds."""


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine over requests that block."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    work.close()
    raise AssertionError("a coroutine over requests that block has waited")


async def blocking_pause(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251
