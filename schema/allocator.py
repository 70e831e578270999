"""Limits on the free memory that the allocators of a server process retain."""

from __future__ import annotations

import asyncio
import ctypes

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameter numbers of glibc's `mallopt` (malloc.h)."""
MAPPED_BYTES = 256 << 10
"""From this size, a block has its own mapping, which is unmapped when the block is freed."""
KEPT_BYTES = 16 << 20
"""Free bytes retained at the end of the heap for the next block."""
ARENAS = 2
"""Number of heaps that the threads share."""
TRIM_S = 5.0
"""Seconds between two trims. After so short a time, a trim takes some milliseconds."""


def return_freed_memory() -> None:
    """Make glibc and Arrow return the memory of large blocks to the system as soon as they are
    freed.

    By default, glibc raises the mapping threshold up to 32 MB as mapped blocks are freed, and uses
    a heap for each thread. Bodies and results of megabytes then leave holes in these heaps: after
    five minutes of hostile SQL a server held 300 MB of free memory. Arrow's own allocator keeps
    some 26 MB when a server streams record batches, and is slower than glibc's. Call this before
    there are threads. Other C libraries keep their defaults.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, MAPPED_BYTES)
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_ARENA_MAX, ARENAS)


def trim() -> bool:
    """Return the holes in the heaps to the system. False if the C library is not glibc."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is None:
        return False
    malloc_trim(0)
    return True


async def keep_trimmed() -> None:
    """Call `trim` every TRIM_S seconds, in a thread: other threads wait only for the heap in work.

    After an hour of hostile SQL, holes of small blocks were a third of a server's memory.
    """
    while True:
        if not await asyncio.to_thread(trim):
            return
        await asyncio.sleep(TRIM_S)
