"""Constants in a syntax tree as exact Python values, and types named in SQL.

Folding is used only to narrow reads, so it returns None wherever its value could differ from the
value that DuckDB compares with.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

from sqlglot import exp

from hornbeam_server.query.dialect.enumerations import ENUMERATION
from hornbeam_server.query.dialect.macros import PARAMETER_TYPE
from hornbeam_server.query.parsing.placeholders import Parameter
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.spelling import sql_bytes
from hornbeam_server.schema.sqltext import NUMERIC
from hornbeam_server.schema.types import (
    JSONB,
    MOMENTS,
    REAL,
    UNORDERED,
    ColumnType,
    Kind,
    array_of,
    compared_type,
    enum_of,
)

Constant = bool | int | Decimal | float | str | Any

_KINDS = {
    exp.DType.INT: Kind.INTEGER,
    exp.DType.BIGINT: Kind.BIGINT,
    exp.DType.DECIMAL: Kind.DECIMAL,
    exp.DType.DOUBLE: Kind.DOUBLE,
    exp.DType.BOOLEAN: Kind.BOOLEAN,
    exp.DType.TEXT: Kind.TEXT,
    exp.DType.VARCHAR: Kind.TEXT,
    exp.DType.VARBINARY: Kind.BYTES,
    exp.DType.DATE: Kind.DATE,
    exp.DType.TIME: Kind.TIME,
    exp.DType.TIMESTAMP: Kind.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: Kind.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: Kind.TIMESTAMPTZ,
    exp.DType.INTERVAL: Kind.INTERVAL,
    exp.DType.UUID: Kind.UUID,
    exp.DType.JSON: Kind.JSON,
    exp.DType.JSONB: Kind.JSON,
}
CONSTANT = "constant"
"""Key in the meta of a node for a typed constant: (type, value)."""
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_NUMERIC = {Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE}
_UNFOLDED = {Kind.BYTES, Kind.JSON, Kind.ARRAY}
"""Kinds whose text Hornbeam (base64, validated text) and DuckDB interpret differently."""


def named_type(node: exp.Expr | None) -> ColumnType | None:
    """The column type that a CAST names; None if no column can have it."""
    if isinstance(node, exp.DataType) and node.this is exp.DType.ARRAY:
        inner = node.expressions[0]
        if inner.this is exp.DType.SMALLINT:
            return array_of(ColumnType(Kind.INTEGER))
        element = named_type(inner)
        return None if element is None or element.kind in UNORDERED else array_of(element.stored())
    if isinstance(node, exp.DataType) and node.this is exp.DType.FLOAT:
        return REAL
    if isinstance(node, exp.DataType) and ENUMERATION in node.meta:
        return enum_of(node.meta[ENUMERATION])
    kind = _KINDS.get(node.this) if isinstance(node, exp.DataType) else None
    if kind is None or node is None:
        return None
    if node.this is exp.DType.JSONB:
        return JSONB
    if kind is not Kind.DECIMAL:
        return ColumnType(kind)
    sizes = [int(size.name) for size in node.expressions if size.name.isdigit()]
    if not sizes:
        return NUMERIC
    return ColumnType(kind, precision=sizes[0], scale=(*sizes, 0)[1])


def second_digits(node: exp.DataType) -> int | None:
    """The decimals of a second of TIMESTAMP(n) and TIME(n); None for other types."""
    if _KINDS.get(node.this) not in MOMENTS or not node.expressions:
        return None
    return int(node.expressions[0].name)


def fold(node: exp.Expr) -> Constant | None:
    """The value of a constant expression, or its `Parameter`. None for other expressions, for NULL,
    and for a value that may be inexact."""
    if CONSTANT in node.meta:
        constant: Constant = node.meta[CONSTANT][1]
        return constant
    match node:
        case exp.Paren():
            return fold(node.this)
        case exp.Placeholder():
            return node.meta["parameter"]
        case exp.Boolean():
            return bool(node.this)
        case exp.Literal():
            return node.name if node.is_string else _number(node.name)
        case exp.Neg():
            inner = fold(node.this)
            return _negated(inner)
        case exp.Cast() if second_digits(node.args["to"]) is None:
            return _cast(fold(node.this), named_type(node.args.get("to")))
        case _:
            return None


def comparand(node: exp.Expr, type_: ColumnType) -> Constant | None:
    """`node` as a value to look up in a column of `type_`; None if it is not a constant or may be
    inexact. A parameter has the type that `query.binding.binder` recorded, possibly that of another
    column."""
    noted = node.unnest().meta.get(PARAMETER_TYPE)
    if noted is not None and not _looked_up_alike(noted, type_):
        return None
    return comparable(fold(node), type_)


def _looked_up_alike(left: ColumnType, right: ColumnType) -> bool:
    return {left.kind, right.kind} <= {Kind.INTEGER, Kind.BIGINT} or same_type(left, right)


def same_type(left: ColumnType, right: ColumnType) -> bool:
    """Whether the types are equal, ignoring the length of text and the declared type."""
    return replace(left.stored(), length=None) == replace(right.stored(), length=None)


def comparable(value: Constant | None, type_: ColumnType | None) -> Constant | None:
    """`value` as a value of the compared column's type; None if the conversion is not exact."""
    if value is None or type_ is None:
        return None
    if isinstance(value, Parameter):
        return value
    if isinstance(value, bytes):
        return value if type_.kind is Kind.BYTES else None
    if type_.kind in _UNFOLDED or not _same_family(value, type_.kind):
        return None
    try:
        coerced = compared_type(type_.stored()).coerce(value)
    except TypeMismatch:
        return None
    return coerced if _exact(value, coerced, type_.kind) else None


def _negated(value: Constant | None) -> Constant | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
        return None
    return value.copy_negate() if isinstance(value, Decimal) else -value


def _number(text: str) -> Constant:
    if text.isdigit():
        return int(text)
    return float(text) if "e" in text.lower() else Decimal(text)


def _cast(value: Constant | None, type_: ColumnType | None) -> Constant | None:
    if isinstance(value, Parameter):
        return None  # its value is known only at run time
    if type_ is not None and type_.kind is Kind.BYTES and isinstance(value, str):
        return sql_bytes(value)
    found = comparable(value, type_)
    return REAL.coerce(found) if type_ == REAL and found is not None else found


def _same_family(value: Constant, kind: Kind) -> bool:
    """Whether DuckDB also converts the constant to the column's type."""
    if isinstance(value, bool):
        return kind is Kind.BOOLEAN
    if isinstance(value, float):
        return kind is Kind.DOUBLE  # other numbers would be compared as doubles, inexactly
    if isinstance(value, int | Decimal):
        return kind in _NUMERIC
    if isinstance(value, str) and kind in _NUMERIC:
        return _NUMBER.fullmatch(value) is not None
    return True


def _exact(value: Constant, coerced: Constant, kind: Kind) -> bool:
    """Whether the conversion kept the value. A column of doubles is compared as doubles."""
    return kind is not Kind.DECIMAL or Decimal(value) == coerced
