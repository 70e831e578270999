"""A small batch of deferred views, in one process and without Spark.

    batch = SmallBatch(programs, as_of, upto, refreshed, built)
    changes, count = batch.changes(segments)
    async for name, writes in batch.writes(changes, store):
        ...  # check that the snapshots are still kept, and put `writes` with timestamp `upto`

`changes` is a pure function of the bytes of the log. `writes` reads the store as of `as_of`, or as
of `upto` for views that are built, so a batch that is run again yields the same writes. The caller
reads the segments, puts the writes and reports the end of the batch
(`txlayer/views/refresh_groups.py`).
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from hornbeam_server.maintain.changes import Change, Mutation
from hornbeam_server.maintain.deltas.catalog_programs import Programs
from hornbeam_server.maintain.deltas.clock import CLOCK, ticked
from hornbeam_server.maintain.deltas.program import DeltaProgram, refresh
from hornbeam_server.maintain.deltas.relations import stored_fields
from hornbeam_server.maintain.deltas.zsets import ZSet
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import LimitExceeded, SqlError
from hornbeam_server.schema.sizes import Budget
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.log.following import Changed, batches_between, changes
from hornbeam_server.storage.ports import TOMBSTONE, Put, TableStore
from hornbeam_server.storage.shared_reads import SharedReads
from hornbeam_server.storage.snapshot import BoundedSnapshot, RowReader, RowVersion, Snapshot

Writes = dict[str, list[Put]]
"""Puts by layout, or by physical table."""


class SegmentBytes(NamedTuple):
    """The content of a segment of a log to which no process appends any more."""

    data: bytes
    epoch: int
    sequence: int


@dataclass(frozen=True)
class SmallBatch:
    """A batch that takes the views `refreshed` from snapshot `as_of` to `upto`, and builds the
    views `built` as of `upto`. Only views with delta programs (`Refresh.follows_changes`) take
    part; others are left out."""

    programs: Programs
    as_of: int
    upto: int
    refreshed: tuple[str, ...]
    built: tuple[str, ...] = ()

    @property
    def views(self) -> tuple[str, ...]:
        """The views that take part."""
        return tuple(program.name for program in self._maintained(self.refreshed + self.built))

    def changes(self, segments: Iterable[SegmentBytes]) -> tuple[dict[str, ZSet], int]:
        """`changes_of` the commits in segments. Raises Corruption with the position of damage."""
        return self.changes_of(
            commit
            for segment in segments
            for batch in batches_between(*segment, self.as_of, self.upto)
            for commit in changes(batch)
        )

    def changes_of(self, commits: Iterable[Changed]) -> tuple[dict[str, ZSet], int]:
        """The changes of the relations that `refreshed` views read, and the number of changed rows.
        `commits` are those between both snapshots. Pure."""
        read = {name for view in self._maintained(self.refreshed) for name in view.relations}
        layout = self.programs.catalog.layout
        wanted = {layout(name).stored_name: name for name in read}
        codecs = self.programs.codecs
        found: dict[str, list[Change]] = {}
        count = 0
        for commit in commits:
            for stored, *both in commit.changes:
                if (name := wanted.get(stored)) is not None:
                    count += 1
                    decode = codecs(name).decode
                    old, new = (None if value is None else decode(value) for value in both)
                    found.setdefault(name, []).append(Change(name, old, new))
        return {n: ZSet.of_changes(layout(n).columns, every) for n, every in found.items()}, count

    async def writes(
        self,
        changes: Mapping[str, ZSet],
        store: TableStore,
        budget: Budget | None = None,
        *,
        without: Container[str] = (),
    ) -> AsyncGenerator[tuple[str, Writes], None]:
        """The puts of each view, by physical table, after all reads for the view. A view without
        puts is yielded, too, so that the caller can check that the rows that were read are still
        kept. The `refreshed` views `without` are left out. Without changes only `built` views are
        yielded, and those whose rows enter and leave by time. Look-ups of `refreshed` views take
        the bytes that they read from `budget`.

        Raises Unavailable, Corruption, and SqlError or LimitExceeded with the view's name.
        """
        codecs = self.programs.codecs
        views = self.programs.catalog.deferred_view
        ticked_on = {**changes, CLOCK: ticked(self.as_of, self.upto)}
        asked = [name for name in self.refreshed if name not in without]
        followed = [name for name in asked if changes or views[name].timed]
        old = SharedReads(self._before(store, codecs, budget))
        for program in self._maintained(followed):
            if views[program.name].timed or not changes.keys().isdisjoint(program.relations):
                yield program.name, await self._written(program, ticked_on, old, codecs)
            else:
                yield program.name, {}
        for program in self._maintained(self.built):
            rows = {name: await self._rows(name, store, codecs) for name in program.relations}
            rows[CLOCK] = ticked(None, self.upto)
            nothing = Nothing(codecs.catalog)
            yield program.name, await self._written(program, rows, nothing, codecs)

    def read_whole(self) -> frozenset[str]:
        """The relations of which look-ups of `refreshed` views may read all rows."""
        programs = self._maintained(self.refreshed)
        return frozenset(name for program in programs for name in program.whole)

    def _maintained(self, names: Sequence[str]) -> Iterator[DeltaProgram]:
        views = self.programs.catalog.deferred_view
        for name in names:
            if views[name].declared.refresh.follows_changes:
                yield self.programs[name]

    def _before(self, store: TableStore, codecs: Codecs, budget: Budget | None) -> RowReader:
        """The rows before the batch."""
        if budget is None:
            return Snapshot(store, codecs, self.as_of)
        return BoundedSnapshot(store, codecs, self.as_of, budget)

    async def _written(
        self, program: DeltaProgram, changes: Mapping[str, ZSet], old: RowReader, codecs: Codecs
    ) -> Writes:
        with about(program.name):
            mutations = await refresh(program, changes, old)
            by_layout = encoded(mutations, codecs)
        return {codecs(name).layout.table: puts for name, puts in by_layout.items()}

    async def _rows(self, name: str, store: TableStore, codecs: Codecs) -> ZSet:
        """All rows of a relation at `upto`."""
        found: AsyncIterator[list[Row]] = Snapshot(store, codecs, self.upto).scan(name)
        rows = [(row, 1) async for batch in found for row in batch]
        return ZSet(stored_fields(codecs(name).layout.columns), rows=rows)


def encoded(mutations: Iterable[Mutation], codecs: Codecs) -> Writes:
    """The puts of mutations, by layout. Raises LimitExceeded."""
    found: Writes = {}
    for mutation in mutations:
        codec = codecs(mutation.layout)
        value = TOMBSTONE if mutation.new is None else codec.encode(mutation.new)
        found.setdefault(mutation.layout, []).append(Put(mutation.key, value))
    return found


@contextmanager
def about(view: str) -> Iterator[None]:
    """Name the view in errors that the values of rows cause: its group cannot be refreshed."""
    try:
        yield
    except (SqlError, LimitExceeded) as error:
        raise type(error)(
            f"View {view} cannot be refreshed, nor the others of its group: {error.message}",
            cure=f"Correct the row, then `hornbeam refresh --rebuild {view}`, or take the view out"
            " of the DDL.",
            **error.details,
        ) from None


class Nothing(RowReader):
    """A `RowReader` that finds no rows, for views that are not stored yet."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    async def get(
        self, layout: str, keys: Sequence[tuple[Value, ...]], *, room: int | None = None
    ) -> list[RowVersion | None]:
        return [None] * len(keys)

    async def prefixes(
        self, layout: str, prefixes: Sequence[tuple[Value, ...]], *, room: int | None = None
    ) -> list[list[RowVersion]]:
        return [[] for _ in prefixes]

    async def scan(
        self,
        layout: str,
        key_range: KeyRange = KeyRange(),
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncGenerator[list[Row], None]:
        no_batches: list[list[Row]] = []
        for batch in no_batches:
            yield batch
