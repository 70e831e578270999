"""SQL tokens, types and defaults, from sqlglot's form to Hornbeam's, for all loaders.

A type has PostgreSQL's meaning, or is refused by its name with a cure. Only NUMERIC without
precision becomes another type, and CHAR(n) is not padded; `type_note` says so.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from itertools import zip_longest
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema import spelling
from hornbeam_server.schema.assignment import assign, text_of
from hornbeam_server.schema.drafts import Expression, Place
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.model import Default, DefaultKind
from hornbeam_server.schema.seconds import SECOND_DIGITS
from hornbeam_server.schema.types import (
    JSONB,
    MAX_DECIMAL_PRECISION,
    MOMENTS,
    NUMERIC_SCALE,
    REAL,
    SMALLINT,
    ColumnType,
    Declared,
    Kind,
    Value,
    array_of,
)

T = exp.DType

_OPENINGS = re.compile(r"['\"$]|/\*")


def tokenize(dialect: Dialect, text: str, origin: Place) -> list[Token]:
    """Tokens with their offsets in `text`, which begins at `origin`. Raises SchemaError at a quote
    or comment that is not closed, and at quotes without a name."""
    try:
        tokens = list(_with_brackets(dialect.tokenize(text)))
    except TokenError:
        offset = _unclosed(dialect, text)
        raise origin.behind(text, offset).error(
            f"Unreadable text: {text[offset : offset + 20]!r} is not closed.",
            cure="Close the quote or the comment.",
        ) from None
    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER and not token.text:
            raise origin.behind(text, token.start).error(
                "A name in quotes is empty.", cure="Write a name between the quotes."
            )
    return tokens


def _with_brackets(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens with `[]` for ARRAY behind the name of a type, whose end the parser does not
    find."""
    for token, behind in zip_longest(tokens, tokens[1:]):
        opened = behind is not None and behind.token_type in _OPENED
        if token.token_type is not TokenType.ARRAY or opened:
            yield token
            continue
        for kind, sign in ((TokenType.L_BRACKET, "["), (TokenType.R_BRACKET, "]")):
            yield Token(kind, sign, token.line, token.col, token.start, token.end, token.comments)


_OPENED = {TokenType.L_BRACKET, TokenType.L_PAREN}


