"""The types of MySQL, SQLite and SQL Server as PostgreSQL's types.

A type that holds more or other values than the type it becomes has a note. A type without a
counterpart stays as it is, and is refused by its name.
"""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION

T = exp.DType

_UNSIGNED = "values above 9223372036854775807 are refused"
_TEXT = {T.LONGTEXT, T.MEDIUMTEXT, T.TINYTEXT, T.TEXT}
_BYTES = {T.LONGBLOB, T.MEDIUMBLOB, T.TINYBLOB, T.BLOB, T.BINARY, T.VARBINARY, T.IMAGE}
_UNLIMITED = "MAX"
_COMMON: dict[T, T] = {
    **dict.fromkeys(_TEXT, T.TEXT),
    **dict.fromkeys(_BYTES, T.BLOB),
    T.DATETIME: T.TIMESTAMP,
    T.DATETIME2: T.TIMESTAMP,
    T.SMALLDATETIME: T.TIMESTAMP,
    T.TINYINT: T.SMALLINT,
    T.UTINYINT: T.SMALLINT,
    T.SMALLINT: T.SMALLINT,
    T.USMALLINT: T.INT,
    T.MEDIUMINT: T.INT,
    T.UMEDIUMINT: T.INT,
    T.INT: T.INT,
    T.UINT: T.BIGINT,
    T.BIGINT: T.BIGINT,
    T.UBIGINT: T.BIGINT,
    T.FLOAT: T.DOUBLE,
    T.DOUBLE: T.DOUBLE,
    T.UDOUBLE: T.DOUBLE,
    T.YEAR: T.SMALLINT,
}
"""Types that lose their parameters, such as the width for display of INT(11)."""
_NOTES = {
    T.UBIGINT: f"BIGINT UNSIGNED is kept as BIGINT; {_UNSIGNED}",
    T.YEAR: "YEAR is kept as SMALLINT",
    T.SET: "SET is kept as TEXT, the values with commas between them, and not checked",
}
_RANGES = tuple(
    f"{of}{kind}"
    for of in ("int4", "int8", "num", "ts", "tstz", "date")
    for kind in ("range", "multirange")
)
_ADDRESSES = ("inet", "cidr", "macaddr", "macaddr8")
_BITS = ("bit", "varbit")
_OTHER = ("hstore", "jsonpath", "ltree", "pg_lsn", "timetz", "xml")
_SHAPES = ("point", "line", "lseg", "box", "path", "polygon", "circle", "geometry", "geography")
_AS_TEXT = {
    "tsvector": "TSVECTOR is kept as TEXT; @@ is refused",
    "tsquery": "TSQUERY is kept as TEXT; @@ is refused",
    "vector": "VECTOR is kept as TEXT; its operators of distance are refused",
} | {
    name: f"{name.upper()} is kept as TEXT; its operators and functions are refused"
    for name in (*_RANGES, *_ADDRESSES, *_SHAPES, *_BITS, *_OTHER)
}
"""Types of PostgreSQL that are kept as text, each with its note. PostgreSQL writes equal values as
equal texts."""
_PLAIN = {T.INT, T.BIGINT, T.SMALLINT, T.TEXT, T.VARCHAR, T.DECIMAL, T.DOUBLE, T.BOOLEAN, T.DATE}
"""Types of PostgreSQL that are none of these: most columns have them."""
_OBJECTS = {"hierarchyid", "geography", "geometry"}
"""Types of SQL Server whose values scripts write as bytes, such as 0x58."""
_MONEY = {T.MONEY: (19, 4), T.SMALLMONEY: (10, 4)}
_SMALLEST = 1
"""TINYINT(1) and BIT(1) are MySQL's BOOLEAN."""


def known_type(node: exp.DataType, source: Source) -> tuple[exp.DataType, str]:
    """The type of a column as PostgreSQL's, and a note; "" where nothing differs."""
    kind, note = _known(node, source)
    digits = _width(kind) if kind.this is T.DECIMAL else None
    if digits is None or digits <= MAX_DECIMAL_PRECISION:
        return kind, note
    places = [int(each.name) for each in kind.expressions[1:]]
    return (
        _type(T.DECIMAL, MAX_DECIMAL_PRECISION, *places),
        f"a value with more than {MAX_DECIMAL_PRECISION} digits is refused",
    )


