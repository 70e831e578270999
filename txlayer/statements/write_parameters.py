"""Parameters of write statements, and the one CURRENT_TIMESTAMP of a transaction."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from hornbeam_server.query.binding.binder import BoundQuery
from hornbeam_server.query.binding.parameters import read
from hornbeam_server.query.dialect.functions import is_current_time
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.parsing.placeholders import named_placeholder
from hornbeam_server.query.typing.comparands import own
from hornbeam_server.schema.assignment import assign
from hornbeam_server.schema.errors import SqlError, TypeMismatch
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.trees import written
from hornbeam_server.schema.types import ColumnType, Kind, Value
from hornbeam_server.txlayer.statements.requests import Parameters
from hornbeam_server.txlayer.statements.write_plans import WritePlan, named

NOW = "__now"
"""The parameter that replaces CURRENT_TIMESTAMP and its like: the transaction's current time."""
_NOW_TYPE = ColumnType(Kind.TIMESTAMPTZ)


def with_one_now(bound: BoundQuery) -> BoundQuery:
    """`bound` with the current time as parameter `NOW`. It has one value in a transaction, and the
    same in a replay."""
    times = [node for node in bound.ast.walk() if is_current_time(node)]
    if not times:
        return bound
    for node in times:
        time: exp.Expr = exp.cast(named_placeholder(NOW), "TIMESTAMPTZ", copy=False)
        if isinstance(node, exp.CurrentDate | exp.Localtimestamp):
            kind = "DATE" if isinstance(node, exp.CurrentDate) else "TIMESTAMP"
            time = exp.cast(time, kind, copy=False)
        if isinstance(node.parent, exp.Returning | exp.Select):
            time = exp.alias_(time, written(node, NAME), quoted=True, copy=False)
        node.replace(time)
    return replace(bound, parameter_types={**bound.parameter_types, NOW: _NOW_TYPE})


def bind_parameters(parameters: Parameters, plan: WritePlan, now: dt.datetime) -> Parameters:
    """Check the number and names of the parameters, and read each value as the type of its use.

    `now` is the value of CURRENT_TIMESTAMP in this transaction. Raises SqlError, TypeMismatch, and
    Misfit for values that need another plan (`with_values`).
    """
    values = read(plan.readers, {**by_name(parameters, plan.bound), NOW: now})
    if NOW in values:
        return values
    # A look at an abstract class takes longer than one at the usual types.
    if not isinstance(parameters, tuple | list) and isinstance(parameters, Mapping):
        return values
    return tuple(values.values())


def assigning(column: Column) -> tuple[Callable[[Any], bool], Callable[[Any], Value]]:
    """The reader of a parameter whose only use is to be the value of `column`: as a check that a
    value needs no conversion, and the conversion of any other value."""
    type_ = column.type

    def assigned(value: Any) -> Value:
        try:
            return assign(type_, value)
        except TypeMismatch as error:
            raise named(error, column) from None

    return _taken_as_it_is(type_), assigned


def _taken_as_it_is(type_: ColumnType) -> Callable[[Any], bool]:
    """A fast check that a column of the type takes a value as it is. A false negative only costs
    time."""
    fits, length = own(type_), type_.length
    if type_ != type_.stored() or type_.declared is not None:
        return lambda _: False
    if length is None:
        return fits
    return lambda value: fits(value) and len(value) <= length


def by_name(parameters: Parameters, bound: BoundQuery) -> Mapping[Any, Any]:
    """The values by number or name. Raises SqlError unless they match the parameters."""
    types = bound.parameter_types
    if isinstance(parameters, tuple | list) or not isinstance(parameters, Mapping):
        wanted = len(types) - (NOW in types)
        if len(parameters) != wanted:
            raise SqlError(
                f"The statement has {wanted} parameters, {len(parameters)} values were given.",
                cure="Give one value for each parameter.",
            )
        return dict(enumerate(parameters))
    missing = [name for name in types if name not in parameters and name != NOW]
    extra = [name for name in parameters if name not in types or name == NOW]
    if missing or extra:
        raise SqlError(
            "The parameters do not match the statement: "
            + "; ".join(
                f"{what} {', '.join(':' + str(name) for name in names)}"
                for what, names in (("missing", missing), ("unknown", extra))
                if names
            )
            + ".",
            cure="Give one value for each name in the statement.",
        )
    return parameters
