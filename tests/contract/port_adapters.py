"""All adapters by port, for the contract suites: a new adapter adds one line here.

A *place* is where an adapter keeps its content: opening it again finds what was there before.
What an adapter cannot do is declared in `lacks`; suites choose their adapters by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from storage.local.coordination import LocalCoordination
from storage.local.log import LocalLog
from storage.local.system import SystemClock
from storage.ports import Clock, Coordination, Log, TableStore
from storage.rocks.store import RocksStore
from storage.simulated.clock import SimulatedClock
from storage.simulated.log import SimulatedDisk, SimulatedLog
from storage.simulated.store import SimulatedStore

P = TypeVar("P")


@dataclass(frozen=True)
class Adapter(Generic[P]):
    """How to open one adapter of port `P`. `prepare` makes a place out of a new folder."""

    name: str
    prepare: Callable[[Path], Any]
    open: Callable[..., Awaitable[P]]
    lacks: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name


class Place(Generic[P]):
    """An adapter in a folder of its own."""

    def __init__(self, adapter: Adapter[P], folder: Path) -> None:
        self.adapter = adapter
        self._state = adapter.prepare(folder)

    @asynccontextmanager
    async def opened(self, **options: Any) -> AsyncIterator[P]:
        port: Any = await self.adapter.open(self._state, **options)
        try:
            yield port
        finally:
            await port.close()


async def _rocks(folder: Path) -> TableStore:
    return RocksStore.open(folder)


class _Memory:
    """Content of a simulated store between two openings."""

    def __init__(self, _folder: Path) -> None:
        self.store = SimulatedStore()

    async def open(self) -> TableStore:
        self.store = self.store.crashed()
        return self.store


async def _local_log(folder: Path, **options: Any) -> Log:
    return LocalLog.open(folder, "s1", **options)


async def _simulated_log(disk: SimulatedDisk, **options: Any) -> Log:
    return SimulatedLog.open(disk, "s1", **options)


async def _local_coordination(folder: Path) -> Coordination:
    return LocalCoordination.open(folder)


STORES: tuple[Adapter[TableStore], ...] = (
    Adapter("rocks", lambda folder: folder, _rocks),
    Adapter("simulated", _Memory, _Memory.open),
)
LOGS: tuple[Adapter[Log], ...] = (
    Adapter("local", lambda folder: folder, _local_log),
    Adapter("simulated", lambda _: SimulatedDisk(), _simulated_log),
)
COORDINATIONS: tuple[Adapter[Coordination], ...] = (
    Adapter("local", lambda folder: folder, _local_coordination),
)


async def _system_pass(seconds: float) -> None:
    await asyncio.sleep(seconds)


@dataclass(frozen=True)
class ClockAdapter:
    """A clock, and how its time passes."""

    name: str
    make: Callable[[], tuple[Clock, Callable[[float], Awaitable[None]]]]

    def __str__(self) -> str:
        return self.name


def _simulated_clock() -> tuple[Clock, Callable[[float], Awaitable[None]]]:
    clock = SimulatedClock()
    return clock, clock.advance


CLOCKS = (
    ClockAdapter("system", lambda: (SystemClock(), _system_pass)),
    ClockAdapter("simulated", _simulated_clock),
)
