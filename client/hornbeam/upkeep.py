"""VACUUM, ANALYZE, CHECKPOINT, REINDEX and COMMENT ON, which scripts for PostgreSQL have, and which
have no work here.

Nodes purge old versions, count rows and shorten their logs by themselves, each commit keeps the
indexes, and there are no comments. The client checks that the named objects exist, and reports that
there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hornbeam.errors import ProgrammingError
from hornbeam.namespaces import Names, read_name
from hornbeam.statements import Token, separated, tokens

_NOTICES = {
    "vacuum": "VACUUM has nothing to do: nodes purge old versions by themselves.",
    "analyze": "ANALYZE has nothing to do: nodes count the rows of relations by themselves.",
    "checkpoint": "CHECKPOINT has nothing to do: a commit is durable when it is acknowledged.",
    "reindex": "REINDEX has nothing to do: each commit keeps the indexes.",
    "comment": "COMMENT ON has no effect: there are no comments.",
}
_OPTIONS = {"full", "freeze", "verbose", "analyze", "analyse", "concurrently"}
_RELATIONS = ("relations", "views", "plain_views")
_OBJECTS: Mapping[str, Sequence[str]] = {
    "table": ("relations",),
    "column": _RELATIONS,
    "view": ("plain_views",),
    "materialized view": ("views",),
    "index": ("indexes",),
    "sequence": ("sequences",),
}
"""The members of the schema's document that have objects of a kind."""


def notice_of(sql: str, schema: Mapping[str, Any], path: Sequence[str]) -> str:
    """Why the statement has nothing to do. Raises ProgrammingError for an object that `schema`, the
    document of /v1/schema, does not have along the search path."""
    verb, *found = (token for token in tokens(sql) if token.text != ";")
    word = verb.text.lower().replace("analyse", "analyze")
    for what, members, parts in _named(word, found):
        known = {("", each["name"]) for member in members for each in schema[member]}
        name = Names(schema["schemas"], known, path).old("", parts)
        if ("", name) not in known:
            raise ProgrammingError(
                f"{what.capitalize()} {name} is unknown.\n"
                "  Correct the name, or leave the statement out: it does nothing."
            )
    return _NOTICES[word]


def _named(word: str, found: Sequence[Token]) -> Iterator[tuple[str, Sequence[str], list[str]]]:
    """The objects that the statement names behind its first word: kind, members of the schema's
    document, parts of the name."""
    left = [token for token in found if token.depth == 0 and token.text not in "()"]
    while left and left[0].text.lower() in _OPTIONS | {"on"}:
        left = left[1:]
    if word not in {"comment", "reindex"}:
        for item in filter(None, separated(left, 0)):
            yield "relation", _RELATIONS, read_name(item, 0)[0]
        return
    kind = " ".join(token.text.lower() for token in left[:2])
    kind = kind if kind in _OBJECTS else kind.split(" ")[0]
    left = left[kind.count(" ") + 1 :]
    while left and left[0].text.lower() in _OPTIONS:
        left = left[1:]
    if kind in _OBJECTS and left:
        parts, _ = read_name(left, 0)
        yield (kind, _OBJECTS[kind], parts[:-1] if kind == "column" else parts)
