"""Column types: their Python values, and the conversion of external values.

A *value* always has one of the Python types of `Value`; rows are tuples of values in column order,
in every layer. JSON forms (decimals and timestamps as text, bytes as base64) are only accepted by
`coerce` and only written by `api`. `schema.spelling` reads all text.
"""

from __future__ import annotations

import base64
import datetime as dt
import enum
import math
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal, DecimalException
from typing import Any

from hornbeam_server.schema import arrays, jsonb, spelling
from hornbeam_server.schema.enumerations import Enumeration, Label
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.intervals import Interval, interval, of_timedelta, within_range
from hornbeam_server.schema.reals import real_of
from hornbeam_server.schema.seconds import SECOND_DIGITS, round_to

Scalar = (
    None
    | bool
    | int
    | float
    | Decimal
    | str
    | bytes
    | dt.date
    | dt.datetime
    | dt.time
    | Interval
    | uuid.UUID
)
Value = Scalar | tuple[Scalar, ...]
Row = tuple[Value, ...]


class Kind(enum.StrEnum):
    """The closed set of types. JSON is stored as the original text, JSONB as its canonical text."""

    INTEGER = "integer"
    BIGINT = "bigint"
    DECIMAL = "decimal"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    INTERVAL = "interval"
    UUID = "uuid"
    JSON = "json"
    ARRAY = "array"
    ENUM = "enum"

    __hash__ = str.__hash__  # Enum's own is slow Python code, and kinds are looked up per value


