"""The order of rows that reference one another: each behind the rows that it references.

It is for relations that reference themselves, or one another in a circle. Values are compared as
they are written in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hornbeam_server.schema.ddl.rows import Row, Value
from hornbeam_server.schema.graph import components
from hornbeam_server.schema.model import Relation

Unit = tuple[Row, ...]
"""Rows that are inserted by one transaction: one row, or all rows of a circle of references."""
_Key = tuple[Value, ...]


def in_order(rows: Sequence[Row], relations: Sequence[Relation]) -> list[Unit]:
    """The rows of `relations` as units, each behind the units that it references. Rows of one
    relation stand beside each other where that is possible. Rows that reference nothing in `rows`
    keep their order."""
    above = _references(rows, relations)
    rank = {relation.name: number for number, relation in enumerate(relations)}
    place: dict[int, tuple[int, int]] = {}
    found: list[tuple[int, int, Unit]] = []
    for numbers in components(above):
        turn, own = 0, rank[rows[numbers[0]].relation] if len(numbers) == 1 else len(rank)
        for number in numbers:
            for parent in above[number]:
                if parent in place:
                    its_turn, its_rank = place[parent]
                    turn = max(turn, its_turn + (its_rank > own))
        place.update((number, (turn, own)) for number in numbers)
        found.append((turn, own, tuple(rows[number] for number in sorted(numbers))))
    found.sort(key=lambda each: each[:2])  # stable: within a turn a unit is behind its parents
    return [unit for _, _, unit in found]


def _references(rows: Sequence[Row], relations: Sequence[Relation]) -> dict[int, list[int]]:
    """Row → the other rows that it references, as numbers of `rows`."""
    known = {relation.name: relation for relation in relations}
    targets = {
        (key.parent, key.parent_columns)
        for relation in relations
        for key in relation.foreign_keys
        if key.parent in known
    }
    holders: dict[tuple[str, tuple[str, ...]], dict[_Key, int]] = {}
    for parent, columns in targets:
        of_parent = (number for number, row in enumerate(rows) if row.relation == parent)
        holders[parent, columns] = {_at(rows[number], columns): number for number in of_parent}
    above: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        above[number] = found = []
        for key in known[row.relation].foreign_keys:
            values = _at(row, key.columns)
            holder = holders.get((key.parent, key.parent_columns), _NONE).get(values)
            if None not in values and holder is not None and holder != number:
                found.append(holder)
    return above


_NONE: Mapping[_Key, int] = {}


def _at(row: Row, columns: Sequence[str]) -> _Key:
    """The values of columns; None for a column that the row does not have."""
    positions = {column: i for i, column in enumerate(row.columns)}
    return tuple(row.values[positions[c]] if c in positions else None for c in columns)
