"""Names of the columns of views that are in force.

An output column that a SELECT does not name gets a name by a rule
(`query/parsing/output_names.py`). The rule may change; the columns of a stored view do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from hornbeam_server.query.binding.plain_views import parse_view
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import DeclaredView, Schema
from hornbeam_server.schema.trees import unlink


def with_kept_names(schema: Schema, current: Catalog) -> Schema:
    """The schema, in which views that are in force with the same SELECT keep the names of their
    columns. Its notes list the names that a new view would not have."""
    stored = {(view.name, view.sql): view.columns for view in current.schema.views}
    views = tuple(
        replace(view, columns=stored.get((view.name, view.sql), ())) for view in schema.views
    )
    notes = (note for view in views for note in _notes(view))
    return replace(schema, views=views, notes=(*schema.notes, *notes))


def _notes(view: DeclaredView) -> Iterator[str]:
    if not view.columns:
        return
    try:
        kept, new = _names(view), _names(replace(view, columns=()))
    except SqlError:
        return  # planning reports it with its place
    for old, name in zip(kept, new, strict=True):
        if old != name:
            yield (
                f"view {view.name}: column {identifier(old)} keeps its name, which a new view would"
                f" not have: {identifier(name)}; AS {identifier(old)} in the SELECT says it"
            )


def _names(view: DeclaredView) -> list[str]:
    """The names of the projections of the first SELECT of a view."""
    tree = parse_view(view)
    query: exp.Expr = tree
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    names = [node.alias_or_name for node in query.expressions]
    unlink(tree)
    return names
