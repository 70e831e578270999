"""PostgreSQL's sort order: NULL sorts like the largest value unless NULLS FIRST or LAST is written
(the parser sets `nulls_first`); text sorts by code point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hornbeam_server.schema.types import Row, Value


@dataclass(frozen=True, slots=True)
class SortTerm:
    """One term of ORDER BY; `value` takes a row and the parameters."""

    value: Callable[[Row, Any], Value]
    descending: bool = False
    nulls_first: bool = False


def sort_rows(rows: list[Row], terms: Sequence[SortTerm], parameters: Any = ()) -> list[Row]:
    """Sort `rows` in place and return them. The sort is stable.

    One stable pass per term, from the last term to the first, lets each term have its own
    direction.
    """
    for term in reversed(terms):
        nulls_high = term.descending is term.nulls_first

        def key(row: Row, term: SortTerm = term, nulls_high: bool = nulls_high) -> Any:
            value = term.value(row, parameters)
            return ((value is None) is nulls_high, value)

        rows.sort(key=key, reverse=term.descending)
    return rows
