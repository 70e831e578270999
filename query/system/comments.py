"""`pg_description` and `pg_shdescription`: the comments, by the OIDs of their objects."""

from __future__ import annotations

from collections.abc import Iterator

from hornbeam_server.query.system import postgresql
from hornbeam_server.query.system.objects import Objects
from hornbeam_server.query.system.oids import DATABASE_OID
from hornbeam_server.query.system.postgresql import Given
from hornbeam_server.schema.comments import Comment, Commented

_CLASSES = {
    Commented.TYPE: "pg_type",
    Commented.DOMAIN: "pg_type",
    Commented.SCHEMA: "pg_namespace",
    Commented.CONSTRAINT: "pg_constraint",
    Commented.DOMAIN_CONSTRAINT: "pg_constraint",
}
"""The relations with the objects of a kind; those of the others are in `pg_class`."""


def descriptions(objects: Objects) -> Iterator[Given]:
    """The comments on all objects but the database. A view that cannot be read yet has no OID, and
    shows no comment."""
    constraints = {(each.of_domain, each.on, each.name): each.oid for each in objects.constraints}
    for comment in objects.catalog.comments:
        oid, column = _numbers(comment, objects, constraints)
        if oid:
            class_ = _CLASSES.get(comment.on.kind, "pg_class")
            yield {
                "objoid": oid,
                "classoid": postgresql.relations()[class_].oid,
                "objsubid": column,
                "description": comment.text,
            }


def _numbers(
    comment: Comment, objects: Objects, constraints: dict[tuple[bool, str, str], int]
) -> tuple[int, int]:
    """The OID of the object, 0 if it has none, and the number of its column, or 0."""
    on = comment.on
    match on.kind:
        case Commented.DATABASE:
            return 0, 0
        case Commented.SCHEMA:
            return objects.oid_of_space(on.name), 0
        case Commented.TYPE | Commented.DOMAIN:
            return objects.oid_of_named_type(on.name), 0
        case Commented.CONSTRAINT | Commented.DOMAIN_CONSTRAINT:
            of_domain = on.kind is Commented.DOMAIN_CONSTRAINT
            return constraints.get((of_domain, on.name, on.member), 0), 0
    found = objects.by_name.get(on.name)
    if found is None:
        return 0, 0
    if on.kind is not Commented.COLUMN:
        return found.oid, 0
    names = [column.name for column in found.columns]
    return found.oid, names.index(on.member) + 1


def shared_descriptions(objects: Objects) -> Iterator[Given]:
    """The comment on the database."""
    for comment in objects.catalog.comments:
        if comment.on.kind is Commented.DATABASE:
            yield {
                "objoid": DATABASE_OID,
                "classoid": postgresql.relations()["pg_database"].oid,
                "description": comment.text,
            }
