"""Indexes on immediate views.

An index on groups is a second copy of their cells, in the order of its columns (`catalog`): a
transaction adds the same amounts to both. So it answers by itself, and takes no lock on a group,
either. An index on a view without aggregates is an index on rows, with all columns of the view.
"""

from __future__ import annotations

from hornbeam_server.schema.catalog import Index
from hornbeam_server.schema.errors import UnknownName, Unsupported
from hornbeam_server.schema.model import DeclaredIndex
from hornbeam_server.schema.types import UNORDERED
from hornbeam_server.schema.views import Folding, ImmediateView, ProjectedView, TransactionalView


def view_index(declared: DeclaredIndex, view: TransactionalView) -> Index:
    """The index that is declared on a view. Raises UnknownName, and Unsupported for columns that
    cannot be indexed."""
    types = {column.name: column.type for column in view.columns}
    for part in declared.columns:
        if part.column not in types:
            raise UnknownName(
                f"Index {declared.name} names column {part.column}, which {view.name} does not"
                " have.",
                cure=f"{view.name} has: {', '.join(types)}.",
            )
        if types[part.column].kind in UNORDERED:
            raise Unsupported(
                f"Column {part.column} of type {types[part.column].sql()} cannot be in index"
                f" {declared.name}.",
                cure="CAST it to TEXT in the view.",
            )
    include: tuple[str, ...] = ()
    if isinstance(view, ProjectedView):
        key = {part.column for part in (*declared.columns, *view.key)}
        include = tuple(name for name in types if name not in key)
    else:
        _require_groups(declared, view)
    reason = "declared in the schema"
    return Index(declared.name, view.name, declared.columns, include, reason=reason)


def _require_groups(declared: DeclaredIndex, view: ImmediateView) -> None:
    folded = dict(zip((column.name for column in view.columns), view.folded, strict=False))
    places = [folded[part.column] for part in declared.columns]
    for part, origin in zip(declared.columns, places, strict=True):
        if origin.folding is not Folding.GROUP:
            raise Unsupported(
                f"Column {part.column} of index {declared.name} is no grouping column of"
                f" {view.name}: the order by an aggregate changes with every write.",
                cure="Index grouping columns. For the largest groups, declare the view with"
                " refresh = 'deferred'.",
            )
    if len(set(places)) < len(places):
        raise Unsupported(
            f"Index {declared.name} names a grouping column of {view.name} twice.",
            cure="Name it once.",
        )
