"""Text literals next to values of another type in VALUES and in set operations: values of this
type, as in PostgreSQL, which finds the type of a column from two sides at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from hornbeam_server.query.binding.names import OutputColumn
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.query.dialect.sums import common_if_known, number_type
from hornbeam_server.query.typing.constants import CONSTANT
from hornbeam_server.query.typing.text_operands import text_as
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.trees import supersede
from hornbeam_server.schema.types import ColumnType, Kind

Columns = tuple[OutputColumn, ...]
TypeOf = Callable[[exp.Expr], ColumnType | None]
_SINGLE = frozenset(Kind) - {Kind.TEXT, Kind.JSON, Kind.ARRAY}
"""Kinds of values that PostgreSQL does not make texts next to a text."""


def common_type(values: Sequence[exp.Expr], type_of: TypeOf) -> ColumnType | None:
    """The type of values that are no text literals; None if it is not one, or not known."""
    typed = [value for value in values if not _is_untyped(value)]
    numbers = [number_type(value, type_of) for value in typed]
    if typed and (common := common_if_known(numbers)) is not None:
        return common
    types = {type_of(value) for value in typed}
    return types.pop() if len(types) == 1 else None


def type_texts(values: Sequence[exp.Expr], type_: ColumnType | None) -> None:
    """Cast the text literals among the values to the type."""
    if type_ is None or type_.kind is Kind.TEXT:
        return
    for value in values:
        inner = value.unnest()
        if isinstance(inner, exp.Literal) and _is_untyped(inner) and inner.is_string:
            supersede(inner, text_as(inner, type_))


def type_texts_of_sides(
    sides: Sequence[exp.Expr], columns: Sequence[Columns], sql: str
) -> tuple[Columns, Columns]:
    """The columns of both sides of a set operation, in which a text literal takes the type of the
    other side. Raises SqlError for TEXT next to a number, a date or the like."""
    found = [list(each) for each in columns]
    items = [_items(side) for side in sides]
    for place, pair in enumerate(zip(*columns, strict=False)):
        types = [column.type or column.number for column in pair]
        literals = [listed[place : place + 1] if listed else [] for listed in items]
        free = [[each for each in listed if _is_untyped(each)] for listed in literals]
        for side, other in ((0, 1), (1, 0)):
            if free[side] and not free[other] and types[other] is not None:
                type_texts(free[side], types[other])
                found[side][place] = replace(pair[side], type=None, number=None)
                if types[other].kind is not Kind.DECIMAL:
                    found[side][place] = replace(pair[other], name=pair[side].name)
        if not any(free) and _is_text_next_to_other(types):
            names = " and ".join(type_.kind.upper() for type_ in types if type_ is not None)
            raise SqlError(
                f"Column {place + 1} of a set operation is {names}{at(sides[1], sql)}.",
                cure="Cast one of them.",
            )
    return tuple(found[0]), tuple(found[1])


def _items(side: exp.Expr) -> Sequence[exp.Expr]:
    """The values that a SELECT lists; [] for other queries and with a star."""
    while isinstance(side, exp.Subquery):
        side = side.this
    values = [each.unalias() for each in side.expressions] if isinstance(side, exp.Select) else []
    return [] if any(value.is_star for value in values) else values


def _is_untyped(value: exp.Expr) -> bool:
    inner = value.unnest()
    if CONSTANT in inner.meta:
        return False
    return isinstance(inner, exp.Null) or (isinstance(inner, exp.Literal) and inner.is_string)


def _is_text_next_to_other(types: Sequence[ColumnType | None]) -> bool:
    kinds = {type_.kind for type_ in types if type_ is not None}
    return Kind.TEXT in kinds and bool(kinds & _SINGLE)
