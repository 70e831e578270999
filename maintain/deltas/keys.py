"""Values of one type as keys and bounds of a stored column of another: of numbers and of times."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from types import MappingProxyType
from typing import Any

from hornbeam_server.maintain.deltas.relations import Fields
from hornbeam_server.schema.types import ColumnType, Kind, Row, Value
from hornbeam_server.storage.codec.keys import part_encoder

Convert = Callable[[Any], Any]
_DIGITS = 400
"""More digits than a double or a decimal has before and after the point."""
_SPREAD = 1e-12
"""The share of a number within which two doubles may compare as equal."""
_END = b"\xff"
"""Above every encoded value."""
_EXACT = (Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL)


def stored_keys(keys: Iterable[Row], given: Fields, targets: Fields) -> list[Row]:
    """The distinct keys, whose columns are `given`, as values of `targets`; without NULLs, and
    without values that a column cannot hold."""
    pairs = zip(given, targets, strict=True)
    converts = [_exactly(field.type, target.type) for field, target in pairs]
    if any(converts):
        keys = [_converted(converts, key) for key in keys]
    return [key for key in dict.fromkeys(keys) if None not in key]


def _converted(converts: Sequence[Convert | None], key: Row) -> Row:
    pairs = zip(converts, key, strict=True)
    return tuple([value if convert is None else convert(value) for convert, value in pairs])


def _exactly(given: ColumnType, target: ColumnType) -> Convert | None:
    """The conversion to an equal value of `target`, or None; no conversion if all values are such
    values."""
    if target.kind is Kind.DOUBLE:
        return lambda value: None if value is None else value + 0.0  # no negative zero
    if target.kind not in _EXACT or given == target:
        return None
    rounded = _rounding(target, ROUND_FLOOR)

    def exact(value: Any) -> Any:
        found = None if value is None else rounded(value)
        return found if found == value else None

    return exact


def between(
    values: Iterable[Value], given: ColumnType, target: ColumnType, *, above: bool
) -> tuple[Value, Value] | None:
    """The lowest and the highest value (None: unbounded) of a column of type `target` between the
    old and the new value of a bound of type `given`; None if both are NULL or missing.

    If one is missing, all values beyond the other one: above or below it. Numbers are rounded so
    that no value between them is skipped.
    """
    found: list[Any] = [value for value in values if value is not None]
    if not found:
        return None
    doubles = Kind.DOUBLE in (given.kind, target.kind)
    lows, highs = ([_spread(v, sign) for v in found] if doubles else found for sign in (-1, 1))
    low = min(map(_bound(given, target, ROUND_FLOOR), lows), key=_order)
    high = max(map(_bound(given, target, ROUND_CEILING), highs), key=_order)
    if len(found) > 1:
        return low, high
    return (low, None) if above else (None, high)


def merged_ranges(
    keys: Iterable[Row], low: ColumnType, high: ColumnType, target: ColumnType
) -> list[tuple[Value, Value]]:
    """The ranges of a column of type `target` for pairs of a lowest and a highest value, of types
    `low` and `high` (None: unbounded). Ranges that overlap become one, and empty ones are left out.
    Numbers are rounded so that no value of a range is skipped."""
    down, up = _outward(low, target, -1), _outward(high, target, 1)
    encode, ranges = part_encoder(target.kind), dict[tuple[bytes, bytes], tuple[Value, Value]]()
    for row in keys:
        first, last = down(row[0]), up(row[1])
        place = b"" if first is None else encode(first), _END if last is None else encode(last)
        if place[0] <= place[1]:
            ranges[place] = first, last
    merged: list[tuple[Value, Value]] = []
    end = b""
    for place in sorted(ranges):
        if merged and place[0] <= end:
            merged[-1] = merged[-1][0], ranges[place][1] if place[1] > end else merged[-1][1]
        else:
            merged.append(ranges[place])
        end = max(end, place[1])
    return merged


def _outward(given: ColumnType, target: ColumnType, sign: int) -> Convert:
    """The conversion of a lower (-1) or upper (1) limit."""
    bound = _bound(given, target, ROUND_FLOOR if sign < 0 else ROUND_CEILING)
    spread = Kind.DOUBLE in (given.kind, target.kind)

    def limit(value: Any) -> Any:
        if value is None:
            return None
        return bound(_spread(value, sign) if spread else value)

    return limit


def _order(value: Any) -> tuple[bool, Any]:
    """NaN is above all numbers, as in DuckDB."""
    return value != value, value  # noqa: PLR0124


def _spread(value: Any, sign: int) -> float:
    number = float(value)
    return number + sign * abs(number) * _SPREAD if math.isfinite(number) else number


def _bound(given: ColumnType, target: ColumnType, rounding: str) -> Convert:
    if given.kind in _TIMES and target.kind in _TIMES and given.kind is not target.kind:
        return _TIMES[target.kind]
    if target.kind not in _EXACT or given == target:
        return lambda value: value
    return _rounding(target, rounding)


def _as_timestamp(value: dt.date) -> dt.datetime:
    """A time as one in UTC, without a zone."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return dt.datetime.combine(value, dt.time())


_TIMES: Mapping[Kind, Convert] = MappingProxyType(
    {
        Kind.DATE: lambda value: _as_timestamp(value).date(),
        Kind.TIMESTAMP: _as_timestamp,
        Kind.TIMESTAMPTZ: lambda value: _as_timestamp(value).replace(tzinfo=dt.UTC),
    }
)
"""Conversions of a time to another type. That to a date rounds down: no date lies between a time
and the midnight before it. So an upper limit is exact, and a lower one is at most a day too low."""


def _rounding(type_: ColumnType, rounding: str) -> Convert:
    """The conversion of a number to the next value of the type, which is the first or the last one
    for a number beyond them. NaN is beyond all numbers, as in DuckDB."""
    unit = Decimal(1).scaleb(-(type_.scale or 0))
    context = Context(prec=_DIGITS, rounding=rounding)
    first, last = _ends(type_, unit, context)
    plain = _unsigned if type_.kind is Kind.DECIMAL else int

    def rounded(value: Any) -> Any:
        number = last if value != value else min(max(Decimal(value), first), last)  # noqa: PLR0124
        return plain(context.quantize(number, unit))

    return rounded


def _unsigned(number: Decimal) -> Decimal:
    return number if number else abs(number)  # no negative zero


def _ends(type_: ColumnType, unit: Decimal, context: Context) -> tuple[Decimal, Decimal]:
    if type_.kind is not Kind.DECIMAL:
        numbers = type_.integers
        return Decimal(numbers[0]), Decimal(numbers[-1])
    above = Decimal(10) ** ((type_.precision or 0) - (type_.scale or 0))
    last = context.subtract(above, unit)
    return context.minus(last), last
