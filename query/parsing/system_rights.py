"""Functions about privileges, such as has_table_privilege: they compare the privilege with the
rights of the client that asks, which are looked up in a live system relation
(`query/system/privileges.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.templates import value_call
from hornbeam_server.query.parsing.system_lookups import filled, is_oid, oid_of
from hornbeam_server.query.system.oids import OWNER
from hornbeam_server.query.system.privileges import COLUMN_RIGHTS, RIGHTS
from hornbeam_server.schema.errors import SqlError, UnknownName
from hornbeam_server.schema.model import DATABASE

_Arguments = Sequence[exp.Expr]
_LETTERS = f"""
(SELECT t."letters of right" FROM pg_catalog."{RIGHTS}" AS t WHERE t."about right" = about
AND t."{{}} of right" = given)
"""
_ROLE = f"""
(SELECT t."oid of right" FROM pg_catalog."{RIGHTS}" AS t WHERE t."about right" = 'role'
AND t."name of right" = given)
"""
_OF_COLUMN = f"""
(SELECT max(t."letters of right") FROM pg_catalog."{COLUMN_RIGHTS}" AS t
WHERE t."oid of right" = oid AND t."name of right" = part)
"""
_EXECUTE = "X"
"""All clients may call all functions."""


def privilege_function(kind: str) -> Callable[[_Arguments], exp.Expr]:
    """The answer to `has_<kind>_privilege`: ([user,] object, privilege), and ([user,] table,
    column, privilege). Raises SqlError for another number of arguments."""
    parts = 3 if kind == "column" else 2

    def build(given: _Arguments) -> exp.Expr:
        if len(given) not in {parts, parts + 1}:
            raise SqlError(
                f"Function has_{kind}_privilege takes {parts} or {parts + 1} arguments.",
                cure="Give the object and the privilege, and before them the user if you like.",
            )
        user = given[0] if len(given) > parts else None
        return _compared(kind, user, *given[-parts:])

    return build


def _compared(kind: str, user: exp.Expr | None, named: exp.Expr, *rest: exp.Expr) -> exp.Expr:
    role = _user(user)
    if kind == "column":
        part, privilege = rest
        oid = oid_of("relation", named)
        name = _text(part)
        rights = filled(_OF_COLUMN, {"oid": oid, "part": name})
        of_table = _letters("relation", oid)
        whole = exp.Literal.string(kind), *role, of_table, rights, name.copy(), privilege.copy()
        return value_call("has_privilege_on_part", *whole)
    (privilege,) = rest
    if kind == "sequence":
        oid = oid_of("relation", named)
        both = _letters("relation", oid), _letters("sequence", oid)
        whole = exp.Literal.string(kind), *role, *both, _text(named), privilege.copy()
        return value_call("has_privilege_on_part", *whole)
    kind_, rights = exp.Literal.string(kind), _rights(kind, named)
    return value_call("has_privilege", kind_, *role, rights, privilege.copy())


def _user(user: exp.Expr | None) -> tuple[exp.Expr, exp.Expr]:
    """The text of a user, and the OID of the role of this name; NULL if there is none."""
    if user is None:
        return exp.Literal.string(DATABASE), exp.Literal.number(OWNER)
    name = _text(user)
    return name, filled(_ROLE, {"given": name})


def _rights(kind: str, named: exp.Expr) -> exp.Expr:
    match kind:
        case "table" | "any_column":
            return _letters("relation", oid_of("relation", named))
        case "schema":
            return _letters(kind, oid_of(kind, named))
        case "database":
            return _of_database(named)
    none = exp.cast(exp.null(), exp.DType.TEXT)
    return none if is_oid(named) else exp.Literal.string(_EXECUTE)


def _of_database(named: exp.Expr) -> exp.Expr:
    if is_oid(named):
        return _letters("database", named)
    require_database(named)
    about = exp.Literal.string("database")
    return filled(_LETTERS.format("name"), {"about": about, "given": _text(named)})


def require_database(named: exp.Expr) -> None:
    """Raises UnknownName for the written name of another database."""
    inner = named.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string and inner.this != DATABASE:
        raise UnknownName(f"There is no database {inner.this}.", name=inner.this)


def _letters(about: str, oid: exp.Expr) -> exp.Expr:
    given = {"about": exp.Literal.string(about), "given": oid}
    return filled(_LETTERS.format("oid"), given)


def _text(value: exp.Expr) -> exp.Expr:
    return exp.cast(value.copy(), exp.DType.TEXT)
