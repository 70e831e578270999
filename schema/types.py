"""Column types: which Python values they hold, and how foreign values become them.

A *value* is always one of the Python types of `Value`; rows are tuples of values in column
order, in every layer. JSON forms (decimals and instants as text, bytes as base64) are accepted
by `coerce` and made by `api`, nowhere else.
"""

from __future__ import annotations

import base64
import datetime as dt
import enum
import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, DecimalException
from typing import Any

from schema.errors import TypeMismatch

Value = None | bool | int | float | Decimal | str | bytes | dt.date | dt.datetime | uuid.UUID
Row = tuple[Value, ...]


class Kind(enum.StrEnum):
    """The closed set of types. JSON is kept as the text that was written."""

    INTEGER = "integer"
    BIGINT = "bigint"
    DECIMAL = "decimal"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    UUID = "uuid"
    JSON = "json"

    __hash__ = str.__hash__  # Enum's own is written in Python, and kinds are looked up per value


PYTHON_TYPES: dict[Kind, type] = {
    Kind.INTEGER: int,
    Kind.BIGINT: int,
    Kind.DECIMAL: Decimal,
    Kind.DOUBLE: float,
    Kind.BOOLEAN: bool,
    Kind.TEXT: str,
    Kind.BYTES: bytes,
    Kind.DATE: dt.date,
    Kind.TIMESTAMP: dt.datetime,
    Kind.TIMESTAMPTZ: dt.datetime,
    Kind.UUID: uuid.UUID,
    Kind.JSON: str,
}

_INTEGER_BITS = {Kind.INTEGER: 32, Kind.BIGINT: 64}
MAX_DECIMAL_PRECISION = 38
_ROUNDING = Context(prec=2 * MAX_DECIMAL_PRECISION, rounding=ROUND_HALF_UP)
"""Halves go away from zero, as in DuckDB. The thread's own context would refuse more than 28
digits."""
_UNITS = [Decimal((0, (1,), -scale)) for scale in range(MAX_DECIMAL_PRECISION + 1)]
"""By scale, what decimals are rounded to."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type with its parameters; `length` in characters, `precision` in decimal digits."""

    kind: Kind
    precision: int | None = None
    scale: int | None = None
    length: int | None = None

    def sql(self) -> str:
        """Name that DuckDB, PostgreSQL and our own loader all read."""
        match self.kind:
            case Kind.DECIMAL:
                return f"DECIMAL({self.precision},{self.scale})"
            case Kind.TEXT:
                return f"VARCHAR({self.length})" if self.length else "TEXT"
            case Kind.BYTES:
                return "BLOB"
            case Kind.TIMESTAMPTZ:
                return "TIMESTAMP WITH TIME ZONE"
            case _:
                return self.kind.value.upper()

    def coerce(self, value: Any) -> Value:
        """Turn `value` into this type's Python value, exactly or not at all.

        Accepts the Python type itself, wider numeric types when nothing is lost, and text for
        everything that JSON has no type for. Decimals are rounded to the scale, halves away from
        zero, as CAST does. Raises TypeMismatch.
        """
        if value is None:
            return None
        try:
            return _COERCIONS[self.kind](self, value)
        except (ValueError, ArithmeticError) as error:
            reason = "not a number in range" if isinstance(error, DecimalException) else error
            raise TypeMismatch(
                f"{_shown(value)} is not a value of type {self.sql()}: {reason}", type=self.sql()
            ) from None

    def coerce_all(self, values: Sequence[Any]) -> Sequence[Value]:
        """`coerce` for a whole column. Values that are this type's own already, as they come from
        Arrow or from another database, are only looked at, and at the speed of C; numbers that are
        all given as text, as CSV does, are read together."""
        present = [value for value in values if value is not None] if None in values else values
        owns, of_texts = _OWNS.get(self.kind), _OF_TEXTS.get(self.kind)
        types = {*map(type, present)}
        if owns is not None and types == {PYTHON_TYPES[self.kind]} and owns(self, present):
            return values
        if of_texts is not None and types == {str} and (found := of_texts(self, present)):
            left = iter(found)
            return found if present is values else [v if v is None else next(left) for v in values]
        coerce = self.coerce
        return [coerce(value) for value in values]

    def comparand(self, value: Any) -> Value:
        """`value` as something to compare this type's values with: never rounded, cut or refused
        for its length, since that would change the answer. Raises TypeMismatch."""
        match self.kind:
            case Kind.DECIMAL:
                exact = self.coerce(value)
                return exact if value is None or exact == (given := _exact(value)) else given
            case Kind.TEXT:
                return ColumnType(Kind.TEXT).coerce(value)
            case _:
                return self.coerce(value)


