"""Assembly of a node from settings and adapters: a node that serves alone, or a member."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from hornbeam_server.node.adapters import Ports
from hornbeam_server.node.settings import Settings
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.workers.control import Options
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Corruption, Unavailable
from hornbeam_server.storage.codec.folds import LANES
from hornbeam_server.storage.codec.implementation import implementation
from hornbeam_server.storage.ports import START, Coordination, Log, Peers
from hornbeam_server.storage.tables import create_tables
from hornbeam_server.txlayer.cluster import assignment
from hornbeam_server.txlayer.cluster.assignment import Word
from hornbeam_server.txlayer.cluster.links import Links
from hornbeam_server.txlayer.cluster.log_retention import JOIN_S
from hornbeam_server.txlayer.cluster.low_water_mark import LowWater
from hornbeam_server.txlayer.cluster.member import Answering, Member
from hornbeam_server.txlayer.cluster.membership import Membership
from hornbeam_server.txlayer.cluster.membership_view import View
from hornbeam_server.txlayer.cluster.recent import MembersBatches, MembersCommits
from hornbeam_server.txlayer.cluster.remote_locks import Guests, TravellingLocks
from hornbeam_server.txlayer.cluster.shared_views import SharedViews
from hornbeam_server.txlayer.cluster.slot_rates import SlotRates
from hornbeam_server.txlayer.cluster.snapshots import MembersSnapshots
from hornbeam_server.txlayer.commit import log_end
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.commit.hlc import HybridClock
from hornbeam_server.txlayer.commit.newest_commits import NewestCommits
from hornbeam_server.txlayer.commit.recovery import Recovered, recover
from hornbeam_server.txlayer.commit.snapshots import OwnSnapshots, Snapshots
from hornbeam_server.txlayer.ddl import build_records
from hornbeam_server.txlayer.ddl.barrier import OwnBarrier
from hornbeam_server.txlayer.ddl.catalog_keeper import CatalogKeeper
from hornbeam_server.txlayer.ddl.claim import NO_CATALOG, Claim, load_catalog
from hornbeam_server.txlayer.ddl.claim import TABLE as CATALOG_TABLE
from hornbeam_server.txlayer.locking.locks import Locks, LockTable
from hornbeam_server.txlayer.statements import identity_columns
from hornbeam_server.txlayer.transactions import outcomes
from hornbeam_server.txlayer.transactions.manager import TransactionLimits, TransactionManager
from hornbeam_server.txlayer.views.recent_batches import RecentBatches

_LOG = structlog.get_logger(__name__)
SYSTEM_TABLES = (
    CATALOG_TABLE,
    build_records.TABLE,
    identity_columns.TABLE,
    log_end.TABLE,
    outcomes.TABLE,
)
SPILL = "spill"
"""Name of the folder for rows that queries spill, inside `Settings.data`."""


class Parts:
    """The parts of a node. They are built in two steps, `__init__` and `start`, because locks and
    snapshots of a node that serves alone differ from those of a member."""

    def __init__(
        self,
        settings: Settings,
        ports: Ports,
        log: Log,
        recovered: Recovered,
        lock_table: LockTable,
        log_name: str,
        lane: Callable[[], int | None] = lambda: LANES[0],
    ) -> None:
        self.settings = settings
        self.lost = [] if recovered.lost is None else [recovered.lost]
        """Logs whose end was missing when they were recovered."""
        self.ports = ports
        self.log = log
        self.hlc = HybridClock(ports.clock, recovered.last_ts)
        self.committer = Committer(
            store=ports.store,
            log=log,
            clock=ports.clock,
            hlc=self.hlc,
            checkpointed=recovered.position,
            reserved=recovered.last_ts,
            alive=ports.coordination.alive,
            steps=ports.steps,
            checkpoint_interval_s=settings.checkpoint_interval_s,
            log_name=log_name,
            lane=lane,
        )
        self.commits = NewestCommits(self.committer, ports.clock)
        self._recent: dict[str, RecentBatches] = {}
        self.lock_table = lock_table
        self.engine = QueryEngine(
            Options(
                memory_mb=settings.query_memory_mb,
                headroom_mb=settings.query_headroom_mb,
                spill_folder=settings.data / SPILL,
            ),
            places=settings.query_places,
            processes=settings.query_processes,
            new_worker=ports.new_worker,
            new_threads=ports.new_threads,
        )

    def recent_batches(self, group: str) -> RecentBatches:
        """The last batches of a group of live or deferred views that this node knows."""
        return self._recent.setdefault(group, RecentBatches())

    async def start(
        self, catalog: Catalog, locks: Locks, snapshots: Snapshots, name: str = ""
    ) -> None:
        """Accept transactions, which are planned under `catalog`. `name` is the member's name."""
        ports = self.ports
        self.snapshots = snapshots
        self.manager = TransactionManager(
            store=ports.store,
            committer=self.committer,
            hlc=self.hlc,
            clock=ports.clock,
            ids=ports.ids,
            engine=self.engine,
            catalog=catalog,
            locks=locks,
            snapshots=snapshots,
            name=name,
            limits=TransactionLimits(timeout_s=self.settings.statement_timeout_s),
        )
        await self.committer.start()
        self.keeper = CatalogKeeper(
            ports.store, self.manager, self.engine, self.committer, ports.clock, steps=ports.steps
        )


