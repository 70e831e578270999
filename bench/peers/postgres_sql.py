"""Translates Hornbeam's SQL, relations, indexes and join views into PostgreSQL's dialect. Pure.

A view becomes a materialised view. A write changes views as in Synergy (VII): an insert or a delete
changes the views whose last relation it writes, since foreign keys restrict; an update changes all
views that hold the relation.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.generators.postgres import PostgresGenerator

from bench.peers.port import Cannot
from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.optimizer.rewrite import rewrite
from hornbeam_server.schema.catalog import Catalog, Index
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import KeyPart
from hornbeam_server.schema.render import render_ddl
from hornbeam_server.schema.views import JoinView


class _Writer(PostgresGenerator):
    """Writes parameters by number, since the rewriting moves them."""

    def placeholder_sql(self, expression: exp.Placeholder) -> str:
        return f"${expression.name}"


def translated(sql: str, catalog: Catalog) -> str:
    """`sql`, over the readable views of `catalog` that serve it; parameter i is `$i`."""
    text: str = _Writer(dialect="postgres").generate(rewrite(bind(sql, catalog), catalog).bound.ast)
    return text


def touched(sql: str, catalog: Catalog) -> list[str]:
    """The views that `sql` may change. Raises Cannot."""
    tree = bind(sql, catalog).ast
    match tree:
        case exp.Select():
            return []
        case exp.Insert(this=exp.Schema(this=table)) | exp.Delete(this=table):
            return [view.name for view in catalog.views if view.last == table.name]
        case exp.Update(this=table):
            return [view.name for view in catalog.views if table.name in view.path]
    raise Cannot(f"It is not known which views {type(tree).__name__.upper()} changes.")


def definitions(catalog: Catalog) -> Iterator[str]:
    """The definitions of all tables, views and indexes. Views are empty until their first
    refresh."""
    yield from sqlglot.transpile(render_ddl(catalog.schema), write="postgres")
    for view in catalog.views:
        yield f"CREATE MATERIALIZED VIEW {identifier(view.name)} AS {_select(view)} WITH NO DATA"
        key = ", ".join(map(_part, catalog.layout(view.name).key))
        name = identifier(f"{view.name}_key")
        yield f"CREATE UNIQUE INDEX {name} ON {identifier(view.name)} ({key})"
    yield from map(_create_index, catalog.indexes)


def refresh(view: str) -> str:
    return f"REFRESH MATERIALIZED VIEW {identifier(view)}"


def _select(view: JoinView) -> str:
    columns = (f"{_column(c.relation, c.column)} AS {identifier(c.name)}" for c in view.columns)
    equal = (
        f"{_column(child, column)} = {_column(edge.parent, of_parent)}"
        for child, edge in zip(view.path[1:], view.edges, strict=True)
        for column, of_parent in zip(edge.columns, edge.parent_columns, strict=True)
    )
    sources = ", ".join(map(identifier, view.path))
    return f"SELECT {', '.join(columns)} FROM {sources} WHERE {' AND '.join(equal)}"


def _column(relation: str, column: str) -> str:
    return f"{identifier(relation)}.{identifier(column)}"


def _create_index(index: Index) -> str:
    parts = ", ".join(map(_part, index.columns))
    unique = "UNIQUE " if index.unique else ""
    return f"CREATE {unique}INDEX {identifier(index.name)} ON {identifier(index.on)} ({parts})"


def _part(part: KeyPart) -> str:
    """A column of an index."""
    return identifier(part.column) + (" DESC" if part.descending else "")
