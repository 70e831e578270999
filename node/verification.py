"""Verification and repair of views and indexes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hornbeam_server.maintain.immediate.projected import define_any_stored
from hornbeam_server.node.assembly import Parts
from hornbeam_server.node.deferred_views import DeferredViews
from hornbeam_server.node.reads import Reads
from hornbeam_server.node.schema_plans import program_of
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.errors import InvalidRequest, NotFound
from hornbeam_server.txlayer.ddl.build_records import families
from hornbeam_server.txlayer.statements.requests import (
    RepairRows,
    TransactionRequest,
    TransactionResult,
)
from hornbeam_server.txlayer.transactions.compiled_catalog import CatalogState
from hornbeam_server.txlayer.views.verify import (
    Checked,
    Progress,
    VerifyReport,
    verify,
    verify_deferred,
)

_OF_ROWS = {"view", "index"}
"""Kinds of what is verified by a name of the catalog."""
REPAIR_BATCH = 500
"""Rows that one transaction repairs."""


@dataclass(frozen=True, slots=True)
class LastVerified:
    """The newest result for a view, index, foreign key or CHECK, without its rows and keys."""

    snapshot: int
    checked: Checked


class Verification:
    """Compares views and indexes with what their definitions give, and repairs them."""

    def __init__(
        self,
        parts: Parts,
        deferred: DeferredViews,
        reads: Reads,
        transact: Callable[[TransactionRequest], Awaitable[TransactionResult]],
    ) -> None:
        self._store = parts.ports.store
        self._engine = parts.engine
        self._manager = parts.manager
        self._keeper = parts.keeper
        self._holds = parts.keeper.readers
        self._deferred = deferred
        self._reads = reads
        self._transact = transact
        self.last: Mapping[tuple[str, str], LastVerified] = {}
        """The newest results since this node has started, by kind and name. A verification of
        everything replaces all of them, so they are bounded by the catalog."""

    async def verify(
        self,
        names: Sequence[str] | None = None,
        *,
        repair: bool = False,
        progress: Progress = lambda _name, _done, _total: None,
    ) -> VerifyReport:
        """Recompute views and indexes at one snapshot, deferred views at the snapshot of their
        group, and compare them with the stored rows. `repair` rewrites damaged rows of views and
        indexes that commits maintain, and builds damaged immediate views again, and those whose
        build has failed. Raises NotFound."""
        if repair:
            await self._rebuild_failed(names)
        async with self._reads.at() as (state, at):
            kept, deferred = names, names
            if names is not None:
                deferred = [name for name in names if name in state.catalog.deferred_view]
                kept = [name for name in names if name not in deferred]
            report = await verify(
                state.catalog,
                state.codecs,
                self._store,
                at,
                self._engine.checking,
                names=kept,
                queries={
                    view.name: define_any_stored(view, state.catalog).checked_sql
                    for view in state.catalog.transactional_view.values()
                },
                progress=progress,
            )
            later = await self._verify_deferred(state, deferred, progress)
        report = replace(report, checked=(*report.checked, *later))
        if repair and report.differences:
            repaired = tuple([await self._repair(item) for item in report.checked])
            report = replace(report, checked=repaired)
        self._remember(report, everything=names is None)
        return report

    def _remember(self, report: VerifyReport, *, everything: bool) -> None:
        catalog = self._manager.state.catalog
        before = {} if everything else self.last
        kept = {
            (kind, name): last
            for (kind, name), last in before.items()
            if kind not in _OF_ROWS or name in catalog
        }
        self.last = kept | {
            (item.kind, item.name): LastVerified(
                report.snapshot, replace(item, keys=(), sample=(), offending=())
            )
            for item in report.checked
        }

    async def _verify_deferred(
        self, state: CatalogState, names: Sequence[str] | None, progress: Progress
    ) -> list[Checked]:
        found: list[Checked] = []
        for at, views in (await self._deferred.as_of(state.catalog, names)).items():
            with self._holds.holding(at):
                found += await verify_deferred(
                    state.catalog,
                    state.codecs,
                    self._store,
                    at,
                    {name: program_of(state.catalog, name).sql_at(at) for name in views},
                    self._engine.checking,
                    progress=progress,
                )
        return found

    async def _repair(self, item: Checked) -> Checked:
        if not item.differences:
            return item
        catalog = self._manager.state.catalog
        if item.name in catalog and catalog.layout(item.name).source in catalog.transactional_view:
            return await self._rebuild(item)
        return replace(item, repaired=await self._repair_rows(item.name, item.keys))

    async def _rebuild(self, item: Checked) -> Checked:
        """Build an immediate view, or an index on one, again, in new tables: the nodes that write
        its cells may have other values in memory than the damaged ones in the store."""
        await self._keeper.rebuild([item.name])
        await self._keeper.wait_built()
        return replace(item, repaired=item.differences)

    async def _rebuild_failed(self, names: Sequence[str] | None) -> None:
        catalog = self._manager.state.catalog
        failed = [
            name
            for name, state in catalog.states
            if state is State.QUARANTINED
            and catalog.layout(name).source in catalog.transactional_view
            and (names is None or name in names)
        ]
        if failed:
            await self._keeper.rebuild(failed)
            await self._keeper.wait_built()

    async def rebuild(self, views: Sequence[str]) -> tuple[str, ...]:
        """Build views that commits maintain, and their indexes, again at the nodes, in new tables.
        Until then no query reads them. Returns the names of all. Raises NotFound, InvalidRequest
        for a deferred view, and Unavailable."""
        catalog = self._manager.state.catalog
        for name in views:
            if name in catalog.deferred_view:
                raise InvalidRequest(
                    f"{name} is not kept by commits.", cure="POST /v1/groups/rebuild rebuilds it."
                )
            if name not in catalog.view and name not in catalog.transactional_view:
                raise NotFound(f"There is no view {name} that commits keep.")
        names = families(catalog, views)
        await self._keeper.rebuild(names)
        return names

    async def repair(self, name: str, keys: Sequence[bytes]) -> int:
        """Recompute the rows under some encoded keys of a view or index, and write those that
        differ. Returns their number. Raises NotFound."""
        catalog = self._manager.state.catalog
        if not catalog.readable(name) or catalog.layout(name).source in catalog.declared_view:
            raise NotFound(f"There is no readable view or index {name} that commits keep.")
        return await self._repair_rows(name, keys)

    async def _repair_rows(self, name: str, keys: Sequence[bytes]) -> int:
        repaired = 0
        for start in range(0, len(keys), REPAIR_BATCH):
            rows = RepairRows(name, tuple(keys[start : start + REPAIR_BATCH]))
            result = await self._transact(TransactionRequest((rows,)))
            repaired += result.affected.get(name, 0)
        return repaired