async def start(settings: Settings, ports: Ports) -> Parts:
    """Recover the database behind `ports`, and serve it alone. A failure closes the ports.

    Raises Unavailable, Corruption, and InvalidRequest for an implementation that is not there.
    """
    store, coordination = ports.store, ports.coordination
    async with contextlib.AsyncExitStack() as undo:
        undo.push_async_callback(coordination.close)
        undo.push_async_callback(store.close)
        speedups = implementation().shown
        await create_tables(store, SYSTEM_TABLES)
        claim = await Claim.take(store, coordination, ports.clock)
        epoch = await _next_epoch(coordination, settings.slave)
        log = await ports.open_log(settings.slave, epoch, claim.catalog.version)
        undo.push_async_callback(log.close)
        try:
            name = settings.slave
            recovered = await recover(store, log, log_name=name, steps=ports.steps)
        except Corruption as error:
            if coordination.alive():
                raise
            # A successor may have dropped the missing segments.
            raise Unavailable(
                "This process has been replaced while it recovered.", cure="Restart."
            ) from error
        parts = Parts(settings, ports, log, recovered, LockTable(), name)
        undo.callback(parts.engine.close)
        snapshots = OwnSnapshots(parts.committer, parts.hlc)
        await parts.start(claim.catalog, parts.lock_table, snapshots)
        barrier = OwnBarrier(parts.manager, parts.keeper.readers, parts.committer)
        await parts.keeper.lead(claim, barrier)
        await LowWater(coordination).begin(recovered.last_ts)
        await coordination.join(settings.slave)
        undo.pop_all()
    _LOG.info(
        "opened",
        data=str(settings.data),
        catalog=claim.catalog.version,
        replayed=recovered.replayed,
        speedups=speedups,
    )
    return parts


async def join(settings: Settings, ports: Ports, address: str) -> tuple[Parts, Member]:
    """Join the nodes that serve the database behind `ports`. Clients reach this node at
    `address`. A failure closes the ports. Raises Unavailable and Corruption.
    """
    store, coordination, clock = ports.store, ports.coordination, ports.clock
    assert ports.peers is not None
    async with contextlib.AsyncExitStack() as undo:
        undo.push_async_callback(coordination.close)
        undo.push_async_callback(store.close)
        undo.push_async_callback(ports.peers.close)
        speedups = implementation().shown
        await create_tables(store, SYSTEM_TABLES)
        if ports.logs is not None:
            undo.push_async_callback(ports.logs.close)
        view, began = View(ports.ids.new()), clock.monotonic()
        log = await ports.open_log(view.name, 1, 0)
        undo.push_async_callback(log.close)
        joining = _Joining(settings, ports, ports.peers, view, log)
        parts = joining.parts
        undo.callback(parts.engine.close)
        undo.push_async_callback(parts.committer.close)
        await joining.start()
        member = await joining.member(address)
        undo.push_async_callback(member.close)
        undo.push_async_callback(parts.keeper.close)
        if clock.monotonic() - began > JOIN_S:
            raise Unavailable("It took too long to open a log.", cure="It is tried again.")
        await member.start()
        await LowWater(coordination).begin(parts.hlc.observe())
        undo.pop_all()
    catalog = parts.manager.state.catalog.version
    _LOG.info("joined", name=view.name, catalog=catalog, speedups=speedups)
    return parts, member


