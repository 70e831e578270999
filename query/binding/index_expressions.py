"""Expressions of indexes in the conditions of a query.

An expression of a query is that of an index if both have the same *shape*: their bound trees are
equal, apart from parentheses and the names of the relation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Source
from hornbeam_server.query.binding.blocks import Resolve, SourceColumn
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.query.typing.constants import CONSTANT
from hornbeam_server.schema.catalog import Catalog, IndexExpression, alone
from hornbeam_server.schema.model import Relation
from hornbeam_server.schema.trees import unlink

EXPRESSIONS = 1_000
"""Maximum number of expressions whose shapes are kept."""
Shape = tuple[Any, ...]


class Bound(Protocol):
    @property
    def ast(self) -> exp.Expr: ...


Bind = Callable[[str, Catalog], Bound]


def resolver(
    sources: Sequence[Source], number: int, catalog: Catalog, bind: Bind
) -> Resolve | None:
    """Finds the part of an index that an expression over one of the `sources` is, in the bound
    tree of a statement. `number` is that of their block. None: no index has an expression."""
    known: dict[tuple[str, Shape], SourceColumn] = {}
    for source in sources:
        for each in catalog.index_expressions.get(source.relation, ()):
            relation = catalog.schema.relation(source.relation)
            column = SourceColumn(source.alias, each.column, each.type)
            known[source.alias, _shape_of(each.sql, relation, bind)] = column
    if not known:
        return None

    def resolve(node: exp.Expr) -> SourceColumn | None:
        read: set[tuple[int | None, str]] = set()
        found = _shape(node, read)
        if len(read) != 1:
            return None
        ((block, alias),) = read
        return known.get((alias, found)) if block == number else None

    return resolve


def named(
    node: exp.Expr, expressions: Iterable[IndexExpression], relation: Relation, bind: Bind
) -> str | None:
    """The name of the expression of an index on `relation` that the bound `node` is."""
    shape = _shape(node, set())
    found = (e.column for e in expressions if _shape_of(e.sql, relation, bind) == shape)
    return next(found, None)


@lru_cache(EXPRESSIONS)
def _shape_of(sql: str, relation: Relation, bind: Bind) -> Shape:
    """The shape of an expression over rows of `relation`."""
    bound = bind(f"SELECT ({sql}) FROM {quoted(relation.name)}", alone(relation))
    try:
        return _shape(bound.ast.expressions[0].unalias(), set())
    finally:
        unlink(bound.ast)


def _shape(node: exp.Expr, read: set[tuple[int | None, str]]) -> Shape:
    """The shape of a bound tree. The sources of its columns, as (block, alias), are added to
    `read`."""
    if isinstance(node, exp.Paren):
        return _shape(node.this, read)
    if isinstance(node, exp.Column):
        block, alias, name = node.meta.get("column", (None, "", node.name))
        read.add((block, alias))
        return exp.Column, name
    if CONSTANT in node.meta:
        return exp.Literal, *node.meta[CONSTANT]
    parts = sorted((name, part) for name, part in node.args.items() if part not in _NOTHING)
    return type(node), *((name, _part(part, read)) for name, part in parts)


_NOTHING: tuple[object, ...] = (None, False, [])


def _part(part: object, read: set[tuple[int | None, str]]) -> object:
    if isinstance(part, list):
        return tuple(_part(each, read) for each in part)
    if isinstance(part, exp.Expr):
        return _shape(part, read)
    return part.lower() if isinstance(part, str) else part
