"""Coroutine tests in virtual time."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from hornbeam_server.storage.simulated.loop import run_simulated


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, object]]) -> Callable[..., None]:
    """Run a coroutine test on the simulated loop, where time passes only while every task waits."""

    @wraps(test)
    def plain(**fixtures: Any) -> None:
        run_simulated(test(**fixtures))

    return plain
