"""Queries of clients that take numbers from sequences.

Blocks below the outermost SELECT run first (`numbered_blocks.py`), each as a query that is split
from its calls (`sequence_queries.py`). They take their numbers once, also if the rest reads none of
their rows.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence, Set
from contextlib import aclosing
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
from sqlglot import exp

from hornbeam_server.query.engine import QueryStream
from hornbeam_server.query.explain import Explanation
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.query.parsing.placeholders import parameter_key
from hornbeam_server.query.parsing.sequence_calls import (
    calls_in,
    is_sequence_call,
    read_call,
    without_outer_lists,
)
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.trees import nodes_of, unlink
from hornbeam_server.schema.turns import made
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.snapshot import RowReader
from hornbeam_server.txlayer.statements.identity_columns import Numbers
from hornbeam_server.txlayer.statements.numbered_blocks import (
    replace_blocks,
    with_numbers_in_blocks,
)
from hornbeam_server.txlayer.statements.numbered_planning import Blocks, Prepare, completed
from hornbeam_server.txlayer.statements.requests import Parameters
from hornbeam_server.txlayer.statements.sequence_outputs import Outputs
from hornbeam_server.txlayer.statements.write_plans import Block, Subquery
from hornbeam_server.txlayer.transactions.byte_limits import budget_of_reads
from hornbeam_server.txlayer.transactions.steps import WithRows
from hornbeam_server.txlayer.transactions.workspace import gathered


class _Given(NamedTuple):
    """The parameters of one run by their keys, its deadline, and the live system relations."""

    values: Mapping[Any, Any]
    deadline: float | None
    live: Mapping[str, pa.Table]


class NumberedQuery:
    """A planned SELECT that takes numbers from sequences; it runs like a `PreparedQuery`."""

    def __init__(
        self,
        blocks: Sequence[Block],
        query: Subquery,
        outputs: Outputs | None,
        parameters: int,
        numbers: Numbers,
        catalog: Catalog,
    ) -> None:
        """`blocks` run before `query`, whose own columns with calls are `outputs`. `parameters`:
        how many the statement has. `catalog` is the one in force, without those of the blocks."""
        every = [*(block.query for block in blocks), query]
        own = {block.rows for block in blocks}
        prepared = [each.prepared for each in every]
        self.locking = query.prepared.locking
        self.catalog = catalog
        self.deferred = _distinct((each.deferred for each in prepared), own)
        self.served_by = _distinct((each.served_by for each in prepared), own)
        self.answered_by = _distinct((each.answered_by for each in prepared), own)
        self.sources = frozenset[str]().union(*(each.sources for each in prepared)) - own
        self.live = frozenset[str]().union(*(each.live for each in prepared))
        self._blocks, self._query, self._outputs = blocks, query, outputs
        self._parameters, self._numbers = parameters, numbers

    async def run(
        self,
        reader: RowReader,
        parameters: Parameters = (),
        *,
        deadline: float | None = None,
        max_rows: int | None = None,
        live: Mapping[str, pa.Table] = MappingProxyType({}),
    ) -> QueryStream:
        """Start the query: see `PreparedQuery.run`."""
        given = _Given(self._named(parameters), deadline, live)
        rows: dict[str, Sequence[Row]] = {}
        if self._blocks:
            reader = WithRows(reader, rows, self._query.prepared.catalog)
        for block in self._blocks:
            stream = await self._started(block.query, block.outputs, reader, given, None)
            found = await gathered(stream, "a subquery", budget_of_reads())
            rows[block.rows] = await made((n, *row) for n, row in enumerate(found))
        return await self._started(self._query, self._outputs, reader, given, max_rows)

    async def _started(
        self,
        query: Subquery,
        outputs: Outputs | None,
        reader: RowReader,
        given: _Given,
        max_rows: int | None,
    ) -> QueryStream:
        values = {name: given.values[key] for name, key in query.uses.items()}
        stream = await query.prepared.run(reader, values, deadline=given.deadline, live=given.live)
        if outputs is None:
            return stream
        rows = self._completed(stream, outputs)
        return QueryStream(completed(stream.columns, outputs), rows, None, given.deadline, max_rows)

    def explain(
        self, parameters: Parameters | None = None, *, notes: Sequence[str] = ()
    ) -> Explanation:
        """The plan of the query for all other values: see `PreparedQuery.explain`."""
        query = self._query
        if parameters is None:
            return query.prepared.explain(None, notes=notes)
        named = self._named(parameters)
        given = {name: named[key] for name, key in query.uses.items()}
        return query.prepared.explain(given, notes=notes)

    def _named(self, parameters: Parameters) -> Mapping[Any, Any]:
        """The values of the statement's parameters. Raises SqlError."""
        named: Mapping[Any, Any] = (
            parameters if isinstance(parameters, Mapping) else dict(enumerate(parameters))
        )
        if len(named) != self._parameters:
            raise SqlError(
                f"The statement has {self._parameters} parameters, {len(named)} are given.",
                cure="Give one value for each parameter.",
            )
        return named

    async def _completed(
        self, stream: QueryStream, outputs: Outputs
    ) -> AsyncGenerator[list[Row], None]:
        engine = self._query.prepared.engine
        async with aclosing(stream.batches()) as batches:
            async for batch in batches:
                yield await outputs.rows(batch, self._numbers, engine)


def numbered_query(
    sql: str,
    catalog: Catalog,
    numbers: Numbers,
    prepare: Prepare,
) -> NumberedQuery:
    """Plan a SELECT that calls functions of sequences. `prepare` plans a bound query. The values of
    currval and lastval are those before the statement, except in lists that take numbers. Raises
    SqlError and its subclasses."""
    tree = without_outer_lists(parse(sql, sequences=True))
    _put_values(tree, catalog, numbers)
    wanted = len(set(map(parameter_key, nodes_of(tree, exp.Placeholder))))
    planner = Blocks(sql, catalog, prepare, [])
    tree = with_numbers_in_blocks(tree)
    replace_blocks(tree, planner.step)
    query, outputs = planner.split(tree)
    return NumberedQuery(planner.blocks, query, outputs, wanted, numbers, catalog)


def _distinct(lists: Iterable[Sequence[str]], without: Set[str]) -> tuple[str, ...]:
    names = dict.fromkeys(name for each in lists for name in each)
    return tuple(name for name in names if name not in without)


def _put_values(tree: exp.Expr, catalog: Catalog, numbers: Numbers) -> None:
    """Replace currval and lastval by their values, except in lists that take numbers."""
    listed: set[int] = set()
    for select in tree.find_all(exp.Select):
        calls = [call for item in select.expressions for call in calls_in(item)]
        if select is tree or any(map(_draws, calls)):
            listed.update(map(id, calls))
    for call in [node for node in tree.walk() if is_sequence_call(node)]:
        if id(call) in listed or _draws(call):
            continue
        number = numbers.last(read_call(call, catalog).counter)
        call.replace(exp.Literal.number(number))
        unlink(call)


def _draws(call: exp.Expr) -> bool:
    return call.name.lower() == "nextval"
