"""Queries of clients that take numbers from sequences.

Blocks below the outermost SELECT run first (`numbered_blocks.py`), each as a query that is split
from its calls (`sequence_queries.py`). They take their numbers once, also if the rest reads none of
their rows.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence, Set
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from hornbeam_server.query.binding.binder import BoundQuery, OutputColumn, bind_tree
from hornbeam_server.query.engine import PreparedQuery, QueryStream
from hornbeam_server.query.explain import Explanation
from hornbeam_server.query.parsing.numbers_below import put_numbers_below
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.query.parsing.placeholders import parameter_key
from hornbeam_server.query.parsing.sequence_calls import (
    calls_in,
    is_sequence_call,
    read_call,
    without_outer_lists,
)
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import SqlError, UnknownName
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.turns import made
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.snapshot import RowReader
from hornbeam_server.txlayer.statements.identity_columns import Numbers
from hornbeam_server.txlayer.statements.numbered_blocks import (
    query_of,
    relation_of,
    replace_blocks,
    with_inner_distinct,
)
from hornbeam_server.txlayer.statements.requests import Parameters
from hornbeam_server.txlayer.statements.sequence_outputs import Outputs
from hornbeam_server.txlayer.statements.sequence_queries import split
from hornbeam_server.txlayer.statements.write_plans import Subquery
from hornbeam_server.txlayer.statements.write_queries import name_parameters
from hornbeam_server.txlayer.transactions.byte_limits import budget_of_reads
from hornbeam_server.txlayer.transactions.steps import WithRows
from hornbeam_server.txlayer.transactions.workspace import gathered

Prepared = Callable[[BoundQuery, Catalog], PreparedQuery]


@dataclass(frozen=True, slots=True)
class _Block:
    """A block that runs before the rest, and leaves its rows in `relation`."""

    query: Subquery
    outputs: Outputs
    relation: str


class NumberedQuery:
    """A planned SELECT that takes numbers from sequences; it runs like a `PreparedQuery`."""

    def __init__(
        self,
        blocks: Sequence[_Block],
        query: Subquery,
        outputs: Outputs | None,
        parameters: int,
        numbers: Numbers,
        catalog: Catalog,
    ) -> None:
        """`blocks` run before `query`, whose own columns with calls are `outputs`. `parameters`:
        how many the statement has. `catalog` is the one in force, without those of the blocks."""
        every = [*(block.query for block in blocks), query]
        own = {block.relation for block in blocks}
        prepared = [each.prepared for each in every]
        self.locking = query.prepared.locking
        self.catalog = catalog
        self.deferred = _distinct((each.deferred for each in prepared), own)
        self.served_by = _distinct((each.served_by for each in prepared), own)
        self.answered_by = _distinct((each.answered_by for each in prepared), own)
        self.sources = frozenset[str]().union(*(each.sources for each in prepared)) - own
        self._blocks, self._query, self._outputs = blocks, query, outputs
        self._parameters, self._numbers = parameters, numbers

    async def run(
        self,
        reader: RowReader,
        parameters: Parameters = (),
        *,
        deadline: float | None = None,
        max_rows: int | None = None,
    ) -> QueryStream:
        """Start the query: see `PreparedQuery.run`."""
        named = self._named(parameters)
        rows: dict[str, Sequence[Row]] = {}
        if self._blocks:
            reader = WithRows(reader, rows, self._query.prepared.catalog)
        for block in self._blocks:
            stream = await self._started(block.query, block.outputs, reader, named, deadline, None)
            found = await gathered(stream, "a subquery", budget_of_reads())
            rows[block.relation] = await made((n, *row) for n, row in enumerate(found))
        return await self._started(self._query, self._outputs, reader, named, deadline, max_rows)

    async def _started(
        self,
        query: Subquery,
        outputs: Outputs | None,
        reader: RowReader,
        named: Mapping[Any, Any],
        deadline: float | None,
        max_rows: int | None,
    ) -> QueryStream:
        given = {name: named[key] for name, key in query.uses.items()}
        stream = await query.prepared.run(reader, given, deadline=deadline)
        if outputs is None:
            return stream
        rows = self._completed(stream, outputs)
        return QueryStream(_columns(stream.columns, outputs), rows, None, deadline, max_rows)

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


def _columns(found: Sequence[OutputColumn], outputs: Outputs) -> tuple[OutputColumn, ...]:
    types = {output.position: output.type for output in outputs.computed}
    return tuple(
        OutputColumn(column.name, types.get(position, column.type))
        for position, column in enumerate(found[: outputs.width])
    )


def numbered_query(
    sql: str,
    catalog: Catalog,
    numbers: Numbers,
    prepare: Prepared,
) -> NumberedQuery:
    """Plan a SELECT that calls functions of sequences. `prepare` plans a bound query. The values of
    currval and lastval are those before the statement, except in lists that take numbers. Raises
    SqlError and its subclasses."""
    tree = without_outer_lists(parse(sql, sequences=True))
    put_numbers_below(tree)
    _put_values(tree, catalog, numbers)
    wanted = len(set(map(parameter_key, tree.find_all(exp.Placeholder))))
    planner = _Planner(sql, catalog, prepare)
    tree = with_inner_distinct(tree)
    replace_blocks(tree, planner.step)
    query, outputs = planner.split(tree)
    return NumberedQuery(planner.blocks, query, outputs, wanted, numbers, catalog)


class _Planner:
    """Plans the blocks of a statement, each over a catalog that has the relations of those before
    it."""

    def __init__(self, sql: str, catalog: Catalog, prepare: Prepared) -> None:
        self._sql, self._catalog, self._prepare = sql, catalog, prepare
        self.blocks: list[_Block] = []

    def split(self, tree: exp.Expr) -> tuple[Subquery, Outputs | None]:
        """The query of a SELECT without calls, and its columns that have calls."""
        catalog = self._catalog

        def prepared(query: exp.Expr) -> Subquery:
            uses = name_parameters(query)
            return Subquery(self._prepare(bind_tree(query, self._sql, catalog), catalog), uses)

        bound = bind_tree(tree, self._sql, catalog)
        try:
            return split(bound.ast, prepared, catalog)
        finally:
            unlink(bound.ast)

    def step(self, block: exp.Select) -> exp.Select:
        """Plan a block. Returns the query of its rows."""
        try:
            query, outputs = self.split(block)
        except UnknownName as error:
            raise UnknownName(
                error.message,
                cure="A subquery that takes numbers cannot name columns of the query around it.",
            ) from None
        assert outputs is not None, "a block has calls"
        columns = _columns(query.prepared.columns, outputs)
        relation = relation_of(f"numbered.{len(self.blocks)}", columns)
        schema = self._catalog.schema
        schema = replace(schema, relations=(*schema.relations, relation))
        self._catalog = replace(self._catalog, schema=schema)
        self.blocks.append(_Block(query, outputs, relation.name))
        return query_of(relation, [column.name for column in columns])


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
