"""The stages of a delta program: each turns a table of changes into another table and mutations.

A stage's input is the union of its `inputs`. Each input is a changed relation or the output of an
earlier stage, filtered and projected. Only rows that agree on `partition_by` must be processed
together: a stage may run on the whole table or on partitions of it, in any order, in parallel or
repeatedly. Without columns (`()`) all rows must be processed together. Every executor must run a
stage even on an empty table: an aggregate without GROUP BY has a row over no rows.

Stages read as of S0, and their writes are visible at S1 only, so running a stage again has the same
effect.

* `JoinStage`, with A1 = A0 + ΔA and B1 = B0 + ΔB, and a join J that is linear in A:

      J(A1, B1) - J(A0, B0) = J(ΔA, B1) + J(A0, B1) - J(A0, B0)

  and the last two terms differ only for the join keys of ΔB. So A0 is looked up by the keys of ΔB,
  and B0 by the keys of ΔA and ΔB, both from the rows stored at S0. New rows are in the input
  already (rows of one key are together), so nothing is ever read at S1. For inner joins, which
  are linear in B too, the difference is A0 ⋈ ΔB and needs no B0. A join without an equality has no
  join keys: all changed rows are together. A0 is looked up by the compared columns of ΔB, and B0 by
  those of ΔA and, unless the join is inner, of the rows of A0 that were found.
* `AggregateStage`: `states.py`.
* `PartitionStage` computes a SELECT again for the partitions of the changed rows.
* `ViewStage` writes rows of the view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.maintain.deltas.algebra import Join, JoinKind, Map, Partition, null_of
from hornbeam_server.maintain.deltas.lookups import Lookup, join_sql, keys_of
from hornbeam_server.maintain.deltas.relations import (
    WEIGHT,
    Field,
    Fields,
    Typed,
    columns_sql,
    concat,
    evaluate,
    from_rows,
    net,
    nothing,
    schema_of,
    weighted,
    with_weight,
)
from hornbeam_server.maintain.deltas.states import GroupState
from hornbeam_server.maintain.deltas.stored_rows import StoredRows
from hornbeam_server.maintain.deltas.zsets import Weighted, ZSet
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.rows import projection
from hornbeam_server.schema.types import ColumnType, Kind, Row
from hornbeam_server.storage.snapshot import RowReader

SIDE = Field("_side", "INTEGER", ColumnType(Kind.INTEGER), nullable=False)
LEFT, RIGHT = 0, 1


@dataclass(frozen=True, slots=True)
class StageResult:
    """The change of the stage's `output`, and the mutations to write at S1."""

    changed: ZSet
    mutations: list[Mutation]


@dataclass(frozen=True, eq=False)
class Input:
    """One input of a stage: the rows of `source`, a relation or the number of an earlier stage,
    after the filters and projections `maps`. `columns` are read from the source; the first of
    `maps` calls them `names`."""

    source: str | int
    columns: Fields
    names: Fields
    maps: tuple[Map, ...]

    @property
    def output(self) -> Fields:
        return self.maps[-1].fields if self.maps else self.names

    @property
    def select(self) -> str:
        """The input as SQL over `changes`, the source's Z-set."""
        pairs = zip(self.columns, self.names, strict=True)
        columns = [f"{quoted(a.name)} AS {quoted(b.name)}" for a, b in pairs]
        select = f"SELECT {', '.join(columns)}, {WEIGHT} FROM changes"
        for map_ in self.maps:
            select = map_.select(f"({select})", WEIGHT)
        return select

    def project(self, changes: ZSet) -> ZSet:
        """The source's changes as rows of the stage's input; `changes` may be any part of them."""
        if not changes:
            return ZSet(self.output)
        given = changes.select(self.columns).typed
        found = net(evaluate(self.select, {"changes": given}, weighted(self.output)))
        return ZSet(self.output, table=found.table)


class Stage(Protocol):
    """`columns` are the columns of the input, `output` those of the result, both without `_w`."""

    @property
    def inputs(self) -> tuple[Input, ...]: ...
    @property
    def columns(self) -> Fields: ...
    @property
    def partition_by(self) -> tuple[str, ...]: ...
    @property
    def output(self) -> Fields: ...

    async def run(self, zset: ZSet, old: RowReader) -> StageResult:
        """`zset` has the union of the inputs' projections; `old` reads at S0. DuckDB computes the
        result."""

    def words(self) -> Iterator[str]:
        """The stage's work, in lines of readable text."""


def input_schema(stage: Stage) -> pa.Schema:
    """The Arrow schema of a stage's input, `_w` last."""
    return schema_of(weighted(stage.columns))


