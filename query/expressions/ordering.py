"""DuckDB's default order: NULL after all values in both directions, text by code point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from schema.types import Row


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One plain column of ORDER BY, by its position in the row."""

    position: int
    descending: bool = False
    nulls_first: bool = False


def sort_rows(rows: Iterable[Row], terms: Sequence[OrderTerm]) -> list[Row]:
    """The rows in order; rows equal in all terms stay as they came."""
    result = list(rows)
    for term in reversed(terms):
        _sort(result, term)
    return result


def _sort(rows: list[Row], term: OrderTerm) -> None:
    """One stable pass: sorting in reverse keeps equal rows in place, too."""
    i = term.position
    key: Callable[[Row], Any] = itemgetter(i)
    if any(row[i] is None for row in rows):
        null_counts_high = term.nulls_first is term.descending
        key = lambda row: ((row[i] is None) is null_counts_high, row[i])  # noqa: E731
    rows.sort(key=key, reverse=term.descending)


def order_key(terms: Sequence[OrderTerm]) -> Callable[[Row], tuple[Any, ...]]:
    """A key by which `sorted`, `heapq.nsmallest` and `heapq.merge` order rows."""
    parts = [(t.position, t.descending, t.nulls_first) for t in terms]

    def key(row: Row) -> tuple[Any, ...]:
        return tuple(
            (
                ((value := row[position]) is None) is not nulls_first,
                value if value is None or not descending else _Descending(value),
            )
            for position, descending, nulls_first in parts
        )

    return key


class _Descending:
    """A value that sorts the other way round."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)
