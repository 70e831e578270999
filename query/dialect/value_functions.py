"""PostgreSQL's functions that Python computes (`query/values`), for both evaluators.

The parser writes a call of such a function as `hornbeam_…`. Our own loops call the Python function
with their values (`query/expressions/value_functions.py`). DuckDB has a macro of this name, which
casts the arguments and the result, and a function over the simple types that it passes to Python
(`…_of_2` for two arguments): times, intervals and decimals are texts there, and a value of any type
is its text and the name of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from hornbeam_server.query.dialect import macros
from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.query.values import (
    domains,
    interval_fields,
    json_texts,
    matches,
    names,
    numbers,
    octets,
    powers,
    privileges,
    sizes,
    templates,
    texts,
    time_readers,
    times,
    zones,
)
from hornbeam_server.schema import spelling
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.escaped_texts import unistr
from hornbeam_server.schema.intervals import Interval, interval
from hornbeam_server.schema.quotients import QUOTIENT
from hornbeam_server.schema.reals import text_of_real
from hornbeam_server.schema.sqltext import NUMERIC
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, REAL, ColumnType, Kind, array_of

if TYPE_CHECKING:  # only workers load DuckDB, not the server process
    import duckdb

_TEXT, _INTEGER, _BIGINT = ColumnType(Kind.TEXT), ColumnType(Kind.INTEGER), ColumnType(Kind.BIGINT)
_DOUBLE, _BOOLEAN, _BYTES = (
    ColumnType(Kind.DOUBLE), ColumnType(Kind.BOOLEAN), ColumnType(Kind.BYTES),
)  # fmt: skip
_DATE, _TIME, _TIMESTAMP = (
    ColumnType(Kind.DATE), ColumnType(Kind.TIME), ColumnType(Kind.TIMESTAMP),
)  # fmt: skip
_TIMESTAMPTZ, _INTERVAL = ColumnType(Kind.TIMESTAMPTZ), ColumnType(Kind.INTERVAL)
_NUMERIC = ColumnType(Kind.DECIMAL)
"""The type of a parameter that takes numbers with all their digits."""
_WHOLE = ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, 0)
_TEXTS = array_of(_TEXT)
ANY = None
"""The type of a parameter that takes values of all types."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of Python's values. The last `optional` arguments may be left out. A `strict`
    function is NULL if an argument is. `loops`: our own loops call it, too. `several`: it gives a
    list of results."""

    run: Callable[..., Any]
    parameters: tuple[ColumnType | None, ...]
    result: ColumnType
    optional: int = 0
    strict: bool = True
    loops: bool = True
    several: bool = False

    @property
    def counts(self) -> range:
        """The possible numbers of arguments."""
        most = len(self.parameters)
        return range(most - self.optional, most + 1)


def _of_regex(
    run: Callable[..., Any],
    result: ColumnType,
    *more: ColumnType,
    optional: int = 0,
    several: bool = False,
) -> Function:
    """A function of a text and a regular expression. Only DuckDB's processes, which have a time
    limit, call it: an expression may take any time."""
    parameters = (_TEXT, _TEXT, *more)
    return Function(run, parameters, result, optional, loops=False, several=several)


def _of_double(run: Callable[[float], float]) -> Function:
    return Function(run, (_DOUBLE,), _DOUBLE)


def _hash(run: Callable[..., Any]) -> Function:
    return Function(run, (_BYTES,), _BYTES)


CALLED: Mapping[str, Function] = {
    "to_char": Function(templates.to_char, (ANY, _TEXT), _TEXT),
    "to_date": Function(time_readers.to_date, (_TEXT, _TEXT), _DATE),
    "chr": Function(texts.character, (_INTEGER,), _TEXT),
    "normalize": Function(texts.normalize, (_TEXT, _TEXT), _TEXT, 1),
    "quote_ident": Function(texts.quote_ident, (_TEXT,), _TEXT),
    "quote_literal": Function(texts.quote_literal, (ANY,), _TEXT),
    "quote_nullable": Function(texts.quote_nullable, (ANY,), _TEXT, strict=False),
    "parse_ident": Function(names.parse_ident, (_TEXT, _BOOLEAN), _TEXTS, 1),
    "split_part": Function(texts.split_part, (_TEXT, _TEXT, _INTEGER), _TEXT),
    "unistr": Function(unistr, (_TEXT,), _TEXT),
    "convert": Function(octets.converted, (_BYTES, _TEXT, _TEXT), _BYTES),
    "convert_from": Function(octets.text_of_bytes, (_BYTES, _TEXT), _TEXT),
    "convert_to": Function(octets.bytes_of_text, (_TEXT, _TEXT), _BYTES),
    "decode": Function(octets.decoded, (_TEXT, _TEXT), _BYTES),
    "encode": Function(octets.encoded, (_BYTES, _TEXT), _TEXT),
    "get_bit": Function(octets.get_bit, (_BYTES, _BIGINT), _INTEGER),
    "get_byte": Function(octets.get_byte, (_BYTES, _INTEGER), _INTEGER),
    "length": Function(octets.length, (_BYTES, _TEXT), _INTEGER),
    "set_bit": Function(octets.set_bit, (_BYTES, _BIGINT, _INTEGER), _BYTES),
    "set_byte": Function(octets.set_byte, (_BYTES, _INTEGER, _INTEGER), _BYTES),
    "sha224": _hash(octets.sha224),
    "sha256": _hash(octets.sha256),
    "sha384": _hash(octets.sha384),
    "sha512": _hash(octets.sha512),
    "acosd": _of_double(numbers.acosd),
    "asind": _of_double(numbers.asind),
    "atan2d": Function(numbers.atan2d, (_DOUBLE, _DOUBLE), _DOUBLE),
    "atand": _of_double(numbers.atand),
    "cosd": _of_double(numbers.cosd),
    "cotd": _of_double(numbers.cotd),
    "div": Function(numbers.whole_quotient, (_NUMERIC, _NUMERIC), _WHOLE),
    "min_scale": Function(numbers.min_scale, (_NUMERIC,), _INTEGER),
    "scale": Function(numbers.scale, (_NUMERIC,), _INTEGER),
    "sind": _of_double(numbers.sind),
    "tand": _of_double(numbers.tand),
    "width_bucket": Function(numbers.width_bucket, (ANY, ANY, ANY, _INTEGER), _INTEGER),
    "regexp_count": _of_regex(matches.count, _INTEGER, _INTEGER, _TEXT, optional=2),
    "regexp_instr": _of_regex(
        matches.place, _INTEGER, *(_INTEGER, _INTEGER, _INTEGER, _TEXT, _INTEGER), optional=5
    ),
    "similar_to_escape": Function(matches.regex_of_similar, (_TEXT, _TEXT), _TEXT, 1),
    "regexp_like": _of_regex(matches.like, _BOOLEAN, _TEXT, optional=1),
    "regexp_match": _of_regex(matches.match, _TEXTS, _TEXT, optional=1),
    "regexp_split_to_array": _of_regex(matches.split, _TEXTS, _TEXT, optional=1),
    "regexp_substr": _of_regex(
        matches.part, _TEXT, *(_INTEGER, _INTEGER, _TEXT, _INTEGER), optional=4
    ),
}
"""By PostgreSQL's names."""
_INNER: Mapping[str, Function] = {
    "real_of_decimal": Function(numbers.to_real, (_NUMERIC,), REAL),
    "text_of_real": Function(text_of_real, (REAL,), _TEXT),
    "numeric_sqrt": Function(powers.square_root, (_NUMERIC,), QUOTIENT),
    "numeric_exp": Function(powers.exponential, (_NUMERIC,), QUOTIENT),
    "numeric_ln": Function(powers.natural_logarithm, (_NUMERIC,), QUOTIENT),
    "numeric_log10": Function(powers.common_logarithm, (_NUMERIC,), QUOTIENT),
    "numeric_log": Function(powers.logarithm, (_NUMERIC, _NUMERIC), QUOTIENT),
    "numeric_power": Function(powers.power, (_NUMERIC, _NUMERIC), QUOTIENT),
    "numeric_gcd": Function(numbers.greatest_divisor, (_NUMERIC, _NUMERIC), NUMERIC),
    "numeric_lcm": Function(numbers.least_multiple, (_NUMERIC, _NUMERIC), NUMERIC),
    "make_interval": Function(times.make_interval, (*(_INTEGER,) * 6, _DOUBLE), _INTERVAL),
    "interval_with_fields": Function(
        interval_fields.with_fields, (ANY, _TEXT, _TEXT, _INTEGER), _INTERVAL
    ),
    "zone": Function(zones.zone_of, (ANY,), _TEXT),
    "meets_domain": Function(
        domains.meets_domain, (_BOOLEAN, _TEXT, _TEXT), _BOOLEAN, strict=False
    ),
    "overlap": Function(times.overlap, (ANY,) * 4, _BOOLEAN, strict=False),
    "timestamp_by_template": Function(time_readers.to_timestamp, (_TEXT, _TEXT), _TIMESTAMPTZ),
    "number_by_template": Function(templates.number_of_text, (_TEXT, _TEXT), _TEXT),
    "json_object": Function(json_texts.object_of_texts, (_TEXTS, _TEXTS), _TEXT, 1),
    "like_escape": Function(matches.like_escape, (_TEXT, _TEXT), _TEXT),
    "shown": Function(texts.shown, (ANY,), _TEXT),
    "format": Function(texts.format_text, (_TEXT, _TEXTS), _TEXT),
    "regexp_all": _of_regex(matches.all_matches, _TEXTS, _TEXT, optional=1, several=True),
    "regexp_replace": _of_regex(matches.replace, _TEXT, _TEXT, _TEXT, optional=1),
    "regexp_replace_from": _of_regex(
        matches.replace_from, _TEXT, *(_TEXT, _INTEGER, _INTEGER, _TEXT), optional=2
    ),
    "regexp_part": _of_regex(matches.first_part, _TEXT),
    "similar": _of_regex(matches.similar, _BOOLEAN, _TEXT, optional=1),
    "similar_part": _of_regex(matches.similar_part, _TEXT, _TEXT),
    "canonical_name": Function(names.canonical, (_TEXT,), _TEXT),
    "has_privilege": Function(
        privileges.has_privilege, (_TEXT, _TEXT, _BIGINT, _TEXT, _TEXT), _BOOLEAN, strict=False
    ),
    "has_privilege_on_part": Function(
        privileges.has_privilege_on_part,
        (_TEXT, _TEXT, _BIGINT, _TEXT, _TEXT, _TEXT, _TEXT),
        _BOOLEAN,
        strict=False,
    ),
    "size_pretty": Function(sizes.pretty, (_NUMERIC,), _TEXT),
    "bytes_length": Function(octets.length, (_BYTES,), _INTEGER),
    "bytes_bit_length": Function(octets.bit_length, (_BYTES,), _INTEGER),
    "bytes_bit_count": Function(octets.bit_count, (_BYTES,), _BIGINT),
    "bytes_part": Function(octets.part, (_BYTES, _INTEGER, _INTEGER), _BYTES, 1),
    "bytes_position": Function(octets.position, (_BYTES, _BYTES), _INTEGER),
    "bytes_overlay": Function(octets.overlaid, (_BYTES, _BYTES, _INTEGER, _INTEGER), _BYTES, 1),
    "bytes_trim": Function(octets.trimmed, (_BYTES, _BYTES), _BYTES),
    "bytes_ltrim": Function(octets.left_trimmed, (_BYTES, _BYTES), _BYTES),
    "bytes_rtrim": Function(octets.right_trimmed, (_BYTES, _BYTES), _BYTES),
}
"""Functions that templates and operators call (`query/dialect/templates.py`)."""
FUNCTIONS: Mapping[str, Function] = {**CALLED, **_INNER}
_BY_MACRO = {macro(name): function for name, function in FUNCTIONS.items()}