@contextmanager
def no_fallback_warnings() -> Iterator[None]:
    """Suppress sqlglot's warning about text that it cannot parse; the caller raises an error."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _unclosed(dialect: Dialect, text: str) -> int:
    """Offset of the quote or comment that is not closed: all text before it has valid tokens."""
    for opening in reversed(list(_OPENINGS.finditer(text))):
        try:
            dialect.tokenize(text[: opening.start()])
        except TokenError:
            continue
        return opening.start()
    return 0


CODE_POINTS = frozenset({"C", "POSIX", "default", "ucs_basic"})
"""The collations that order text by code point, as Hornbeam does."""
NUMERIC = ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, NUMERIC_SCALE, declared=Declared.NUMERIC)

_PLAIN: dict[T, Kind] = {
    T.INT: Kind.INTEGER,
    T.SERIAL: Kind.INTEGER,
    T.BIGINT: Kind.BIGINT,
    T.BIGSERIAL: Kind.BIGINT,
    T.DOUBLE: Kind.DOUBLE,
    T.BOOLEAN: Kind.BOOLEAN,
    T.VARBINARY: Kind.BYTES,
    T.BLOB: Kind.BYTES,
    T.DATE: Kind.DATE,
    T.TIME: Kind.TIME,
    T.TIMESTAMP: Kind.TIMESTAMP,
    T.TIMESTAMPNTZ: Kind.TIMESTAMP,
    T.TIMESTAMPTZ: Kind.TIMESTAMPTZ,
    T.INTERVAL: Kind.INTERVAL,
    T.UUID: Kind.UUID,
    T.JSON: Kind.JSON,
}
_SMALL = {T.SMALLINT, T.SMALLSERIAL}
_PADDED = {T.CHAR, T.BPCHAR}
_TEXT = {T.TEXT, T.VARCHAR, *_PADDED}
_SERIAL = {T.SERIAL, T.SMALLSERIAL, T.BIGSERIAL}
_ALIASES = {"serial2": T.SMALLSERIAL, "serial4": T.SERIAL, "serial8": T.BIGSERIAL}
"""Type names of PostgreSQL that the parser does not know."""

_CURES: dict[T, str] = {
    T.TIMETZ: "Use TIME, or TIMESTAMP WITH TIME ZONE.",
    T.STRUCT: "Make one column per field, or use JSON.",
    T.MAP: "Make a child relation with one row per entry, or use JSON.",
    T.ENUM: "Name its values: ENUM ('a', 'b').",
    T.DATETIME: "Use TIMESTAMP.",
    T.TINYINT: "Use SMALLINT.",
    T.UTINYINT: "Use SMALLINT.",
    T.USMALLINT: "Use INTEGER.",
    T.MEDIUMINT: "Use INTEGER.",
    T.MONEY: "Use DECIMAL(19,2).",
    T.INT128: "Use DECIMAL(38,0).",
    T.UBIGINT: "Use DECIMAL(20,0).",
    T.UINT: "Use BIGINT.",
    T.BINARY: "Use BLOB.",
    T.NCHAR: "Use CHAR(n); all text is Unicode.",
    T.NVARCHAR: "Use VARCHAR(n); all text is Unicode.",
    T.NAME: "Use VARCHAR(63).",
    T.BIT: "Use VARCHAR(n) with digits 0 and 1, or BLOB.",
    T.INET: "Use VARCHAR(43).",
    T.XML: "Use TEXT.",
    T.HSTORE: "Use JSON.",
}
_CURES_BY_NAME = {
    "oid": "Use BIGINT.",
    "citext": "Use TEXT, and compare lower(column).",
    "utinyint": "Use SMALLINT.",
    "usmallint": "Use INTEGER.",
    "uinteger": "Use BIGINT.",
    "ubigint": "Use DECIMAL(20,0).",
    "cidr": "Use VARCHAR(43).",
    "bytes": "Use BYTEA.",
    "varbit": "Use VARCHAR(n) with digits 0 and 1, or BYTEA.",
    **dict.fromkeys(
        ("regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole"),
        "Compare names, and ask information_schema for the objects.",
    ),
}
_SUBSTITUTES: dict[T, Kind] = {
    T.STRUCT: Kind.JSON,
    T.MAP: Kind.JSON,
    T.HSTORE: Kind.JSON,
    T.DATETIME: Kind.TIMESTAMP,
    T.TINYINT: Kind.INTEGER,
    T.UTINYINT: Kind.INTEGER,
    T.USMALLINT: Kind.INTEGER,
    T.MEDIUMINT: Kind.INTEGER,
    T.UINT: Kind.BIGINT,
    T.UBIGINT: Kind.BIGINT,
    T.BINARY: Kind.BYTES,
}
_ALL_TYPES = (
    "Use INTEGER, BIGINT, DECIMAL(p,s), DOUBLE, BOOLEAN, VARCHAR(n), TEXT, BLOB, DATE, TIME, "
    "TIMESTAMP [WITH TIME ZONE], INTERVAL, UUID, JSON, JSONB, or an array of them."
)


def read_type(node: exp.DataType, place: Place) -> ColumnType:
    """The column type of a type node. Raises SchemaError at `place`."""
    kind = _kind(node)
    if kind is T.DECIMAL:
        return _decimal(node, place)
    if kind in _TEXT:
        return _text(node, kind, place)
    if kind is T.DOUBLE and node.expressions:
        return _float(node, place)
    if kind is T.FLOAT and not node.expressions:
        return REAL
    if kind in _SMALL and not node.expressions:
        return SMALLINT
    if kind is T.JSONB:
        return JSONB
    if kind is T.ARRAY:
        return _array(node, place)
    if kind in _PLAIN and node.expressions and _PLAIN[kind] in MOMENTS:
        return _moment(node, _PLAIN[kind], place)
    if isinstance(node.this, exp.Interval):
        name = node.sql("postgres")
        cure = "Write INTERVAL, which has all parts."
        raise place.error(f"Type {name} is not supported.", cure=cure, name=name)
    if kind in _PLAIN and not node.expressions:
        return ColumnType(_PLAIN[kind])
    written = node.sql("postgres" if node.args.get("nested") else None)
    if kind in _PLAIN or kind in _SMALL:
        raise place.error(
            f"Type {written} takes no parameters here.",
            cure=f"Write {SMALLINT.ddl() if kind in _SMALL else ColumnType(_PLAIN[kind]).ddl()}.",
            name=written,
        )
    cure = _CURES.get(kind) or cure_of_type(written)
    raise place.error(f"Type {written} is not supported.", cure=cure, name=written)


def cure_of_type(name: str) -> str:
    """What to write instead of a type that Hornbeam does not have."""
    kind = T.__members__.get(name.upper())
    return (_CURES.get(kind) if kind else None) or _CURES_BY_NAME.get(name.lower(), _ALL_TYPES)


def type_note(node: exp.DataType) -> str:
    """The difference between the stored and the declared type, as text; "" if there is none."""
    kind = _kind(node)
    if kind is T.ARRAY:
        inner = node.expressions[0]
        nested = isinstance(inner, exp.DataType) and inner.this is T.ARRAY
        return (
            "arrays have one dimension; rows with more are refused" if nested else type_note(inner)
        )
    if kind is T.DECIMAL and not node.expressions:
        return (
            f"NUMERIC without precision is kept as {NUMERIC.sql()}; a value with more digits is"
            " refused (NUMERIC(p,s) rounds to s places)"
        )
    if kind in _PADDED:
        return (
            "CHAR(n) is kept without the blanks at its end, which do not count; queries show it so"
        )
    return ""


def substitute(node: exp.DataType) -> ColumnType:
    """The type that is proposed instead of a type that is refused."""
    kind = _kind(node)
    if kind in _SMALL:
        return SMALLINT
    if kind is T.ARRAY:
        return array_of(substitute(node.expressions[0]))
    if kind is T.ENUM:
        return ColumnType(Kind.TEXT, length=max((len(e.name) for e in node.expressions), default=1))
    return ColumnType(_PLAIN.get(kind) or _SUBSTITUTES.get(kind, Kind.TEXT))


def is_serial(node: exp.DataType) -> bool:
    return _kind(node) in _SERIAL


def _kind(node: exp.DataType) -> T:
    """The kind of a type node. The parser has other nodes for INTERVAL with a unit, OID, …"""
    if isinstance(node.this, T):
        unknown = node.this is T.USERDEFINED
        return _ALIASES.get(node.sql().lower(), T.USERDEFINED) if unknown else node.this
    return T.INTERVAL if isinstance(node.this, exp.Interval) else T.USERDEFINED


REAL_BITS, DOUBLE_BITS = 24, 53


def _moment(node: exp.DataType, kind: Kind, place: Place) -> ColumnType:
    """The type TIMESTAMP(n) or TIME(n); n are decimals of a second, of which six are all."""
    digits = _parameters(node, place)
    if len(digits) > 1 or digits[0] > SECOND_DIGITS:
        name = ColumnType(kind).sql()
        raise place.error(
            f"Type {node.sql('postgres')} is out of range.",
            cure=f"{name.split()[0]}(n) needs 0 ≤ n ≤ {SECOND_DIGITS}; {name} has all decimals.",
            name=node.sql("postgres"),
        )
    return ColumnType(kind, precision=digits[0] if digits[0] < SECOND_DIGITS else None)


def _float(node: exp.DataType, place: Place) -> ColumnType:
    """The type FLOAT(n); n is in bits."""
    parameters = _parameters(node, place)
    if len(parameters) > 1 or not 1 <= parameters[0] <= DOUBLE_BITS:
        raise place.error(
            f"Type {node.sql('postgres')} is out of range.",
            cure=f"FLOAT(n) needs 1 ≤ n ≤ {DOUBLE_BITS}; DOUBLE has all digits.",
            name=node.sql("postgres"),
        )
    return REAL if parameters[0] <= REAL_BITS else ColumnType(Kind.DOUBLE)


def _array(node: exp.DataType, place: Place) -> ColumnType:
    """The type of an array; a type has no number of dimensions and elements, as in PostgreSQL."""
    inner = node.expressions[0]
    while inner.this is T.ARRAY:
        inner = inner.expressions[0]
    element = read_type(inner, place)
    if element.kind is Kind.JSON:
        raise place.error(
            f"Type {node.sql('postgres')} is not supported.",
            cure="Use JSONB, whose values may be arrays.",
            name=node.sql("postgres"),
        )
    return array_of(element)


def _parameters(node: exp.DataType, place: Place) -> list[int]:
    texts = [parameter.name for parameter in node.expressions]
    if not all(text.isdecimal() for text in texts):
        written = node.sql("postgres")
        raise place.error(
            f"Type {written} has parameters that are not whole numbers.",
            cure="Write plain digits.",
            name=written,
        )
    return [int(text) for text in texts]


def decimal_fits(parameters: Sequence[int]) -> bool:
    """Are these the parameters of a DECIMAL that Hornbeam has, if there are any?"""
    if not parameters:
        return True
    precision, scale = (*parameters, 0)[:2]
    return 1 <= precision <= MAX_DECIMAL_PRECISION and scale <= precision and len(parameters) < 3


DECIMAL_BOUNDS = f"DECIMAL(p,s) needs 1 ≤ p ≤ {MAX_DECIMAL_PRECISION} and 0 ≤ s ≤ p."


def _decimal(node: exp.DataType, place: Place) -> ColumnType:
    parameters = _parameters(node, place)
    if not parameters:
        return NUMERIC
    if not decimal_fits(parameters):
        written = node.sql("postgres")
        raise place.error(
            f"Type {written} is out of range.",
            cure=DECIMAL_BOUNDS,
            name=written,
        )
    return ColumnType(Kind.DECIMAL, parameters[0], (*parameters, 0)[1])


def _text(node: exp.DataType, kind: T, place: Place) -> ColumnType:
    parameters = _parameters(node, place)
    if len(parameters) > 1 or parameters == [0]:
        written = node.sql("postgres")
        raise place.error(
            f"Type {written} is out of range.",
            cure="VARCHAR(n) needs one length of at least 1; TEXT has none.",
            name=written,
        )
    unbounded = 1 if kind is T.CHAR else None  # BPCHAR has no limit
    declared = Declared.CHAR if kind in _PADDED else None
    length = parameters[0] if parameters else unbounded
    return ColumnType(Kind.TEXT, length=length, declared=declared)


_CLOCKS = (exp.CurrentTimestamp, exp.Localtimestamp, exp.CurrentDate)
_CLOCK_TYPES = {T.DATE, T.TIMESTAMP, T.TIMESTAMPTZ, T.TIMESTAMPNTZ, T.TIMESTAMPLTZ, T.DATETIME}
_CLOCK_KINDS = {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}


TODAY = "CURRENT_DATE"
RANDOM_UUID = "gen_random_uuid()"
_UUID_FUNCTIONS = {
    "gen_random_uuid", "uuid", "uuid_generate_v1", "uuid_generate_v1mc", "uuid_generate_v4",
    "uuidv4", "uuidv7",
}  # fmt: skip
"""Functions that give a value of their own to each call. As a default each is `RANDOM_UUID`."""
_UUID_CHARACTERS = 36


def read_default(
    node: exp.Expr, type_: ColumnType, place: Place, expression: Callable[[], Expression]
) -> Default | None:
    """The default of a column of `type_`; None for DEFAULT NULL. `expression` reads the text of a
    default that is none of the simple ones. Raises SchemaError at `place`."""
    if isinstance(node, exp.Cast) and node.to.this is T.DECIMAL:
        read_type(node.to, place)
    if isinstance(node, exp.Paren | exp.Cast) and _clock(node, type_) is None:
        return read_default(node.this, type_, place, expression)
    if isinstance(node, exp.Null):
        return None
    if _is_random_uuid(node):
        return _random_uuid(type_, place)
    clock = _clock(node, type_)
    if clock is not None:
        _require_clock(node.sql("postgres"), type_, place)
        midnight = clock is Kind.DATE and type_.kind is not Kind.DATE
        return Default(DefaultKind.EXPRESSION, sql=TODAY) if midnight else Default(DefaultKind.NOW)
    if not _is_literal(node):
        return Default(DefaultKind.EXPRESSION, sql=expression().sql)
    try:
        return Default(DefaultKind.LITERAL, _coerced(_literal(node), type_))
    except (TypeMismatch, ValueError, ArithmeticError) as error:
        reason = error.message if isinstance(error, TypeMismatch) else str(error)
        raise place.error(
            f"The default does not fit its column: {reason.rstrip('.')}.",
            cure=f"Write a literal of type {type_.sql()}.",
        ) from None


def retyped_default(
    default: Default | None, column: str, type_: ColumnType, place: Place
) -> Default | None:
    """The default of a column that gets another type. A literal is cast as a value is that is
    assigned. Raises SchemaError at `place`."""
    kind = None if default is None else default.kind
    if kind is DefaultKind.UUID:
        return _random_uuid(type_, place)
    if kind is DefaultKind.NOW:
        _require_clock("CURRENT_TIMESTAMP", type_, place)
    if default is None or not default.is_literal:
        return default
    try:
        return replace(default, value=assign(type_, default.value))
    except TypeMismatch as error:
        raise place.error(
            f"The default of {column} does not fit the new type: {error.message}",
            cure="Write DROP DEFAULT before it, and SET DEFAULT behind it.",
        ) from None


def _require_clock(written: str, type_: ColumnType, place: Place) -> None:
    if type_.kind not in _CLOCK_KINDS:
        raise place.error(
            f"Default {written} does not fit type {type_.sql()}.",
            cure="The clock is a default for DATE and TIMESTAMP columns only.",
        )


def _clock(node: exp.Expr, type_: ColumnType) -> Kind | None:
    """DATE if the node is the current date, TIMESTAMP if it is the current time, None for all other
    nodes. `('now'::text)::date` is how old dumps write CURRENT_DATE. A session is in UTC, so for a
    TIMESTAMP the time AT TIME ZONE 'utc' is the current time, too."""
    node = node.unnest()
    if isinstance(node, _CLOCKS):
        return Kind.DATE if isinstance(node, exp.CurrentDate) else Kind.TIMESTAMP
    if isinstance(node, exp.Cast) and node.to.this in _CLOCK_TYPES:
        text = node.this.unnest()
        text = text.this if isinstance(text, exp.Cast) else text
        if isinstance(text, exp.Literal) and text.is_string and text.name.lower() == "now":
            inner: Kind | None = Kind.TIMESTAMP
        else:
            inner = _clock(node.this, type_)
        return Kind.DATE if inner is not None and node.to.this is T.DATE else inner
    zone, time = _zone_and_time(node)
    zone = zone.this if isinstance(zone, exp.Cast) else zone
    utc = isinstance(zone, exp.Literal) and zone.name.lower() == "utc"
    same = type_.kind is Kind.TIMESTAMP and utc and isinstance(time, exp.CurrentTimestamp)
    return Kind.TIMESTAMP if same else None


def _zone_and_time(node: exp.Expr) -> tuple[exp.Expr | None, exp.Expr | None]:
    """The arguments of AT TIME ZONE, or of timezone(zone, time)."""
    if isinstance(node, exp.AtTimeZone):
        return node.args["zone"], node.this
    called = isinstance(node, exp.Anonymous) and node.name.lower() == "timezone"
    return tuple(node.expressions) if called and len(node.expressions) == 2 else (None, None)


def _is_random_uuid(node: exp.Expr) -> bool:
    call = node.expression if isinstance(node, exp.Dot) else node
    if isinstance(call, exp.Uuid):
        return True
    named = isinstance(call, exp.Anonymous) and call.name.lower() in _UUID_FUNCTIONS
    return named and not call.expressions


def _random_uuid(type_: ColumnType, place: Place) -> Default:
    long_enough = type_.length is None or type_.length >= _UUID_CHARACTERS
    if type_.kind is Kind.UUID or (type_.kind is Kind.TEXT and long_enough):
        return Default(DefaultKind.UUID)
    raise place.error(
        f"Default {RANDOM_UUID} does not fit type {type_.sql()}.", cure="Declare the column UUID."
    )


def _is_literal(node: exp.Expr) -> bool:
    value = node.this if isinstance(node, exp.Neg) else node
    if isinstance(node, exp.Array):
        return all(_is_literal(each) or isinstance(each, exp.Null) for each in node.expressions)
    number = isinstance(value, exp.Literal)
    return number or isinstance(node, exp.Boolean | exp.HexString)


def _literal(node: exp.Expr) -> Any:
    if isinstance(node, exp.Array):
        return [None if isinstance(e, exp.Null) else _literal(e) for e in node.expressions]
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.HexString):
        return bytes.fromhex(node.name)
    if isinstance(node, exp.Neg):
        return -_number(node.this.name)
    return str(node.this) if node.is_string else _number(node.name)


def _number(text: str) -> int | Decimal:
    return int(text) if text.isdecimal() else Decimal(text)


def _coerced(value: Any, type_: ColumnType) -> Value:
    """A literal as a default, which is assigned to the column."""
    if type_.kind is Kind.BYTES and isinstance(value, str):
        return spelling.sql_bytes(value)
    return assign(type_, value)


def literal_sql(value: Value) -> str:
    """`value` as a literal that this module, PostgreSQL and (except bytes) DuckDB read."""
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
            return quoted(spelling.hexadecimal(value))
        case dt.datetime():
            return quoted(value.isoformat(sep=" "))
        case tuple():
            return quoted(text_of(value) or "")
        case _:
            return quoted(str(value))


def shown(columns: Sequence[str], values: Sequence[Value]) -> str:
    """The values of columns, for a message: (a = 1, b = 'x')."""
    pairs = ", ".join(f"{c} = {literal_sql(v)}" for c, v in zip(columns, values, strict=True))
    return f"({pairs})"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
