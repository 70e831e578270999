"""Enumerations: CREATE TYPE … AS ENUM. Their labels have an order, and a stored value is the
position of its label.

A position is a short text of digits and lower-case letters. The texts, ordered by bytes, are in
the order of the labels, and between two of them there is always another one. So a label that is
added or renamed changes no stored row, and keys, indexes and DuckDB order values as labels are
ordered. A position never ends with the digit 0, below which there would be no room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

from hornbeam_server.schema.identifiers import identifier

MAX_LABEL_BYTES = 63
"""Maximum bytes of a label in UTF-8, as in PostgreSQL."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Label(str):
    """A value of an enumeration: a text that is ordered by its position among the labels."""

    __slots__ = ("enumeration", "position")
    enumeration: Enumeration
    position: str
    of: ClassVar[Enumeration]
    """The enumeration of a class of labels (`Enumeration.class_`)."""

    def __new__(cls, text: str, enumeration: Enumeration, position: str) -> Self:
        self = str.__new__(cls, text)
        self.enumeration, self.position = enumeration, position
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _label, (self.enumeration, self.position)

    def __lt__(self, other: Any) -> bool:
        return self.position < other.position if isinstance(other, Label) else str(self) < other

    def __le__(self, other: Any) -> bool:
        return self.position <= other.position if isinstance(other, Label) else str(self) <= other

    def __gt__(self, other: Any) -> bool:
        return self.position > other.position if isinstance(other, Label) else str(self) > other

    def __ge__(self, other: Any) -> bool:
        return self.position >= other.position if isinstance(other, Label) else str(self) >= other

    __eq__ = str.__eq__
    __hash__ = str.__hash__


def _label(enumeration: Enumeration, position: str) -> Label:
    return enumeration.by_position[position]


def position_of(value: Any) -> Any:
    """The position of a label; any other value, such as NULL or a position, unchanged."""
    return value.position if isinstance(value, Label) else value


def stored_position(value: Any) -> str:
    """The position of a label. Raises TypeError for a value of another type."""
    if isinstance(value, Label):
        return value.position
    raise TypeError(f"{type(value).__name__} is not stored")


@dataclass(frozen=True)
class Enumeration:
    """The type `name` in the schema `space` (`namespaces.py`; "" is `public`): its labels in their
    order, each with its position."""

    space: str
    name: str
    labels: tuple[str, ...]
    positions: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return Enumeration, (self.space, self.name, self.labels, self.positions)

    @classmethod
    def of(cls, space: str, name: str, labels: Sequence[str]) -> Enumeration:
        """A new enumeration, whose positions leave room between all labels."""
        return cls(space, name, tuple(labels), tuple(spread(len(labels))))

    @cached_property
    def by_label(self) -> Mapping[str, Label]:
        return {str(label): label for label in self.by_position.values()}

    @cached_property
    def by_position(self) -> Mapping[str, Label]:
        return {
            position: self.class_(label, self, position)
            for label, position in zip(self.labels, self.positions, strict=True)
        }

    @cached_property
    def class_(self) -> type[Label]:
        """The class of the labels of this enumeration, by which decoders of rows know it."""
        found: type[Label] = type("Label", (Label,), {"__slots__": (), "of": self})
        return found

    @property
    def full(self) -> str:
        """The full name (`namespaces.py`)."""
        return f"{self.space}.{self.name}" if self.space else self.name

    @property
    def sql(self) -> str:
        """The name in SQL."""
        name = identifier(self.name)
        return f"{identifier(self.space)}.{name}" if self.space else name

    def holds(self, other: Enumeration) -> bool:
        """Has this enumeration all labels of `other`, an earlier form, at their positions?"""
        mine = set(self.positions)
        same = (self.space, self.name) == (other.space, other.name)
        return same and mine.issuperset(other.positions)

    def following(self, before: Enumeration) -> Enumeration:
        """These labels, with the positions that `before`, an earlier form, gives to them. The
        labels of `before` must be among these, in the same order."""
        known = dict(zip(before.labels, before.positions, strict=True))
        positions = tuple(_filled([known.get(label) for label in self.labels]))
        return Enumeration(self.space, self.name, self.labels, positions)

    def keeps_order_of(self, before: Enumeration) -> bool:
        """Are all labels of `before` among these, in the same order?"""
        kept = tuple(label for label in self.labels if label in before.labels)
        return kept == before.labels


def spread(count: int) -> Iterator[str]:
    """Positions for so many labels, at equal distances."""
    width, base = 1, len(_DIGITS)
    while base**width <= count + 1:
        width += 1
    step = base**width // (count + 1)
    for number in range(step, step * count + 1, step):
        yield _written(number, width).rstrip(_DIGITS[0])


def _written(number: int, width: int) -> str:
    digits = ""
    for _ in range(width):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits


def between(low: str, high: str | None) -> str:
    """A position behind `low` ("": there is none) and before `high` (None: there is none)."""
    if high is not None:
        same = 0
        while (low[same : same + 1] or _DIGITS[0]) == high[same]:
            same += 1
        if same:
            return high[:same] + between(low[same:], high[same:])
    first = _DIGITS.index(low[0]) if low else 0
    last = len(_DIGITS) if high is None else _DIGITS.index(high[0])
    if last - first > 1:
        return _DIGITS[(first + last) // 2]
    if high is not None and len(high) > 1:
        return high[0]
    return _DIGITS[first] + between(low[1:], None)


def _filled(positions: Sequence[str | None]) -> Iterator[str]:
    """The positions, with new ones for None."""
    before = ""
    for at, position in enumerate(positions):
        following = next((known for known in positions[at:] if known is not None), None)
        before = position if position is not None else between(before, following)
        yield before


def are_ordered(positions: Iterable[str]) -> bool:
    return all(low < high for low, high in pairwise(positions))
