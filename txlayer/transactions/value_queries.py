"""The subqueries that give values to the expressions of one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.snapshot import RowReader
from hornbeam_server.txlayer.statements.identity_columns import Numbers
from hornbeam_server.txlayer.statements.requests import Parameters
from hornbeam_server.txlayer.statements.sequence_values import SequenceValue
from hornbeam_server.txlayer.statements.write_plans import Lifted, ValueQuery


class ValueQueries:
    """Runs the value queries of one statement, and takes the values of sequences from `numbers`.
    All queries read at `reader`, the state before the statement; None if the statement has none. A
    query runs once for equal parameters."""

    def __init__(self, reader: RowReader | None, numbers: Numbers) -> None:
        self._reader = reader
        self._numbers = numbers
        self._known: dict[tuple[int, Row], Row] = {}

    @property
    def any(self) -> bool:
        """Does the statement have value queries?"""
        return self._reader is not None

    async def add(self, queries: Sequence[Lifted], row: Row, parameters: Parameters) -> Parameters:
        """`parameters` and the values of `queries` for an expression over `row`. Raises SqlError
        if a query finds several rows."""
        if not queries:
            return parameters
        given = named_parameters(parameters)
        for query in queries:
            if isinstance(query, SequenceValue):
                needed = query.needed(row, given)
                given[query.name] = await self._numbers.value(query.call) if needed else None
                continue
            own = {**given, **{name: row[position] for name, position in query.row}}
            values = await self._row(query, own)
            given.update(zip(query.names, values, strict=True))
        return given

    async def add_all(
        self,
        queries: Sequence[Lifted],
        rows: Sequence[Row],
        parameters: Sequence[Parameters],
    ) -> Sequence[Parameters]:
        """`add` for each row and its parameters."""
        if not queries:
            return parameters
        result: list[Parameters] = []
        for some in chunks(list(zip(rows, parameters, strict=True))):
            result += [await self.add(queries, row, given) for row, given in some]
            await turn(some)
        return result

    async def _row(self, query: ValueQuery, given: Parameters) -> Row:
        parameters = query.query.parameters(given)
        place = id(query), tuple(parameters.values())
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = await self._read(query, parameters)
        return known

    async def _read(self, query: ValueQuery, parameters: Mapping[str, Any]) -> Row:
        assert self._reader is not None
        stream = await query.query.prepared.run(self._reader, parameters)
        found: list[Row] = []
        async with aclosing(stream.batches()) as batches:
            async for batch in batches:
                found += batch
                if len(found) > 1:
                    raise SqlError(
                        "A subquery that stands for a value gives more than one row.",
                        cure="Select at most one row: by a key, an aggregate, or LIMIT 1.",
                    )
        return found[0] if found else (None,) * len(query.names)


def named_parameters(parameters: Parameters) -> dict[Any, Any]:
    """A new mapping of the parameters, by number or name."""
    return dict(parameters if isinstance(parameters, Mapping) else enumerate(parameters))
