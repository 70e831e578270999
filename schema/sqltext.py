"""SQL text for every loader: tokens, types and defaults, from sqlglot's to ours.

What we have no exact counterpart for is refused with a cure, never approximated. Readings that
are ours to choose: DECIMAL without parameters is DECIMAL(18,3) and DECIMAL(p) is DECIMAL(p,0)
(as DuckDB has it); CHAR(n) is text of at most n characters, without padding; REAL and FLOAT are
DOUBLE; SMALLINT is INTEGER.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token

from schema.build import Place
from schema.errors import TypeMismatch
from schema.model import Default, DefaultKind
from schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind, Value

T = exp.DType

_OPENINGS = re.compile(r"['\"$]|/\*")


def tokenize(dialect: Dialect, text: str, file: str) -> list[Token]:
    """Tokens with their offsets. Raises SchemaError where a quote or comment is left open."""
    try:
        return list(dialect.tokenize(text))
    except TokenError:
        offset = _unclosed(dialect, text)
        raise Place.at(text, offset, file).error(
            f"unreadable text: {text[offset : offset + 20]!r} is not closed",
            cure="close the quote or the comment",
        ) from None


@contextmanager
def no_fallback_warnings() -> Iterator[None]:
    """Sqlglot logs a warning for what it cannot parse; we raise an error for the same."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _unclosed(dialect: Dialect, text: str) -> int:
    """Offset of the opening that has no end: everything before it is readable."""
    for opening in reversed(list(_OPENINGS.finditer(text))):
        try:
            dialect.tokenize(text[: opening.start()])
        except TokenError:
            continue
        return opening.start()
    return 0


DEFAULT_DECIMAL = (18, 3)

_PLAIN: dict[T, Kind] = {
    T.INT: Kind.INTEGER,
    T.SMALLINT: Kind.INTEGER,
    T.SERIAL: Kind.INTEGER,
    T.SMALLSERIAL: Kind.INTEGER,
    T.BIGINT: Kind.BIGINT,
    T.BIGSERIAL: Kind.BIGINT,
    T.DOUBLE: Kind.DOUBLE,
    T.FLOAT: Kind.DOUBLE,
    T.BOOLEAN: Kind.BOOLEAN,
    T.VARBINARY: Kind.BYTES,
    T.BLOB: Kind.BYTES,
    T.DATE: Kind.DATE,
    T.TIMESTAMP: Kind.TIMESTAMP,
    T.TIMESTAMPNTZ: Kind.TIMESTAMP,
    T.TIMESTAMPTZ: Kind.TIMESTAMPTZ,
    T.UUID: Kind.UUID,
    T.JSON: Kind.JSON,
}
_TEXT = {T.TEXT, T.VARCHAR, T.CHAR}
SERIAL = {T.SERIAL, T.SMALLSERIAL, T.BIGSERIAL}

_CURES: dict[T, str] = {
    T.INTERVAL: "store the length as BIGINT (say, microseconds), or two TIMESTAMP columns",
    T.TIME: "store it as INTEGER (seconds of the day) or inside a TIMESTAMP",
    T.TIMETZ: "store it as INTEGER (seconds of the day) or inside a TIMESTAMP",
    T.ARRAY: "make a child relation with one row per element, or use JSON",
    T.STRUCT: "make one column per field, or use JSON",
    T.MAP: "make a child relation with one row per entry, or use JSON",
    T.ENUM: "use VARCHAR, or a relation of the values and a foreign key to it",
    T.JSONB: "use JSON; it is kept as the text that was written",
    T.DATETIME: "use TIMESTAMP",
    T.TINYINT: "use INTEGER",
    T.MONEY: "use DECIMAL(19,2)",
    T.INT128: "use DECIMAL(38,0)",
    T.UBIGINT: "use DECIMAL(20,0)",
    T.UINT: "use BIGINT",
    T.BINARY: "use BLOB",
    T.NCHAR: "use CHAR(n); all text is Unicode",
    T.NVARCHAR: "use VARCHAR(n); all text is Unicode",
}
_ALL_TYPES = (
    "use INTEGER, BIGINT, DECIMAL(p,s), DOUBLE, BOOLEAN, VARCHAR(n), TEXT, BLOB, DATE, "
    "TIMESTAMP [WITH TIME ZONE], UUID or JSON"
)


def read_type(node: exp.DataType, place: Place) -> ColumnType:
    """Raises SchemaError at `place`."""
    kind = node.this
    if not isinstance(kind, T):  # INTERVAL with a unit comes as a node of its own
        kind = T.INTERVAL if isinstance(kind, exp.Interval) else T.USERDEFINED
    if kind is T.DECIMAL:
        return _decimal(node, place)
    if kind in _TEXT:
        return _text(node, kind, place)
    if kind in _PLAIN and not node.expressions:
        return ColumnType(_PLAIN[kind])
    written = node.sql("postgres")
    if kind in _PLAIN:
        raise place.error(
            f"type {written} takes no parameters here",
            cure=f"write {ColumnType(_PLAIN[kind]).sql()}",
            name=written,
        )
    raise place.error(
        f"type {written} is not supported", cure=_CURES.get(kind, _ALL_TYPES), name=written
    )


