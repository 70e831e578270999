"""Expressions of delta programs as syntax trees that `query/expressions` can compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from hornbeam_server.maintain.deltas.algebra import Map
from hornbeam_server.query.dialect.duckdb_sql import cast_literal
from hornbeam_server.query.dialect.grammar import NAME, read_expression
from hornbeam_server.schema.trees import nodes_of, unlink

MAX_NODES = 5_000
"""Maximum nodes of an expression after projections are put into one another."""
Trees = Mapping[str, exp.Expr]
"""Column → its expression over the columns of a source."""


class NotCompiledError(Exception):
    """Only DuckDB evaluates `expression`: its result in Python may differ."""

    def __init__(self, expression: str) -> None:
        super().__init__(f"{expression} is not compiled.")
        self.expression = expression


@dataclass(frozen=True, slots=True)
class Flat:
    """A chain of filters and projections as one: a row passes if all `conditions` are true, and
    becomes the values of `columns`."""

    conditions: tuple[exp.Expr, ...]
    columns: Trees

    def unlink(self) -> None:
        for tree in (*self.conditions, *self.columns.values()):
            unlink(tree)


def parsed(sql: str) -> exp.Expr:
    """The tree of an expression in DuckDB's SQL. Raises NotCompiledError if the parser does not
    know a construct of it."""
    try:
        tree = read_expression(sql)
    except SqlglotError:
        raise NotCompiledError(sql) from None
    read = tree.transform(cast_literal) if tree.find(exp.Anonymous) else tree
    return read.transform(_untyped) if "ENUM(" in sql else read


def _untyped(node: exp.Expr) -> exp.Expr:
    """The text of a constant of an ENUM, which takes the type of the other operand."""
    return node.this if isinstance(node, exp.Cast) and node.is_type(exp.DType.ENUM) else node


def column(name: str) -> exp.Expr:
    return exp.column(exp.to_identifier(name, quoted=True))


def flattened(maps: Sequence[Map], names: Sequence[str]) -> Flat:
    """The chain `maps` over a source with the columns `names`; the first of them reads the source.

    So columns that no later projection uses are never computed, and all filters come before all
    projections, as in DuckDB's plans: a value that DuckDB does not compute cannot overflow here.
    Raises NotCompiledError if the expressions become too large.
    """
    columns: Trees = {name: column(name) for name in names}
    conditions: list[exp.Expr] = []
    for map_ in maps:
        if map_.where:
            conditions.append(_over(parsed(map_.where), columns))
        columns = _projected(map_, columns)
    return Flat(tuple(conditions), columns)


def _projected(map_: Map, columns: Trees) -> Trees:
    found: dict[str, exp.Expr] = {}
    for field, sql in zip(map_.fields, map_.expressions, strict=True):
        source = map_.passes.get(field.name)
        if source is not None:
            found[field.name] = columns[source]
        elif field.name in map_.nulls:
            found[field.name] = exp.Null()
        else:
            found[field.name] = _over(parsed(sql), columns)
    return found


def _over(tree: exp.Expr, columns: Trees) -> exp.Expr:
    """`tree` with each column replaced by its expression."""

    def replaced(node: exp.Expr) -> exp.Expr:
        return _enclosed(columns[node.name]) if isinstance(node, exp.Column) else node

    sizes = (sum(1 for _ in columns[found.name].walk()) for found in nodes_of(tree, exp.Column))
    if sum(sizes) > MAX_NODES:
        raise NotCompiledError(tree.sql(NAME))
    return tree.transform(replaced)


def _enclosed(tree: exp.Expr) -> exp.Expr:
    return tree.copy() if isinstance(tree, exp.Column) else exp.Paren(this=tree.copy())
