"""Lets a forked process end although it has no threads of RocksDB.

RocksDB joins its threads in a handler of C's `exit`. In a process that is forked while a store is
open these threads are missing, and the handler crashes the process after Python's own end.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress


def _end_before_rocksdb() -> None:
    """Let `exit` call `_exit` with its status, before the handlers that are inherited."""
    libc = ctypes.CDLL(None)
    with suppress(AttributeError):  # only glibc has on_exit
        libc.on_exit(libc._exit, None)


os.register_at_fork(after_in_child=_end_before_rocksdb)