@dataclass(frozen=True, eq=False)
class JoinStage:
    """One join. The input holds rows of both sides; `_side` says which, and the columns of the
    other side are NULL. `_k…` are the join keys, in a type common to both sides."""

    join: Join
    inputs: tuple[Input, ...]
    columns: Fields
    partition_by: tuple[str, ...]
    left: Lookup
    right: Lookup

    @property
    def output(self) -> Fields:
        return self.join.fields

    async def run(self, zset: ZSet, old: RowReader) -> StageResult:
        both = zset.typed
        left, right = self._side(both, LEFT), self._side(both, RIGHT)
        theirs = self._bounds(right) if self.join.bound else self._keys(both, RIGHT)
        left_before = await self.left.rows(old, theirs)
        if self.join.kind is JoinKind.INNER:
            right_before = await self.right.rows(old, self._keys(both, LEFT))
            changed = self._inner(left, right, left_before, right_before)
        else:
            right_before = await self.right.rows(old, self._all_keys(both, left, left_before))
            changed = self._linear(left, right, left_before, right_before)
        return StageResult(ZSet(self.output, table=net(changed).table), [])

    def _side(self, both: Typed, side: int) -> Typed:
        node = self.join.left if side == LEFT else self.join.right
        fields = weighted(node.fields)
        return Typed(fields, _of_side(both, side).select([field.name for field in fields]))

    def _keys(self, both: Typed, side: int) -> Typed:
        """The keys by which changed rows of a side look up rows of the other side."""
        columns = self.partition_by or self.join.compared(side)
        return keys_of(Typed(both.fields, _of_side(both, side)), columns)

    def _all_keys(self, both: Typed, left: Typed, left_before: Typed) -> Typed:
        """The keys of the right rows that are partners of changed left rows or of `left_before`."""
        if self.partition_by:
            ours, theirs = self._keys(both, LEFT), self._keys(both, RIGHT)
            return concat(ours.fields, [ours, theirs])
        rows = concat(left.fields, [left, with_weight(left_before, 1)])
        return keys_of(rows, self.join.compared(LEFT))

    def _bounds(self, right: Typed) -> Typed:
        """The old and the new value of the only right row."""
        assert self.join.bound is not None
        fields = (self.join.right.field[self.join.bound.right],)
        return Typed(fields, right.table.select([fields[0].name]))

    def _inner(self, left: Typed, right: Typed, left_before: Typed, right_before: Typed) -> Typed:
        """ΔA ⋈ (B0 + ΔB) + A0 ⋈ ΔB; weights multiply."""
        new = self._joined(JoinKind.INNER, left, _plus(right_before, right), "l._w * r._w")
        other = self._joined(JoinKind.INNER, left_before, right, "r._w")
        return concat(new.fields, [new, other])

    def _linear(self, left: Typed, right: Typed, left_before: Typed, right_before: Typed) -> Typed:
        """J(ΔA, B1) + J(A0, B1) - J(A0, B0)."""
        right_after = present(_plus(right_before, right))
        kind = self.join.kind
        parts = [
            self._joined(kind, left, right_after, "l._w"),
            self._joined(kind, left_before, right_after, "1"),
            self._joined(kind, left_before, right_before, "-1"),
        ]
        return concat(parts[0].fields, parts)

    def _joined(self, kind: JoinKind, left: Typed, right: Typed, weight: str) -> Typed:
        fields = weighted(self.output)
        if left.empty:
            return nothing(fields)
        sql = join_sql(self.join, kind, self.output, more=f", {weight}")
        return evaluate(sql, {"l": left, "r": right}, fields)

    def words(self) -> Iterator[str]:
        pairs = " and ".join(f"{a} = {b}" for a, b in self.join.keys)
        other = "on the only row" if self.join.one_right else "of all pairs"
        if self.join.keys or (self.join.condition and not self.join.one_right):
            other = f"on {pairs or self.join.condition}"
        yield f"{self.join.kind} join {other}"
        yield f"left rows: {self.left.words()}"
        yield f"right rows: {self.right.words()}"


def _of_side(both: Typed, side: int) -> pa.Table:
    return both.table.filter(pc.equal(both.table[SIDE.name], side))


def _plus(rows: Typed, change: Typed) -> Typed:
    """Rows and a change of them as one Z-set."""
    return concat(change.fields, [with_weight(rows, 1), change])


def present(zset: Typed) -> Typed:
    """The rows that exist after the changes; `zset` holds rows and their changes."""
    table = net(zset).table
    there = table.filter(pc.equal(table[WEIGHT], 1))
    return Typed(zset.fields[:-1], there.drop_columns([WEIGHT]))


