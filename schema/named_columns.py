"""Columns that a client names: each must exist, and may be named once."""

from __future__ import annotations

from collections.abc import Sequence

from hornbeam_server.schema.errors import InvalidRequest, UnknownName
from hornbeam_server.schema.model import Relation


def require_columns(relation: Relation, names: Sequence[str], where: str = "") -> None:
    """Raise UnknownName for a name that is no visible column of `relation`, InvalidRequest for one
    that is given twice. Messages begin with `where`, such as the name of a file."""
    known = set[str]()
    for name in names:
        if name not in relation.visible_names:
            raise unknown_column(relation, name, where)
        if name in known:
            raise InvalidRequest(f"{where}Column {name!r} is given twice.", cure="Give it once.")
        known.add(name)


def unknown_column(relation: Relation, name: str, where: str = "") -> UnknownName:
    """The error for `name`, which is no column of `relation`."""
    return UnknownName(
        f"{where}Relation {relation.name} has no column {name!r}.",
        cure=f"Its columns are {', '.join(relation.visible_names)}.",
        column=name,
    )
