"""The sessions of a node: their numbers, what each does, and how other sessions end them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hornbeam_server.pgwire.codec import requests as asked
from hornbeam_server.pgwire.server.channel import cancelled
from hornbeam_server.pgwire.server.inside import Inside
from hornbeam_server.pgwire.session.conversation import Conversation
from hornbeam_server.pgwire.session.failures import CANCELLED, Failure
from hornbeam_server.query.system.asking import Backend
from hornbeam_server.storage.ports import Ids

_HIGHEST = 0x7FFF_FFFF
_SECRET_BYTES = 4
_SHOWN = 1_024
"""Characters of a statement that others see, as PostgreSQL shows at first."""
_RUNNING = asked.Query | asked.Parse | asked.Bind | asked.Execute
_STATES = {
    b"I": "idle",
    b"T": "idle in transaction",
    b"E": "idle in transaction (aborted)",
}


@dataclass(eq=False)
class Served:
    """One session. `key` is the id of its API key; `administers`: may it end all sessions? `task`
    serves it."""

    pid: int
    secret: bytes
    user: str
    key: str
    administers: bool
    client: tuple[str, int]
    inside: Inside
    conversation: Conversation
    application: Callable[[], str]
    task: asyncio.Task[Any]
    now_ms: Callable[[], int]
    began_ms: int
    changed_ms: int
    active: bool = False
    query_ms: int | None = None
    transaction_ms: int | None = None

    def asks(self, request: asked.Request) -> None:
        """Note that a request begins to be answered."""
        if not isinstance(request, _RUNNING):
            return
        self.query_ms = self.now_ms()
        if not self.active:
            self.active, self.changed_ms = True, self.query_ms

    def answered(self, request: asked.Request) -> None:
        """Note the end of a request: after Query and Sync the session waits for its client."""
        if not isinstance(request, asked.Query | asked.Sync):
            return
        self.active, self.changed_ms = False, self.now_ms()
        if self.conversation.status == b"I":
            self.transaction_ms = None
        elif self.transaction_ms is None:
            self.transaction_ms = self.query_ms

    def shown(self) -> Backend:
        began = self.transaction_ms
        return Backend(
            self.pid,
            self.key,
            self.user,
            self.application(),
            self.client,
            self.began_ms,
            self.query_ms if began is None and self.active else began,
            self.query_ms,
            self.changed_ms,
            "active" if self.active else _STATES[self.conversation.status],
            self.conversation.sql[:_SHOWN],
        )


class Backends:
    """All sessions of a node by their numbers, which begin anywhere: so that the number of a
    session of another node is hardly one of this node."""

    def __init__(self) -> None:
        self._by_pid: dict[int, Served] = {}
        self._last = 0

    def new_key(self, ids: Ids) -> tuple[int, bytes]:
        """A number that no session has, and the secret with which its client may cancel its
        statements."""
        drawn = bytes.fromhex(ids.new())
        self._last = self._last or int.from_bytes(drawn[-4:]) % _HIGHEST
        self._last = self._last % _HIGHEST + 1
        return self._last, drawn[:_SECRET_BYTES]

    def add(self, session: Served) -> None:
        self._by_pid[session.pid] = session

    def remove(self, session: Served) -> None:
        del self._by_pid[session.pid]

    def get(self, pid: int) -> Served | None:
        return self._by_pid.get(pid)

    def shown(self) -> list[Backend]:
        """The sessions as `pg_stat_activity` has them."""
        return [each.shown() for each in self._by_pid.values()]

    def cancel(self, request: asked.Cancel) -> None:
        """Carry out a CancelRequest, whose sender has to know the secret."""
        found = self._by_pid.get(request.process)
        if found is not None and found.secret == request.secret:
            found.inside.cancel()


class SessionSignals:
    """The `Signals` of one session. `warn` sends a warning to its client."""

    def __init__(
        self, backends: Backends, own: Callable[[], Served], warn: Callable[[str], None]
    ) -> None:
        self._backends = backends
        self._own = own
        self._warn = warn

    async def signal(self, function: str, arguments: str) -> bool:
        number, _, timeout = arguments.partition(" ")
        own, target = self._own(), self._backends.get(int(number))
        if int(timeout or 0) < 0:
            raise Failure("22003", "The time limit of pg_terminate_backend is negative.")
        if target is None:
            self._warn(f"PID {number} is not a PostgreSQL backend process.")
            return False
        if not own.administers and own.key != target.key:
            raise Failure(
                "42501",
                f"This API key may end its own sessions only, and {number} is another key's.",
                "Ask an administrator.",
            )
        if function == "pg_cancel_backend":
            return _cancel(own, target)
        return await self._terminate(own, target, int(timeout or 0))

    async def _terminate(self, own: Served, target: Served, timeout_ms: int) -> bool:
        target.task.cancel()
        if target is own:
            await asyncio.sleep(0)  # the cancellation comes here
        if not timeout_ms:
            return True
        waiting = asyncio.wait({target.task}, timeout=timeout_ms / 1000)
        _, left = await own.inside.unless_cancelled(waiting)
        if left:
            self._warn(f"Backend with PID {target.pid} did not terminate within {timeout_ms} ms.")
        return not left


def _cancel(own: Served, target: Served) -> bool:
    if target is own:
        raise cancelled(CANCELLED)
    target.inside.cancel()
    return True
