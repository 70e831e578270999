"""A simulated cluster: one database, the processes that serve it in turn, and all faults.

The table store, the log's disk and the coordination service live in the world; they outlive every
process. One process at a time owns the database, as far as the coordination service knows. When the
service has given the owner up (dead, frozen, cut off), the supervisor starts a successor under the
next epoch, which fences the log and recovers. The old owner may still run: a zombie.
`simulated_members` has several nodes that serve at the same time, in the same world.

Clients are part of the world. They never fail; their requests and the answers may get lost.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hornbeam_server.node.adapters import Ports
from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import Settings
from hornbeam_server.query.workers.processes import inline_worker
from hornbeam_server.schema.errors import Corruption, DiskFull, HornbeamError, Unavailable
from hornbeam_server.storage.log.files import NoRoom
from hornbeam_server.storage.log.format import scan_segment
from hornbeam_server.storage.log.segments import SegmentedLog
from hornbeam_server.storage.ports import Peers, Position
from hornbeam_server.storage.simulated import files
from hornbeam_server.storage.simulated.chaos import Chaos, Fault, Profile
from hornbeam_server.storage.simulated.clock import SimulatedClock, SimulatedIds
from hornbeam_server.storage.simulated.coordination import (
    SESSION_S,
    SimulatedCoordination,
    SimulatedRegistry,
)
from hornbeam_server.storage.simulated.files import SimulatedDisk, SimulatedFiles
from hornbeam_server.storage.simulated.loop import InlineExecutor, Process, SimulatedLoop
from hornbeam_server.storage.simulated.network import Outage, RemoteCalls, settle
from hornbeam_server.storage.simulated.store import SCAN_ROWS, SimulatedStore, SimulatedTables
from hornbeam_server.storage.source import HBaseSource, LocalLogSource, Source
from hornbeam_server.txlayer.commit.failpoints import Step, Steps, no_steps

SLAVE = "a"
SUPERVISION_S = 0.1
OWNER_TIMEOUT_S = 60.0
AT_STEP = 0.05
"""Probability of a fault just when a schema change reaches one of its steps."""
SCHEMA_STEPS = frozenset(list(Step)[list(Step).index(Step.TABLES_CREATED) :])
_OF_STORE = {"refused": Fault.STORE_REFUSED, "unknown": Fault.STORE_UNKNOWN}
ZOMBIE_S = 20.0
"""A process that was replaced is killed after this time."""


class NoAnswer(Exception):
    """The client has waited in vain: the outcome is unknown."""


class Node:
    """A process that serves the database, is about to, or did."""

    def __init__(self, process: Process, clock: SimulatedClock) -> None:
        self.process = process
        self.clock = clock
        self.services: list[RemoteCalls] = []
        """Its calls to the services."""
        self.log = ""
        """The name of the log that it commits in, once it has opened the log."""
        self.database: Database | None = None
        self.failure: BaseException | None = None
        self.replaced_at: float | None = None
        self.requests = 0
        """Requests under way."""
        self.idle = asyncio.Event()
        self.idle.set()
        self.stopping = self.refuses = False
        """`stopping`: the node is being stopped, and still works. `refuses`: it begins nothing
        new."""

    def begin(self) -> None:
        """Begin a request."""
        self.requests += 1
        self.idle.clear()

    def end(self) -> None:
        self.requests -= 1
        if not self.requests:
            self.idle.set()

    @property
    def serves(self) -> bool:
        return self.database is not None and not self.process.dead and not self.refuses

    @property
    def healthy(self) -> bool:
        """Whether the node serves, and will go on."""
        return self.serves and not self.process.frozen and self.database.ready()


class Outside(NamedTuple):
    """A process that is no node, with its connections to the store and the logs."""

    process: Process
    store: SimulatedStore
    logs: files.SimulatedLogs
    clock: SimulatedClock
    services: tuple[RemoteCalls, ...]


class WatchedLog(SegmentedLog):
    """A log that reports every corruption it meets to the world."""

    found: Callable[[Corruption], None]

    async def read(self, start: Position) -> AsyncIterator[tuple[Position, bytes]]:
        try:
            async for record in super().read(start):
                yield record
        except Corruption as error:
            self.found(error)
            raise


class Cluster:
    """`start` it, `ask` it, `heal` it, `stop` it. All inside one `SimulatedLoop`."""

    several = False
    """Whether several nodes serve at the same time."""

    def __init__(
        self,
        loop: SimulatedLoop,
        chaos: Chaos,
        *,
        segment_bytes: int = 1 << 16,
        patience_s: float = 5.0,
        scan_rows: int = SCAN_ROWS,
        calm: float = 1.0,
        **options: Any,
    ) -> None:
        """`calm` multiplies the mean time between faults that strike by themselves."""
        self.loop = loop
        self.chaos = chaos
        self.settings = Settings(data=Path("simulated"), slave=SLAVE, **_OPTIONS | options)
        self.tables = SimulatedTables()
        self.disk = SimulatedDisk()
        self.disk.fault = self._file_fault
        self.registry = SimulatedRegistry(loop.time)
        self.nodes: list[Node] = []
        self._outside: list[Process] = []
        self.stopped = 0
        """The number of nodes that were stopped in order."""
        self.steps: Steps = no_steps
        """Called with each step of the protocol that a process reaches
        (txlayer/commit/failpoints.py)."""
        self.healed = False
        self._unleashed = False
        self._logs: dict[str, dict[str, bytes]] = {}
        """Segments that have been dropped, by log and name."""
        self._flipped: tuple[str, str, int, int] | None = None
        self._mended: list[Corruption] = []
        self._unexplained: list[Corruption | str] = []
        self._segment_bytes = segment_bytes
        self._patience_s = patience_s
        self._scan_rows = scan_rows
        self._calm = calm
        self._outage = Outage()
        self._disk_full = False
        self._world: list[asyncio.Task[None]] = []

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Serve; faults begin with `unleash`."""
        self._launch()
        self._world.append(asyncio.ensure_future(self._supervise()))
        await self.leader()

    def unleash(self) -> None:
        """Let faults happen from now on."""
        self.chaos.unleash()
        self._unleashed = True
        for fault in self._strikes():
            if fault in self.chaos.profile.every_s:
                self._world.append(asyncio.ensure_future(self._strike(fault)))

    async def heal(self) -> Database:
        """End all faults and zombies; return the database as its last owner serves it."""
        self.healed = True
        self.chaos.calm()
        self._restore_bit()
        self._outage.away = self._disk_full = False
        for node in self.nodes:
            node.process.crash_after(None)
            node.process.thaw()
            for way in node.services:
                _end_lag(way)
        await asyncio.sleep(2 * SESSION_S)  # until all processes know which sessions have ended
        await self._until("no node serves", self._is_whole)
        for node in self.nodes:
            if node not in self.serving:
                node.process.crash()
        assert not self._unexplained, self._unexplained
        return await self.owner()

    @property
    def serving(self) -> list[Node]:
        """The nodes that should serve now."""
        return self.nodes[-1:]

    def _is_whole(self) -> bool:
        """Whether the cluster works as without faults."""
        return self.nodes[-1].healthy

    async def leader(self) -> Node:
        """The healthy node that changes the schema; waits until there is one."""
        await self._until("no node leads", lambda: any(map(_leads, self.serving)))
        return next(filter(_leads, self.serving))

    async def owner(self) -> Database:
        """The database of the `leader`."""
        database = (await self.leader()).database
        assert database is not None
        return database

    async def _until(self, failure: str, condition: Callable[[], bool]) -> None:
        for _ in range(round(OWNER_TIMEOUT_S / SUPERVISION_S)):
            if condition():
                return
            await asyncio.sleep(SUPERVISION_S)
        raise AssertionError(f"{failure}: {self._reported()}")

    def _reported(self) -> str:
        """The state to report when a wait fails."""
        return repr(self.nodes[-1].failure)

    async def stop(self) -> None:
        """Crash all nodes and end their tasks."""
        for task in self._world:
            task.cancel()
        for process in self._outside:
            process.crash()
            await process.bury()
        for node in self.nodes:
            node.process.crash()
        for node in self.nodes:
            await node.process.bury()
            if node.database is not None:
                node.database.engine.close()

    def outside(self, name: str) -> Outside:
        """A new process outside of the nodes, with access to the store, and to the logs to read."""
        process = self.loop.process(name)
        self._outside.append(process)
        calls = partial(RemoteCalls, self.loop, self.chaos, process)
        to_logs, to_store = calls("log"), calls("store", outage=self._outage, **_OF_STORE)

        async def carry(operation: files.Operation) -> Any:
            return await to_logs.one(operation.kind, operation.apply)

        return Outside(
            process,
            SimulatedStore(self.tables, to_store, scan_rows=self._scan_rows),
            files.SimulatedLogs(self.disk, carry=carry),
            SimulatedClock(skew_ms=self._skew()),
            (to_logs, to_store),
        )

    def whole_logs(self) -> dict[str, dict[str, bytes]]:
        """Every segment that every log ever had, by name, dropped ones included."""
        return {
            log: dropped | self._segments(log, list(self.disk.files(log)))
            for log, dropped in self._logs.items()
        }

    def _segments(self, log: str, names: Iterable[str]) -> dict[str, bytes]:
        stored = self.disk.files(log)
        return {name: self._undamaged(log, name) for name in names if name in stored}

    def _undamaged(self, log: str, name: str) -> bytes:
        """The bytes as they were written, without a bit flip since."""
        data = bytearray(self.disk.files(log)[name].data)
        if self._flipped is not None and self._flipped[:2] == (log, name):
            _, _, offset, mask = self._flipped
            data[offset] ^= mask
        return bytes(data)

    # ------------------------------------------------------------ clients

    async def ask(self, work: Callable[[Database], Awaitable[Any]]) -> Any:
        """Run `work` at the database, on the far side of a network.

        Raises HornbeamError as the database does, and NoAnswer.
        """
        node = self._addressed()
        reply = self.loop.create_future()

        def arrive() -> None:
            if not node.serves:
                answer(Unavailable("Connection refused."))
            elif not self.chaos.strikes(Fault.REQUEST_LOST):
                node.process.start(handle())

        async def handle() -> None:
            node.begin()
            try:
                result = await work(node.database)
            except Exception as error:
                result = error
            finally:
                node.end()
            if not self.chaos.strikes(Fault.REPLY_LOST):
                answer(result)

        def answer(result: Any) -> None:
            self.loop.in_world(self.chaos.latency(), lambda: settle(reply, result))

        self.loop.in_world(self.chaos.latency(), arrive)
        if self.chaos.strikes(Fault.REQUEST_TWICE):
            self.loop.in_world(self.chaos.latency(), arrive)
        try:
            async with asyncio.timeout(self._patience_s):
                return await reply
        except TimeoutError:
            raise NoAnswer from None

    async def ask_leader(self, work: Callable[[Database], Awaitable[Any]]) -> Any:
        """`ask` the node that changes the schema, whichever it is."""
        return await self.ask(work)

    def _addressed(self) -> Node:
        """Mostly the newest process; some clients do not know it yet."""
        known = [node for node in self.nodes if not node.process.dead] or self.nodes
        if len(known) > 1 and self.chaos.random.random() < 0.3:
            return self.chaos.random.choice(known)
        return known[-1]

    # ------------------------------------------------------------ processes

    def _launch(self) -> Node:
        """A new process that will serve the database."""
        process = self.loop.process(f"node {len(self.nodes) + 1}")
        clock = SimulatedClock(skew_ms=self._skew())
        node = Node(process, clock)
        self.nodes.append(node)
        self.chaos.note(f"{self.loop.time():.6f} launch")
        process.start(self._serve(node))
        return node

    def _skew(self) -> int:
        limit = self.chaos.profile.skew_ms
        if self.healed or not self.chaos.strikes(Fault.CLOCK_SKEW):
            return 0
        return self.chaos.random.randint(-limit, limit)

    async def _serve(self, node: Node) -> None:
        try:
            node.database = await self._open(node, await self._ports(node))
        except HornbeamError as error:
            node.failure = error
            if isinstance(error, Corruption) and error not in self._mended:
                self._unexplained.append(error)

    async def _open(self, node: Node, ports: Ports) -> Database:
        return await Database.start(self.settings, ports)

    async def _ports(self, node: Node) -> Ports:
        def calls(service: str, **faults: Any) -> RemoteCalls:
            way = RemoteCalls(self.loop, self.chaos, node.process, service, **faults)
            node.services.append(way)
            return way

        files_calls = calls("log")

        async def carry(operation: files.Operation) -> Any:
            if operation.kind is files.Kind.FENCE and self.chaos.strikes(Fault.FENCE_SLOW):
                await asyncio.sleep(self.chaos.between(self.chaos.profile.fence_s))
            return await files_calls.one(operation.kind, operation.apply)

        async def open_log(name: str, epoch: int, catalog_version: int) -> SegmentedLog:
            node.log = node.log or name
            self._logs.setdefault(name, {})
            log = await WatchedLog.open(
                SimulatedFiles(self.disk, name, carry=carry),
                name,
                epoch,
                catalog_version=catalog_version,
                segment_bytes=self._segment_bytes,
            )
            log.found = self._mend
            return log

        logs = files.SimulatedLogs(self.disk, carry=carry)
        store = calls("store", outage=self._outage, **_OF_STORE)
        return Ports(
            SimulatedStore(self.tables, store, scan_rows=self._scan_rows),
            await SimulatedCoordination.open(
                self.registry, calls("coordination", refused=Fault.COORDINATION_REFUSED)
            ),
            open_log,
            node.clock,
            SimulatedIds(self.chaos.random),
            InlineExecutor,
            inline_worker,
            partial(self._reached, node),
            peers=self._peers(node),
            logs=logs,
            export=_exported,
            log_source=LocalLogSource("simulated"),
            log_reader=logs,
        )

    def _peers(self, node: Node) -> Peers | None:
        """A node that serves alone has no peers."""
        return None

    def _reached(self, node: Node, step: str) -> None:
        """Strike at some steps of schema changes: both are rare, and would seldom meet by
        chance."""
        self.steps(step)
        likely = AT_STEP if step in SCHEMA_STEPS else 0.0
        if self._unleashed and not self.healed and self.chaos.random.random() < likely:
            self.loop.in_world(0.0, self._strike_any, node)

    async def _supervise(self) -> None:
        """Replace an owner that has failed, or that the coordination service has given up."""
        while True:
            await asyncio.sleep(SUPERVISION_S)
            self._end_zombies()
            node = self.nodes[-1]
            if self._has_failed(node):
                node.process.crash()
                await asyncio.sleep(self.chaos.between(self.chaos.profile.down_s))
                self._launch()
            elif node.process.dead or (node.serves and not self.registry.shows(SLAVE)):
                node.replaced_at = self.loop.time()
                self._launch()

    def _has_failed(self, node: Node) -> bool:
        """Whether the process would have ended by itself."""
        if node.process.dead or node.process.frozen:
            return False
        committer = node.database.committer if node.serves else None
        return node.failure is not None or (committer is not None and committer.failed is not None)

    def _end_zombies(self) -> None:
        for node in self.nodes[:-1]:
            since = node.replaced_at
            if since is not None and self.loop.time() - since > ZOMBIE_S:
                node.process.crash()

    # ------------------------------------------------------------ random faults

    def _strikes(self) -> Mapping[Fault, Callable[[Node], Awaitable[bool]]]:
        """Each function gets the node to strike, if its fault strikes a single process."""
        return {
            Fault.CRASH: self._crash,
            Fault.MACHINE_CRASH: self._crash_machine,
            Fault.FREEZE: self._freeze,
            Fault.LAG: self._lag,
            Fault.SESSION_EXPIRED: self._expire,
            Fault.PARTITION: self._part,
            Fault.CLOCK_JUMP: self._jump,
            Fault.STORE_AWAY: self._take_store_away,
            Fault.DISK_FULL: self._fill_disk,
            Fault.BIT_FLIP: self._flip,
        }

    async def _strike(self, fault: Fault) -> None:
        while not self.healed:
            await asyncio.sleep(self._calm * self.chaos.until_next(fault))
            if not self.healed:
                await self._strike_now(fault, self._victim())

    def _victim(self) -> Node:
        return self.nodes[-1]

    def _strike_any(self, node: Node) -> None:
        if faults := sorted(self.chaos.profile.every_s):
            fault = self.chaos.random.choice(faults)
            self._world.append(asyncio.ensure_future(self._strike_now(fault, node)))

    async def _strike_now(self, fault: Fault, node: Node) -> None:
        if await self._strikes()[fault](node):
            self.chaos.strike(fault)

    async def _crash(self, node: Node) -> bool:
        node.process.crash_after(self.chaos.random.randint(0, 200))
        return not node.process.dead

    async def _crash_machine(self, _: Node) -> bool:
        """Crash the machine with all processes. It loses a part of the unsynced data: a process
        that lived on would not know that its puts are lost."""
        for process in (*(node.process for node in self.nodes), *self._outside):
            process.crash()
        keep = self.chaos.random.random()
        self.tables.lose(lambda: self.chaos.random.random() < keep)
        self.disk.crash(self._remains)
        return True

    def _remains(self, end: files.Unsynced) -> bytes | None:
        if not end.named and self.chaos.random.random() < 0.5:
            return None
        torn = end.without_sectors(lambda _: self.chaos.random.random() < 0.5)
        return torn[: self.chaos.random.randint(0, len(torn))]

    async def _freeze(self, node: Node) -> bool:
        if not node.serves or node.process.frozen:
            return False
        node.process.freeze()
        duration = self.chaos.between(self.chaos.profile.frozen_s)
        self.loop.in_world(duration, node.process.thaw)
        return True

    async def _lag(self, node: Node) -> bool:
        """Delay calls to one service, or to several."""
        if not node.serves or any(way.lag_s for way in node.services):
            return False
        draw, lagging = self.chaos.random, self.chaos.profile.lagging
        ways = [way for way in node.services if not lagging or way.service in lagging]
        for way in draw.sample(ways, draw.randint(1, len(ways))):
            way.lag_s = self.chaos.between(self.chaos.profile.lag_s)
            lasts_s = way.lag_s + self.chaos.between(self.chaos.profile.away_s)
            self.loop.in_world(lasts_s, _end_lag, way)
        return True

    async def _part(self, node: Node) -> bool:
        """A node that serves alone cannot be parted from others."""
        return False

    async def _expire(self, node: Node) -> bool:
        return self.registry.cut_off(node.log)

    async def _jump(self, node: Node) -> bool:
        limit = self.chaos.profile.jump_ms
        node.clock.skew_ms = self.chaos.random.randint(-limit, limit)
        return True

    async def _take_store_away(self, _: Node) -> bool:
        self._outage.away = True
        await asyncio.sleep(self.chaos.between(self.chaos.profile.away_s))
        self._outage.away = False
        return True

    async def _fill_disk(self, _: Node) -> bool:
        self._disk_full = True
        await asyncio.sleep(self.chaos.between(self.chaos.profile.away_s))
        self._disk_full = False
        return True

    def _file_fault(self, operation: files.Operation) -> files.Fault | None:
        if operation.kind is files.Kind.DELETE:
            self._logs[operation.folder] |= self._segments(operation.folder, operation.names)
        if operation.kind is files.Kind.REMOVE:
            whole = list(self.disk.files(operation.folder))
            self._logs[operation.folder] |= self._segments(operation.folder, whole)
        if operation.kind not in (files.Kind.CREATE, files.Kind.APPEND, files.Kind.FINISH):
            return None
        part = self.chaos.random.randint(0, len(operation.data)) if self.chaos.fails else 0
        synced = bool(part % 2)
        if self._disk_full and part % 3 == 0:
            return files.Fault(NoRoom("The disk is full."))
        if self._disk_full:
            return files.Fault(DiskFull("The disk is full."), part, synced=synced)
        if self.chaos.strikes(Fault.LOG_REFUSED):
            return files.Fault(Unavailable("Refused."))
        if self.chaos.strikes(Fault.LOG_TORN):
            return files.Fault(Unavailable("Written in part."), part, synced=synced)
        if self.chaos.strikes(Fault.LOG_UNKNOWN):
            return files.Fault(Unavailable("No answer."), files.ALL, synced=True)
        return None

    async def _flip(self, node: Node) -> bool:
        """Flip one stored bit of a log, but not in the last append of an unsealed segment: there,
        damage looks like a write that never finished."""
        if self._flipped is not None:
            return False
        stored = self.disk.files(node.log)
        name = self.chaos.random.choice(sorted(stored)) if stored else ""
        if not name:
            return False
        data = bytes(stored[name].data[: stored[name].synced])
        try:
            scanned = scan_segment(data, name)
        except Corruption:
            return False
        ends = [offset for _, offset in scanned.frames]
        limit = len(data) if scanned.sealed else (ends[-2] if len(ends) > 1 else 0)
        if not limit:
            return False
        offset, mask = self.chaos.random.randrange(limit), 1 << self.chaos.random.randrange(8)
        self.disk.flip(node.log, name, offset, mask)
        self._flipped = (node.log, name, offset, mask)
        return True

    def _mend(self, found: Corruption) -> None:
        """Recovery has found damage: restore the bit, as an operator would from a replica."""
        if self._flipped is not None:
            self._mended.append(found)
            self._restore_bit()
        elif self.several:  # no other process drops this log
            self._unexplained.append(found)

    def _restore_bit(self) -> None:
        if self._flipped is not None:
            log, name, offset, mask = self._flipped
            if name in self.disk.files(log):
                self.disk.flip(log, name, offset, mask)
        self._flipped = None


