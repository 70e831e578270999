"""Settings of Python's cyclic garbage collector for processes that only do Hornbeam's work."""

from __future__ import annotations

import asyncio
import gc
import sys

SELDOM, LAST_RESORT = 100, 1_000
"""Collections of the second generation between two of the third: at a calm moment, at any."""
NEVER = 1 << 30
CALM = 1.25
"""At a calm moment, at most so many times the memory is in use that the last collection left."""
TICK_S = 1.0


def settle_collector() -> None:
    """Make the collector run less often.

    Rows, keys and puts are tuples and bytes, which reference counting frees; traversing them
    repeatedly takes a third of the time of a bulk load. Only for processes that belong to Hornbeam:
    a server, or a Python worker of Spark while it runs Hornbeam's tasks. The second generation is
    collected while it is small, because all requests wait for it; the third is collected rarely.
    """
    gc.set_threshold(5_000, 10, SELDOM)


def spare_present() -> None:
    """Exclude all current objects, such as modules and open files, from later collections."""
    gc.collect()
    gc.freeze()


async def collect_when_calm() -> None:
    """Collect the third generation of a server at calm moments; runs until it is cancelled.

    All requests wait for a collection, which visits every object that lives. A long statement makes
    a million of them while it is planned, so that Python's own choice of the moment, after many
    objects were made, is the worst one.
    """
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)
    left = sys.getallocatedblocks()
    while True:
        await asyncio.sleep(TICK_S)
        if is_due(gc.get_count()[2], sys.getallocatedblocks(), left):
            gc.collect()
            left = sys.getallocatedblocks()


def is_due(collections: int, living: int, left: int) -> bool:
    """Whether to collect the third generation now.

    `collections`: how often the second one was collected since. `living`: blocks of memory that are
    in use; `left`: those that were in use after the last collection of the third.
    """
    return collections >= LAST_RESORT or (collections >= SELDOM and living <= CALM * left)