def function_of(name: str) -> Function | None:
    """The function that a call of `hornbeam_…` means; None for other calls."""
    return _BY_MACRO.get(name.lower())


# ---------------------------------------------------------------- DuckDB


@cache
def all_macros() -> Mapping[str, str]:
    """The macros of these functions and those of `macros.py`, by name: the statements that create
    them in DuckDB."""
    return {**macros.definitions(), **dict(_definitions())}


def _definitions() -> Iterator[tuple[str, str]]:
    """Yield each function's macro: its name, and the statement that creates it."""
    for name, function in FUNCTIONS.items():
        readings = ", ".join(_reading(name, function, count) for count in function.counts)
        yield macro(name), f"CREATE MACRO {macro(name)}{readings}"


def functions() -> Iterator[tuple[str, tuple[Function, int]]]:
    """Yield each function over simple values by its name in DuckDB, with its number of
    arguments."""
    for name, function in FUNCTIONS.items():
        for count in function.counts:
            yield _over_values(name, count), (function, count)


def _over_values(name: str, count: int) -> str:
    return f"{macro(name)}_of_{count}"


def _reading(name: str, function: Function, count: int) -> str:
    """One overload of a macro: parameters and body."""
    names = [f"x{i}" for i in range(count)]
    given = [
        part
        for value, type_ in zip(names, function.parameters, strict=False)
        for part in _simple(value, type_)
    ]
    body = f"{_over_values(name, count)}({', '.join(given)})"
    if function.result.kind in _WRITTEN:
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


