"""Constants in a syntax tree as exact Python values, and types named in SQL.

Folding is only used to narrow what is read, so it gives up (None) wherever our value could
differ from the one that DuckDB compares with.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

from sqlglot import exp

from query.algebra import Parameter
from schema.errors import TypeMismatch
from schema.types import ColumnType, Kind

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
    exp.DType.TIMESTAMP: Kind.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: Kind.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: Kind.TIMESTAMPTZ,
    exp.DType.UUID: Kind.UUID,
    exp.DType.JSON: Kind.JSON,
}
PARAMETER_TYPE = "parameter_type"
"""In the meta of a parameter's node: the type that its values are read as."""
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_NUMERIC = {Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE}
_UNFOLDED = {Kind.BYTES, Kind.JSON}
"""Text forms of these mean one thing to us (base64, validated text) and another to DuckDB."""


def named_type(node: exp.Expr | None) -> ColumnType | None:
    """The column type that a CAST names, or None when no column can have it."""
    kind = _KINDS.get(node.this) if isinstance(node, exp.DataType) else None
    if kind is None or node is None:
        return None
    if kind is not Kind.DECIMAL:
        return ColumnType(kind)
    sizes = [int(size.name) for size in node.expressions if size.name.isdigit()]
    precision, scale = (*sizes, 18, 3)[:2] if not sizes else (sizes[0], (*sizes, 0)[1])
    return ColumnType(kind, precision=precision, scale=scale)


def fold(node: exp.Expr) -> Constant | None:
    """The value of a constant expression, or None: no constant, NULL, or not surely exact."""
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
        case exp.Cast():
            return _cast(fold(node.this), named_type(node.args.get("to")))
        case _:
            return None


def comparand(node: exp.Expr, type_: ColumnType) -> Constant | None:
    """`node` as something to look a column up by, or None: it is no constant, or not surely exact.
    A parameter has the type that `query.binder` has noted, which that of another column may be."""
    noted = node.unnest().meta.get(PARAMETER_TYPE)
    if noted is not None and not _looked_up_alike(noted, type_):
        return None
    return comparable(fold(node), type_)


def _looked_up_alike(left: ColumnType, right: ColumnType) -> bool:
    return {left.kind, right.kind} <= {Kind.INTEGER, Kind.BIGINT} or same_type(left, right)


def same_type(left: ColumnType, right: ColumnType) -> bool:
    """Whatever the lengths of text."""
    return replace(left, length=None) == replace(right, length=None)


def comparable(value: Constant | None, type_: ColumnType | None) -> Constant | None:
    """`value` as a value of the column it is compared with, or None when that is not exact."""
    if value is None or type_ is None:
        return None
    if isinstance(value, Parameter):
        return value
    if type_.kind in _UNFOLDED or not _same_family(value, type_.kind):
        return None
    try:
        coerced = type_.coerce(value)
    except TypeMismatch:
        return None
    return coerced if _exact(value, coerced, type_.kind) else None


def _negated(value: Constant | None) -> Constant | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
        return None
    return -value


def _number(text: str) -> Constant:
    if text.isdigit():
        return int(text)
    return float(text) if "e" in text.lower() else Decimal(text)


def _cast(value: Constant | None, type_: ColumnType | None) -> Constant | None:
    if isinstance(value, Parameter):
        return None  # the executor would have to cast it at run time
    return comparable(value, type_)


def _same_family(value: Constant, kind: Kind) -> bool:
    """Does DuckDB convert the constant to the column's type, as we do?"""
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
    """Did the conversion keep the value? (A column of doubles is compared as doubles.)"""
    return kind is not Kind.DECIMAL or Decimal(value) == coerced