def _known(node: exp.DataType, source: Source) -> tuple[exp.DataType, str]:
    match source:
        case Source.MYSQL:
            of_bits = node.this is T.BIT and (_width(node) or 1) > 1
            note = "BIT(n) is kept as BIGINT, the number of its bits" if of_bits else ""
            return _of_mysql(node), note or _NOTES.get(node.this, "")
        case Source.SQLITE:
            return _of_sqlite(node), ""
        case Source.SQLSERVER if (name := _name(node)) in _OBJECTS:
            return _type(T.BLOB), f"{name.upper()} is kept as its bytes; its methods are refused"
        case Source.SQLSERVER:
            return _of_sqlserver(node), ""
    if node.this in _PLAIN:
        return node, ""
    name = _name(node)
    if name in _AS_TEXT:
        return _type(T.TEXT), _AS_TEXT[name]
    element = name.removesuffix("[]")
    if element == name or element not in _AS_TEXT:
        return node, ""
    return exp.DataType(this=T.ARRAY, expressions=[_type(T.TEXT)], nested=True), _AS_TEXT[element]


def is_note_of_range(note: str) -> bool:
    """Is a note that of a column of ranges?"""
    return note.startswith(tuple(_AS_TEXT[name] for name in _RANGES))


def is_kept_as_text(written: exp.Expr | None) -> bool:
    """Is a type of PostgreSQL kept as text, without its functions?"""
    return isinstance(written, exp.DataType) and _name(written) in _AS_TEXT


def is_zero_date(default: exp.Expr, source: Source) -> bool:
    """Is a default the text 0000-00-00, which MySQL and SQLite keep in a column of dates?"""
    said = isinstance(default, exp.Literal) and default.name.startswith("0000-00-00")
    return said and source in {Source.MYSQL, Source.SQLITE}


def _name(node: exp.DataType) -> str:
    return node.sql("postgres").lower().removeprefix("public.").partition("(")[0]


def _of_mysql(node: exp.DataType) -> exp.DataType:
    kind, width = node.this, _width(node)
    if (kind is T.TINYINT and width == _SMALLEST) or (kind is T.BIT and width in {None, 1}):
        return _type(T.BOOLEAN)
    if kind is T.BIT:
        return _type(T.BIGINT)
    if kind in {T.TIMESTAMP, T.TIMESTAMPTZ, T.TIMESTAMPLTZ}:
        return _type(T.TIMESTAMPTZ)
    if kind is T.SET:
        return _type(T.TEXT)
    return _common(node)


def _of_sqlserver(node: exp.DataType) -> exp.DataType:
    kind = node.this
    if kind is T.BIT:
        return _type(T.BOOLEAN)
    if kind in {T.TIMESTAMPTZ, T.TIMESTAMPLTZ}:  # DATETIMEOFFSET
        return _type(T.TIMESTAMPTZ)
    if kind is T.DECIMAL and not node.expressions:
        return _type(T.DECIMAL, 18, 0)
    if kind is T.XML:
        return _type(T.TEXT)
    if node.args.get("kind") is not None and _name(node) == "sysname":
        return _type(T.VARCHAR, 128)
    if kind is T.ROWVERSION:  # it would be written as VARBINARY in the refusal
        return exp.DataType(this=T.USERDEFINED, kind="ROWVERSION")
    return _common(node)


def _of_sqlite(node: exp.DataType) -> exp.DataType:
    """SQLite's rules of affinity: an INTEGER has 64 bits, and no length of text is enforced."""
    kind = node.this
    if kind in exp.DataType.INTEGER_TYPES or _COMMON.get(kind) in _INTEGERS:
        return _type(T.BIGINT)
    if kind in exp.DataType.TEXT_TYPES or kind in {T.NCHAR, T.NVARCHAR, T.BPCHAR}:
        return _type(T.TEXT)
    return _common(node)


_INTEGERS = {T.SMALLINT, T.INT, T.BIGINT}


def _common(node: exp.DataType) -> exp.DataType:
    kind = node.this
    if kind in {T.NVARCHAR, T.VARCHAR, T.NCHAR, T.CHAR}:
        width = node.expressions[0].name.upper() if node.expressions else ""
        text = T.CHAR if kind in {T.NCHAR, T.CHAR} else T.VARCHAR
        same = exp.DataType(this=text, expressions=node.expressions)
        return _type(T.TEXT) if width == _UNLIMITED else same
    if kind is T.UDECIMAL:
        return exp.DataType(this=T.DECIMAL, expressions=node.expressions)
    if kind in _MONEY:
        return _type(T.DECIMAL, *_MONEY[kind])
    return _type(_COMMON[kind]) if kind in _COMMON else node


def _width(node: exp.DataType) -> int | None:
    texts = [parameter.name for parameter in node.expressions]
    return int(texts[0]) if texts and texts[0].isdecimal() else None


def _type(kind: T, *parameters: int) -> exp.DataType:
    written = [exp.DataTypeParam(this=exp.Literal.number(number)) for number in parameters]
    return exp.DataType(this=kind, expressions=written)
