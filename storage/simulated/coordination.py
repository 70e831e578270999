"""Coordination in memory: the service `SimulatedRegistry`, and its client
`SimulatedCoordination`.

A session lives as long as its heartbeats arrive. The process that holds the session counts its
time-out from the time at which it *sent* the last answered heartbeat. So the process stops relying
on the session before the service ends it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from hornbeam_server.schema.errors import StalePlan, Unavailable
from hornbeam_server.storage.ports import Versioned
from hornbeam_server.storage.simulated.network import AtOnce, Calls

SESSION_S = 3.0
HEARTBEAT_S = 0.5


@dataclass
class _Session:
    heard: float
    deaf: bool = False
    notified: int = 0
    members: dict[str, bytes] = field(default_factory=dict)


class SimulatedRegistry:
    """The coordination service. `time` returns seconds."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._values: dict[str, Versioned] = {}
        self._sessions: dict[int, _Session] = {}
        self._numbers = itertools.count(1)
        self._changes = 0
        """Number of changes of values and members, by all sessions."""

    def news(self, session: int, *, late: bool) -> int:
        """The number of changes of which the holder of `session` has been notified; -1 if the
        session has ended. It stays the same while the service does not hear the session, and while
        notifications are `late`."""
        self._end_silent()
        known = self._sessions.get(session)
        if known is None:
            return -1
        if not (known.deaf or late):
            known.notified = self._changes
        return known.notified

    def open_session(self) -> int:
        number = next(self._numbers)
        self._sessions[number] = _Session(self._time())
        return number

    def heartbeat(self, session: int) -> bool:
        """Extend the session; False if it has ended. Raises Unavailable if the service does not
        hear it."""
        self._end_silent()
        if session not in self._sessions:
            return False
        if self._sessions[session].deaf:
            raise Unavailable("The coordination service does not hear this session.")
        self._sessions[session].heard = self._time()
        return True

    def end(self, session: int) -> None:
        """End the session at the request of its holder."""
        self._sessions.pop(session, None)
        self._changes += 1

    def cut_off(self, member: str) -> bool:
        """From now on ignore the heartbeats of all sessions that joined as `member`, so that they
        end after their time-out. False if there are none."""
        found = [s for s in self._sessions.values() if member in s.members and not s.deaf]
        for session in found:
            session.deaf = True
        return bool(found)

    def read(self, path: str) -> Versioned | None:
        return self._values.get(path)

    def write(self, path: str, value: bytes, expected: int) -> int:
        known = self._values.get(path)
        current = known.version if known is not None else 0
        if current != expected:
            raise StalePlan(f"{path} is at version {current}, not {expected}.")
        self._values[path] = Versioned(value, current + 1)
        self._changes += 1
        return current + 1

    def join(self, session: int, member: str, data: bytes = b"") -> None:
        self._end_silent()
        if session not in self._sessions:
            raise Unavailable("The session has ended.")
        self._sessions[session].members[member] = data
        self._changes += 1

    def leave(self, session: int, member: str) -> None:
        if session in self._sessions:
            self._sessions[session].members.pop(member, None)
            self._changes += 1

    def members(self) -> dict[str, bytes]:
        self._end_silent()
        shown = [shown for s in self._sessions.values() for shown in s.members.items()]
        return dict(sorted(shown))

    def shows(self, member: str) -> bool:
        """True if `member` is among the `members`."""
        self._end_silent()
        return any(member in session.members for session in self._sessions.values())

    def _end_silent(self) -> None:
        now = self._time()
        for number, session in list(self._sessions.items()):
            if now - session.heard >= SESSION_S:
                del self._sessions[number]
                self._changes += 1


class SimulatedCoordination:
    """A `Coordination`: one process's session."""

    def __init__(self, registry: SimulatedRegistry, session: int, sent: float,
                 calls: Calls) -> None:  # fmt: skip
        self._registry = registry
        self._session = session
        self._calls = calls
        self._sure_until = sent + SESSION_S
        self._closed = False
        self._beating = asyncio.ensure_future(self._beat())

    @classmethod
    async def open(
        cls, registry: SimulatedRegistry, calls: Calls | None = None
    ) -> SimulatedCoordination:
        """Begin a session. Raises Unavailable."""
        calls, sent = calls or AtOnce(), asyncio.get_running_loop().time()
        session = await calls.one("open_session", registry.open_session)
        return cls(registry, session, sent, calls)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            sent = loop.time()
            try:
                lives = await self._calls.one(
                    "heartbeat", lambda: self._registry.heartbeat(self._session)
                )
            except Unavailable:
                lives = True  # unknown; `_sure_until` stays true
            else:
                self._sure_until = sent + SESSION_S
            if not lives:
                self._sure_until = 0.0
                return
            await asyncio.sleep(HEARTBEAT_S)

    @property
    def news(self) -> int:
        return self._registry.news(self._session, late=self._calls.late)

    def alive(self) -> bool:
        return not self._closed and asyncio.get_running_loop().time() < self._sure_until

    async def read(self, path: str) -> Versioned | None:
        return await self._calls.one("read", lambda: self._registry.read(path))

    async def write(self, path: str, value: bytes, expected: int) -> int:
        return await self._calls.one("write", lambda: self._registry.write(path, value, expected))

    async def join(self, member: str, data: bytes = b"") -> None:
        await self._calls.one("join", lambda: self._registry.join(self._session, member, data))

    async def leave(self, member: str) -> None:
        await self._calls.one("leave", lambda: self._registry.leave(self._session, member))

    async def members(self) -> dict[str, bytes]:
        return await self._calls.one("members", self._registry.members)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._beating.cancel()
        await self._calls.one("close", lambda: self._registry.end(self._session))
