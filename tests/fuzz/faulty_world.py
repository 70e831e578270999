"""A served database whose store, log and coordination fail as the simulation's do, in real time.

The services outlive the database. Whenever its log fails, the node ends its term and begins
another. Requests in progress may then have any outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from hornbeam_server.api.rest.app import create_app
from hornbeam_server.node.adapters import Ports
from hornbeam_server.node.database import Database
from hornbeam_server.node.node import Node, Serving
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import DiskFull, Unavailable
from hornbeam_server.storage.local.system import RandomIds, SystemClock
from hornbeam_server.storage.log.files import NoRoom
from hornbeam_server.storage.log.segments import SegmentedLog
from hornbeam_server.storage.simulated import files
from hornbeam_server.storage.simulated.chaos import Chaos, Fault, Profile
from hornbeam_server.storage.simulated.coordination import SimulatedCoordination, SimulatedRegistry
from hornbeam_server.storage.simulated.network import Outage
from hornbeam_server.storage.simulated.store import SimulatedStore, SimulatedTables
from hornbeam_server.storage.tcp.peers import TcpPeers
from tests.api.api_world import World, serving

PROFILE = Profile(
    latency_ms=(0.0, 0.2),
    slow_ms=(10.0, 200.0),
    away_s=(0.05, 0.5),
    rate={
        Fault.SLOW: 0.005,
        Fault.STORE_REFUSED: 0.01,
        Fault.STORE_UNKNOWN: 0.01,
        Fault.LOG_REFUSED: 0.06,
        Fault.LOG_UNKNOWN: 0.06,
        Fault.LOG_TORN: 0.06,
        Fault.COORDINATION_REFUSED: 0.05,
    },
    every_s={Fault.STORE_AWAY: 3.0, Fault.DISK_FULL: 4.0},
)


class FailingCalls:
    """`Calls` that take real time and fail as `chaos` decides."""

    late = False

    def __init__(
        self,
        chaos: Chaos,
        service: str,
        *,
        refused: Fault | None = None,
        unknown: Fault | None = None,
        outage: Outage | None = None,
    ) -> None:
        self._chaos = chaos
        self._service = service
        self._refused = refused
        self._unknown = unknown
        self._outage = outage or Outage()

    async def one(self, name: str, effect: Callable[[], Any]) -> Any:
        await asyncio.sleep(self._chaos.latency())
        if self._outage.away or (self._refused and self._chaos.strikes(self._refused)):
            raise Unavailable(f"The {self._service} refused {name}.")
        result = effect()
        await asyncio.sleep(self._chaos.latency())
        if self._unknown and self._chaos.strikes(self._unknown):
            raise Unavailable(f"The {self._service} has not answered {name}.")
        return result

    async def many(self, name: str, effects: Sequence[Callable[[], None]]) -> None:
        await asyncio.gather(*[self.one(name, effect) for effect in effects])


class Services:
    """The services of a database, and their faults. All calls belong to one event loop."""

    def __init__(self, chaos: Chaos, settings: Settings) -> None:
        self.chaos = chaos
        self.settings = settings
        self._tables = SimulatedTables()
        self._disk = files.SimulatedDisk()
        self._disk.fault = self._file_fault
        self._registry = SimulatedRegistry(asyncio.get_running_loop().time)
        self._outage = Outage()
        self._disk_full = False
        self._serving = Serving()
        self._node: asyncio.Task[None]
        self._tasks: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[FastAPI]:
        """Run a node that serves again after every failure; yield its application."""
        await self._start()
        try:
            yield create_app(self.settings, self._serving)
        finally:
            await self._stop()

    async def unleash(self) -> None:
        """Begin to inject faults."""
        self.chaos.unleash()
        self._tasks.append(asyncio.ensure_future(self._take_store_away()))
        self._tasks.append(asyncio.ensure_future(self._fill_disk()))

    async def heal(self) -> None:
        """Stop injecting faults, and serve the stored data with a new node."""
        await self._stop()
        await self._start()

    # ------------------------------------------------------------ the node

    async def _start(self) -> None:
        """Start a node; return when it serves."""
        node = Node(self._serving, self._join, SystemClock())
        self._node = asyncio.ensure_future(node.run())
        while self._serving.database is None:
            if self._node.done():
                self._node.result()
            await asyncio.sleep(0.02)

    async def _stop(self) -> None:
        """Stop injecting faults, and end the node."""
        self.chaos.calm()
        self._outage.away = self._disk_full = False
        for task in (*self._tasks, self._node):
            task.cancel()
        await asyncio.wait((*self._tasks, self._node))
        self._tasks.clear()

    async def _connect(self) -> SimulatedCoordination:
        calls = FailingCalls(self.chaos, "coordination", refused=Fault.COORDINATION_REFUSED)
        return await SimulatedCoordination.open(self._registry, calls)

    async def _join(self) -> Database:
        log = FailingCalls(self.chaos, "log")

        async def carry(operation: files.Operation) -> Any:
            return await log.one(operation.kind, operation.apply)

        async def open_log(name: str, epoch: int, catalog_version: int) -> SegmentedLog:
            return await SegmentedLog.open(
                files.SimulatedFiles(self._disk, name, carry=carry),
                name,
                epoch,
                catalog_version=catalog_version,
                segment_bytes=1 << 16,
            )

        store = FailingCalls(
            self.chaos,
            "store",
            refused=Fault.STORE_REFUSED,
            unknown=Fault.STORE_UNKNOWN,
            outage=self._outage,
        )
        return await Database.join(
            self.settings,
            Ports(
                SimulatedStore(self._tables, store),
                await self._connect(),
                open_log,
                SystemClock(),
                RandomIds(),
                peers=TcpPeers("fuzzed", b""),
            ),
            "http://node",
        )

    # ------------------------------------------------------------ faults over time

    async def _take_store_away(self) -> None:
        while True:
            await asyncio.sleep(self.chaos.until_next(Fault.STORE_AWAY))
            self.chaos.strike(Fault.STORE_AWAY)
            self._outage.away = True
            await asyncio.sleep(self.chaos.between(self.chaos.profile.away_s))
            self._outage.away = False

    async def _fill_disk(self) -> None:
        while True:
            await asyncio.sleep(self.chaos.until_next(Fault.DISK_FULL))
            self.chaos.strike(Fault.DISK_FULL)
            self._disk_full = True
            await asyncio.sleep(self.chaos.between(self.chaos.profile.away_s))
            self._disk_full = False

    def _file_fault(self, operation: files.Operation) -> files.Fault | None:
        if operation.kind not in (files.Kind.CREATE, files.Kind.APPEND, files.Kind.FINISH):
            return None
        part = self.chaos.random.randint(0, len(operation.data))
        if self._disk_full and part % 3 == 0:
            return files.Fault(NoRoom("The disk is full."))
        if self._disk_full:
            return files.Fault(DiskFull("The disk is full."), part)
        if self.chaos.strikes(Fault.LOG_REFUSED):
            return files.Fault(Unavailable("Refused."))
        if self.chaos.strikes(Fault.LOG_TORN):
            return files.Fault(Unavailable("Written in part."), part)
        if self.chaos.strikes(Fault.LOG_UNKNOWN):
            return files.Fault(Unavailable("No answer."), files.ALL, synced=True)
        return None


@contextlib.contextmanager
def faulty_world(folder: Path, seed: int, **options: Any) -> AsyncIterator[tuple[World, Services]]:
    """Yield a client and the services behind its server; no fault occurs before `unleash`."""
    settings = Settings(data=folder / "data", **options)
    made: list[Services] = []

    @contextlib.asynccontextmanager
    async def application() -> AsyncIterator[FastAPI]:
        made.append(Services(Chaos(seed, PROFILE), settings))
        async with made[0].running() as app:
            yield app

    with serving(application) as world:
        yield world, made[0]
