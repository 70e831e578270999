"""One batch of a group of live or deferred views, done by a node.

    plan(n) ─┬─ record ────────────┬─ put ─ finish(n)
             └─ changes ─ compute ─┘

The protocol is that of `txlayer/views/refresh_groups.py`, which `hornbeam refresh` follows, too: so
either may do a batch, or do it again. The rows that a batch puts follow from the database at the
batch's end alone, and no query reads them before `finish`. They are computed while the batch is
recorded, and put after both. A batch that a crash, a change of the schema or the close of the
database ends is simply done again.

A batch holds nothing that others wait for: no lock, and the tables of a catalog only during a put.
It puts nothing after a change of the schema that it has not read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence

from hornbeam_server.maintain.deltas.batches import Writes
from hornbeam_server.node.assembly import Parts
from hornbeam_server.node.bulk_access import BulkAccess
from hornbeam_server.node.deferred_views import BatchWork, DeferredViews
from hornbeam_server.node.live.computation import Computed
from hornbeam_server.node.live.lags import Lags
from hornbeam_server.node.live.outcomes import Left, Superseded
from hornbeam_server.node.live.sharing import Sharing
from hornbeam_server.node.reads import Reads
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import SnapshotTooOld, StalePlan
from hornbeam_server.schema.model import Refresh
from hornbeam_server.storage.together import all_settled
from hornbeam_server.txlayer.views.refresh_groups import Finished, GroupState, Plan, views_of

MARGIN_MS = 30_000
"""A node puts nothing when the inputs of its batch are kept for less than this time."""
PUT_ROWS = 5_000


class Batches:
    """The batches of one node. `run` is called by one task at a time for a group."""

    def __init__(
        self,
        parts: Parts,
        deferred: DeferredViews,
        bulk: BulkAccess,
        reads: Reads,
        sharing: Sharing,
        name: str,
        *,
        alone: bool,
    ) -> None:
        """`name`: the name of the node, for operators. `alone`: no other node commits."""
        self._clock = parts.ports.clock
        self._store = parts.ports.store
        self._keeper = parts.keeper
        self._deferred = deferred
        self._sharing = sharing
        self._bulk = bulk
        self.reads = reads
        self._name = name
        self._alone = alone
        self.lags: dict[str, Lags] = {}
        """By group, since the node was started."""
        self.read_logs: dict[str, bool] = {}
        """By group: did the last batch have to read logs?"""

    async def run(self, group: str) -> GroupState:
        """Do the batch under way, or the next one. Returns the group's new state. Raises Left,
        Superseded, and HornbeamError: SqlError and LimitExceeded name the view that cannot be
        refreshed."""
        began = self._clock.monotonic()
        await self.require_small(group)
        work, plan = await self._deferred.plan(group, self.reads.snapshot_after)
        until_ms = self._clock.wall_ms() + self._deferred.use_ms(work.upto) - MARGIN_MS
        computed = await self._recorded_and_computed(work, plan)
        (_, count, oldest), self.read_logs[group] = computed.changes, computed.read_logs
        for part in _parts(computed.writes):
            await self._put(part, work, until_ms)
        if work.refreshed:
            keys = _keys(work.catalog, work.refreshed, computed.writes)
            self._deferred.recent(group).add(work.as_of, work.upto, keys)
        seconds = self._clock.monotonic() - began
        rows = sum(len(puts) for writes in computed.writes for puts in writes.values())
        done = Finished(count, rows, seconds, self._name)
        state = await self._deferred.finish(group, work.upto, done, forced=True)
        if count:
            lag_s = max(self._clock.wall_ms() - oldest, 0) / 1000
            self.lags.setdefault(group, Lags()).add(lag_s)
        return state

    async def _recorded_and_computed(self, work: BatchWork, plan: Plan) -> Computed:
        """The rows of a batch, once it is recorded. Raises Superseded if another process has
        recorded one in this time, Unavailable, and the errors of `Computation.of`."""
        last = plan.state.last
        last_s = 0.0 if last is None else last.seconds
        both: list[Awaitable[Computed | None]] = [
            self._deferred.record(work.group, plan),
            self._sharing.computed(work, last_s),
        ]
        try:
            _, computed = await all_settled(both)
        except StalePlan:
            raise Superseded from None
        assert computed is not None
        return computed

    async def require_small(self, group: str) -> None:
        """Raises Left if Spark must do the group's next batch: it recomputes a view, or builds
        views of more rows than a node does."""
        catalog = self._keeper.state.catalog
        recomputed = [
            view.name
            for view in views_of(catalog, group)
            if view.declared.refresh is Refresh.RECOMPUTE
        ]
        if recomputed:
            raise Left(f"{recomputed[0]} is recomputed in each batch")
        counts, state = self._keeper.counts(), await self._deferred.state(group)
        for view in views_of(catalog, group):
            rows = sum(counts.get(relation, 0) for relation in view.relations)
            if rows > self._sharing.most_rows and not state.holds(catalog, view.name):
                raise Left(f"{view.name} is to be built from about {rows} rows")

    async def _put(self, writes: Writes, work: BatchWork, until: int) -> None:
        """Put rows of a batch, until wall time `until`. Raises Superseded, SnapshotTooOld and the
        errors of `BulkAccess.put`."""
        if work.catalog.version != self._keeper.state.catalog.version:
            raise Superseded
        if self._clock.wall_ms() > until:
            raise SnapshotTooOld(f"The inputs of the batch to {work.upto} may be gone.")
        if self._alone:
            await self._bulk.put(writes, work.upto, forced=True)
            return
        async with self.reads.reading(work.catalog.version):
            await self._store.put(writes, work.upto, forced=True)


def _keys(
    catalog: Catalog, views: Sequence[str], computed: Sequence[Writes]
) -> dict[str, list[bytes]]:
    """The keys of the rows of `views`, without those of their states, by table."""
    tables = [catalog.layout(name).table for name in views]
    return {
        table: [put.key for writes in computed for put in writes.get(table, ())] for table in tables
    }


def _parts(computed: Iterable[Writes]) -> Iterator[Writes]:
    """All puts in parts of at most `PUT_ROWS` rows. Tables are put together: over a remote store,
    one after the other would take a round trip for each."""
    part: Writes = {}
    room = PUT_ROWS
    for table, puts in (item for writes in computed for item in writes.items()):
        begin = 0
        while begin < len(puts):
            part[table] = puts[begin : begin + room]
            begin, room = begin + room, room - len(part[table])
            if room == 0:
                yield part
                part, room = {}, PUT_ROWS
    if part:
        yield part