def _exact(value: Any) -> Decimal:
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_number(value: Any) -> None:
    if type(value) is Decimal or type(value) is int:
        return
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError("a number is wanted")
    if isinstance(value, str) and "_" in value:
        raise ValueError("digits are not grouped")


def _integer(type_: ColumnType, value: Any) -> int:
    _check_number(value)
    if isinstance(value, Decimal) and value.adjusted() > 20:
        raise ValueError("out of range")  # before int() writes out its zeros
    number = int(value)
    if not isinstance(value, str) and number != value:
        raise ValueError("it has a fraction")
    bits = _INTEGER_BITS[type_.kind]
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError("out of range")
    return number


def _decimal(type_: ColumnType, value: Any) -> Decimal:
    _check_number(value)
    # A float stands for its shortest decimal form: 0.1 means 0.1.
    number = value if type(value) is Decimal else _exact(value)
    if not number.is_finite():
        raise ValueError("it is not finite")
    precision, scale = type_.precision or MAX_DECIMAL_PRECISION, type_.scale or 0
    unit = _UNITS[scale]
    same = number.same_quantum(unit)
    rounded = number if same else number.quantize(unit, context=_ROUNDING)
    if rounded.adjusted() >= precision - scale and rounded:
        raise ValueError("out of range")
    return abs(rounded) if rounded == 0 else rounded  # no negative zero: keys and rows agree


def _double(_: ColumnType, value: Any) -> float:
    _check_number(value)
    number = float(value)
    if math.isnan(number):
        raise ValueError("NaN has no place in an ordered key; use NULL")
    if math.isinf(number) and "INF" not in str(value).upper():
        raise ValueError("out of range")
    return number + 0.0  # no negative zero: keys and rows agree


