"""Access rights: roles, grants on relations and views, and the part of a catalog that is visible.

A role determines which routes an API key may call. Grants narrow this to relations and views: a
reader with grants reads only granted ones, and a writer with grants also writes those that are
granted for writing. Only the names in a request count: a query over relations that is answered from
a view needs grants on the relations, and a query of a view needs a grant on the view and none on
its relations.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Forbidden
from hornbeam_server.schema.parts import part_of


class Role(enum.StrEnum):
    """Roles in rising order: each role includes the rights of the roles before it."""

    READER = "reader"
    """Queries, explanations, the schema, verification, the status of the server."""
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
    """Includes READ: a client that may change a row learns its content."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request: the public id, name, role and grants (None: on everything) of its
    API key."""

    key: str
    name: str
    role: Role
    grants: Mapping[str, Grant] | None = None

    def require_role(self, needed: Role) -> None:
        """Raises Forbidden if the key's role does not include `needed`."""
        if self.role is not needed and not self.role.includes(needed):
            raise Forbidden(
                f"This needs the role {needed}; this API key has the role {self.role}.",
                cure="Use another key; an administrator makes one with: hornbeam keys create.",
                needs=str(needed),
            )

    def may_read(self, name: str) -> bool:
        return self.grants is None or name in self.grants

    def require_read(self, names: Iterable[str]) -> None:
        """Raises Forbidden for the first relation or view that the key may not read."""
        for name in names:
            if not self.may_read(name):
                raise _not_granted(Grant.READ, name)

    def require_write(self, name: str) -> None:
        """Raises Forbidden if the key may not write this relation."""
        if self.grants is not None and self.grants.get(name) is not Grant.WRITE:
            raise _not_granted(Grant.WRITE, name)


ANONYMOUS = Principal("", "", Role.ADMIN)
"""The sender of every request while authentication is off."""


def _not_granted(right: Grant, name: str) -> Forbidden:
    return Forbidden(
        f"This API key has no grant to {right} {name}.",
        cure="Use another key; an administrator makes one with: hornbeam keys create.",
        needs=str(right),
        on=name,
    )


# ---------------------------------------------------------------- stored things


def source_of(catalog: Catalog, layout: str) -> str:
    """The relation or view whose rows `layout`, a relation, view or index, stores."""
    return catalog.index[layout].on if layout in catalog.index else layout


def sees(principal: Principal, catalog: Catalog, layout: str) -> bool:
    """May rows of this relation, view or index be shown to the principal?"""
    return principal.may_read(source_of(catalog, layout))


def may_validate(principal: Principal, catalog: Catalog, layout: str) -> bool:
    """May a transaction of this principal state versions of rows of `layout` as its reads?

    A transaction states the layouts that its queries have read, and a query over relations may read
    a view. So a grant on the view's last relation is enough: a view serves only queries that name
    that relation, and a version shows when a row changed, not what is in it.
    """
    source = source_of(catalog, layout)
    view = catalog.view.get(source)
    return principal.may_read(source) or (view is not None and principal.may_read(view.last))


def visible_catalog(principal: Principal, catalog: Catalog) -> Catalog:
    """The part of `catalog` that the principal may read (`schema/parts.py`), for display only."""
    grants = principal.grants
    return catalog if grants is None else part_of(catalog, frozenset(grants)).catalog


# ---------------------------------------------------------------- routes

_ROLE = "x-hornbeam-role"
_OPEN = "none"


def needs(role: Role | None, **extra: Any) -> dict[str, Any]:
    """The `openapi_extra` of a route with the role that it needs. None: it needs no API key."""
    return {_ROLE: _OPEN if role is None else str(role), **extra}


def needed_role(openapi_extra: Mapping[str, Any] | None) -> Role | None:
    """The role given to `needs`. Raises KeyError for a route without `needs`."""
    said = (openapi_extra or {})[_ROLE]
    return None if said == _OPEN else Role(said)
