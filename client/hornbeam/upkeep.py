"""VACUUM, ANALYZE, CHECKPOINT and REINDEX, which scripts for PostgreSQL have, and which have no
work here. COMMENT ON is one of them for kinds of objects that there are not, such as functions.

Nodes purge old versions, count rows and shorten their logs by themselves, and each commit keeps the
indexes. The client checks that the named objects exist, and reports that there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hornbeam.errors import ProgrammingError
from hornbeam.namespaces import Names, joined, parted, read_name
from hornbeam.statements import Token, name_of, separated, tokens

_NOTICES = {
    "vacuum": "VACUUM has nothing to do: nodes purge old versions by themselves.",
    "analyze": "ANALYZE has nothing to do: nodes count the rows of relations by themselves.",
    "checkpoint": "CHECKPOINT has nothing to do: a commit is durable when it is acknowledged.",
    "reindex": "REINDEX has nothing to do: each commit keeps the indexes.",
    "comment": "COMMENT ON has no effect: there are no objects of this kind.",
}
_OPTIONS = {"full", "freeze", "verbose", "analyze", "analyse", "concurrently"}
_RELATIONS = ("relations", "views", "plain_views")
_KEYS = "keys"
"""Stands for the indexes of primary keys, which have no member of their own."""
_OBJECTS: Mapping[str, Sequence[str]] = {
    "relation": _RELATIONS,
    "table": ("relations",),
    "index": ("indexes", _KEYS),
    "table or index": ("relations", "indexes", _KEYS),
}
"""The members of the schema's document that have objects of a kind."""
_SCOPES = ("database", "system")
"""Words of REINDEX behind which no object is named."""


def notice_of(sql: str, schema: Mapping[str, Any], path: Sequence[str]) -> str:
    """Why the statement has nothing to do. Raises ProgrammingError for an object that `schema`, the
    document of /v1/schema, does not have along the search path."""
    verb, *found = (token for token in tokens(sql) if token.text != ";")
    word = verb.text.lower().replace("analyse", "analyze")
    objects = _Objects(schema, path)
    if word == "reindex":
        objects.check_reindex(_behind_options(found))
    elif word != "comment":
        for item in filter(None, separated(_behind_options(found), 0)):
            objects.check_relation(item)
    return _NOTICES[word]


def _behind_options(found: Sequence[Token]) -> Sequence[Token]:
    """The tokens behind options, which are words or stand in parentheses."""
    left = list(found)
    while left and (left[0].depth or left[0].text.lower() in _OPTIONS | {"(", ")"}):
        left = left[1:]
    return left


@dataclass(frozen=True)
class _Objects:
    """The objects of a schema's document, found along the search path."""

    schema: Mapping[str, Any]
    path: Sequence[str]

    def check_relation(self, item: Sequence[Token]) -> None:
        """`t` or `t (a, b)`."""
        parts, at = read_name(item, 0)
        name = self._known("relation", parts)
        for token in item[at:]:
            if token.depth and token.text not in "(,)":
                self._require_column(name, name_of(token.text))

    def check_reindex(self, found: Sequence[Token]) -> None:
        """`TABLE t`, `INDEX i`, `SCHEMA s`, or the name of a table or an index, as in SQLite."""
        kind = found[0].text.lower() if found else ""
        if kind in _SCOPES or not found:
            return
        if kind in ("table", "index", "schema"):
            self._check(kind, _behind_options(found[1:]))
        else:
            self._check("table or index", found)

    def _check(self, kind: str, found: Sequence[Token]) -> None:
        if kind == "schema" and found:
            name = name_of(found[0].text)
            if name not in self.schema["schemas"]:
                raise _unknown("Schema", name)
        elif found:
            self._known(kind, read_name(found, 0)[0])

    def _require_column(self, relation: str, column: str) -> None:
        columns = self._document(_RELATIONS, relation)["columns"]
        if column not in {each["name"] for each in columns}:
            raise _unknown(f"Column {column} of", relation)

    def _document(self, members: Sequence[str], name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any]
        found = next(each for each in self._documents(members) if each["name"] == name)
        return found

    def _documents(self, members: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        for member in members:
            yield from self._keys() if member == _KEYS else self.schema[member]

    def _keys(self) -> Iterator[Mapping[str, Any]]:
        for relation in self.schema["relations"]:
            space, _ = parted(relation["name"], self.schema["schemas"])
            if name := relation["primary_key_name"]:
                yield {"name": joined(space, name)}

    def _known(self, kind: str, parts: Sequence[str]) -> str:
        """The full name of an object of this kind. Raises ProgrammingError if there is none."""
        known = {("", each["name"]) for each in self._documents(_OBJECTS[kind])}
        name = Names(self.schema["schemas"], known, self.path).old("", parts)
        if ("", name) not in known:
            raise _unknown(kind.capitalize(), name)
        return name


def _unknown(what: str, name: str) -> ProgrammingError:
    return ProgrammingError(
        f"{what} {name} is unknown.\n"
        "  Correct the name, or leave the statement out: it does nothing."
    )