def _boolean(_: ColumnType, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false", "t", "f"}:
        return value.lower().startswith("t")
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise ValueError("true or false is wanted")


def _text(type_: ColumnType, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("text is wanted")
    if type_.length is not None and len(value) > type_.length:
        raise ValueError(f"longer than {type_.length} characters")
    value.encode()  # lone surrogates are no text
    return value


def _bytes(_: ColumnType, value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return base64.b64decode(value, validate=True)
    raise ValueError("bytes (or base64 text) are wanted")


def _date(_: ColumnType, value: Any) -> dt.date:
    if isinstance(value, dt.datetime):
        if value.time() != dt.time():
            raise ValueError("it has a time of day")
        return value.date()
    if isinstance(value, dt.date):
        return value
    if isinstance(value, str):
        return dt.date.fromisoformat(value)
    raise ValueError("a date is wanted")


def _moment(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)
    if isinstance(value, str):
        return dt.datetime.fromisoformat(value)
    raise ValueError("a timestamp is wanted")


def _timestamp(_: ColumnType, value: Any) -> dt.datetime:
    moment = _moment(value)
    if moment.tzinfo is not None:
        raise ValueError("it carries a time zone, the column has none")
    return moment.replace(fold=0) if moment.fold else moment


def _timestamptz(_: ColumnType, value: Any) -> dt.datetime:
    moment = _moment(value)
    if moment.tzinfo is None:
        raise ValueError("it carries no time zone, the column wants one")
    return moment.astimezone(dt.UTC)


def _uuid(_: ColumnType, value: Any) -> uuid.UUID:
    if isinstance(value, uuid.UUID):
        return value
    if isinstance(value, str):
        return uuid.UUID(value)
    raise ValueError("a UUID is wanted")


def _json(_: ColumnType, value: Any) -> str:
    import msgspec

    if not isinstance(value, str):
        raise ValueError("JSON text is wanted")
    try:
        msgspec.json.decode(value.encode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


_COERCIONS: dict[Kind, Callable[[ColumnType, Any], Value]] = {
    Kind.INTEGER: _integer,
    Kind.BIGINT: _integer,
    Kind.DECIMAL: _decimal,
    Kind.DOUBLE: _double,
    Kind.BOOLEAN: _boolean,
    Kind.TEXT: _text,
    Kind.BYTES: _bytes,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMPTZ: _timestamptz,
    Kind.UUID: _uuid,
    Kind.JSON: _json,
}


def _owns_integers(type_: ColumnType, values: Sequence[int]) -> bool:
    bits = _INTEGER_BITS[type_.kind]
    return -(1 << bits - 1) <= min(values) and max(values) < 1 << bits - 1


def _owns_decimals(type_: ColumnType, values: Sequence[Decimal]) -> bool:
    scale = type_.scale or 0
    unit, digits = _UNITS[scale], (type_.precision or MAX_DECIMAL_PRECISION) - scale
    return all(
        value.same_quantum(unit) and (value.adjusted() < digits if value else not value.is_signed())
        for value in values
    )


def _owns_texts(type_: ColumnType, values: Sequence[str]) -> bool:
    fits = type_.length is None or max(map(len, values)) <= type_.length
    return fits and all(map(str.isascii, values))


def _owns_timestamps(_: ColumnType, values: Sequence[dt.datetime]) -> bool:
    return all(value.tzinfo is None and not value.fold for value in values)


_OWNS: dict[Kind, Callable[[ColumnType, Sequence[Any]], bool]] = {
    Kind.INTEGER: _owns_integers,
    Kind.BIGINT: _owns_integers,
    Kind.DECIMAL: _owns_decimals,
    Kind.DOUBLE: lambda _, values: all(map(math.isfinite, values)) and all(values),
    Kind.BOOLEAN: lambda _, values: True,
    Kind.TEXT: _owns_texts,
    Kind.BYTES: lambda _, values: True,
    Kind.DATE: lambda _, values: True,
    Kind.TIMESTAMP: _owns_timestamps,
    Kind.UUID: lambda _, values: True,
}
"""Would `coerce` give back each of these values, of exactly the type's Python class, unchanged?

False only costs time: doubles of zero may be negative zero, text beyond ASCII a lone surrogate.
"""


def _integers_of_texts(type_: ColumnType, texts: Sequence[str]) -> list[int] | None:
    if "_" in "".join(texts):
        return None
    try:
        numbers = list(map(int, texts))
    except ValueError:
        return None
    return numbers if _owns_integers(type_, numbers) else None


def _decimals_of_texts(type_: ColumnType, texts: Sequence[str]) -> list[Decimal] | None:
    if "_" in "".join(texts):
        return None
    unit = _UNITS[type_.scale or 0]
    try:
        numbers = list(map(Decimal, texts))
        if not _owns_decimals(type_, numbers):
            numbers = [number.quantize(unit, context=_ROUNDING) for number in numbers]
    except ArithmeticError:
        return None
    return numbers if _owns_decimals(type_, numbers) else None


_OF_TEXTS: dict[Kind, Callable[[ColumnType, Sequence[str]], Sequence[Value] | None]] = {
    Kind.INTEGER: _integers_of_texts,
    Kind.BIGINT: _integers_of_texts,
    Kind.DECIMAL: _decimals_of_texts,
}
"""What `coerce` makes of each of these texts; None: ask it, it may refuse one."""
