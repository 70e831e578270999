"""Privileges of PostgreSQL, and whether a client has them.

Rights are letters, as in an `aclitem`: r is SELECT, a INSERT, w UPDATE, d DELETE, D TRUNCATE, x
REFERENCES, t TRIGGER, U USAGE, C CREATE, T TEMPORARY, c CONNECT. A `*` behind a letter means that
the client may grant the privilege.
"""

from __future__ import annotations

from collections.abc import Mapping

from hornbeam_server.schema.errors import TypeMismatch, UnknownName

TABLE = {
    "SELECT": "r", "INSERT": "a", "UPDATE": "w", "DELETE": "d", "TRUNCATE": "D", "REFERENCES": "x",
    "TRIGGER": "t", "RULE": "",
}  # fmt: skip
"""The letters of the privileges of tables. RULE is a name that means nothing any more."""
_COLUMN = {name: TABLE[name] for name in ("SELECT", "INSERT", "UPDATE", "REFERENCES")}
PRIVILEGES: Mapping[str, Mapping[str, str]] = {
    "table": TABLE,
    "column": _COLUMN,
    "any_column": _COLUMN,
    "sequence": {"USAGE": "U", "SELECT": "r", "UPDATE": "w"},
    "schema": {"CREATE": "C", "USAGE": "U"},
    "database": {"CREATE": "C", "TEMPORARY": "T", "TEMP": "T", "CONNECT": "c"},
    "function": {"EXECUTE": "X"},
}
"""The privileges of each kind of objects, and their letters."""
_OWNER, _PUBLIC = 10, "public"
_TO_GRANT = " WITH GRANT OPTION"


def has_privilege(
    kind: str, user: str | None, role: int | None, rights: str | None, privileges: str | None
) -> bool | None:
    """Has a user one of the privileges, which commas separate, on an object on which the client has
    the `rights` (None: there is no such object)? `user` is the name or the number that was given,
    `role` the number of the role of this name. Raises UnknownName and TypeMismatch."""
    if user is None or privileges is None:
        return None
    if role is None and user != _PUBLIC and not user.isdigit():
        raise UnknownName(f"There is no role {user}.", name=user)
    letters = [_letter(kind, each.strip().upper()) for each in privileges.split(",")]
    if rights is None:
        return None
    number = role or (int(user) if user.isdigit() else 0)
    return number == _OWNER and any(each and each in rights for each in letters)


def has_privilege_on_part(
    kind: str,
    user: str | None,
    role: int | None,
    outer: str | None,
    rights: str | None,
    part: str | None,
    privileges: str | None,
) -> bool | None:
    """As `has_privilege`, on a column, or on a relation that has to be a sequence. `outer`: the
    rights on the relation; `part`: the name of the column, or of the sequence. Raises also for a
    column that the relation does not have, unless it is given by its number."""
    if part is None:
        return None
    if outer is not None and rights is None:
        if kind == "sequence":
            raise TypeMismatch(f"Wrong kind of object: {part} is not a sequence.")
        if not part.lstrip("-").isdigit():
            raise UnknownName(f"Column {part} is unknown.", name=part)
    return has_privilege(kind, user, role, rights if outer is not None else None, privileges)


def _letter(kind: str, privilege: str) -> str:
    """The letter of a privilege, with `*` for the right to grant it. Raises TypeMismatch."""
    name = privilege.removesuffix(_TO_GRANT).rstrip()
    letter = PRIVILEGES.get(kind, {}).get(name)
    if letter is None:
        raise TypeMismatch(
            f'Unrecognized privilege type: "{privilege.lower()}".',
            cure=f"Ask for one of {', '.join(PRIVILEGES.get(kind, ()))}.",
        )
    return f"{letter}*" if letter and name != privilege else letter
