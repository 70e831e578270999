"""Authorization: the names in a request are checked against the grants of its API key.

Only keys with grants have a cost: binding a statement finds the names in it, once per text and
catalog. The text alone determines whether a name in SQL refers to a CTE or to a stored relation or
view. So an allowed statement names the same relations and views under any catalog that it runs
under.

The system catalog describes to a key with grants what it may read. Errors to such a key reveal
nothing that it may not read: no similar names, and no rows of other relations that break a
constraint.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlglot import exp

from hornbeam_server.api.rest.request_models import ExplainBody, QueryBody, TransactionBody
from hornbeam_server.api.security.roles import Grant, Principal, Role, may_validate, sees
from hornbeam_server.query.binding.binder import bind_tree
from hornbeam_server.query.binding.plain_views import names_in
from hornbeam_server.query.binding.system_tables import is_described
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.query.parsing.sequence_calls import draws, owners_of_draws
from hornbeam_server.query.parsing.system_calls import mentions_catalog
from hornbeam_server.query.system.parts import showing
from hornbeam_server.schema.caches import TextCache
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
"""Maximum number of statements whose names are cached."""


ShownNames = frozenset[str] | None
"""The names that the system catalog shows to a statement. None: all, or it does not read it."""


class Named(NamedTuple):
    """The relations and views that a statement reads, and the relation that it writes, if any.
    `draws`: the relations that own the sequences of its calls of nextval, or the sequences.
    `described`: does it read the system catalog?"""

    reads: frozenset[str]
    target: str | None
    draws: frozenset[str] = frozenset()
    described: bool = False


class Authorizer:
    """Checks requests of keys with grants against the catalog in force."""

    def __init__(self) -> None:
        self._names: _Names | None = None

    def query(self, principal: Principal, body: QueryBody, catalog: Catalog) -> ShownNames:
        """What the system catalog shows to the query. Raises Forbidden, and SqlError for what
        cannot be bound."""
        if body.pending or draws(body.sql):
            principal.require_role(Role.WRITER)
        self._writes(principal, [each.sql for each in body.pending], catalog)
        return self._shown(principal, body.sql, catalog)

    def explanation(self, principal: Principal, body: ExplainBody, catalog: Catalog) -> ShownNames:
        """What the system catalog shows to the statement. Raises Forbidden, and SqlError for what
        cannot be bound."""
        return self._shown(principal, body.sql, catalog)

    def transaction(self, principal: Principal, body: TransactionBody, catalog: Catalog) -> None:
        """Raises Forbidden, and SqlError for what cannot be bound."""
        if principal.grants is None:
            return
        self._writes(principal, [statement.sql for statement in body.statements], catalog)
        principal.require_read(condition.relation for condition in body.preconditions)
        tables = {table for table, *_ in body.ranges}
        ranged = [n for n in catalog.stored if catalog.layout(n).table in tables] if tables else []
        for layout in dict.fromkeys([*(layout for layout, _, _ in body.reads), *ranged]):
            if layout in catalog and not may_validate(principal, catalog, layout):
                principal.require_read([layout])

    def _shown(self, principal: Principal, sql: str, catalog: Catalog) -> ShownNames:
        if principal.grants is None:
            return None
        named = self._allowed(principal, sql, catalog)
        return frozenset(principal.grants) if named.described else None

    def _writes(self, principal: Principal, texts: Iterable[str], catalog: Catalog) -> None:
        """Check statements that write, which run under the whole catalog."""
        if principal.grants is not None:
            for sql in texts:
                if self._allowed(principal, sql, catalog).described:
                    raise Forbidden(
                        "This API key has grants: it reads the system catalog in queries only.",
                        cure="Read it in a query, and write the values.",
                        needs=str(Grant.READ),
                    )

    def _allowed(self, principal: Principal, sql: str, catalog: Catalog) -> Named:
        """The names in a statement, which a principal with grants may use."""
        names = self._names
        if names is None or names.catalog is not catalog:
            names = self._names = _Names(catalog)
        try:
            named = names.of(sql, frozenset(principal.grants or ()))
        except SqlError as error:
            raise _discreet(error, sql, principal, catalog) from None
        principal.require_read(sorted(named.reads))
        for target in sorted({*named.draws, *filter(None, [named.target])}):
            principal.require_write(target)
        return named


class _Names:
    """A cache of the names in statements, for one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._cache: TextCache[tuple[str, ShownNames], Named] = TextCache(STATEMENTS)

    def of(self, sql: str, granted: frozenset[str]) -> Named:
        """The names in a statement of a key with these grants. Raises SqlError."""
        shown = granted if mentions_catalog(sql) else None
        found = self._cache.get((sql, shown))
        if found is None:
            catalog = self.catalog if shown is None else showing(self.catalog, shown)
            found = named_in(sql, catalog)
            self._cache.put((sql, shown), len(sql), found)
        return found


