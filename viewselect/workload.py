"""The workload for view selection: SELECT blocks to serve, and writes that cause upkeep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hornbeam_server.query.binding.algebra import (
    Block,
    BoundStatement,
    ForeignKeyJoin,
    StatementKind,
)
from hornbeam_server.schema.catalog import WorkloadStatement
from hornbeam_server.schema.model import Schema

EdgeId = tuple[str, str]
"""(child relation, name of its foreign key): an edge of the schema graph; cheap to hash."""

ASSUMED_WRITES = 0.05
"""Assumed writes per unit of read weight, evenly inserts and updates of all relations, if a
workload has none: an application whose workload lists only queries still writes occasionally."""


@dataclass(frozen=True, eq=False)
class ReadBlock:
    """One SELECT block; `number` is its position among the workload's blocks. Blocks of writes are
    `plain`: they find rows in base relations, and are never rewritten over views."""

    number: int
    statement: str
    weight: float
    block: Block
    plain: bool = False

    @cached_property
    def joins(self) -> tuple[tuple[EdgeId, ForeignKeyJoin], ...]:
        """Foreign-key joins that a view may hold: no outer joins, no self-references."""
        if self.plain or not self.block.inner_only:
            return ()
        return tuple(
            (edge_of(self.block, join), join)
            for join in self.block.fk_joins
            if self.block.relation(join.child) != join.foreign_key.parent
        )


@dataclass(frozen=True)
class Write:
    """A write statement: it writes `weight` × `rows` rows of `relation` per unit of workload.
    `columns` are the columns that an UPDATE assigns."""

    statement: str
    kind: StatementKind
    relation: str
    weight: float
    rows: float = 1.0
    columns: frozenset[str] = frozenset()


@dataclass(frozen=True)
class DeferredRead:
    """A SELECT block that reads deferred `views`, which Spark maintains. No join view can hold a
    join with them, and the block has no cost here."""

    statement: str
    views: tuple[str, ...]


@dataclass(frozen=True)
class Workload:
    """Reads and writes with their weights; `statements` are in the order of the file."""

    statements: tuple[WorkloadStatement, ...]
    reads: tuple[ReadBlock, ...]
    writes: tuple[Write, ...]
    deferred: tuple[DeferredRead, ...] = ()

    @cached_property
    def join_weights(self) -> dict[EdgeId, float]:
        """Edge → weight of the joins along it (the paper's heuristic, V-B2). Joins implied by
        other joins do not count."""
        weights: dict[EdgeId, float] = {}
        for read in self.reads:
            for edge, join in read.joins:
                if not join.implied:
                    weights[edge] = weights.get(edge, 0.0) + read.weight
        return weights

    def updates(self, relation: str) -> bool:
        """Does the workload update rows of `relation`?"""
        return any(w.relation == relation and w.kind is StatementKind.UPDATE for w in self.writes)


def edge_of(block: Block, join: ForeignKeyJoin) -> EdgeId:
    return block.relation(join.child), join.foreign_key.name


def read_workload(
    schema: Schema, bound: Sequence[tuple[WorkloadStatement, BoundStatement]]
) -> Workload:
    """Sort statements into reads and writes. Rows per write are estimated later (`cost`)."""
    reads: list[ReadBlock] = []
    writes: list[Write] = []
    deferred: list[DeferredRead] = []
    for statement, tree in bound:
        plain = tree.kind is not StatementKind.SELECT
        for block in tree.blocks:
            views = tuple(s.relation for s in block.sources if s.relation not in schema)
            if views:
                deferred.append(DeferredRead(statement.name, views))
                continue
            reads.append(ReadBlock(len(reads), statement.name, statement.weight, block, plain))
        if plain and tree.target is not None:
            columns = frozenset(tree.written)
            writes.append(
                Write(statement.name, tree.kind, tree.target, statement.weight, 1.0, columns)
            )
    if not writes:
        writes = list(_assumed(schema, reads))
    statements = tuple(statement for statement, _ in bound)
    return Workload(statements, tuple(reads), tuple(writes), tuple(deferred))


def _assumed(schema: Schema, reads: Iterable[ReadBlock]) -> Iterator[Write]:
    writes: list[Write] = []
    for relation in schema.relations:
        keys = {column for key in relation.foreign_keys for column in key.columns}
        others = frozenset(relation.column_names) - keys - set(relation.primary_key)
        writes.append(Write("(assumed)", StatementKind.INSERT, relation.name, 1.0))
        if others:
            update = StatementKind.UPDATE
            writes.append(Write("(assumed)", update, relation.name, 1.0, 1.0, others))
    weight = ASSUMED_WRITES * sum(read.weight for read in reads)
    yield from (replace(write, weight=weight / len(writes)) for write in writes)
