"""The inputs of stages over rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakKeyDictionary

from hornbeam_server.maintain.deltas.relations import Fields, evaluate, weighted
from hornbeam_server.maintain.deltas.rows.maps import RowMap, compile_maps
from hornbeam_server.maintain.deltas.rows.parsing import NotCompiledError
from hornbeam_server.maintain.deltas.stages import Input
from hornbeam_server.maintain.deltas.zsets import Weighted, ZSet
from hornbeam_server.schema.types import Row

K = TypeVar("K")
T = TypeVar("T")


def once(compute: Callable[[K], T]) -> Callable[[K], T]:
    """`compute` with one result for each object, kept as long as the object. The result must not
    refer to the object."""
    known: WeakKeyDictionary[K, T] = WeakKeyDictionary()

    def found(key: K) -> T:
        result = known.get(key)
        if result is None:
            result = known[key] = compute(key)
        return result

    return found


@dataclass(frozen=True, slots=True)
class RowInput:
    """An `Input` over few rows: `map` None: DuckDB evaluates `select`."""

    columns: Fields
    output: Fields
    map: RowMap | None
    select: str

    def rows(self, changes: ZSet) -> Sequence[Weighted]:
        if not changes:
            return ()
        given = changes.select(self.columns)
        if self.map is not None:
            return net(self.map.weighted(given.rows))
        found = evaluate(self.select, {"changes": given.typed}, weighted(self.output))
        return net(ZSet(self.output, table=found.table).rows)


@once
def row_input(part: Input) -> RowInput:
    """The input over rows. Its expressions are compiled once."""
    try:
        map_ = compile_maps(part.maps, part.names, stored=isinstance(part.source, str))
    except NotCompiledError:
        map_ = None
    return RowInput(part.columns, part.output, map_, part.select)


def net(rows: Iterable[Weighted]) -> list[Weighted]:
    """The same change without pairs of an insert and a delete of equal rows."""
    rows = list(rows)
    if len({weight for _, weight in rows}) < 2:
        return rows
    return [
        (row, 1 if count > 0 else -1)
        for row, count in summed(rows).items()
        for _ in range(abs(count))
    ]


def summed(rows: Iterable[Weighted]) -> dict[Row, int]:
    """Row → the sum of its weights."""
    counts: dict[Row, int] = {}
    for row, weight in rows:
        counts[row] = counts.get(row, 0) + weight
    return counts
