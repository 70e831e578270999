"""The state of aggregates over rows: `GroupState.change` by dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.maintain.deltas.algebra import Call
from hornbeam_server.maintain.deltas.rows.numbers import DIGITS, fitted, in_range, zero
from hornbeam_server.maintain.deltas.states import GroupState, Part
from hornbeam_server.maintain.deltas.zsets import Weighted
from hornbeam_server.query.dialect.aggregates import Function
from hornbeam_server.schema.quotients import quotient
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import Kind, Row, Value
from hornbeam_server.storage.snapshot import RowReader

Evaluate = Callable[[Row], Value]
Add = Callable[[Any, Row, int], Any]
"""The amount of a part after a row with its weight."""
Merge = Callable[[Any, Any], Value]
"""The value of a part from an amount and the stored value (None: nothing is stored)."""
Counted = dict[Row, list[Row]]
"""Group → rows (group, value, multiplicity before, multiplicity after) of its changed values."""
ONLY = (1,)
"""The only group of an aggregate without GROUP BY."""


# -- results


def finisher(state: GroupState) -> Projection:
    """The row of the aggregate from a row of the state: `GroupState.finish`."""
    place = {name: i for i, name in enumerate(state.order)}
    pick = projection([place[field.name] for field in state.node.groups])
    values = [_result(state, call) for call in state.node.calls]
    return lambda row: (*pick(row), *[value(row) for value in values])


def _result(state: GroupState, call: Call) -> Evaluate:
    first = len(state.groups)
    place = {(part.kind, part.argument): i for i, part in enumerate(state.parts, first)}
    match call.function:
        case Function.ROWS:
            return _at(place["rows", ""])
        case Function.DISTINCT:
            return _at(place["distinct", call.argument])
        case Function.SUM | Function.AVG:
            total = place["sum", call.argument]
            convert = _conversion(call)
            return _if_counted(place["count", call.argument], total, convert)
    return _at(place[call.function.value, call.argument])


def _at(place: int) -> Evaluate:
    return lambda row: row[place]


def _if_counted(count: int, total: int, convert: Callable[[Any, Any], Value]) -> Evaluate:
    return lambda row: convert(row[total], row[count]) if row[count] else None


def _conversion(call: Call) -> Callable[[Any, Any], Value]:
    """The result from a sum and a count."""
    if call.function is Function.SUM:
        fit = fitted(call.field)
        return lambda total, _: fit(total)
    if call.field.type.kind is Kind.DECIMAL:
        return quotient
    return lambda total, count: float(total) / float(count)


# -- changes


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Applies the changes of few rows to the state of an aggregate. `group` takes the group from a
    row of the input, `arguments` the values that are stored individually. `adds` and `merges` are
    by part of the state; they are None for parts that are not sums or counts."""

    state: GroupState
    group: Projection
    arguments: dict[int, int]
    adds: tuple[tuple[int, Add], ...]
    merges: tuple[Merge | None, ...]
    finish: Projection

    async def change(
        self, zset: Sequence[Weighted], old: RowReader
    ) -> tuple[list[Weighted], list[Mutation]]:
        """The change of the aggregate, and the mutations of its state."""
        state = self.state
        if state.order and not zset:
            return [], []
        amounts = self._summed(zset)
        before = await self._stored(list(amounts), old)
        mutations: list[Mutation] = []
        values: dict[int, Counted] = {}
        for i in state.valued:
            values[i], written = await self._count(i, zset, old)
            mutations += written
        after: dict[Row, Row] = {}
        for group, added in amounts.items():
            others = await self._others(group, before.get(group), values, old)
            after[group] = self._merged(group, before.get(group), added, others)
        mutations += state.mutations([*before.values()], [*after.values()])
        changed = list(self._difference(before, after))
        return changed, [*mutations, *state.rank_mutations(changed)]

    def _summed(self, zset: Iterable[Weighted]) -> dict[Row, list[Any]]:
        """Group → the amounts that the change adds to the parts. Without GROUP BY there always is
        the one group."""
        zeros = [0] * len(self.merges)
        found: dict[Row, list[Any]] = {} if self.state.order else {ONLY: zeros.copy()}
        for row, weight in zset:
            group = self.group(row)
            amounts = found.get(group)
            if amounts is None:
                amounts = found[group] = zeros.copy()
            for i, add in self.adds:
                amounts[i] = add(amounts[i], row, weight)
        return found

    async def _stored(self, groups: list[Row], old: RowReader) -> dict[Row, Row]:
        found = await old.get(self.state.layout.name, groups)
        pairs = zip(groups, found, strict=True)
        return {group: version.row for group, version in pairs if version is not None}

    async def _count(
        self, i: int, zset: Iterable[Weighted], old: RowReader
    ) -> tuple[Counted, list[Mutation]]:
        """The changed values of argument `i`, and the mutations of their multiplicities."""
        place = self.arguments[i]
        counts: dict[Row, int] = {}
        for row, weight in zset:
            if row[place] is not None:
                key = (*self.group(row), row[place])
                counts[key] = counts.get(key, 0) + weight
        changed = [(*key, count) for key, count in counts.items() if count]
        rows, mutations = await self.state.count_values(i, changed, old)
        found: Counted = {}
        for row in rows:
            found.setdefault(row[:-3], []).append(row)
        return found, mutations

    async def _others(
        self, group: Row, before: Row | None, values: dict[int, Counted], old: RowReader
    ) -> dict[int, Value]:
        """The new minima, maxima and counts of distinct values of a group, by part."""
        found: dict[int, Value] = {}
        for number, part in enumerate(self.state.parts):
            if self.merges[number] is not None:
                continue
            i = self.state.arguments.index(part.argument)
            stored = None if before is None else before[len(group) + number]
            changed = values[i].get(group, [])
            if part.kind == "distinct":
                found[number] = _distinct(stored, changed)
            else:
                found[number] = await self._extreme(i, part.kind, group, stored, changed, old)
        return found

    async def _extreme(
        self, i: int, kind: str, group: Row, stored: Value, changed: list[Row], old: RowReader
    ) -> Value:
        """The new minimum or maximum; the next stored value where the old one is deleted."""
        gone = {row[:-2] for row in changed if row[-1] == 0}
        if (*group, stored) in gone:
            stored = await self.state.first_kept(i, kind, group, len(gone), gone, old)
        kept: list[Any] = [row[-3] for row in changed if row[-1]]
        if stored is not None:
            kept.append(stored)
        choose = min if kind == "min" else max
        return choose(kept, default=None)

    def _merged(
        self, group: Row, before: Row | None, added: list[Any], others: dict[int, Value]
    ) -> Row:
        """The row of the state after the change, also of an empty group."""
        stored = before[len(group) :] if before is not None else (None,) * len(added)
        return (
            *group,
            *[
                others[i] if merge is None else merge(added[i], stored[i])
                for i, merge in enumerate(self.merges)
            ],
        )

    def _difference(self, before: dict[Row, Row], after: dict[Row, Row]) -> Iterator[Weighted]:
        for group, row in after.items():
            old = self.finish(before[group]) if group in before else None
            there = row[len(group)] or not self.state.order
            new = self.finish(row) if there else None
            if old != new:
                if old is not None:
                    yield old, -1
                if new is not None:
                    yield new, 1


