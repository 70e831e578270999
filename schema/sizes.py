"""Approximate sizes of rows in bytes: buffers of rows are bounded by bytes, not by row counts.

Only the lengths of texts, bytes and arrays count: a row has a bounded number of other values, which
are all small. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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


class Budget:
    """A limit on the bytes that may be buffered for one purpose."""

    def __init__(self, most: int, what: str, done: str, cure: str) -> None:
        """`what` is the subject of the error message; `done` ends it, such as "stored"."""
        self._most = self._left = most
        self._what, self._done, self._cure = what, done, cure

    @property
    def left(self) -> int:
        return self._left

    def take(self, size: int) -> None:
        """Take `size` bytes. Raises LimitExceeded when the budget is exceeded."""
        self._left -= size
        if self._left < 0:
            raise LimitExceeded(
                f"{self._what} has more than {self._most} bytes; these are the most that can be"
                f" {self._done}.",
                cure=self._cure,
            )

    def refill(self) -> None:
        self._left = self._most

    def taking(
        self, items: Iterable[T], values: Callable[[T], Iterable[Value]] = _itself
    ) -> Iterator[T]:
        """Yield `items` and take the size of each item's values. Raises LimitExceeded."""
        for item in items:
            self.take(bytes_of(values(item)))
            yield item
