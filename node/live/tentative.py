"""Tentative reads of live and deferred views: their rows at a snapshot that no batch has reached.

    rows as of `as_of` + changes of the commits in (as_of, at], by the delta program = rows at `at`

The computation is that of a batch (`computation.py`), but nothing is written: no batch begins, no
row is put, and the state of the group stays. Its puts are laid over the stored rows in memory.
`at` is a snapshot: it has all of each commit at or below it, of all nodes. So the answer is that of
the view's SELECT at `at`, to the bit, and a batch that ends at `at` would store it.

Readers of the same views share a computation. The changes come from the memory of the nodes: then a
reader gets the newest snapshot, with every commit that this node had applied when the reader came.
Or they come from logs, which are sealed to be read: then readers share a computation for
`SEALING_S`, except those with a later bookmark.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakValueDictionary

from hornbeam_server.maintain.deltas.executors import FEW
from hornbeam_server.node.assembly import Parts
from hornbeam_server.node.bulk_access import BulkAccess
from hornbeam_server.node.deferred_views import BatchWork, DeferredViews
from hornbeam_server.node.live.ahead import Ahead
from hornbeam_server.node.live.computation import Computation
from hornbeam_server.node.live.maintainer import SEALING_S
from hornbeam_server.node.live.outcomes import Left
from hornbeam_server.node.ownership import Ownership
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import HornbeamError, InvalidRequest, LimitExceeded
from hornbeam_server.schema.sizes import Budget, Limit
from hornbeam_server.storage.logged import Layer
from hornbeam_server.txlayer.views.refresh_groups import GroupState, usable

MOST_CHANGES = 10 * FEW
"""Maximum changes between the stored snapshot and that of a reader: about a second of work."""
LOOKED_UP = Limit(32 << 20, "What the changes are joined with", "read", "")
"""Also the rows of partitions that are computed again."""
KEPT_BYTES, KEPT_SETS = 64 << 20, 64
"""Maximum bytes of computed rows that a node keeps, and maximum number of sets of views."""

_Views = tuple[int, tuple[str, ...]]
"""The version of a catalog, and views by name."""


@dataclass(frozen=True, slots=True)
class _Computed:
    """A computation that began at monotonic time `began`, and perhaps read logs."""

    ahead: Ahead
    began: float
    read_logs: bool


class _Room(Budget):
    """The bytes that the look-ups of one computation may still read."""

    def take(self, size: int) -> None:
        try:
            super().take(size)
        except LimitExceeded as error:
            raise Left(error.message) from None


class TentativeViews:
    """The tentative reads of one node."""

    def __init__(
        self,
        parts: Parts,
        deferred: DeferredViews,
        bulk: BulkAccess,
        computation: Computation,
        ownership: Ownership,
        *,
        alone: bool,
    ) -> None:
        """`alone`: no other node commits."""
        self._committer = parts.committer
        self._alone = alone
        self._clock = parts.ports.clock
        self._holds = parts.keeper.readers
        self._retention_ms = int(parts.settings.snapshot_retention_s * 1000)
        self._most_changes = min(MOST_CHANGES, parts.settings.resident_rows)
        self._deferred = deferred
        self._bulk = bulk
        self._computation = computation
        self._ownership = ownership
        self._known: OrderedDict[tuple[_Views, int], _Computed] = OrderedDict()
        """Computations, the least recently used first: the last one of each set of views under 0,
        and those at snapshots of transactions under these."""
        self._turns: WeakValueDictionary[_Views, asyncio.Lock] = WeakValueDictionary()

    async def ahead(
        self, catalog: Catalog, names: tuple[str, ...], *, least: int, asked: int | None
    ) -> Ahead:
        """The views `names` at snapshot `asked`, or at a new one at or above `least`.

        Raises Left, with the reason, when the node does not compute them, or fails; InvalidRequest
        for a `least` in the future.
        """
        if self._ownership.behind_s is not None:
            raise Left("this node has lost the others")
        newest = max(self._ownership.snapshots.newest(), self._acknowledged())
        turn = self._turns.setdefault((catalog.version, names), asyncio.Lock())
        try:
            async with turn:
                if asked is not None:
                    return await self._at(catalog, names, asked)
                return await self._newest(catalog, names, least, newest)
        except InvalidRequest:
            raise
        except HornbeamError as error:  # the stored rows can perhaps be read nevertheless
            raise Left(error.message) from None

    def _acknowledged(self) -> int:
        """The newest commit that a node that serves alone has acknowledged. Several nodes may not
        all reach theirs soon."""
        return self._committer.acknowledged if self._alone else 0

    async def _at(self, catalog: Catalog, names: tuple[str, ...], asked: int) -> Ahead:
        """The views at snapshot `asked`, at which a transaction reads."""
        newest = await self._ownership.snapshots.read_point(asked)
        group, state = await self._shown(catalog, names)
        needed = state.needed(self._clock.wall_ms(), self._retention_ms)
        kept_from = min(newest - self._retention_ms, *needed)
        views = (catalog.version, names)
        for found in filter(None, [self._known.get((views, 0)), self._known.get((views, asked))]):
            if found.ahead.at == asked and found.ahead.as_of >= kept_from:
                return found.ahead
        as_of = state.newest_until(asked)
        if not as_of or as_of < kept_from:
            raise Left(f"the rows before snapshot {asked} are not kept any more")
        found = await self._compute(catalog, group, names, as_of, asked)
        self._keep((views, asked), found)
        return found.ahead

    async def _newest(
        self, catalog: Catalog, names: tuple[str, ...], least: int, newest: int
    ) -> Ahead:
        """The views at a new snapshot. `newest`: that of this node when the reader came."""
        views = ((catalog.version, names), 0)
        group, state = await self._shown(catalog, names)
        known = self._known.get(views)
        if known is not None and self._serves(known, catalog, names, state.as_of, least, newest):
            self._known.move_to_end(views)
            return known.ahead
        if known is not None and known.read_logs and self._young_s(known) > 0:
            await self._clock.sleep(self._young_s(known))
            group, state = await self._shown(catalog, names)
        at = await self._ownership.snapshots.read_point(max(least, newest))
        found = await self._compute(catalog, group, names, state.as_of, max(at, state.as_of))
        self._keep(views, found)
        return found.ahead

    async def _shown(self, catalog: Catalog, names: tuple[str, ...]) -> tuple[str, GroupState]:
        """The group of views and its state, as of which everything is kept."""
        group, state = await self._deferred.shown(catalog, names)
        self._deferred.require_held(group, state.as_of)
        return group, state

    def _young_s(self, known: _Computed) -> float:
        """The seconds for which a computation from logs is still shared."""
        return known.began + SEALING_S - self._clock.monotonic()

    def _serves(
        self,
        known: _Computed,
        catalog: Catalog,
        names: tuple[str, ...],
        as_of: int,
        least: int,
        newest: int,
    ) -> bool:
        """May a reader get an earlier computation of the views? `as_of`: the snapshot of their
        group."""
        at, young = known.ahead.at, self._young_s(known) > 0
        if at < max(least, as_of) or (known.ahead.as_of != as_of and not young):
            return False
        recent = (young and known.read_logs) or at >= newest
        return recent or self._deferred.stay(catalog, names, at)

    async def _compute(
        self, catalog: Catalog, group: str, names: tuple[str, ...], as_of: int, at: int
    ) -> _Computed:
        """The views at snapshot `at`, from their rows as of `as_of`."""
        began = self._clock.monotonic()
        self._ownership.require_owner()
        for name in names:
            if not catalog.deferred_view[name].declared.refresh.follows_changes:
                raise Left(f"{name} is recomputed in each batch")
        with self._holds.holding(as_of):
            between = await self._bulk.catalogs_between(catalog, as_of, at)
            readable = usable(between, catalog)
            work = BatchWork(group, as_of, at, catalog, names, (), readable)
            room = _Room(LOOKED_UP)
            computed = await self._computation.of(work, self._most_changes, room)
        self._ownership.require_kept(as_of)
        tables = frozenset(catalog.layout(name).table for name in names)
        rows = {t: puts for each in computed.writes for t, puts in each.items() if t in tables}
        ahead = Ahead(as_of, at, tables, Layer(at, rows))
        return _Computed(ahead, began, computed.read_logs)

    def _keep(self, views: tuple[_Views, int], found: _Computed) -> None:
        self._known[views] = found
        self._known.move_to_end(views)
        while sum(each.ahead.layer.bytes for each in self._known.values()) > KEPT_BYTES:
            self._known.popitem(last=False)
        if len(self._known) > KEPT_SETS:
            self._known.popitem(last=False)
