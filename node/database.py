"""The composition root: one database, as one node serves it.

`Database` opens the adapters, recovers the log or joins the other nodes, and offers every operation
that REST, the in-process client, the demo and the benchmarks use. Its coroutines run in one event
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hornbeam_server.node import assembly, logging_setup
from hornbeam_server.node.adapters import EXPORTS, Ports, embedded_ports
from hornbeam_server.node.assembly import Parts
from hornbeam_server.node.bulk_access import BulkAccess
from hornbeam_server.node.deferred_views import DeferredViews
from hornbeam_server.node.exports import Exports
from hornbeam_server.node.housekeeping import Housekeeping
from hornbeam_server.node.live.batches import Batches
from hornbeam_server.node.live.computation import Computation
from hornbeam_server.node.live.maintainer import Maintainer
from hornbeam_server.node.live.sharing import Sharing
from hornbeam_server.node.live.tentative import TentativeViews
from hornbeam_server.node.ownership import Ownership
from hornbeam_server.node.reads import Reads
from hornbeam_server.node.running_transactions import (
    RunningTransaction,
    running_transactions,
    shown_lock,
)
from hornbeam_server.node.schema_changes import MadePlan, SchemaChange
from hornbeam_server.node.schema_plans import PlannedSchema, PlanRequest, plan_schema
from hornbeam_server.node.settings import Settings
from hornbeam_server.node.sizes import names_with_bytes, sizes_of
from hornbeam_server.node.subscriptions.sources import Access
from hornbeam_server.node.subscriptions.subscriptions import Subscriptions
from hornbeam_server.node.verification import Verification
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import HornbeamError, Unavailable
from hornbeam_server.schema.switching import switch_quickly
from hornbeam_server.storage.codec.implementation import implementation
from hornbeam_server.storage.ports import Clock, Ids
from hornbeam_server.storage.tracing import Attributes, part
from hornbeam_server.txlayer.cluster.low_water_mark import LowWater
from hornbeam_server.txlayer.cluster.member import Member
from hornbeam_server.txlayer.commit.snapshots import Snapshots
from hornbeam_server.txlayer.ddl.initial_loads import InitialLoads
from hornbeam_server.txlayer.ddl.relation_copies import RelationCopies
from hornbeam_server.txlayer.statements.requests import (
    InsertRows,
    Parameters,
    Statement,
    TransactionRequest,
    TransactionResult,
)
from hornbeam_server.txlayer.statements.truncation import restarted_by, restarts
from hornbeam_server.txlayer.transactions import outcomes
from hornbeam_server.viewselect.watch import Watch


class Database:
    """One Hornbeam database, as one node serves it. `open` opens an embedded database, `start` a
    database that a single process serves over any ports, `join` a database of several nodes."""

    def __init__(self, parts: Parts, member: Member | None = None) -> None:
        ports, settings = parts.ports, parts.settings
        self._parts = parts
        self.settings = settings
        self.store = ports.store
        self.clock = ports.clock
        self.log = parts.log
        self.committer = parts.committer
        self.locks = parts.lock_table
        self.manager = parts.manager
        self.keeper = parts.keeper
        self.engine = parts.engine
        self._planned: MadePlan | None = None
        self.initial_loads = InitialLoads(self.keeper, self.manager, self.committer)
        self._copies = RelationCopies(self.keeper, self.clock, ports.ids)
        self.member = member
        self._coordination = ports.coordination
        self._opened_at = self.clock.monotonic()
        self.low_water = LowWater(ports.coordination)
        self.deferred = DeferredViews(
            ports.coordination,
            ports.store,
            parts.keeper,
            ports.clock,
            hold_s=settings.deferred_hold_s,
            use_s=settings.snapshot_retention_s,
            recent=parts.recent_batches,
        )
        self.exports = Exports(ports.export, settings.data / EXPORTS, ports.clock, ports.ids)
        deferred, exports, low_water = self.deferred, self.exports, self.low_water
        self.ownership = ownership = Ownership(parts, member)
        self.reads = reads = Reads(parts, deferred, ownership)
        self.bulk = BulkAccess(parts, deferred, exports, reads, ownership, low_water, member)
        self.verification = Verification(parts, deferred, reads, self.transact)
        self.housekeeping = Housekeeping(parts, deferred, exports, ownership, low_water, member)
        self.live = self._maintainer()
        access = Access(parts, reads, self.bulk, deferred, ownership, member)
        self.subscriptions = Subscriptions(access, settings.max_subscriptions)
        self._offer_operations()
        switch_quickly()
        self._housekeeping_task = asyncio.ensure_future(self.housekeeping.run())

    def _maintainer(self) -> Maintainer:
        """The maintainer of live and deferred views, which begins to keep those that there are."""
        parts, deferred, member = self._parts, self.deferred, self.member
        name = parts.settings.slave if member is None else member.address
        alone = member is None
        members = None if member is None else member.shared_views
        computation = Computation(parts, self.bulk, None if members is None else members.count)
        sharing = Sharing(parts, computation, members)
        batches = Batches(parts, deferred, self.bulk, self.reads, sharing, name, alone=alone)
        self.reads.tentative = TentativeViews(
            parts, deferred, self.bulk, computation, self.ownership, alone=alone
        )
        maintainer = Maintainer(parts, batches, deferred, self.ownership, member)
        deferred.is_current = maintainer.is_current
        parts.manager.on_catalog = maintainer.look
        maintainer.look()
        return maintainer

    def _offer_operations(self) -> None:
        """Operations of the parts are operations of the database."""
        self.prepare = self.reads.prepare
        self.statements = self.reads.statements
        self.query = self.reads.query
        self.directly = self.reads.directly
        self.fetch = self.reads.fetch
        self.explain = self.reads.explain
        self.snapshot_after = self.reads.snapshot_after
        self.explained = self.reads.explained
        self.analyzed = self.reads.analyzed
        self.export = self.bulk.export
        self.put = self.bulk.put
        self.changes = self.bulk.changes
        self.begin_batch = self.bulk.begin_batch
        self.verify = self.verification.verify
        self.repair = self.verification.repair
        self.rebuild = self.verification.rebuild
        self.purge = self.housekeeping.purge
        self.ready = self.ownership.ready
        self.require_ready = self.ownership.require_ready
        self.watermark = self.ownership.watermark
        self.lag_s = self.ownership.lag_s

    @classmethod
    async def open(
        cls, settings: Settings, *, clock: Clock | None = None, ids: Ids | None = None
    ) -> Database:
        """Open or create the embedded database in `settings.data`, and recover it after a crash.

        Raises Unavailable when another process has it open, Corruption when the log is damaged,
        InvalidRequest when the folder cannot be created.
        """
        logging_setup.be_quiet()
        ports = await embedded_ports(settings, clock, ids)
        await asyncio.to_thread(assembly.forget_spilled, settings.data / assembly.SPILL)
        return await cls.start(settings, ports)

    @classmethod
    async def start(cls, settings: Settings, ports: Ports) -> Database:
        """Recover the database behind `ports`, and serve it alone. A failure closes the ports.

        Raises Unavailable and Corruption.
        """
        return cls(await assembly.start(settings, ports))

    @classmethod
    async def join(cls, settings: Settings, ports: Ports, address: str) -> Database:
        """Join the nodes that serve the database behind `ports`. Clients reach this node at
        `address`. A failure closes the ports. Raises Unavailable and Corruption.
        """
        return cls(*await assembly.join(settings, ports, address))

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
            if self.ownership.behind_s is None:
                last.push_async_callback(self._stop)

    async def retire(self) -> None:
        """Stop everything but reads, which go on at the last snapshot (`LastSnapshots`) until
        `close`."""
        self.ownership.retire()
        async with contextlib.AsyncExitStack() as last:
            last.push_async_callback(self._coordination.close)
            last.push_async_callback(self._stop)

    async def _stop(self) -> None:
        """Finish commits under way, and write a checkpoint."""
        async with contextlib.AsyncExitStack() as last:
            if self._parts.ports.peers is not None:
                last.push_async_callback(self._parts.ports.peers.close)
            last.push_async_callback(self.log.close)
            if self._parts.ports.logs is not None:
                last.push_async_callback(self._parts.ports.logs.close)
            last.push_async_callback(self.committer.close)
            if self.member is not None:
                last.push_async_callback(self.member.close)
            last.push_async_callback(self.manager.close)
            self.subscriptions.close()
            await self.live.close()
            self._housekeeping_task.cancel()
            # To await the task itself would hide a cancellation of this coroutine.
            await asyncio.wait({self._housekeeping_task})
            await self.keeper.close()
            if self.member is None and self.ready():
                await self.keeper.refresh_counts(factor=1.2)

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def catalog(self) -> Catalog:
        return self.manager.state.catalog

    @property
    def snapshots(self) -> Snapshots:
        return self.ownership.snapshots

    @property
    def behind_s(self) -> float | None:
        return self.ownership.behind_s

    async def transact(self, request: TransactionRequest) -> TransactionResult:
        """Run a write transaction. Raises HornbeamError."""
        with part("transaction") as span:
            result = await self._transacted(request)
            if span is not None:
                span.note(_attributes(result))
        return result

    async def _transacted(self, request: TransactionRequest) -> TransactionResult:
        statements = self.reads.statements
        began = statements.now()
        counters = self._restarted_by(request)
        try:
            result = await self.manager.execute(request)
        except Unavailable:
            raise
        except HornbeamError:
            self.ownership.require_owner()  # the reason may be unfinished work of another process
            if not request.dry_run:
                statements.refused(request, began)
            raise
        if request.dry_run or not result.affected:
            self.ownership.require_owner()
        if not request.dry_run:
            for relation, column in counters:
                await self.keeper.restart(relation, column, None)
            statements.wrote(request, result, began)
        return result

    def _restarted_by(self, request: TransactionRequest) -> Sequence[tuple[str, str]]:
        """The counters that begin again after a transaction. Raises SqlError, and Unavailable on a
        node that cannot restart them."""
        texts = [each.sql for each in request.statements if isinstance(each, Statement)]
        found = restarted_by(texts, self.catalog) if any(map(restarts, texts)) else []
        if found:
            self.keeper.led()
        return found

    def running_transactions(self) -> list[RunningTransaction]:
        """The transactions of this node that are under way, the oldest first."""
        return running_transactions(self.manager.under_way.values(), self.manager.state.codecs)

    async def execute(
        self, sql: str, parameters: Parameters = (), **options: Any
    ) -> TransactionResult:
        """Run one write statement as one transaction. `options` are fields of the request."""
        return await self.transact(TransactionRequest((Statement(sql, parameters),), **options))

    async def outcome(self, transaction_id: str) -> outcomes.Outcome | None:
        """The recorded outcome of a transaction. None: no commit of it is recorded."""
        return await outcomes.find_outcome(self.committer.reader, transaction_id)

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
        return await self.load_together(
            [batch], idempotency_key=idempotency_key, timeout_s=timeout_s, owner=owner
        )

    async def load_together(
        self,
        batches: Sequence[InsertRows],
        *,
        idempotency_key: str | None = None,
        timeout_s: float | None = None,
        owner: str = "",
    ) -> TransactionResult:
        """Insert rows of several relations as one transaction. References are checked at its end,
        so rows may reference one another. Raises HornbeamError."""
        request = TransactionRequest(
            tuple(batches), idempotency_key=idempotency_key, timeout_s=timeout_s, owner=owner
        )
        return await self.transact(request)

    def plan_schema(self, request: PlanRequest, watch: Watch | None = None) -> PlannedSchema:
        """Plan trees, views and indexes for a schema and a workload. Changes nothing.

        Raises SchemaError, SqlError, StatementTimeout.
        """
        catalog, counts = self.catalog, tuple(self.keeper.counts().items())
        plan = plan_schema(request, replace(catalog, row_counts=counts), watch)
        self._planned = MadePlan(request, catalog, counts, plan)
        return plan

    async def apply_schema(
        self,
        request: PlanRequest,
        plan_id: str,
        *,
        allow_drop: bool = False,
        build_externally: bool = False,
    ) -> Catalog:
        """Put a plan into force. Builds go on in the background (`keeper.wait_built`), or are left
        to an external builder (`build_externally`). Copies of relations are filled first. A primary
        key of columns that the plan adds takes two stages (`schema/stages.py`).

        It is planned again unless it is the plan that was made last, from the catalog and the
        counts of rows in force. Raises StalePlan when that gives another plan than `plan_id`, and
        InvalidRequest when the plan drops relations without `allow_drop`.
        """
        now = dt.datetime.fromtimestamp(self.clock.wall_ms() / 1000, dt.UTC)
        known, self._planned = self._planned, None
        change = SchemaChange(
            request,
            plan_id,
            known=known,
            allow_drop=allow_drop,
            keeper=self.keeper,
            engine=self.engine,
            now=now,
        )
        await self._copies.change(
            change.planned,
            external=build_externally,
            renames=request.renames,
            goes_on=change.goes_on,
        )
        return self.catalog

    async def sizes(self, names: Sequence[str] | None = None) -> dict[str, int]:
        """Approximate bytes by name of relation, view or index (default: all). The bytes of a
        declared view include its states and values. Reads the tables once."""
        catalog = self.catalog
        return await sizes_of(
            self.store, catalog, names_with_bytes(catalog) if names is None else names
        )

    async def status(self) -> Mapping[str, Any]:
        """The state of this node, for operators."""
        segments = await self.log.segments()
        locks, codecs, member = self.locks, self.manager.state.codecs, self.member
        return {
            "uptime_s": self.clock.monotonic() - self._opened_at,
            "data": str(self.settings.data),
            "speedups": implementation().shown,
            "catalog_version": self.catalog.version,
            "watermark": self.watermark(),
            "wall_ms": self.clock.wall_ms(),
            "transactions": {
                "committed": self.manager.committed,
                "aborted": self.manager.aborted,
                "retried": self.manager.retried,
            },
            "queries": self.reads.queries,
            "locks": {
                "held": locks.held_count,
                "waiting": locks.waiting_count,
                "hot": [
                    {"lock": str(shown_lock(name, codecs)), "waiting": n}
                    for name, n in locks.hot(5)
                ],
            },
            "log": {
                "segments": len(segments),
                "bytes": sum(s.bytes for s in segments),
                "missing": [lost.document() for lost in self._parts.lost],
            },
            "views": {name: self.catalog.state[name].value for name in self.catalog.all_views},
            "builds": [build.document() for build in self.keeper.builds.values()],
            "loading": [] if self.catalog.load is None else list(self.catalog.load.relations),
            "verified": [
                {
                    "name": name,
                    "kind": kind,
                    "snapshot": last.snapshot,
                    "rows": last.checked.rows,
                    "differences": last.checked.differences,
                    "repaired": last.checked.repaired,
                }
                for (kind, name), last in self.verification.last.items()
            ],
            "nodes": None if member is None else member.status(await member.words()),
        }


def _attributes(result: TransactionResult) -> Attributes:
    """The attributes of the span of a transaction."""
    return {
        "hornbeam.transaction.id": result.transaction_id,
        "hornbeam.transaction.timestamp": result.commit_ts,
    }
