"""Subqueries that are answered first, so that their values can narrow what is read. Pure.

`x > (SELECT MAX(y) - 10 FROM t)` compares `x` with a constant, once that is known, and
`x IN (SELECT y FROM t …)` is a semi-join. DuckDB would find that out too, but only after all rows
of the outer sources had been handed to it. Lifted are uncorrelated subqueries in the WHERE's
conjuncts: one aggregate row compared with a column, or one plain column after IN.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from query.algebra import Comparison, EquiJoin, Filter, Parameter
from query.binder import BoundQuery, OutputColumn
from query.blocks import joinable
from query.hints import conjuncts, own_block
from schema.catalog import Catalog
from schema.types import ColumnType

LIFTED = "lifted"
"""Names of lifted values and tables begin so; no parameter or relation can be spelled like them."""

_COMPARISONS: dict[type[exp.Expr], tuple[Comparison, Comparison]] = {
    exp.EQ: (Comparison.EQ, Comparison.EQ),
    exp.LT: (Comparison.LT, Comparison.GT),
    exp.LTE: (Comparison.LE, Comparison.GE),
    exp.GT: (Comparison.GT, Comparison.LT),
    exp.GTE: (Comparison.GE, Comparison.LE),
}


Found = tuple[exp.Expr, exp.Subquery, Comparison]
"""A column, the subquery it is compared with, and how."""


@dataclass(frozen=True)
class Lift:
    """A subquery with the condition it gives to block `block`, under `name`."""

    name: str
    block: int
    query: BoundQuery
    type: ColumnType
    """Of the column compared with."""
    filter: Filter | None = None
    join: EquiJoin | None = None


def candidates(bound: BoundQuery, catalog: Catalog) -> Iterator[tuple[exp.Subquery, Lift]]:
    """Subqueries of `bound.ast` that may be lifted, outermost first, with what they would give."""
    numbers = itertools.count()
    for select in bound.ast.find_all(exp.Select):
        number = own_block(select)
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
    """An aggregate without GROUP BY: always exactly one row."""
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        return False
    if any(query.args.get(part) for part in ("group", "having", "limit", "offset", "qualify")):
        return False
    return query.expressions[0].find(exp.AggFunc) is not None and not query.find(exp.Window)


def independent(subquery: exp.Subquery) -> bool:
    """Does it read nothing but relations of its own? (No outer columns, no CTEs.)"""
    own = set()
    for table in subquery.find_all(exp.Table):
        if "source" not in table.meta:
            return False
        own.add(table.meta["source"][0])
    return all(
        column.meta.get("alias") or column.meta.get("column", (None,))[0] in own
        for column in subquery.find_all(exp.Column)
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
