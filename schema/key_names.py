"""The names of primary keys while a schema is read."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

from hornbeam_server.schema.drafts import Name, RelationDraft
from hornbeam_server.schema.namespaces import beside, default_key_name
from hornbeam_server.schema.problems import Problems


def key_names(
    drafts: Iterable[RelationDraft],
    others: Sequence[Name],
    taken: Set[str],
    spaces: Collection[str],
    problems: Problems,
) -> Mapping[str, str]:
    """The name of the primary key of each relation, "" for that of PostgreSQL, which is the first
    free one of `t_pkey`, `t_pkey1` and so on. As in PostgreSQL, keys share a name space with
    relations, views and indexes: `others` are the given names of views and indexes, `taken` all
    names. An error for each name that two of them have is collected."""
    seen: set[str] = set()
    keys: set[str] = set()
    found = {}
    for draft in drafts:
        relation = draft.name.text
        given = next((key.name for key in draft.primary_keys if key.name is not None), None)
        with problems.collect((relation, "")):
            _require_free(draft.name, keys)
            if given is not None:
                _require_free_key(given, relation, taken | seen, spaces)
        seen.add(relation)
        default = default_key_name(relation, spaces)
        name = _free(default, draft, seen, spaces) if given is None else given.text
        found[relation] = "" if name == default else name
        if draft.primary_keys:
            keys.add(beside(relation, name, spaces))
        seen |= keys
    for other in others:
        with problems.collect((other.text, "")):
            _require_free(other, keys)
    return found


def _free(default: str, draft: RelationDraft, seen: Set[str], spaces: Collection[str]) -> str:
    """The first free name, which no constraint of the relation has either."""
    keys = (each.name for each in draft.foreign_keys)
    checks = (each.name for each in draft.all_checks)
    own = {name.text for name in (*keys, *checks) if name is not None}
    numbered = (f"{default}{number}" for number in itertools.count(1))
    names = (name for name in itertools.chain([default], numbered) if name not in own)
    return next(name for name in names if beside(draft.name.text, name, spaces) not in seen)


def _require_free(name: Name, keys: Set[str]) -> None:
    if name.text in keys:
        raise name.place.error(
            f"{name.text} is the name of a primary key already.",
            cure="Choose another name.",
            name=name.text,
        )


def _require_free_key(name: Name, relation: str, seen: Set[str], spaces: Collection[str]) -> None:
    if beside(relation, name.text, spaces) in seen:
        raise name.place.error(
            f"The primary key of {relation} has the name {name.text}, which a relation, view, index"
            " or another primary key has.",
            cure="Choose another name.",
            name=name.text,
        )
