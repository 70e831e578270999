"""Deferred views as a node knows them: reading them, and the batches that carry them forward.

A statement that reads deferred views reads all that it reads at the `as_of` of their group
(`txlayer/groups.py`), so relations beside them are of the same moment. Batches are Spark's work
(`pipeline/refresh.py`); a node only says from where to where, and what is there to work with.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hornbeam_server.query.engine import PreparedQuery
from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.schema.errors import (
    InvalidRequest,
    NotFound,
    SnapshotTooOld,
    Unavailable,
    Unsupported,
)
from hornbeam_server.schema.model import Refresh
from hornbeam_server.storage.ports import Clock, Coordination, TableStore
from hornbeam_server.txlayer.catalog_keeper import CatalogKeeper, load_catalog
from hornbeam_server.txlayer.groups import Finished, Groups, GroupState, groups_of, members, usable


@dataclass(frozen=True, slots=True)
class BatchWork:
    """What a batch is to do: the views in `refreshed` go from `as_of` to `upto`, those in `built`
    are made as of there. What is in `usable` could be read all the time between both."""

    group: str
    as_of: int
    upto: int
    catalog: Catalog
    refreshed: tuple[str, ...]
    built: tuple[str, ...]
    usable: frozenset[str]


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """`readable`: those of `views` that are as of `as_of`. `lag_s`: for how long nothing of what
    was committed is in them; None: they were never built."""

    name: str
    views: tuple[str, ...]
    readable: tuple[str, ...]
    interval_s: float
    as_of: int | None
    lag_s: float | None
    state: GroupState


class DeferredViews:
    """Of one node."""

    def __init__(
        self,
        coordination: Coordination,
        store: TableStore,
        keeper: CatalogKeeper,
        clock: Clock,
        hold_s: float,
        use_s: float,
    ) -> None:
        """`hold_s`: so long is kept what a group needs that nobody refreshes; `use_s`: so long may
        be used what was kept when it was asked for."""
        self._groups = Groups(coordination)
        self._store = store
        self._keeper = keeper
        self._clock = clock
        self._hold_ms = int(hold_s * 1000)
        self._use_ms = int(use_s * 1000)

    # ------------------------------------------------------------ reading

    async def read_at(
        self,
        query: PreparedQuery,
        *,
        asked: int | None,
        max_staleness_s: float | None,
    ) -> int:
        """The moment at which a query reads that names deferred views; `asked` is the snapshot that
        it was sent with.

        Raises Unsupported, SnapshotTooOld; Unavailable when they are staler than that.
        """
        catalog, names = query.catalog, query.deferred
        groups = {catalog.deferred_view[name].declared.group for name in names}
        if len(groups) > 1:
            raise Unsupported(
                f"{', '.join(names)} belong to several groups, which are as of different moments.",
                cure="Read them in several statements, or declare them with one group.",
            )
        (group,) = groups
        state = await self._groups.state(group)
        if not all(state.holds(catalog, name) for name in names):
            raise Unavailable(
                f"{', '.join(names)} are not built, or are being rebuilt.", cure="Ask again."
            )
        at = state.as_of if asked is None else asked
        if not state.was_as_of(at):
            raise Unsupported(
                f"{', '.join(names)} cannot be read as of snapshot {at}: that of the group is"
                f" {state.as_of}.",
                cure="Read them in autocommit, or first of all in their transaction.",
            )
        self._require_held(group, at)
        if len(query.served_by) > len(names) and at < catalog.since:
            raise SnapshotTooOld(
                f"{', '.join(names)} are as of a moment before the last schema change.",
                cure="Read them alone until they are refreshed.",
            )
        stale_s = self._lag_s(at)
        if max_staleness_s is not None and stale_s > max_staleness_s:
            raise Unavailable(
                f"{', '.join(names)} are {stale_s:.1f} s old, older than {max_staleness_s:g} s.",
                cure="Repeat it after the next batch, or allow for more.",
                as_of=at,
            )
        return at

    def _lag_s(self, as_of: int) -> float:
        return max(self._clock.wall_ms() - as_of, 0) / 1000

    async def as_of(self, catalog: Catalog, names: Sequence[str] | None) -> dict[int, list[str]]:
        """The deferred views `names` that can be read, by their moments; None: all that can be.

        Raises NotFound, SnapshotTooOld for one of `names` that cannot.
        """
        found: dict[int, list[str]] = {}
        for group in groups_of(catalog):
            state = await self._groups.state(group)
            views = [
                name for name in _readable(catalog, group, state) if names is None or name in names
            ]
            if views and names is not None:
                self._require_held(group, state.as_of)
            if views and self._is_held(state.as_of):
                found.setdefault(state.as_of, []).extend(views)
        lost = [name for name in names or () if not any(name in one for one in found.values())]
        if lost:
            raise NotFound(f"There is no readable deferred view {', '.join(lost)}.")
        return found

    # ------------------------------------------------------------ batches

    async def begin(
        self, group: str, moment: Callable[[], Awaitable[tuple[Catalog, int]]]
    ) -> BatchWork:
        """A batch to do: the one that is under way, or a new one up to now.

        Raises NotFound, Unavailable; SnapshotTooOld when what is needed may be gone.
        """
        self._require_known(group)
        catalog = self._keeper.state.catalog
        # Nobody could do a batch, once it is written down, whose beginning is kept no more.
        self._require_beginning(group, await self._groups.state(group), members(catalog, group))
        state = await self._groups.begin(group, moment)
        batch, catalog = state.batch, self._keeper.state.catalog
        assert batch is not None
        numbers = members(catalog, group)
        wanted = [name for name, number in batch.views.items() if numbers.get(name) == number]
        refreshed = self._require_beginning(group, state, wanted)
        if wanted:
            self._require_held(group, batch.upto)
        versions = {batch.catalog_version, *([state.catalog_version] if refreshed else [])}
        before = [await load_catalog(self._store, v) for v in versions - {catalog.version}]
        return BatchWork(
            group,
            state.as_of if refreshed else batch.upto,
            batch.upto,
            catalog,
            refreshed,
            tuple(name for name in wanted if name not in refreshed),
            usable(before, catalog),
        )

    def _require_beginning(
        self, group: str, state: GroupState, names: Iterable[str]
    ) -> tuple[str, ...]:
        """Those of `names` that go on from `as_of`. Raises SnapshotTooOld if they cannot."""
        catalog = self._keeper.state.catalog
        follow = tuple(name for name in names if state.holds(catalog, name))
        if follow:
            self._require_held(group, state.as_of)
        return follow

    def require_logged(self, work: BatchWork, loaded: Mapping[str, int]) -> None:
        """Rows of relations that were `loaded` are in no log. Raises SnapshotTooOld."""
        views = work.catalog.deferred_view
        lost = [
            name
            for name in work.refreshed
            if views[name].declared.refresh is Refresh.DEFERRED
            and not loaded.keys().isdisjoint(views[name].relations)
        ]
        if lost:
            raise SnapshotTooOld(
                f"{', '.join(lost)} cannot go on from {work.as_of}: what they are made of was"
                f" loaded since, beside the logs ({', '.join(loaded)}).",
                cure=f"Rebuild them: hornbeam refresh --rebuild {' '.join(lost)}.",
            )

    async def agree(self, group: str, upto: int, view: str, digest: str) -> None:
        """Rows of this digest, and no others, are put for a view that is answered anew. Raises
        NotFound, StalePlan, Unavailable."""
        self._require_known(group)
        await self._groups.agree(group, upto, view, digest)

    async def finish(self, group: str, upto: int, last: Finished) -> GroupState:
        """All rows of the batch are put. Raises NotFound, StalePlan, Unavailable."""
        self._require_known(group)
        await self._store.flush()
        now = self._clock.wall_ms()
        state = await self._groups.finish(group, upto, last, now, self._use_ms)
        await self._keeper.adopt(state.views)
        return state

    def use_ms(self, upto: int) -> int:
        """For so long from now may the rows of a batch be put (`GroupState.needed`)."""
        age_ms = max(self._clock.wall_ms() - upto, 0)
        return max(self._use_ms - age_ms, self._use_ms // 2)

    async def rebuild(self, names: Sequence[str]) -> None:
        """Have views made anew by the next batch. Nobody reads them until then.

        Raises NotFound, Unavailable.
        """

        async def anew(current: Catalog) -> Catalog:
            unknown = [name for name in names if name not in current.deferred_view]
            if unknown:
                raise NotFound(f"There is no deferred view {', '.join(unknown)}.")
            numbers, states = dict(current.incarnations), dict(current.states)
            for name in names:
                numbers[name] = numbers.get(name, 0) + 1
                states[name] = State.BUILDING
            return replace(
                current,
                version=current.version + 1,
                incarnations=tuple(numbers.items()),
                states=tuple(states.items()),
            )

        if not names:
            raise InvalidRequest("No views are named.")
        await self._keeper.change(anew)

    # ------------------------------------------------------------ upkeep

    async def held(self) -> list[int]:
        """Moments such that nothing may be purged that snapshots after them need, and no change
        after them dropped."""
        now = self._clock.wall_ms()
        groups = groups_of(self._keeper.state.catalog)
        states = [await self._groups.state(group) for group in groups]
        needed = [state.needed(now, self._use_ms) for state in states]
        return [at for at in needed if at and now - at <= self._hold_ms + self._use_ms]

    async def status(self) -> list[GroupStatus]:
        """Of all groups."""
        catalog = self._keeper.state.catalog
        return [await self._status(catalog, group) for group in groups_of(catalog)]

    async def _status(self, catalog: Catalog, group: str) -> GroupStatus:
        state = await self._groups.state(group)
        views = [view for view in catalog.deferred if view.declared.group == group]
        return GroupStatus(
            group,
            tuple(view.name for view in views),
            _readable(catalog, group, state),
            min(view.declared.interval_s for view in views),
            state.as_of or None,
            self._lag_s(state.as_of) if state.as_of else None,
            state,
        )

    def _is_held(self, as_of: int) -> bool:
        return self._clock.wall_ms() - as_of <= self._hold_ms

    def _require_held(self, group: str, as_of: int) -> None:
        if not self._is_held(as_of):
            lag_s = self._lag_s(as_of)
            raise SnapshotTooOld(
                f"Group {group} was not refreshed for {lag_s:.0f} s: what its views need is not"
                " kept any more.",
                cure="Rebuild its views: hornbeam refresh --rebuild.",
            )

    def _require_known(self, group: str) -> None:
        known = groups_of(self._keeper.state.catalog)
        if group not in known:
            raise NotFound(
                f"There is no group {group} of deferred views.",
                cure=f"There are: {', '.join(known) or 'none'}.",
            )


def _readable(catalog: Catalog, group: str, state: GroupState) -> tuple[str, ...]:
    """Views of a group that hold what they hold as of its moment."""
    return tuple(
        name
        for name in members(catalog, group)
        if catalog.readable(name) and state.holds(catalog, name)
    )
