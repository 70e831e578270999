"""Arrays at binding: which function computes a node, and comparisons with ANY and ALL of arrays."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from hornbeam_server.query.dialect.arrays import (
    ARRAY,
    SHOWN,
    TypeOf,
    array_compared,
    function_of,
    has_dimensions,
    is_joined,
    typed_arguments,
)
from hornbeam_server.query.typing.comparands import Gap, meant
from hornbeam_server.query.typing.literals import typed, written
from hornbeam_server.schema.arrays import elements_of
from hornbeam_server.schema.errors import TypeMismatch, Unsupported
from hornbeam_server.schema.spelling import decimal
from hornbeam_server.schema.types import (
    MAX_DECIMAL_PRECISION,
    UNORDERED,
    ColumnType,
    Kind,
    array_of,
)

GiveType = Callable[[exp.Expr, ColumnType], None]


def mark_array(node: exp.Expr, type_of: TypeOf, give_type: GiveType) -> None:
    """Note which function of arrays computes `node`. Parameters and constants among its arguments
    get the types that the other arguments imply. Raises TypeMismatch, Unsupported."""
    array = array_compared(node)
    if array is not None:
        _mark_compared(node, array, type_of, give_type)
        return
    if isinstance(node, exp.Anonymous) and is_joined(node):
        shown = type_of(node.expressions[0])
        if shown is not None and shown.element is not None:
            node.meta[SHOWN] = shown.element
        return
    if has_dimensions(node, type_of):
        raise Unsupported(
            "An array of arrays is not supported: an array has one dimension.",
            cure="Keep several dimensions in a value of JSONB.",
        )
    if isinstance(node, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        _settle_text_of_decimals(node, type_of, give_type)
    name = function_of(node, type_of)
    if name is None:
        return
    node.meta[ARRAY] = name
    for each, type_ in typed_arguments(node, name, type_of):
        _settle(each, type_, give_type)


def _mark_compared(node: exp.Expr, array: exp.Expr, type_of: TypeOf, give_type: GiveType) -> None:
    node.meta[ARRAY] = "compared"
    element, list_ = type_of(node.this), type_of(array)
    if list_ is not None and list_.element is not None:
        _settle(node.this, list_.element, give_type)
    elif element is not None and element.kind not in UNORDERED:
        _settle(array, array_of(element.stored()), give_type)


def _settle(node: exp.Expr, type_: ColumnType, give_type: GiveType) -> None:
    """Give a parameter the type, and make a constant one of this type."""
    inner = node.unnest()
    give_type(inner, type_)
    constant = written(inner)
    if constant is None or isinstance(inner, exp.Cast) or inner.parent is None:
        return
    if not isinstance(constant.value, str) and type_.element is not None:
        return
    if type_.kind is Kind.DECIMAL and not isinstance(constant.value, str):
        return
    if type_.element is not None and type_.element.kind is Kind.DECIMAL:
        type_ = _with_all_digits(type_, str(constant.value))
    value = meant(type_, constant.value)
    if isinstance(value, Gap):
        raise TypeMismatch(
            f"{constant.value} is not a value of type {type_.sql()}.",
            cure="CAST the array to a type that has this element.",
        )
    if isinstance(constant.value, str):
        inner.replace(typed(type_, value))


def _settle_text_of_decimals(node: exp.Binary, type_of: TypeOf, give_type: GiveType) -> None:
    """Read a text that is compared with an array of decimals as an array with all its digits."""
    for side, other in ((node.this, node.expression), (node.expression, node.this)):
        type_ = type_of(side) if other.unnest().is_string else None
        if type_ is not None and type_.element is not None and type_.element.kind is Kind.DECIMAL:
            _settle(other, type_, give_type)


def _with_all_digits(type_: ColumnType, text: str) -> ColumnType:
    """A type of arrays of decimals with room for the numbers that a text spells; `type_` if it
    spells none."""
    try:
        numbers = [decimal(each) for each in elements_of(text) if each is not None]
    except (ValueError, ArithmeticError):
        return type_
    sizes = [(max(n.adjusted() + 1, 1), max(-int(n.as_tuple().exponent), 0)) for n in numbers]
    whole, places = (max((size[i] for size in sizes), default=1) for i in range(2))
    if whole + places > MAX_DECIMAL_PRECISION:
        return type_
    return array_of(ColumnType(Kind.DECIMAL, whole + places, places))
