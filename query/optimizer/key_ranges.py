"""The keys and key ranges that an access path reads, from the values of parameters at run time."""

from __future__ import annotations

import datetime as dt
import itertools
import operator
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

from hornbeam_server.query.binding.algebra import ParameterList
from hornbeam_server.query.optimizer.access_paths import Access, Parameters, Reach
from hornbeam_server.query.parsing.placeholders import Parameter
from hornbeam_server.schema.intervals import Interval
from hornbeam_server.schema.types import Kind, Row, Value
from hornbeam_server.storage.codec.keyrange import KeyRange


def value_of(operand: Any, parameters: Parameters) -> Value:
    """A constant, or the value of a parameter."""
    if isinstance(operand, Parameter):
        found: Value = parameters[operand.name]
        return found
    constant: Value = operand
    return constant


def values_of(operands: Iterable[Any], parameters: Parameters) -> Iterator[Value]:
    """Yield the values of constants, parameters and parameter lists."""
    for operand in operands:
        if isinstance(operand, ParameterList):
            yield from parameters[operand.name]
        else:
            yield value_of(operand, parameters)


def keys(access: Access, parameters: Parameters) -> list[tuple[Value, ...]]:
    """All distinct value tuples of the equalities, without NULLs except for IS NULL."""
    choices: list[list[Value]] = []
    for equality in access.equalities:
        if equality.null:
            choices.append([None])
            continue
        choices.append([v for v in values_of(equality.operands, parameters) if v is not None])
    if all(len(values) == 1 for values in choices):
        return [tuple(values[0] for values in choices)]
    return list(dict.fromkeys(itertools.product(*choices)))


def ranges(access: Access, parameters: Parameters) -> list[KeyRange]:
    """Key ranges that together hold every matching row, in the order to read them."""
    bounds = range_values(access, parameters)
    if bounds is None:
        return []
    found = [replace(bounds, prefix=key) for key in keys(access, parameters)]
    if access.nulls_apart is None:
        return found
    return [piece for item in found for piece in _nulls_apart(access, item)]


def _nulls_apart(access: Access, item: KeyRange) -> list[KeyRange]:
    """The values and the NULLs of the first free key part, in the order that is asked for."""
    part = access.layout.columns[access.layout.positions[access.next_part]]
    values, nulls = replace(item, low=LOWEST[part.type.kind]), KeyRange((*item.prefix, None))
    return [nulls, values] if access.nulls_apart == "first" else [values, nulls]


def range_values(access: Access, parameters: Parameters) -> KeyRange | None:
    """The range without its key prefix; None when a bound is NULL, which matches no row."""
    if access.reach is not Reach.RANGE:
        return KeyRange()
    if access.like is not None:
        pattern = value_of(access.like, parameters)
        return None if pattern is None else _like_range(str(pattern))
    low = value_of(access.low.operand, parameters) if access.low else None
    high = value_of(access.high.operand, parameters) if access.high else None
    if (access.low and low is None) or (access.high and high is None):
        return None
    return KeyRange(
        low=low,
        low_inclusive=access.low is None or access.low.inclusive,
        high=high,
        high_inclusive=access.high is None or access.high.inclusive,
    )


def row_in_range(access: Access, within: KeyRange) -> Callable[[Row], bool] | None:
    """Whether a row of the path's layout is in `within`, the range of the path's values. None if
    the path has no range, or if Python orders the values in another way than keys do."""
    if access.reach is not Reach.RANGE:
        return None
    position = access.layout.positions[access.next_part]
    if access.layout.columns[position].type.kind not in ORDERED_AS_KEYS:
        return None
    at_low = operator.ge if within.low_inclusive else operator.gt
    at_high = operator.le if within.high_inclusive else operator.lt
    low, high = within.low, within.high

    def inside(row: Row) -> bool:
        value = row[position]
        return (
            value is not None
            and (low is None or at_low(value, low))
            and (high is None or at_high(value, high))
        )

    return inside


def _like_range(pattern: str) -> KeyRange:
    """The range of all text that begins with the pattern's part before its first wildcard. A
    backslash takes the special meaning from the character behind it."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character in "%_":
            break
        parts.append(next(characters, "") if character == "\\" else character)
    start = "".join(parts)
    return KeyRange(low=start, high=successor(start), high_inclusive=False)


def successor(text: str) -> str | None:
    """The smallest text greater than all text that begins with `text`; None if none exists."""
    while text:
        last = ord(text[-1])
        if last < 0x10FFFF:
            return text[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)  # skip surrogates
        text = text[:-1]
    return None


LOWEST: dict[Kind, Value] = {
    Kind.INTEGER: -(1 << 31),
    Kind.BIGINT: -(1 << 63),
    Kind.DECIMAL: Decimal("-1e38"),
    Kind.DOUBLE: float("-inf"),
    Kind.BOOLEAN: False,
    Kind.TEXT: "",
    Kind.BYTES: b"",
    Kind.DATE: dt.date.min,
    Kind.TIME: dt.time.min,
    Kind.TIMESTAMP: dt.datetime.min,
    Kind.TIMESTAMPTZ: dt.datetime.min.replace(tzinfo=dt.UTC),
    Kind.INTERVAL: Interval(-(1 << 31), -(1 << 31), -(1 << 63)),
    Kind.UUID: uuid.UUID(int=0),
    Kind.JSON: "",
    Kind.ARRAY: (),
    Kind.ENUM: "",
}
"""The smallest value of each kind: a range from here excludes NULL and nothing else."""

ORDERED_AS_KEYS = frozenset(
    {
        *(Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.BOOLEAN, Kind.TEXT, Kind.BYTES),
        *(Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.UUID),
    }
)
"""Kinds whose values Python orders as their keys are ordered."""
