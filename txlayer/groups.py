"""Groups of deferred views: as of which snapshot they are, and which batch is under way.

All views of a group are as of one snapshot, `as_of`. A *batch* takes them from there to a later
one, `upto`: Spark reads the changes between both, and puts the rows that differ with the timestamp
`upto`. Until the batch is finished queries read at `as_of`, where none of that is seen.

What stands in a view's tables as of `upto` follows from the database as of `upto` alone. So a
batch may be done twice, or half and then again, by whomever: the same rows are put with the same
timestamp. For that the batch is written down before its first row is put, and is followed by no
other before it is finished: rows of one that nobody finishes would be seen by every later one.

A view that is new in its group, or that is to be made anew, has tables of its own that are empty,
and is built by a batch, as of `upto`, beside those that follow their changes.

Each group's state is a value of the coordination service, changed by compare-and-set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import msgspec
from msgspec.structs import replace

from schema.catalog import Catalog, State
from schema.errors import Corruption, StalePlan
from storage.ports import Coordination

REMEMBERED = 100
"""Values of `as_of` for transactions that read at one of them."""
_TRIES = 10


class Batch(msgspec.Struct, frozen=True):
    """`views` are those that it takes to `upto`, with their incarnations; `catalog_version` was
    in force when it began. `results` are digests of what views are that are answered anew, once
    somebody has answered them."""

    upto: int
    catalog_version: int
    views: dict[str, int]
    results: dict[str, str] = {}


class Finished(msgspec.Struct, frozen=True):
    """The last batch: the changes of relations that it read, the rows that it put, its seconds."""

    changes: int = 0
    rows: int = 0
    seconds: float = 0.0


class Left(msgspec.Struct, frozen=True):
    """A batch was finished, when the wall clock said `wall_ms`, long after `at`, where it began.
    Somebody may still read there, and who lost the race to finish it may still put its rows."""

    wall_ms: int
    at: int


class GroupState(msgspec.Struct, frozen=True):
    """`views` hold, with these incarnations, what they hold as of `as_of` (0: never yet), whose
    catalog was `catalog_version`."""

    as_of: int = 0
    catalog_version: int = 0
    views: dict[str, int] = {}
    batch: Batch | None = None
    last: Finished | None = None
    before: tuple[int, ...] = ()
    """Values of `as_of` before this one, as far as they are remembered, the newest first."""
    left: tuple[Left, ...] = ()

    def begun(self, catalog: Catalog, group: str, upto: int) -> GroupState:
        """With a batch up to `upto`. Pure; none is under way."""
        assert self.batch is None
        return replace(self, batch=Batch(upto, catalog.version, members(catalog, group)))

    def agreed(self, upto: int, view: str, digest: str) -> GroupState:
        """With the rows of a view that this batch is to put, or as it is when it has those.

        Raises StalePlan for other rows, or another batch. Pure.
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
                cure="Give it one answer (a LIMIT wants an ORDER BY without ties), and have it made"
                f" anew: hornbeam refresh --rebuild {view}.",
            )
        return replace(self, batch=replace(batch, results=batch.results | {view: digest}))

    def was_as_of(self, snapshot: int) -> bool:
        """May its views be read as of `snapshot`? Between two batches they show the older one, and
        their relations something else."""
        return snapshot == self.as_of or snapshot in self.before

    def finished(self, upto: int, last: Finished, wall_ms: int, use_ms: int) -> GroupState:
        """Raises StalePlan when that batch is neither under way nor finished. Pure."""
        if self.batch is None or self.batch.upto != upto:
            if self.as_of >= upto:
                return self
            raise StalePlan(
                f"There is no batch up to {upto} under way.", cure="Begin one, and do that."
            )
        batch = self.batch
        # A view that is new, or was made anew, holds nothing of before.
        before = (self.as_of, *self.before) if batch.views == self.views else ()
        left = tuple(one for one in self.left if one.wall_ms > wall_ms - use_ms)
        began = self.as_of or upto - 1
        if wall_ms - began > use_ms // 2:
            left = (*left, Left(wall_ms, began))
        version = batch.catalog_version
        return GroupState(upto, version, batch.views, None, last, before[:REMEMBERED], left)

    def needed(self, wall_ms: int, use_ms: int) -> int:
        """The newest moment such that nothing may be purged that snapshots after it need; 0: all.

        Batches read at `as_of`, and at `upto`. Their rows bear `upto`, and where newer ones were
        purged they must not arrive any more (`pipeline/sink.py`). What is put within `use_ms` of
        `upto` is hidden by what is kept anyway, and so is what is read as of `as_of`. A batch that
        is finished when half of that is over may have been begun again, and so may be under way for
        as long again; and its beginning was read until now.
        """
        left = (one.at for one in self.left if one.wall_ms > wall_ms - use_ms)
        begins = self.as_of or (self.batch.upto if self.batch is not None else 0)
        return min([begins, *left]) if begins else 0

    def holds(self, catalog: Catalog, name: str) -> bool:
        """Does view `name` of this catalog hold what it holds as of `as_of`?"""
        return self.views.get(name) == dict(catalog.incarnations).get(name, 0)


