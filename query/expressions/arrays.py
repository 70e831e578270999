"""Arrays in our own loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam_server.query.expressions.operands import (
    NotNativeError,
    Operand,
    Parameters,
    common_type,
    constant,
    convert,
)
from hornbeam_server.schema.types import UNORDERED, Row, array_of


def written(elements: Sequence[Operand]) -> Operand:
    """`ARRAY[…]`, whose elements have a common type. Raises NotNativeError."""
    type_ = common_type(elements)
    if type_.kind in UNORDERED or any(element.may_be_nan for element in elements):
        raise NotNativeError
    converted = [convert(element, type_) for element in elements]
    if all(element.constant for element in converted):
        return constant(array_of(type_), tuple([element.value for element in converted]))
    parts = [element.evaluate for element in converted]

    def evaluate(row: Row, parameters: Parameters) -> Any:
        return tuple([part(row, parameters) for part in parts])

    return Operand(array_of(type_), evaluate)
