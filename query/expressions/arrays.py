"""Arrays in our own loops."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from hornbeam_server.query.dialect.arrays import FUNCTIONS
from hornbeam_server.query.expressions.operands import (
    BOOLEAN,
    INTEGER,
    INTEGERS,
    TEXT,
    NotNativeError,
    Operand,
    Parameters,
    common_type,
    constant,
    convert,
    strict,
)
from hornbeam_server.schema.types import UNORDERED, ColumnType, Kind, Row, array_of

_RESULTS = {
    "b": BOOLEAN,
    "n": INTEGER,
    "t": TEXT,
    "i": array_of(INTEGER),
    "s": array_of(TEXT),
}


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


def called(name: str, operands: Sequence[Operand]) -> Operand:
    """The call of a function of arrays (`query/dialect/arrays.py`). Raises NotNativeError."""
    function = FUNCTIONS[name]
    array = _array_type(function.parameters, operands)
    given = [
        _argument(kind, operand, array)
        for kind, operand in zip(function.parameters, operands, strict=False)
    ]
    given += [constant(None, None) for _ in function.parameters[len(given) :]]
    if function.result in _RESULTS:
        result = _RESULTS[function.result]
    else:
        if array is None:
            raise NotNativeError
        result = array.element_type if function.result == "e" else array
    if function.strict:
        return strict(result, function.run, *given)
    parts, run = [operand.evaluate for operand in given], function.run
    return Operand(result, lambda row, p: run(*[part(row, p) for part in parts]))


def _array_type(parameters: str, operands: Sequence[Operand]) -> ColumnType | None:
    """The type of the arrays among the arguments. Raises NotNativeError for arrays and elements of
    several types, which DuckDB converts."""
    types = {
        type_.element_type if kind == "a" else type_
        for kind, operand in zip(parameters, operands, strict=False)
        if kind in "ae"
        and (type_ := operand.type) is not None
        and (kind == "e" or type_.kind is Kind.ARRAY)
    }
    plain = {ColumnType(Kind.TEXT) if type_.kind is Kind.TEXT else type_ for type_ in types}
    if len(plain) > 1 or any(type_.kind in UNORDERED for type_ in plain):
        raise NotNativeError
    return array_of(plain.pop()) if plain else None


def _argument(kind: str, operand: Operand, array: ColumnType | None) -> Operand:
    if operand.type is None or kind == "e":
        return operand
    wanted = {"a": {Kind.ARRAY}, "n": INTEGERS, "t": {Kind.TEXT}}[kind]
    if operand.type.kind not in wanted:
        raise NotNativeError
    return operand


def any_equal(value: Operand, array: Operand) -> Operand:
    """`value = ANY (array)`."""
    return compared(operator.eq, value, array, every=False)


def compared(
    test: Callable[[Any, Any], bool], value: Operand, array: Operand, *, every: bool
) -> Operand:
    """`value test ANY (array)`, or ALL for `every`. Raises NotNativeError."""
    if value.type is None or array.type is None or array.type.element is None:
        raise NotNativeError
    kinds = {value.type.kind, array.type.element.kind}
    if (len(kinds) > 1 and not kinds <= INTEGERS) or kinds & {Kind.ARRAY, Kind.JSON, Kind.DOUBLE}:
        raise NotNativeError
    f, g = value.evaluate, array.evaluate

    def evaluate(row: Row, parameters: Parameters) -> bool | None:
        left, elements = f(row, parameters), g(row, parameters)
        if elements is None:
            return None
        if not elements:
            return every
        if left is None:
            return None
        if any(test(left, each) is not every for each in elements if each is not None):
            return not every
        return None if None in elements else every

    return Operand(BOOLEAN, evaluate)
