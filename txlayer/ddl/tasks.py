"""Tasks that outlive their callers: the changes and builds of a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from hornbeam_server.schema.errors import Unavailable

_LOG = structlog.get_logger(__name__)


class Tasks:
    """The tasks that are under way."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin `work`. Its error is logged."""
        task = self._begun(work)
        task.add_done_callback(_log_failure)
        return task

    async def carry_out(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` to its end even when the caller is cancelled. Raises the errors of `work`, and
        Unavailable when this is closed before the end."""
        task = self._begun(work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_failure)  # the caller does not get its error
            caller = asyncio.current_task()
            if caller is None or caller.cancelling():
                raise
            raise Unavailable(
                "This node stopped during a change of the catalog; its outcome is unknown.",
                cure="Read the schema, and send the change again if it is missing.",
            ) from None

    def _begun(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def wait(self) -> None:
        """Return when nothing is under way. Raises the error of work that fails."""
        while self._tasks:
            done, _ = await asyncio.wait(self._tasks)
            for task in done:
                if not task.cancelled():
                    task.result()

    async def close(self) -> None:
        """Cancel all work."""
        while self._tasks:  # a change may begin builds when it ends
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.warning("a schema change has ended", error=str(error))
