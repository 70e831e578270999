"""JSONB at binding: which function computes a node, and where JSONB would be ordered.

Equal values of JSONB have equal texts, but the texts are not in PostgreSQL's order.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from hornbeam_server.query.dialect.functions import path_steps
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.query.dialect.jsonb import (
    DIGITS,
    JSONB,
    PARAMETERS,
    TypeOf,
    arguments,
    digits_function,
    function_of,
    is_jsonb,
)
from hornbeam_server.query.typing.constants import named_type
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.types import ColumnType, Kind

_ORDERED = (
    exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Ordered, exp.Min, exp.Max, exp.Greatest,
    exp.Least,
)  # fmt: skip


def mark_jsonb(
    node: exp.Expr, type_of: TypeOf, give_type: Callable[[exp.Expr, ColumnType], None], sql: str
) -> None:
    """Note which function of JSONB computes `node`; `give_type` takes the types of arguments.

    Raises Unsupported for an order of JSONB.
    """
    name = function_of(node, type_of)
    if name is not None:
        node.meta[JSONB] = name
        for parameter, given in arguments(node):
            type_ = PARAMETERS.get(parameter)
            for each in given if type_ is not None else ():
                assert type_ is not None
                give_type(each, type_)
    elif isinstance(node, _ORDERED) and is_jsonb(type_of(node.this)):
        raise no_order(node, sql)
    elif isinstance(node, exp.JSONBExtract | exp.JSONBExtractScalar):
        try:
            path_steps(node)
        except Unsupported as error:
            message = f"{error.message.rstrip('.')}{at(node, sql)}."
            raise Unsupported(message, cure=error.cure) from None
    elif isinstance(node, exp.Cast):
        digits = digits_function(_number_type(node), type_of(node.this))
        if digits is not None:
            node.meta[DIGITS] = digits


def _number_type(node: exp.Cast) -> ColumnType | None:
    """The type of a cast; INTEGER for SMALLINT, which no column has."""
    if node.is_type(exp.DType.SMALLINT):
        return ColumnType(Kind.INTEGER)
    return named_type(node.args.get("to"))


def require_order(
    ordered: exp.Expr,
    select: exp.Select,
    output: Callable[[str], exp.Expr | None],
    type_of: TypeOf,
    sql: str,
) -> None:
    """Raises Unsupported if a term of ORDER BY names an output column of JSONB by its alias or
    number."""
    key = ordered.this.unnest()
    if key.meta.get("alias"):
        key = output(key.name) or key
    elif isinstance(key, exp.Literal) and key.is_int and int(key.name) <= len(select.expressions):
        key = select.expressions[int(key.name) - 1].unalias()
    if is_jsonb(type_of(key)):
        raise no_order(ordered, sql)


def no_order(node: exp.Expr, sql: str) -> Unsupported:
    return Unsupported(
        f"Values of type JSONB are not ordered{at(node, sql)}.",
        cure="Order or compare a part of them as text or a number: (j ->> 'key')::INTEGER.",
    )
