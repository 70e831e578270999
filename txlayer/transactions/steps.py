"""Execution of statements with parts that write or take numbers (`write_steps`).

All steps read the state before the statement, as in PostgreSQL: the rows of one step reach the
others by its RETURNING alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.sizes import Budget
from hornbeam_server.schema.turns import made
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.snapshot import RowReader, RowVersion
from hornbeam_server.txlayer.statements.identity_columns import Numbers
from hornbeam_server.txlayer.statements.requests import Parameters, Statement, StatementResult
from hornbeam_server.txlayer.statements.write_plans import Block, Step, StepsPlan, Subquery
from hornbeam_server.txlayer.transactions.byte_limits import budget_of_reads
from hornbeam_server.txlayer.transactions.searches import Searches
from hornbeam_server.txlayer.transactions.value_queries import named_parameters
from hornbeam_server.txlayer.transactions.workspace import gathered

Run = Callable[[Step, Statement], Awaitable[StatementResult]]


async def run_steps(
    plan: StepsPlan,
    parameters: Parameters,
    returned: Budget,
    searches: Searches,
    numbers: Numbers,
    run: Run,
) -> StatementResult:
    """Run the steps in their order. `returned` limits the rows of the result, and `run` runs a
    write."""
    given = named_parameters(parameters)

    def statement(step: Step) -> Statement:
        return Statement(plan.bound.statement.sql, _named(step.uses, given))

    rows: dict[str, Sequence[Row]] = {}
    before = await searches.reader(plan.sources)
    catalog = plan.last.catalog if isinstance(plan.last, Step) else plan.last.prepared.catalog
    with searches.reading(WithRows(before, rows, catalog)):
        for step in plan.steps:
            if isinstance(step, Block):
                found = await _rows_of(step, given, searches, numbers)
                rows[step.rows] = await made((n, *row) for n, row in enumerate(found))
                continue
            result = await run(step, statement(step))
            if step.rows is not None:
                rows[step.rows] = await made((n, *row) for n, row in enumerate(result.rows))
        if isinstance(plan.last, Step):
            return await run(plan.last, statement(plan.last))
        return await _selected(plan.last, given, searches, returned)


async def _rows_of(
    block: Block, given: Parameters, searches: Searches, numbers: Numbers
) -> Sequence[Row]:
    stream = await searches.run(block.query, given)
    found = await gathered(stream, "a subquery", budget_of_reads())
    return await block.outputs.rows(found, numbers, block.query.prepared.engine)


def _named(uses: Mapping[str, int | str], given: Mapping[int | str, Value]) -> dict[str, Value]:
    return {name: given[key] for name, key in uses.items()}


async def _selected(
    query: Subquery, given: Parameters, searches: Searches, returned: Budget
) -> StatementResult:
    stream = await searches.run(query, given)
    rows = await gathered(stream, "a result", returned)
    types = tuple("" if c.type is None else c.type.sql() for c in stream.columns)
    return StatementResult(len(rows), tuple(c.name for c in stream.columns), types, tuple(rows))


class WithRows(RowReader):
    """A `RowReader` that also has `rows`, by relation: the key of a row is its number. These
    relations are in `catalog`."""

    def __init__(
        self, reader: RowReader, rows: Mapping[str, Sequence[Row]], catalog: Catalog
    ) -> None:
        self.catalog = catalog
        self._reader = reader
        self._rows = rows

    async def get(
        self, layout: str, keys: Sequence[tuple[Value, ...]], *, room: int | None = None
    ) -> list[RowVersion | None]:
        return await self._reader.get(layout, keys, room=room)

    async def prefixes(
        self, layout: str, prefixes: Sequence[tuple[Value, ...]], *, room: int | None = None
    ) -> list[list[RowVersion]]:
        return await self._reader.prefixes(layout, prefixes, room=room)

    async def scan(
        self,
        layout: str,
        key_range: KeyRange = KeyRange(),  # frozen
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncGenerator[list[Row], None]:
        rows = self._rows.get(layout)
        if rows is None:
            async for batch in self._reader.scan(layout, key_range, reverse=reverse, limit=limit):
                yield batch
            return
        assert key_range == KeyRange(), "no SQL names the number of a row"
        ordered = rows[::-1] if reverse else rows
        yield list(ordered if limit is None else ordered[:limit])
