"""Notes for the reader of a plan: what a schema means otherwise than it might seem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hornbeam_server.schema.drafts import RelationDraft
from hornbeam_server.schema.graph import circles
from hornbeam_server.schema.model import Action, Schema


def notes(drafts: Iterable[RelationDraft], schema: Schema) -> Iterator[str]:
    """The notes on the columns of drafts, and on the foreign keys of the schema."""
    yield from _of_columns(drafts)
    yield from _of_circles(schema)
    yield from _of_actions(schema)


def _of_columns(relations: Iterable[RelationDraft]) -> Iterator[str]:
    for draft in relations:
        for column in draft.columns:
            if column.note:
                yield f"{draft.name.text}.{column.name.text}: {column.note}"


def _of_actions(schema: Schema) -> Iterator[str]:
    """The actions that set NULL in a column that is NOT NULL."""
    for relation in schema.relations:
        for key in relation.foreign_keys:
            columns = [relation.column(name) for name in key.columns]
            for event, action in (("DELETE", key.on_delete), ("UPDATE", key.on_update)):
                null = action is Action.SET_NULL, action is Action.SET_DEFAULT
                if any(
                    not c.nullable and (null[0] or (null[1] and not c.default)) for c in columns
                ):
                    yield (
                        f"{relation.name}.{key.name}: ON {event} {action.value.upper()} refuses the"
                        " statement, because a column is NOT NULL"
                    )


def _of_circles(schema: Schema) -> Iterator[str]:
    for group in circles(schema):
        yield (
            f"{' and '.join(group)} reference one another in a circle: one transaction inserts rows"
            " that reference one another, in any order; trees and join views follow some of the"
            " foreign keys only"
        )
