"""The keeper stores catalog versions, puts them into force, and builds and drops their tables.

A schema change has these steps: store the new version, switch writers to it between two
transactions, build new views and indexes at the switch's timestamp T while writers continue, store
and switch again with the built ones READABLE, and drop the tables that no client can read any more.

Why the build may begin at T and write with timestamp T: every commit after the switch maintains the
new view itself, with a later timestamp, so the newer row wins; every commit before the switch is
in the snapshot T (docs/architecture.md, "Views"). A build that dies is repeated at a later T: every
row that has changed since the first T has a newer cell. External builders, Spark for example, may
run the builds (`txlayer/ddl/build_records.py`): the keeper then records the key ranges that they
report as finished, and makes the tables READABLE when all ranges are finished.

The version in force is a value of the coordination service, changed by compare-and-set. A new owner
*claims* the value before it loads the catalog; from then on the previous owner cannot change it,
however late its writes arrive. Every change renews the claim, and new tables bear the number of
that claim: no other owner ever makes tables of these names, so a replaced owner can drop only its
own tables or tables that are not needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import structlog

from hornbeam_server.maintain.lifecycle import Event, transition
from hornbeam_server.maintain.recompute import scanned_relation
from hornbeam_server.maintain.spans import Span
from hornbeam_server.query.binding.renaming import renamed
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.schema.codec import encode_catalog
from hornbeam_server.schema.copies import Copy
from hornbeam_server.schema.counters import SEQUENCE, Counter
from hornbeam_server.schema.errors import (
    Corruption,
    HornbeamError,
    StalePlan,
    Unavailable,
)
from hornbeam_server.schema.renames import Rename
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.limits import require_storable
from hornbeam_server.storage.ports import Clock, Put, TableStore
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.storage.tables import create_tables
from hornbeam_server.storage.together import all_tried
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.commit.failpoints import Step, Steps, no_steps
from hornbeam_server.txlayer.ddl import build_records, copy_records, load_records
from hornbeam_server.txlayer.ddl.barrier import Barrier
from hornbeam_server.txlayer.ddl.build_records import Build, Builds, Finished
from hornbeam_server.txlayer.ddl.claim import RETRY_MAX_S, RETRY_S, TABLE, VERSION, Claim, Replaced
from hornbeam_server.txlayer.ddl.constraint_validation import check_stored
from hornbeam_server.txlayer.ddl.node_builds import build_order, built_rows
from hornbeam_server.txlayer.ddl.numbering import (
    adopted_states,
    counter_of,
    number_of,
    reads_alike,
    restarted,
    tables_of,
    turned,
    with_numbers,
)
from hornbeam_server.txlayer.ddl.tasks import Tasks
from hornbeam_server.txlayer.transactions.compiled_catalog import CatalogState
from hornbeam_server.txlayer.transactions.manager import TransactionManager

_LOG = structlog.get_logger(__name__)


class CatalogKeeper:
    """All changes of the catalog of one database, one at a time. Only the leader makes them; at the
    other nodes the keeper knows the catalog in force."""

    def __init__(
        self,
        store: TableStore,
        manager: TransactionManager,
        engine: QueryEngine,
        committer: Committer,
        clock: Clock,
        *,
        steps: Steps = no_steps,
    ) -> None:
        self._store = store
        self._manager = manager
        self._engine = engine
        self._committer = committer
        self._leading: tuple[Claim, Barrier] | None = None
        self._clock = clock
        self._steps = steps
        self.changing = asyncio.Lock()
        self.tasks = Tasks()
        self._building: asyncio.Task[None] | None = None
        self._build_at = 0
        """T of the next builds: not before the `since` of the catalog in force, and not before this
        node began to lead."""
        self.readers = manager.readers
        self.builds: dict[str, Build] = {}
        self.external = Builds(store)
        self.leader = ""
        """Address of the leader, empty when unknown."""

    @property
    def state(self) -> CatalogState:
        return self._manager.state

    async def lead(self, claim: Claim, barrier: Barrier) -> None:
        """Change the catalog from now on: clean up after the previous leader, and continue its
        builds. Raises Unavailable."""
        at = await barrier.current_timestamp()
        await self.external.load()
        # Not earlier: a change made meanwhile would be built as of a timestamp before it.
        self._leading, self._build_at = (claim, barrier), at
        self._begin_builds()
        self.tasks.spawn(self._give_up_changes())
        self.tasks.spawn(self._tidy_up(barrier))

    @property
    def leads(self) -> bool:
        return self._leading is not None

    def led(self) -> tuple[Claim, Barrier]:
        """Raises Unavailable when another node leads, or this node is not ready to lead yet."""
        if self._leading is None:
            where = f"at {self.leader}, once it is ready" if self.leader else "at no node yet"
            raise Unavailable(
                f"The catalog can be changed {where}.",
                cure="Send the change to that node, or again in a moment.",
                standby=True,
                leader=self.leader,
            )
        return self._leading

    async def apply(self, catalog: Catalog) -> None:
        """Put `catalog` into force, as `change` does. Raises StalePlan unless its version is the
        one after the version in force."""

        async def given(current: Catalog) -> Catalog:
            if catalog.version != current.version + 1:
                raise StalePlan(
                    f"The catalog was made after version {catalog.version - 1};"
                    f" version {current.version} is in force.",
                    cure="Make it again from the version in force.",
                )
            return catalog

        await self.change(given)

    async def change(
        self,
        make: Callable[[Catalog], Awaitable[Catalog]],
        *,
        external: bool = False,
        splits: Mapping[str, Sequence[bytes]] = MappingProxyType({}),
        renames: Sequence[Rename] = (),
    ) -> None:
        """Put the result of `make`, called with the catalog in force, into force, and begin to
        build its new views and indexes. `external`: leave the builds to an external builder, which
        calls `finish`. `splits`: keys by relation at which to split the tables of a new load.
        `renames`: what is in force and has other names in the result.

        No other change of the catalog runs at the same time. Raises the errors of `make`, those of
        `check_stored` when stored rows break an added constraint, and BeingLoaded when the change
        concerns a load under way; nothing has changed then. A change that has begun continues when
        its caller is cancelled.
        """
        self.led()
        await self.tasks.carry_out(self._change(make, external, splits, renames))

    async def _change(
        self,
        make: Callable[[Catalog], Awaitable[Catalog]],
        external: bool,
        splits: Mapping[str, Sequence[bytes]],
        renames: Sequence[Rename],
    ) -> None:
        claim, _ = self.led()
        async with self.changing:
            current = self.state.catalog
            made = await make(current)
            if made == current:
                return
            if renames:  # binds all views and statements again
                current = await asyncio.to_thread(renamed, current, renames)
            load_records.require_same(made, current)
            copy_records.require_same(made, current)
            await claim.put_in_force(current.version)
            made = await turned(made, current, self._manager.turned)
            catalog = with_numbers(made, current, claim.number)
            await self._require_bounds(catalog, current)
            new = tables_of(catalog) - tables_of(current)
            await create_tables(self._store, sorted(new), load_records.splits(catalog, splits))
            self._steps(Step.TABLES_CREATED)
            await self._begin_behind(catalog, current)
            if external:
                await self._note_external(build_records.external(catalog).keys() & new)
            await self._stop_building()
            try:
                await self._publish(lambda at: self._admitted(current, catalog, at))
            except Unavailable:
                raise  # the version may be in force; the next start finds out, and cleans up
            except Corruption:
                claim.require_session()  # if replaced, a successor has dropped the tables
                raise
            except HornbeamError:
                await self._drop(new)
                raise
            finally:
                self._begin_builds()
            gone = tables_of(current) - tables_of(catalog)
            if gone:
                self.tasks.spawn(self._drop_unread(gone, catalog.version))

    async def _require_bounds(self, catalog: Catalog, current: Catalog) -> None:
        """Require that counters whose bounds change are within them. Raises InvalidRequest."""
        for key, counter in catalog.counters.items():
            before = current.counters.get(key)
            if before is None or before.number != counter.number:
                continue
            if (before.last, before.first) != (counter.last, counter.first):
                await self._manager.require_bounds(before, counter)

    async def _begin_behind(self, catalog: Catalog, current: Catalog) -> None:
        """Move identity columns whose start changes while their counter stays the same."""
        for key, counter in catalog.counters.items():
            before, start = current.counters.get(key), counter.identity.start
            if before is None or key[0] == SEQUENCE:
                continue
            if before.number == counter.number and before.identity.start != start:
                await self._manager.move_to(counter, start)

    async def restart(self, relation: str, column: str, at: int | None) -> Counter:
        """Restart an identity column, or a sequence (`SEQUENCE`, name), at `at` (None: its start),
        between two transactions. Raises NotFound, InvalidRequest, Unavailable."""
        await self.change(lambda current: _ready(restarted(current, (relation, column), at)))
        return counter_of(self.state.catalog, (relation, column))

    async def _tidy_up(self, barrier: Barrier) -> None:
        await barrier.past(self.state.catalog.version)
        await self._persistently(self._drop_orphans)

    async def _drop_orphans(self) -> None:
        """After a start, drop the tables that a crash kept from being dropped. Tables of later
        claims belong to a process that has replaced this one."""
        claim, _ = self.led()
        async with self.changing:  # a change makes tables before its catalog
            stored = {name for name in await self._store.tables() if not name.startswith("s.")}
            orphans = stored - tables_of(self.state.catalog)
            await self._drop({name for name in orphans if number_of(name) <= claim.number})
            await self._forget_ended()

    async def adopt(self, built: Mapping[str, int]) -> None:
        """Make the deferred views `built` readable: the batches of their group have built them.
        `built` has their incarnations by name. Idempotent. Raises Unavailable.
        """
        if adopted_states(self.state.catalog, built) != self.state.catalog.states:
            await self.restate(lambda now: replace(now, states=adopted_states(now, built)))

    async def restate(self, make: Callable[[Catalog], Catalog]) -> None:
        """Put the result of `make` into force, in which all tables that can be read now can be read
        at the same snapshots as before: `since` stays, and builds go on. Raises the errors of
        `make`, Unavailable."""
        self.led()

        async def restated() -> None:
            async with self.changing:
                catalog = self.state.catalog
                made = make(catalog)
                if made != catalog:
                    await self._publish(lambda _: _ready(replace(made, version=made.version + 1)))

        await self.tasks.carry_out(restated())

    async def refresh_counts(self, *, factor: float = 2.0) -> None:
        """Publish row counts for the planner when one has changed by `factor`."""
        if not self.leads:
            return
        async with self.changing:
            catalog = self.state.catalog
            counts, known = self.counts(), catalog.row_count
            if any(_differ(count, known.get(name, 0), factor) for name, count in counts.items()):
                version = catalog.version + 1
                fresh = replace(catalog, version=version, row_counts=tuple(counts.items()))
                await self._publish(lambda _: _ready(fresh))

    def counts(self) -> dict[str, int]:
        """Estimated rows of relations, views and indexes, the latest transactions included. Names
        that seem empty are left out, so that the planner guesses instead of relying on 0."""
        catalog, growth = self.state.catalog, self._manager.growth.since_counted()
        names = (*catalog.schema.names, *catalog.view, *catalog.index)
        counts = {name: catalog.row_count.get(name, 0) + growth[name] for name in names}
        return {name: count for name, count in counts.items() if count > 0}

    # ------------------------------------------------------------ external builds

    async def leave_to_external(self, names: Iterable[str], *, rebuild: bool = False) -> list[str]:
        """Leave the build of views with their indexes, or of indexes, to an external builder, which
        calls `finish`. This node stops its own builds of them. Quarantined views and indexes, and
        with `rebuild` readable ones too, are built again in new tables. Returns the names of all
        these views and indexes, in any state.

        Raises NotFound, InvalidRequest, Unavailable.
        """
        self.led()
        asked = list(names)
        rebuilt_states = {State.QUARANTINED, State.READABLE} if rebuild else {State.QUARANTINED}

        def to_rebuild(catalog: Catalog) -> list[str]:
            found = build_records.external_families(catalog, asked)
            return [name for name in found if catalog.state[name] in rebuilt_states]

        async def make(current: Catalog) -> Catalog:
            return build_records.rebuilt(current, to_rebuild(current))

        if to_rebuild(self.state.catalog):
            await self.change(make, external=True)
        await self.tasks.carry_out(self._take_over(asked))
        return list(build_records.external_families(self.state.catalog, asked))

    async def rebuild(self, names: Iterable[str]) -> None:
        """Build readable and quarantined views again, in new tables. Raises Unavailable."""
        wanted = list(names)

        async def make(current: Catalog) -> Catalog:
            ended = {State.READABLE, State.QUARANTINED}
            found = [name for name in wanted if current.state.get(name) in ended]
            return build_records.rebuilt(current, found)

        await self.change(make)

    async def abandon_copies(self, copies: Sequence[Copy]) -> None:
        """Drop copies of relations if they are under way, however long a service does not answer.
        Raises Replaced."""

        async def make(current: Catalog) -> Catalog:
            return copy_records.abandoned(current, copies)

        await self._persistently(partial(self.change, make))

    async def undo(self, staged: Collection[tuple[str, str]]) -> None:
        """Drop what the first stage of a change has added, if it is still `staged`, however long a
        service does not answer. Raises Replaced."""

        async def make(current: Catalog) -> Catalog:
            return copy_records.undone(current, staged)

        await self._persistently(partial(self.change, make))

    async def _give_up_changes(self) -> None:
        """Give up the change of a former leader, for which no client waits any more."""
        catalog = self.state.catalog
        if catalog.copies:
            await self.abandon_copies(catalog.copies)
        if catalog.staged:
            await self.undo(catalog.staged)

    async def _take_over(self, names: Iterable[str]) -> None:
        async with self.changing:
            catalog = self.state.catalog
            found = build_records.external_families(catalog, names)
            tables = {t for t, name in build_records.external(catalog).items() if name in found}
            if tables := tables - self.external.tables:
                await self._stop_building()
                try:
                    await self._note_external(tables)
                finally:
                    self._begin_builds()

    async def _note_external(self, tables: Iterable[str]) -> None:
        begun = dict.fromkeys(tables, Finished())
        if begun:
            await self.external.note(begun, await self._committer.reserve())

    def external_builds(self) -> list[str]:
        """The names of unfinished external builds. Raises Unavailable when another node leads."""
        self.led()
        return [b.name for b in self.builds.values() if b.external and not b.ended]

    def missing(self, name: str) -> tuple[Span, ...]:
        """Keys of its `scanned_relation` for which the external build of `name` is not finished."""
        known = self.external.of(self.state.catalog.layout(name).table)
        return () if known is None else known.missing

    async def finish(self, rows: Mapping[str, int], span: Span, scanned: int) -> None:
        """Record that all rows for the keys in `span` are in the tables of `rows`, and on disk.
        `rows` has the number of rows by table; `scanned` rows were read for them.

        The tables become readable once all keys are finished. Raises NotFound for a table that has
        no external build, Unavailable.
        """
        self.led()
        await self.tasks.carry_out(self._finish(rows, span, scanned))

    async def _finish(self, rows: Mapping[str, int], span: Span, scanned: int) -> None:
        async with self.changing:
            self.led()[0].require_session()
            names = self._external_names()
            for table in rows:
                if table not in names:
                    raise build_records.no_build(table)
            known = {t: self.known(t).plus(span, n, scanned) for t, n in rows.items()}
            await self.external.note(known, await self._committer.reserve())
            self._show_external(names)
            self._complete(names)

    async def cancel(self, names: Iterable[str]) -> list[str]:
        """Remove views with their indexes, or indexes, that are being built from the catalog, and
        drop their tables. Returns their names. Raises NotFound, InvalidRequest, Unavailable."""
        gone: list[str] = []

        async def make(current: Catalog) -> Catalog:
            gone[:] = build_records.families(current, names)
            return build_records.cancelled(current, gone)

        await self.change(make)
        return gone

    async def give_up(self, table: str, error: str) -> None:
        """Quarantine the immediate view with this table: its external build has failed, and would
        fail again. Raises NotFound if it has none, InvalidRequest, Unavailable."""
        self.led()
        name = self._external_names().get(table)
        if name is None:
            raise build_records.no_build(table)
        build_records.require_whole(self.state.catalog, name)
        self.builds[name].error = error
        await self._quarantine({table})
        await self.forget()

    async def _quarantine(self, tables: set[str]) -> None:
        """Quarantine the views that are being built in `tables`, and drop these tables."""

        async def make(current: Catalog) -> Catalog:
            return build_records.failed(current, tables)

        await self.change(make)

    # ------------------------------------------------------------ finished ranges

    async def forget(self) -> None:
        async with self.changing:
            await self._forget_ended()

    def known(self, table: str) -> Finished:
        return self.external.of(table) or Finished()

    def _external_names(self) -> dict[str, str]:
        """The names of BUILDING views and indexes with an external build, by table."""
        found = build_records.external(self.state.catalog)
        return {table: name for table, name in found.items() if table in self.external.tables}

    def _show_external(self, names: Mapping[str, str]) -> None:
        catalog = self.state.catalog
        for table, name in names.items():
            known = self.known(table)
            total = catalog.row_count.get(scanned_relation(catalog, name))
            self.builds[name] = Build(
                name, 0, known.rows, total, external=True, scanned=known.scanned
            )

    def _complete(self, names: Mapping[str, str]) -> None:
        tables = {table for table in names if not self.known(table).missing}
        if tables:
            self.tasks.spawn(self._completed(tables))

    async def _completed(self, tables: set[str]) -> None:
        """Make `tables`, which have all their rows, readable. A schema change that runs first drops
        the tables, or leaves them as they are."""
        await self._persistently(partial(self._mark_readable, tables))
        for name, build in self.builds.items():
            build.finished |= build.external and self.state.catalog.readable(name)
        await self.forget()  # after changes under way: they note builds before their catalog

    async def _forget_ended(self) -> None:
        """Delete the records of builds that have ended. A record that stays does no harm."""
        kept = {*self._external_names(), *load_records.tables(self.state.catalog).values()}
        ended = self.external.tables - kept
        if ended:
            await self.external.forget(ended, await self._committer.reserve())

    async def wait_built(self) -> None:
        """Return when no build or change is under way. Raises the error of one that fails."""
        await self.tasks.wait()

    async def close(self) -> None:
        """Stop builds and changes. Builds begin again at the next start."""
        await self.tasks.close()

    # ------------------------------------------------------------ inside

    async def _publish(self, make: Callable[[int], Awaitable[Catalog]]) -> None:
        """Store the catalog that `make` returns, put it into force, and switch to it. `make` gets
        the timestamp of the change. A crash in between leaves either version in force."""
        claim, barrier = self.led()
        async with barrier.closed():
            # Every commit under an older catalog is below `at`, and applied, and every snapshot
            # that is read under it is below `at`, too. Every commit under the new catalog, of any
            # node, is later.
            async with self._committer.held() as at:
                catalog = await make(at)
                put = Put(VERSION.pack(catalog.version), encode_catalog(catalog))
                await self._store.put({TABLE: [put]}, at)
                await self._store.flush()
                self._steps(Step.CATALOG_STORED)
                await claim.put_in_force(catalog.version)
                self._steps(Step.CATALOG_IN_FORCE)
                self._manager.use(catalog)
            # Before the barrier opens: opening may fail with an unknown outcome.
            self._build_at = max(self._build_at, catalog.since)
            barrier.announce(catalog.version)
        self._steps(Step.SWITCHED)
        if self.state.catalog.row_counts:
            self._manager.growth.count()

    async def _admitted(self, current: Catalog, catalog: Catalog, at: int) -> Catalog:
        """Check stored rows, as `current` reads them, against the new constraints of `catalog`, and
        fill its new UNIQUE indexes. Returns `catalog` with these READABLE, in force since `at`.

        The first commit under the catalog relies on both, so writers wait for it. Raises the errors
        of `check_stored` for stored rows that break a constraint.
        """
        codecs, states = Codecs(catalog), dict(catalog.states)
        await check_stored(
            current, catalog, partial(self._count, catalog, at), partial(self._count, current, at)
        )
        for index in catalog.indexes:
            if index.unique and states[index.name] is State.BUILDING:
                build = self.builds[index.name] = Build(index.name, at)
                await self._build_one(catalog, codecs, build)
                built = transition(State.BUILDING, Event.BUILT)
                states[index.name] = transition(built, Event.CAUGHT_UP)
                build.finished = True
        self._steps(Step.ADMITTED)
        admitted = replace(catalog, states=tuple(states.items()), since=at)
        return (
            replace(admitted, since=current.since) if reads_alike(admitted, current) else admitted
        )

    async def _count(self, catalog: Catalog, at: int, sql: str) -> int:
        """The number that a query returns over the rows as of `at`, as `catalog` reads them."""
        query = self._engine.prepare(sql, catalog, use_views=False)
        ((found,),) = await (await query.run(Snapshot(self._store, Codecs(catalog), at))).all()
        assert isinstance(found, int)
        return found

    def _begin_builds(self) -> None:
        catalog = self.state.catalog
        # Deferred views are filled by the first batch of their group.
        names = [
            name
            for name, state in catalog.states
            if state is State.BUILDING and name not in catalog.deferred_view
        ]
        self.builds = {n: b for n, b in self.builds.items() if b.ended or n in names}
        external = self._external_names()
        self._show_external(external)
        self._complete(external)
        names = [name for name in names if name not in external.values()]
        if not names:
            return
        for name in names:
            total = catalog.row_count.get(scanned_relation(catalog, name))
            self.builds[name] = Build(name, self._build_at, total=total)
        self._building = self.tasks.spawn(self._build(build_order(catalog, names)))

    async def _stop_building(self) -> None:
        """Stop the builds of this node. A build must end under the catalog that it began under:
        under another one its names may mean other tables. Builds that the next catalog still needs
        begin again at its T."""
        if self._building is not None:
            self._building.cancel()
            await asyncio.wait({self._building})
            self._building = None

    async def _build(self, names: list[str]) -> None:
        catalog, codecs = self.state.catalog, self.state.codecs
        await self._persistently(partial(self._build_round, catalog, codecs, [*names]))
        failed = {
            codecs(name).layout.table
            for name in names
            if catalog.layout(name).source in catalog.transactional_view and self.builds[name].error
        }
        if failed:  # in a task of its own: the change stops this one
            self.tasks.spawn(self._persistently(partial(self._quarantine, failed)))

    async def _build_round(self, catalog: Catalog, codecs: Codecs, waiting: list[str]) -> None:
        """Build all names in `waiting`, and remove those that have ended. A build that a service
        does not answer keeps no other build from ending. Raises Unavailable when a name is left."""
        built, failed = [], None
        for name in [*waiting]:
            build = self.builds[name]
            try:
                await self._build_one(catalog, codecs, build)
                built.append(name)
            except Replaced:
                raise
            except Unavailable as error:
                failed = error
                continue
            except HornbeamError as error:
                build.error, build.failure = str(error), error
                _LOG.error("build failed", name=name, error=str(error))
            waiting.remove(name)
        if built:
            tables = {codecs(name).layout.table for name in built}
            at = max(self.builds[name].at for name in built)
            await self._persistently(partial(self._mark_readable, tables, at))
        for name in built:
            self.builds[name].finished = True
        if failed is not None:
            raise failed

    async def _persistently(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat `work` until it succeeds, as long as it raises Unavailable. Raises Replaced."""
        pause_s = RETRY_S
        while True:
            try:
                return await work()
            except Replaced:
                raise
            except Unavailable as error:
                _LOG.warning("a schema change waits for a service", error=str(error))
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_MAX_S)

    async def _build_one(self, catalog: Catalog, codecs: Codecs, build: Build) -> None:
        """Build one view or index at its T."""
        reader = Snapshot(self._store, codecs, build.at)
        draw = self._manager.new_rows().drawn
        async with aclosing(built_rows(catalog, codecs, reader, build, draw)) as parts:
            async for puts in parts:
                await self._put_built(puts, build)

    async def _put_built(self, puts: Mapping[str, Sequence[Put]], build: Build) -> None:
        """Put rows of a build at its T. A replaced process must not put rows as of T: its successor
        may have purged the tombstones above T that would hide them."""
        claim, _ = self.led()
        require_storable(puts)
        self._steps(Step.BUILDING)
        claim.require_session()
        await self._store.put(puts, build.at)
        await self._clock.sleep(0)

    async def _mark_readable(self, tables: set[str], complete_at: int | None = None) -> None:
        """Make the views and indexes in `tables` readable, unless they have been dropped. They can
        be read at snapshots from `complete_at` on; None: from now on."""
        await self._store.flush()
        self._steps(Step.BUILT)
        async with self.changing:
            catalog = self.state.catalog
            states = dict(catalog.states)
            building = build_records.building(catalog)
            names = [name for table, name in building.items() if table in tables]
            if not names:
                return
            for name in names:
                states[name] = transition(transition(states[name], Event.BUILT), Event.CAUGHT_UP)
            counted = self.counts() | {name: self.builds[name].rows for name in names}
            counts = {name: count for name, count in counted.items() if count}
            readable = replace(
                catalog,
                version=catalog.version + 1,
                states=tuple(states.items()),
                row_counts=tuple(counts.items()),
            )
            least = None if complete_at is None else max(catalog.since, complete_at)
            await self._publish(lambda at: _ready(replace(readable, since=least or at)))

    async def _drop_unread(self, tables: set[str], version: int) -> None:
        _, barrier = self.led()
        await barrier.past(version)
        await self._persistently(partial(self._drop, tables))

    async def _drop(self, tables: set[str]) -> None:
        async def drop(table: str) -> None:
            self._steps(Step.DROPPING)
            await self._store.drop_table(table)

        await all_tried(partial(drop, table) for table in sorted(tables))
        self._steps(Step.DROPPED)


async def _ready(catalog: Catalog) -> Catalog:
    """`catalog` itself, for a change that adds no constraint."""
    return catalog


def _differ(count: int, known: int, factor: float) -> bool:
    return count > factor * known or known > factor * count
