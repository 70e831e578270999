"""Deferred views at a node: reads, and the batches that refresh the views.

A statement that reads deferred views reads everything at the `as_of` of their group
(`txlayer/views/refresh_groups.py`), so its relations and views show the same snapshot. Spark does
the batches (`pipeline/refresh/driver.py`); a node only determines their two snapshots and their
inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from hornbeam_server.node.schema_plans import rebuilt_view
from hornbeam_server.query.engine import PreparedQuery
from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.schema.errors import (
    InvalidRequest,
    NotFound,
    SnapshotTooOld,
    StalePlan,
    Unavailable,
    Unsupported,
)
from hornbeam_server.storage.ports import Clock, Coordination, TableStore
from hornbeam_server.txlayer.ddl.catalog_keeper import CatalogKeeper
from hornbeam_server.txlayer.ddl.claim import load_catalog
from hornbeam_server.txlayer.transactions.numbered_queries import NumberedQuery
from hornbeam_server.txlayer.views.recent_batches import RecentBatches
from hornbeam_server.txlayer.views.refresh_groups import (
    Finished,
    Groups,
    GroupState,
    Plan,
    Problem,
    SnapshotAfter,
    groups_of,
    interval_s,
    members,
    named,
    usable,
    views_of,
)

LOOK_S = 0.01
"""A query that waits for a batch looks this often whether it is finished."""


@dataclass(frozen=True, slots=True)
class BatchWork:
    """The task of a batch: it takes the views in `refreshed` from `as_of` to `upto`, and builds
    those in `built` as of `upto`. The views and indexes in `usable` are readable at both."""

    group: str
    as_of: int
    upto: int
    catalog: Catalog
    refreshed: tuple[str, ...]
    built: tuple[str, ...]
    usable: frozenset[str]


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The state of a group for operators. The `readable` ones of `views` show the snapshot
    `as_of`. `lag_s` is the age of that snapshot in seconds; None: no view was ever built."""

    name: str
    views: tuple[str, ...]
    readable: tuple[str, ...]
    interval_s: float
    as_of: int | None
    lag_s: float | None
    state: GroupState


@dataclass(frozen=True, slots=True)
class StaleAnswers:
    """The deferred views of a group that may answer statements that do not name them, as of
    `as_of`, which is `age_s` seconds old. `refusal` says why they may not answer this reader."""

    group: str
    views: frozenset[str]
    as_of: int
    age_s: float
    refusal: str


@dataclass(frozen=True, slots=True)
class Freshness:
    """How fresh deferred views have to be that a query names: at most `max_staleness_s` old, if it
    is not None, with every commit up to `bookmark`. Queries wait `wait_s` for a batch."""

    max_staleness_s: float | None = None
    bookmark: int = 0
    wait_s: float = 0.0


