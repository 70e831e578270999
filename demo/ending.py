"""Ends a command of benchmarks, demos and tests in good order when it is terminated (SIGTERM)."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 128 + signal.SIGTERM
"""The exit code of a command that SIGTERM has ended, as a shell reports it."""


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM interrupt the block as Ctrl-C does, so that the block stops what it has started.
    The process then exits with `TERMINATED`. Later SIGTERMs do not disturb the stopping."""
    terminated = False

    def interrupt(_: int, frame: FrameType | None) -> None:
        nonlocal terminated
        if terminated:
            return
        terminated = True
        on_interrupt = signal.getsignal(signal.SIGINT)  # asyncio has its own while it runs
        if not callable(on_interrupt):  # a shell lets commands in its background ignore SIGINT
            raise KeyboardInterrupt
        on_interrupt(signal.SIGINT, frame)

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if terminated:
            sys.exit(TERMINATED)
        raise
