"""Columns that a client names: each must exist, may be named once, and must take values."""

from __future__ import annotations

from collections.abc import Sequence

from hornbeam_server.schema.errors import InvalidRequest, SqlError, UnknownName
from hornbeam_server.schema.model import Column, Relation


def spelled(relation: Relation, names: Sequence[str]) -> list[str]:
    """The names of columns as the relation spells them, which a file may write in another case. A
    name that no column or several columns have without regard to case stays as it is."""
    alike: dict[str, list[str]] = {}
    for name in relation.visible_names:
        alike.setdefault(name.lower(), []).append(name)

    def one(name: str) -> str:
        found = alike.get(name.lower(), [])
        return found[0] if name not in found and len(found) == 1 else name

    return [one(name) for name in names]


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


def require_no_generated(relation: Relation, names: Sequence[str], where: str = "") -> None:
    """Raise SqlError for a generated column among `names`, which are to get values."""
    for column in relation.generated:
        if column.name in names:
            raise generated_given(relation, column, where)


def generated_given(relation: Relation, column: Column, where: str = "") -> SqlError:
    """The error for a value that is given to a generated column."""
    assert column.default is not None
    return SqlError(
        f"{where}Column {column.name} of {relation.name} takes no value: it is GENERATED ALWAYS AS"
        f" ({column.default.sql}).",
        cure="Leave it out, or give DEFAULT.",
        column=column.name,
    )
