"""Schemas as name spaces: the search path of a connection, and full names in the text of a schema.

The full name of a relation of the schema `public` is its name, that of another one `schema.name`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hornbeam.errors import ProgrammingError
from hornbeam.statements import Token, name_of, quote, tokens

PUBLIC = "public"
_DATABASE = "hornbeam"
_SETTING = "search_path"


class SearchPath:
    """The search path of a connection. As in PostgreSQL, a path that a transaction sets holds after
    its commit, and is withdrawn with it; SET LOCAL holds to the end of the transaction. None is
    `public`."""

    def __init__(self, path: Sequence[str] | None = None) -> None:
        """`path`: the path at the beginning, to which RESET returns."""
        self._first = self._session = self._committed = None if path is None else tuple(path)
        self._local: tuple[str, ...] | None = None
        self._is_local = False

    @property
    def names(self) -> tuple[str, ...] | None:
        """The schemas in their order."""
        return self._local if self._is_local else self._session

    @property
    def member(self) -> dict[str, list[str]]:
        """The member of a request's body; empty for the default."""
        return {} if self.names is None else {_SETTING: list(self.names)}

    def set(self, path: Sequence[str] | None, *, local: bool) -> None:
        names = self._first if path is None else tuple(path)
        if local:
            self._local, self._is_local = names, True
        else:
            self._session, self._is_local = names, False

    def commit(self) -> None:
        """The transaction ends, and what it has set holds."""
        self._committed, self._is_local = self._session, False

    def rollback(self) -> None:
        """The transaction ends, and what it has set is withdrawn."""
        self._session, self._is_local = self._committed, False


@dataclass(frozen=True)
class Setting:
    """SET search_path. `path` None: that of the connection. `local`: SET LOCAL."""

    path: tuple[str, ...] | None
    local: bool


def setting_of_path(sql: str) -> Setting | None:
    """SET [SESSION | LOCAL] search_path { TO | = } …, SET SCHEMA '…' or RESET search_path; None for
    other statements. Raises ProgrammingError for a path that cannot be read."""
    words = [token.text for token in tokens(sql) if token.text != ";"]
    lower = [word.lower() for word in words]
    if lower in (["reset", _SETTING], ["reset", "all"]):
        return Setting(None, local=False)
    local = lower[1:2] == ["local"]
    if lower[1:2] in (["local"], ["session"]):
        del words[1], lower[1]
    if lower[:2] == ["set", "schema"] and len(words) == 3 and words[2].startswith("'"):
        return Setting((_element(words[2]),), local)
    if lower[:2] != ["set", _SETTING] or lower[2:3] not in (["to"], ["="]):
        return None
    if lower[3:] == ["default"]:
        return Setting(None, local)
    listed, commas = words[3::2], words[4::2]
    if not listed or any(comma != "," for comma in commas) or len(listed) != len(commas) + 1:
        raise ProgrammingError(
            f"{sql.strip()!r} gives no search path.\n  Write SET search_path TO shop, public."
        )
    return Setting(tuple(filter(None, map(_element, listed))), local)  # '' is no schema


def _element(word: str) -> str:
    return word[1:-1].replace("''", "'") if word.startswith("'") else name_of(word)


def set_path(path: Sequence[str]) -> str:
    """The statement that sets a search path."""
    return f"SET search_path TO {', '.join(map(quote, path))}"


def joined(space: str, name: str) -> str:
    """The full name of `name` in the schema `space`."""
    return name if space == PUBLIC else f"{space}.{name}"


def parted(full: str, spaces: Collection[str]) -> tuple[str, str]:
    """The schema and the name of a full name. `spaces` are the schemas that exist."""
    space, dot, name = full.partition(".")
    return (space, name) if dot and space in spaces else (PUBLIC, full)


def read_name(found: Sequence[Token], at: int) -> tuple[list[str], int]:
    """The parts of the name that begins at the token `at`, and the place behind it. The database
    before a schema is left out."""
    parts = [name_of(found[at].text)]
    at += 1
    while at + 1 < len(found) and found[at].text == ".":
        parts.append(name_of(found[at + 1].text))
        at += 2
    return (parts[1:] if len(parts) == 3 and parts[0] == _DATABASE else parts), at


@dataclass(frozen=True)
class Names:
    """Finds the full names of a statement: `spaces` are the schemas that exist, `known` the names
    that are declared, each with its kind."""

    spaces: Collection[str] = ()
    known: Collection[tuple[str, str]] = ()
    path: Sequence[str] = (PUBLIC,)

    @property
    def _existing(self) -> list[str]:
        return [space for space in self.path if space in {PUBLIC, *self.spaces}]

    @property
    def _first(self) -> str:
        if not self._existing:
            raise ProgrammingError(
                "No schema of the search path exists.\n  Write the schema before the name."
            )
        return self._existing[0]

    def new(self, parts: Sequence[str]) -> str:
        """The full name of an object that is created. Raises ProgrammingError without a schema."""
        if len(parts) > 1:
            if parts[-2] not in {PUBLIC, *self.spaces}:
                raise ProgrammingError(
                    f"There is no schema {quote(parts[-2])}.\n"
                    f"  Write CREATE SCHEMA {quote(parts[-2])} first."
                )
            return joined(*parts[-2:])
        return joined(self._first, parts[0])

    def old(self, kind: str, parts: Sequence[str]) -> str:
        """The full name of an object of this kind that is declared, found along the path. One that
        is not found is no object of a schema outside of the path. Raises ProgrammingError without a
        schema."""
        if len(parts) > 1:
            return joined(*parts[-2:])
        found = [joined(space, parts[0]) for space in self._existing]
        missing = parts[0] if PUBLIC in self._existing else joined(self._first, parts[0])
        return next((name for name in found if (kind, name) in self.known), missing)