MAX_TEXT = 1_000
"""Maximum characters of a number, date or other value given as text. The time to read a value grows
faster than linearly."""
MOMENTS = frozenset({Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
"""The types with a time of day, whose precision is the number of decimals of a second."""
LONG = frozenset({Kind.TEXT, Kind.BYTES, Kind.JSON, Kind.ARRAY})
"""The types whose values may be long."""
UNORDERED = frozenset({Kind.JSON, Kind.ARRAY})
"""The types that are in no key and no index: equal JSON may be written differently, and an array
has any number of elements."""


class Declared(enum.StrEnum):
    """A declared type that is stored as a wider type and limits its values."""

    SMALLINT = "smallint"
    """Whole numbers of 16 bits, stored as INTEGER."""
    NUMERIC = "numeric"
    """NUMERIC without precision, stored as DECIMAL(38,9). A value with more digits is refused."""
    JSONB = "jsonb"
    """JSON whose text is canonical (`schema.jsonb`), so that equal values have equal texts."""
    CHAR = "char"
    """Text without the blanks at its end, so that values that differ in them only are equal."""
    REAL = "real"
    """Floats of 32 bits, stored as DOUBLE (`schema.reals`)."""


_KEPT = frozenset({None, Declared.JSONB, Declared.CHAR, Declared.REAL})
"""The declared types that a stored type keeps."""


PYTHON_TYPES: dict[Kind, type] = {
    Kind.INTEGER: int,
    Kind.BIGINT: int,
    Kind.DECIMAL: Decimal,
    Kind.DOUBLE: float,
    Kind.BOOLEAN: bool,
    Kind.TEXT: str,
    Kind.BYTES: bytes,
    Kind.DATE: dt.date,
    Kind.TIME: dt.time,
    Kind.TIMESTAMP: dt.datetime,
    Kind.TIMESTAMPTZ: dt.datetime,
    Kind.INTERVAL: Interval,
    Kind.UUID: uuid.UUID,
    Kind.JSON: str,
    Kind.ARRAY: tuple,
    Kind.ENUM: Label,
}

_INTEGER_BITS = {Kind.INTEGER: 32, Kind.BIGINT: 64}
MAX_DECIMAL_PRECISION = 38
NUMERIC_SCALE = 9
"""The scale of NUMERIC without precision. It leaves the product of two such columns 20 digits
before the decimal point."""
_ROUNDING = Context(prec=2 * MAX_DECIMAL_PRECISION, rounding=ROUND_HALF_UP)
"""Halves are rounded away from zero, as in DuckDB. The thread's own context would refuse more than
28 digits."""
_UNITS = [Decimal((0, (1,), -scale)) for scale in range(MAX_DECIMAL_PRECISION + 1)]
"""Scale → the unit to which decimals are rounded."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type with its parameters; `length` in characters, `precision` in decimal digits, of a time
    in decimals of a second (None: six). `element` is the type of an array's elements, which are
    neither arrays nor JSON. `enumeration` is that of an ENUM."""

    kind: Kind
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    declared: Declared | None = None
    element: ColumnType | None = None
    enumeration: Enumeration | None = None

    def ddl(self) -> str:
        """The name of the declared type, for Hornbeam's loader and for PostgreSQL."""
        if self.declared is Declared.CHAR:
            return f"CHAR({self.length})" if self.length else "BPCHAR"
        if self.declared is not None:
            return self.declared.upper()
        if self.element is not None:
            return f"{self.element.ddl()}[]"
        if self.kind in MOMENTS and self.precision is not None:
            name, zone, rest = self.sql().partition(" WITH")
            return f"{name}({self.precision}){zone}{rest}"
        return self.sql()

    def stored(self) -> ColumnType:
        """The stored type: the type of computed values, and of values to compare with. JSONB,
        CHAR(n) and REAL remain: values of JSONB and CHAR(n) are compared by their canonical texts,
        and a REAL is computed and shown with its own digits."""
        if self.kind in MOMENTS and self.precision is not None:
            return ColumnType(self.kind)
        if self.element is not None:
            return array_of(self.element.stored())
        return self if self.declared in _KEPT else replace(self, declared=None)

    def sql(self) -> str:
        """The name of the stored type, which DuckDB, PostgreSQL and Hornbeam's loader all read. A
        REAL is a REAL there, too."""
        if self.declared is Declared.REAL:
            return "REAL"
        match self.kind:
            case Kind.DECIMAL:
                return f"DECIMAL({self.precision},{self.scale})"
            case Kind.TEXT:
                return f"VARCHAR({self.length})" if self.length else "TEXT"
            case Kind.BYTES:
                return "BLOB"
            case Kind.TIMESTAMPTZ:
                return "TIMESTAMP WITH TIME ZONE"
            case Kind.ARRAY:
                return f"{self.element_type.sql()}[]"
            case Kind.ENUM:
                return self.labels.sql
            case _:
                return self.kind.value.upper()

    @property
    def element_type(self) -> ColumnType:
        """The type of an array's elements."""
        assert self.element is not None
        return self.element

    @property
    def labels(self) -> Enumeration:
        """The enumeration of an ENUM."""
        assert self.enumeration is not None
        return self.enumeration

    @property
    def integers(self) -> range:
        """All numbers of an integer type. Raises KeyError for other types."""
        bits = _INTEGER_BITS[self.kind]
        return range(-(1 << bits - 1), 1 << bits - 1)

    @property
    def declared_integers(self) -> range:
        """The numbers that a column of this integer type takes. Raises KeyError for other types."""
        bits = _bits(self)
        return range(-(1 << bits - 1), 1 << bits - 1)

    def coerce(self, value: Any) -> Value:
        """Convert `value` to this type's Python value, without loss.

        Accepts the Python type itself, wider numeric types if nothing is lost, and text for all
        types that JSON lacks. Decimals are rounded to the scale, halves away from zero, as CAST
        does. Raises TypeMismatch.
        """
        if value is None:
            return None
        if isinstance(value, str) and len(value) > MAX_TEXT and self.kind not in LONG:
            raise TypeMismatch(
                f"{_shown(value)} is not a value of type {self.sql()}: it has {len(value)}"
                " characters.",
                cure=f"Values of other types than text have at most {MAX_TEXT} characters.",
                type=self.sql(),
            )
        try:
            return _COERCIONS[self.kind](self, value)
        except (ValueError, ArithmeticError) as error:
            reason = "not a number in range" if isinstance(error, DecimalException) else error
            raise TypeMismatch(
                f"{_shown(value)} is not a value of type {self.ddl()}: {reason}.", type=self.ddl()
            ) from None

    def coerce_all(self, values: Sequence[Any]) -> Sequence[Value]:
        """`coerce` for a whole column. Values that already have this type, as from Arrow or another
        database, are only checked, at the speed of C. If all numbers are text, as in CSV, they are
        read together."""
        present = [value for value in values if value is not None] if None in values else values
        owns, of_texts = _OWNS.get(self.kind), _OF_TEXTS.get(self.kind)
        types = {*map(type, present)}
        if owns is not None and types == {PYTHON_TYPES[self.kind]} and owns(self, present):
            return values
        short = types == {str} and max(map(len, present)) <= MAX_TEXT
        if of_texts is not None and short and (found := of_texts(self, present)):
            left = iter(found)
            return found if present is values else [v if v is None else next(left) for v in values]
        coerce = self.coerce
        return [coerce(value) for value in values]

    def comparand(self, value: Any) -> Value:
        """`value` for a comparison with this type's values: it is never rounded, cut or refused for
        its length, since that would change the answer. Raises TypeMismatch."""
        match self.kind:
            case Kind.DECIMAL:
                exact = self.stored().coerce(value)
                return exact if value is None or exact == (given := _exact(value)) else given
            case Kind.TEXT:
                return replace(self, length=None).coerce(value)
            case Kind.ARRAY if not isinstance(value, str | None):
                return arrays.values_of(value, self.element_type.comparand)
            case Kind.DOUBLE if not isinstance(value, str):
                return ColumnType(Kind.DOUBLE).coerce(value)
            case _:
                return self.stored().coerce(value)


JSONB = ColumnType(Kind.JSON, declared=Declared.JSONB)
REAL = ColumnType(Kind.DOUBLE, declared=Declared.REAL)
SMALLINT = ColumnType(Kind.INTEGER, declared=Declared.SMALLINT)


def compared_type(type_: ColumnType) -> ColumnType:
    """The type of a number to compare with values of `type_`: a REAL is compared with a number as a
    DOUBLE, so that 0.1::REAL is not 0.1."""
    return ColumnType(Kind.DOUBLE) if type_ == REAL else type_


def array_of(element: ColumnType) -> ColumnType:
    return ColumnType(Kind.ARRAY, element=element)


def enum_of(enumeration: Enumeration) -> ColumnType:
    return ColumnType(Kind.ENUM, enumeration=enumeration)


def enumeration_of(type_: ColumnType | None) -> Enumeration | None:
    """The enumeration of an ENUM, or of an array of them; None for other types."""
    if type_ is None:
        return None
    return (type_.element or type_).enumeration


def as_text(type_: ColumnType) -> ColumnType:
    """The type, with TEXT for an ENUM: that of a result, which shows labels."""
    if type_.element is not None:
        return array_of(as_text(type_.element)) if enumeration_of(type_) else type_
    return type_ if type_.enumeration is None else ColumnType(Kind.TEXT)


def encoded_alike(one: ColumnType, other: ColumnType) -> bool:
    """Have values of both types the same bytes in rows and keys, if they are equal?"""
    return one == other or _encoding(one) == _encoding(other)


def _encoding(type_: ColumnType) -> ColumnType:
    """The type with the most values among those that are encoded alike."""
    match type_:
        case ColumnType(Kind.INTEGER | Kind.BIGINT):
            return ColumnType(Kind.BIGINT)
        case ColumnType(Kind.DECIMAL, scale=scale):
            return ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, scale)
        case ColumnType(Kind.JSON) | ColumnType(Kind.TEXT):
            return ColumnType(Kind.TEXT)
        case ColumnType(Kind.TIME | Kind.TIMESTAMP | Kind.TIMESTAMPTZ | Kind.DOUBLE as kind):
            return ColumnType(kind)
        case ColumnType(Kind.ENUM):
            return enum_of(replace(type_.labels, labels=(), positions=()))
        case ColumnType(Kind.ARRAY):
            return array_of(_encoding(type_.element_type))
        case _:
            return type_


def takes_all(wider: ColumnType, narrower: ColumnType) -> bool:
    """Is each value of `narrower` a value of `wider`, with the same bytes?"""
    if not encoded_alike(wider, narrower) or wider.kind is Kind.JSON is not narrower.kind:
        return False
    if wider == JSONB != narrower:
        return False
    match wider.kind:
        case Kind.INTEGER | Kind.BIGINT:
            return _bits(wider) >= _bits(narrower)
        case Kind.DECIMAL:
            return (wider.precision or 0) >= (narrower.precision or 0)
        case Kind.TEXT if wider.declared is Declared.CHAR is not narrower.declared:
            return False  # a text may have blanks at its end
        case Kind.DOUBLE:
            return wider != REAL or narrower == REAL
        case Kind.TEXT:
            return wider.length is None or wider.length >= (narrower.length or wider.length + 1)
        case Kind.TIME | Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            digits = SECOND_DIGITS if wider.precision is None else wider.precision
            return digits >= (SECOND_DIGITS if narrower.precision is None else narrower.precision)
        case Kind.ENUM:
            return wider.labels.holds(narrower.labels)
        case Kind.ARRAY:
            return takes_all(wider.element_type, narrower.element_type)
        case _:
            return True


def _exact(value: Any) -> Decimal:
    if isinstance(value, str):
        return spelling.decimal(value)
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, Decimal) else repr(_beginning(value))
    return text if len(text) <= 60 else text[:57] + "..."


