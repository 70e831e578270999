"""May they do that? What requests name, held against the grants of whoever asks.

Only keys with grants cost anything: the names in a statement are found by binding it, once per text
and catalog version. A name in SQL is a CTE's or a stored thing's by the text alone, so a statement
that was allowed names the same things under whatever catalog it then runs.

To a key with grants errors say nothing about what it may not read: no names that are near, no rows
of other relations that a constraint found.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlglot import exp

from hornbeam_server.api.access import Grant, Principal, Role, may_validate, sees
from hornbeam_server.api.models import ExplainBody, QueryBody, TransactionBody
from hornbeam_server.query.binder import bind
from hornbeam_server.query.parse import parse
from hornbeam_server.schema.caches import cached
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import (
    ConstraintViolation,
    Forbidden,
    NotFound,
    SqlError,
    UnknownName,
)
from hornbeam_server.schema.trees import unlink

STATEMENTS = 2_000
"""Statements whose names are kept."""


class Named(NamedTuple):
    """Relations and views that a statement reads, and the relation that it writes."""

    reads: frozenset[str]
    target: str | None


class Authorizer:
    """Checks requests of keys with grants against the catalog in force."""

    def __init__(self) -> None:
        self._names: _Names | None = None

    def query(self, principal: Principal, body: QueryBody, catalog: Catalog) -> None:
        """Raises Forbidden, and SqlError for what cannot be bound."""
        if body.pending:
            principal.require_role(Role.WRITER)
        if principal.grants is not None:
            self._statements(principal, [body.sql, *(p.sql for p in body.pending)], catalog)

    def explanation(self, principal: Principal, body: ExplainBody, catalog: Catalog) -> None:
        """Raises Forbidden, and SqlError for what cannot be bound."""
        if principal.grants is not None:
            self._statements(principal, [body.sql], catalog)

    def transaction(self, principal: Principal, body: TransactionBody, catalog: Catalog) -> None:
        """Raises Forbidden, and SqlError for what cannot be bound."""
        if principal.grants is None:
            return
        self._statements(principal, [statement.sql for statement in body.statements], catalog)
        principal.require_read(condition.relation for condition in body.preconditions)
        for layout in dict.fromkeys(layout for layout, _, _ in body.reads):
            if layout in catalog and not may_validate(principal, catalog, layout):
                principal.require_read([layout])

    def _statements(self, principal: Principal, texts: Iterable[str], catalog: Catalog) -> None:
        names = self._names
        if names is None or names.catalog is not catalog:
            names = self._names = _Names(catalog)
        for sql in texts:
            try:
                named = names.of(sql)
            except SqlError as error:
                raise _discreet(error, sql, principal, catalog) from None
            principal.require_read(sorted(named.reads))
            if named.target is not None:
                principal.require_write(named.target)


class _Names:
    """What statements name under one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.of = cached(lambda sql: named_in(sql, catalog), STATEMENTS)


def named_in(sql: str, catalog: Catalog) -> Named:
    """Everything stored that a statement names, in whatever part of it. Raises SqlError."""
    bound = bind(sql, catalog)
    unlink(bound.ast)
    statement = bound.statement
    reads = {source.relation for block in statement.blocks for source in block.sources}
    return Named(frozenset(reads), statement.target)


def _discreet(
    error: SqlError, sql: str, principal: Principal, catalog: Catalog
) -> SqlError | Forbidden:
    """Why a statement cannot be bound, told to someone who may not read everything: first what is
    forbidden in it, and without suggesting names that are hidden."""
    try:
        tree = parse(sql)
    except SqlError:
        return error  # there is nothing in it but the sender's own text
    mentioned = {table.name for table in tree.find_all(exp.Table)}
    unlink(tree)
    try:
        principal.require_read(sorted(_stored(mentioned, catalog)))
    except Forbidden as forbidden:
        return forbidden
    near = error.details.get("near", ())
    if isinstance(error, UnknownName) and not all(map(principal.may_read, _stored(near, catalog))):
        return UnknownName(error.message, name=error.details.get("name", ""))
    return error


def _stored(names: Iterable[str], catalog: Catalog) -> list[str]:
    return [name for name in names if name in catalog.schema or catalog.relations_of(name)]


# ---------------------------------------------------------------- answers


def discreet_violation(
    error: ConstraintViolation, principal: Principal, catalog: Catalog
) -> ConstraintViolation:
    """`error` without rows of a relation that may not be read (a child of what was deleted)."""
    relation = error.details.get("relation", "")
    if relation not in catalog or sees(principal, catalog, relation):
        return error
    return type(error)("A constraint of a relation that this API key may not read refuses it.")


def shown_transaction(
    document: dict[str, Any], principal: Principal, catalog: Catalog
) -> dict[str, Any]:
    """A transaction's answer without the views, indexes and relations that may not be read: the
    row of a view that changed along may hold columns of other relations."""
    if principal.grants is None:
        return document
    document["affected"] = {
        name: count
        for name, count in document["affected"].items()
        if sees(principal, catalog, name)
    }
    if "mutations" in document:
        document["mutations"] = [
            mutation
            for mutation in document["mutations"]
            if sees(principal, catalog, mutation["layout"])
        ]
    return document


def shown_status(
    document: dict[str, Any], principal: Principal, catalog: Catalog
) -> dict[str, Any]:
    """How the server is doing. Where its data is and which rows are hot is for administrators."""
    if not principal.role.includes(Role.ADMIN):
        document["data"] = ""
        document["locks"] = {**document["locks"], "hot": []}
    if principal.grants is not None:
        for part in ("views", "bytes"):
            if part in document:
                document[part] = {
                    name: value
                    for name, value in document[part].items()
                    if sees(principal, catalog, name)
                }
        document["loading"] = [n for n in document["loading"] if sees(principal, catalog, n)]
        document["builds"] = [
            build for build in document["builds"] if sees(principal, catalog, build["name"])
        ]
    return document


def require_verify(
    principal: Principal, names: Iterable[str] | None, repair: bool, catalog: Catalog
) -> None:
    """Raises Forbidden. All views and indexes are for those who may read everything."""
    if repair:
        principal.require_role(Role.ADMIN)
    if principal.grants is None:
        return
    if names is None:
        raise Forbidden(
            "This API key has grants: it may not verify everything.",
            cure="Name the views and indexes.",
            needs=str(Grant.READ),
        )
    for name in names:
        if not catalog.relations_of(name) and name not in catalog.index:
            raise NotFound(f"There is no view or index {name}.")  # the usual error lists them all
        if not sees(principal, catalog, name):
            principal.require_read([name])
