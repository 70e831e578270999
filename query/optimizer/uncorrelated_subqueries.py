"""Subqueries that are answered first, so that their results narrow the outer reads. Pure.

`x > (SELECT MAX(y) - 10 FROM t)` compares `x` with a constant once the subquery is answered, and
`x IN (SELECT y FROM t …)` is a semi-join. DuckDB also optimises these, but only after all rows of
the outer sources have been sent to it. Lifted subqueries are uncorrelated conjuncts of the WHERE:
one aggregate row compared with a column, or one plain column after IN.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Comparison, EquiJoin, Filter
from hornbeam_server.query.binding.binder import BoundQuery, OutputColumn
from hornbeam_server.query.binding.blocks import joinable
from hornbeam_server.query.optimizer.implied_filters import BlockPlaces, conjuncts
from hornbeam_server.query.parsing.placeholders import Parameter
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.trees import nodes_of
from hornbeam_server.schema.types import ColumnType

LIFTED = "lifted"
"""Prefix of the names of lifted values and tables; no parameter or relation can have such a
name."""

_COMPARISONS: dict[type[exp.Expr], tuple[Comparison, Comparison]] = {
    exp.EQ: (Comparison.EQ, Comparison.EQ),
    exp.LT: (Comparison.LT, Comparison.GT),
    exp.LTE: (Comparison.LE, Comparison.GE),
    exp.GT: (Comparison.GT, Comparison.LT),
    exp.GTE: (Comparison.GE, Comparison.LE),
}


Found = tuple[exp.Expr, exp.Subquery, Comparison]
"""(column, the subquery that it is compared with, comparison)."""


@dataclass(frozen=True)
class Lift:
    """A subquery and the `filter` or `join` that it adds to block `block`. Its result is called
    `name`."""

    name: str
    block: int
    query: BoundQuery
    type: ColumnType
    """Type of the column that the subquery is compared with."""
    filter: Filter | None = None
    join: EquiJoin | None = None


def candidates(bound: BoundQuery, catalog: Catalog) -> Iterator[tuple[exp.Subquery, Lift]]:
    """Yield the subqueries of `bound.ast` that may be lifted, outermost first, with their lifts."""
    numbers = itertools.count()
    places = BlockPlaces(bound.ast)
    for select in bound.ast.find_all(exp.Select):
        number = places.number(select)
        for node in conjuncts(select):
            found = _scalar(node) or _membership(node)
            if found is None or number is None or found[0].meta["column"][0] != number:
                continue
            if independent(found[1]):
                yield from _lift(bound, catalog, found, f"{LIFTED} {next(numbers)}")


def _scalar(node: exp.Expr) -> Found | None:
    comparisons = _COMPARISONS.get(type(node))
    if comparisons is None:
        return None
    for side, other, comparison in (
        (node.this, node.expression, comparisons[0]),
        (node.expression, node.this, comparisons[1]),
    ):
        if "column" in side.meta and isinstance(other, exp.Subquery) and _one_row(other.this):
            return side, other, comparison
    return None


def _membership(node: exp.Expr) -> Found | None:
    if not isinstance(node, exp.In) or "column" not in node.this.meta:
        return None
    query = node.args.get("query")
    if not isinstance(query, exp.Subquery) or not isinstance(query.this, exp.Select):
        return None
    columns = query.this.expressions
    plain = len(columns) == 1 and "column" in columns[0].unalias().meta
    return (node.this, query, Comparison.IN) if plain else None


def _one_row(query: exp.Expr) -> bool:
    """Whether the query is an aggregate without GROUP BY, which returns exactly one row."""
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        return False
    if any(query.args.get(part) for part in ("group", "having", "limit", "offset", "qualify")):
        return False
    return query.expressions[0].find(exp.AggFunc) is not None and not query.find(exp.Window)


def independent(subquery: exp.Subquery) -> bool:
    """Whether the subquery reads only its own relations: no outer columns, no CTEs."""
    own = set()
    for table in subquery.find_all(exp.Table):
        if "source" not in table.meta:
            return False
        own.add(table.meta["source"][0])
    return all(
        column.meta.get("alias") or column.meta.get("column", (None,))[0] in own
        for column in nodes_of(subquery, exp.Column)
        if not isinstance(column.this, exp.Star)
    )


def _lift(
    bound: BoundQuery, catalog: Catalog, found: Found, label: str
) -> Iterator[tuple[exp.Subquery, Lift]]:
    column, subquery, comparison = found
    block, alias, name = column.meta["column"]
    type_ = _column_type(bound, catalog, column)
    value = subquery.this.expressions[0].unalias()
    inner = _column_type(bound, catalog, value) if "column" in value.meta else None
    query = replace(bound, ast=subquery.this, columns=(OutputColumn("c0", inner),))
    lift = Lift(label, block, query, type_)
    if comparison is Comparison.IN:
        if inner is not None and joinable(inner, type_):
            yield subquery, replace(lift, join=EquiJoin(alias, (name,), label, ("c0",)))
        return
    yield subquery, replace(lift, filter=Filter(alias, name, comparison, (Parameter(label),)))


def _column_type(bound: BoundQuery, catalog: Catalog, column: exp.Expr) -> ColumnType:
    block, alias, name = column.meta["column"]
    layout = catalog.layout(bound.statement.blocks[block].relation(alias))
    return layout.columns[layout.positions[name]].type