def members(catalog: Catalog, group: str) -> dict[str, int]:
    """The views of a group, and their incarnations."""
    numbers = dict(catalog.incarnations)
    return {v.name: numbers.get(v.name, 0) for v in catalog.deferred if v.declared.group == group}


def groups_of(catalog: Catalog) -> tuple[str, ...]:
    """In the order in which their first views are declared."""
    return tuple(dict.fromkeys(view.declared.group for view in catalog.deferred))


def usable(catalogs: Iterable[Catalog], catalog: Catalog) -> frozenset[str]:
    """Indexes and views of `catalog` that could be read under all of `catalogs`, too: whatever was
    built meanwhile lacks older versions of its rows."""
    found = frozenset(name for name, state in catalog.states if state is State.READABLE)
    for other in catalogs:
        numbers, theirs = dict(catalog.incarnations), dict(other.incarnations)
        found = frozenset(
            name
            for name in found
            if other.readable(name) and numbers.get(name, 0) == theirs.get(name, 0)
        )
    return found


class Groups:
    """The states of all groups of one database."""

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination

    async def state(self, group: str) -> GroupState:
        """Raises Unavailable, Corruption."""
        state, _ = await self._read(group)
        return state

    async def begin(
        self, group: str, moment: Callable[[], Awaitable[tuple[Catalog, int]]]
    ) -> GroupState:
        """The state with a batch: the one under way, or a new one up to `moment()`, a snapshot and
        the catalog of then.

        Raises Unavailable, and what `moment` raises.
        """
        state, version = await self._read(group)
        while state.batch is None:
            catalog, upto = await moment()
            await self._written(group, state.begun(catalog, group, upto), version)
            state, version = await self._read(group)
        return state

    async def agree(self, group: str, upto: int, view: str, digest: str) -> None:
        """On return whoever does this batch puts rows of this digest, and no others, however often
        it is done. Raises StalePlan, Unavailable."""
        for _ in range(_TRIES):
            state, version = await self._read(group)
            after = state.agreed(upto, view, digest)
            if after == state or await self._written(group, after, version):
                return
        raise StalePlan(f"Others change the state of group {group} all the time.", cure="Repeat.")

    async def finish(
        self, group: str, upto: int, last: Finished, wall_ms: int, use_ms: int
    ) -> GroupState:
        """Queries read at `upto` from now on. Idempotent. All its rows are durable in the store.

        Raises StalePlan, Unavailable.
        """
        for _ in range(_TRIES):
            state, version = await self._read(group)
            after = state.finished(upto, last, wall_ms, use_ms)
            if after == state or await self._written(group, after, version):
                return after
        raise StalePlan(f"Others change the state of group {group} all the time.", cure="Repeat.")

    async def _read(self, group: str) -> tuple[GroupState, int]:
        known = await self._coordination.read(_path(group))
        if known is None:
            return GroupState(), 0
        try:
            return msgspec.json.decode(known.value, type=GroupState), known.version
        except msgspec.MsgspecError as error:
            raise Corruption(f"The state of group {group} cannot be read: {error}.") from None

    async def _written(self, group: str, state: GroupState, version: int) -> bool:
        """False: somebody else has changed it meanwhile."""
        try:
            await self._coordination.write(_path(group), msgspec.json.encode(state), version)
        except StalePlan:
            return False
        return True


def _path(group: str) -> str:
    return f"deferred/{group.encode().hex()}"
