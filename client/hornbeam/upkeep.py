"""VACUUM, ANALYZE and CHECKPOINT, which scripts for PostgreSQL have, and which have no work here.

Nodes purge old versions, count rows and shorten their logs by themselves. The client checks that
the named relations exist, and reports that there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hornbeam.errors import ProgrammingError
from hornbeam.statements import name_of, tokens

_NOTICES = {
    "vacuum": "VACUUM has nothing to do: nodes purge old versions by themselves.",
    "analyze": "ANALYZE has nothing to do: nodes count the rows of relations by themselves.",
    "checkpoint": "CHECKPOINT has nothing to do: a commit is durable when it is acknowledged.",
}
_OPTIONS = {"full", "freeze", "verbose", "analyze", "analyse"}


def notice_of(sql: str, schema: Mapping[str, Any]) -> str:
    """Why the statement has nothing to do. Raises ProgrammingError for a relation that `schema`,
    the document of /v1/schema, does not have."""
    words = [token.text.lower() for token in tokens(sql)]
    known = {
        each["name"] for kind in ("relations", "views", "plain_views") for each in schema[kind]
    }
    for name in _names(sql):
        if name not in known:
            raise ProgrammingError(f"Relation {name} is unknown.\n  Leave it out.")
    return _NOTICES[words[0].replace("analyse", "analyze")]


def _names(sql: str) -> Iterator[str]:
    """The relations that the statement names, without schema and columns."""
    found = [token for token in tokens(sql) if token.depth == 0 and token.text not in "();"][1:]
    while found and found[0].text.lower() in _OPTIONS:
        found = found[1:]
    names: list[str] = []
    for token in found:
        if token.text == ",":
            yield names[-1]
            names = []
        elif token.text != ".":
            names.append(name_of(token.text))
    if names:
        yield names[-1]
