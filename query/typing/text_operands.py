"""Text literals in arithmetic, and next to bytes in `||`: constants of the other operand's type, as
in PostgreSQL.

DuckDB has no operator for some of them, and rounds `i * '2.5'` where PostgreSQL reports that the
text is no integer.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from hornbeam_server.query.dialect.duckdb_sql import check_cast
from hornbeam_server.query.dialect.enumerations import name_of
from hornbeam_server.query.dialect.sums import number_type
from hornbeam_server.schema.types import ColumnType, Kind, enumeration_of

TypeOf = Callable[[exp.Expr], ColumnType | None]
OPERATORS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.DPipe)
_NUMBERS = {Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE}
_MOMENTS = {Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}


def text_operand(node: exp.Expr, type_of: TypeOf) -> tuple[exp.Literal, exp.Cast] | None:
    """(the text literal among the operands, the literal cast to the type of the other one); None
    without one, or for another type. Raises TypeMismatch for a text that is not of the type."""
    sides = node.this.unnest(), node.expression.unnest()
    for text, other in (sides, sides[::-1]):
        if isinstance(text, exp.Literal) and text.is_string:
            type_ = type_of(other) or number_type(other, type_of)
            if type_ is None or not _is_read(node, type_.kind):
                return None
            return text, text_as(text, type_)
    return None


def text_as(text: exp.Literal, type_: ColumnType) -> exp.Cast:
    """A text literal cast to the type."""
    cast = exp.Cast(this=exp.Literal.string(text.name), to=_named(type_))
    check_cast(cast)
    return cast


def _named(type_: ColumnType) -> exp.DataType:
    """The type for a cast; NUMERIC keeps the digits that are written."""
    if enumeration_of(type_) is not None:
        return name_of(type_)
    exact = type_.kind is Kind.DECIMAL
    return (
        exp.DataType(this=exp.DType.DECIMAL)
        if exact
        else exp.DataType.build(type_.sql(), dialect="duckdb")
    )


def _is_read(node: exp.Expr, kind: Kind) -> bool:
    """Whether PostgreSQL takes the type of the other operand for the text."""
    if isinstance(node, exp.DPipe):
        return kind is Kind.BYTES
    if kind in _MOMENTS:
        return isinstance(node, exp.Sub)
    return kind in _NUMBERS or (kind is Kind.INTERVAL and isinstance(node, exp.Add | exp.Sub))
