"""Plans of the blocks that take numbers from sequences, one after the other.

A block is a query that is split from its calls (`sequence_queries.py`). Its rows stand in a
relation, which the catalog for the rest of the statement has (`numbered_blocks.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from hornbeam_server.query.binding.binder import BoundQuery, OutputColumn, bind_tree
from hornbeam_server.query.binding.numbers_below import put_numbers_below, takes_numbers
from hornbeam_server.query.engine import PreparedQuery
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import SqlError, UnknownName, Unsupported
from hornbeam_server.schema.trees import unlink
from hornbeam_server.txlayer.statements.numbered_blocks import (
    query_of,
    relation_of,
    replace_blocks,
)
from hornbeam_server.txlayer.statements.sequence_outputs import Outputs
from hornbeam_server.txlayer.statements.sequence_queries import split
from hornbeam_server.txlayer.statements.write_plans import Block, Subquery
from hornbeam_server.txlayer.statements.write_queries import name_parameters

Prepare = Callable[[BoundQuery, Catalog], PreparedQuery]


@dataclass(slots=True)
class Blocks:
    """The planned `blocks` of the statement `sql`. `catalog` also has their relations."""

    sql: str
    catalog: Catalog
    prepare: Prepare
    blocks: list[Block]

    def split(self, tree: exp.Expr) -> tuple[Subquery, Outputs | None]:
        """The query of a SELECT without calls, and its columns that have calls."""
        return self._split(self.bound(tree))

    def bound(self, tree: exp.Expr) -> BoundQuery:
        """The bound SELECT. A block takes the numbers that it uses outside its list."""
        bound = bind_tree(tree, self.sql, self.catalog)
        if not put_numbers_below(bound.ast):
            return bound
        replace_blocks(bound.ast, self.step)
        return bind_tree(bound.ast, self.sql, self.catalog)

    def step(self, block: exp.Select) -> exp.Expr:
        """Plan a block. Returns the query of its rows. Raises Unsupported if it names columns of
        the query around it."""
        try:
            bound = self.bound(block)
        except UnknownName:
            if not self._is_whole():
                raise
            raise Unsupported(
                "A subquery that takes numbers cannot name columns of the query around it.",
                cure="Join the query in FROM, and take the numbers in its list.",
            ) from None
        if not takes_numbers(bound.ast):
            return bound.ast
        query, outputs = self._split(bound)
        assert outputs is not None, "a block has calls"
        columns = completed(query.prepared.columns, outputs)
        relation = relation_of(f"numbered.{len(self.blocks)}", columns)
        schema = self.catalog.schema
        schema = replace(schema, relations=(*schema.relations, relation))
        self.catalog = replace(self.catalog, schema=schema)
        self.blocks.append(Block(query, outputs, relation.name))
        return query_of(relation, [column.name for column in columns])

    def _is_whole(self) -> bool:
        """Are all names of the whole statement known?"""
        tree = parse(self.sql, sequences=True)
        try:
            bind_tree(tree, self.sql, self.catalog)
        except SqlError:
            return False
        finally:
            unlink(tree)
        return True

    def _split(self, bound: BoundQuery) -> tuple[Subquery, Outputs | None]:
        catalog = self.catalog

        def prepared(query: exp.Expr) -> Subquery:
            uses = name_parameters(query)
            return Subquery(self.prepare(bind_tree(query, self.sql, catalog), catalog), uses)

        try:
            return split(bound.ast, prepared, catalog, bound.columns)
        finally:
            unlink(bound.ast)


def completed(found: Sequence[OutputColumn], outputs: Outputs) -> tuple[OutputColumn, ...]:
    """The columns of a query with those that take numbers."""
    types = {output.position: output.type for output in outputs.computed}
    return tuple(
        OutputColumn(column.name, types.get(position, column.type))
        for position, column in enumerate(found[: outputs.width])
    )