def _numeric(text: str) -> Decimal:
    """The NUMERIC of a text. DuckDB writes a DOUBLE in the same way. Raises ValueError for one that
    is no NUMERIC."""
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError("NUMERIC has no NaN and no Infinity")
    if number.adjusted() >= MAX_DECIMAL_PRECISION:
        raise ValueError(f"NUMERIC has at most {MAX_DECIMAL_PRECISION} digits")
    return number


_READERS: Mapping[Kind, Callable[[str], Any]] = {
    Kind.DECIMAL: _numeric,
    Kind.DATE: spelling.date,
    Kind.TIME: spelling.time,
    Kind.TIMESTAMP: spelling.timestamp,
    Kind.TIMESTAMPTZ: spelling.timestamptz,
    Kind.INTERVAL: interval,
}
"""The types whose arguments DuckDB passes as texts."""
_WRITTEN = frozenset({*_READERS, Kind.DOUBLE})
"""The types whose results DuckDB takes as texts. It would take the DOUBLE NaN for NULL."""
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


def create_function(
    name: str, function: Function, count: int, connection: duckdb.DuckDBPyConnection
) -> None:
    """Create the function of `count` arguments over simple values in a DuckDB database. DuckDB
    needs numpy for it."""
    parameters = function.parameters[:count]
    types = [each for type_ in parameters for each in types_of(type_)]
    result = "VARCHAR" if function.result.kind in _WRITTEN else _type(function.result)
    result += "[]" if function.several else ""
    create: Any = connection.create_function
    run = over_simple(function, parameters, len(types))
    create(name, run, types, result, null_handling="special")


def types_of(type_: ColumnType | None) -> Sequence[str]:
    if type_ is ANY:
        return ("VARCHAR", "VARCHAR")
    return ("VARCHAR",) if type_.kind in _READERS else (_type(type_),)


def _type(type_: ColumnType) -> str:
    return {_TEXT: "VARCHAR", _TEXTS: "VARCHAR[]"}.get(type_) or type_.sql()


def over_simple(
    function: Function, types: Sequence[ColumnType | None], count: int
) -> Callable[..., Any]:
    """The function over `count` simple values, which mean arguments of `types`. DuckDB reads their
    number from the signature."""

    def run(*given: Any) -> Any:
        values = list(_values(types, given))
        if function.strict and None in values:
            return None
        found = function.run(*values)
        return _text(found) if function.result.kind in _WRITTEN else found

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
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.plain() if isinstance(value, Interval) else str(value)
