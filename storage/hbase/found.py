"""Rows that a scan has found in HBase, in the form that the reader wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hornbeam_server.storage.hbase.cells import is_plain, key_of, value_of
from hornbeam_server.storage.ports import TOMBSTONE, Cell

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """A form of rows. `of` makes it of rows as HBase stores them, and `values` has the values of
    rows of this form. The module `hornbeam_speedups` knows the form by its name."""

    name: str
    of: Callable[[list[Cell]], list[T]]
    values: Callable[[list[T]], list[bytes]]


@dataclass(slots=True)
class Found(Generic[T]):
    """Rows in their order, and sizes of what was read for them."""

    form: Form[T]
    rows: list[T] = field(default_factory=list)
    count: int = 0
    """The number of rows that HBase has returned, with tombstones."""
    key_bytes: int = 0
    value_bytes: int = 0
    """The bytes of keys and of values as they are stored, with tombstones."""
    last: bytes = b""
    """The stored key of the last row."""

    @classmethod
    def of(cls, cells: list[Cell], form: Form[T]) -> Found[T]:
        """The rows of stored `cells`."""
        found = cls(form)
        found.add_cells(cells)
        return found

    def add_cells(self, cells: list[Cell]) -> None:
        """Add rows as they are stored."""
        if cells:
            self.add(
                self.form.of(cells),
                len(cells),
                sum([len(key) for key, _, _ in cells]),
                sum([len(value) for _, _, value in cells]),
                cells[-1].key,
            )

    def add(self, rows: list[T], count: int, key_bytes: int, value_bytes: int, last: bytes) -> None:
        """Add rows of this form; the parameters are as the fields."""
        if count:
            self.rows += rows
            self.count += count
            self.key_bytes += key_bytes
            self.value_bytes += value_bytes
            self.last = last


def _visible(rows: Sequence[Cell]) -> list[Cell]:
    """The rows that readers get from stored rows; nearly all are the same."""
    found = [row if is_plain(row.key, row.value) else _seen(row) for row in rows]
    return [cell for cell in found if cell.value != TOMBSTONE]


def _seen(row: Cell) -> Cell:
    return Cell(key_of(row.key), row.ts, value_of(row.value))


def _values(cells: Sequence[Cell]) -> list[bytes]:
    return [value for _, _, value in cells]


def _visible_values(rows: Sequence[Cell]) -> list[bytes]:
    return _values(_visible(rows))


STORED: Form[Cell] = Form("stored", list, _values)
CELLS: Form[Cell] = Form("cells", _visible, _values)
"""Rows as readers get them, without tombstones."""
VALUES: Form[bytes] = Form("values", _visible_values, list)
"""The values of `CELLS`."""
