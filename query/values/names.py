"""Names that are written as in SQL: PostgreSQL's `parse_ident`, and names of objects."""

from __future__ import annotations

import re

from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import PUBLIC
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG

_SPACE = " \t\n\r\f"
_PART = re.compile(r'"((?:[^"]|"")*)"|([A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)')
_UPPER = re.compile(r"[A-Z]+")
_WORDS = re.compile(r'"(?:[^"]|"")*"|[^.\s"]+(?: [^.\s"]+)*(?:\[\])?')
"""A part of the name of an object: in quotes, or words, which the name of an array ends with []."""
_BEHIND_WORD = re.compile(r"[\s\[]")


def parse_ident(text: str, strict: bool = True) -> tuple[str, ...]:
    """The parts of a name: those in quotes as they are, all others with their ASCII letters in
    lower case. Unless `strict`, other text may follow the last part. Raises TypeMismatch."""
    parts: list[str] = []
    rest = text.lstrip(_SPACE)
    while True:
        found = _PART.match(rest)
        if found is None or found[0] == '""':
            raise _error(text, _reason(rest, bool(parts)))
        parts.append(_name(found))
        rest = rest[found.end() :].lstrip(_SPACE)
        if not rest.startswith("."):
            break
        rest = rest[1:].lstrip(_SPACE)
    if rest and strict:
        raise _error(text, "Only a point may follow a part.")
    return tuple(parts)


def _name(part: re.Match[str]) -> str:
    if part[2] is None:
        return part[1].replace('""', '"')
    return _UPPER.sub(lambda letters: letters[0].lower(), part[2])


def _reason(rest: str, behind_point: bool) -> str:
    """Why a text does not begin with a part of a name."""
    if rest.startswith('""'):
        return "A part in quotes is empty."
    if rest.startswith('"'):
        return "A quote is not closed."
    if rest.startswith("."):
        return "There is no part before a point."
    return "There is no part behind a point." if behind_point else "It begins with no letter."


def _error(text: str, reason: str) -> TypeMismatch:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return TypeMismatch(
        f"{shown!r} is no name. {reason}", cure='Write parts of a name, such as shop."Item".'
    )


def canonical(text: str) -> str:
    """The name of an object as definitions spell it: without PostgreSQL's catalog or the usual
    schema before it, and with quotes where they are needed. A type may have several words."""
    parts = _WORDS.findall(text)
    if len(parts) > 1 and _plain(parts[0]) in {SYSTEM_CATALOG, PUBLIC}:
        parts = parts[1:]
    return ".".join(map(_spelled, parts))


def _plain(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part.lower()


def _spelled(part: str) -> str:
    words = not part.startswith('"') and _BEHIND_WORD.search(part)
    return part.lower() if words else identifier(_plain(part))