class _Joining:
    """The parts of a node that joins others: `start` them, then ask for the `member`."""

    def __init__(
        self, settings: Settings, ports: Ports, peers: Peers, view: View, log: Log
    ) -> None:
        self._settings, self._ports, self._peers, self._view = settings, ports, peers, view
        self._rates = SlotRates(ports.clock)
        self._locks = LockTable(self._rates.count)
        nothing = Recovered(0, START, 0)
        self.parts = Parts(settings, ports, log, nothing, self._locks, view.name, lambda: view.lane)
        self._links = Links(peers, view, ports.clock)
        committer, hlc = self.parts.committer, self.parts.hlc
        own = OwnSnapshots(committer, hlc)
        self._snapshots = MembersSnapshots(
            own, committer, view, self._links, ports.clock, self._catalog_version
        )
        self._guests = Guests(self._locks, view, hlc, ports.clock)
        self.parts.commits = self._commits = MembersCommits(
            committer, ports.clock, own, view, self._links
        )
        self._batches = MembersBatches(view, self._links, ports.clock, self.parts.recent_batches)
        self._shared_views = SharedViews(view, self._links, self._rates)

    def _catalog_version(self) -> int:
        return self.parts.manager.state.catalog.version

    async def start(self) -> None:
        """Accept transactions, whose locks other nodes may own."""
        hlc, clock = self.parts.hlc, self._ports.clock
        locks = TravellingLocks(self._locks, self._view, self._links, hlc, clock)
        await self.parts.start(NO_CATALOG, locks, self._snapshots, self._view.name)

    async def member(self, address: str) -> Member:
        """The member, which answers the others from now on. It has not joined yet."""
        membership = await self._membership(address)
        before = await _owner_before(self._ports.coordination, self._settings.slave)
        parts = self.parts
        return Member(
            coordination=self._ports.coordination,
            store=self._ports.store,
            clock=self._ports.clock,
            view=self._view,
            membership=membership,
            links=self._links,
            manager=parts.manager,
            keeper=parts.keeper,
            committer=parts.committer,
            snapshots=self._snapshots,
            hlc=parts.hlc,
            rates=self._rates,
            recover=partial(self._recover, before),
            address=address,
            idle_rate=self._settings.slot_idle_rate,
            before=before,
            commits=self._commits,
            batches=self._batches,
            shared_views=self._shared_views,
        )

    async def _membership(self, address: str) -> Membership:
        parts = self.parts
        answering = Answering(
            self._view,
            self._guests,
            self._snapshots,
            parts.manager,
            parts.hlc,
            parts.committer,
            self._commits,
            self._batches,
            self._shared_views,
            self._ports.tracer,
        )
        return Membership(
            coordination=self._ports.coordination,
            clock=self._ports.clock,
            view=self._view,
            word=Word(address, await self._peers.listen(answering.answer)),
            hlc=parts.hlc,
            committer=parts.committer,
            manager=parts.manager,
            guests=self._guests,
            links=self._links,
            snapshots=self._snapshots,
            readers=parts.keeper.readers,
            rates=self._rates,
            load=partial(load_catalog, self._ports.store),
            max_skew_s=self._settings.max_clock_skew_s,
        )

    async def _recover(
        self, before: tuple[assignment.Member, ...], dead: assignment.Member, epoch: int
    ) -> int:
        """Recover the log of a dead member. Returns its last timestamp."""
        ports = self._ports
        if dead in before:  # its epochs have a counter of their own
            epoch = await _next_epoch(ports.coordination, dead.name)
        log = await ports.open_log(dead.name, epoch, self._view.assignment.catalog)
        try:
            found = await recover(ports.store, log, log_name=dead.name, steps=ports.steps)
            self.parts.lost += [] if found.lost is None else [found.lost]
            return found.last_ts
        finally:
            await log.close()


async def _owner_before(coordination: Coordination, slave: str) -> tuple[assignment.Member, ...]:
    """The process that served this database alone, before it had several nodes; empty: none."""
    known = await coordination.read(_epochs(slave))
    return () if known is None else (assignment.Member(slave, slave, ""),)


async def _next_epoch(coordination: Coordination, slave: str) -> int:
    """An epoch higher than that of every earlier owner of this slave's log."""
    path = _epochs(slave)
    known = await coordination.read(path)
    epoch = int(known.value) + 1 if known is not None else 1
    await coordination.write(path, str(epoch).encode(), known.version if known else 0)
    return epoch


def _epochs(slave: str) -> str:
    return f"epochs/{slave}"


def forget_spilled(folder: Path) -> None:
    """Remove the files that workers of a killed process have left. The database is locked, so no
    other process spills there."""
    with contextlib.suppress(FileNotFoundError):
        for left in folder.iterdir():
            shutil.rmtree(left, ignore_errors=True)
