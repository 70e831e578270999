"""Functions of JSONB in our own loops: `query/dialect/jsonb.py` says which node calls which."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from sqlglot import exp

from hornbeam_server.query.dialect.jsonb import FUNCTIONS, Parameter, path_text
from hornbeam_server.query.expressions.operands import (
    BOOLEAN,
    INTEGERS,
    TEXT,
    NotNativeError,
    Operand,
    constant,
    strict,
    unary,
)
from hornbeam_server.schema import jsonb
from hornbeam_server.schema.assignment import text_of
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.reals import shortest
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, REAL, ColumnType, Kind, Row

_KINDS = {
    Parameter.JSONB: (Kind.JSON, Kind.TEXT),
    Parameter.TEXT: (Kind.TEXT,),
    Parameter.TEXTS: (Kind.TEXT,),
    Parameter.INTEGER: (Kind.INTEGER, Kind.BIGINT),
    Parameter.BOOLEAN: (Kind.BOOLEAN,),
}
_JSON = ColumnType(Kind.JSON)
_DIGITS = ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, 0)


def texts(node: exp.Expr) -> list[Operand]:
    """The operand of a constant array of texts. Raises NotNativeError for other nodes."""
    found = path_text(node)
    if found is None:
        raise NotNativeError
    return [constant(TEXT, found)]


def called(name: str, given: Sequence[list[Operand]]) -> Operand:
    """The call of a function, with the operands of each parameter. Raises NotNativeError."""
    function = FUNCTIONS[name]
    if function.several:
        raise NotNativeError
    defaults = iter(function.defaults)
    operands: list[Operand] = []
    for parameter, each in zip(function.parameters, given, strict=True):
        if parameter is Parameter.LIST:
            return _of_list(function.run, function.result, each)
        found = each[0] if each else constant(BOOLEAN, next(defaults))
        operands.append(_argument(parameter, found))
    return strict(function.result, function.run, *operands)


def _argument(parameter: Parameter, operand: Operand) -> Operand:
    if operand.type is None:
        return operand
    if parameter is Parameter.ANY:
        return as_json(operand)
    if operand.type.kind not in _KINDS[parameter]:
        raise NotNativeError
    return operand


def _of_list(run: Callable[..., Any], result: ColumnType, items: Sequence[Operand]) -> Operand:
    parts = [as_json(item).evaluate for item in items]

    def evaluate(row: Row, parameters: Any) -> Any:
        return run([part(row, parameters) for part in parts])

    return Operand(result, evaluate)


def as_json(operand: Operand) -> Operand:
    """An operand of any type as text of JSON."""
    if operand.type is None:
        return operand
    kind = operand.type.kind
    if kind is Kind.JSON:
        return operand
    if kind not in _TEXTS:
        raise NotNativeError
    return unary(operand, _JSON, _real if operand.type == REAL else _TEXTS[kind])


def _timestamp(value: dt.datetime) -> str:
    text = text_of(value) or ""
    return jsonb.write(text.replace(" ", "T") + (":00" if value.tzinfo is not None else ""))


def _double(value: float) -> str:
    return repr(value) if math.isfinite(value) else jsonb.write(text_of(value))


def _real(value: float) -> str:
    return _double(shortest(value))


def _quoted(value: dt.date | uuid.UUID | bytes) -> str:
    return jsonb.write(text_of(value))


_TEXTS: dict[Kind, Callable[[Any], str]] = {
    **dict.fromkeys(INTEGERS, str),
    Kind.DECIMAL: lambda value: format(value, "f"),
    Kind.DOUBLE: _double,
    Kind.BOOLEAN: lambda value: "true" if value else "false",
    Kind.TEXT: jsonb.write,
    Kind.BYTES: _quoted,
    Kind.DATE: _quoted,
    Kind.UUID: _quoted,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMPTZ: _timestamp,
}


def number(name: str, operand: Operand) -> Operand:
    """A JSONB number as a number, to be cast further; `name` is the function of its digits."""
    run = FUNCTIONS[name].run
    if name != "whole":
        raise NotNativeError

    def whole(text: str) -> Decimal:
        value = Decimal(run(text))
        if value.adjusted() >= MAX_DECIMAL_PRECISION:
            raise TypeMismatch(f"{value} is out of range.")
        return value

    return unary(operand, _DIGITS, whole)
