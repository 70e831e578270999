"""Relations that are altered: how rows that are stored already belong to the new declaration.

A row is an array of values in the order of its relation's columns (`storage/codec/rows.py`), and
is not rewritten. So a relation that is declared again keeps the places of its columns: a column
that is not declared any more stays as a dropped one, and new columns follow behind all others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from hornbeam_server.schema.copies import Copy
from hornbeam_server.schema.model import Column, Default, DefaultKind, Relation, Schema
from hornbeam_server.schema.types import Value


def placed(declared: Schema, base: Schema, copies: Iterable[Copy] = ()) -> Schema:
    """The schema `declared`, with the columns of its relations at their places in the rows that are
    stored under `base`. The order of the declared columns must be that of `base`. The rows of
    `copies` are written again, so each of them has the declared columns only."""
    kept = {r.name for r in declared.relations if r.name in base} - {c.relation for c in copies}
    relations = (
        _placed(relation, base.relation(relation.name)) if relation.name in kept else relation
        for relation in declared.relations
    )
    return replace(declared, relations=tuple(relations))


def _placed(declared: Relation, base: Relation) -> Relation:
    new = [c for c in declared.columns if c.name not in base.stored_names]
    return replace(declared, columns=(*_kept(declared, base), *new))


def _kept(declared: Relation, base: Relation) -> Iterator[Column]:
    """The columns at the places of the columns of `base`."""
    for place, before in enumerate(base.columns):
        if not before.dropped and before.name in declared.stored_names:
            yield _changed(declared.column(before.name), before)
        else:
            yield _dropped(before, place, declared.stored_names)


def without_columns(relation: Relation, names: Collection[str]) -> Relation:
    """The relation, in which the columns `names` are dropped. No key and no index reads them."""
    kept = tuple(
        _dropped(column, place, relation.stored_names) if column.name in names else column
        for place, column in enumerate(relation.columns)
    )
    return replace(relation, columns=kept)


def _changed(column: Column, before: Column) -> Column:
    """`column`, in which older rows have the value that they have in `before`."""
    value = before.value_in_older_rows
    if before.missing is None and column.value_in_older_rows == value:
        return column
    return replace(column, missing=_literal(value))


def _literal(value: Value) -> Default:
    return Default(DefaultKind.LITERAL, value)


def _dropped(before: Column, place: int, taken: Collection[str]) -> Column:
    """The column at `place` once it is dropped: NULL in new rows. Its name is none of `taken`. Rows
    that are older than the column keep the value that they show: views have copied it."""
    name = f"..dropped.{place}.."
    while name in taken:
        name += "."
    value = before.value_in_older_rows
    missing = None if value is None else _literal(value)
    return Column(name, before.type, hidden=True, dropped=True, missing=missing)
