"""Conditions and expressions of indexes: the queries that may read a partial index, and SQL for
DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Comparison, Filter
from hornbeam_server.query.binding.binder import BoundQuery, bind
from hornbeam_server.query.binding.blocks import split
from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.query.optimizer.implied_comparisons import filter_implies
from hornbeam_server.query.parsing.parse import DIALECT
from hornbeam_server.schema.catalog import Catalog, Index, alone
from hornbeam_server.schema.model import Relation
from hornbeam_server.schema.trees import unlink, written

CONDITIONS = 1_000
"""Maximum number of conditions that are kept in their form for the comparison."""


@dataclass(frozen=True, slots=True)
class _Condition:
    """A conjunction over the rows of a relation: `filters`; no NULL in the columns `present`; for
    each of `unions`, one of its alternatives; and all of `others`, which are known by their texts
    alone."""

    filters: tuple[Filter, ...] = ()
    present: frozenset[str] = frozenset()
    unions: tuple[tuple[_Condition, ...], ...] = ()
    others: frozenset[str] = frozenset()

    def plus(self, other: _Condition) -> _Condition:
        return _Condition(
            (*self.filters, *other.filters),
            self.present | other.present,
            (*self.unions, *other.unions),
            self.others | other.others,
        )

    @property
    def not_null(self) -> frozenset[str]:
        """The columns that have no NULL: each comparison excludes it."""
        compared = {f.column for f in self.filters if f.comparison is not Comparison.IS_NULL}
        return self.present | compared


def implies(filters: Sequence[Filter], index: Index, catalog: Catalog) -> bool:
    """Whether rows of a relation that satisfy all `filters` satisfy the condition of the index."""
    wanted = _condition(index.where, catalog.schema.relation(index.on))
    return _implies(_Condition(tuple(filters)), wanted)


def follows(given: str, wanted: str, relation: Relation) -> bool:
    """Whether rows of `relation` that satisfy the condition `given` satisfy the condition
    `wanted`."""
    return _implies(_condition(given, relation), _condition(wanted, relation))


def _implies(given: _Condition, wanted: _Condition) -> bool:
    """Does `wanted` follow from `given`? As in PostgreSQL, by simple rules, which do not find every
    condition that follows. Of several unions that are given, one at a time is taken apart."""
    if _implies_parts(given, wanted):
        return True
    return any(
        all(_implies_parts(given.plus(each), wanted) for each in union) for union in given.unions
    )


def _implies_parts(given: _Condition, wanted: _Condition) -> bool:
    return (
        wanted.others <= given.others
        and wanted.present <= given.not_null
        and all(any(filter_implies(one, each) for one in given.filters) for each in wanted.filters)
        and all(
            union in given.unions or any(_implies_parts(given, each) for each in union)
            for union in wanted.unions
        )
    )


def condition_sql(where: str, relation: Relation) -> str:
    """The condition of an index on `relation` as SQL for DuckDB."""
    bound = _bound(where, relation)
    try:
        return duckdb_sql(bound.ast.args["where"].this)
    finally:
        unlink(bound.ast)


def value_sql(sql: str, relation: Relation) -> str:
    """An expression of an index on `relation` as SQL for DuckDB."""
    bound = bind(f"SELECT ({sql}) FROM {quoted(relation.name)}", alone(relation))
    try:
        return duckdb_sql(bound.ast.expressions[0].unalias())
    finally:
        unlink(bound.ast)


def _bound(where: str, relation: Relation) -> BoundQuery:
    return bind(f"SELECT 1 FROM {quoted(relation.name)} WHERE {where}", alone(relation))


@lru_cache(CONDITIONS)
def _condition(where: str, relation: Relation) -> _Condition:
    """The condition over rows of `relation`."""
    bound = _bound(where, relation)
    try:
        parts = [_part(each, relation) for each in split(bound.ast.args["where"].this)]
    finally:
        unlink(bound.ast)
    return reduce(_Condition.plus, parts, _Condition())


def _part(node: exp.Expr, relation: Relation) -> _Condition:
    """One conjunct of a condition."""
    node = node.unnest()
    if (column := _not_null(node)) is not None:
        return _Condition(present=frozenset({column}))
    text = written(node, DIALECT)
    bound = _bound(text, relation)
    unlink(bound.ast)
    (block,) = bound.statement.blocks
    if block.conjunctive and block.filters:
        return _Condition(block.filters)
    if isinstance(node, exp.Or):
        alternatives = tuple(_condition(written(each, DIALECT), relation) for each in _arms(node))
        return _Condition(unions=(alternatives,))
    return _Condition(others=frozenset({text}))


def _arms(node: exp.Expr) -> Iterator[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.Or):
        yield from _arms(node.this)
        yield from _arms(node.expression)
    else:
        yield node


def _not_null(node: exp.Expr) -> str | None:
    """The column of `column IS NOT NULL`."""
    node = node.unnest()
    inner = node.this.unnest() if isinstance(node, exp.Not) else None
    if not isinstance(inner, exp.Is) or not isinstance(inner.expression, exp.Null):
        return None
    column = inner.this.unnest()
    return column.name if isinstance(column, exp.Column) else None
