"""Who may do what: roles, grants per relation and view, and what a catalog looks like to them.

A role says which routes may be called. Grants narrow it to relations and views: with them a reader
reads only what is granted, and a writer reads that and writes only what is granted for writing.
What counts is what a request *names*: a query over relations that is answered from a view needs
grants on the relations, and a query of a view needs one on the view and none on its relations.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.errors import Forbidden
from hornbeam_server.schema.model import Relation, Schema


class Role(enum.StrEnum):
    """Each may do all that those before it may."""

    READER = "reader"
    """Queries, explanations, the schema, verification, how the server is doing."""
    WRITER = "writer"
    """Transactions and loads."""
    ADMIN = "admin"
    """Schema changes, repair, API keys."""

    def includes(self, other: Role) -> bool:
        return _RANK[self] >= _RANK[other]


_RANK = {role: rank for rank, role in enumerate(Role)}


class Grant(enum.StrEnum):
    READ = "read"
    WRITE = "write"
    """Reading too: who may change a row learns what is in it."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever asks: an API key's public id, name, role and grants (None: on everything)."""

    key: str
    name: str
    role: Role
    grants: Mapping[str, Grant] | None = None

    def require_role(self, needed: Role) -> None:
        """Raises Forbidden."""
        if self.role is not needed and not self.role.includes(needed):
            raise Forbidden(
                f"This needs the role {needed}; this API key has the role {self.role}.",
                cure="Use another key; an administrator makes one with: hornbeam keys create.",
                needs=str(needed),
            )

    def may_read(self, name: str) -> bool:
        return self.grants is None or name in self.grants

    def require_read(self, names: Iterable[str]) -> None:
        """Raises Forbidden for the first relation or view that may not be read."""
        for name in names:
            if not self.may_read(name):
                raise _not_granted(Grant.READ, name)

    def require_write(self, name: str) -> None:
        """Raises Forbidden."""
        if self.grants is not None and self.grants.get(name) is not Grant.WRITE:
            raise _not_granted(Grant.WRITE, name)


ANYBODY = Principal("", "", Role.ADMIN)
"""Whoever asks where authentication is off."""


def _not_granted(right: Grant, name: str) -> Forbidden:
    return Forbidden(
        f"This API key has no grant to {right} {name}.",
        cure="Use another key; an administrator makes one with: hornbeam keys create.",
        needs=str(right),
        on=name,
    )


# ---------------------------------------------------------------- stored things


def source_of(catalog: Catalog, layout: str) -> str:
    """The relation or view whose rows a relation, view or index shows."""
    return catalog.index[layout].on if layout in catalog.index else layout


def sees(principal: Principal, catalog: Catalog, layout: str) -> bool:
    """May the rows of a relation, view or index be shown?"""
    return principal.may_read(source_of(catalog, layout))


def may_validate(principal: Principal, catalog: Catalog, layout: str) -> bool:
    """May a transaction rest on the versions of rows of `layout`?

    It says where it has read, and queries over relations are read from views. A view serves only
    queries that name its last relation, and a version tells when a row changed, not what is in it.
    """
    source = source_of(catalog, layout)
    view = catalog.view.get(source)
    return principal.may_read(source) or (view is not None and principal.may_read(view.last))


def visible_catalog(principal: Principal, catalog: Catalog) -> Catalog:
    """What of `catalog` is shown: granted relations and views, the keys, edges and indexes among
    them, without the reasons (they name others), and of the workload nothing. Only for showing:
    views may lack their relations."""
    if principal.grants is None:
        return catalog
    relations = tuple(
        _without_hidden_parents(principal, relation)
        for relation in catalog.schema.relations
        if principal.may_read(relation.name)
    )
    declared = tuple(i for i in catalog.schema.indexes if principal.may_read(i.relation))
    views = tuple(view for view in catalog.schema.views if principal.may_read(view.name))
    parents = tuple(
        (child, key)
        for child, key in catalog.forest.parents
        if principal.may_read(child) and principal.may_read(key.parent)
    )
    below = {child for child, _ in parents}
    roots = tuple(relation.name for relation in relations if relation.name not in below)
    return replace(
        catalog,
        schema=Schema(relations, declared, views),
        forest=Forest(roots, parents),
        views=tuple(view for view in catalog.views if principal.may_read(view.name)),
        deferred=tuple(view for view in catalog.deferred if principal.may_read(view.name)),
        indexes=tuple(
            replace(index, reason="") for index in catalog.indexes if principal.may_read(index.on)
        ),
        workload=(),
    )


def _without_hidden_parents(principal: Principal, relation: Relation) -> Relation:
    keys = tuple(fk for fk in relation.foreign_keys if principal.may_read(fk.parent))
    return replace(relation, foreign_keys=keys)


# ---------------------------------------------------------------- routes

_ROLE = "x-hornbeam-role"
_OPEN = "none"


def needs(role: Role | None, **extra: Any) -> dict[str, Any]:
    """A route's `openapi_extra`: who may call it; None: everybody, unasked."""
    return {_ROLE: _OPEN if role is None else str(role), **extra}


def needed_role(openapi_extra: Mapping[str, Any] | None) -> Role | None:
    """What `needs` said. Raises KeyError for a route that does not say it."""
    said = (openapi_extra or {})[_ROLE]
    return None if said == _OPEN else Role(said)
