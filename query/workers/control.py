"""The control protocol between the server process and the fork server.

A control message is a `u32` length, little endian, and a pickle. The server process sends `Fork`
with the worker's end of a socket pair attached, and receives the worker's process id. It also sends
`Kill`, which has no reply.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

LENGTH = struct.Struct("<I")
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # these three keep libraries from starting threads on import
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MALLOC_ARENA_MAX": "2",  # an arena takes 64 MB of a worker's address space
}
"""Environment of the fork server, which may fork only while it has a single thread."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a worker runs DuckDB. `memory_mb` is DuckDB's own limit, beyond which it spills to disk.
    `headroom_mb` is the additional memory for allocations that DuckDB does not count."""

    memory_mb: int = 128
    headroom_mb: int = 640
    threads: int = 2
    spill_folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Fork:
    options: Options


@dataclass(frozen=True, slots=True)
class Kill:
    pid: int
