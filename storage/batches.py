"""Parts of answers that are bounded by the bytes of their values. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from hornbeam_server.storage.ports import Cell

T = TypeVar("T")


def fitting(cells: Sequence[Cell | None], room: int) -> int:
    """The number of `cells` up to the one at which their values reach `room` bytes, or of all."""
    for count, cell in enumerate(cells, start=1):
        if cell is not None and (room := room - len(cell.value)) <= 0:
            return count
    return len(cells)


def parts_within(rows: list[T], values: Sequence[bytes], room: int) -> Iterator[list[T]]:
    """All `rows` in parts, each up to the row at which its values reach `room` bytes. `values` are
    the values of the rows."""
    begin, left = 0, room
    for end, value in enumerate(values, start=1):
        left -= len(value)
        if left <= 0:
            yield rows[begin:end]
            begin, left = end, room
    if begin < len(rows):
        yield rows[begin:]


def groups_within(groups: Sequence[list[Cell]], room: int) -> list[list[Cell]]:
    """The longest list of first groups whose values have at most `room` bytes in all."""
    found: list[list[Cell]] = []
    for cells in groups:
        room -= bytes_of_values(cells)
        if room < 0:
            break
        found.append(cells)
    return found


def bytes_of_values(cells: Sequence[Cell | None]) -> int:
    return sum([len(cell.value) for cell in cells if cell is not None])
