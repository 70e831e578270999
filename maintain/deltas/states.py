"""The state of aggregates: count, sums and extremes per group, and multiplicities per value.

The state of a group is a row `(group, _count, sum…, count…, min…, max…, distinct…)`; it exists as
long as the group has rows. COUNT and SUM are distributive, AVG is derived from SUM and COUNT
(CloudTPS 4.3). MIN and MAX under deletion need more than their last value: the state also has rows
`(group, value, multiplicity)` in the order of the values (VMS 4.4, pre-aggregation), so when the
minimum is deleted, the next one is the first row of a prefix.

If groups are looked up by the result of an aggregate, the state also has rows `(value, group)`.

The only group of an aggregate without GROUP BY has the key `_one` = 1 and exists even when empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.maintain.deltas.algebra import Aggregate, Call, Clock
from hornbeam_server.maintain.deltas.planned import Planned
from hornbeam_server.maintain.deltas.relations import (
    Field,
    Fields,
    Typed,
    columns_sql,
    concat,
    evaluate,
    from_rows,
    net,
    nothing,
    weighted,
    with_weight,
)
from hornbeam_server.maintain.deltas.zsets import Weighted, ZSet
from hornbeam_server.query.dialect.aggregates import Function
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.catalog import Layout
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.model import Column, KeyPart
from hornbeam_server.schema.rows import projection
from hornbeam_server.schema.types import ColumnType, Kind, Row, Value
from hornbeam_server.schema.views import CLOCK_STATE, StateLayout
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.snapshot import RowReader

BIGINT = ColumnType(Kind.BIGINT)
COUNT = "_count"
ONE = Field("_one", "INTEGER", ColumnType(Kind.INTEGER), nullable=False)
_COUNTED = (Function.COUNT, Function.SUM, Function.AVG)


def _number(name: str) -> Field:
    return Field(name, "BIGINT", BIGINT)


def stored_layout(view: str, state: StateLayout) -> Layout:
    """The layout of a state, sufficient for reading and writing it by name."""
    name = f"{view}.{state.name}"
    return Layout(name, "", state.columns, state.key, name)


@dataclass(frozen=True)
class Part:
    """One column of the state that is not a grouping column: the aggregate `kind` of `argument`."""

    field: Field
    kind: str
    argument: str

    def change(self) -> str:
        """The SQL of the amount that the rows of `z` add to the column."""
        argument = quoted(self.argument)
        comes, goes = (f"FILTER (WHERE _w = {weight})" for weight in (1, -1))
        match self.kind:
            case "rows":
                return "CAST(SUM(_w) AS BIGINT)"
            case "count":
                return f"COUNT({argument}) {comes} - COUNT({argument}) {goes}"
            case "sum":
                sums = [f"COALESCE(SUM({argument}) {sign}, 0)" for sign in (comes, goes)]
                return f"CAST({' - '.join(sums)} AS {self.field.duck})"
        raise AssertionError(self.kind)


@dataclass(frozen=True)
class GroupState(Planned):
    """The state of one aggregate. `order` is the order of the grouping columns in the key; groups
    are also looked up by the values of the calls `ranked`."""

    view: str
    number: int
    node: Aggregate
    order: tuple[str, ...]
    ranked: tuple[str, ...] = ()

    @cached_property
    def groups(self) -> Fields:
        """The key columns of the state, under the names `g0`, `g1`, …"""
        found = [self.node.field[name] for name in self.order]
        named = (Field(f"g{i}", f.duck, f.type) for i, f in enumerate(found))
        return tuple(named) if found else (ONE,)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(_number(COUNT), "rows", ""), *self._parts())

    def _parts(self) -> Iterator[Part]:
        sums = dict(self.node.sums)
        for i, argument in enumerate(self.arguments):
            functions = {c.function for c in self.node.calls if c.argument == argument}
            value = self.node.input.field[argument]
            if argument in sums:
                field = sums[argument]
                yield Part(Field(f"sum{i}", field.duck, field.type), "sum", argument)
            if functions & set(_COUNTED):
                yield Part(_number(f"count{i}"), "count", argument)
            for function in (Function.MIN, Function.MAX):
                if function in functions:
                    name = f"{function.value}{i}"
                    yield Part(Field(name, value.duck, value.type), function.value, argument)
            if Function.DISTINCT in functions:
                yield Part(_number(f"distinct{i}"), "distinct", argument)

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(call.argument for call in self.node.calls if call.argument))

    @cached_property
    def valued(self) -> tuple[int, ...]:
        """Numbers of the arguments whose values are stored individually."""
        kinds = {part.argument for part in self.parts if part.kind in ("min", "max", "distinct")}
        return tuple(i for i, argument in enumerate(self.arguments) if argument in kinds)

    @cached_property
    def fields(self) -> Fields:
        return (*self.groups, *(part.field for part in self.parts))

    def value_fields(self, i: int) -> Fields:
        value = self.node.input.field[self.arguments[i]]
        return (*self.groups, Field("value", value.duck, value.type), _number("copies"))

    @cached_property
    def layouts(self) -> tuple[StateLayout, ...]:
        """The layouts of the groups, then of the values, then of the indexes by calls."""
        kind = CLOCK_STATE if isinstance(self.node.input.input, Clock) else "groups"
        groups = _state_layout(f"{kind}{self.number}", self.fields, len(self.groups))
        values = (
            _state_layout(f"values{self.number}_{i}", self.value_fields(i), len(self.groups) + 1)
            for i in self.valued
        )
        ranks = (
            _state_layout(f"ranks{self.number}_{i}", (value, *self.groups), len(self.groups) + 1)
            for i, value in enumerate(self._ranked_values())
        )
        return (groups, *values, *ranks)

    def _ranked_values(self) -> Iterator[Field]:
        for name in self.ranked:
            field = self.node.field[name]
            yield Field("value", field.duck, field.type)

    @cached_property
    def layout(self) -> Layout:
        return stored_layout(self.view, self.layouts[0])

    @cached_property
    def codec(self) -> LayoutCodec:
        return LayoutCodec(self.layout)

    @cached_property
    def value_codecs(self) -> dict[int, LayoutCodec]:
        layouts = self.layouts[1 : 1 + len(self.valued)]
        return {
            i: LayoutCodec(stored_layout(self.view, layout))
            for i, layout in zip(self.valued, layouts, strict=True)
        }

    @cached_property
    def ranks(self) -> dict[str, Layout]:
        """Call → the index of the groups whose key begins with the call's value."""
        layouts = self.layouts[1 + len(self.valued) :]
        return {
            name: stored_layout(self.view, layout)
            for name, layout in zip(self.ranked, layouts, strict=True)
        }

    @cached_property
    def rank_codecs(self) -> dict[str, LayoutCodec]:
        return {name: LayoutCodec(layout) for name, layout in self.ranks.items()}

    # -- reading

    def finish(self, stored: Typed) -> Typed:
        """Rows of the aggregate from rows of the state, computed by DuckDB."""
        if stored.empty:
            return nothing(self.node.fields)
        group = {name: field.name for name, field in zip(self.order, self.groups, strict=False)}
        columns = [quoted(group[field.name]) for field in self.node.groups]
        columns += [self._result(call) for call in self.node.calls]
        return evaluate(f"SELECT {', '.join(columns)} FROM s", {"s": stored}, self.node.fields)

    def _result(self, call: Call) -> str:
        if call.function is Function.ROWS:
            return quoted(COUNT)
        i = self.arguments.index(call.argument)
        match call.function:
            case Function.SUM:
                return f"CASE WHEN count{i} > 0 THEN sum{i} END"
            case Function.AVG:
                return f"CASE WHEN count{i} > 0 THEN {call.averaged(f'sum{i}', f'count{i}')} END"
            case Function.DISTINCT:
                return f"distinct{i}"
            case _:
                return f"{call.function.value}{i}"

    # -- changing

    async def change(self, zset: Typed, old: RowReader) -> tuple[Typed, list[Mutation]]:
        """Apply a change of the input; return the change of the aggregate and the mutations of its
        state."""
        if self.order and zset.empty:
            return nothing(weighted(self.node.fields)), []
        changes = self._summed(zset)
        before = await self._stored(changes, old)
        mutations: list[Mutation] = []
        tables = {"d": changes, "s": before}
        for i in self.valued:
            counted, written = await self.count_values(i, self._changed_values(i, zset), old)
            mutations += written
            fields = (*self.value_fields(i), _number("after"))
            values = tables[f"v{i}"] = from_rows(fields, counted)
            for kind in self.extremes(i):
                tables[f"{kind}_gone{i}"] = await self._next_values(i, kind, before, values, old)
        after = self._merged(tables)
        mutations += self.mutations(before.rows(), after.rows())
        present = after if not self.order else _where(after, f"{COUNT} > 0")
        changed = self._difference(before, present)
        rows = ZSet(self.node.fields, table=changed.table).rows if self.ranked else ()
        return changed, [*mutations, *self.rank_mutations(rows)]

    def rank_mutations(self, changed: Sequence[Weighted]) -> Iterator[Mutation]:
        """The mutations of the indexes by calls. NULL values are not indexed, since no comparison
        with NULL is true."""
        place = {field.name: i for i, field in enumerate(self.node.fields)}
        for name, codec in self.rank_codecs.items():
            ranked = projection([place[name], *(place[group] for group in self.order)])
            gone, come = ({ranked(row) for row, w in changed if w == weight} for weight in (-1, 1))
            for row in gone ^ come:
                if row[0] is not None:
                    old, new = (row, None) if row in gone else (None, row)
                    yield Mutation(codec.layout.name, codec.key(row), old, new)

    def _summed(self, zset: Typed) -> Typed:
        """Per group, the amount added to each distributive part."""
        parts = [part for part in self.parts if part.kind in ("rows", "count", "sum")]
        fields = (*self.groups, *(part.field for part in parts))
        groups = self._group_columns()
        columns = [*groups, *(part.change() for part in parts)]
        tail = f" GROUP BY {', '.join(groups)}" if self.order else ""
        summed = evaluate(f"SELECT {', '.join(columns)} FROM z{tail}", {"z": zset}, fields)
        return summed if self.order else _filled(summed)

    def _group_columns(self) -> list[str]:
        return [quoted(name) for name in self.order] or ["1"]

    async def _stored(self, changes: Typed, old: RowReader) -> Typed:
        width = len(self.groups)
        keys = [row[:width] for row in changes.rows()]
        found = await old.get(self.layout.name, keys)
        return from_rows(self.fields, [version.row for version in found if version is not None])

    def extremes(self, i: int) -> list[str]:
        argument = self.arguments[i]
        return [p.kind for p in self.parts if p.argument == argument and p.kind in ("min", "max")]

    def _changed_values(self, i: int, zset: Typed) -> list[Row]:
        """Groups and values, with the change of their multiplicity."""
        argument = quoted(self.arguments[i])
        groups = self._group_columns()
        sql = (
            f"SELECT {', '.join(groups)}, {argument}, CAST(SUM(_w) AS BIGINT) AS n FROM z "
            f"WHERE {argument} IS NOT NULL GROUP BY ALL HAVING SUM(_w) <> 0"
        )
        return evaluate(sql, {"z": zset}, self.value_fields(i)).rows()

    async def count_values(
        self, i: int, changed: Sequence[Row], old: RowReader
    ) -> tuple[list[Row], list[Mutation]]:
        """The values of argument `i` that changed, with their multiplicity before and after, and
        the mutations. `changed` has groups and values, with the change of their multiplicity."""
        codec = self.value_codecs[i]
        found = await old.get(codec.layout.name, [row[:-1] for row in changed]) if changed else []
        rows: list[Row] = []
        mutations: list[Mutation] = []
        for row, version in zip(changed, found, strict=True):
            before = version.row[-1] if version is not None else 0
            after = before + row[-1]  # type: ignore[operator]
            _check_count(after, codec.layout.name)
            rows.append((*row[:-1], before, after))
            new = (*row[:-1], after) if after else None
            stored = version.row if version is not None else None
            key = version.key if version is not None else codec.key(row)
            mutations.append(Mutation(codec.layout.name, key, stored, new))
        return rows, mutations

    async def _next_values(
        self, i: int, kind: str, before: Typed, counted: Typed, old: RowReader
    ) -> Typed:
        """Groups that lose their minimum (or maximum), with the next value that remains.

        Reads, per group, one row more than the group loses values.
        """
        same = self._same("s", "v")
        sql = (
            f"SELECT {columns_sql(self.groups, 's')}, (SELECT COUNT(*) FROM v WHERE {same} "
            f"AND v.after = 0) FROM s WHERE EXISTS (SELECT 1 FROM v WHERE {same} "
            f"AND v.after = 0 AND v.value = s.{kind}{i})"
        )
        fields = (*self.groups, _number("gone"))
        losing = evaluate(sql, {"s": before, "v": counted}, fields).rows()
        gone = {row[:-2] for row in counted.rows() if row[-1] == 0}
        rows = [
            (*group, await self.first_kept(i, kind, group, int(count), gone, old), 1)  # type: ignore[arg-type]
            for *group, count in losing
        ]
        return from_rows((*self.groups, self.value_fields(i)[-2], _number("hit")), rows)

    async def first_kept(
        self, i: int, kind: str, group: Sequence[Value], count: int, gone: set[Row], old: RowReader
    ) -> Value:
        """The minimum or maximum (`kind`) of argument `i` in a group at S0, apart from the `count`
        values of the group in `gone`."""
        name, limit = self.value_codecs[i].layout.name, count + 1
        batches = old.scan(name, KeyRange(tuple(group)), reverse=kind == "max", limit=limit)
        rows = [row async for batch in batches for row in batch]
        return next((row[-2] for row in rows if row[:-1] not in gone), None)

    def _merged(self, tables: dict[str, Typed]) -> Typed:
        """Rows of the state after the change, including empty groups."""
        joins = [f"LEFT JOIN s ON {self._same('d', 's')}"]
        steps: dict[str, str] = {}
        for i in self.valued:
            groups = columns_sql(self.groups)
            steps[f"w{i}"] = (
                f"SELECT {groups}, MIN(value) FILTER (after > 0) AS low, "
                "MAX(value) FILTER (after > 0) AS high, "
                f"SUM((after > 0)::BIGINT - (copies > 0)::BIGINT) AS more "
                f"FROM v{i} GROUP BY {groups}"
            )
            names = [f"w{i}", *(f"{kind}_gone{i}" for kind in self.extremes(i))]
            joins += [f"LEFT JOIN {name} ON {self._same('d', name)}" for name in names]
        columns = [columns_sql(self.groups, "d"), *(self._merge(part) for part in self.parts)]
        sql = f"SELECT {', '.join(columns)} FROM d {' '.join(joins)}"
        return evaluate(sql, tables, self.fields, steps)

    def _merge(self, part: Part) -> str:
        name = quoted(part.field.name)
        i = self.arguments.index(part.argument) if part.argument else 0
        match part.kind:
            case "min" | "max":
                gone = f"{part.kind}_gone{i}"
                best, mine = ("LEAST", "low") if part.kind == "min" else ("GREATEST", "high")
                kept = f"CASE WHEN {gone}.hit = 1 THEN {gone}.value ELSE s.{name} END"
                return f"{best}({kept}, w{i}.{mine})"
            case "distinct":
                return f"COALESCE(s.{name}, 0) + COALESCE(w{i}.more, 0)"
            case _:
                return f"CAST(d.{name} + COALESCE(s.{name}, 0) AS {part.field.duck})"

    def _same(self, a: str, b: str) -> str:
        return " AND ".join(
            f"{a}.{group.name} IS NOT DISTINCT FROM {b}.{group.name}" for group in self.groups
        )

    def mutations(self, before: Sequence[Row], after: Sequence[Row]) -> Iterator[Mutation]:
        """The mutations of rows of the state. A row of a group without rows is deleted."""
        key = self.codec.key
        stored = {key(row): row for row in before}
        at = len(self.groups)
        for row in after:
            _check_count(row[at], self.layout.name)
            new = row if row[at] or not self.order else None
            old = stored.get(key(row))
            if old != new:
                yield Mutation(self.layout.name, key(row), old, new)

    def _difference(self, before: Typed, after: Typed) -> Typed:
        fields = weighted(self.node.fields)
        rows = (with_weight(self.finish(before), -1), with_weight(self.finish(after), 1))
        return net(concat(fields, rows))


def _state_layout(name: str, fields: Fields, key: int) -> StateLayout:
    columns = tuple(Column(field.name, field.type) for field in fields)
    return StateLayout(name, columns, tuple(KeyPart(field.name) for field in fields[:key]))


def _where(typed: Typed, condition: str) -> Typed:
    return evaluate(f"SELECT * FROM t WHERE {condition}", {"t": typed}, typed.fields)


def _filled(summed: Typed) -> Typed:
    """The same row with 0 for NULL: an aggregate without GROUP BY over no rows has NULL sums."""
    columns = [f"COALESCE({quoted(field.name)}, 0)" for field in summed.fields]
    return evaluate(f"SELECT {', '.join(columns)} FROM t", {"t": summed}, summed.fields)


def _check_count(count: object, layout: str) -> None:
    if not isinstance(count, int) or count < 0:
        raise Corruption(
            f"A row of {layout} would count {count} rows: its changes do not fit its state.",
            cure="Rebuild the view.",
        )