async def _exported(_name: str) -> Source:
    """The simulated store, as external readers would find it."""
    return HBaseSource((), "simulated")


def _end_lag(way: RemoteCalls) -> None:
    way.lag_s = 0.0


def _leads(node: Node) -> bool:
    return node.healthy and node.database is not None and node.database.keeper.leads


def drawn_options(rng: random.Random) -> dict[str, Any]:
    """Options of a cluster: how long clients wait, in how many rows a scan comes, and how often old
    versions are purged. No query may last longer than the retention, so clients wait no longer."""
    patience_s = rng.choice([2.0, 12.0])
    return {
        "patience_s": patience_s,
        "snapshot_retention_s": patience_s,
        "housekeeping_interval_s": rng.choice([1.0, 3.0]),
        "scan_rows": rng.choice([8, 32, SCAN_ROWS]),
    }


_OPTIONS: dict[str, Any] = {
    "resident_refresh": False,  # unless a workload asks for it
    "housekeeping_interval_s": 2.0,
    "snapshot_retention_s": 5.0,
    "log_retention_s": 3.0,
    "query_memory_mb": 64,
    "max_clock_skew_s": 1e6,  # clocks go wrong, and no operator sets them
    "slot_idle_rate": 1,  # slots move although their load is low
}

__all__ = ["Cluster", "NoAnswer", "Node", "Profile", "drawn_options"]
