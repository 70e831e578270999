"""CREATE VIEW: a plain view as the catalog has it."""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from hornbeam_server.maintain.deltas.expressions import text
from hornbeam_server.maintain.deltas.relations import describe, stored_fields
from hornbeam_server.query.binding.binder import bind_tree
from hornbeam_server.query.binding.identities import forget_omitted
from hornbeam_server.query.binding.plain_views import names_in, parse_view
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.model import DeclaredView
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.views import PlainView


def plain_view(declared: DeclaredView, catalog: Catalog) -> PlainView:
    """The view with its columns. `catalog` has the relations and views that it may name. Raises the
    errors of the binder, and SqlError for parameters and for two columns of one name."""
    bound = bind_tree(parse_view(declared), declared.sql, catalog)
    tree = bound.ast
    try:
        if bound.parameter_types:
            raise SqlError("A view has no parameters.", cure="Write the values.")
        stored = {table.name for table in tree.find_all(exp.Table) if "source" in table.meta}
        forget_omitted(tree)
        fields = describe(text(tree), {n: stored_fields(catalog.visible(n)) for n in stored})
        columns = tuple(field.column() for field in fields)
        twice = [n for n, count in Counter(c.name for c in columns).items() if count > 1]
        if twice:
            raise SqlError(
                f"The view has two columns called {twice[0]}.",
                cure="Give each a name of its own: CREATE VIEW name (columns) AS …",
            )
        return PlainView(declared, tuple(sorted(names_in(tree))), columns)
    finally:
        unlink(tree)
