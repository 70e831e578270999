"""PostgreSQL's functions of arrays, over tuples. Arguments are not NULL unless the function says
so; elements may be NULL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam_server.query.dialect.array_macros import NO_PLACE
from hornbeam_server.schema.errors import TypeMismatch

Array = tuple[Any, ...]


def at(array: Array, place: int) -> Any:
    """The element at a place, counted from 1; NULL outside of the array."""
    return array[place - 1] if 1 <= place <= len(array) else None


def part(array: Array, first: int, last: int) -> Array:
    """The elements from `first` to `last`."""
    return array[max(first, 1) - 1 : max(last, 0)]


def contains(array: Array, other: Array) -> bool:
    """`@>`: an element that is NULL equals no other."""
    return None not in other and set(array).issuperset(other)


def contained(array: Array, other: Array) -> bool:
    return contains(other, array)


def overlaps(array: Array, other: Array) -> bool:
    return not {each for each in array if each is not None}.isdisjoint(other)


def concatenated(array: Array | None, other: Array | None) -> Array | None:
    """`||`, for which NULL is an empty array."""
    if array is None or other is None:
        return other if array is None else array
    return array + other


def appended(array: Array | None, element: Any) -> Array:
    return (*(array or ()), element)


def assigned(array: Array | None, place: int | None, element: Any) -> Array:
    """The array whose element at `place`, from 1, is another; NULLs are between it and the end of a
    shorter array. Raises TypeMismatch."""
    if place is None or place < 1:
        raise TypeMismatch(NO_PLACE)
    known = array or ()
    gap = (None,) * (place - 1 - len(known))
    return (*known[: place - 1], *gap, element, *known[place:])


def prepended(element: Any, array: Array | None) -> Array:
    return (element, *(array or ()))


def removed(array: Array | None, element: Any) -> Array | None:
    """The array without the elements that equal `element`, which may be NULL."""
    return None if array is None else tuple([each for each in array if each != element])


def replaced(array: Array | None, element: Any, new: Any) -> Array | None:
    if array is None:
        return None
    return tuple([new if each == element else each for each in array])


def position(array: Array | None, element: Any) -> int | None:
    """The place of the first element that equals `element`, which may be NULL."""
    return array.index(element) + 1 if array is not None and element in array else None


def position_from(array: Array | None, element: Any, start: int | None) -> int | None:
    """The place of the first element, from the place `start` on, that equals `element`."""
    if array is None or start is None:
        return None
    begin = max(start, 1)
    found = position(array[begin - 1 :], element)
    return None if found is None else found + begin - 1


def positions(array: Array | None, element: Any) -> Array | None:
    if array is None:
        return None
    return tuple([i for i, each in enumerate(array, start=1) if each == element])


def length(array: Array, dimension: int) -> int | None:
    """The number of elements; NULL of an empty array, which has no dimension."""
    return len(array) if array and dimension == 1 else None


def lower(array: Array, dimension: int) -> int | None:
    return 1 if array and dimension == 1 else None


def dimensions(array: Array) -> int | None:
    return 1 if array else None


def bounds(array: Array) -> str | None:
    return f"[1:{len(array)}]" if array else None


def split(text: str | None, sign: str | None, null: str | None) -> Array | None:
    """string_to_array: all characters without a sign, and the whole text for an empty one. A part
    that equals `null` is NULL."""
    if text is None:
        return None
    parts: Sequence[str] = [text] if text else []
    if text and sign is None:
        parts = list(text)
    elif text and sign:
        parts = text.split(sign)
    return tuple([None if null is not None and each == null else each for each in parts])
