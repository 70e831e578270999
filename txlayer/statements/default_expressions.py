"""Defaults that are expressions: `now() + INTERVAL '1 day'`, `2 + 3`, `'A' || nextval('s')`.

They read no columns and draw nothing at random, so that they have one value in a transaction. It is
computed when the first row needs it, by our own loops or else by DuckDB. A default that calls
nextval is computed for each row.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from hornbeam_server.query.binding.binder import bind_tree
from hornbeam_server.query.dialect.catalogue import VOLATILE
from hornbeam_server.query.dialect.functions import (
    function_name,
    is_current_time,
    makes_or_takes_rows,
)
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.query.parsing.placeholders import named_placeholder
from hornbeam_server.query.parsing.sequence_calls import CALL, NUMBER, calls_in, sequence_in_default
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.errors import SqlError, TypeMismatch, Unsupported
from hornbeam_server.schema.model import Column, DefaultKind, Relation, Schema, enumerations_of
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.types import ColumnType, Value
from hornbeam_server.txlayer.statements.write_expressions import (
    LIFTED,
    ByValues,
    ConstantScope,
    is_lifted,
)
from hornbeam_server.txlayer.statements.write_parameters import NOW, with_one_now
from hornbeam_server.txlayer.statements.write_plans import assigned

_PLACE = re.compile(r" \(line \d+, column \d+\)")
"""A place in the text that is parsed here, which no user has written."""


@dataclass(frozen=True, slots=True)
class DefaultExpression:
    """A compiled default of `column`. `draws` are the sequences from which it takes numbers, each
    with the parameter for the number."""

    column: Column
    expression: ByValues
    draws: tuple[tuple[str, str], ...] = ()

    async def value(
        self, now: dt.datetime, engine: QueryEngine, numbers: Mapping[str, int]
    ) -> Value:
        """The value in a transaction whose current time is `now`. `numbers` has the parameters of
        `draws`. Raises TypeMismatch for a value that the column does not take, and the errors of
        the evaluation."""
        parameters: dict[str, Value] = {NOW: now, **numbers}
        if self.expression.native(parameters) is not None:
            value = self.expression.value((), parameters)
        else:
            value = await engine.evaluate(lambda: self.expression.value((), parameters))
        return self._assigned(value)

    def check(self) -> None:
        """Raises TypeMismatch if our own loops compute a value that the column does not take."""
        first = dict.fromkeys((name for _, name in self.draws), 1)
        parameters: Mapping[str, Value] = {NOW: dt.datetime(2000, 1, 1, tzinfo=dt.UTC), **first}
        if self.expression.native(parameters) is not None:
            self._assigned(self.expression.value((), parameters))

    def _assigned(self, value: Value) -> Value:
        type_ = self.column.type
        try:
            return assigned(value, type_)
        except TypeMismatch as error:
            error.message = f"Default of column {self.column.name}: {error.message}"
            raise


def _types_of(relation: Relation) -> Catalog:
    """A catalog without relations, in which a default may name the types of its relation."""
    return Catalog(0, Schema((), enumerations=enumerations_of((relation,))), Forest(()))


def compile_default(column: Column, relation: Relation) -> DefaultExpression:
    """Compile the default of a column, which is an expression. Raises SqlError and its
    subclasses."""
    assert column.default is not None
    what = f"Default of {relation.name}.{column.name}"
    try:
        sql = f"SELECT ({column.default.sql})"
        bound = bind_tree(parse(sql, sequences=True), sql, _types_of(relation))
        tree = bound.ast
        draws = _lifted(tree)
        _require_constant(tree, what)
        bound = with_one_now(bound)
        node = bound.ast.expressions[0].unalias()
        unlink(tree)
        types: dict[int | str, ColumnType | None] = dict.fromkeys((n for _, n in draws), NUMBER)
        types.update(bound.parameter_types)
        return DefaultExpression(column, ByValues(node, ConstantScope(types)), draws)
    except SqlError as error:
        message = _PLACE.sub("", error.message)
        located = message if message.startswith(what) else f"{what}: {message}"
        raise type(error)(located, cure=error.cure, **error.details) from None


def _lifted(select: exp.Expr) -> tuple[tuple[str, str], ...]:
    """The sequences of the calls nextval('…') in an expression, each with the parameter that takes
    the place of the call. Raises SqlError."""
    draws: dict[str, str] = {}
    for call in calls_in(select.expressions[0]):
        name = sequence_in_default(call)
        if name is None:
            continue
        parameter = f"{LIFTED}{call.meta[CALL]}"
        call.replace(named_placeholder(parameter))
        unlink(call)
        draws[parameter] = name
    return tuple((name, parameter) for parameter, name in draws.items())


def default_expressions(relation: Relation) -> tuple[Column, ...]:
    """The columns whose default is an expression."""
    return tuple(c for c in relation.columns if c.default_kind is DefaultKind.EXPRESSION)


def _require_constant(select: exp.Expr, what: str) -> None:
    """Raises Unsupported unless the expression of `select` has one value in a transaction."""
    if (
        not isinstance(select, exp.Select)
        or len(select.expressions) != 1
        or select.args.get("from_")
    ):
        raise Unsupported(f"{what} is not one expression.", cure="Write one expression.")
    for node in select.walk():
        if isinstance(node, exp.Query) and node is not select:
            raise Unsupported(f"{what} cannot have a subquery.", cure="Give the value in INSERT.")
        if isinstance(node, exp.Window) or makes_or_takes_rows(node):
            raise Unsupported(f"{what} cannot have an aggregate.", cure="Give the value in INSERT.")
        if isinstance(node, exp.Placeholder) and not is_lifted(node):
            raise Unsupported(f"{what} cannot have a parameter.", cure="Write a literal.")
        if not isinstance(node, exp.Func) or is_current_time(node):
            continue
        if function_name(node) in VOLATILE:
            raise Unsupported(
                f"{what} cannot have {function_name(node)}, whose value differs from call to call.",
                cure="Write DEFAULT gen_random_uuid() alone, or give the value in INSERT.",
            )
