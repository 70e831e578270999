"""Sums as DuckDB computes and converts them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from hornbeam_server.maintain.deltas.relations import Field
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.types import Kind, Value

DIGITS = Context(prec=400, rounding=ROUND_HALF_UP)
"""A context in which no sum of decimals is rounded."""


def zero(field: Field) -> Decimal:
    """A sum of nothing as the first term of a sum of type `field`."""
    return Decimal(0).scaleb(-(field.type.scale or 0))


def in_range(field: Field) -> Callable[[Decimal], Decimal]:
    """A function that returns a sum of type `field`. It raises TypeMismatch for a larger one."""
    type_ = field.type
    limit = Decimal(10) ** ((type_.precision or 0) - (type_.scale or 0))

    def checked(total: Decimal) -> Decimal:
        if -limit < total < limit:
            return total
        raise TypeMismatch(f"Overflow in addition of {field.duck}: {total}.")

    return checked


def fitted(field: Field) -> Callable[[Any], Value]:
    """The conversion of a sum to the type of the result of SUM."""
    if field.type.kind is Kind.DECIMAL:
        return lambda total: total
    numbers = field.type.integers

    def whole(total: Decimal) -> int:
        number = int(total)
        if number in numbers:
            return number
        raise TypeMismatch(f"{total} is out of range for {field.duck}.")

    return whole
