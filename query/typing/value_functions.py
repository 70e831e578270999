"""PostgreSQL's functions that Python computes, at binding: the types of their results and of
parameters among their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.overloads import OVERLOAD, arguments, overload_of
from hornbeam_server.query.dialect.sums import TypeOf
from hornbeam_server.query.dialect.value_functions import FUNCTIONS, Function, function_of
from hornbeam_server.schema.types import ColumnType

GiveType = Callable[[exp.Expr, ColumnType], None]


def mark_values(node: exp.Expr, type_of: TypeOf, give_type: GiveType) -> None:
    """Note which overload computes `node`. Parameters among the arguments of a function
    that Python computes get their types."""
    name = overload_of(node, type_of)
    if name is not None:
        node.meta[OVERLOAD] = name
        _give_types(FUNCTIONS[name], arguments(node), give_type)
    elif isinstance(node, exp.Anonymous) and (function := function_of(node.name)) is not None:
        _give_types(function, node.expressions, give_type)


def _give_types(function: Function, given: Sequence[exp.Expr], give_type: GiveType) -> None:
    for argument, type_ in zip(given, function.parameters, strict=False):
        if type_ is not None:
            give_type(argument, type_)


def value_type(node: exp.Expr, type_of: TypeOf) -> ColumnType | None:
    """The type of a node that such a function computes; None for other nodes."""
    name = overload_of(node, type_of)
    if name is not None:
        return FUNCTIONS[name].result
    function = function_of(node.name) if isinstance(node, exp.Anonymous) else None
    return None if function is None or function.several else function.result
