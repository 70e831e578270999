"""PostgreSQL's numbers of types, and the fields of results."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from hornbeam_server.pgwire.codec.answers import Field

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID = 16, 17, 18, 19, 20, 21, 23, 25, 26
JSON, FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR = 114, 700, 701, 705, 1042, 1043
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL = 1082, 1083, 1114, 1184, 1186
NUMERIC, UUID, JSONB = 1700, 2950, 3802
XID, INT2VECTOR, OIDVECTOR = 28, 22, 30
_VARIES = -1
_NO_MODIFIER = -1
_LENGTH_WORD = 4
"""Modifiers of types with a length or a precision count it, as PostgreSQL does."""


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of PostgreSQL: its number, that of arrays of it, and the bytes of its values (-1: they
    vary)."""

    oid: int
    array: int
    size: int


_TYPES = (
    PgType(BOOL, 1000, 1),
    PgType(BYTEA, 1001, _VARIES),
    PgType(CHAR, 1002, 1),
    PgType(NAME, 1003, 64),
    PgType(INT8, 1016, 8),
    PgType(INT2, 1005, 2),
    PgType(INT4, 1007, 4),
    PgType(TEXT, 1009, _VARIES),
    PgType(OID, 1028, 4),
    PgType(XID, 1011, 4),
    PgType(INT2VECTOR, 1006, _VARIES),
    PgType(OIDVECTOR, 1013, _VARIES),
    PgType(JSON, 199, _VARIES),
    PgType(FLOAT4, 1021, 4),
    PgType(FLOAT8, 1022, 8),
    PgType(BPCHAR, 1014, _VARIES),
    PgType(VARCHAR, 1015, _VARIES),
    PgType(DATE, 1182, 4),
    PgType(TIME, 1183, 8),
    PgType(TIMESTAMP, 1115, 8),
    PgType(TIMESTAMPTZ, 1185, 8),
    PgType(INTERVAL, 1187, 16),
    PgType(NUMERIC, 1231, _VARIES),
    PgType(UUID, 2951, 16),
    PgType(JSONB, 3807, _VARIES),
)
OF_OID = {each.oid: each for each in _TYPES}
ELEMENTS = {each.array: each.oid for each in _TYPES}
"""The types of the elements of arrays, by the types of the arrays."""
_NAMES = {
    "BOOLEAN": BOOL,
    "BLOB": BYTEA,
    "BYTES": BYTEA,
    "SMALLINT": INT2,
    "INTEGER": INT4,
    "BIGINT": INT8,
    "HUGEINT": NUMERIC,
    "DECIMAL": NUMERIC,
    "NUMERIC": NUMERIC,
    "DOUBLE": FLOAT8,
    "REAL": FLOAT4,
    "TEXT": TEXT,
    "VARCHAR": VARCHAR,
    "CHAR": BPCHAR,
    "BPCHAR": BPCHAR,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "INTERVAL": INTERVAL,
    "UUID": UUID,
    "JSON": JSON,
    "JSONB": JSONB,
}
VECTORS = {INT2VECTOR: INT2, OIDVECTOR: OID}
"""The types of the elements of vectors: arrays that count from 0, and whose text has no braces."""
_SYSTEM = "pg_catalog."
"""Before PostgreSQL's name of the type of a column of a system relation."""
_OF_SYSTEM = {
    "bool": BOOL, "bytea": BYTEA, "char": CHAR, "float4": FLOAT4, "float8": FLOAT8, "int2": INT2,
    "int2vector": INT2VECTOR, "int4": INT4, "int8": INT8, "interval": INTERVAL, "name": NAME,
    "numeric": NUMERIC, "oid": OID, "oidvector": OIDVECTOR, "timestamptz": TIMESTAMPTZ,
    "varchar": VARCHAR, "xid": XID, "pg_cancel_backend": BOOL, "pg_terminate_backend": BOOL,
}  # fmt: skip
_WRITTEN = re.compile(r"([A-Za-z]+)(?:\((\d+)(?:,\s*(\d+))?\))?((?: WITH TIME ZONE)?)((?:\[\])?)")
_OF_TIME = frozenset({TIME, TIMESTAMP, TIMESTAMPTZ})


_SHOWN = {
    BOOL: "boolean", BYTEA: "bytea", INT2: "smallint", INT4: "integer", INT8: "bigint", OID: "oid",
    FLOAT4: "real", FLOAT8: "double precision", NUMERIC: "numeric", DATE: "date", UUID: "uuid",
    TIME: "time without time zone", TIMESTAMP: "timestamp without time zone",
    TIMESTAMPTZ: "timestamp with time zone", INTERVAL: "interval", JSON: "json", JSONB: "jsonb",
}  # fmt: skip


def name_of(oid: int) -> str:
    """The name of a type, as `format_type` of PostgreSQL gives it."""
    if oid in ELEMENTS:
        return f"{name_of(ELEMENTS[oid])}[]"
    return _SHOWN.get(oid, "text")


@lru_cache(maxsize=1_024)
def field_of(name: str, type_name: str) -> Field:
    """The field of a column whose type has this name in Hornbeam. A type of which PostgreSQL has no
    number, such as an enumeration, has values of text."""
    oid, modifier = type_of(type_name)
    size = OF_OID[oid].size if oid in OF_OID else _VARIES
    return Field(name, oid, size, modifier)


def type_of(type_name: str) -> tuple[int, int]:
    """The number and the modifier of a type."""
    if type_name.startswith(_SYSTEM):
        return _of_system(type_name.removeprefix(_SYSTEM)), _NO_MODIFIER
    found = _WRITTEN.fullmatch(type_name)
    base = None if found is None else _NAMES.get(found[1].upper() + found[4])
    if found is None or base is None:
        is_array = type_name.endswith("[]")
        return (OF_OID[TEXT].array if is_array else TEXT), _NO_MODIFIER
    oid = OF_OID[base].array if found[5] else base
    return oid, _modifier(base, found[2], found[3])


def _of_system(name: str) -> int:
    """The number of the type of a column of a system relation. Values of other types are text."""
    if name.startswith("_"):
        return OF_OID[_of_system(name[1:])].array
    return _OF_SYSTEM.get(name, TEXT)


def _modifier(base: int, first: str | None, second: str | None) -> int:
    if first is None:
        return _NO_MODIFIER
    if base == NUMERIC:
        return ((int(first) << 16) | int(second or 0)) + _LENGTH_WORD
    return int(first) + (0 if base in _OF_TIME else _LENGTH_WORD)
