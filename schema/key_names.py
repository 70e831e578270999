"""The names of primary keys while a schema is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set

from hornbeam_server.schema.drafts import RelationDraft
from hornbeam_server.schema.namespaces import beside, default_key_name
from hornbeam_server.schema.problems import Problems


def key_name_of(draft: RelationDraft, spaces: Collection[str]) -> str:
    """The name that a relation gives to its primary key; "" for that of PostgreSQL."""
    given = next((key.name.text for key in draft.primary_keys if key.name is not None), "")
    return "" if given == default_key_name(draft.name.text, spaces) else given


def check_key_names(
    drafts: Iterable[RelationDraft], taken: Set[str], spaces: Collection[str], problems: Problems
) -> None:
    """Collect an error for each given name of a primary key that something in its schema has:
    another primary key, or one of `taken`. As in PostgreSQL, they share one name space."""
    seen = set(taken)
    for draft in drafts:
        name = next((key.name for key in draft.primary_keys if key.name is not None), None)
        if name is None:
            continue
        full = beside(draft.name.text, name.text, spaces)
        with problems.collect((draft.name.text, "")):
            if full in seen:
                raise name.place.error(
                    f"The primary key of {draft.name.text} has the name {name.text}, which a"
                    " relation, view, index or another primary key has.",
                    cure="Choose another name.",
                    name=name.text,
                )
        seen.add(full)
