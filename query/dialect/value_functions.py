"""PostgreSQL's functions that Python computes (`query/values`), for both evaluators.

The parser writes a call of such a function as `hornbeam_…`. Our own loops call the Python function
with their values (`query/expressions/value_functions.py`). DuckDB has a macro of this name, which
casts the arguments and the result, and a function over the simple types that it passes to Python
(`…_of_values`): times, intervals and decimals are texts there, and a value of any type is its text
and the name of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.query.values import templates, time_readers
from hornbeam_server.schema import spelling
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.intervals import Interval, interval
from hornbeam_server.schema.types import ColumnType, Kind, array_of

if TYPE_CHECKING:  # only workers load DuckDB, not the server process
    import duckdb

_OF_VALUES = "_of_values"
_TEXT, _INTEGER, _BIGINT = ColumnType(Kind.TEXT), ColumnType(Kind.INTEGER), ColumnType(Kind.BIGINT)
_DOUBLE, _BOOLEAN, _BYTES = (
    ColumnType(Kind.DOUBLE), ColumnType(Kind.BOOLEAN), ColumnType(Kind.BYTES),
)  # fmt: skip
_DATE, _TIME, _TIMESTAMP = (
    ColumnType(Kind.DATE), ColumnType(Kind.TIME), ColumnType(Kind.TIMESTAMP),
)  # fmt: skip
_TIMESTAMPTZ, _INTERVAL = ColumnType(Kind.TIMESTAMPTZ), ColumnType(Kind.INTERVAL)
_NUMERIC = ColumnType(Kind.DECIMAL)
_TEXTS = array_of(_TEXT)
ANY = None
"""The type of a parameter that takes values of all types."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of Python's values. `defaults` are SQL for the last arguments. A `strict` function
    is NULL if an argument is. `loops`: our own loops call it, too."""

    run: Callable[..., Any]
    parameters: tuple[ColumnType | None, ...]
    result: ColumnType
    defaults: tuple[str, ...] = ()
    strict: bool = True
    loops: bool = True

    @property
    def counts(self) -> range:
        """The possible numbers of arguments."""
        most = len(self.parameters)
        return range(most - len(self.defaults), most + 1)


CALLED: Mapping[str, Function] = {
    "to_char": Function(templates.to_char, (ANY, _TEXT), _TEXT),
    "to_date": Function(time_readers.to_date, (_TEXT, _TEXT), _DATE),
}
"""By PostgreSQL's names."""
_INNER: Mapping[str, Function] = {
    "timestamp_of_text": Function(time_readers.to_timestamp, (_TEXT, _TEXT), _TIMESTAMPTZ),
    "number_of_text": Function(templates.number_of_text, (_TEXT, _TEXT), _TEXT),
}
"""Functions that templates and operators call (`query/dialect/templates.py`)."""
FUNCTIONS: Mapping[str, Function] = {**CALLED, **_INNER}
_BY_MACRO = {macro(name): function for name, function in FUNCTIONS.items()}


def function_of(name: str) -> Function | None:
    """The function that a call of `hornbeam_…` means; None for other calls."""
    return _BY_MACRO.get(name.lower())


# ---------------------------------------------------------------- DuckDB


def definitions() -> Iterator[tuple[str, str]]:
    """Yield each function's macro in DuckDB: its name, and the statement that creates it."""
    for name, function in FUNCTIONS.items():
        readings = ", ".join(_reading(name, function, count) for count in function.counts)
        yield macro(name), f"CREATE MACRO {macro(name)}{readings}"


def functions() -> Iterator[tuple[str, Function]]:
    """Yield each function over simple values by its name in DuckDB."""
    for name, function in FUNCTIONS.items():
        yield macro(name) + _OF_VALUES, function


def _reading(name: str, function: Function, count: int) -> str:
    """One overload of a macro: parameters and body."""
    names = [f"x{i}" for i in range(count)]
    values = [
        *names,
        *function.defaults[len(function.defaults) - len(function.parameters) + count :],
    ]
    given = [
        part
        for value, type_ in zip(values, function.parameters, strict=True)
        for part in _simple(value, type_)
    ]
    body = f"{macro(name)}{_OF_VALUES}({', '.join(given)})"
    if function.result.kind in _READERS:
        body = f"CAST({body} AS {function.result.sql()})"
    return f"({', '.join(names)}) AS {body}"


