"""Queries of a node: the choice of a snapshot, and the run of a plan at it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from hornbeam_server.node.assembly import Parts
from hornbeam_server.node.deferred_views import DeferredViews, Freshness, StaleAnswers
from hornbeam_server.node.live.ahead import Ahead, ReadsAhead, Tentative
from hornbeam_server.node.live.outcomes import Left
from hornbeam_server.node.ownership import Ownership
from hornbeam_server.node.query_stages import (
    DirectResult,
    Pending,
    Planned,
    QueryResult,
    Wanted,
)
from hornbeam_server.node.sizes import names_with_bytes, sizes_of
from hornbeam_server.node.statement_statistics import StatementStatistics
from hornbeam_server.query.engine import PreparedQuery, QueryStream
from hornbeam_server.query.execution.measures import Measures, Measuring
from hornbeam_server.query.explain import Explanation
from hornbeam_server.query.parsing.sequence_calls import names_sequences
from hornbeam_server.query.system.asking import ADMINISTRATOR, Asker, Facts
from hornbeam_server.query.system.relations import live_table
from hornbeam_server.query.system.sizes import FULL as SIZES
from hornbeam_server.query.workers.processes import timed_out
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import (
    Corruption,
    InvalidRequest,
    SnapshotTooOld,
    SqlError,
    Unavailable,
    Unsupported,
)
from hornbeam_server.schema.types import Value
from hornbeam_server.storage import tracing
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.direct import DirectSnapshot
from hornbeam_server.storage.ports import DirectReader
from hornbeam_server.storage.read_ranges import ReadRange
from hornbeam_server.storage.snapshot import CATALOG, Overlay, ReadItem, Snapshot
from hornbeam_server.txlayer.locking.read_checks import noting_store
from hornbeam_server.txlayer.statements.requests import (
    Parameters,
    Replay,
    SqlWork,
    require_admitted,
)
from hornbeam_server.txlayer.statements.write_explanations import write_explanation
from hornbeam_server.txlayer.transactions.compiled_catalog import CatalogState
from hornbeam_server.txlayer.transactions.numbered_queries import NumberedQuery, numbered_query

_DIRECT = {"bookmark", "use_views"}
"""The options of a query that a direct read takes."""


class Reads:
    """Queries, each at one snapshot, under the catalog of that snapshot."""

    def __init__(self, parts: Parts, deferred: DeferredViews, ownership: Ownership) -> None:
        self.queries = 0
        """Queries that were begun since the start."""
        self._settings = parts.settings
        self._clock = parts.ports.clock
        self._store = parts.ports.store
        self._direct = parts.ports.store.direct
        self._reader = parts.committer.reader
        self._engine = parts.engine
        self._manager = parts.manager
        self._holds = parts.keeper.readers
        self._deferred = deferred
        self._ownership = ownership
        self.statements = StatementStatistics(self._clock, parts.settings.max_statement_texts)
        self.tentative: ReadsAhead | None = None
        """Computes live and deferred views for tentative queries."""
        self.tentative_computed = self.tentative_as_stored = 0
        """Tentative queries whose views were computed, and whose views were read as stored."""

    @property
    def _catalog(self) -> Catalog:
        return self._manager.state.catalog

    def prepare(self, sql: str, *, use_views: bool = True) -> PreparedQuery:
        """Plan a query under the catalog in force. Plans are cached by text."""
        return self._engine.prepare(sql, self._catalog, use_views=use_views)

    def directly(
        self, sql: str, parameters: Parameters = (), *, bookmark: int = 0, use_views: bool = True
    ) -> DirectResult | None:
        """Answer a short SELECT at once, as `query` would with the same options. None if it may
        have to wait, or is not short: then `query` answers. Raises HornbeamError.

        No other task runs during the call. So nothing has to be held: the table is not dropped, and
        the newest snapshot is not purged.
        """
        began = self.statements.now()
        found = self._directly(sql, parameters, bookmark, use_views=use_views)
        if found is not None:
            self.statements.read(sql, began, len(found.rows), found.rows_read, found.served_by)
            if tracing.current() is not None:
                seconds = self.statements.now() - began
                tracing.record_statement(sql, seconds, len(found.rows), found.rows_read)
        return found

    def _directly(
        self, sql: str, parameters: Parameters, bookmark: int, *, use_views: bool
    ) -> DirectResult | None:
        store, state = self._direct, self._manager.state
        if store is None:
            return None
        prepared = self._engine.known(sql, state.catalog, use_views=use_views)
        if prepared is None and not parameters:
            return self._directly_shared(sql, bookmark, use_views=use_views)
        if prepared is None:
            return None
        typed = prepared.typed(parameters)
        return self._run_directly(typed, store, parameters, bookmark) if typed.direct else None

    def _directly_shared(self, sql: str, bookmark: int, *, use_views: bool) -> DirectResult | None:
        """Answer by a plan that the statement shares with others; None also for an error, which
        names the statement as it is when `query` meets it."""
        store, catalog = self._direct, self._manager.state.catalog
        try:
            shared = self._engine.shared(sql, catalog, use_views=use_views)
            if shared is None or store is None or not shared[0].direct:
                return None
            return self._run_directly(shared[0], store, shared[1], bookmark)
        except SqlError:
            return None

    def _run_directly(
        self, prepared: PreparedQuery, store: DirectReader, parameters: Parameters, bookmark: int
    ) -> DirectResult | None:
        state = self._manager.state
        at = self._ownership.snapshots.at_once(max(bookmark, state.catalog.since))
        if at is None or self._ownership.behind_s is not None:
            return None
        self._ownership.require_owner()
        snapshot = DirectSnapshot(store, state.codecs, at)
        rows = prepared.run_directly(snapshot, parameters)
        if rows is None:
            return None
        self._ownership.require_kept(at)
        self.queries += 1
        return DirectResult(
            columns=prepared.columns, rows=rows, rows_read=snapshot.rows_read, snapshot=at,
            served_by=prepared.served_by,
        )  # fmt: skip

    @contextlib.asynccontextmanager
    async def query(
        self,
        sql: str,
        parameters: Parameters = (),
        *,
        bookmark: int = 0,
        snapshot: int | None = None,
        strong: bool = False,
        tentative: bool = False,
        pending: Sequence[SqlWork] = (),
        replay: Replay | None = None,
        trace: bool = False,
        serializable: bool = False,
        locking_only: bool = False,
        use_views: bool = True,
        timeout_s: float | None = None,
        max_rows: int | None = None,
        columnar: bool = False,
        max_staleness_s: float | None = None,
        view_bookmark: int = 0,
        view_wait_s: float = 0.0,
        session: Mapping[str, int] = MappingProxyType({}),
        measures: Measures | None = None,
        admitted_under: int | None = None,
        shown: frozenset[str] | None = None,
        asker: Asker = ADMINISTRATOR,
    ) -> AsyncIterator[QueryResult]:
        """Run a SELECT at one snapshot. Its rows must be read inside the context.

        Without `snapshot` the query reads at a snapshot that holds every commit up to `bookmark`
        and all that this node has acknowledged, with `strong` that any node has. `trace` collects
        the versions of rows, `serializable` the ranges of keys instead, `locking_only` neither
        unless the query has FOR UPDATE. `columnar` plans for a result that is read as Arrow. A
        query that names deferred views reads at the snapshot of their group. It waits up to
        `view_wait_s` until this snapshot holds all commits up to `view_bookmark` and is not older
        than `max_staleness_s`, and fails then. Deferred views that are not older may also answer
        the aggregates of a query that does not name them, unless it is traced, strong, or has a
        `snapshot`, pending writes, or a later `bookmark`. It then reads at their snapshot. A
        `tentative` query reads deferred views that it names at the newest snapshot, or at
        `snapshot`, as far as the node computes them there. `session` has the last numbers of
        sequences of the client, by name; `measures` collects what the plan reads. `admitted_under`
        is as in a `TransactionRequest`. `shown` are the names that the system catalog shows to the
        query (None: all), and `asker` is the client about which live system relations tell. Raises
        HornbeamError, OtherCatalog.
        """
        began, limit_s = self.statements.now(), timeout_s or self._settings.statement_timeout_s
        wanted = Wanted(
            sql, bookmark, snapshot, strong, tentative, bool(pending),
            (trace and not locking_only) or serializable, use_views, columnar,
            Freshness(max_staleness_s, view_bookmark, min(view_wait_s, limit_s)),
            began + limit_s, self._manager.numbers(session), shown, began, max_rows, asker,
        )  # fmt: skip
        with tracing.statement(sql):
            await self._until_fresh(wanted)
            async with self.at(snapshot, bookmark, strong=strong, logged=True) as (state, newest):
                require_admitted(admitted_under, state.catalog.version)
                shown_catalog = wanted.under(state.catalog)
                planned = await self._planned(wanted, parameters, shown_catalog, newest)
                prepared, at = planned.query, planned.at
                versions = trace and not serializable and (prepared.locking or not locking_only)
                reads, ranges = _collected(state, versions=versions, ranges=serializable)
                sent = Pending(pending, replay, wanted.deadline)
                reader = await self._read_through(state, planned, sent, reads, ranges)
                async with self._running(wanted, planned, reader, measures) as stream:
                    yield QueryResult(
                        stream=stream, snapshot=at, served_by=prepared.served_by, reads=reads,
                        ranges=ranges, drawn=wanted.numbers.drawn,
                        tentative=Tentative(planned.as_of, planned.reason) if tentative else None,
                    )  # fmt: skip

    @contextlib.asynccontextmanager
    async def _running(
        self, wanted: Wanted, planned: Planned, reader: Snapshot, measures: Measures | None
    ) -> AsyncIterator[QueryStream]:
        """The rows of a planned query. The query ends, and is counted, with the context."""
        counted = self.statements.reading(wanted.sql, wanted.began)
        live = await self._live(wanted, planned.query) if planned.query.live else {}
        with self._holds.holding(planned.as_of), counted as running:
            stream = await planned.query.run(
                reader if measures is None else Measuring(reader, measures),
                planned.parameters,
                deadline=wanted.deadline,
                max_rows=wanted.max_rows,
                live=live,
            )
            self.queries += 1
            running.run(stream, reader, planned.query.served_by)
            try:
                yield stream
            finally:
                tracing.note_rows(stream.returned, reader.rows_read)
                await stream.close()

    async def _live(
        self, wanted: Wanted, query: PreparedQuery | NumberedQuery
    ) -> Mapping[str, pa.Table]:
        """The live system relations that a query reads. Of tables on HBase no sizes are known,
        because to count them is to read all of them. Raises Unavailable, StatementTimeout."""
        sizes: Mapping[str, int] = {}
        if SIZES in query.live and self._settings.store == "embedded":
            catalog = query.catalog
            try:
                async with asyncio.timeout_at(wanted.deadline):
                    names = names_with_bytes(catalog.described)
                    sizes = await sizes_of(self._store, catalog, names)
            except TimeoutError:
                raise timed_out() from None
        facts = Facts(wanted.asker, sizes)
        return {name: live_table(name, query.catalog, facts) for name in query.live}

    async def _read_through(
        self,
        state: CatalogState,
        planned: Planned,
        pending: Pending,
        reads: list[ReadItem] | None,
        ranges: list[ReadRange] | None,
    ) -> Snapshot:
        """The rows that a query reads, with the changes of the statements that its transaction has
        sent. Their versions are added to `reads`, and their ranges of keys to `ranges`."""
        overlay: Overlay | None = None
        if pending.statements:
            left_s = pending.deadline - self._clock.monotonic()
            overlay = await self._manager.pending(
                pending.statements, state, planned.at, pending.replay, left_s, ranges
            )
        if reads is not None and overlay is not None:
            served_by = planned.query.served_by
            reads += await self._started_from(served_by, overlay, state.codecs, planned.at)
        return self._rows(state, planned, overlay, reads, ranges)

    async def _until_fresh(self, wanted: Wanted) -> None:
        """Wait for the views that a query names, before it holds a catalog: changes of the schema
        do not wait for it."""
        catalog = wanted.under(self._catalog)
        if not (wanted.fresh.wait_s and catalog.deferred) or wanted.tentative:
            return
        names = (await self._prepared(wanted, catalog)).deferred
        if names:
            await self._deferred.wait(catalog, names, wanted.fresh)

    async def _planned(
        self, wanted: Wanted, parameters: Parameters, catalog: Catalog, newest: int
    ) -> Planned:
        """The plan of a query that reads at `newest`, or at a snapshot of deferred views."""
        shared = None if parameters or wanted.pending else self._shared(wanted, catalog)
        if shared is not None:
            return Planned(*shared, newest)
        prepared = await self._prepared(wanted, catalog)
        if prepared.deferred:
            return await self._over_views(wanted, prepared, parameters)
        if wanted.may_be_stale and catalog.deferred:
            for found in await self._answering(wanted, catalog):
                stale = await self._prepared(wanted, catalog, found.views)
                if stale.deferred:
                    return Planned(stale, parameters, found.as_of)
        return Planned(prepared, parameters, newest)

    async def _over_views(
        self, wanted: Wanted, prepared: PreparedQuery | NumberedQuery, parameters: Parameters
    ) -> Planned:
        """The plan of a query that names deferred views."""
        if wanted.strong or wanted.pending:
            raise Unsupported(
                f"{', '.join(prepared.deferred)} lag behind, so they do not show"
                + (" what this transaction writes." if wanted.pending else " what is strong."),
                cure="Ask for a snapshot read, before the first write.",
            )
        reason = ""
        if wanted.tentative:
            try:
                ahead = await self._ahead(wanted, prepared)
            except Left as left:
                reason = left.reason
            else:
                self._deferred.require_fresh(
                    prepared.catalog, prepared.deferred, ahead.at, wanted.fresh
                )
                self.tentative_computed += 1
                return Planned(prepared, parameters, ahead.at, ahead)
        at = await self._deferred.read_at(prepared, asked=wanted.snapshot, fresh=wanted.fresh)
        self.tentative_as_stored += wanted.tentative
        return Planned(prepared, parameters, at, reason=reason)

    async def _ahead(self, wanted: Wanted, prepared: PreparedQuery | NumberedQuery) -> Ahead:
        """The deferred views that a tentative query names, at its snapshot. Raises Left,
        StatementTimeout, and the errors of `ReadsAhead.ahead`."""
        assert self.tentative is not None
        catalog, names = prepared.catalog, tuple(sorted(prepared.deferred))
        least = max(wanted.bookmark, wanted.fresh.bookmark, catalog.since)
        try:
            async with asyncio.timeout_at(wanted.deadline):
                return await self.tentative.ahead(
                    catalog, names, least=least, asked=wanted.snapshot
                )
        except TimeoutError:
            raise timed_out() from None

    def _shared(
        self, wanted: Wanted, catalog: Catalog
    ) -> tuple[PreparedQuery, Sequence[Value]] | None:
        """A plan that a query shares with others, and the values of its literals."""
        sql, engine = wanted.sql, self._engine
        if wanted.columnar or names_sequences(sql):
            return None
        options = {"use_views": wanted.use_views, "traced": wanted.trace}
        if engine.known(sql, catalog, **options) is not None:
            return None
        try:
            found = engine.shared(sql, catalog, **options)
            return found if found is not None and found[0].takes(found[1]) else None
        except SqlError:
            return None  # the error names the statement as it is when it is planned

    async def _prepared(
        self, wanted: Wanted, catalog: Catalog, stale: frozenset[str] = frozenset()
    ) -> PreparedQuery | NumberedQuery:
        sql, engine = wanted.sql, self._engine
        options: dict[str, Any] = {
            "use_views": wanted.use_views,
            "columnar": wanted.columnar,
            "traced": wanted.trace,
            "stale": stale,
        }

        def prepare() -> PreparedQuery | NumberedQuery:
            if not names_sequences(sql):
                return engine.prepare(sql, catalog, **options)
            planned = partial(engine.prepare_bound, **options)
            return numbered_query(sql, catalog, wanted.numbers, planned)

        return await engine.read(len(sql), prepare, wanted.deadline)

    async def _answering(self, wanted: Wanted, catalog: Catalog) -> list[StaleAnswers]:
        """The groups whose views may answer. None if their states cannot be read: the relations
        answer then."""
        try:
            found = await self._deferred.answering(
                catalog, bookmark=wanted.bookmark, max_staleness_s=wanted.fresh.max_staleness_s
            )
        except Unavailable:
            return []
        return [each for each in found if not each.refusal]

    @contextlib.asynccontextmanager
    async def at(
        self,
        asked: int | None = None,
        bookmark: int = 0,
        *,
        strong: bool = False,
        logged: bool = False,
    ) -> AsyncIterator[tuple[CatalogState, int]]:
        """A catalog, and a snapshot to read under it. With `logged`, only `Committer.reader` has
        all rows of the snapshot; without, the store has them, for other processes too. Inside the
        context the tables of the catalog are not dropped, and the versions of the snapshot are not
        purged. The loop repeats when the catalog changes during the wait for the snapshot: the old
        one does not fit then."""
        while True:
            state = self._manager.state
            async with self.reading(state.catalog.version):
                at = await self._snapshot(asked, bookmark, strong=strong, logged=logged)
                if state is self._manager.state:
                    with self._holds.holding(at):
                        yield state, at
                    return

    @contextlib.asynccontextmanager
    async def reading(self, version: int) -> AsyncIterator[None]:
        """Inside the context no table of this version of the catalog is dropped, unless by a
        successor of this process. What looks like damage then is reported as Unavailable."""
        async with self._holds.reading(version):
            try:
                yield
            except Corruption:
                self._ownership.require_owner()
                raise

    def _rows(
        self,
        state: CatalogState,
        planned: Planned,
        overlay: Overlay | None,
        reads: list[ReadItem] | None,
        ranges: list[ReadRange] | None,
    ) -> Snapshot:
        """The rows at a query's snapshot, with pending changes over them; `reads` or `ranges`
        collects what is read."""
        at = planned.at
        return Snapshot(
            noting_store(planned.over(self._reader), state.catalog, ranges),
            state.codecs,
            at,
            mutations=overlay,
            trace=reads,
            require_valid=partial(self._ownership.require_kept, planned.as_of),
        )

    async def _started_from(
        self, layouts: Sequence[str], overlay: Overlay, codecs: Codecs, at: int
    ) -> list[ReadItem]:
        """The stored row versions that pending changes replace, in the layouts that a query reads.
        A query that reads a pending change depends on the version that the change starts from."""
        found: list[ReadItem] = []
        views = codecs.catalog.transactional_view
        for name in layouts:
            if codecs.catalog.layout(name).source in views:
                continue  # reads of immediate views are not validated
            keys = list(overlay.rows(name))
            cells = await self._reader.get(codecs(name).layout.table, keys, at)
            found += [ReadItem(name, cell.key, cell.ts) for cell in cells if cell is not None]
        return found

    async def fetch(
        self, sql: str, parameters: Parameters = (), **options: Any
    ) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        if options.keys() <= _DIRECT:
            direct = self.directly(sql, parameters, **options)
            if direct is not None:
                return direct.rows
        async with self.query(sql, parameters, **options) as result:
            return list(await result.stream.all())

    async def _snapshot(
        self, asked: int | None, bookmark: int, *, strong: bool, logged: bool
    ) -> int:
        least, snapshots = max(bookmark, asked or 0, self._catalog.since), self._ownership.snapshots
        try:
            newest = await snapshots.read_point(least, strong=strong, logged=logged)
        except InvalidRequest:
            self._ownership.require_owner()  # else the bookmark may come from a successor
            raise
        if asked is None:
            if self._ownership.behind_s is None:
                self._ownership.require_owner()
            return newest
        now = newest + int((self._ownership.behind_s or 0) * 1000)
        oldest = now - int(self._settings.snapshot_retention_s * 1000)
        since, why = self._catalog.since, ""
        if asked < max(oldest, since):
            if asked >= oldest:
                why = f": at {since} the schema has changed, or a build has begun or ended"
            raise SnapshotTooOld(
                f"Snapshot {asked} is older than what is kept{why}.",
                cure="Begin a new transaction.",
            )
        return asked

    async def snapshot_after(self, earlier: int) -> tuple[Catalog, int]:
        """The catalog in force, and a snapshot under it that is later than `earlier`, a snapshot
        that was given out, and holds every commit that any node has acknowledged. Raises
        Unavailable."""
        try:
            async with self.at(bookmark=earlier + 1, strong=True) as (state, at):
                if at > earlier:
                    return state.catalog, at
            why = "a change of the schema is under way"
        except InvalidRequest:
            self._ownership.require_owner()
            why = "the clocks of the nodes are behind it"
        raise Unavailable(
            f"There is no snapshot after {earlier} yet: {why}.", cure="Ask again in a moment."
        )

    def explain(
        self, sql: str, parameters: Parameters | None = None, *, use_views: bool = True
    ) -> Explanation:
        """The plan of a query, with the reasons for it."""
        return self.prepare(sql, use_views=use_views).explain(parameters)

    async def explained(
        self,
        sql: str,
        parameters: Parameters | None = None,
        *,
        use_views: bool = True,
        trace: bool = False,
        bookmark: int = 0,
        max_staleness_s: float | None = None,
        strong: bool = False,
        tentative: bool = False,
        admitted_under: int | None = None,
        shown: frozenset[str] | None = None,
    ) -> Explanation:
        """The plan that `query` would run with the same options, with the reasons for it; or the
        plan of a statement that writes. Raises HornbeamError."""
        deadline = self._clock.monotonic() + self._settings.statement_timeout_s
        wanted = Wanted(
            sql, bookmark, None, strong, tentative, False, trace, use_views, False,
            Freshness(max_staleness_s), deadline,
            self._manager.numbers({}), shown,
        )  # fmt: skip
        catalog = wanted.under(self._catalog)
        require_admitted(admitted_under, catalog.version)
        of_write = partial(write_explanation, sql, catalog, self._engine)
        written: Explanation | None = await self._engine.read(len(sql), of_write, deadline)
        if written is not None:
            return written
        prepared = await self._prepared(wanted, catalog)
        notes = _tentative_notes(prepared.deferred) if tentative else []
        if trace and use_views:
            notes += await self._traced(replace(wanted, trace=False), catalog)
        elif use_views and not (prepared.deferred or strong or tentative) and catalog.deferred:
            found = await self._deferred.answering(
                catalog, bookmark=bookmark, max_staleness_s=max_staleness_s
            )
            for each in found:
                stale = await self._prepared(wanted, catalog, each.views)
                if stale.deferred:
                    notes.append(_stale_note(stale.deferred, each))
                    if not each.refusal:
                        prepared = stale
                        break
        explain = partial(prepared.explain, parameters, notes=notes)
        return await self._engine.read(len(sql), explain, deadline)

    async def analyzed(
        self,
        sql: str,
        parameters: Parameters = (),
        *,
        use_views: bool = True,
        trace: bool = False,
        bookmark: int = 0,
        max_staleness_s: float | None = None,
        strong: bool = False,
        tentative: bool = False,
        admitted_under: int | None = None,
        shown: frozenset[str] | None = None,
        asker: Asker = ADMINISTRATOR,
    ) -> Explanation:
        """Run the query, and explain the plan that ran, with the rows and the time of each step.
        Raises HornbeamError."""
        options: dict[str, Any] = {
            "use_views": use_views, "trace": trace, "bookmark": bookmark,
            "max_staleness_s": max_staleness_s, "strong": strong, "tentative": tentative,
            "admitted_under": admitted_under, "shown": shown,
        }  # fmt: skip
        planned = await self.explained(sql, parameters or None, **options)
        measures = Measures(self._clock.monotonic)
        rows, began = 0, self._clock.monotonic()
        async with self.query(sql, parameters, measures=measures, asker=asker, **options) as result:
            async for batch in result.stream.batches():
                rows += len(batch)
            views = self._catalog.deferred_view.keys() & result.served_by if tentative else ()
            done = _tentative_notes(views, result.tentative, result.snapshot)
        ms = (self._clock.monotonic() - began) * 1000
        explain_run = partial(measures.prepared.explain_run, measures, rows, ms)
        found: Explanation = await self._engine.read(len(sql), explain_run)
        return replace(found, notes=(*planned.notes, *done))

    async def _traced(self, wanted: Wanted, catalog: Catalog) -> list[str]:
        """Why no view answers aggregates in a transaction, if one would outside."""
        outside = await self._prepared(wanted, catalog)
        return [
            f"view {name}: it answers the aggregates in autocommit only, because the commit of a"
            " transaction checks the rows that it has read, and cannot check groups"
            for name in outside.answered_by
        ]


def _collected(
    state: CatalogState, *, versions: bool, ranges: bool
) -> tuple[list[ReadItem] | None, list[ReadRange] | None]:
    """The lists in which a query collects the versions and the ranges of keys that it reads."""
    reads = [ReadItem(CATALOG, b"", state.meaning)] if versions else None
    return reads, [] if ranges else None


def _tentative_notes(
    views: Collection[str], ran: Tentative | None = None, at: int = 0
) -> list[str]:
    """What a tentative read does with the live and deferred views that it names, or with what it
    has read at snapshot `at`."""
    if not views:
        return []
    if ran is None:
        names = ", ".join(sorted(views))
        return [f"tentative: {names} at the newest snapshot if the node can, else as stored"]
    if ran.reason:
        return [f"tentative: read as stored at {at}, because {ran.reason}"]
    return [f"tentative: stored at {ran.as_of}, computed from there to {at}"]


def _stale_note(views: Sequence[str], found: StaleAnswers) -> str:
    named = f"deferred view {', '.join(views)} ({found.age_s:.1f} s old)"
    if found.refusal:
        return f"{named} does not answer the aggregates: {found.refusal}"
    return f"{named} answers the aggregates; everything is read at its snapshot, {found.as_of}"