def _beginning(value: Any) -> Any:
    return value[:60] if isinstance(value, str | bytes) else value


def _check_number(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError("a number is wanted")


def _integer(type_: ColumnType, value: Any) -> int:
    number = spelling.integer(value) if isinstance(value, str) else _whole(value)
    bits = _bits(type_)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError("out of range")
    return number


def _whole(value: Any) -> int:
    _check_number(value)
    if isinstance(value, Decimal) and value.adjusted() > 20:
        raise ValueError("out of range")  # int() would write out all its zeros
    number = int(value)
    if number != value:
        raise ValueError("it has a fraction")
    return number


def _bits(type_: ColumnType) -> int:
    return 16 if type_.declared is Declared.SMALLINT else _INTEGER_BITS[type_.kind]


def _decimal(type_: ColumnType, value: Any) -> Decimal:
    if isinstance(value, str):
        number = spelling.decimal(value)
    else:
        _check_number(value)
        # A float means its shortest decimal form: 0.1 means 0.1.
        number = value if type(value) is Decimal else _exact(value)
    if not number.is_finite():
        raise ValueError("it is not finite")
    precision, scale = type_.precision or MAX_DECIMAL_PRECISION, type_.scale or 0
    unit = _UNITS[scale]
    same = number.same_quantum(unit)
    rounded = number if same else number.quantize(unit, context=_ROUNDING)
    if type_.declared is Declared.NUMERIC and rounded != number:
        raise ValueError(f"more than {scale} decimal places; declare NUMERIC(precision, scale)")
    if rounded.adjusted() >= precision - scale and rounded:
        raise ValueError("out of range")
    return abs(rounded) if rounded == 0 else rounded  # no negative zero: keys and rows agree


def _double(type_: ColumnType, value: Any) -> float:
    if isinstance(value, str):
        number = spelling.real(value) if type_ == REAL else spelling.double(value)
    else:
        _check_number(value)
        number = real_of(value) if type_ == REAL else float(value)
    if math.isnan(number):
        raise ValueError("NaN has no place in an ordered key; use NULL")
    if math.isinf(number) and not isinstance(value, str) and "INF" not in str(value).upper():
        raise ValueError("out of range")
    return number + 0.0  # no negative zero: keys and rows agree


def _boolean(_: ColumnType, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return spelling.boolean(value)
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise ValueError("true or false is wanted")


def _text(type_: ColumnType, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("text is wanted")
    if type(value) is not str:
        value = str(value)
    text = without_padding(type_, value)
    if type_.length is not None and len(text) > type_.length:
        raise ValueError(f"longer than {type_.length} characters")
    text.encode()  # raises for lone surrogates, which are not text
    return text


def without_padding(type_: ColumnType, text: str) -> str:
    """A text without the blanks at its end, if these do not count in values of `type_`."""
    return text.rstrip(" ") if type_.declared is Declared.CHAR else text


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
        return spelling.date(value)
    raise ValueError("a date is wanted")


def _moment(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)
    raise ValueError("a timestamp is wanted")


def _timestamp(type_: ColumnType, value: Any) -> dt.datetime:
    moment = spelling.timestamp(value) if isinstance(value, str) else _moment(value)
    if moment.tzinfo is not None:
        raise ValueError("it carries a time zone, the column has none")
    found: dt.datetime = round_to(type_.precision, moment)
    return found.replace(fold=0) if found.fold else found


def _timestamptz(type_: ColumnType, value: Any) -> dt.datetime:
    moment = spelling.timestamptz(value) if isinstance(value, str) else _moment(value)
    if moment.tzinfo is None:
        raise ValueError("it carries no time zone, the column wants one")
    found: dt.datetime = round_to(type_.precision, moment.astimezone(dt.UTC))
    return found


def _time(type_: ColumnType, value: Any) -> dt.time:
    given = spelling.time(value) if isinstance(value, str) else value
    if not isinstance(given, dt.time):
        raise ValueError("a time of day is wanted")
    if given.tzinfo is not None:
        raise ValueError("it carries a time zone, the column has none")
    found: dt.time = round_to(type_.precision, given)
    return found.replace(fold=0) if found.fold else found


def _interval(_: ColumnType, value: Any) -> Interval:
    if isinstance(value, str):
        return interval(value)
    if isinstance(value, dt.timedelta):
        value = of_timedelta(value)
    if not isinstance(value, Interval):
        raise ValueError("an interval is wanted")
    return within_range(value)


def _uuid(_: ColumnType, value: Any) -> uuid.UUID:
    if isinstance(value, uuid.UUID):
        return value
    if isinstance(value, str):
        return spelling.uuid_of(value)
    raise ValueError("a UUID is wanted")


def _json(type_: ColumnType, value: Any) -> str:
    import msgspec

    if not isinstance(value, str):
        raise ValueError("JSON text is wanted")
    if type_.declared is Declared.JSONB:
        return jsonb.canonical(value)
    jsonb.require_shallow(value)
    try:
        msgspec.json.decode(value.encode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _array(type_: ColumnType, value: Any) -> Value:
    element = type_.element_type
    if isinstance(value, str):
        read = spelling.sql_bytes if element.kind is Kind.BYTES else element.coerce
        return arrays.values_of(arrays.elements_of(value), read)
    if not isinstance(value, list | tuple):
        raise ValueError("a list is wanted")
    return arrays.values_of(value, element.coerce)


def _enum(type_: ColumnType, value: Any) -> Label:
    labels = type_.labels
    if isinstance(value, Label):
        of, known = value.enumeration, labels.by_position.get(value.position)
        if known is not None and (of.space, of.name) == (labels.space, labels.name):
            return known
        raise ValueError(f"it belongs to the type {of.sql}")
    if not isinstance(value, str):
        raise ValueError("a label is wanted")
    found = labels.by_label.get(value)
    if found is None:
        raise TypeMismatch(
            f'Invalid input value for enum {labels.sql}: "{value[:MAX_TEXT]}".',
            cure=f"Its labels are: {', '.join(labels.labels)}.",
            type=labels.sql,
        )
    return found


_COERCIONS: dict[Kind, Callable[[ColumnType, Any], Value]] = {
    Kind.INTEGER: _integer,
    Kind.BIGINT: _integer,
    Kind.DECIMAL: _decimal,
    Kind.DOUBLE: _double,
    Kind.BOOLEAN: _boolean,
    Kind.TEXT: _text,
    Kind.BYTES: _bytes,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMPTZ: _timestamptz,
    Kind.INTERVAL: _interval,
    Kind.UUID: _uuid,
    Kind.JSON: _json,
    Kind.ARRAY: _array,
    Kind.ENUM: _enum,
}


def _owns_integers(type_: ColumnType, values: Sequence[int]) -> bool:
    bits = _bits(type_)
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
    if type_.declared is Declared.CHAR:
        fits = fits and not any(value.endswith(" ") for value in values)
    return fits and all(map(str.isascii, values))


def _owns_times(type_: ColumnType, values: Sequence[dt.datetime | dt.time]) -> bool:
    if type_.precision is not None:
        return False
    return all(value.tzinfo is None and not value.fold for value in values)


_OWNS: dict[Kind, Callable[[ColumnType, Sequence[Any]], bool]] = {
    Kind.INTEGER: _owns_integers,
    Kind.BIGINT: _owns_integers,
    Kind.DECIMAL: _owns_decimals,
    Kind.DOUBLE: lambda type_, values: (
        type_ != REAL and all(map(math.isfinite, values)) and all(values)
    ),
    Kind.BOOLEAN: lambda _, values: True,
    Kind.TEXT: _owns_texts,
    Kind.BYTES: lambda _, values: True,
    Kind.DATE: lambda _, values: True,
    Kind.TIME: _owns_times,
    Kind.TIMESTAMP: _owns_times,
    Kind.UUID: lambda _, values: True,
}
"""Would `coerce` return all these values, of exactly the type's Python class, unchanged?

False only costs time. It is False for zero doubles (which may be negative zero), and for text
beyond ASCII (which may have a lone surrogate).
"""


_PLAIN_INTEGERS = re.compile(r"[0-9+-]*")
_PLAIN_DECIMALS = re.compile(r"[0-9+.eE-]*")
"""`int` and `Decimal` read texts of these characters exactly as `schema.spelling` does."""


def _integers_of_texts(type_: ColumnType, texts: Sequence[str]) -> list[int] | None:
    if not _PLAIN_INTEGERS.fullmatch("".join(texts)):
        return None
    try:
        numbers = list(map(int, texts))
    except ValueError:
        return None
    return numbers if _owns_integers(type_, numbers) else None


def _decimals_of_texts(type_: ColumnType, texts: Sequence[str]) -> list[Decimal] | None:
    if not _PLAIN_DECIMALS.fullmatch("".join(texts)) or type_.declared is not None:
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
"""The results of `coerce` for these texts; None: call `coerce`, since it may refuse one."""
