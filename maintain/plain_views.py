"""CREATE VIEW: a plain view as the catalog has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from hornbeam_server.maintain.deltas.expressions import text
from hornbeam_server.maintain.deltas.relations import describe, labelled, stored_fields
from hornbeam_server.query.binding.binder import bind_tree
from hornbeam_server.query.binding.identities import forget_omitted
from hornbeam_server.query.binding.plain_views import names_in, parse_view
from hornbeam_server.query.binding.system_tables import system_relations_in
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.model import Column, DeclaredView
from hornbeam_server.schema.trees import nodes_of, unlink
from hornbeam_server.schema.views import PlainView


def plain_view(declared: DeclaredView, catalog: Catalog, names: Sequence[str] = ()) -> PlainView:
    """The view with its columns, of which the first have `names`. `catalog` has the relations and
    views that it may name. Raises the errors of the binder, and SqlError for parameters, for too
    many names, and for two columns of one name."""
    bound = bind_tree(parse_view(declared), declared.sql, catalog, inner=True)
    tree = bound.ast
    try:
        if bound.parameter_types:
            raise SqlError("A view has no parameters.", cure="Write the values.")
        stored = {table.name for table in nodes_of(tree, exp.Table) if "source" in table.meta}
        forget_omitted(tree)
        read = {n: stored_fields(catalog.visible(n)) for n in stored}
        read |= {each.full: stored_fields(each.columns) for each in system_relations_in(tree)}
        fields = describe(text(tree), read)
        fields = labelled(fields, bound.columns)
        columns = _named([field.column() for field in fields], names)
        twice = [n for n, count in Counter(c.name for c in columns).items() if count > 1]
        if twice:
            raise SqlError(
                f"The query of {declared.name} has two columns called {twice[0]}.",
                cure=f"List the names of the columns: CREATE … {declared.name} (columns) AS …",
            )
        return PlainView(declared, tuple(sorted(names_in(tree))), columns)
    finally:
        unlink(tree)


def _named(columns: Sequence[Column], names: Sequence[str]) -> tuple[Column, ...]:
    if len(names) > len(columns):
        raise SqlError(
            f"{len(names)} names for {len(columns)} columns.",
            cure="Give at most one name for each column.",
        )
    called = [*names, *(column.name for column in columns[len(names) :])]
    return tuple(replace(c, name=name) for c, name in zip(columns, called, strict=True))