def _distinct(stored: Any, changed: list[Row]) -> int:
    more = sum(bool(row[-1]) - bool(row[-2]) for row in changed)
    return (stored or 0) + more


def row_groups(state: GroupState) -> RowGroups:
    place = {field.name: i for i, field in enumerate(state.node.input.fields)}
    parts = [_part(part, place.get(part.argument, 0)) for part in state.parts]
    return RowGroups(
        state,
        projection([place[name] for name in state.order]) if state.order else lambda row: ONLY,
        {i: place[state.arguments[i]] for i in state.valued},
        tuple((i, found[0]) for i, found in enumerate(parts) if found is not None),
        tuple(None if found is None else found[1] for found in parts),
        finisher(state),
    )


def _part(part: Part, place: int) -> tuple[Add, Merge] | None:
    """How the rows of a change add to a part, and how their amount is added to the stored value;
    None for other parts. The rows' argument is at `place`."""
    match part.kind:
        case "rows":
            return lambda amount, row, weight: amount + weight, _add
        case "count":
            return partial(_count, place), _add
        case "sum":
            return partial(_sum, place), _sum_merge(part)
    return None


def _add(amount: int, stored: Any) -> int:
    return amount + (stored or 0)


def _count(place: int, amount: int, row: Row, weight: int) -> int:
    return amount if row[place] is None else amount + weight


def _sum(place: int, amount: Any, row: Any, weight: int) -> Any:
    value = row[place]
    if value is None:
        return amount
    return DIGITS.add(amount, value) if weight == 1 else DIGITS.subtract(amount, value)


def _sum_merge(part: Part) -> Merge:
    nothing, checked = zero(part.field), in_range(part.field)

    def merge(amount: Any, stored: Any) -> Decimal:
        return checked(DIGITS.add(nothing if stored is None else stored, amount))

    return merge