def _simple(value: str, type_: ColumnType | None) -> Sequence[str]:
    """SQL for an argument as simple values."""
    if type_ is ANY:
        return (_ANY_TEXT.format(value), f"typeof({value})")
    if type_ == _NUMERIC:
        return (f"CAST({value} AS VARCHAR)",)
    cast = f"CAST({value} AS {type_.sql()})"
    return (f"CAST({cast} AS VARCHAR)",) if type_.kind in _READERS else (cast,)


_ANY_TEXT = (
    r"CASE typeof({0}) WHEN 'BLOB' THEN '\x' || lower(hex(CAST(CAST({0} AS VARCHAR) AS BLOB)))"
    " ELSE CAST({0} AS VARCHAR) END"
)
_READERS: Mapping[Kind, Callable[[str], Any]] = {
    Kind.DECIMAL: Decimal,
    Kind.DATE: spelling.date,
    Kind.TIME: spelling.time,
    Kind.TIMESTAMP: spelling.timestamp,
    Kind.TIMESTAMPTZ: spelling.timestamptz,
    Kind.INTERVAL: interval,
}
"""The types that DuckDB passes as texts."""
_READERS_OF_ANY: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT"), int),
    **dict.fromkeys(("FLOAT", "DOUBLE"), float),
    "BOOLEAN": "true".__eq__,
    "DATE": spelling.date,
    "TIME": spelling.time,
    "TIMESTAMP": spelling.timestamp,
    "TIMESTAMP WITH TIME ZONE": spelling.timestamptz,
    "INTERVAL": interval,
}


def _value_of_any(text: str | None, type_: str) -> Any:
    if text is None:
        return None
    reader = Decimal if type_.startswith("DECIMAL") else _READERS_OF_ANY.get(type_, str)
    return _read(reader, text)


def _read(reader: Callable[[str], Any], text: Any) -> Any:
    try:
        return reader(text)
    except (ValueError, ArithmeticError) as error:
        raise TypeMismatch(f"{text} is out of range: {error}.") from None


def create_function(name: str, function: Function, connection: duckdb.DuckDBPyConnection) -> None:
    """Create the function over simple values in a DuckDB database. DuckDB needs numpy for it."""
    types = [each for type_ in function.parameters for each in _types(type_)]
    result = "VARCHAR" if function.result.kind in _READERS else _type(function.result)
    create: Any = connection.create_function
    create(name, _over_simple(function, len(types)), types, result, null_handling="special")


def _types(type_: ColumnType | None) -> Sequence[str]:
    if type_ is ANY:
        return ("VARCHAR", "VARCHAR")
    return ("VARCHAR",) if type_.kind in _READERS else (_type(type_),)


def _type(type_: ColumnType) -> str:
    return "VARCHAR" if type_.kind is Kind.TEXT else type_.sql()


def _over_simple(function: Function, count: int) -> Callable[..., Any]:
    """The function over DuckDB's simple values, with `count` parameters, which DuckDB reads from
    the signature."""

    def run(*given: Any) -> Any:
        values = list(_values(function.parameters, given))
        if function.strict and None in values:
            return None
        found = function.run(*values)
        return _text(found) if function.result.kind in _READERS else found

    parameters = [Parameter(f"x{i}", Parameter.POSITIONAL_ONLY) for i in range(count)]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _values(types: Sequence[ColumnType | None], given: Sequence[Any]) -> Iterator[Any]:
    """Yield the arguments that DuckDB's simple values mean."""
    simple = iter(given)
    for type_ in types:
        value = next(simple)
        if type_ is ANY:
            yield _value_of_any(value, next(simple))
        elif value is None or type_.kind not in _READERS:
            yield tuple(value) if isinstance(value, list) else value
        else:
            yield _read(_READERS[type_.kind], value)


def _text(value: Any) -> str | None:
    """A result as text that DuckDB casts."""
    if value is None:
        return None
    return value.plain() if isinstance(value, Interval) else str(value)