def _parameters(node: exp.DataType, place: Place) -> list[int]:
    texts = [parameter.name for parameter in node.expressions]
    if not all(text.isdecimal() for text in texts):
        written = node.sql("postgres")
        raise place.error(
            f"type {written} has parameters that are not whole numbers",
            cure="write plain digits",
            name=written,
        )
    return [int(text) for text in texts]


def _decimal(node: exp.DataType, place: Place) -> ColumnType:
    parameters = _parameters(node, place)
    precision, scale = (*parameters, 0)[:2] if parameters else DEFAULT_DECIMAL
    if not (1 <= precision <= MAX_DECIMAL_PRECISION and scale <= precision and len(parameters) < 3):
        written = node.sql("postgres")
        raise place.error(
            f"type {written} is out of range",
            cure=f"DECIMAL(p,s) needs 1 ≤ p ≤ {MAX_DECIMAL_PRECISION} and 0 ≤ s ≤ p",
            name=written,
        )
    return ColumnType(Kind.DECIMAL, precision, scale)


def _text(node: exp.DataType, kind: T, place: Place) -> ColumnType:
    parameters = _parameters(node, place)
    if len(parameters) > 1 or parameters == [0]:
        written = node.sql("postgres")
        raise place.error(
            f"type {written} is out of range",
            cure="VARCHAR(n) needs one length of at least 1; TEXT has none",
            name=written,
        )
    unbounded = 1 if kind is T.CHAR else None
    return ColumnType(Kind.TEXT, length=parameters[0] if parameters else unbounded)


_CLOCKS = (exp.CurrentTimestamp, exp.Localtimestamp, exp.CurrentDate)
_CLOCK_KINDS = {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}


def read_default(node: exp.Expr, type_: ColumnType, place: Place) -> Default | None:
    """The default of a column of `type_`; DEFAULT NULL is none. Raises SchemaError at `place`."""
    if isinstance(node, exp.Paren | exp.Cast):
        return read_default(node.this, type_, place)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, _CLOCKS):
        if type_.kind not in _CLOCK_KINDS:
            raise place.error(
                f"default {node.sql('postgres')} does not fit type {type_.sql()}",
                cure="the clock is a default for DATE and TIMESTAMP columns only",
            )
        return Default(DefaultKind.NOW)
    try:
        return Default(DefaultKind.LITERAL, _coerced(_literal(node, place), type_))
    except (TypeMismatch, ValueError, ArithmeticError) as error:
        reason = error.message if isinstance(error, TypeMismatch) else str(error)
        raise place.error(
            f"the default does not fit its column: {reason}",
            cure=f"write a literal of type {type_.sql()}",
        ) from None


def _literal(node: exp.Expr, place: Place) -> Any:
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.HexString):
        return bytes.fromhex(node.name)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(node.name)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return -_number(node.this.name)
    raise place.error(
        f"default {node.sql('postgres')} is not supported",
        cure="use a literal, CURRENT_TIMESTAMP, or GENERATED BY DEFAULT AS IDENTITY",
    )


def _number(text: str) -> int | Decimal:
    return int(text) if text.isdecimal() else Decimal(text)


_BYTE_ESCAPES = re.compile(r"(?:\\x[0-9a-fA-F]{2})*")  # DuckDB: '\xde\xad'
_HEX_FORMAT = re.compile(r"\\x(?:[0-9a-fA-F]{2})*")  # PostgreSQL: '\xdead'


def _coerced(value: Any, type_: ColumnType) -> Value:
    if type_.kind is Kind.BYTES and isinstance(value, str):
        if not (_BYTE_ESCAPES.fullmatch(value) or _HEX_FORMAT.fullmatch(value)):
            raise ValueError(r"bytes are written '\xde\xad'")
        return bytes.fromhex(value.replace(r"\x", ""))
    return type_.coerce(value)


def literal_sql(value: Value) -> str:
    """`value` as a literal that this module, DuckDB and (but for bytes) PostgreSQL read."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Decimal():
            return format(value, "f") if isinstance(value, Decimal) else str(value)
        case float():
            return quoted(repr(value))  # quoted: DuckDB reads a bare 0.1 as DECIMAL
        case bytes():
            return quoted("".join(f"\\x{byte:02x}" for byte in value))
        case dt.datetime():
            return quoted(value.isoformat(sep=" "))
        case _:
            return quoted(str(value))


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
