"""What an aggregate view costs: its groups, its bytes, and its upkeep, as estimates.

Upkeep is in row reads, as of join views. A transaction adds to a group without reading it: one put
for each group, one read of the cell of its own lane, and the reads of the parents of each changed
row of the fact, one round trip for each level. A changed column of a parent also leads down to the
rows of the fact below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from hornbeam_server.query.binding.algebra import Source, StatementKind
from hornbeam_server.query.binding.blocks import ColumnOf
from hornbeam_server.query.dialect.aggregates import Function
from hornbeam_server.query.optimizer.access_paths import GET_COST, SEEK_COST
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.types import Kind
from hornbeam_server.schema.views import ImmediateView, StateLayout
from hornbeam_server.viewselect.grouping import Grouping
from hornbeam_server.viewselect.pricing import ROUND_COST, WRITE_COST
from hornbeam_server.viewselect.statistics import ROW_OVERHEAD, column_bytes
from hornbeam_server.viewselect.workload import Write

CELLS_PER_GROUP = 2
"""Assumed cells of a group: that of its build, and that of one lane."""
_VALUED = (Function.MIN, Function.MAX, Function.DISTINCT)
"""Aggregates that store the values of their argument."""


# -- groups


def groups_of(grouping: Grouping, schema: Schema, rows: Mapping[str, int]) -> int:
    """The estimated number of groups. A key has as many values as its relation has rows, a foreign
    key as many as its parent, a boolean 2, and any other column the square root of the rows of its
    relation. Columns that follow from other grouping columns count for nothing."""
    fact = rows[grouping.fact]
    computed = [group for group in grouping.groups if group.column is None]
    columns = _independent(grouping, schema)
    by_alias: dict[str, float] = {}
    relation = {source.alias: source.relation for source in grouping.sources}
    for alias, column in columns:
        values = min(
            _values(relation[a], c, schema, rows) for a, c in _equal(grouping, (alias, column))
        )
        known = by_alias.get(alias, 1.0)
        by_alias[alias] = min(known * values, float(rows[relation[alias]]))
    total = math.prod(by_alias.values()) * math.sqrt(fact) ** len(computed)
    return max(1, int(min(float(fact), total)))


def _values(relation: str, column: str, schema: Schema, rows: Mapping[str, int]) -> float:
    """The assumed number of values of a column."""
    found, count = schema.relation(relation), rows[relation]
    unique = any(
        index.unique and [part.column for part in index.columns] == [column]
        for index in schema.indexes
        if index.relation == relation
    )
    if unique or found.primary_key == (column,):
        return float(count)
    parents = [key.parent for key in found.foreign_keys if key.columns == (column,)]
    if parents:
        return float(min(count, *(rows[parent] for parent in parents)))
    return 2.0 if found.column(column).type.kind is Kind.BOOLEAN else math.sqrt(count)


def _equal(grouping: Grouping, place: ColumnOf) -> Iterable[ColumnOf]:
    return next((one for one in grouping.same if place in one), (place,))


def _independent(grouping: Grouping, schema: Schema) -> list[ColumnOf]:
    """The grouping columns without those that follow from the others."""
    kept = [group.column for group in grouping.groups if group.column is not None]
    for column in reversed(kept.copy()):
        others = [other for other in kept if other != column]
        if column in _determined(grouping, schema, others):
            kept = others
    return kept


def _determined(grouping: Grouping, schema: Schema, given: Iterable[ColumnOf]) -> set[ColumnOf]:
    """The columns that have one value each if `given` have."""
    known = {equal for place in given for equal in _equal(grouping, place)}
    size = -1
    while len(known) > size:
        size = len(known)
        for source in grouping.sources:
            known |= _of_row(source, grouping, schema, known)
    return known


def _of_row(
    source: Source, grouping: Grouping, schema: Schema, known: set[ColumnOf]
) -> set[ColumnOf]:
    """All columns of a source, and those equal to them, if `known` determine its row."""
    relation = schema.relation(source.relation)
    if any((source.alias, column) not in known for column in relation.primary_key):
        return set()
    own = ((source.alias, column) for column in relation.column_names)
    return {equal for place in own for equal in _equal(grouping, place)}


# -- bytes


def size_of(
    view: ImmediateView, grouping: Grouping, groups: int, schema: Schema, rows: Mapping[str, int]
) -> float:
    """The estimated bytes of a view: its cells, and the values of minima, maxima and distinct
    counts."""
    size = CELLS_PER_GROUP * groups * _row_bytes(view.cells)
    fact = float(rows[grouping.fact])
    valued = dict.fromkeys(call[1:] for call in grouping.calls if call[0] in _VALUED)
    for (argument, _), layout in zip(valued, view.values, strict=False):
        values = _values_of(argument, grouping, schema, rows)
        size += CELLS_PER_GROUP * min(fact, groups * values) * _row_bytes(layout)
    return size


def _values_of(argument: str, grouping: Grouping, schema: Schema, rows: Mapping[str, int]) -> float:
    """The assumed number of values of an argument, a column or any other expression."""
    for source in grouping.sources:
        for column in schema.relation(source.relation).column_names:
            if argument in (column, f"{source.alias}.{column}"):
                return _values(source.relation, column, schema, rows)
    return math.sqrt(rows[grouping.fact])


def _row_bytes(layout: StateLayout) -> float:
    return ROW_OVERHEAD + sum(map(column_bytes, layout.columns))


# -- upkeep


def upkeep_of(
    view: ImmediateView, grouping: Grouping, groups: int, rows: Mapping[str, int], write: Write
) -> float:
    """Row reads per unit of workload to maintain a view under one write statement."""
    if write.relation not in view.relations:
        return 0.0
    update = write.kind is StatementKind.UPDATE
    used = {(write.relation, column) for column in write.columns} & grouping.reads
    if update and not used:
        return 0.0
    rounds, reads, changed = 0.0, 0.0, 0.0
    for source, depth in zip(grouping.sources, grouping.depths, strict=True):
        if source.relation != write.relation or (depth and not update):
            continue
        affected = write.rows * max(1.0, rows[grouping.fact] / rows[source.relation])
        rounds += depth + max(grouping.depths)
        reads += write.rows * SEEK_COST * depth if depth else 0.0
        reads += affected * GET_COST * (len(grouping.sources) - 1 + bool(depth))
        changed += affected
    if not changed:
        return 0.0
    moves = update and not used.isdisjoint(_grouped(grouping))
    cells = min(changed, float(groups)) * (1 + moves) * (1 + len(view.values))
    put = ROUND_COST + cells * (GET_COST + WRITE_COST)
    return write.weight * (ROUND_COST * rounds + reads + put)


def _grouped(grouping: Grouping) -> set[tuple[str, str]]:
    """The (relation, column) pairs of grouping columns. A computed one may read any column."""
    relation = {source.alias: source.relation for source in grouping.sources}
    if any(group.column is None for group in grouping.groups):
        return set(grouping.reads)
    columns = (group.column for group in grouping.groups if group.column is not None)
    return {(relation[alias], column) for alias, column in columns}
