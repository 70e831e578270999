"""A world for crashes: the state that outlives a process, and the life of one process on it.

Fault model. A process dies at one *point* of its life and nothing of it runs after that: at a named
step of the protocol (`txlayer.commit.failpoints`), just before or just after any one effect on
store, log files or coordination, half way through a write of a file, or between any two callbacks
of the event loop. Its machine may die with it: then nothing unsynced is left, or an arbitrary part
of its rows and sectors.

Everything else succeeds, takes no time, and happens in the same order each time. So two lives that
begin on the same world and are cut at different points agree up to the earlier one, and one whole
life shows all points.
"""

from __future__ import annotations

import asyncio
import pickle
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from hornbeam_server.node.adapters import Ports
from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import Settings
from hornbeam_server.query.workers.processes import inline_worker
from hornbeam_server.storage.log.segments import SegmentedLog
from hornbeam_server.storage.simulated.clock import START_MS, SimulatedClock, SimulatedIds
from hornbeam_server.storage.simulated.coordination import SimulatedCoordination, SimulatedRegistry
from hornbeam_server.storage.simulated.files import (
    Kind,
    Operation,
    SimulatedDisk,
    SimulatedFiles,
    SimulatedLogs,
    Unsynced,
)
from hornbeam_server.storage.simulated.loop import InlineExecutor, Process, run_simulated
from hornbeam_server.storage.simulated.store import SimulatedStore, SimulatedTables
from hornbeam_server.storage.source import LocalLogSource

SLAVE = "a"
POLL_S = 1.0
CLOCK_BACK_MS = 3_600_000
WRITES = {"put", "check_and_put", "flush", "create_table", "drop_table", "purge", "write", "join"}
"""Calls of store and coordination that have an effect."""
FILE_WRITES = {Kind.CREATE, Kind.APPEND, Kind.FINISH}
NOBODY_READS = {Kind.NAMES, Kind.READ, Kind.TAIL}


SETTINGS = Settings(
    data=Path("simulated"),
    slave=SLAVE,
    housekeeping_interval_s=3_600,
    snapshot_retention_s=0.5,
    log_retention_s=0,
)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _no_fault(_: Operation) -> None:
    return None


class World:
    """The state that outlives a process. It can be stored as bytes (`image`), to be kept and
    copied."""

    def __init__(self) -> None:
        self.tables = SimulatedTables()
        self.disk = SimulatedDisk()
        self.disk.fault = _no_fault
        self.registry = SimulatedRegistry(_now)
        self.wall_ms = START_MS
        self.lives = 0

    @staticmethod
    def of(image: bytes) -> World:
        found: World = pickle.loads(image)
        return found

    def image(self) -> bytes:
        return pickle.dumps(self)

    def lose(self, seed: int) -> None:
        """Crash the machine. Seed 0 keeps nothing unsynced, other seeds keep a part."""
        rng = random.Random(seed)
        share = rng.random() if seed else 0.0
        self.tables.lose(lambda: rng.random() < share)

        def remains(end: Unsynced) -> bytes | None:
            if rng.random() >= share:
                return b"" if end.named else None
            torn = end.without_sectors(lambda _: rng.random() >= share)
            return torn[: rng.randint(0, len(torn))]

        self.disk.crash(remains)


@lru_cache(1_000)
def left(image: bytes, machine: int | None) -> bytes:
    """The world that the next process finds. With `machine` None the machine survives. Otherwise it
    is the seed of the loss, and the clock comes back an hour behind."""
    if machine is None:
        return image
    world = World.of(image)
    world.lose(machine)
    world.wall_ms -= CLOCK_BACK_MS
    return world.image()


@dataclass
class Life:
    """The record of one process: the points that it passed, and its answers."""

    points: list[str] = field(default_factory=list)
    """The points in order; steps of the protocol are `Step`s."""
    started: int = 0
    """The number of points before the end of `Database.start`."""
    crashed: bool = False
    answers: dict[int, Any] = field(default_factory=dict)
    """The acknowledged answers, by number."""
    seen_ts: int = 0
    """The latest snapshot at which a client may have read."""


Work = Callable[[Database, Life], Awaitable[None]]


