"""Approximate sizes of rows in bytes: buffers of rows are bounded by bytes, not by row counts.

Only the lengths of texts, bytes and arrays count: a row has a bounded number of other values, which
are all small. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hornbeam_server.schema.errors import LimitExceeded
from hornbeam_server.schema.types import LONG, ColumnType, Row, Value

T = TypeVar("T")
_LONG_VALUES = (str, bytes)
_SIZED = (str, bytes, tuple)
_ELEMENT_BYTES = 8
"""The size of an element that is neither text nor bytes."""


def long_positions(types: Iterable[ColumnType | None]) -> tuple[int, ...]:
    """The positions of rows of these types that can have values of any length. An unknown type may
    be text."""
    return tuple(i for i, type_ in enumerate(types) if type_ is None or type_.kind in LONG)


def kept_sizes(types: Iterable[ColumnType]) -> Callable[[Sequence[Any]], int]:
    """A function to the size of a row's texts, bytes and arrays, which have any length."""
    found = tuple(enumerate(types))
    plain = tuple(i for i, type_ in found if type_.kind in LONG and type_.element is None)
    arrays = tuple(i for i, type_ in found if type_.element is not None)
    if not arrays:
        return lambda row: sum([len(value) for i in plain if (value := row[i])])
    return lambda row: (
        sum([len(value) for i in plain if (value := row[i])])
        + sum([size_of(value) for i in arrays if (value := row[i])])
    )


def kept_sizes_of_rows(types: Iterable[ColumnType]) -> Callable[[Sequence[Sequence[Any]]], int]:
    """`kept_sizes` of many rows together: the lengths are added up column by column."""
    found = tuple(enumerate(types))
    plain = tuple(i for i, type_ in found if type_.kind in LONG and type_.element is None)
    arrays = tuple(i for i, type_ in found if type_.element is not None)

    def size(rows: Sequence[Sequence[Any]]) -> int:
        columns = tuple(zip(*rows, strict=True))
        if not columns:
            return 0
        lengths = sum([sum(map(len, filter(None, columns[i]))) for i in plain])
        return lengths + sum([sum(map(size_of, filter(None, columns[i]))) for i in arrays])

    return size


def bytes_at(rows: Sequence[Row], positions: Sequence[int]) -> int:
    """Size of the values at `positions`, which must all be texts, bytes, arrays or NULL."""
    size = 0
    for i in positions:
        size += sum([size_of(value) for row in rows if (value := row[i])])
    return size


def size_of(value: Any) -> int:
    """Size of a text, of bytes or of an array."""
    if type(value) is not tuple:
        return len(value)
    return sum([len(v) if isinstance(v, _LONG_VALUES) else _ELEMENT_BYTES for v in value])


def bytes_of(values: Iterable[Value]) -> int:
    """Size of any values."""
    return sum([size_of(value) for value in values if isinstance(value, _SIZED)])


def pieces(rows: Sequence[Row], positions: Sequence[int], most: int) -> Iterator[Sequence[Row]]:
    """`rows` in pieces, each of which ends with the row that reaches `most` bytes."""
    if not positions or bytes_at(rows, positions) < most:
        yield rows
        return
    begin = size = 0
    for i, row in enumerate(rows, start=1):
        size += bytes_at((row,), positions)
        if size >= most or i == len(rows):
            yield rows[begin:i]
            begin, size = i, 0


def _itself(row: Any) -> Iterable[Value]:
    values: Iterable[Value] = row
    return values


@dataclass(frozen=True, slots=True)
class Limit:
    """The maximum number of bytes that are buffered for one purpose. `what` is the subject of the
    error message; `done` ends it, such as "stored"."""

    most: int
    what: str
    done: str
    cure: str


class Budget:
    """The bytes that are left of a limit."""

    __slots__ = ("_limit", "left")

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self.left = limit.most

    def take(self, size: int) -> None:
        """Take `size` bytes. Raises LimitExceeded when the limit is exceeded."""
        self.left -= size
        if self.left < 0:
            limit = self._limit
            raise LimitExceeded(
                f"{limit.what} has more than {limit.most} bytes; these are the most that can be"
                f" {limit.done}.",
                cure=limit.cure,
            )

    def refill(self) -> None:
        self.left = self._limit.most

    def taking(
        self, items: Iterable[T], values: Callable[[T], Iterable[Value]] = _itself
    ) -> Iterator[T]:
        """Yield `items` and take the size of each item's values. Raises LimitExceeded."""
        for item in items:
            self.take(bytes_of(values(item)))
            yield item
