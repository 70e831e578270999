"""Calls across process boundaries: they take time, overtake one another, and fail in every way.

A call has an *effect*: a plain function that runs outside of every process when the request
arrives, whether or not the caller still lives. So requests of a process that crashed or froze still
take effect, as on a network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.simulated.chaos import Chaos, Fault
from hornbeam_server.storage.simulated.loop import Process, SimulatedLoop

T = TypeVar("T")
Effect = Callable[[], T]


class Calls(Protocol):
    """The calls of an adapter to its service."""

    @property
    def late(self) -> bool:
        """True while answers and notifications of the service arrive late."""

    async def one(self, name: str, effect: Effect[T]) -> T:
        """The result of `effect`. Raises Unavailable; the outcome is then unknown."""

    async def many(self, name: str, effects: Sequence[Effect[None]]) -> None:
        """Run all `effects`, in any order and not atomically. After Unavailable any of them may
        have taken place."""


class AtOnce:
    """Calls to a service inside the process, which never fails. Other tasks run before the effect
    does."""

    late = False

    async def one(self, name: str, effect: Effect[T]) -> T:
        await asyncio.sleep(0)
        return effect()

    async def many(self, name: str, effects: Sequence[Effect[None]]) -> None:
        await asyncio.sleep(0)
        for effect in effects:
            effect()


class Outage:
    """The state of a service; while it is `away`, it refuses every call."""

    def __init__(self) -> None:
        self.away = False


URGENT = frozenset({"heartbeat"})
"""Calls that no lag delays."""
PARTS = 3
"""`many` splits its effects into so many messages at most."""


def _run(effects: Sequence[Effect[None]]) -> None:
    for effect in effects:
        effect()


class RemoteCalls:
    """The calls of one process to one service.

    The fault `refused` fails a call before its effect, `unknown` after it. A service that is away
    refuses every call when the request arrives.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        chaos: Chaos,
        process: Process,
        service: str,
        *,
        refused: Fault | None = None,
        unknown: Fault | None = None,
        outage: Outage | None = None,
    ) -> None:
        self._loop = loop
        self._chaos = chaos
        self._process = process
        self.service = service
        self._refused = refused
        self._unknown = unknown
        self._outage = outage or Outage()
        self.lag_s = 0.0
        """Maximum additional delay of an answer, in seconds."""

    @property
    def late(self) -> bool:
        return bool(self.lag_s)

    async def one(self, name: str, effect: Effect[T]) -> T:
        reply = self._sent(name, effect)
        result: T = await reply
        return result

    async def many(self, name: str, effects: Sequence[Effect[None]]) -> None:
        parts: list[list[Effect[None]]] = [[] for _ in range(PARTS)]
        for effect in effects:
            self._chaos.random.choice(parts).append(effect)
        await asyncio.gather(*[self._sent(name, partial(_run, part)) for part in parts if part])

    def _sent(self, name: str, effect: Effect[T]) -> asyncio.Future[Any]:
        if self._process.dead:
            raise asyncio.CancelledError
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._loop.in_world(self._chaos.latency(), self._arrive, name, effect, reply)
        return reply

    def _arrive(self, name: str, effect: Effect[Any], reply: asyncio.Future[Any]) -> None:
        self._chaos.note(f"{self._loop.time():.6f} {self._process.name} {name}")
        result = self._taken_effect(name, effect)
        lag_s = self._chaos.random.uniform(0, self.lag_s) if self._lags(name) else 0.0
        self._loop.in_world(self._chaos.latency() + lag_s, settle, reply, result)

    def _lags(self, name: str) -> bool:
        return bool(self.lag_s) and name not in URGENT

    def _taken_effect(self, name: str, effect: Effect[Any]) -> Any:
        """Run `effect`, if no fault refuses the call. Returns the result or the error for the
        caller."""
        if self._outage.away or (self._refused and self._chaos.strikes(self._refused)):
            return Unavailable(f"The {self.service} refused {name}.")
        try:
            result = effect()
        except Exception as error:
            result = error
        if self._unknown and self._chaos.strikes(self._unknown):
            return Unavailable(f"The {self.service} has not answered {name}.")
        return result


def settle(reply: asyncio.Future[Any], result: Any) -> None:
    if reply.done():  # the caller was cancelled
        return
    if isinstance(result, BaseException):
        reply.set_exception(result)
        reply.exception()  # marks it as retrieved: the caller may be dead
    else:
        reply.set_result(result)
