"""The rows of a batch of live or deferred views, as a node computes them: for a batch that it or
another node does, or for tentative reads. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from hornbeam_server.maintain.deltas.batches import SmallBatch, Writes
from hornbeam_server.maintain.deltas.catalog_programs import Programs, usable_only
from hornbeam_server.node.assembly import Parts
from hornbeam_server.node.bulk_access import BulkAccess
from hornbeam_server.node.deferred_views import BatchWork
from hornbeam_server.node.live.feed import Decoded, Fed, Feed
from hornbeam_server.node.live.outcomes import Left
from hornbeam_server.node.live.side_loop import in_side_loop
from hornbeam_server.schema.sizes import Budget


class Computed(NamedTuple):
    """The changes of a batch, the puts of each view, and whether logs had to be read."""

    changes: Decoded
    writes: list[Writes]
    read_logs: bool


class Computation:
    """Computes batches of one node, any number at the same time."""

    def __init__(
        self, parts: Parts, bulk: BulkAccess, count: Callable[[str, int], None] | None = None
    ) -> None:
        """`count` gets the number of changed rows that were applied to a view."""
        self._count = count
        self._store = parts.ports.store
        self._counts = parts.keeper.counts
        self.feed = Feed(bulk, parts.commits)
        self._programs: dict[str, tuple[object, Programs]] = {}
        """By group, the compiled programs of the last batch with what they were compiled from."""

    async def of(self, work: BatchWork, most_rows: int, budget: Budget | None = None) -> Computed:
        """Read the changes of a batch, and compute it. Raises the errors of `Feed.of` and of
        `rows`."""
        return await self.rows(work, await self.feed.of(work), most_rows, budget)

    async def rows(
        self,
        work: BatchWork,
        fed: Fed,
        most_rows: int,
        budget: Budget | None = None,
        *,
        without: Container[str] = (),
    ) -> Computed:
        """Compute a batch, but not the `refreshed` views `without`. The look-ups of the views that
        follow changes take the bytes that they read from `budget`.

        Raises Left for more than `most_rows` changes, or rows of a relation that look-ups read
        whole, and the errors of `SmallBatch.writes`.
        """
        programs = self._programs_of(work)
        batch = SmallBatch(programs, work.as_of, work.upto, work.refreshed, work.built)

        async def compute() -> Computed:
            found = fed.changes(batch)
            if found.changed > most_rows:
                raise Left(f"{found.changed} changes are to be applied")
            _require_small(batch, self._counts(), most_rows)
            written = batch.writes(found.rows, self._store, budget, without=without)
            writes = [writes async for _, writes in written]
            return Computed(found, writes, fed.commits is None)

        if not self._store.remote:
            computed = await in_side_loop(compute)
        else:  # the store's connections belong to this loop
            computed = await compute()
        self._count_rows(work, computed.changes, without)
        return computed

    def _count_rows(self, work: BatchWork, changes: Decoded, without: Container[str]) -> None:
        if self._count is None:
            return
        views = work.catalog.deferred_view
        for name in work.refreshed:
            if name not in without:
                read = [
                    changes.rows[each] for each in views[name].relations if each in changes.rows
                ]
                self._count(name, sum(map(len, read)))

    def _programs_of(self, work: BatchWork) -> Programs:
        source = (work.catalog, work.usable, work.built)
        known = self._programs.get(work.group)
        if known is None or known[0] != source:
            catalog = usable_only(work.catalog, work.usable)
            known = source, Programs(catalog, frozenset(work.built))
            self._programs[work.group] = known
        return known[1]


def _require_small(batch: SmallBatch, counts: Mapping[str, int], most_rows: int) -> None:
    """Raise Left if a look-up may read a relation whole that has grown beyond `most_rows` rows."""
    for name in sorted(batch.read_whole()):
        rows = counts.get(name, 0)
        if rows > most_rows:
            raise Left(f"a join without an equality may read all {rows} rows of {name}")
