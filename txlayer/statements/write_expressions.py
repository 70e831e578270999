"""Expressions of write statements: which columns and parameters they may name, and how they are
compiled for the types of the parameters' values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeGuard

from sqlglot import exp

from hornbeam_server.query.duckdb.scalar import evaluate
from hornbeam_server.query.expressions import compile_expression
from hornbeam_server.query.parsing.placeholders import parameter_key
from hornbeam_server.query.typing.value_types import Untyped, value_type
from hornbeam_server.schema.errors import UnknownName
from hornbeam_server.schema.model import Column, Relation
from hornbeam_server.schema.named_columns import unknown_column
from hornbeam_server.schema.trees import nodes_of
from hornbeam_server.schema.types import ColumnType, Kind, Row, Value
from hornbeam_server.txlayer.statements.requests import Parameters

Scalar = Callable[[Row, Parameters], Value]
Types = Mapping[int | str, ColumnType | None]
"""The types of parameters; None if unknown."""
LIFTED = "__value"
"""Prefix of the names of parameters whose values come with the row (`value_lifting`)."""


def is_lifted(node: exp.Expr) -> TypeGuard[exp.Placeholder]:
    """Whether the node is the parameter of a lifted value."""
    return isinstance(node, exp.Placeholder) and str(parameter_key(node)).startswith(LIFTED)


class RowScope:
    """The scope of one relation's row. With `proposed`, the row `excluded` follows it."""

    def __init__(self, relation: Relation, alias: str, types: Types, proposed: bool = False):
        self.relation = relation
        self.aliases = {alias, relation.name}
        self.types = types
        self.proposed = proposed

    def position(self, name: str) -> int:
        """The position of a column in the relation. Raises UnknownName."""
        position = self.relation.positions.get(name)
        if position is None:
            raise unknown_column(self.relation, name)
        return position

    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        name, table = column.name, column.table
        position = self.position(name)
        type_ = self.relation.columns[position].type.stored()
        if self.proposed and table == "excluded":  # also of a relation of that name
            return position + len(self.relation.columns), type_
        if not table or table in self.aliases:
            return position, type_
        raise UnknownName(
            f"There is no relation {table} in this statement.",
            cure=f"Use {' or '.join(sorted(self.aliases))}.",
        )

    def parameter_type(self, name: int | str) -> ColumnType | None:
        return self.types.get(name)

    @property
    def columns(self) -> tuple[Column, ...]:
        own = self.relation.columns
        if not self.proposed:
            return own
        return own + tuple(Column(f"excluded.{c.name}", c.type, c.nullable) for c in own)


class ByValues:
    """An expression whose types depend on the values of its parameters: `balance + ?`.

    It is compiled for the types of the values, once for each combination; else DuckDB evaluates it.
    """

    def __init__(self, node: exp.Expr, scope: RowScope | ConstantScope) -> None:
        self._node = node
        self._scope = scope
        keys = dict.fromkeys(map(parameter_key, nodes_of(node, exp.Placeholder)))
        self._untyped = [key for key in keys if scope.parameter_type(key) is None]
        self.untyped = tuple(key for key in self._untyped if not str(key).startswith(LIFTED))
        """The parameters whose types are those of their values."""
        self.of_row = len(self.untyped) < len(self._untyped)
        """The types depend on values that come with the row."""
        self._compiled: dict[tuple[ColumnType | None, ...], Scalar | None] = {}

    def native(self, parameters: Parameters) -> Scalar | None:
        """The expression compiled for the types of these parameters; None: DuckDB evaluates it."""
        types = tuple([_value_type(parameters[key]) for key in self._untyped])  # type: ignore[index]
        if types not in self._compiled:
            known = dict(zip(self._untyped, types, strict=True))
            self._compiled[types] = compile_expression(self._node, _TypedScope(self._scope, known))
        return self._compiled[types]

    def value(self, row: Row, parameters: Parameters) -> Value:
        compiled = self.native(parameters)
        if compiled is not None:
            return compiled(row, parameters)
        scope = self._scope
        return evaluate(self._node, scope.columns, [row], parameters, scope.types)[0]


class _TypedScope:
    """`scope`, with the types of more parameters."""

    def __init__(
        self, scope: RowScope | ConstantScope, known: Mapping[int | str, ColumnType | None]
    ) -> None:
        self._known = known
        self.resolve = scope.resolve
        self._type = scope.parameter_type

    def parameter_type(self, name: int | str) -> ColumnType | None:
        return self._known.get(name) or self._type(name)


_TEXT = ColumnType(Kind.TEXT)


def _value_type(value: Value) -> ColumnType | None:
    """The type that DuckDB assumes for a text or an integer; None for other values. Raises
    TypeMismatch for invalid text (lone surrogates)."""
    if type(value) is str:
        _TEXT.coerce(value)
    elif type(value) is not int:
        return None
    try:
        return value_type(value)
    except Untyped:
        return None


class ConstantScope:
    """The scope of VALUES and key equalities: it has parameters, but no columns."""

    columns: tuple[Column, ...] = ()

    def __init__(self, types: Types) -> None:
        self.types = types

    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        raise UnknownName(
            f"Column {column.name} cannot be used here.",
            cure="Use values and parameters, or INSERT … SELECT.",
        )

    def parameter_type(self, name: int | str) -> ColumnType | None:
        return self.types.get(name)
