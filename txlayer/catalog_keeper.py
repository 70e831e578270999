"""The catalog's keeper: stores versions, puts them into force, builds and drops what they say.

A schema change is: store the new version, switch writers to it between two transactions, build
new views and indexes at the switch's timestamp T while writers go on, store and switch again with
the built ones READABLE, and drop tables that nobody can read any more.

Why the build may begin at T and write with timestamp T: every commit after the switch keeps the
new view itself, with a later timestamp, so whichever row is newer wins; every commit before it is
in the snapshot T (architecture.md, "View life cycle"). A build that dies is simply done again at
a later T: whatever has changed since the first T carries a newer cell. Builds may be left to
others, Spark for one (`txlayer/builds.py`): the keeper then notes what they say is finished, and
puts into force that all is.

Which version is in force is a value of the coordination service, changed by compare-and-set. A new
owner *claims* it before it loads the catalog; whoever owned it before cannot change it any more,
however late the writes arrive that it had sent. Every change claims anew, and new tables bear the
number of that claim: no other owner ever makes tables of these names, so whoever was replaced can
drop only what is his or what nobody needs.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

import structlog

from maintain.lifecycle import Event, transition
from maintain.recompute import build_batches, scanned_relation
from maintain.spans import Span
from query.engine import QueryEngine
from schema.catalog import Catalog, Forest, Purpose, State
from schema.codec import decode_catalog, encode_catalog
from schema.errors import Corruption, HornbeamError, NotFound, StalePlan, Unavailable
from schema.model import Schema
from storage.codec.rows import Codecs
from storage.limits import require_storable
from storage.ports import NEWEST, Clock, Coordination, Put, TableStore, Versioned
from storage.snapshot import Snapshot
from txlayer import builds, loads
from txlayer.admission import check_stored
from txlayer.builds import Builds, Finished
from txlayer.committer import Committer
from txlayer.manager import TransactionManager
from txlayer.readers import Readers
from txlayer.state import CatalogState
from txlayer.steps import Step, Steps, no_steps
from txlayer.tables import create_tables

TABLE = "s.catalog"
_VERSION = struct.Struct(">Q")
_PATH = "catalog"
"""Where coordination says which version is in force."""
NO_CATALOG = Catalog(0, Schema(()), Forest(()))
"""In force before any is put there; what a node begins with that others tell which one is."""
_RETRY_S, _RETRY_MAX_S = 0.1, 10.0
_LOG = structlog.get_logger(__name__)


class Replaced(Unavailable):
    """Another process owns the catalog now."""


class Claim:
    """The right to say which version of the catalog is in force, until somebody else takes it."""

    def __init__(
        self, coordination: Coordination, clock: Clock, catalog: Catalog, held: int
    ) -> None:
        self._coordination = coordination
        self._clock = clock
        self.number = held
        """Higher than that of every claim before."""
        self.catalog = catalog
        """That was in force when the claim was made."""

    @classmethod
    async def take(cls, store: TableStore, coordination: Coordination, clock: Clock) -> Claim:
        """Take it from whoever had it. In a new database an empty catalog, version 0, is in
        force. Raises Unavailable, also when another process takes it at the same time."""
        known = await coordination.read(_PATH)
        version = int(known.value) if known is not None else await _newest_version(store)
        try:
            held = await coordination.write(
                _PATH, str(version).encode(), known.version if known is not None else 0
            )
        except StalePlan as error:
            raise Replaced(error.message) from None
        return cls(coordination, clock, await load_catalog(store, version), held)

    def require_session(self) -> None:
        """Raises Replaced when somebody else may own the catalog."""
        if not self._coordination.alive():
            raise Replaced("The session with the coordination service has ended.")

    async def put_in_force(self, version: int) -> None:
        """Also claims anew. There is no way back once the first try is sent: it goes on until it
        is known. Raises Replaced.
        """
        value = str(version).encode()
        while self._coordination.alive():
            try:
                self.number = await self._written(value)
            except Replaced:
                raise
            except Unavailable:
                await self._clock.sleep(_RETRY_S)
            else:
                return
        raise Replaced("The session with the coordination service has ended.")

    async def _written(self, value: bytes) -> int:
        try:
            return await self._coordination.write(_PATH, value, self.number)
        except StalePlan:
            known = await self._coordination.read(_PATH)
            if known != Versioned(value, self.number + 1):  # else it was an earlier try of ours
                raise Replaced("Another process has taken the catalog over.") from None
            return known.version


async def _newest_version(store: TableStore) -> int:
    """For databases made before versions were put in force by coordination."""
    async for batch in store.scan(TABLE, b"", None, NEWEST, reverse=True, limit=1):
        for cell in batch:
            version: int = _VERSION.unpack(cell.key)[0]
            return version
    return 0


async def load_catalog(store: TableStore, version: int) -> Catalog:
    """A version that is in force, or was. Raises Corruption, Unavailable."""
    if version == 0:
        return NO_CATALOG
    (cell,) = await store.get(TABLE, [_VERSION.pack(version)], NEWEST)
    if cell is None:
        raise Corruption(f"Version {version} of the catalog is in force, and not stored.")
    catalog = decode_catalog(cell.value)
    return replace(catalog, since=catalog.since or cell.ts)


@dataclass
class Build:
    """Progress of one online build. `total` is the number of rows expected, if it is known.

    One that is carried out `elsewhere` has no snapshot of its own, and counts its progress by the
    rows that were `scanned` for it, of `total`.
    """

    name: str
    at: int
    rows: int = 0
    total: int | None = None
    finished: bool = False
    error: str = ""
    """Why it has been given up."""
    elsewhere: bool = False
    scanned: int = 0

    @property
    def ended(self) -> bool:
        return self.finished or bool(self.error)


class Barrier(Protocol):
    """How a change of the catalog reaches all who use it."""

    def closed(self) -> AbstractAsyncContextManager[None]:
        """No transaction is inside meanwhile, at any node; all that were are applied."""

    def announce(self, version: int) -> None:
        """Inside `closed`: this version is in force when it ends."""

    async def past(self, version: int) -> None:
        """Return when no query, at any node, reads a version below `version`."""

    async def moment(self) -> int:
        """A timestamp of now: all commits at or below it, of any node, are applied, and none comes
        there any more."""


class OwnBarrier:
    """Of a database that one process serves."""

    def __init__(self, manager: TransactionManager, readers: Readers, committer: Committer) -> None:
        self._manager = manager
        self._readers = readers
        self._committer = committer

    def closed(self) -> AbstractAsyncContextManager[None]:
        return self._manager.closed()

    def announce(self, version: int) -> None:
        """Nobody else is to be told."""

    async def past(self, version: int) -> None:
        await self._readers.wait_until_past(version)

    async def moment(self) -> int:
        at = await self._committer.reserve()
        await self._committer.drain()
        return at


class CatalogKeeper:
    """All changes of the catalog of one database, one at a time. Only the node that leads makes
    them; at the others the keeper knows what is in force."""

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
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._building: asyncio.Task[None] | None = None
        self._build_at = 0
        """T of the builds that begin next: not before the catalog in force or this process."""
        self.readers = manager.readers
        self.builds: dict[str, Build] = {}
        self._elsewhere = Builds(store)
        self.leader = ""
        """Address of the node that leads, as far as is known."""

    @property
    def state(self) -> CatalogState:
        return self._manager.state

    async def lead(self, claim: Claim, barrier: Barrier) -> None:
        """Change the catalog from now on: tidy up behind whoever did before, and carry on its
        builds. Raises Unavailable."""
        at = await barrier.moment()
        await self._elsewhere.load()
        # Not before: what was changed meanwhile would be built as of a moment before it.
        self._leading, self._build_at = (claim, barrier), at
        self._begin_builds()
        self._spawn(self._tidy_up(barrier))

    @property
    def leads(self) -> bool:
        return self._leading is not None

    def _led(self) -> tuple[Claim, Barrier]:
        """Raises Unavailable when another node leads, or this one has only begun to."""
        if self._leading is None:
            where = f"at {self.leader}, once that is ready" if self.leader else "nowhere yet"
            raise Unavailable(
                f"The catalog is changed {where}.",
                cure="Send it there, or again in a moment.",
                standby=True,
                leader=self.leader,
            )
        return self._leading

    async def apply(self, catalog: Catalog) -> None:
        """`change` to a catalog that is made already. Raises StalePlan unless it is the next."""

        async def given(current: Catalog) -> Catalog:
            if catalog.version != current.version + 1:
                raise StalePlan(
                    f"The catalog was made after version {catalog.version - 1};"
                    f" version {current.version} is in force.",
                    cure="Make it anew from the version in force.",
                )
            return catalog

        await self.change(given)

    async def change(
        self,
        make: Callable[[Catalog], Awaitable[Catalog]],
        *,
        elsewhere: bool = False,
        splits: Mapping[str, Sequence[bytes]] = MappingProxyType({}),
    ) -> None:
        """Put into force what `make` makes of the catalog in force, and begin to build what is new;
        `elsewhere`: leave that to somebody else, who calls `finish`. `splits`: keys of relations,
        where to divide what is loaded from now on.

        Nobody else changes the catalog meanwhile. Raises what `make` raises, UniqueViolation or
        ForeignKeyViolation when stored rows break a constraint that is added, BeingLoaded when it
        concerns what is; nothing has changed then. A change that has begun goes on when its caller
        is cancelled.
        """
        self._led()
        await self._carry_out(self._change(make, elsewhere, splits))

    async def _change(
        self,
        make: Callable[[Catalog], Awaitable[Catalog]],
        elsewhere: bool,
        splits: Mapping[str, Sequence[bytes]],
    ) -> None:
        claim, _ = self._led()
        async with self._changing:
            current = self.state.catalog
            made = await make(current)
            if made == current:
                return
            loads.require_same(made, current)
            await claim.put_in_force(current.version)
            catalog = _numbered(made, current, claim.number)
            new = _layouts(catalog) - _layouts(current)
            await create_tables(self._store, sorted(new), loads.splits(catalog, splits))
            self._steps(Step.TABLES_CREATED)
            if elsewhere:
                await self._leave_to_others(builds.building(catalog).keys() & new)
            await self._stop_building()
            try:
                await self._publish(lambda at: self._admitted(catalog, at))
            except Unavailable:
                raise  # it may be in force after all; the next start tells, and tidies up
            except Corruption:
                claim.require_session()  # else a successor has dropped the new tables
                raise
            except HornbeamError:
                await self._drop(new)
                raise
            finally:
                self._begin_builds()
            gone = _layouts(current) - _layouts(catalog)
            if gone:
                self._spawn(self._drop_unread(gone, catalog.version))

    async def _tidy_up(self, barrier: Barrier) -> None:
        await barrier.past(self.state.catalog.version)
        await self._persistently(self._drop_orphans)

    async def _drop_orphans(self) -> None:
        """After a start: tables that a crash kept from being dropped. Those of later claims belong
        to whoever has replaced this process."""
        claim, _ = self._led()
        async with self._changing:  # what a change makes is no orphan, nor in the catalog yet
            stored = {name for name in await self._store.tables() if not name.startswith("s.")}
            orphans = stored - _layouts(self.state.catalog)
            await self._drop({name for name in orphans if _number(name) <= claim.number})
            await self._forget_ended()

    async def adopt(self, built: Mapping[str, int]) -> None:
        """Deferred views, with their incarnations, that their group's batches have built: queries
        may read them from now on. Idempotent. Raises Unavailable.
        """
        if _adopted(self.state.catalog, built) != self.state.catalog.states:
            self._led()
            await self._carry_out(self._adopt(built))

    async def _adopt(self, built: Mapping[str, int]) -> None:
        async with self._changing:
            catalog = self.state.catalog
            states = _adopted(catalog, built)
            if states != catalog.states:
                adopted = replace(catalog, version=catalog.version + 1, states=states)
                # What else there is can be read as of any moment as before: `since` stays.
                await self._publish(lambda _: _ready(adopted))

    async def refresh_counts(self, *, factor: float = 2.0) -> None:
        """Publish row counts when one has changed by `factor`; planning follows them."""
        if not self.leads:
            return
        async with self._changing:
            catalog = self.state.catalog
            counts, known = self.counts(), catalog.row_count
            if any(_differ(count, known.get(name, 0), factor) for name, count in counts.items()):
                version = catalog.version + 1
                fresh = replace(catalog, version=version, row_counts=tuple(counts.items()))
                await self._publish(lambda _: _ready(fresh))

    def counts(self) -> dict[str, int]:
        """Estimated rows of relations, views and indexes, the latest transactions included; what
        seems empty is left out, so that planning guesses instead of relying on it."""
        catalog, growth = self.state.catalog, self._manager.growth.since_counted()
        names = (*catalog.schema.names, *catalog.view, *catalog.index)
        counts = {name: catalog.row_count.get(name, 0) + growth[name] for name in names}
        return {name: count for name, count in counts.items() if count > 0}

    # ------------------------------------------------------------ builds elsewhere

    async def leave_to_others(self, names: Iterable[str], *, rebuild: bool = False) -> list[str]:
        """Have views with their indexes, or indexes, built by somebody else, who calls `finish`.
        What this node is building it stops to build; what is quarantined, or readable and to be
        `rebuild`, is built in a new table. Returns all of them, whatever their state.

        Raises NotFound, Unavailable.
        """
        self._led()
        asked = list(names)
        anew = {State.QUARANTINED, State.READABLE} if rebuild else {State.QUARANTINED}

        def to_rebuild(catalog: Catalog) -> list[str]:
            found = builds.families(catalog, asked)
            return [name for name in found if catalog.state[name] in anew]

        async def make(current: Catalog) -> Catalog:
            return builds.rebuilt(current, to_rebuild(current))

        if to_rebuild(self.state.catalog):
            await self.change(make, elsewhere=True)
        await self._carry_out(self._take_over(asked))
        return list(builds.families(self.state.catalog, asked))

    async def _take_over(self, names: Iterable[str]) -> None:
        async with self._changing:
            catalog = self.state.catalog
            found = builds.families(catalog, names)
            tables = {t for t, name in builds.building(catalog).items() if name in found}
            if tables := tables - self._elsewhere.tables:
                await self._stop_building()
                try:
                    await self._leave_to_others(tables)
                finally:
                    self._begin_builds()

    async def _leave_to_others(self, tables: Iterable[str]) -> None:
        begun = dict.fromkeys(tables, Finished())
        if begun:
            await self._elsewhere.note(begun, await self._committer.reserve())

    def left_to_others(self) -> list[str]:
        """What somebody else is to build. Raises Unavailable when another node leads."""
        self._led()
        return [b.name for b in self.builds.values() if b.elsewhere and not b.ended]

    def missing(self, name: str) -> tuple[Span, ...]:
        """Keys of its `scanned_relation` for which somebody else is still to build `name`."""
        known = self._elsewhere.of(self.state.catalog.layout(name).table)
        return () if known is None else known.missing

    async def finish(self, rows: Mapping[str, int], span: Span, scanned: int) -> None:
        """All rows for the keys in `span` are in the tables `rows`, so many in each, and on disk.

        They are readable once all keys are finished. Raises NotFound for a table that nobody else
        is to build, Unavailable.
        """
        self._led()
        await self._carry_out(self._finish(rows, span, scanned))

    async def _finish(self, rows: Mapping[str, int], span: Span, scanned: int) -> None:
        async with self._changing:
            self._led()[0].require_session()
            names = self._names_elsewhere()
            for table in rows:
                if table not in names:
                    raise NotFound(
                        f"No table {table} is left to be built.",
                        cure="Its build has ended, or was cancelled.",
                    )
            known = {t: self._known(t).plus(span, n, scanned) for t, n in rows.items()}
            await self._elsewhere.note(known, await self._committer.reserve())
            self._show_elsewhere(names)
            self._complete(names)

    async def cancel(self, names: Iterable[str]) -> list[str]:
        """Views with their indexes, or indexes, that are being built, leave the catalog, and their
        tables go. Returns them. Raises NotFound, InvalidRequest, Unavailable."""
        gone: list[str] = []

        async def make(current: Catalog) -> Catalog:
            gone[:] = builds.families(current, names)
            return builds.cancelled(current, gone)

        await self.change(make)
        return gone

    # ------------------------------------------------------------ initial loads

    async def begin_load(
        self, relations: Sequence[str], identity: str, splits: Mapping[str, Sequence[bytes]]
    ) -> None:
        """Have relations loaded by somebody else (`txlayer.loads`), who calls `finish_load`, and
        `end_load` at last. Idempotent while it is under way.

        Raises NotFound, InvalidRequest, StalePlan for what is not as it must be, BeingLoaded when
        another load is under way, Unavailable.
        """

        async def make(current: Catalog) -> Catalog:
            return loads.begun(current, relations, identity)

        await self.change(make, splits=splits)

    async def finish_load(self, number: int, relation: str, span: Span, rows: int) -> None:
        """All that is loaded for the keys in `span` of `relation` is in its tables, and on disk, of
        so many rows. Raises NotFound, Unavailable."""
        self._led()
        await self._carry_out(self._finish_load(number, relation, span, rows))

    async def _finish_load(self, number: int, relation: str, span: Span, rows: int) -> None:
        async with self._changing:
            self._led()[0].require_session()
            catalog = self.state.catalog
            if relation not in loads.require(catalog, number).relations:
                raise NotFound(f"Relation {relation} is not being loaded.")
            table = catalog.loaded.layout(relation).table
            known = {table: self._known(table).plus(span, rows, rows)}
            await self._elsewhere.note(known, await self._committer.reserve())

    def loaded(self) -> dict[str, Finished]:
        """By relation, what is finished of the load under way. Raises Unavailable when another
        node leads."""
        self._led()
        catalog = self.state.catalog
        relations = () if catalog.load is None else catalog.load.relations
        return {name: self._known(catalog.loaded.layout(name).table) for name in relations}

    async def end_load(self, number: int) -> None:
        """What was loaded is there from now on, for everybody at once. Raises NotFound, StalePlan
        while keys are missing, Unavailable."""

        async def make(current: Catalog) -> Catalog:
            loads.require(current, number)
            known = self.loaded()
            if missing := sorted(name for name, known in known.items() if known.missing):
                raise StalePlan(f"The load of {', '.join(missing)} is not finished.")
            return loads.ended(current, {name: f.rows for name, f in known.items()})

        await self.change(make)
        await self._forget()

    async def cancel_load(self) -> tuple[str, ...]:
        """Give up the load under way; its tables go. Returns the relations that were to be loaded.
        Raises NotFound, Unavailable."""
        gone: tuple[str, ...] = ()

        async def make(current: Catalog) -> Catalog:
            nonlocal gone
            without = loads.cancelled(current)
            gone = () if current.load is None else current.load.relations
            return without

        await self.change(make)
        await self._forget()
        return gone

    async def _forget(self) -> None:
        async with self._changing:
            await self._forget_ended()

    # ------------------------------------------------------------ what is finished

    def _known(self, table: str) -> Finished:
        return self._elsewhere.of(table) or Finished()

    def _names_elsewhere(self) -> dict[str, str]:
        """By table, what is BUILDING and left to others."""
        found = builds.building(self.state.catalog)
        return {table: name for table, name in found.items() if table in self._elsewhere.tables}

    def _show_elsewhere(self, names: Mapping[str, str]) -> None:
        catalog = self.state.catalog
        for table, name in names.items():
            known = self._known(table)
            total = catalog.row_count.get(scanned_relation(catalog, name))
            self.builds[name] = Build(
                name, 0, known.rows, total, elsewhere=True, scanned=known.scanned
            )

    def _complete(self, names: Mapping[str, str]) -> None:
        tables = {table for table in names if not self._known(table).missing}
        if tables:
            self._spawn(self._completed(tables))

    async def _completed(self, tables: set[str]) -> None:
        """All rows are there. A schema change that comes before has dropped the tables, or leaves
        them as they are."""
        await self._persistently(partial(self._mark_readable, tables))
        for name, build in self.builds.items():
            build.finished |= build.elsewhere and self.state.catalog.readable(name)
        await self._forget()  # in its turn: what a change leaves to others is not there yet

    async def _forget_ended(self) -> None:
        """Rows of builds that have ended say nothing any more; those that stay harm nobody."""
        kept = {*self._names_elsewhere(), *loads.tables(self.state.catalog).values()}
        ended = self._elsewhere.tables - kept
        if ended:
            await self._elsewhere.forget(ended, await self._committer.reserve())

    async def wait_built(self) -> None:
        """Return when no build is under way."""
        while self._tasks:
            done, _ = await asyncio.wait(self._tasks)
            for task in done:
                if not task.cancelled():
                    task.result()

    async def close(self) -> None:
        """Stop builds and changes; builds begin again at the next start."""
        while self._tasks:  # a change that ends begins builds
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    # ------------------------------------------------------------ inside

    async def _publish(self, make: Callable[[int], Awaitable[Catalog]]) -> None:
        """Store, put in force, switch: a crash in between finds one of both versions."""
        claim, barrier = self._led()
        async with barrier.closed():
            # Every commit under an older catalog is below this, and applied, and so is every
            # snapshot that is read under it; every commit under the new catalog is later, whoever
            # makes it.
            async with self._committer.held() as at:
                catalog = await make(at)
                put = Put(_VERSION.pack(catalog.version), encode_catalog(catalog))
                await self._store.put({TABLE: [put]}, at)
                await self._store.flush()
                self._steps(Step.CATALOG_STORED)
                await claim.put_in_force(catalog.version)
                self._steps(Step.CATALOG_IN_FORCE)
                self._manager.use(catalog)
            # Before the barrier opens: it may say that it is not known to whom.
            self._build_at = max(self._build_at, catalog.since)
            barrier.announce(catalog.version)
        self._steps(Step.SWITCHED)
        if self.state.catalog.row_counts:
            self._manager.growth.count()

    async def _admitted(self, catalog: Catalog, at: int) -> Catalog:
        """`catalog`, once stored rows hold its new constraints and its UNIQUE indexes are filled.

        The first commit under it relies on them, so writers wait meanwhile.
        """
        codecs, states = Codecs(catalog), dict(catalog.states)
        reader = Snapshot(self._store, codecs, at)

        async def count(sql: str) -> int:
            query = self._engine.prepare(sql, catalog, use_views=False)
            ((found,),) = await (await query.run(reader)).all()
            assert isinstance(found, int)
            return found

        await check_stored(self.state.catalog, catalog, count)
        for index in catalog.indexes:
            if index.unique and states[index.name] is State.BUILDING:
                build = self.builds[index.name] = Build(index.name, at)
                await self._build_one(catalog, codecs, build)
                built = transition(State.BUILDING, Event.BUILT)
                states[index.name] = transition(built, Event.CAUGHT_UP)
                build.finished = True
        self._steps(Step.ADMITTED)
        return replace(catalog, states=tuple(states.items()), since=at)

    def _begin_builds(self) -> None:
        catalog = self.state.catalog
        # Deferred views are filled by the first batch of their group.
        names = [
            name
            for name, state in catalog.states
            if state is State.BUILDING and name not in catalog.deferred_view
        ]
        self.builds = {n: b for n, b in self.builds.items() if b.ended or n in names}
        elsewhere = self._names_elsewhere()
        self._show_elsewhere(elsewhere)
        self._complete(elsewhere)
        names = [name for name in names if name not in elsewhere.values()]
        if not names:
            return
        for name in names:
            total = catalog.row_count.get(catalog.layout(name).source)
            self.builds[name] = Build(name, self._build_at, total=total)
        self._building = self._spawn(self._build(_build_order(catalog, names)))

    async def _stop_building(self) -> None:
        """What is still wanted under the next catalog begins again, at its T: a build must not
        end under another catalog than it began under, where its names may mean other tables."""
        if self._building is not None:
            self._building.cancel()
            await asyncio.wait({self._building})
            self._building = None

    async def _carry_out(self, work: Coroutine[Any, Any, None]) -> None:
        """`work`, to its end even when its caller is cancelled. Raises what it raises, and
        Unavailable when the keeper is closed before."""
        task = self._spawn(work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is None or caller.cancelling():
                raise
            raise Unavailable(
                "This node changes the catalog no more; whether it was changed is not known.",
                cure="Look at the schema, and send it again in a moment.",
            ) from None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.warning("a schema change has ended", error=str(error))

    async def _build(self, names: list[str]) -> None:
        built = []
        catalog, codecs = self.state.catalog, self.state.codecs
        for name in names:
            build = self.builds[name]
            try:
                await self._persistently(partial(self._build_one, catalog, codecs, build))
                built.append(name)
            except HornbeamError as error:
                build.error = str(error)
                _LOG.error("build failed", name=name, error=str(error))
        tables = {codecs(name).layout.table for name in built}
        await self._persistently(partial(self._mark_readable, tables))
        for name in built:
            self.builds[name].finished = True

    async def _persistently(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat `work` as long as a service does not answer. Raises Replaced."""
        pause_s = _RETRY_S
        while True:
            try:
                return await work()
            except Replaced:
                raise
            except Unavailable as error:
                _LOG.warning("a schema change waits for a service", error=str(error))
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, _RETRY_MAX_S)

    async def _build_one(self, catalog: Catalog, codecs: Codecs, build: Build) -> None:
        """Rows are put as of T by nobody who has been replaced: his successor may have purged the
        tombstones above T that would hide them."""
        claim, _ = self._led()
        codec, build.rows = codecs(build.name), 0
        reader = Snapshot(self._store, codecs, build.at)
        async with aclosing(reader.scan(scanned_relation(catalog, build.name))) as scanned:
            async for batch in build_batches(catalog, codecs, [build.name], reader, scanned):
                rows = batch.rows[build.name]
                puts = {codec.layout.table: [Put(key, codec.encode(row)) for key, row in rows]}
                require_storable(puts)
                self._steps(Step.BUILDING)
                claim.require_session()
                await self._store.put(puts, build.at)
                build.rows += len(rows)
                await self._clock.sleep(0)

    async def _mark_readable(self, tables: set[str]) -> None:
        """What is built in `tables`, and has not been dropped meanwhile."""
        await self._store.flush()
        self._steps(Step.BUILT)
        async with self._changing:
            catalog = self.state.catalog
            states = dict(catalog.states)
            names = [name for table, name in builds.building(catalog).items() if table in tables]
            if not names:
                return
            for name in names:
                built = transition(states[name], Event.BUILT)
                # No reader stands before T: older snapshots are refused.
                states[name] = transition(built, Event.CAUGHT_UP)
            counted = self.counts() | {name: self.builds[name].rows for name in names}
            counts = {name: count for name, count in counted.items() if count}
            readable = replace(
                catalog,
                version=catalog.version + 1,
                states=tuple(states.items()),
                row_counts=tuple(counts.items()),
            )
            await self._publish(lambda at: _ready(replace(readable, since=at)))

    async def _drop_unread(self, tables: set[str], version: int) -> None:
        _, barrier = self._led()
        await barrier.past(version)
        await self._persistently(partial(self._drop, tables))

    async def _drop(self, tables: set[str]) -> None:
        for table in sorted(tables):
            self._steps(Step.DROPPING)
            await self._store.drop_table(table)
        self._steps(Step.DROPPED)


