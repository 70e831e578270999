"""The catalog's keeper: stores versions, puts them into force, builds and drops what they say.

A schema change is: store the new version, switch writers to it between two transactions, build
new views and indexes at the switch's timestamp T while writers go on, store and switch again with
the built ones READABLE, and drop tables that nobody can read any more.

Why the build may begin at T and write with timestamp T: every commit after the switch keeps the
new view itself, with a later timestamp, so whichever row is newer wins; every commit before it is
in the snapshot T (architecture.md, "View life cycle"). A build that dies is simply done again at
a later T: whatever has changed since the first T carries a newer cell.

Which version is in force is a value of the coordination service, changed by compare-and-set. A new
owner *claims* it before it loads the catalog; whoever owned it before cannot change it any more,
however late the writes arrive that it had sent. Every change claims anew, and new tables bear the
number of that claim: no other owner ever makes tables of these names, so whoever was replaced can
drop only what is his or what nobody needs.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import structlog

from maintain.lifecycle import Event, transition
from maintain.recompute import build_batches
from query.engine import QueryEngine
from schema.catalog import Catalog, Forest, Purpose, State
from schema.codec import decode_catalog, encode_catalog
from schema.errors import Corruption, HornbeamError, StalePlan, Unavailable
from schema.model import Schema
from storage.codec.rows import Codecs
from storage.limits import require_storable
from storage.ports import NEWEST, Clock, Coordination, Put, TableStore, Versioned
from storage.snapshot import Snapshot
from txlayer.admission import check_stored
from txlayer.committer import Committer
from txlayer.manager import TransactionManager
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
    """Progress of one online build. `total` is the number of rows expected, if it is known."""

    name: str
    at: int
    rows: int = 0
    total: int | None = None
    finished: bool = False
    error: str = ""
    """Why it has been given up."""

    @property
    def ended(self) -> bool:
        return self.finished or bool(self.error)


class Readers:
    """Queries under way at this node: a table is dropped only when none can read it, a version of
    a row purged only when none needs it."""

    def __init__(self) -> None:
        self._inside: Counter[int] = Counter()
        self._snapshots: dict[int, int] = {}
        self._left = asyncio.Condition()

    @asynccontextmanager
    async def reading(self, version: int) -> AsyncIterator[None]:
        self._inside[version] += 1
        try:
            yield
        finally:
            self._inside[version] -= 1
            async with self._left:
                self._left.notify_all()

    @contextmanager
    def holding(self, at: int) -> Iterator[None]:
        """What snapshot `at` needs is not purged meanwhile, however long it is read."""
        snapshots = self._snapshots
        snapshots[at] = snapshots.get(at, 0) + 1
        try:
            yield
        finally:
            if snapshots[at] == 1:
                del snapshots[at]
            else:
                snapshots[at] -= 1

    def oldest_version(self, newest: int) -> int:
        """The oldest version of the catalog that is read, or else `newest`."""
        return min([version for version, n in self._inside.items() if n], default=newest)

    def oldest_snapshot(self) -> int:
        """The oldest that is read; 0: none."""
        return min(self._snapshots, default=0)

    async def wait_until_past(self, version: int) -> None:
        """Return when no reader of a version below `version` is left."""
        async with self._left:
            await self._left.wait_for(
                lambda: not any(n for v, n in self._inside.items() if v < version)
            )


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
        self.readers = Readers()
        self.builds: dict[str, Build] = {}
        self.leader = ""
        """Address of the node that leads, as far as is known."""

    @property
    def state(self) -> CatalogState:
        return self._manager.state

    async def lead(self, claim: Claim, barrier: Barrier) -> None:
        """Change the catalog from now on: tidy up behind whoever did before, and carry on its
        builds. Raises Unavailable."""
        at = await barrier.moment()
        # Not before: what was changed meanwhile would be built as of a moment before it.
        self._leading, self._build_at = (claim, barrier), at
        self._begin_builds()
        self._spawn(self._tidy_up(barrier))

    @property
    def leads(self) -> bool:
        return self._leading is not None

    def _led(self) -> tuple[Claim, Barrier]:
        """Raises Unavailable when another node leads."""
        if self._leading is None:
            raise Unavailable(
                "Another node changes the catalog" + (f": {self.leader}." if self.leader else "."),
                cure="Send it to that node, or again in a moment.",
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

    async def change(self, make: Callable[[Catalog], Awaitable[Catalog]]) -> None:
        """Put into force what `make` makes of the catalog in force, and begin to build.

        Nobody else changes the catalog meanwhile. Raises what `make` raises, UniqueViolation or
        ForeignKeyViolation when stored rows break a constraint that is added; nothing has changed
        then. A change that has begun goes on when its caller is cancelled.
        """
        self._led()
        await asyncio.shield(self._spawn(self._change(make)))

    async def _change(self, make: Callable[[Catalog], Awaitable[Catalog]]) -> None:
        claim, _ = self._led()
        async with self._changing:
            current = self.state.catalog
            made = await make(current)
            await claim.put_in_force(current.version)
            catalog = _numbered(made, current, claim.number)
            await create_tables(self._store, sorted(_layouts(catalog) - _layouts(current)))
            self._steps(Step.TABLES_CREATED)
            await self._stop_building()
            try:
                await self._publish(lambda at: self._admitted(catalog, at))
            except Unavailable:
                raise  # it may be in force after all; the next start tells, and tidies up
            except Corruption:
                claim.require_session()  # else a successor has dropped the new tables
                raise
            except HornbeamError:
                await self._drop(_layouts(catalog) - _layouts(current))
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

    async def wait_built(self) -> None:
        """Return when no build is under way."""
        while self._tasks:
            done, _ = await asyncio.wait(self._tasks)
            for task in done:
                if not task.cancelled():
                    task.result()

    async def close(self) -> None:
        """Stop builds; they begin again at the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ------------------------------------------------------------ inside

    async def _publish(self, make: Callable[[int], Awaitable[Catalog]]) -> None:
        """Store, put in force, switch: a crash in between finds one of both versions."""
        claim, barrier = self._led()
        async with barrier.closed():
            # Every commit under an older catalog is at or below this, and applied; every one
            # under the new catalog is later, whoever makes it.
            at = await self._committer.reserve()
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
        names = [name for name, state in catalog.states if state is State.BUILDING]
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
        await self._persistently(partial(self._mark_readable, built))
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
        codec, build.rows = codecs(build.name), 0
        reader = Snapshot(self._store, codecs, build.at)
        async for batch in build_batches(catalog, codecs, build.name, reader):
            puts = {codec.layout.table: [Put(key, codec.encode(row)) for key, row in batch.rows]}
            require_storable(puts)
            self._steps(Step.BUILDING)
            await self._store.put(puts, build.at)
            build.rows += len(batch.rows)
            await self._clock.sleep(0)

    async def _mark_readable(self, names: Iterable[str]) -> None:
        await self._store.flush()
        self._steps(Step.BUILT)
        async with self._changing:
            catalog = self.state.catalog
            states = dict(catalog.states)
            for name in names:
                if name in states:
                    built = transition(states[name], Event.BUILT)
                    # No reader stands before T: older snapshots are refused.
                    states[name] = transition(built, Event.CAUGHT_UP)
            if states == dict(catalog.states):
                return
            counts = self.counts() | {name: self.builds[name].rows for name in names}
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


