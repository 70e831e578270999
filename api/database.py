"""The composition root: one database, as one node serves it.

`Database` opens the adapters, recovers the log or joins the other nodes, and offers every operation
that REST, the in-process client, the demo and the benchmarks use. Its coroutines run in one event
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from hornbeam_server.api import logs
from hornbeam_server.api.changes import Changes, begun, loaded
from hornbeam_server.api.deferred import BatchWork, DeferredViews
from hornbeam_server.api.exports import Export, Exports
from hornbeam_server.api.planning import (
    PlannedSchema,
    PlanRequest,
    in_thread,
    plan_schema,
    program_of,
)
from hornbeam_server.api.ports import EXPORTS, Ports, embedded_ports
from hornbeam_server.api.settings import Settings
from hornbeam_server.query.engine import PreparedQuery, QueryEngine, QueryStream
from hornbeam_server.query.explain import Explanation
from hornbeam_server.query.workers.control import Options
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import (
    Corruption,
    HornbeamError,
    InvalidRequest,
    NotFound,
    SnapshotTooOld,
    StalePlan,
    Unavailable,
    Unsupported,
)
from hornbeam_server.schema.switching import switch_quickly
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.limits import require_storable
from hornbeam_server.storage.ports import START, TOMBSTONE, Clock, Coordination, Ids, Log, Put
from hornbeam_server.storage.snapshot import Overlay, ReadItem, Snapshot
from hornbeam_server.storage.together import all_tried
from hornbeam_server.txlayer import assignment, builds, catalog_keeper, identity, logend, outcomes
from hornbeam_server.txlayer.assignment import Word
from hornbeam_server.txlayer.catalog_keeper import (
    NO_CATALOG,
    CatalogKeeper,
    Claim,
    OwnBarrier,
    load_catalog,
)
from hornbeam_server.txlayer.committer import Committer
from hornbeam_server.txlayer.following import Following
from hornbeam_server.txlayer.hlc import HybridClock
from hornbeam_server.txlayer.links import Links
from hornbeam_server.txlayer.locks import Locks, LockTable
from hornbeam_server.txlayer.lockservice import Guests, TravellingLocks
from hornbeam_server.txlayer.lowwater import LowWater
from hornbeam_server.txlayer.manager import TransactionLimits, TransactionManager
from hornbeam_server.txlayer.member import Answering, Member
from hornbeam_server.txlayer.membership import Membership
from hornbeam_server.txlayer.model import (
    InsertRows,
    Parameters,
    RepairRows,
    Replay,
    Statement,
    TransactionRequest,
    TransactionResult,
)
from hornbeam_server.txlayer.rates import SlotRates
from hornbeam_server.txlayer.recovery import Recovered, recover
from hornbeam_server.txlayer.retention import JOIN_S, GoneLogs, drop_old_segments
from hornbeam_server.txlayer.snapshots import (
    LastSnapshots,
    MembersSnapshots,
    OwnSnapshots,
    Snapshots,
)
from hornbeam_server.txlayer.state import CatalogState
from hornbeam_server.txlayer.tables import bulk_tables, create_tables
from hornbeam_server.txlayer.verify import Checked, Progress, VerifyReport, verify, verify_deferred
from hornbeam_server.txlayer.view import View
from hornbeam_server.viewselect.watch import Watch

_LOG = structlog.get_logger(__name__)
SYSTEM_TABLES = (
    catalog_keeper.TABLE,
    builds.TABLE,
    identity.TABLE,
    logend.TABLE,
    outcomes.TABLE,
)
REPAIR_BATCH = 500
SPILL = "spill"
"""Name of the folder for rows that queries spill, inside `Settings.data`."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A running query. `served_by` names the relations, views and indexes that it reads at
    `snapshot`; `reads` collects the row versions that it reads, None without a trace."""

    stream: QueryStream
    snapshot: int
    served_by: tuple[str, ...]
    reads: list[ReadItem] | None


@dataclass(frozen=True, slots=True)
class DeferredBatch:
    """A batch of deferred views with its inputs: an export, from which all rows can be read at the
    snapshots at both ends of the batch, and the changes between these snapshots."""

    work: BatchWork
    export: Export
    changes: Changes


class _Parts:
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
        )
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


class Database:
    """One Hornbeam database, as one node serves it. `open` opens an embedded database, `start` a
    database that a single process serves over any ports, `join` a database of several nodes."""

    def __init__(self, parts: _Parts, member: Member | None = None) -> None:
        ports = parts.ports
        self.settings = parts.settings
        self.store = ports.store
        self.clock = ports.clock
        self.log = parts.log
        self.committer = parts.committer
        self.locks = parts.lock_table
        self.snapshots = parts.snapshots
        self._last: LastSnapshots | None = None
        self.manager = parts.manager
        self.keeper = parts.keeper
        self.engine = parts.engine
        self.deferred = DeferredViews(
            ports.coordination,
            ports.store,
            parts.keeper,
            ports.clock,
            hold_s=parts.settings.deferred_hold_s,
            use_s=parts.settings.snapshot_retention_s,
        )
        self.exports = Exports(ports.export, parts.settings.data / EXPORTS, ports.clock, ports.ids)
        self._lost = parts.lost
        self._coordination = ports.coordination
        self._peers = ports.peers
        self.member = member
        self._opened_at = self._forget_at = self.clock.monotonic()
        self._logs = ports.logs
        self._low_water = LowWater(ports.coordination)
        self._gone_logs = (
            None
            if ports.logs is None
            else GoneLogs(ports.logs, ports.coordination, ports.clock, self._low_water)
        )
        self._log_source = ports.log_source
        self._following = (
            None
            if ports.log_reader is None
            else Following(
                ports.log_reader,
                None if member is None else ports.logs,
                ports.coordination,
                self._low_water,
            )
        )
        switch_quickly()
        self._housekeeping = asyncio.ensure_future(self._keep_house())
        self.queries = 0

    @classmethod
    async def open(
        cls, settings: Settings, *, clock: Clock | None = None, ids: Ids | None = None
    ) -> Database:
        """Open or create the embedded database in `settings.data`, and recover it after a crash.

        Raises Unavailable when another process has it open, Corruption when the log is damaged,
        InvalidRequest when the folder cannot be created.
        """
        logs.be_quiet()
        ports = await embedded_ports(settings, clock, ids)
        await asyncio.to_thread(_forget_spilled, settings.data / SPILL)
        return await cls.start(settings, ports)

    @classmethod
    async def start(cls, settings: Settings, ports: Ports) -> Database:
        """Recover the database behind `ports`, and serve it alone. A failure closes the ports.

        Raises Unavailable and Corruption.
        """
        store, coordination = ports.store, ports.coordination
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(coordination.close)
            undo.push_async_callback(store.close)
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
            parts = _Parts(settings, ports, log, recovered, LockTable(), name)
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
        )
        return cls(parts)

    @classmethod
    async def join(cls, settings: Settings, ports: Ports, address: str) -> Database:
        """Join the nodes that serve the database behind `ports`. Clients reach this node at
        `address`. A failure closes the ports. Raises Unavailable and Corruption.
        """
        store, coordination, clock = ports.store, ports.coordination, ports.clock
        peers = ports.peers
        assert peers is not None
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(coordination.close)
            undo.push_async_callback(store.close)
            undo.push_async_callback(peers.close)
            await create_tables(store, SYSTEM_TABLES)
            if ports.logs is not None:
                undo.push_async_callback(ports.logs.close)
            view, began = View(ports.ids.new()), clock.monotonic()
            log = await ports.open_log(view.name, 1, 0)
            undo.push_async_callback(log.close)
            rates = SlotRates(clock)
            nothing, table = Recovered(0, START, 0), LockTable(rates.count)
            parts = _Parts(settings, ports, log, nothing, table, view.name)
            committer, hlc = parts.committer, parts.hlc
            undo.callback(parts.engine.close)
            undo.push_async_callback(committer.close)
            links = Links(peers, view, clock)
            locks = TravellingLocks(parts.lock_table, view, links, hlc, clock)
            own = OwnSnapshots(committer, hlc)
            snapshots = MembersSnapshots(
                own, committer, view, links, clock, lambda: parts.manager.state.catalog.version
            )
            await parts.start(NO_CATALOG, locks, snapshots, view.name)
            guests = Guests(parts.lock_table, view, hlc, clock)
            answering = Answering(view, guests, snapshots, parts.manager, hlc, committer)
            membership = Membership(
                coordination=coordination,
                clock=clock,
                view=view,
                word=Word(address, await peers.listen(answering.answer)),
                hlc=hlc,
                committer=committer,
                manager=parts.manager,
                guests=guests,
                links=links,
                snapshots=snapshots,
                readers=parts.keeper.readers,
                rates=rates,
                load=partial(load_catalog, store),
                max_skew_s=settings.max_clock_skew_s,
            )

            before = await _owner_before(coordination, settings.slave)

            async def recover_dead(dead: assignment.Member, epoch: int) -> int:
                if dead in before:  # its epochs have a counter of their own
                    epoch = await _next_epoch(coordination, dead.name)
                log = await ports.open_log(dead.name, epoch, view.assignment.catalog)
                try:
                    found = await recover(store, log, log_name=dead.name, steps=ports.steps)
                    parts.lost += [] if found.lost is None else [found.lost]
                    return found.last_ts
                finally:
                    await log.close()

            member = Member(
                coordination=coordination,
                store=store,
                clock=clock,
                view=view,
                membership=membership,
                links=links,
                manager=parts.manager,
                keeper=parts.keeper,
                committer=committer,
                snapshots=snapshots,
                hlc=hlc,
                rates=rates,
                recover=recover_dead,
                address=address,
                idle_rate=settings.slot_idle_rate,
                before=before,
            )
            undo.push_async_callback(member.close)
            undo.push_async_callback(parts.keeper.close)
            if clock.monotonic() - began > JOIN_S:
                raise Unavailable("It took too long to open a log.", cure="It is tried again.")
            await member.start()
            await LowWater(coordination).begin(hlc.observe())
            undo.pop_all()
        _LOG.info("joined", name=view.name, catalog=parts.manager.state.catalog.version)
        return cls(parts, member)

    async def leave(self) -> None:
        """Let other nodes take over the slots of this node while it still serves."""
        if self.member is not None and self.ready():
            await self.member.leave()

    async def close(self) -> None:
        """Finish commits under way, write a checkpoint, and release the folder."""
        async with contextlib.AsyncExitStack() as last:  # each step runs even if another fails
            last.push_async_callback(self._coordination.close)
            last.callback(self.engine.close)
            last.push_async_callback(self.store.close)
            if self.behind_s is None:
                last.push_async_callback(self._stop)

    async def retire(self) -> None:
        """Stop everything but reads, which go on at the last snapshot (`LastSnapshots`) until
        `close`."""
        self._last = LastSnapshots(
            self.snapshots.newest(), self.clock, self.settings.snapshot_retention_s
        )
        self.snapshots = self._last
        async with contextlib.AsyncExitStack() as last:
            last.push_async_callback(self._coordination.close)
            last.push_async_callback(self._stop)

    @property
    def behind_s(self) -> float | None:
        """Age in seconds of the last snapshot of a retired node, which learns of no later commit.
        None: this node has not retired."""
        return None if self._last is None else self._last.behind_s

    async def _stop(self) -> None:
        """Finish commits under way, and write a checkpoint."""
        async with contextlib.AsyncExitStack() as last:
            if self._peers is not None:
                last.push_async_callback(self._peers.close)
            last.push_async_callback(self.log.close)
            if self._logs is not None:
                last.push_async_callback(self._logs.close)
            last.push_async_callback(self.committer.close)
            if self.member is not None:
                last.push_async_callback(self.member.close)
            last.push_async_callback(self.manager.close)
            self._housekeeping.cancel()
            # To await the task itself would hide a cancellation of this coroutine.
            await asyncio.wait({self._housekeeping})
            await self.keeper.close()
            if self.member is None and self.ready():
                await self.keeper.refresh_counts(factor=1.2)

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ------------------------------------------------------------ transactions

    @property
    def catalog(self) -> Catalog:
        return self.manager.state.catalog

    async def transact(self, request: TransactionRequest) -> TransactionResult:
        """Run a write transaction. Raises HornbeamError."""
        try:
            result = await self.manager.execute(request)
        except Unavailable:
            raise
        except HornbeamError:
            self._require_owner()  # the reason may be unfinished work of another process
            raise
        if request.dry_run or not result.affected:
            self._require_owner()
        return result

    def _require_kept(self, at: int) -> None:
        """Raises Unavailable if versions that snapshot `at` needs may have been purged.

        No node purges them while this node serves. Once this node may have been replaced, they are
        safe while the snapshot is no older than half of the retention.
        """
        if self._coordination.alive() and self._last is None:
            return
        age_s = max((self.clock.wall_ms() - at) / 1000, self.behind_s or 0)
        if age_s > self.settings.snapshot_retention_s / 2:
            raise Unavailable(
                f"Snapshot {at} may have been purged: this node has lost the others, and it is"
                f" {age_s:.0f} s old.",
                cure="Send it to another node, or again in a moment.",
                standby=True,
            )

    def _require_owner(self) -> None:
        """Raises Unavailable when another process may have replaced this one: then reads here may
        lack its commits."""
        if not self._coordination.alive():
            raise Unavailable(
                "This process may have been replaced: it has not heard of the coordination service"
                " for too long.",
                cure="Ask again; another process answers, or this one once it has restarted.",
            )

    async def execute(
        self, sql: str, parameters: Parameters = (), **options: Any
    ) -> TransactionResult:
        """Run one write statement as one transaction. `options` are fields of the request."""
        return await self.transact(TransactionRequest((Statement(sql, parameters),), **options))

    async def outcome(self, transaction_id: str) -> outcomes.Outcome | None:
        """The recorded outcome of a transaction. None: no commit of it is recorded."""
        return await outcomes.find_outcome(self.store, transaction_id)

    async def unfinished(self, transaction_id: str) -> str | None:
        """The owner of a transaction that was handed to the log and whose outcome is not known yet.
        None: no node has such a transaction. Raises Unavailable."""
        owner = self.manager.unfinished.get(transaction_id)
        if owner is None and self.member is not None:
            return await self.member.unfinished(transaction_id)
        return owner

    async def load(
        self,
        relation: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        *,
        idempotency_key: str | None = None,
        timeout_s: float | None = None,
        owner: str = "",
    ) -> TransactionResult:
        """Insert many rows as one transaction, set-at-a-time. Raises HornbeamError."""
        batch = InsertRows(relation, tuple(columns), rows)
        request = TransactionRequest(
            (batch,), idempotency_key=idempotency_key, timeout_s=timeout_s, owner=owner
        )
        return await self.transact(request)

    # ------------------------------------------------------------ queries

    def watermark(self) -> int:
        """The newest snapshot that this node knows. By default queries read there or later."""
        return self.snapshots.newest()

    def lag_s(self) -> float:
        """The age in seconds of the oldest commit that a query may not read yet. A node that serves
        alone knows all commits: the age is 0 while all of them are applied."""
        if self.member is None and self.committer.idle:
            return 0.0
        return max(self.clock.wall_ms() - self.watermark(), 0) / 1000

    def prepare(self, sql: str, *, use_views: bool = True) -> PreparedQuery:
        """Plan a query under the catalog in force. Plans are cached by text."""
        return self.engine.prepare(sql, self.catalog, use_views=use_views)

    @contextlib.asynccontextmanager
    async def query(
        self,
        sql: str,
        parameters: Parameters = (),
        *,
        bookmark: int = 0,
        snapshot: int | None = None,
        strong: bool = False,
        pending: Sequence[Statement] = (),
        replay: Replay | None = None,
        trace: bool = False,
        use_views: bool = True,
        timeout_s: float | None = None,
        max_rows: int | None = None,
        columnar: bool = False,
        max_staleness_s: float | None = None,
    ) -> AsyncIterator[QueryResult]:
        """Run a SELECT at one snapshot. Its rows must be read inside the context.

        Without `snapshot` the query reads at a snapshot that holds every commit up to `bookmark`
        and every commit that this node has acknowledged, with `strong` that any node has
        acknowledged. `columnar` plans for a result that is read as Arrow. A query that names
        deferred views reads at the snapshot of their group instead, and fails if that snapshot is
        older than `max_staleness_s`. Raises HornbeamError.
        """
        deadline = self.clock.monotonic() + (timeout_s or self.settings.statement_timeout_s)
        async with self._at(snapshot, bookmark, strong=strong) as (state, newest):
            prepare = partial(
                self.engine.prepare, sql, state.catalog, use_views=use_views, columnar=columnar
            )
            prepared = await self.engine.read(len(sql), prepare, deadline)
            at = newest
            if prepared.deferred:
                if strong or pending:
                    raise Unsupported(
                        f"{', '.join(prepared.deferred)} lag behind, so they do not show"
                        + (" what this transaction writes." if pending else " what is strong."),
                        cure="Ask for a snapshot read, before the first write.",
                    )
                at = await self.deferred.read_at(
                    prepared, asked=snapshot, max_staleness_s=max_staleness_s
                )
            overlay = None
            if pending:
                left_s = deadline - self.clock.monotonic()
                overlay = await self.manager.pending(pending, at, replay, left_s)
            reads: list[ReadItem] | None = [] if trace else None
            if reads is not None and overlay is not None:
                reads += await self._started_from(prepared.served_by, overlay, state.codecs, at)
            reader = Snapshot(
                self.store,
                state.codecs,
                at,
                mutations=overlay,
                trace=reads,
                require_valid=partial(self._require_kept, at),
            )
            stream = await prepared.run(reader, parameters, deadline=deadline, max_rows=max_rows)
            self.queries += 1
            with self.keeper.readers.holding(at):
                try:
                    yield QueryResult(stream, at, prepared.served_by, reads)
                finally:
                    await stream.close()

    @contextlib.asynccontextmanager
    async def _at(
        self, asked: int | None = None, bookmark: int = 0, *, strong: bool = False
    ) -> AsyncIterator[tuple[CatalogState, int]]:
        """A catalog, and a snapshot to read under it. Inside the context the tables of the catalog
        are not dropped, and the versions of the snapshot are not purged. The loop repeats when the
        catalog changes during the wait for the snapshot: the old one does not fit then."""
        while True:
            state = self.manager.state
            async with self._reading(state.catalog.version):
                at = await self._snapshot(asked, bookmark, strong=strong)
                if state is self.manager.state:
                    with self.keeper.readers.holding(at):
                        yield state, at
                    return

    @contextlib.asynccontextmanager
    async def _reading(self, version: int) -> AsyncIterator[None]:
        """Inside the context no table of this version of the catalog is dropped, unless by a
        successor of this process. What looks like damage then is reported as Unavailable."""
        async with self.keeper.readers.reading(version):
            try:
                yield
            except Corruption:
                self._require_owner()
                raise

    async def _started_from(
        self, layouts: Sequence[str], overlay: Overlay, codecs: Codecs, at: int
    ) -> list[ReadItem]:
        """The stored row versions that pending changes replace, in the layouts that a query reads.
        A query that reads a pending change depends on the version that the change starts from."""
        found: list[ReadItem] = []
        for name in layouts:
            keys = list(overlay.rows(name))
            cells = await self.store.get(codecs(name).layout.table, keys, at)
            found += [ReadItem(name, cell.key, cell.ts) for cell in cells if cell is not None]
        return found

    async def fetch(
        self, sql: str, parameters: Parameters = (), **options: Any
    ) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        async with self.query(sql, parameters, **options) as result:
            return list(await result.stream.all())

    async def _snapshot(self, asked: int | None, bookmark: int, *, strong: bool) -> int:
        least = max(bookmark, asked or 0, self.catalog.since)
        try:
            newest = await self.snapshots.read_point(least, strong=strong)
        except InvalidRequest:
            self._require_owner()  # else the bookmark may come from a successor
            raise
        if asked is None:
            if self._last is None:
                self._require_owner()
            return newest
        now = newest + int((self.behind_s or 0) * 1000)
        oldest = now - int(self.settings.snapshot_retention_s * 1000)
        if asked < max(oldest, self.catalog.since):
            raise SnapshotTooOld(
                f"Snapshot {asked} is older than what is kept (or than the last schema change).",
                cure="Begin a new transaction.",
            )
        return asked

    async def moment(self) -> tuple[Catalog, int]:
        """The catalog in force, and a snapshot under it that holds every commit that any node has
        acknowledged. Raises Unavailable."""
        async with self._at(strong=True) as (state, at):
            return state.catalog, at

    async def export(self, asked: int | None = None, view: str | None = None) -> Export:
        """Where external readers find all rows as of one snapshot: `asked`, or else the newest.
        For a deferred `view` it is the snapshot of its group.

        Raises NotFound, SnapshotTooOld, Unsupported, InvalidRequest, Unavailable.
        """
        if view in self.catalog.deferred_view:
            return await self._export_deferred(view, asked)
        async with self._at(asked, strong=asked is None) as (state, at):
            # Purges may reckon from a later time than the watermark, which lags on an idle node.
            age_ms = max(self.committer.watermark(), self.clock.wall_ms()) - at
            keep_ms = int(self.settings.snapshot_retention_s * 1000) - age_ms
            return await self.exports.begin(at, state.catalog, keep_ms)

    async def _export_deferred(self, view: str, asked: int | None) -> Export:
        async with self._at(strong=True) as (state, _):
            (at,) = await self.deferred.as_of(state.catalog, [view])
            if asked not in (None, at):
                raise InvalidRequest(
                    f"View {view} cannot be read as of snapshot {asked}: its group is as of {at}.",
                    cure="Ask for no snapshot.",
                )
            return await self.exports.begin(at, state.catalog, self.deferred.use_ms(at))

    async def put(self, writes: Mapping[str, Sequence[Put]], ts: int) -> None:
        """Write rows as of snapshot `ts`, without a transaction, into tables that are being built.

        Only a process that owns its store does this, because it also purges the store: nothing may
        be put at or below the horizon of a purge (`pipeline.sink`). A purge that began earlier has
        a horizon no higher than `_kept_from` was then, and that only rises. A purge that begins
        meanwhile stays below the snapshot that is held here. Raises NotFound, SnapshotTooOld,
        InvalidRequest, LimitExceeded, Unsupported, Unavailable.
        """
        if self.member is not None:
            raise Unsupported("Rows are put into this store beside its nodes.")
        self._require_owner()
        state, newest = self.manager.state, self.watermark()
        async with self._reading(state.catalog.version):
            strange = sorted(writes.keys() - bulk_tables(state.catalog))
            if strange:
                raise NotFound(f"No table {strange[0]} is being built.", cure="It may have ended.")
            if ts > newest:
                raise InvalidRequest(f"{ts} is newer than the newest snapshot, {newest}.")
            require_storable(writes)
            with self.keeper.readers.holding(ts):
                if ts <= self._kept_from(await self.deferred.held()):
                    raise SnapshotTooOld(f"Snapshot {ts} is older than what is kept.")
                await self.store.put(writes, ts)

    def _kept_from(self, held: Sequence[int]) -> int:
        """The timestamp above which all snapshots are kept, whether or not a query reads them.
        `held` has the snapshots that deferred views need."""
        newest = self.watermark() if self.member is None else self.member.newest
        retention_ms = int(self.settings.snapshot_retention_s * 1000)
        return min([newest - retention_ms, *held])

    async def changes(self, after: int | None = None, upto: int | None = None) -> Changes:
        """The commits above `after` and at or below `upto`, as log segments. `upto` defaults to a
        snapshot that holds every acknowledged commit, and `after` to `upto`: no commits.

        Raises SnapshotTooOld when the logs have lost some of these commits, InvalidRequest,
        Unsupported, Unavailable, Corruption.
        """
        self.require_ready()
        if self._following is None or self._log_source is None:
            raise Unsupported("These logs cannot be read beside their processes.")
        least = max(after or 0, upto or 0)
        async with self._at(bookmark=least, strong=upto is None) as (state, at):
            catalogs = [state.catalog]
        upto = at if upto is None else upto
        after = upto if after is None else after
        if after > upto:
            raise InvalidRequest(f"Snapshot {after} is newer than {upto}.")
        while catalogs[-1].since > after:
            catalogs.append(await load_catalog(self.store, catalogs[-1].version - 1))
        read = [catalog for catalog in catalogs if catalog.since <= upto]
        segments = []
        if after < upto:
            segments = await self._following.between(after, upto, await self._sealed())
        log = self._log_source
        return Changes(after, upto, read[0], begun(read), loaded(read), log, tuple(segments))

    async def _sealed(self) -> dict[str, tuple[int, int]]:
        """The result of `Member.sealed`, also for a node that serves alone."""
        if self.member is not None:
            return await self.member.sealed()
        end = await self.committer.seal()
        return {self.settings.slave: end[:2]}

    async def begin_batch(self, group: str) -> DeferredBatch:
        """The next batch of a group of deferred views, with its inputs.

        Raises NotFound, SnapshotTooOld, Unsupported, Unavailable, Corruption.
        """
        work = await self.deferred.begin(group, self.moment)
        use_ms = self.deferred.use_ms(work.upto)
        export = await self.exports.begin(work.upto, work.catalog, use_ms)
        changes = await self.changes(work.as_of, work.upto)
        self.deferred.require_logged(work, changes.loaded)
        return DeferredBatch(work, export, changes)

    def explain(
        self, sql: str, parameters: Parameters | None = None, *, use_views: bool = True
    ) -> Explanation:
        """The plan of a query, with the reasons for it."""
        return self.prepare(sql, use_views=use_views).explain(parameters)

    # ------------------------------------------------------------ schema

    def plan_schema(self, request: PlanRequest, watch: Watch | None = None) -> PlannedSchema:
        """Plan trees, views and indexes for a schema and a workload. Changes nothing.

        Raises SchemaError, SqlError, StatementTimeout.
        """
        counts = tuple(self.keeper.counts().items())
        return plan_schema(request, replace(self.catalog, row_counts=counts), watch)

    async def apply_schema(
        self,
        request: PlanRequest,
        plan_id: str,
        *,
        allow_drop: bool = False,
        build_elsewhere: bool = False,
    ) -> Catalog:
        """Put a plan into force. Builds go on in the background (`keeper.wait_built`), or are left
        to an external builder (`build_elsewhere`).

        Raises StalePlan when planning again gives another plan than `plan_id`, and InvalidRequest
        when the plan drops relations without `allow_drop`.
        """

        async def planned(current: Catalog) -> Catalog:
            counts = tuple(self.keeper.counts().items())
            counted = replace(current, row_counts=counts)
            plan = await in_thread(partial(plan_schema, request, counted))
            if plan.plan_id != plan_id:
                raise StalePlan(
                    "The plan differs from the one you looked at: the catalog, an input, or what"
                    " row counts make best has changed.",
                    cure="Plan again, look at it, and apply that plan.",
                )
            lost = [relation.name for relation in plan.changes.dropped_relations]
            if lost and not allow_drop:
                raise InvalidRequest(
                    f"Relations would be dropped with all their rows: {', '.join(lost)}.",
                    cure="Keep them in the DDL, or say that they may go: allow_drop, --allow-drop.",
                )
            # The request's row counts are for the choice only; the catalog has the stored counts.
            return replace(plan.catalog, row_counts=counts)

        await self.keeper.change(planned, elsewhere=build_elsewhere)
        return self.catalog

    # ------------------------------------------------------------ verification

    async def verify(
        self,
        names: Sequence[str] | None = None,
        *,
        repair: bool = False,
        progress: Progress = lambda _name, _done, _total: None,
    ) -> VerifyReport:
        """Recompute views and indexes at one snapshot, deferred views at the snapshot of their
        group, and compare them with the stored rows. `repair` rewrites damaged rows of views and
        indexes that commits maintain. Raises NotFound."""
        async with self._at() as (state, at):
            kept, deferred = names, names
            if names is not None:
                deferred = [name for name in names if name in state.catalog.deferred_view]
                kept = [name for name in names if name not in deferred]
            report = await verify(
                state.catalog,
                state.codecs,
                self.store,
                at,
                self.engine.checking,
                names=kept,
                progress=progress,
            )
            later = await self._verify_deferred(state, deferred, progress)
        report = replace(report, checked=(*report.checked, *later))
        if not repair or not report.differences:
            return report
        return replace(report, checked=tuple([await self._repair(item) for item in report.checked]))

    async def _verify_deferred(
        self, state: CatalogState, names: Sequence[str] | None, progress: Progress
    ) -> list[Checked]:
        found: list[Checked] = []
        for at, views in (await self.deferred.as_of(state.catalog, names)).items():
            with self.keeper.readers.holding(at):
                found += await verify_deferred(
                    state.catalog,
                    state.codecs,
                    self.store,
                    at,
                    {name: program_of(state.catalog, name).sql for name in views},
                    self.engine.checking,
                    progress=progress,
                )
        return found

    async def _repair(self, item: Checked) -> Checked:
        return replace(item, repaired=await self._repair_rows(item.name, item.keys))

    async def repair(self, name: str, keys: Sequence[bytes]) -> int:
        """Recompute the rows under some encoded keys of a view or index, and write those that
        differ. Returns their number. Raises NotFound."""
        catalog = self.catalog
        if not catalog.readable(name) or catalog.layout(name).source in catalog.deferred_view:
            raise NotFound(f"There is no readable view or index {name} that commits keep.")
        return await self._repair_rows(name, keys)

    async def _repair_rows(self, name: str, keys: Sequence[bytes]) -> int:
        repaired = 0
        for start in range(0, len(keys), REPAIR_BATCH):
            rows = RepairRows(name, tuple(keys[start : start + REPAIR_BATCH]))
            result = await self.transact(TransactionRequest((rows,)))
            repaired += result.affected.get(name, 0)
        return repaired

    # ------------------------------------------------------------ status

    async def sizes(self, names: Sequence[str] | None = None) -> dict[str, int]:
        """Approximate bytes by name of relation, view or index (default: all but deferred views).
        Reads the tables once."""
        catalog = self.catalog
        if names is None:
            names = [*catalog.schema.names, *catalog.view, *catalog.index]
        return {name: await self.store.size(catalog.layout(name).table) for name in names}

    async def status(self) -> Mapping[str, Any]:
        """The state of this node, for operators."""
        segments = await self.log.segments()
        locks, member = self.locks, self.member
        return {
            "uptime_s": self.clock.monotonic() - self._opened_at,
            "data": str(self.settings.data),
            "catalog_version": self.catalog.version,
            "watermark": self.watermark(),
            "wall_ms": self.clock.wall_ms(),
            "transactions": {
                "committed": self.manager.committed,
                "aborted": self.manager.aborted,
                "retried": self.manager.retried,
            },
            "queries": self.queries,
            "locks": {
                "held": locks.held_count,
                "waiting": locks.waiting_count,
                "hot": [{"lock": str(name), "waiting": n} for name, n in locks.hot(5)],
            },
            "log": {
                "segments": len(segments),
                "bytes": sum(s.bytes for s in segments),
                "missing": [lost.document() for lost in self._lost],
            },
            "views": {name: self.catalog.state[name].value for name in self.catalog.view},
            "builds": [vars(build) for build in self.keeper.builds.values()],
            "loading": [] if self.catalog.load is None else list(self.catalog.load.relations),
            "nodes": None if member is None else member.status(await member.words()),
        }

    def ready(self) -> bool:
        """May requests be sent here?"""
        serves = self.member is None or self.member.serves
        return serves and self.committer.failed is None and self._coordination.alive()

    def require_ready(self) -> None:
        """Raises Unavailable or DiskFull, with the reason, when requests must not be sent here."""
        self.committer.require_working()
        self._require_owner()
        if self.member is not None:
            self.member.require_serving()

    # ------------------------------------------------------------ housekeeping

    async def _keep_house(self) -> None:
        """Purge old versions and log segments periodically, until cancelled. A failed task is tried
        again in the next round, and does not keep the other tasks from running."""
        while True:
            await self.clock.sleep(self.settings.housekeeping_interval_s)
            for chore in (self.keeper.refresh_counts, self.purge, self.exports.end_old):
                try:
                    await chore()
                except (OSError, HornbeamError) as error:
                    _LOG.warning("housekeeping failed", error=str(error))
                except Exception as error:  # a bug must not end the loop silently
                    _LOG.error("housekeeping failed", exc_info=error)

    async def purge(self) -> int:
        """Drop row versions that no snapshot within the retention needs, old log segments and old
        outcomes. Returns the number of versions. A part that fails does not keep the other parts
        from being dropped. Raises OSError, HornbeamError."""
        log_retention_ms = int(self.settings.log_retention_s * 1000)
        held = await self.deferred.held()
        log_horizon = min([self.clock.wall_ms() - log_retention_ms, *held])
        works: list[Callable[[], Awaitable[object]]] = [
            lambda: drop_old_segments(
                self.log, self.committer.checkpointed, log_horizon, self._low_water
            )
        ]
        dropped = 0

        async def purge_tables() -> None:
            nonlocal dropped
            await self.snapshots.read_point()  # the snapshot moves on even when no query reads here
            if self._purges:
                horizon = self._horizon(held)
                tables = [t for t in await self.store.tables() if t != catalog_keeper.TABLE]
                await all_tried(partial(purge_table, table, horizon) for table in tables)

        async def purge_table(table: str, horizon: int) -> None:
            nonlocal dropped
            try:
                dropped += await self.store.purge(table, horizon)
            except (Unavailable, Corruption):
                if table in await self.store.tables():  # else it was dropped meanwhile
                    raise

        works.append(purge_tables)
        if self._purges:
            works.append(self._forget_outcomes)
            if self._gone_logs is not None:
                works.append(partial(self._gone_logs.remove, log_horizon))
        await all_tried(works)
        return dropped

    @property
    def _purges(self) -> bool:
        """Does this node purge the tables, on behalf of all nodes?"""
        return self.keeper.leads and (self.member is None or self.member.may_purge)

    def _horizon(self, held: Sequence[int]) -> int:
        """The horizon of a purge: no snapshot below it is needed."""
        building = [b.at for b in self.keeper.builds.values() if not (b.ended or b.elsewhere)]
        holding = [self.keeper.readers.oldest_snapshot()]
        replayed = []
        if self.member is not None:
            holding.append(self.member.holding)
            # Else recovery could bring a row back whose tombstone, from another log, was purged.
            replayed.append(self.member.replays_above)
        return min([self._kept_from(held), *building, *filter(None, holding), *replayed])

    async def _forget_outcomes(self) -> None:
        """Delete outcomes that are older than their retention. Looks once per tenth of it."""
        now = self.clock.monotonic()
        if now < self._forget_at:
            return
        self._forget_at = now + self.settings.outcome_retention_s / 10
        horizon = self.clock.wall_ms() - int(self.settings.outcome_retention_s * 1000)
        async for cells in self.store.scan(outcomes.TABLE, b"", None, horizon):
            deleted = [Put(cell.key, TOMBSTONE) for cell in cells]
            await self.store.put({outcomes.TABLE: deleted}, await self.committer.reserve())


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


def _forget_spilled(folder: Path) -> None:
    """Remove the files that workers of a killed process have left. The database is locked, so no
    other process spills there."""
    with contextlib.suppress(FileNotFoundError):
        for left in folder.iterdir():
            shutil.rmtree(left, ignore_errors=True)