class DeferredViews:
    """One node's access to the deferred views of the database."""

    def __init__(
        self,
        coordination: Coordination,
        store: TableStore,
        keeper: CatalogKeeper,
        clock: Clock,
        hold_s: float,
        use_s: float,
        recent: Callable[[str], RecentBatches],
    ) -> None:
        """`hold_s`: for how many seconds a group that is not refreshed keeps its inputs; `use_s`:
        for how many seconds a batch may use the inputs that were kept when it began. `recent`
        returns the last batches of a group that this node knows."""
        self._groups = Groups(coordination)
        self._store = store
        self._keeper = keeper
        self._clock = clock
        self._hold_ms = int(hold_s * 1000)
        self._use_ms = int(use_s * 1000)
        self.recent = recent
        self.is_current: Callable[[int], bool] = lambda _: False
        """Is it certain that nothing was committed after a snapshot?"""

    # ------------------------------------------------------------ reading

    async def read_at(
        self,
        query: PreparedQuery | NumberedQuery,
        *,
        asked: int | None,
        fresh: Freshness,
    ) -> int:
        """The snapshot at which a query that names deferred views reads: `asked`, the snapshot that
        the request names, or else `as_of` of their group.

        Raises Unsupported for several groups, or an `asked` that the group did not show;
        SnapshotTooOld; Unavailable when a view is not built, or the snapshot is not `fresh` enough.
        """
        catalog, names = query.catalog, query.deferred
        group, state = await self.shown(catalog, names)
        at = state.as_of if asked is None else asked
        if not state.was_as_of(at):
            raise Unsupported(
                f"{', '.join(names)} cannot be read as of snapshot {at}: that of the group is"
                f" {state.as_of}.",
                cure="Read them in autocommit, or first of all in their transaction.",
            )
        self.require_held(group, at)
        if len(query.served_by) > len(names) and at < catalog.since:
            raise SnapshotTooOld(
                f"{', '.join(names)} show a snapshot before the last schema change.",
                cure="Read them alone until they are refreshed.",
            )
        self.require_fresh(catalog, names, at, fresh)
        return at

    async def shown(self, catalog: Catalog, names: Sequence[str]) -> tuple[str, GroupState]:
        """The group of views, and its state. Raises Unsupported for several groups, Unavailable
        when a view is not built."""
        groups = {catalog.deferred_view[name].declared.group for name in names}
        if len(groups) > 1:
            raise Unsupported(
                f"{', '.join(names)} belong to several groups, which show different snapshots.",
                cure="Read them in several statements, or declare them with one group.",
            )
        (group,) = groups
        state = await self._groups.state(group)
        if not all(state.holds(catalog, name) for name in names):
            raise Unavailable(
                f"{', '.join(names)} are not built, or are being rebuilt.", cure="Ask again."
            )
        return group, state

    def require_held(self, group: str, as_of: int) -> None:
        """Raises SnapshotTooOld if what the views of a group need as of `as_of` may be gone."""
        if not self._is_held(as_of):
            lag_s = max(self._clock.wall_ms() - as_of, 0) / 1000
            raise SnapshotTooOld(
                f"Group {group} was not refreshed for {lag_s:.0f} s: what its views need is not"
                " kept any more.",
                cure="Rebuild its views: hornbeam refresh --rebuild.",
            )

    def require_fresh(
        self, catalog: Catalog, names: Sequence[str], at: int, fresh: Freshness
    ) -> None:
        """Raises Unavailable if snapshot `at` of views is not `fresh` enough."""
        if reason := self._staleness(catalog, names, at, fresh):
            raise Unavailable(
                f"{', '.join(names)} {reason}.",
                cure="Repeat it after the next batch, wait for that, or allow for more.",
                as_of=at,
            )

    def _staleness(self, catalog: Catalog, names: Iterable[str], at: int, fresh: Freshness) -> str:
        """Why snapshot `at` of views is not fresh enough; "": it is."""
        stale_s = self._lag_s(catalog, names, at)
        if fresh.max_staleness_s is not None and stale_s > fresh.max_staleness_s:
            return f"are {stale_s:.1f} s old, older than {fresh.max_staleness_s:g} s"
        if at < fresh.bookmark and not self.stay(catalog, names, at):
            return f"show the snapshot {at}, and not yet the bookmark {fresh.bookmark}"
        return ""

    async def wait(self, catalog: Catalog, names: Sequence[str], fresh: Freshness) -> None:
        """Wait until the group of views is built and `fresh`, at most `wait_s`. Raises
        Unavailable."""
        end = self._clock.monotonic() + fresh.wait_s
        group = catalog.deferred_view[names[0]].declared.group
        while self._clock.monotonic() < end:
            state = await self._groups.state(group)
            built = all(state.holds(catalog, name) for name in names)
            if built and not self._staleness(catalog, names, state.as_of, fresh):
                return
            await self._clock.sleep(LOOK_S)

    async def answering(
        self, catalog: Catalog, *, bookmark: int, max_staleness_s: float | None
    ) -> list[StaleAnswers]:
        """The groups whose views may answer statements, the newest first. A reader without a
        `max_staleness_s` allows none, and no reader gets a snapshot before its `bookmark`. Raises
        Unavailable."""
        found = []
        for group in groups_of(catalog):
            state = await self._groups.state(group)
            views = frozenset(_readable(catalog, group, state))
            if not views:
                continue
            age_s = self._lag_s(catalog, views, state.as_of)
            refusal = self._refusal(catalog, state.as_of, age_s, bookmark, max_staleness_s)
            found.append(StaleAnswers(group, views, state.as_of, age_s, refusal))
        return sorted(found, key=lambda each: each.age_s)

    def _refusal(
        self,
        catalog: Catalog,
        as_of: int,
        age_s: float,
        bookmark: int,
        max_staleness_s: float | None,
    ) -> str:
        if max_staleness_s is None:
            return "the reader allows no staleness (max_staleness)"
        if age_s > max_staleness_s:
            return f"the reader allows {max_staleness_s:g} s"
        if as_of < bookmark:
            return "the reader's bookmark is later"
        if as_of < catalog.since:
            return "the schema has changed since"
        return "" if self._is_held(as_of) else "what it needs is not kept any more"

    def _lag_s(self, catalog: Catalog, names: Iterable[str], as_of: int) -> float:
        """The age of a snapshot of views. One after which they have stayed the same is not old."""
        if self.stay(catalog, names, as_of):
            return 0.0
        return max(self._clock.wall_ms() - as_of, 0) / 1000

    def stay(self, catalog: Catalog, names: Iterable[str], at: int) -> bool:
        """Is it certain that views have the same rows at the newest snapshot as at snapshot `at`?
        Nothing was committed since, and rows of none of them enter and leave by time."""
        timed = any(catalog.deferred_view[name].timed for name in names)
        return not timed and self.is_current(at)

    async def as_of(self, catalog: Catalog, names: Sequence[str] | None) -> dict[int, list[str]]:
        """The readable deferred views among `names` (None: all of them), by the snapshot that they
        show.

        Raises NotFound or SnapshotTooOld when one of `names` cannot be read.
        """
        found: dict[int, list[str]] = {}
        for group in groups_of(catalog):
            state = await self._groups.state(group)
            views = [
                name for name in _readable(catalog, group, state) if names is None or name in names
            ]
            if views and names is not None:
                self.require_held(group, state.as_of)
            if views and self._is_held(state.as_of):
                found.setdefault(state.as_of, []).extend(views)
        lost = [name for name in names or () if not any(name in one for one in found.values())]
        if lost:
            raise NotFound(f"There is no readable deferred view {', '.join(lost)}.")
        return found

    # ------------------------------------------------------------ batches

    async def begin(self, group: str, snapshot_after: SnapshotAfter) -> BatchWork:
        """The batch to do next, which is recorded. Raises the errors of `plan`."""
        while True:
            work, plan = await self.plan(group, snapshot_after)
            with suppress(StalePlan):
                await self.record(group, plan)
                return work

    async def plan(self, group: str, snapshot_after: SnapshotAfter) -> tuple[BatchWork, Plan]:
        """The batch to do next: the one under way, or a new one up to the result of
        `snapshot_after`, which gets the group's `as_of`. No row of it is put before it is recorded.

        Raises NotFound, Unavailable; SnapshotTooOld when inputs of the batch may be gone.
        """
        self._require_known(group)
        catalog = self._keeper.state.catalog
        # A recorded batch whose first snapshot is not kept any more could never be done.
        self._require_beginning(group, await self._groups.state(group), _names(catalog, group))
        plan = await self._groups.plan(group, snapshot_after)
        state, catalog = plan.state, self._keeper.state.catalog
        batch = state.batch
        assert batch is not None
        numbers = members(catalog, group)
        current = {view: n for view, n in batch.views.items() if numbers.get(view) == n}
        wanted = list(named(catalog, current))
        refreshed = self._require_beginning(group, state, wanted)
        if wanted:
            self.require_held(group, batch.upto)
        versions = {batch.catalog_version, *([state.catalog_version] if refreshed else [])}
        before = [await load_catalog(self._store, v) for v in versions - {catalog.version}]
        work = BatchWork(
            group,
            state.as_of if refreshed else batch.upto,
            batch.upto,
            catalog,
            refreshed,
            tuple(name for name in wanted if name not in refreshed),
            usable(before, catalog),
        )
        return work, plan

    async def record(self, group: str, plan: Plan) -> None:
        """Record the batch of a plan, if it is new. Raises StalePlan if another process has begun
        one since, and Unavailable."""
        await self._groups.record(group, plan)

    def _require_beginning(
        self, group: str, state: GroupState, names: Iterable[str]
    ) -> tuple[str, ...]:
        """Those of `names` that show `as_of`, so that a batch takes them on from there. Raises
        SnapshotTooOld if `as_of` is not kept any more."""
        catalog = self._keeper.state.catalog
        follow = tuple(name for name in names if state.holds(catalog, name))
        if follow:
            self.require_held(group, state.as_of)
        return follow

    def require_logged(self, work: BatchWork, loaded: Mapping[str, int]) -> None:
        """Raises SnapshotTooOld if a view that the batch maintains from changes reads a relation in
        `loaded`: the rows of its initial load are in no log."""
        views = work.catalog.deferred_view
        lost = [
            name
            for name in work.refreshed
            if views[name].declared.refresh.follows_changes
            and not loaded.keys().isdisjoint(views[name].relations)
        ]
        if lost:
            raise SnapshotTooOld(
                f"{', '.join(lost)} cannot go on from {work.as_of}: what they are made of was"
                f" loaded since without the logs ({', '.join(loaded)}).",
                cure=f"Rebuild them: hornbeam refresh --rebuild {' '.join(lost)}.",
            )

    async def agree(self, group: str, upto: int, view: str, digest: str) -> None:
        """Fix the digest of the rows of a view that the batch recomputes: no process puts rows with
        another digest. Raises NotFound, StalePlan, Unavailable."""
        self._require_known(group)
        stored = self._keeper.state.catalog.stored_name(view)
        await self._groups.agree(group, upto, stored, digest)

    async def state(self, group: str) -> GroupState:
        """The state of a group. Raises Unavailable, Corruption."""
        return await self._groups.state(group)

    async def note(self, group: str, problem: Problem) -> None:
        """Record why the group's batches fail. Raises Unavailable."""
        await self._groups.note(group, problem)

    async def finish(
        self, group: str, upto: int, last: Finished, *, forced: bool = False
    ) -> GroupState:
        """Finish a batch whose rows are all put: queries read at `upto` from now on. Returns the
        new state. `forced`: the puts survive a crash of the machine already. Raises NotFound,
        StalePlan, Unavailable."""
        self._require_known(group)
        if not forced:
            await self._store.flush()
        now = self._clock.wall_ms()
        state = await self._groups.finish(group, upto, last, now, self._use_ms)
        await self._keeper.adopt(named(self._keeper.state.catalog, state.views))
        self.recent(group).tell(upto)
        return state

    def use_ms(self, upto: int) -> int:
        """The milliseconds from now during which the rows of a batch up to `upto` may be put
        (`GroupState.needed`)."""
        age_ms = max(self._clock.wall_ms() - upto, 0)
        return max(self._use_ms - age_ms, self._use_ms // 2)

    async def rebuild(self, names: Sequence[str]) -> None:
        """Let the next batch rebuild views, with the partial aggregates that the rows of today make
        worthwhile. They cannot be read until then.

        Raises InvalidRequest for no names, NotFound, Unavailable.
        """

        async def rebuilt(current: Catalog) -> Catalog:
            unknown = [name for name in names if name not in current.deferred_view]
            if unknown:
                raise NotFound(f"There is no deferred view {', '.join(unknown)}.")
            numbers, states = dict(current.incarnations), dict(current.states)
            for name in names:
                numbers[name] = numbers.get(name, 0) + 1
                states[name] = State.BUILDING
            counted = replace(current, row_counts=tuple(self._keeper.counts().items()))
            views = [
                rebuilt_view(view, counted) if view.name in names else view
                for view in current.deferred
            ]
            return replace(
                current,
                version=current.version + 1,
                deferred=tuple(views),
                incarnations=tuple(numbers.items()),
                states=tuple(states.items()),
            )

        if not names:
            raise InvalidRequest("No views are named.", cure="Name at least one deferred view.")
        await self._keeper.change(rebuilt)

    # ------------------------------------------------------------ upkeep

    async def held(self) -> list[int]:
        """The snapshots that groups need, unless they have expired (`hold_s`). Versions that these
        and later snapshots need must not be purged, nor later commits dropped from the logs."""
        now = self._clock.wall_ms()
        groups = groups_of(self._keeper.state.catalog)
        states = [await self._groups.state(group) for group in groups]
        needed = [at for state in states for at in state.needed(now, self._use_ms)]
        return [at for at in needed if now - at <= self._hold_ms + self._use_ms]

    async def status(self) -> list[GroupStatus]:
        """The status of all groups."""
        catalog = self._keeper.state.catalog
        return [await self._status(catalog, group) for group in groups_of(catalog)]

    async def _status(self, catalog: Catalog, group: str) -> GroupStatus:
        state = await self._groups.state(group)
        return GroupStatus(
            group,
            _names(catalog, group),
            _readable(catalog, group, state),
            interval_s(catalog, group),
            state.as_of or None,
            self._lag_s(catalog, _names(catalog, group), state.as_of) if state.as_of else None,
            state,
        )

    def _is_held(self, as_of: int) -> bool:
        return self._clock.wall_ms() - as_of <= self._hold_ms

    def _require_known(self, group: str) -> None:
        known = groups_of(self._keeper.state.catalog)
        if group not in known:
            raise no_group(group, known)


def no_group(group: str, known: Iterable[str]) -> NotFound:
    """The error about a group that is not one of those `known`."""
    return NotFound(
        f"There is no group {group} of deferred views.",
        cure=f"There are: {', '.join(known) or 'none'}.",
    )


def _names(catalog: Catalog, group: str) -> tuple[str, ...]:
    """The views of a group."""
    return tuple(view.name for view in views_of(catalog, group))


def _readable(catalog: Catalog, group: str, state: GroupState) -> tuple[str, ...]:
    """The readable views of a group that show its snapshot `as_of`."""
    return tuple(
        name
        for name in _names(catalog, group)
        if catalog.readable(name) and state.holds(catalog, name)
    )