def _differ(count: int, known: int, factor: float) -> bool:
    return count > factor * known or known > factor * count


def _layouts(catalog: Catalog) -> set[str]:
    """Physical tables of a catalog."""
    names = [*catalog.schema.names, *catalog.view, *catalog.index]
    return {catalog.layout(name).table for name in names}


def _numbered(made: Catalog, current: Catalog, number: int) -> Catalog:
    """`made`, with new tables, by `number`, for all that is not in `current` or that `made` gives
    another number than it has there. Databases made before claims may have higher numbers."""
    known, asked = dict(current.incarnations), dict(made.incarnations)
    number = max([number, *(n + 1 for n in known.values())])
    for name in (*made.schema.names, *made.view, *made.index):
        kept = name in current and asked.get(name, known.get(name, 0)) == known.get(name, 0)
        asked[name] = known.get(name, 0) if kept else number
    return replace(made, incarnations=tuple(asked.items()))


def _number(table: str) -> int:
    return int(table.rpartition(".")[2])


def _build_order(catalog: Catalog, names: Iterable[str]) -> list[str]:
    """Foreign-key indexes first (they speed up everything else), then views, then the rest."""

    def rank(name: str) -> int:
        if name in catalog.view:
            return 1
        return 0 if catalog.index[name].purpose is Purpose.FOREIGN_KEY else 2

    return sorted(names, key=rank)
