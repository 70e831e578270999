"""Aggregates as lists of calls, each with the expression that a row adds to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hornbeam_server.maintain.deltas.algebra import Aggregate, Call, Node
from hornbeam_server.maintain.deltas.operators import mapped, named
from hornbeam_server.maintain.deltas.partials.texts import plain_column
from hornbeam_server.maintain.deltas.relations import Field
from hornbeam_server.query.dialect.aggregates import Function
from hornbeam_server.schema.types import ColumnType, Kind

COUNT = Field("", "BIGINT", ColumnType(Kind.BIGINT), nullable=False)
_WHOLE = Field("", "HUGEINT", ColumnType(Kind.DECIMAL, 38, 0))
_NOTHING = Field("nothing", "INTEGER", ColumnType(Kind.INTEGER))


@dataclass(frozen=True)
class Amount:
    """What a row adds to an aggregate: `function` of the expression `text`, of the type `field`.
    `total` is the type of a sum."""

    function: Function
    text: str = ""
    field: Field | None = None
    total: Field | None = None


class Amounts:
    """The calls of an aggregate, whose arguments are columns `prefix` with a number."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._calls: list[Call] = []
        self._sums: dict[str, Field] = {}
        self._columns: dict[str, Field] = {}
        """Expression → its column."""

    def call(self, amount: Amount, result: Field) -> None:
        """Add a call with the column `result`."""
        argument = ""
        if amount.field is not None:
            name = f"{self._prefix}{len(self._columns)}"
            argument = self._columns.setdefault(amount.text, named(amount.field, name)).name
        self._calls.append(Call(amount.function, argument, result))
        if amount.function is Function.SUM:
            assert amount.total is not None
            self._sums[argument] = amount.total

    def aggregate(self, node: Node, keys: Sequence[tuple[Field, str]]) -> Aggregate:
        """The aggregate of `node` by columns with their expressions."""
        parts = [*keys, *((field, text) for text, field in self._columns.items())]
        parts = parts or [(_NOTHING, "1")]
        input_ = mapped(node, [(field, text, plain_column(text)) for field, text in parts])
        groups = tuple(field for field, _ in keys)
        return Aggregate(input_, groups, tuple(self._calls), tuple(self._sums.items()))


def sum_of(field: Field) -> Field:
    """The type of the sum of a count, or of a partial sum."""
    return _WHOLE if field.type.kind is Kind.BIGINT else field
