"""Arrays at binding: which function computes a node, and comparisons with ANY and ALL of arrays."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from hornbeam_server.query.binding.comparands import Gap, meant
from hornbeam_server.query.binding.literals import typed, written
from hornbeam_server.query.dialect.arrays import (
    ARRAY,
    SHOWN,
    TypeOf,
    array_compared,
    function_of,
    is_joined,
    nested,
    typed_arguments,
)
from hornbeam_server.schema.errors import TypeMismatch, Unsupported
from hornbeam_server.schema.types import UNORDERED, ColumnType, array_of

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
    name = function_of(node, type_of)
    if name is None:
        return
    if nested(node, name, type_of):
        raise Unsupported(
            "An array of arrays is not supported: an array has one dimension.",
            cure="Keep several dimensions in a value of JSONB.",
        )
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
    value = meant(type_, constant.value)
    if isinstance(value, Gap):
        raise TypeMismatch(
            f"{constant.value} is not a value of type {type_.sql()}.",
            cure="CAST the array to a type that has this element.",
        )
    if isinstance(constant.value, str):
        inner.replace(typed(type_, value))
