"""The objects of a catalog that have comments, and the comments that stay when the catalog changes.

A comment follows the object. Renames come first (`renames.renamed_comments`). An object that then
has the same kind, name and definition keeps its comment. Indexes and constraints get another name
without a rename: a new one with the definition of one that is gone is the same object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.comments import DATABASE_KEY, Comment, Commented, Key, with_comments
from hornbeam_server.schema.counters import sequence_names
from hornbeam_server.schema.model import PUBLIC, Check, DeclaredIndex, Refresh, Relation
from hornbeam_server.schema.namespaces import bare, beside, key_name

_OF_TABLES = (Commented.COLUMN, Commented.CONSTRAINT, Commented.INDEX)
"""The kinds whose comments LIKE … INCLUDING COMMENTS copies."""


@dataclass(frozen=True, slots=True)
class Described:
    """The object of a key: what it belongs to, and its definition without names of its own."""

    owner: str
    definition: object


Objects = Mapping[Key, Described]


def objects_of(catalog: Catalog) -> Objects:
    """All objects of a catalog that may have a comment. Views that were chosen for the workload,
    and their indexes, are not among them."""
    found = catalog.derived.get("commented")
    if not isinstance(found, dict):
        found = catalog.derived["commented"] = dict(_objects(catalog))
    return found


def _objects(catalog: Catalog) -> Iterator[tuple[Key, Described]]:
    schema = catalog.schema
    for key in (DATABASE_KEY, *(Key(Commented.SCHEMA, name) for name in (PUBLIC, *schema.spaces))):
        yield key, Described("", key)
    for relation in schema.relations:
        yield from _with_columns(Commented.TABLE, relation.name, relation.visible_names)
        yield from _constraints(relation, schema.spaces)
    yield from _views(catalog)
    for index in schema.indexes:
        yield from _indexed(index, catalog)
    for name in sequence_names(schema):
        yield _named(Commented.SEQUENCE, name)
    for enumeration in schema.enumerations:
        yield _named(Commented.TYPE, enumeration.full)
    for domain in schema.domains:
        yield _named(Commented.DOMAIN, domain.name)
        for check in domain.checks:
            yield _check(Commented.DOMAIN_CONSTRAINT, domain.name, check)


def _named(kind: Commented, name: str) -> tuple[Key, Described]:
    """An object that keeps its comment as long as its kind and name stay."""
    key = Key(kind, name)
    return key, Described("", key)


def _with_columns(
    kind: Commented, name: str, columns: Iterable[str]
) -> Iterator[tuple[Key, Described]]:
    yield _named(kind, name)
    for column in columns:
        key = Key(Commented.COLUMN, name, column)
        yield key, Described(name, (kind, column))


def _views(catalog: Catalog) -> Iterator[tuple[Key, Described]]:
    for view in catalog.schema.views:
        name = view.name
        if view.refresh is Refresh.PLAIN:
            plain = catalog.plain_view.get(name)
            columns = [column.name for column in plain.columns] if plain is not None else []
            yield from _with_columns(Commented.VIEW, name, columns)
        else:
            stored = catalog.visible(name) if name in catalog.declared_view else ()
            columns = [column.name for column in stored]
            yield from _with_columns(Commented.MATERIALIZED_VIEW, name, columns)


def _constraints(relation: Relation, spaces: Sequence[str]) -> Iterator[tuple[Key, Described]]:
    """The constraints of a relation besides UNIQUE, with the index of the primary key."""
    name = relation.name
    if relation.declared_key:
        own = key_name(relation, spaces)
        described = Described(name, ("primary key", relation.declared_key))
        yield Key(Commented.CONSTRAINT, name, own), described
        yield Key(Commented.INDEX, beside(name, own, spaces)), described
    for key in relation.foreign_keys:
        described = Described(name, replace(key, name=""))
        yield Key(Commented.CONSTRAINT, name, key.name), described
    for check in relation.own_checks:
        yield _check(Commented.CONSTRAINT, name, check)


def _check(kind: Commented, owner: str, check: Check) -> tuple[Key, Described]:
    return Key(kind, owner, check.name), Described(owner, replace(check, name=""))


def _indexed(index: DeclaredIndex, catalog: Catalog) -> Iterator[tuple[Key, Described]]:
    """An index, and the constraint that it is if it is UNIQUE."""
    owner, spaces = index.relation, catalog.schema.spaces
    described = Described(owner, replace(index, name="", relation=""))
    yield Key(Commented.INDEX, index.name), described
    if index.unique and index.is_whole and owner in catalog.schema:
        yield Key(Commented.CONSTRAINT, owner, bare(index.name, spaces)), described


def kept_comments(before: Catalog, after: Catalog) -> tuple[Comment, ...]:
    """The comments of `before`, whose names are those of `after`, that stay in `after`."""
    if not before.comments:
        return ()
    known, found = objects_of(before), objects_of(after)
    kept: list[Comment] = []
    for comment in before.comments:
        described = known.get(comment.on)
        if described is None:
            continue
        if found.get(comment.on) == described:
            kept.append(comment)
            continue
        new = {key: it for key, it in found.items() if key not in known}
        kept += (replace(comment, on=key) for key in _alike(comment.on, described, new))
    return with_comments((), kept)


def with_kept_comments(before: Catalog, after: Catalog) -> Catalog:
    """`after`, which lacks objects of `before`, without the comments on them."""
    return replace(after, comments=kept_comments(before, after))


def _alike(key: Key, described: Described, objects: Objects) -> Iterator[Key]:
    """The first object of the same kind with the same definition, if there is one."""
    same = (other for other, it in objects.items() if it == described and other.kind is key.kind)
    yield from list(same)[:1]


def copied_comments(
    comments: Iterable[Comment], source: str, copy: str, objects: Objects
) -> Iterator[Comment]:
    """The comments on the columns, constraints and indexes of the relation `source`, for those of
    the relation `copy` with the same definitions."""
    for comment in comments:
        described = objects.get(comment.on)
        if described is None or described.owner != source or comment.on.kind not in _OF_TABLES:
            continue
        of_copy = replace(described, owner=copy)
        for key in _alike(comment.on, of_copy, objects):
            yield replace(comment, on=key)


def commented(catalog: Catalog, comment: Comment) -> Catalog:
    """The catalog after `comment` is set, which is on an object of it."""
    return replace(catalog, comments=with_comments(catalog.comments, [comment]))


def shown_comments(comments: Iterable[Comment], part: Catalog) -> tuple[Comment, ...]:
    """The comments on what a part of a catalog shows (`parts.py`)."""
    return tuple(comment for comment in comments if comment.on in objects_of(part))
