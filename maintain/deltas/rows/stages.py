"""The stages of a delta program over few rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hornbeam_server.maintain.deltas.algebra import JoinKind
from hornbeam_server.maintain.deltas.relations import Fields, from_rows
from hornbeam_server.maintain.deltas.rows.groups import RowGroups, row_groups
from hornbeam_server.maintain.deltas.rows.inputs import net, once, summed
from hornbeam_server.maintain.deltas.rows.joins import RowJoin, row_join
from hornbeam_server.maintain.deltas.rows.lookups import RowLookup, distinct_keys, row_lookup
from hornbeam_server.maintain.deltas.rows.recursion import RecursionStage
from hornbeam_server.maintain.deltas.stages import (
    LEFT,
    RIGHT,
    AggregateStage,
    JoinStage,
    PartitionStage,
    Stage,
    StageResult,
    ViewStage,
)
from hornbeam_server.maintain.deltas.stored_rows import StoredRows
from hornbeam_server.maintain.deltas.zsets import Weighted, ZSet
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.snapshot import RowReader


class RowStage(Protocol):
    async def run(self, zset: Sequence[Weighted], old: RowReader) -> StageResult:
        """`Stage.run` over rows."""


@once
def row_stage(stage: Stage) -> RowStage:
    """The stage over rows. Its expressions are compiled once."""
    match stage:
        case JoinStage():
            return _join(stage)
        case AggregateStage():
            return _Aggregate(stage.output, row_groups(stage.state))
        case PartitionStage():
            # a copy: results of `once` do not refer to the key
            return _Partition(replace(stage), _View(stage.kept))
        case RecursionStage():
            return _Recursive(replace(stage))
        case ViewStage():
            return _View(stage.stored)
    raise AssertionError(stage)


@dataclass(frozen=True, slots=True)
class _Aggregate:
    output: Fields
    groups: RowGroups

    async def run(self, zset: Sequence[Weighted], old: RowReader) -> StageResult:
        changed, mutations = await self.groups.change(zset, old)
        return StageResult(ZSet(self.output, rows=changed), mutations)


@dataclass(frozen=True, slots=True)
class _View:
    stored: StoredRows

    async def run(self, zset: Sequence[Weighted], old: RowReader) -> StageResult:
        if self.stored.counted:
            counts = [(row, count) for row, count in summed(zset).items() if count]
            mutations = await self.stored.copies(counts, old)
        else:
            mutations = self.stored.keyed(net(zset))
        return StageResult(ZSet(()), mutations)


@dataclass(frozen=True, slots=True)
class _Recursive:
    stage: RecursionStage

    async def run(self, zset: Sequence[Weighted], old: RowReader) -> StageResult:
        return await self.stage.over(zset, old)


@dataclass(frozen=True, slots=True)
class _Partition:
    """DuckDB computes the SELECT, in one statement."""

    stage: PartitionStage
    kept: _View

    async def run(self, zset: Sequence[Weighted], old: RowReader) -> StageResult:
        stage, change = self.stage, net(zset)
        if not change:
            return StageResult(ZSet(stage.output), [])
        rows = await stage.kept.by_prefix(old, stage.partitions(change))
        before, after = (from_rows(stage.columns, r) for r in (rows, present(rows, change)))
        found = ZSet(stage.output, table=stage.compared(before, after).table)
        written = await self.kept.run(change, old)
        return StageResult(ZSet(stage.output, rows=net(found.rows)), written.mutations)


@dataclass(frozen=True, slots=True)
class _Join:
    """`side` is the place of `_side` in a row of the input, `left_row` and `right_row` take the
    row of a side from it, `left_key` and `right_key` the key by which it looks up rows of the other
    side, and `bound` the value of a bound. Without `keyed`, left rows have their key, too."""

    output: Fields
    side: int
    left_row: Projection
    right_row: Projection
    left_key: Projection
    right_key: Projection
    keyed: bool
    bound: Projection | None
    join: RowJoin
    left: RowLookup
    right: RowLookup

    async def run(self, zset: Sequence[Weighted], old: RowReader) -> StageResult:
        left, right = self._of(zset, LEFT), self._of(zset, RIGHT)
        ours = distinct_keys([row for row, _ in left], self.left_key)
        theirs = distinct_keys([row for row, _ in right], self.right_key)
        bounds = None if self.bound is None else [self.bound(row) for row, _ in right]
        left_before = await self.left(old, theirs if bounds is None else bounds)
        inner = self.join.kind is JoinKind.INNER
        if not inner:
            more = theirs if self.keyed else distinct_keys(left_before, self.left_key)
            ours = list(dict.fromkeys([*ours, *more]))
        right_before = await self.right(old, ours)
        change = [(self.left_row(row), weight) for row, weight in left]
        other = [(self.right_row(row), weight) for row, weight in right]
        combine = self._inner if inner else self._linear
        changed = net(combine(change, other, left_before, right_before))
        return StageResult(ZSet(self.output, rows=changed), [])

    def _of(self, zset: Sequence[Weighted], side: int) -> list[Weighted]:
        place = self.side
        return [(row, weight) for row, weight in zset if row[place] == side]

    def _inner(
        self,
        left: Sequence[Weighted],
        right: Sequence[Weighted],
        left_before: Sequence[Row],
        right_before: Sequence[Row],
    ) -> Iterator[Weighted]:
        """ΔA ⋈ B1 + A0 ⋈ ΔB."""
        yield from self._of_change(left, present(right_before, right))
        for weight in (1, -1):
            partners = self.join.by_key(row for row, w in right if w == weight)
            if partners:
                for rows in self.join.results(left_before, partners):
                    yield from ((row, weight) for row in rows)

    def _linear(
        self,
        left: Sequence[Weighted],
        right: Sequence[Weighted],
        left_before: Sequence[Row],
        right_before: Sequence[Row],
    ) -> Iterator[Weighted]:
        """J(ΔA, B1) + J(A0, B1) - J(A0, B0), for the rows of A0 whose key occurs in ΔB."""
        after = present(right_before, right)
        yield from self._of_change(left, after)
        touched = {self.join.right_key(row) for row, _ in right}
        kept = [row for row in left_before if self.join.left_key(row) in touched]
        for weight, partners in ((1, after), (-1, right_before)):
            for rows in self.join.results(kept, self.join.by_key(partners)):
                yield from ((row, weight) for row in rows)

    def _of_change(self, left: Sequence[Weighted], right: Sequence[Row]) -> Iterator[Weighted]:
        """J(ΔA, B1)."""
        results = self.join.results([row for row, _ in left], self.join.by_key(right))
        for (_, weight), rows in zip(left, results, strict=True):
            yield from ((row, weight) for row in rows)


def present(rows: Sequence[Row], change: Sequence[Weighted]) -> Sequence[Row]:
    """The rows after a change of them."""
    if not change:
        return rows
    counts = summed([*((row, 1) for row in rows), *change])
    return [row for row, count in counts.items() for _ in range(count)]


def _join(stage: JoinStage) -> _Join:
    join, width = stage.join, len(stage.join.left.fields)
    side = width + len(join.right.fields)
    places = {field.name: i for i, field in enumerate(stage.columns)}
    keys = tuple(field.name for field in stage.columns[side + 1 :])
    ours, theirs = keys or join.compared(LEFT), keys or join.compared(RIGHT)
    bound = None if join.bound is None else join.bound.right
    left_given, right_given = (
        tuple(stage.columns[places[name]] for name in names)
        for names in ((bound,) if bound is not None else theirs, ours)
    )
    return _Join(
        stage.output,
        side,
        projection(range(width)),
        projection(range(width, side)),
        projection([places[name] for name in ours]),
        projection([places[name] for name in theirs]),
        bool(keys),
        None if bound is None else projection([places[bound]]),
        row_join(join),
        row_lookup(stage.left, left_given),
        row_lookup(stage.right, right_given),
    )