async def _ready(catalog: Catalog) -> Catalog:
    """One that adds no constraint."""
    return catalog


def _adopted(catalog: Catalog, built: Mapping[str, int]) -> tuple[tuple[str, State], ...]:
    """The states of `catalog` when the deferred views `built` are."""
    numbers = dict(catalog.incarnations)

    def after(name: str, state: State) -> State:
        if state is not State.BUILDING or built.get(name) != numbers.get(name, 0):
            return state
        return transition(transition(state, Event.BUILT), Event.CAUGHT_UP)

    return tuple((name, after(name, state)) for name, state in catalog.states)


def _differ(count: int, known: int, factor: float) -> bool:
    return count > factor * known or known > factor * count


def _layouts(catalog: Catalog) -> set[str]:
    """Physical tables of a catalog, those included that a load is filling."""
    stored = {catalog.layout(name).table for name in catalog.stored}
    return stored | set(loads.tables(catalog).values())


def _numbered(made: Catalog, current: Catalog, number: int) -> Catalog:
    """`made`, with new tables, by `number`, for all that is not in `current` or that `made` gives
    another number than it has there, and for what it begins to load. What was loaded has its table.
    Databases made before claims may have higher numbers."""
    known, asked = dict(current.incarnations), dict(made.incarnations)
    loaded = dict(current.loaded.incarnations) if made.load is None else known
    number = max([number, *(n + 1 for n in (*known.values(), *loaded.values()))])
    for name in (*made.schema.names, *made.view, *made.index, *made.deferred_view):
        wanted = asked.get(name, known.get(name, 0))
        kept = name in current and wanted in (known.get(name, 0), loaded.get(name, 0))
        asked[name] = wanted if kept else number
    numbered = replace(made, incarnations=tuple(asked.items()))
    if made.load is None or made.load.number != loads.NEW:
        return numbered
    return replace(numbered, load=replace(made.load, number=number))


def _number(table: str) -> int:
    return int(table.rpartition(".")[2])


def _build_order(catalog: Catalog, names: Iterable[str]) -> list[str]:
    """Foreign-key indexes first (they speed up everything else), then views, then the rest."""

    def rank(name: str) -> int:
        if name in catalog.view:
            return 1
        return 0 if catalog.index[name].purpose is Purpose.FOREIGN_KEY else 2

    return sorted(names, key=rank)
