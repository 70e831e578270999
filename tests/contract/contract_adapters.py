"""The adapters that the contract suites run over. A new adapter adds one entry to its table.

`reopen` tells that an adapter keeps its content when it is closed and opened again; suites that
need that run over the adapters that have it.
"""

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from storage.local.coordination import LocalCoordination
from storage.local.log import LocalLog
from storage.local.system import SystemClock
from storage.rocks.store import RocksStore
from storage.simulated.clock import SimulatedClock
from storage.simulated.log import SimulatedDisk, SimulatedLog
from storage.simulated.store import SimulatedStore


@dataclass(frozen=True)
class Adapter:
    """`open(folder, **options)` opens one in a folder of its own."""

    name: str
    open: Callable[..., Any]
    reopen: bool = False


class InMemory:
    """Opens adapters whose content is in memory: what they left is kept here, by folder."""

    def __init__(self):
        self.stores = {}
        self.disks = {}

    def store(self, folder):
        left = self.stores.get(folder)
        opened = self.stores[folder] = left.crashed() if left is not None else SimulatedStore()
        return opened

    def log(self, folder, slave, epoch, **options):
        disk = self.disks.setdefault(folder, SimulatedDisk())
        return SimulatedLog.open(disk, slave, epoch, **options)


MEMORY = InMemory()
STORES = (
    Adapter("rocks", RocksStore.open, reopen=True),
    Adapter("simulated", MEMORY.store, reopen=True),
)
LOGS = (
    Adapter("local", LocalLog.open, reopen=True),
    Adapter("simulated", MEMORY.log, reopen=True),
)
COORDINATIONS = (Adapter("local", LocalCoordination.open, reopen=True),)
CLOCKS = (
    Adapter("system", lambda folder: SystemClock()),
    Adapter("simulated", lambda folder: SimulatedClock()),
)


def over(adapters, *, reopen=False):
    """Parametrise `adapter` over those that have what a test needs."""
    able = [adapter for adapter in adapters if adapter.reopen or not reopen]
    return pytest.mark.parametrize("adapter", able, ids=lambda adapter: adapter.name)


@asynccontextmanager
async def opened(adapter, folder, *arguments, **options):
    port = adapter.open(folder, *arguments, **options)
    try:
        yield port
    finally:
        await port.close()


def run(coroutine):
    return asyncio.run(coroutine)


async def collect(batches):
    return [item for batch in [batch async for batch in batches] for item in batch]