class _Calls:
    """A process's calls to a service. A call that writes has a point before its first effect and a
    point after each effect."""

    late = False

    def __init__(self, process: Process, reach: Callable[[str], None]) -> None:
        self._process = process
        self._reach = reach

    async def one(self, name: str, effect: Callable[[], Any]) -> Any:
        (found,) = await self._all(name, [effect])
        return found

    async def many(self, name: str, effects: Sequence[Callable[[], None]]) -> None:
        await self._all(name, effects)

    async def _all(self, name: str, effects: Sequence[Callable[[], Any]]) -> list[Any]:
        found = []
        for effect in effects:
            await asyncio.sleep(0)
            _require_alive(self._process)
            if name in WRITES and not found:  # the next effect begins where the one before ended
                self._reach(f"before {name}")
            found.append(effect())
            if name in WRITES:
                self._reach(f"after {name}")
        return found


def _require_alive(process: Process) -> None:
    """Cancel the task of a dead process, so that its unwinding does not change the world."""
    if process.dead:
        raise asyncio.CancelledError


def live(
    world: World,
    work: Work,
    *,
    crash_at: int | None = None,
    callbacks: int | None = None,
    settings: Settings = SETTINGS,
) -> Life:
    """Run one process on `world`: `Database.start`, then `work`. The process dies at the point with
    the number `crash_at`, after so many `callbacks` of the event loop, or when its work is done.

    Points are counted from the start of the process. Raises what the work raises.
    """
    return run_simulated(_live(world, work, crash_at, callbacks, settings))


async def _live(
    world: World, work: Work, crash_at: int | None, callbacks: int | None, settings: Settings
) -> Life:
    loop = asyncio.get_running_loop()
    process, clock = loop.process("process"), SimulatedClock(start_ms=world.wall_ms)
    mortal = _Mortal(world, process, crash_at, settings)
    world.lives += 1
    ids = SimulatedIds(random.Random(world.lives))
    process.crash_after(callbacks)
    task = process.start(mortal.run(work, clock, ids))
    while not (task.done() or process.dead):
        await asyncio.wait({task}, timeout=POLL_S)
    mortal.life.crashed = process.dead
    process.crash()
    await process.bury()
    if mortal.database is not None:
        mortal.database.engine.close()
    world.wall_ms = clock.wall_ms() + 1
    if not mortal.life.crashed:
        task.result()
    assert not loop.uncaught, loop.uncaught
    return mortal.life


class _Mortal:
    """A process on a world, which records its life and dies at the point `crash_at`."""

    def __init__(
        self, world: World, process: Process, crash_at: int | None, settings: Settings
    ) -> None:
        self.life = Life()
        self.database: Database | None = None
        self._world = world
        self._process = process
        self._crash_at = crash_at
        self._settings = settings

    async def run(self, work: Work, clock: SimulatedClock, ids: SimulatedIds) -> None:
        calls = _Calls(self._process, self._reach)
        ports = Ports(
            SimulatedStore(self._world.tables, calls),
            await SimulatedCoordination.open(self._world.registry, calls),
            self._open_log,
            clock,
            ids,
            InlineExecutor,
            inline_worker,
            self._reach,
            log_source=LocalLogSource("simulated"),
            log_reader=SimulatedLogs(self._world.disk, carry=self._carry),
        )
        self.database = await Database.start(self._settings, ports)
        self.life.started = len(self.life.points)
        await work(self.database, self.life)

    def _reach(self, point: str, at_death: Callable[[], object] = lambda: None) -> None:
        """Pass a point, or die there; `at_death` is the last effect on the world."""
        _require_alive(self._process)
        if self.database is not None:
            readable = self.database.committer.readable()
            self.life.seen_ts = max(self.life.seen_ts, readable)
        self.life.points.append(point)
        if len(self.life.points) - 1 == self._crash_at:
            at_death()
            self._process.crash()
            raise asyncio.CancelledError

    async def _open_log(self, name: str, epoch: int, catalog_version: int) -> SegmentedLog:
        files = SimulatedFiles(self._world.disk, SLAVE, carry=self._carry)
        return await SegmentedLog.open(files, SLAVE, epoch, catalog_version=catalog_version)

    async def _carry(self, operation: Operation) -> Any:
        """Apply an operation on a file, with a point before, after, and half way through a
        write."""
        await asyncio.sleep(0)
        _require_alive(self._process)
        if operation.kind in NOBODY_READS:
            return operation.apply()
        self._reach(f"before {operation.kind}")
        if operation.kind in FILE_WRITES:
            half = len(operation.data) // 2
            self._reach(
                f"half {operation.kind}",
                lambda: operation.disk.perform(operation, half, synced=False),
            )
        found = operation.apply()
        self._reach(f"after {operation.kind}")
        await asyncio.sleep(0)
        return found