def side_map(join: Join, side: int, keys: Fields) -> Map:
    """The projection from rows of one side to rows of the join's input."""
    mine = join.left if side == LEFT else join.right
    both = (*join.left.fields, *join.right.fields)
    of_key = {key.name: pair[side] for pair, key in zip(join.keys, keys, strict=True)}
    passes = {field.name: field.name for field in mine.fields} | {
        key.name: of_key[key.name] for key in keys if mine.field[of_key[key.name]].duck == key.duck
    }
    columns = [quoted(f.name) if f.name in passes else null_of(f) for f in both]
    casts = [
        quoted(name) if key.name in passes else f"CAST({quoted(name)} AS {key.duck})"
        for key, name in zip(keys, of_key.values(), strict=True)
    ]
    return Map(mine, (*both, SIDE, *keys), (*columns, str(side), *casts), "", passes, None)


@dataclass(frozen=True, eq=False)
class AggregateStage:
    """One GROUP BY (or DISTINCT)."""

    state: GroupState
    inputs: tuple[Input, ...]

    @property
    def columns(self) -> Fields:
        return self.state.node.input.fields

    @property
    def partition_by(self) -> tuple[str, ...]:
        return self.state.order

    @property
    def output(self) -> Fields:
        return self.state.node.fields

    async def run(self, zset: ZSet, old: RowReader) -> StageResult:
        changed, mutations = await self.state.change(zset.typed, old)
        return StageResult(ZSet(self.output, table=changed.table), mutations)

    def words(self) -> Iterator[str]:
        by = ", ".join(self.state.order)
        yield f"aggregate by {by}" if by else "aggregate everything"
        if self.state.node.reason:
            yield self.state.node.reason
        for layout in self.state.layouts:
            yield f"state {layout.name}: {', '.join(column.name for column in layout.columns)}"


@dataclass(frozen=True, eq=False)
class PartitionStage:
    """One `Partition`. The stage keeps the rows of its input, and reads those of the partitions
    that change. Its output is the difference of the SELECT's results after and before."""

    node: Partition
    kept: StoredRows
    inputs: tuple[Input, ...]

    @property
    def columns(self) -> Fields:
        return self.node.input.fields

    @property
    def partition_by(self) -> tuple[str, ...]:
        return self.kept.order

    @property
    def output(self) -> Fields:
        return self.node.fields

    async def run(self, zset: ZSet, old: RowReader) -> StageResult:
        changed = net(zset.typed)
        if changed.empty:
            return StageResult(ZSet(self.output), [])
        change = ZSet(self.columns, table=changed.table)
        rows = await self.kept.by_prefix(old, self.partitions(change.rows))
        before = from_rows(self.columns, rows)
        found = self.compared(before, present(_plus(before, changed)))
        mutations = await self.kept.mutations(change, old)
        return StageResult(ZSet(self.output, table=net(found).table), mutations)

    def partitions(self, change: Iterable[Weighted]) -> list[Row]:
        """The partitions of changed rows."""
        place = {field.name: i for i, field in enumerate(self.columns)}
        pick = projection([place[name] for name in self.kept.order])
        return list(dict.fromkeys(pick(row) for row, _ in change))

    def compared(self, before: Typed, after: Typed) -> Typed:
        """The results of the SELECT after a change with +1, and those before it with -1."""
        parts = [
            f"SELECT {columns_sql(self.output)}, {weight} FROM {self.node.select(name)}"
            for name, weight in (("after", 1), ("before", -1))
        ]
        tables = {"after": after, "before": before}
        return evaluate(" UNION ALL ".join(parts), tables, weighted(self.output))

    def words(self) -> Iterator[str]:
        yield f"partition recompute by ({', '.join(self.kept.order)})"
        yield f"SELECT: {self.node.sql}"
        layout = self.kept.layout
        yield f"state {layout.name}: the rows of each partition, {len(layout.columns)} columns"


@dataclass(frozen=True, eq=False)
class ViewStage:
    """Writes rows of the SELECT as rows of the view."""

    stored: StoredRows
    inputs: tuple[Input, ...]
    partition_by: tuple[str, ...]
    output: Fields = ()

    @property
    def columns(self) -> Fields:
        return self.stored.columns

    async def run(self, zset: ZSet, old: RowReader) -> StageResult:
        return StageResult(ZSet(()), await self.stored.mutations(zset, old))

    def words(self) -> Iterator[str]:
        key = ", ".join(part.column for part in self.stored.state.key)
        yield f"write {self.stored.name} by {key}"
