"""The columns of a result that take numbers from sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.types import ColumnType, Row, Value
from hornbeam_server.txlayer.statements.identity_columns import Numbers
from hornbeam_server.txlayer.statements.sequence_values import SequenceValue
from hornbeam_server.txlayer.statements.write_expressions import ByValues


@dataclass(frozen=True, slots=True)
class Output:
    """Column `position` of the result. `calls` and `operands` give the parameters of the
    expression: the calls in their order, and the columns of the query's row."""

    position: int
    calls: tuple[SequenceValue, ...]
    operands: tuple[tuple[str, int], ...]
    expression: ByValues
    type: ColumnType | None

    async def value(self, row: Row, numbers: Numbers, engine: QueryEngine) -> Value:
        given: dict[str, Value] = {name: row[position] for name, position in self.operands}
        for each in self.calls:
            given[each.name] = await numbers.value(each.call) if each.needed((), given) else None
        if self.expression.native(given) is not None:
            return self.expression.value((), given)
        return await engine.evaluate(lambda: self.expression.value((), given))


@dataclass(frozen=True, slots=True)
class Outputs:
    """The columns of a result with calls: the first `width` columns of the query, of which the
    `computed` ones are replaced. The query's other columns are operands."""

    width: int
    computed: tuple[Output, ...]

    async def rows(self, found: Sequence[Row], numbers: Numbers, engine: QueryEngine) -> list[Row]:
        """The rows of the result. Raises the errors of `Numbers.value` and of the expressions."""
        completed: list[Row] = []
        for row in found:
            values = list(row[: self.width])
            for output in self.computed:
                values[output.position] = await output.value(row, numbers, engine)
            completed.append(tuple(values))
        return completed
