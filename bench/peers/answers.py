"""Compares the answers of two systems. Drivers return different types for the same value."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from typing import Any

from bench.peers.port import Row
from bench.peers.script import TIES

_ROUNDED = Context(prec=12)
"""The last digits of a double depend on the order of a sum."""


def same(name: str, one: Sequence[Row], other: Sequence[Row]) -> bool:
    """Whether two answers of the statement `name` have the same rows, in any order. If a LIMIT
    chooses among ties, only the numbers of rows are compared."""
    if name in TIES:
        return len(one) == len(other)
    return Counter(map(_plain, one)) == Counter(map(_plain, other))


def _plain(row: Iterable[Any]) -> tuple[object, ...]:
    return tuple(map(_value, row))


def _value(value: object) -> object:
    match value:
        case bool():
            return value
        case int() | Decimal() | float():
            return _ROUNDED.create_decimal(repr(value) if isinstance(value, float) else value)
        case dt.datetime():
            return value.replace(tzinfo=None)
        case bytearray() | memoryview():
            return bytes(value)
        case _:
            return value
