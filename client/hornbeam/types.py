"""PEP 249's type objects, and the conversion of values from and to the JSON of the REST interface.

The server sends the SQL type of each column. In JSON, decimals, dates, times and timestamps are
text and bytes are base64, all exact.
"""

from __future__ import annotations

import base64
import datetime as dt
import numbers
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from hornbeam.errors import InterfaceError
from hornbeam.intervals import Interval, interval_text, read_interval
from hornbeam.statements import names_in

Parameters = Sequence[Any] | Mapping[str, Any]
"""The values of `?` parameters (a sequence) or of `:name` parameters (a mapping)."""


class TypeObject:
    """A type object of PEP 249: equal to each of its SQL type names."""

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self.names == other.names
        return isinstance(other, str) and base_name(other) in self.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"TypeObject({', '.join(sorted(self.names))})"


def base_name(sql_type: str) -> str:
    """The name of a type without its arguments: DECIMAL(15,2) → DECIMAL."""
    name = sql_type.split("(", maxsplit=1)[0].strip().upper()
    return f"{name}[]" if sql_type.endswith("[]") and not name.endswith("[]") else name


STRING = TypeObject("TEXT", "VARCHAR", "UUID", "JSON")
BINARY = TypeObject("BLOB")
NUMBER = TypeObject("INTEGER", "BIGINT", "DECIMAL", "DOUBLE", "REAL", "HUGEINT", "BOOLEAN")
DATETIME = TypeObject("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "INTERVAL")
ROWID = TypeObject()

Date = dt.date
Time = dt.time
Timestamp = dt.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> dt.date:
    return dt.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> dt.time:
    return dt.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> dt.datetime:
    return dt.datetime(*time.localtime(ticks)[:6])


_READERS: dict[str, Callable[[Any], Any]] = {
    "DECIMAL": Decimal,
    "BLOB": base64.b64decode,
    "DATE": dt.date.fromisoformat,
    "TIME": dt.time.fromisoformat,
    "INTERVAL": read_interval,
    "TIMESTAMP": dt.datetime.fromisoformat,
    "TIMESTAMP WITH TIME ZONE": dt.datetime.fromisoformat,
    "UUID": uuid.UUID,
    "DOUBLE": float,
    "REAL": float,
}


def row_reader(types: Sequence[str]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """A function from a JSON row to a tuple of Python values."""
    readers = [(i, reader) for i, t in enumerate(types) if (reader := _reader(t)) is not None]
    if not readers:
        return tuple

    def read(row: list[Any]) -> tuple[Any, ...]:
        values = list(row)
        for i, reader in readers:
            if values[i] is not None:
                values[i] = reader(values[i])
        return tuple(values)

    return read


def _reader(sql_type: str) -> Callable[[Any], Any] | None:
    """The reader of values of a type; None for values that are read as they are."""
    name = base_name(sql_type)
    if not name.endswith("[]"):
        return _READERS.get(name)
    element = _READERS.get(name[:-2])
    if element is None:
        return None
    return lambda values: [None if value is None else element(value) for value in values]


_NUMPY_BOOLEANS = {"bool", "bool_"}
"""Type names of NumPy's booleans. They are not registered with `numbers`, as NumPy's numbers
are."""


def to_wire(value: Any) -> Any:
    """A parameter as JSON. Raises InterfaceError for a type that has no JSON form.

    A value whose type JSON lacks is sent with its type name. Otherwise the server would take the
    value as text wherever the statement does not determine the parameter's type.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        # JSON has no infinity and no NaN. The server refuses NaN with an error that names it.
        return value if value - value == 0 else _typed("DOUBLE", str(value))
    if isinstance(value, Decimal):
        return _typed("DECIMAL", str(value))
    if isinstance(value, uuid.UUID):
        return _typed("UUID", str(value))
    if isinstance(value, dt.datetime):
        zone = "" if value.tzinfo is None else " WITH TIME ZONE"
        return _typed(f"TIMESTAMP{zone}", value.isoformat())
    if isinstance(value, dt.date | dt.time):
        return _typed("DATE" if isinstance(value, dt.date) else "TIME", value.isoformat())
    if isinstance(value, dt.timedelta | Interval):
        return _typed("INTERVAL", interval_text(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return _typed("BLOB", base64.b64encode(bytes(value)).decode())
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        return to_wire(float(value))
    if type(value).__name__ in _NUMPY_BOOLEANS:
        return bool(value)
    if isinstance(value, list | tuple):
        return [to_wire(each) for each in value]
    raise InterfaceError(f"A parameter cannot be a {type(value).__name__}.")


_PLAIN = {int, str, bool, type(None)}
"""Types whose values JSON has. Their subclasses have other texts, or none."""


def _typed(name: str, value: str) -> dict[str, str]:
    return {"type": name, "value": value}


def wire_parameters(sql: str, parameters: Parameters) -> list[Any] | dict[str, Any]:
    """Parameters as JSON, without those that `sql` does not name. Raises InterfaceError."""
    if type(parameters) is list or type(parameters) is tuple:
        return [value if type(value) in _PLAIN else to_wire(value) for value in parameters]
    if isinstance(parameters, Mapping):
        named = names_in(sql)
        return {name: to_wire(value) for name, value in parameters.items() if name in named}
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise InterfaceError("Parameters are a list or tuple for `?`, a mapping for `:name`.")
    return [to_wire(value) for value in parameters]
