"""Groups of deferred views: the snapshot that they show, and the batch under way.

All views of a group show one snapshot, `as_of`. A *batch* takes them from there to a later
snapshot, `upto`: Spark reads the changes between both, and puts the rows that differ with the
timestamp `upto`. Until the batch is finished queries read at `as_of`, where its rows are invisible.

The rows of a view as of `upto` depend on the database as of `upto` alone. So any process may do a
batch twice, or half and then again: it puts the same rows with the same timestamp. For that the
batch is recorded before its first row is put, and no other batch begins before it is finished: rows
of an unfinished batch would be visible to every later one.

States know views by their stored names (`Catalog.stored_name`), which stay when views are renamed.

A view that is new in its group, or that is to be rebuilt, has empty tables of its own. A batch
builds it as of `upto`, and maintains the other views from their changes at the same time. The view
waits for the indexes on its relations that are being built: later batches look rows up in them as
of `upto`, where an index has all rows only if it was built before.

Each group's state is a value of the coordination service, changed by compare-and-set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.schema.errors import Corruption, StalePlan, Unavailable
from hornbeam_server.schema.views import DeferredView
from hornbeam_server.storage.ports import Coordination

REMEMBERED = 100
"""Maximum number of earlier values of `as_of` that transactions may still read at."""
_TRIES = 10


class Batch(msgspec.Struct, frozen=True):
    """A batch under way. It takes `views`, by name with their incarnations, to `upto`;
    `catalog_version` was in force when it began. `results` has the digest of the rows of each view
    that the batch recomputes, once a process has computed them."""

    upto: int
    catalog_version: int
    views: dict[str, int]
    results: dict[str, str] = {}


class Finished(msgspec.Struct, frozen=True):
    """The last batch: the number of changes that it read and of rows that it put, its seconds."""

    changes: int = 0
    rows: int = 0
    seconds: float = 0.0
    by: str = ""
    """The node that did the batch; "": another process, such as `hornbeam refresh`."""


class Problem(msgspec.Struct, frozen=True):
    """The reason why the next batch of a group cannot be done by a node, and what helps."""

    message: str
    cure: str = ""
    left: str = ""
    """The reason why the nodes leave the batch to `hornbeam refresh`; "": it cannot be done."""


class Left(msgspec.Struct, frozen=True):
    """A slow batch: it began at snapshot `at` and was finished long after, at wall time `wall_ms`.
    Queries may still read at `at`, and a second process that does the batch may still put rows."""

    wall_ms: int
    at: int


class GroupState(msgspec.Struct, frozen=True):
    """The state of one group. `views`, by name with their incarnations, show the snapshot `as_of`
    (0: none yet), under the catalog `catalog_version`."""

    as_of: int = 0
    catalog_version: int = 0
    views: dict[str, int] = {}
    batch: Batch | None = None
    last: Finished | None = None
    before: tuple[int, ...] = ()
    """Earlier values of `as_of`, at most `REMEMBERED`, the newest first."""
    left: tuple[Left, ...] = ()
    problem: Problem | None = None
    """The reason why the last batch failed; it goes with the next batch that is finished."""

    def begun(self, catalog: Catalog, group: str, upto: int) -> GroupState:
        """The state with a new batch up to `upto`. Pure. Requires that no batch is under way, and
        that `upto` is after `as_of`: batches are known by their ends. Raises Unavailable if all
        views of the group wait for indexes."""
        assert self.batch is None
        assert upto > self.as_of
        views = members(catalog, group)
        waiting = {view.name: index for view, index in self._waiting(catalog, group)}
        if len(waiting) == len(views) > 0:
            raise Unavailable(
                f"{', '.join(waiting)} cannot be built before {', '.join({*waiting.values()})},"
                " which is being built.",
                cure="Ask again when it is readable: hornbeam view list.",
            )
        ready = {n: i for n, i in views.items() if catalog.named.get(n, n) not in waiting}
        return replace(self, batch=Batch(upto, catalog.version, ready))

    def _waiting(self, catalog: Catalog, group: str) -> Iterator[tuple[DeferredView, str]]:
        """The views that are to be built, and must wait for an index, with the index."""
        for view in views_of(catalog, group):
            indexes = (index for name in view.relations for index in catalog.indexes_on(name))
            built = (i.name for i in indexes if catalog.state[i.name] is State.BUILDING)
            index = next(built, None)
            if index is not None and not self.holds(catalog, view.name):
                yield view, index

    def agreed(self, upto: int, view: str, digest: str) -> GroupState:
        """The state with `digest` of the rows that the batch is to put into `view`; the same state
        if it has this digest already.

        Raises StalePlan for another digest, or another batch. Pure.
        """
        batch = self.batch
        if batch is None or batch.upto != upto:
            raise StalePlan(
                f"There is no batch up to {upto} under way.", cure="Begin one, and do that."
            )
        if batch.results.get(view, digest) != digest:
            raise StalePlan(
                f"The SELECT of {view} gave other rows when this batch was begun: some of them may"
                " be put already.",
                cure="Give it one answer (a LIMIT wants an ORDER BY without ties), and have it"
                f" rebuilt: hornbeam refresh --rebuild {view}.",
            )
        return replace(self, batch=replace(batch, results=batch.results | {view: digest}))

    def was_as_of(self, snapshot: int) -> bool:
        """May the views be read as of `snapshot`? At a snapshot between two batches they show the
        older batch, but their base relations show the snapshot."""
        return snapshot == self.as_of or snapshot in self.before

    def newest_until(self, snapshot: int) -> int:
        """The newest snapshot of the views that is not later than `snapshot`; 0: none is known."""
        return max((at for at in (self.as_of, *self.before) if at <= snapshot), default=0)

    def finished(self, upto: int, last: Finished, wall_ms: int, use_ms: int) -> GroupState:
        """The state after the batch up to `upto`. Pure.

        Raises StalePlan when that batch is neither under way nor finished.
        """
        if self.batch is None or self.batch.upto != upto:
            if self.as_of >= upto:
                return self
            raise StalePlan(
                f"There is no batch up to {upto} under way.", cure="Begin one, and do that."
            )
        batch = self.batch
        # A new or rebuilt view has no rows of earlier snapshots.
        before = (self.as_of, *self.before) if batch.views == self.views else ()
        left = tuple(one for one in self.left if one.wall_ms > wall_ms - use_ms)
        began = self.as_of or upto - 1
        if wall_ms - began > use_ms // 2:
            left = (*left, Left(wall_ms, began))
        version = batch.catalog_version
        return GroupState(upto, version, batch.views, None, last, before[:REMEMBERED], left)

    def needed(self, wall_ms: int, use_ms: int) -> tuple[int, ...]:
        """The snapshots that the group needs: cells that they or later snapshots read must not be
        purged.

        Batches read at `as_of` and at `upto`, and put rows at `upto`. What is kept for a batch
        begins before its rows, which must not arrive after newer cells were purged
        (`pipeline/spark/sink.py`). Cells that are retained anyway cover rows that are put within
        `use_ms` of `upto`, and reads as of `as_of`. A batch that is finished after more than half
        of `use_ms` may have been begun again, and so may be under way for as long again; and
        queries read at its beginning until it was finished.
        """
        left = [one.at for one in self.left if one.wall_ms > wall_ms - use_ms]
        begins = [self.as_of] if self.as_of else []
        ends = [] if self.batch is None else [self.batch.upto - 1]
        return (*begins, *ends, *left)

    def holds(self, catalog: Catalog, name: str) -> bool:
        """Does view `name` of this catalog, in its incarnation, show the snapshot `as_of`?"""
        number = dict(catalog.incarnations).get(name, 0)
        return self.views.get(catalog.stored_name(name)) == number


def views_of(catalog: Catalog, group: str) -> tuple[DeferredView, ...]:
    """The views of a group."""
    return tuple(view for view in catalog.deferred if view.declared.group == group)


def members(catalog: Catalog, group: str) -> dict[str, int]:
    """The incarnations of the views of a group, by stored name."""
    numbers, stored = dict(catalog.incarnations), catalog.stored_name
    return {stored(view.name): numbers.get(view.name, 0) for view in views_of(catalog, group)}


def named(catalog: Catalog, views: Mapping[str, int]) -> dict[str, int]:
    """`views`, by stored name with their incarnations, by their names in `catalog`. A view that is
    not in it has its stored name."""
    return {catalog.named.get(stored, stored): number for stored, number in views.items()}


def interval_s(catalog: Catalog, group: str) -> float:
    """The seconds between two batches of a group: the minimum of its views."""
    return min(view.declared.interval_s for view in views_of(catalog, group))


def groups_of(catalog: Catalog) -> tuple[str, ...]:
    """The names of all groups, in the order in which their first views are declared."""
    return tuple(dict.fromkeys(view.declared.group for view in catalog.deferred))


def usable(catalogs: Iterable[Catalog], catalog: Catalog) -> frozenset[str]:
    """The indexes and views of `catalog` that were readable under all of `catalogs`, too: one that
    was built later lacks older versions of its rows."""
    found = frozenset(name for name, state in catalog.states if state is State.READABLE)
    for other in catalogs:
        theirs = {other.layout(name).table for name, _ in other.states if other.readable(name)}
        found = frozenset(name for name in found if catalog.layout(name).table in theirs)
    return found


SnapshotAfter = Callable[[int], Awaitable[tuple[Catalog, int]]]
"""Returns a snapshot after the given one, and its catalog."""


class Plan(NamedTuple):
    """A group's state with the batch to do next. `replaces` is the version of the state that is to
    be replaced by it; None: the batch is recorded already."""

    state: GroupState
    replaces: int | None


class Groups:
    """The states of all groups of one database."""

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination

    async def state(self, group: str) -> GroupState:
        """The state of one group. Raises Unavailable, Corruption."""
        state, _ = await self._read(group)
        return state

    async def begin(self, group: str, snapshot_after: SnapshotAfter) -> GroupState:
        """The state with a batch: the one under way, or a new one. Raises the errors of `plan`."""
        while True:
            plan = await self.plan(group, snapshot_after)
            with suppress(StalePlan):
                await self.record(group, plan)
                return plan.state

    async def plan(self, group: str, snapshot_after: SnapshotAfter) -> Plan:
        """The state with a batch: the one under way, or a new one up to the snapshot that
        `snapshot_after(as_of)` returns, with the catalog. It is later than `as_of`. Else a process
        that reports the last batch again could end the new one before its rows are put.

        A new batch is to be recorded. Raises Unavailable, and the errors of `snapshot_after`.
        """
        state, version = await self._read(group)
        if state.batch is not None:
            return Plan(state, None)
        catalog, upto = await snapshot_after(state.as_of)
        return Plan(state.begun(catalog, group, upto), version)

    async def record(self, group: str, plan: Plan) -> None:
        """Record the batch of a plan. No row of it may be put before the return. Raises StalePlan
        if another process has changed the state since, and Unavailable."""
        if plan.replaces is not None:
            value = msgspec.json.encode(plan.state)
            await self._coordination.write(path_of(group), value, plan.replaces)

    async def agree(self, group: str, upto: int, view: str, digest: str) -> None:
        """Fix the digest of the rows of `view` in this batch. After the return every process that
        does the batch puts rows of this digest, and no others. Raises StalePlan, Unavailable."""
        for _ in range(_TRIES):
            state, version = await self._read(group)
            after = state.agreed(upto, view, digest)
            if after == state or await self._written(group, after, version):
                return
        raise StalePlan(f"Others change the state of group {group} all the time.", cure="Repeat.")

    async def note(self, group: str, problem: Problem) -> None:
        """Record why the group's batches fail. Raises Unavailable."""
        state, version = await self._read(group)
        if state.problem != problem:
            await self._written(group, replace(state, problem=problem), version)

    async def finish(
        self, group: str, upto: int, last: Finished, wall_ms: int, use_ms: int
    ) -> GroupState:
        """Finish the batch up to `upto`: queries read at `upto` from now on. Idempotent. Requires
        that all rows of the batch are durable in the store.

        Raises StalePlan, Unavailable.
        """
        for _ in range(_TRIES):
            state, version = await self._read(group)
            after = state.finished(upto, last, wall_ms, use_ms)
            if after == state or await self._written(group, after, version):
                return after
        raise StalePlan(f"Others change the state of group {group} all the time.", cure="Repeat.")

    async def _read(self, group: str) -> tuple[GroupState, int]:
        known = await self._coordination.read(path_of(group))
        if known is None:
            return GroupState(), 0
        try:
            return msgspec.json.decode(known.value, type=GroupState), known.version
        except msgspec.MsgspecError as error:
            raise Corruption(f"The state of group {group} cannot be read: {error}.") from None

    async def _written(self, group: str, state: GroupState, version: int) -> bool:
        """Whether the write succeeded. False: another process has changed the state."""
        try:
            await self._coordination.write(path_of(group), msgspec.json.encode(state), version)
        except StalePlan:
            return False
        return True


def path_of(group: str) -> str:
    """The path of a group's state in the coordination service."""
    return f"deferred/{group.encode().hex()}"
