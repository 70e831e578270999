"""Decodes the rows of an answer to a scan or to gets from its bytes.

thriftpy2 makes two objects with eight attributes for every row, which is half of the cost of a
scan. An answer about Hornbeam's one column always has the same shape. So this module decodes only
the variable parts, and compares all others with the expected bytes:

    80 01 00 02, name, number; 0f 00 00 0c, rows; row …; 00
    row: 0b 00 01, key; 0f 00 02 0c 00 00 00 01 (cells: one);
         0b 00 01, family; 0b 00 02, qualifier; 0b 00 03, value; 0a 00 04, timestamp; 03 00 06 04;
         00; 02 00 03 00; 02 00 04 00 (neither stale nor partial); 00
    row that a get does not find: 0f 00 02 0c 00 00 00 00; 02 00 03 00; 02 00 04 00; 00

The answer to a single get has 0c 00 00 and its row in the place of rows.

An answer of another shape (an error, rows of another HBase) is `Unfamiliar`; thriftpy2 decodes it.

The module `hornbeam_speedups` decodes the rows of scans where it is there. It stops at the first
row that is not whole or has another shape, and Python goes on from there.
"""

from __future__ import annotations

from struct import Struct
from struct import error as TooShort
from typing import Generic, TypeVar

from hornbeam_server.storage.codec.implementation import Native, implementation
from hornbeam_server.storage.hbase.cells import FAMILY, QUALIFIER
from hornbeam_server.storage.hbase.found import Form, Found
from hornbeam_server.storage.ports import Cell, make_cell

T = TypeVar("T")
FUNCTION = "getScannerResults"
_HEAD = b"\x0b\x00\x01"
_MIDDLE = (
    b"\x0f\x00\x02\x0c\x00\x00\x00\x01"
    + b"\x0b\x00\x01%b%b" % (len(FAMILY).to_bytes(4), FAMILY)
    + b"\x0b\x00\x02%b%b" % (len(QUALIFIER).to_bytes(4), QUALIFIER)
    + b"\x0b\x00\x03"
)
_TIMESTAMP = b"\x0a\x00\x04"
_END = b"\x03\x00\x06\x04\x00\x02\x00\x03\x00\x02\x00\x04\x00\x00"
_ABSENT = b"\x0f\x00\x02\x0c\x00\x00\x00\x00\x02\x00\x03\x00\x02\x00\x04\x00\x00"
_ROWS = b"\x0f\x00\x00\x0c"


def answer_begins(function: str) -> bytes:
    """The first bytes of an answer of `function`, up to its number."""
    return b"\x80\x01\x00\x02%b%b" % (len(function).to_bytes(4), function.encode())


_ANSWER = answer_begins(FUNCTION)
_GET = answer_begins("get") + bytes(4) + b"\x0c\x00\x00"
_GETS = answer_begins("getMultiple") + bytes(4) + _ROWS
_ANSWER_HEAD = Struct(f">{len(_ANSWER)}sI{len(_ROWS)}sI")
_ROW_HEAD = Struct(f">{len(_HEAD)}sI")
_ROW_MIDDLE = Struct(f">{len(_MIDDLE)}sI")
_ROW_END = Struct(f">{len(_TIMESTAMP)}sq{len(_END)}s")


class Unfamiliar(Exception):
    """The bytes have another shape: thriftpy2 must decode them."""


class Rows(Generic[T]):
    """The rows of one answer from bytes that arrive piece by piece."""

    def __init__(self, form: Form[T], native: Native | None) -> None:
        self.found = Found(form)
        self._native = native
        self._count: int | None = None
        self._rest = b""
        """The end of the last piece: a part of a row."""

    def take(self, piece: bytes) -> bool:
        """Decode the next piece; True at the end of the answer. Raises Unfamiliar."""
        data = self._rest + piece
        at = 0
        if self._count is None:
            if len(data) < _ANSWER_HEAD.size and data[-1:] != b"\0":
                self._rest = data
                return False
            self._count, at = _rows_announced(data), _ANSWER_HEAD.size
        self._rest = data[self._decode(data, at, self._count) :]
        if self.found.count < self._count or not self._rest:
            return False
        if self._rest != b"\0":
            raise Unfamiliar
        return True

    def _decode(self, data: bytes, at: int, count: int) -> int:
        """Add the whole rows from `at` on, until there are `count`; returns the offset behind
        them."""
        found = self.found
        if self._native is not None:
            most, name = count - found.count, found.form.name
            rows, added, key_bytes, value_bytes, last, at = self._native.decode_answer(
                data, at, most, name, make_cell
            )
            found.add(rows, added, key_bytes, value_bytes, last)
        if found.count < count:
            cells: list[Cell] = []
            at = _append_rows(data, at, cells, count - found.count)
            found.add_cells(cells)
        return at


def rows_of_scan(form: Form[T]) -> Rows[T]:
    """The rows of an answer to a scan, by the implementation of this process."""
    return Rows(form, implementation().native)


def cells_gotten(data: bytes) -> list[Cell | None]:
    """The cells in an answer of `get` or `getMultiple`, as they are stored; None for absent rows.
    Raises Unfamiliar."""
    if data.startswith(_GETS):
        at = len(_GETS) + 4
        count = int.from_bytes(data[at - 4 : at])
    elif data.startswith(_GET):
        at, count = len(_GET), 1
    else:
        raise Unfamiliar
    found: list[Cell | None] = []
    for _ in range(count):
        if data.startswith(_ABSENT, at):
            found.append(None)
            at += len(_ABSENT)
        else:
            present: list[Cell] = []
            at = _append_rows(data, at, present, 1)
            found += present
    if len(found) < count or data[at:] != b"\0":
        raise Unfamiliar
    return found


def _rows_announced(data: bytes) -> int:
    try:
        answer, _, rows, count = _ANSWER_HEAD.unpack_from(data)
    except TooShort:
        raise Unfamiliar from None
    if answer != _ANSWER or rows != _ROWS:
        raise Unfamiliar
    return int(count)


def _append_rows(data: bytes, at: int, cells: list[Cell], count: int) -> int:
    """Append the whole rows from `at` on to `cells`, until there are `count`; returns the offset
    behind them. Raises Unfamiliar."""
    head, middle, end = _ROW_HEAD.unpack_from, _ROW_MIDDLE.unpack_from, _ROW_END.unpack_from
    head_size, middle_size, end_size = _ROW_HEAD.size, _ROW_MIDDLE.size, _ROW_END.size
    append, begin = cells.append, at
    try:
        for _ in range(count - len(cells)):
            begin = at
            seen, size = head(data, at)
            if seen != _HEAD:
                raise Unfamiliar
            at += head_size
            key = data[at : at + size]
            at += size
            seen, size = middle(data, at)
            if seen != _MIDDLE:
                raise Unfamiliar
            at += middle_size
            value = data[at : at + size]
            at += size
            seen, ts, last = end(data, at)
            if seen != _TIMESTAMP or last != _END:
                raise Unfamiliar
            at += end_size
            append(make_cell((key, ts, value)))
    except TooShort:
        _require_part_of_row(data, begin)
        return begin
    return at


def _require_part_of_row(data: bytes, at: int) -> None:
    """Raises Unfamiliar if the bytes at `at` do not begin a row: the reader would wait for its end
    in vain."""
    for expected, follows in ((_HEAD, None), (_MIDDLE, None), (_TIMESTAMP, 8), (_END, 0)):
        if not expected.startswith(data[at : at + len(expected)]):
            raise Unfamiliar
        at += len(expected)
        at += 4 + int.from_bytes(data[at : at + 4]) if follows is None else follows
