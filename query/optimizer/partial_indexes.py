"""Conditions and expressions of indexes: the queries that may read a partial index, and SQL for
DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Comparison, Filter
from hornbeam_server.query.binding.binder import BoundQuery, bind
from hornbeam_server.query.binding.blocks import split
from hornbeam_server.query.binding.parse import DIALECT
from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.catalog import Catalog, Index, alone
from hornbeam_server.schema.model import Relation
from hornbeam_server.schema.trees import unlink, written

CONDITIONS = 1_000
"""Maximum number of conditions that are kept in their form for the comparison."""


@dataclass(frozen=True, slots=True)
class _Condition:
    """The condition of an index: all of `filters`, and no NULL in the columns `present`."""

    filters: tuple[Filter, ...]
    present: frozenset[str]


def implies(filters: Sequence[Filter], index: Index, catalog: Catalog) -> bool:
    """Whether rows of a relation that satisfy all `filters` satisfy the condition of the index. Its
    conjuncts must be among the filters. IS NOT NULL follows from each comparison."""
    condition = _condition(index.where, catalog.schema.relation(index.on))
    return condition is not None and _implied(condition, filters)


def follows(given: str, wanted: str, relation: Relation) -> bool:
    """Whether rows of `relation` that satisfy the condition `given` satisfy the condition `wanted`:
    as far as it is among the conjuncts of the other one."""
    one, other = _condition(given, relation), _condition(wanted, relation)
    if one is None or other is None:
        return _conjuncts(wanted, relation) <= _conjuncts(given, relation)
    return _implied(other, one.filters, one.present)


def _implied(
    condition: _Condition, filters: Sequence[Filter], present: frozenset[str] = frozenset()
) -> bool:
    """Whether `filters` imply the condition for rows with no NULL in the columns `present`."""
    compared = {each.column for each in filters if each.comparison is not Comparison.IS_NULL}
    given = _forms(condition.filters) <= _forms(filters)
    return given and condition.present <= present | compared


def _forms(filters: Sequence[Filter]) -> set[tuple[object, ...]]:
    return {(each.column, each.comparison, each.values) for each in filters}


def _conjuncts(where: str, relation: Relation) -> set[str]:
    bound = _bound(where, relation)
    try:
        return {written(each, DIALECT) for each in split(bound.ast.args["where"].this)}
    finally:
        unlink(bound.ast)


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
def _condition(where: str, relation: Relation) -> _Condition | None:
    """The condition over rows of `relation`; None if it has other conjuncts than comparisons of a
    column with constants."""
    bound = _bound(where, relation)
    try:
        conjuncts = list(split(bound.ast.args["where"].this))
        present = frozenset(filter(None, map(_not_null, conjuncts)))
        others = [f"({written(each, DIALECT)})" for each in conjuncts if _not_null(each) is None]
    finally:
        unlink(bound.ast)
    if not others:
        return _Condition((), present)
    rest = _bound(" AND ".join(others), relation)
    unlink(rest.ast)
    (block,) = rest.statement.blocks
    return _Condition(block.filters, present) if block.conjunctive else None


def _not_null(node: exp.Expr) -> str | None:
    """The column of `column IS NOT NULL`."""
    node = node.unnest()
    inner = node.this.unnest() if isinstance(node, exp.Not) else None
    if not isinstance(inner, exp.Is) or not isinstance(inner.expression, exp.Null):
        return None
    column = inner.this.unnest()
    return column.name if isinstance(column, exp.Column) else None
