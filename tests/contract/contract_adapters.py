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
from storage.simulated.store import SimulatedStore


@dataclass(frozen=True)
class Adapter:
    """`open(folder, **options)` opens one in a folder of its own."""

    name: str
    open: Callable[..., Any]
    reopen: bool = False


STORES = (
    Adapter("rocks", RocksStore.open, reopen=True),
    Adapter("simulated", lambda folder: SimulatedStore()),
)
LOGS = (Adapter("local", LocalLog.open, reopen=True),)
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
