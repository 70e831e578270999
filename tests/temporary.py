"""Temporary folders of the tests in memory, if the machine has room for them.

Most tests open a database in a folder of their own. On a disk that takes 0.2 s, in which the
processor waits for the disk. No test needs a disk: what survives the end of a process does so in
memory too, and tests of lost writes simulate the disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
"""A run of all tests takes about 1 GB."""


def keep_in_memory() -> None:
    """Let pytest, `tempfile` and all processes that the tests start make temporary folders in
    memory. TMPDIR, if it is set, names another place."""
    if "TMPDIR" in os.environ or not MEMORY.is_dir():
        return
    if shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