def named_in(sql: str, catalog: Catalog) -> Named:
    """All relations and views that a statement names, subqueries included. Of a plain view this is
    its name alone, without the relations below it. Raises SqlError."""
    bound = bind_tree(parse(sql, sequences=True), sql, catalog)
    reads, described = frozenset(names_in(bound.ast)), is_described(bound.ast, sql)
    owners = frozenset(owners_of_draws(bound.ast, catalog))
    unlink(bound.ast)
    return Named(reads, bound.statement.target, owners, described)


def _discreet(
    error: SqlError, sql: str, principal: Principal, catalog: Catalog
) -> SqlError | Forbidden:
    """The error to report for a statement that cannot be bound, to a key with grants: Forbidden if
    the statement mentions a name that the key may not read, else `error` without hidden names among
    its suggestions, and without a cure that may list others."""
    try:
        tree = parse(sql, sequences=True)
    except SqlError:
        return error  # the error quotes only the sender's own text
    mentioned = {table.name for table in tree.find_all(exp.Table)}
    unlink(tree)
    try:
        principal.require_read(sorted(_stored(mentioned, catalog)))
    except Forbidden as forbidden:
        return forbidden
    if isinstance(error, UnknownName):
        near = error.details.get("near")
        if not near or not all(map(principal.may_read, _stored(near, catalog))):
            return UnknownName(error.message, name=error.details.get("name", ""))
    return error


def _stored(names: Iterable[str], catalog: Catalog) -> list[str]:
    return [
        name
        for name in names
        if name in catalog.schema or catalog.relations_of(name) or name in catalog.plain_view
    ]


# ---------------------------------------------------------------- answers


def discreet_violation(
    error: ConstraintViolation, principal: Principal, catalog: Catalog
) -> ConstraintViolation:
    """`error`, or an error without details if it concerns a relation that the key may not read,
    such as a child of a deleted row."""
    relation = error.details.get("relation", "")
    if relation not in catalog or sees(principal, catalog, relation):
        return error
    return type(error)("A constraint of a relation that this API key may not read refuses it.")


def shown_transaction(
    document: dict[str, Any], principal: Principal, catalog: Catalog
) -> dict[str, Any]:
    """The answer of a transaction without relations, views and indexes that the key may not read: a
    row of a view that was maintained may hold columns of other relations."""
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
    """The status without names that the key may not read. Only administrators get the data folder
    and the hot locks."""
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
        document["verified"] = [
            last for last in document["verified"] if sees(principal, catalog, last["name"])
        ]
        document["loading"] = [n for n in document["loading"] if sees(principal, catalog, n)]
        document["builds"] = [
            build for build in document["builds"] if sees(principal, catalog, build["name"])
        ]
    return document


def require_verify(
    principal: Principal, names: Iterable[str] | None, repair: bool, catalog: Catalog
) -> None:
    """Raises Forbidden if the key may not verify these views and indexes, or may not repair, and
    NotFound. A key with grants may not verify everything (`names` None)."""
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
            raise NotFound(f"There is no view or index {name}.")  # the usual error lists all names
        if not sees(principal, catalog, name):
            principal.require_read([name])
