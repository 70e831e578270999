"""Tables that hold a part of the rows of another table: PARTITION OF, ATTACH PARTITION, and
INHERITS without columns of their own. Hornbeam keeps all rows in the whole table, and divides it
itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from hornbeam_server.schema.ddl.roles import declared_name, indexed_name
from hornbeam_server.schema.ddl.scan import Piece
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.ddl.spaces import NAME

_TABLE = rf"CREATE\s+(?:UNLOGGED\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<part>{NAME})\s*"
_FORMS = (
    re.compile(rf"{_TABLE}PARTITION\s+OF\s+(?P<whole>{NAME})", re.IGNORECASE),
    re.compile(
        rf"ALTER\s+TABLE\s+(?:ONLY\s+|IF\s+EXISTS\s+)*(?P<whole>{NAME})\s+ATTACH\s+PARTITION\s+"
        rf"(?P<part>{NAME})",
        re.IGNORECASE,
    ),
    re.compile(
        rf"{_TABLE}\((?P<inside>.*)\)\s*INHERITS\s*\(\s*(?P<whole>{NAME})\s*\)",
        re.IGNORECASE | re.DOTALL,
    ),
)
_CONSTRAINT = re.compile(r"\s*(?:CONSTRAINT|CHECK|PRIMARY|UNIQUE|FOREIGN|EXCLUDE)\b", re.IGNORECASE)
_ATTACHED_INDEX = re.compile(rf"ALTER\s+INDEX\s+{NAME}\s+ATTACH\s+PARTITION\b", re.IGNORECASE)
_STRING = re.compile(r"'(?:[^']|'')*'")
_SHOWN = 3


def parts_of_tables(pieces: Sequence[Piece], source: Source) -> dict[str, str]:
    """Part → the table whose rows it holds, for all parts that the statements declare."""
    if source is not Source.POSTGRES:
        return {}
    whole: dict[str, str] = {}
    for piece in pieces:
        if piece.words[:1] in {("CREATE",), ("ALTER",)}:
            for form in _FORMS:
                found = form.match(piece.text)
                if found is not None and _adds_no_column(found.groupdict().get("inside") or ""):
                    part, of = (piece.spaces.full_name(found[s]) for s in ("part", "whole"))
                    whole.setdefault(part, of)
    return {part: _root(part, whole) for part in whole}


def _root(part: str, whole: Mapping[str, str]) -> str:
    """The whole table of a part that may be divided itself."""
    passed = {part}
    while part in whole and whole[part] not in passed:
        part = whole[part]
        passed.add(part)
    return part


def _adds_no_column(inside: str) -> bool:
    """Does the list of a CREATE TABLE hold constraints only?"""
    elements = [""]
    depth = 0
    for sign in _STRING.sub("''", inside):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            elements.append("")
        else:
            elements[-1] += sign
    return all(not each.strip() or _CONSTRAINT.match(each) for each in elements)


def about_part(piece: Piece, parts: Mapping[str, str]) -> bool:
    """Does a statement declare a part, or something of a part?"""
    if not parts or piece.words[:1] not in {("CREATE",), ("ALTER",)}:
        return False
    named = declared_name(piece) or indexed_name(piece)
    attaches = _FORMS[1].match(piece.text) or _ATTACHED_INDEX.match(piece.text)
    return named in parts or attaches is not None


def partition_notes(parts: Mapping[str, str]) -> Iterator[str]:
    """One text for each table that is divided in the file."""
    of: dict[str, list[str]] = {}
    for part, whole in parts.items():
        of.setdefault(whole, []).append(part)
    for whole, names in of.items():
        more = ", …" if len(names) > _SHOWN else ""
        yield (
            f"{whole} is one table with all rows of its parts ({', '.join(names[:_SHOWN])}{more});"
            " what the file declares for the parts is passed over"
        )
