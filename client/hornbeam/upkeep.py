"""VACUUM, ANALYZE, CHECKPOINT, REINDEX and COMMENT ON, which scripts for PostgreSQL have, and which
have no work here.

Nodes purge old versions, count rows and shorten their logs by themselves, each commit keeps the
indexes, and there are no comments. The client checks that the named objects exist, and reports that
there is nothing to do.
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
    "comment": "COMMENT ON has no effect: there are no comments.",
}
_OPTIONS = {"full", "freeze", "verbose", "analyze", "analyse", "concurrently"}
_RELATIONS = ("relations", "views", "plain_views")
_KEYS = "keys"
"""Stands for the indexes of primary keys, which have no member of their own."""
_OBJECTS: Mapping[str, Sequence[str]] = {
    "relation": _RELATIONS,
    "table": ("relations",),
    "view": ("plain_views",),
    "materialized view": ("views",),
    "index": ("indexes", _KEYS),
    "table or index": ("relations", "indexes", _KEYS),
    "sequence": ("sequences",),
    "type": ("types", "domains"),
    "domain": ("domains",),
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
    if word == "comment":
        objects.check_comment(found[1:])
    elif word == "reindex":
        objects.check_reindex(_behind_options(found))
    else:
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

    def check_comment(self, found: Sequence[Token]) -> None:
        """What stands behind COMMENT ON."""
        two = " ".join(token.text.lower() for token in found[:2])
        kind = two if two in _OBJECTS else two.split(" ")[0]
        left = found[kind.count(" ") + 1 :]
        if kind == "column":
            *table, column = read_name(left, 0)[0]
            self._require_column(self._known("relation", table), column)
        elif kind == "constraint":
            self._check_constraint(left)
        else:
            self._check(kind, left)

    def _check(self, kind: str, found: Sequence[Token]) -> None:
        """Pass over kinds that there are not here."""
        if kind == "schema" and found:
            name = name_of(found[0].text)
            if name not in self.schema["schemas"]:
                raise _unknown("Schema", name)
        elif kind in _OBJECTS and found:
            self._known(kind, read_name(found, 0)[0])

    def _check_constraint(self, found: Sequence[Token]) -> None:
        """`name ON t`, `name ON DOMAIN d`."""
        name, of_domain = name_of(found[0].text), found[2].text.lower() == "domain"
        kind = "domain" if of_domain else "table"
        owner = self._known(kind, read_name(found, 3 if of_domain else 2)[0])
        constraints = self._constraints(self._document(_OBJECTS[kind], owner))
        if name not in constraints:
            raise _unknown(f"Constraint {name} of {kind}", owner)

    def _constraints(self, owner: Mapping[str, Any]) -> set[str]:
        """The names of the constraints of a relation or a domain."""
        names = {
            each["name"] for member in ("checks", "foreign_keys") for each in owner.get(member, ())
        }
        unique = (each["name"] for each in self.schema["indexes"] if each["on"] == owner["name"])
        names |= {parted(name, self.schema["schemas"])[1] for name in unique}
        return names | {owner.get("primary_key_name") or ""}

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
