"""The role of a statement in a file: what it declares, or why it is passed over."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hornbeam_server.schema.ddl.comments import is_comment
from hornbeam_server.schema.ddl.scan import Piece
from hornbeam_server.schema.ddl.spaces import NAME


class Role(enum.Enum):
    DECLARES = "declares"
    """It is read, or refused by name."""
    ROWS = "rows"
    """It adds rows: INSERT, COPY."""
    CHANGES = "changes"
    """It changes or deletes rows, or reads them from another file (BULK INSERT, LOAD DATA)."""
    VIEW = "view"
    """It gives a SELECT a name: CREATE VIEW."""
    DROPS = "drops"
    """It drops objects, which it may not have declared before."""
    INCLUDES = "includes"
    """It reads another file."""
    COMMENTS = "comments"
    """It sets a comment: COMMENT ON."""
    HOLDS_NO_ROWS = "holds no rows"


_SILENT_WORDS = """
    ANALYSE ANALYZE BEGIN CALL CHECKPOINT CLUSTER COMMENT COMMIT DBCC DECLARE DELIMITER DISABLE
    DISCARD DO ELSE ENABLE END EXEC EXECUTE FLUSH GO GRANT IF LOCK NOTIFY OPTIMIZE PRAGMA PRINT
    RAISERROR REFRESH REINDEX RELEASE RESET REVOKE ROLLBACK SAVEPOINT SECURITY SELECT SET SHOW
    START TRUNCATE UNLOCK USE VACUUM WAITFOR WHILE WITH
"""
_SILENT = frozenset(_SILENT_WORDS.split())
"""First words of statements that hold no rows and declare nothing."""
_READ = frozenset({"TABLE", "INDEX", "SEQUENCE", "MATERIALIZED", "DOMAIN"})
_KIND_WORDS = """
    ACCESS AGGREGATE CAST COLLATION CONVERSION DATABASE DEFAULT EVENT EXTENSION FULLTEXT
    FUNCTION GROUP LANGUAGE LOGIN OPERATOR POLICY PROC PROCEDURAL PROCEDURE PUBLICATION ROLE
    RULE SCHEMA SERVER SPATIAL STATISTICS SUBSCRIPTION SYNONYM TABLESPACE TEXT TRANSFORM TRIGGER
    TYPE USER VIEW VIRTUAL XML
"""
_KINDS = frozenset(_KIND_WORDS.split())
"""Kinds of objects that hold no rows."""
_ALTERS_NO_ROWS = re.compile(
    rf"ALTER\s+(?:TABLE|SEQUENCE|INDEX|DOMAIN|MATERIALIZED\s+VIEW)\s+(?:ONLY\s+|IF\s+EXISTS\s+)*{NAME}\s+(?:"
    r"OWNER\s+TO|OWNED\s+BY|CLUSTER\s+ON|REPLICA\s+IDENTITY|(?:ENABLE|DISABLE|FORCE)\s"
    r"|(?:WITH\s+(?:NO)?CHECK\s+)?(?:NO)?CHECK\s+CONSTRAINT\s|VALIDATE\s+CONSTRAINT"
    r"|SET\s+(?:\(|SCHEMA|TABLESPACE|STATISTICS|LOGGED|UNLOGGED|WITHOUT)"
    rf"|ALTER\s+(?:COLUMN\s+)?{NAME}\s+SET\s+(?:STATISTICS|STORAGE|COMPRESSION|\())",
    re.IGNORECASE,
)
_OTHER_INDEX = re.compile(
    rf"CREATE\s+(?:UNIQUE\s+)?INDEX\s[^;]*?\bON\s+(?:ONLY\s+)?{NAME}\s+"
    r"USING\s+(?P<how>gist|gin|spgist|brin|bloom|rum|hnsw|ivfflat)\b",
    re.IGNORECASE,
)
"""Indexes of other kinds than those that find ranges and equal values."""
_DUMPED_VIEW = re.compile(
    rf"CREATE\s+MATERIALIZED\s+VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>{NAME})\s+AS\b.*"
    r"\bWITH\s+(?:NO\s+)?DATA\s*;?\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
"""A materialized view as pg_dump writes it, which transactions need not be able to keep."""
_DROPS_OF_TABLE = re.compile(
    rf"ALTER\s+TABLE\s+(?:ONLY\s+|IF\s+EXISTS\s+)*(?P<name>{NAME})\s+"
    rf"(?:ALTER\s+(?:COLUMN\s+)?{NAME}\s+)?DROP\b",
    re.IGNORECASE,
)
_OWNS_SEQUENCE = re.compile(
    rf"ALTER\s+SEQUENCE\s+(?:IF\s+EXISTS\s+)?{NAME}\s+OWNED\s+BY\s", re.IGNORECASE
)
_STATISTICS = ("UPDATE", "STATISTICS")
_CHANGES_ROWS = re.compile(r"\b(?:INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
_SETVAL = re.compile(r"SELECT\s+(?:pg_catalog\s*\.\s*)?setval\s*\(", re.IGNORECASE)


def role(piece: Piece) -> Role:
    words = (*piece.words, "", "")
    first, rest = words[0], words[1:]
    if is_comment(piece):
        return Role.COMMENTS
    if first in {"INSERT", "REPLACE", "COPY"}:
        return Role.ROWS
    changes = first == "WITH" and _CHANGES_ROWS.search(piece.text)
    if changes or first in {"UPDATE", "DELETE", "MERGE", "BULK", "LOAD"}:
        return Role.HOLDS_NO_ROWS if piece.words[:2] == _STATISTICS else Role.CHANGES
    if first == "SOURCE" or piece.words[:2] in {("\\", "."), ("\\", "I"), ("\\", "IR")}:
        return Role.INCLUDES
    if first == "DROP":
        return Role.DROPS
    if is_added_type(piece) or (first == "SELECT" and _SETVAL.match(piece.text)):
        return Role.DECLARES
    if first in _SILENT or first in {"\\", ":"}:
        return Role.HOLDS_NO_ROWS
    if first == "CREATE" and _OTHER_INDEX.match(piece.text):
        return Role.HOLDS_NO_ROWS
    if first == "CREATE":
        kind = next((word for word in rest if word in _KINDS or word in _READ), "")
        if kind == "VIEW":
            return Role.VIEW
        is_type = kind == "TYPE" and ("ENUM" in rest or "FROM" in rest)
        return Role.HOLDS_NO_ROWS if kind in _KINDS and not is_type else Role.DECLARES
    if first == "ALTER" and _DROPS_OF_TABLE.match(piece.text):
        return Role.DROPS
    if first == "ALTER":
        silent = rest[0] in _KINDS or _ALTERS_NO_ROWS.match(piece.text)
        owns = _OWNS_SEQUENCE.match(piece.text)
        return Role.HOLDS_NO_ROWS if silent and not owns else Role.DECLARES
    return Role.DECLARES


def is_added_type(piece: Piece) -> bool:
    """Does a statement of SQL Server call sp_addtype?"""
    return piece.words[:1] in {("EXEC",), ("EXECUTE",)} and "SP_ADDTYPE" in piece.words[1:4]


_ROUTINE = re.compile(
    rf"CREATE\s+(?:OR\s+REPLACE\s+)?(?:FUNCTION|AGGREGATE)\s+({NAME})", re.IGNORECASE
)
_CALLED = re.compile(r"(\w+)\s*\(")


def routines(found: Iterable[Piece]) -> frozenset[str]:
    """The names of the functions and aggregates that statements create."""
    created = (piece for piece in found if piece.words[:1] == ("CREATE",))
    named = ((piece.spaces, _ROUTINE.match(piece.text)) for piece in created)
    return frozenset(spaces.last_name(match[1]) for spaces, match in named if match)


def calls(sql: str, names: frozenset[str]) -> bool:
    """Does a statement or an expression call one of the functions?"""
    return any(name.lower() in names for name in _CALLED.findall(sql))


def dumped_view(piece: Piece) -> str:
    """The name of a materialized view as pg_dump writes it; "" for other statements."""
    found = _DUMPED_VIEW.match(piece.text)
    return piece.spaces.full_name(found["name"]) if found else ""


_VIEW_NAME = re.compile(
    rf"CREATE\s+(?:OR\s+\w+\s+)?(?:\w+\s*=\s*\S+\s+|SQL\s+SECURITY\s+\w+\s+|TEMP\w*\s+)*"
    rf"VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?({NAME})",
    re.IGNORECASE,
)


def viewed_name(piece: Piece) -> str:
    """The name of a CREATE VIEW; "" for other statements."""
    found = _VIEW_NAME.match(piece.text)
    return piece.spaces.full_name(found[1]) if found else ""


_INDEXED = re.compile(
    rf"CREATE\s+(?:UNIQUE\s+)?INDEX\s[^;]*?\bON\s+(?:ONLY\s+)?({NAME})", re.IGNORECASE
)


def indexed_name(piece: Piece) -> str:
    """The relation or view of a CREATE INDEX; "" for other statements."""
    found = _INDEXED.match(piece.text) if piece.words[:1] == ("CREATE",) else None
    return piece.spaces.full_name(found[1]) if found else ""


_DROPPED = re.compile(
    r"DROP\s+(?:TABLE|INDEX|VIEW)\s+(?:CONCURRENTLY\s+)?(?:IF\s+EXISTS\s+)?"
    rf"(?P<names>{NAME}(?:\s*,\s*{NAME})*)",
    re.IGNORECASE,
)
_NAME = re.compile(NAME)


def named_in_drop(piece: Piece) -> Iterator[str]:
    """The names in DROP TABLE, INDEX or VIEW, and ALTER TABLE … DROP, in lower case."""
    names = []
    if altered := _DROPS_OF_TABLE.match(piece.text):
        names.append(altered["name"])
    if found := _DROPPED.match(piece.text):
        names += _NAME.findall(found["names"])
    yield from (piece.spaces.full_name(name).lower() for name in names)


_DECLARED = re.compile(
    rf"(?:CREATE|ALTER)\s+(?:TEMP\w*\s+)?TABLE\s+(?:ONLY\s+|IF\s+(?:NOT\s+)?EXISTS\s+)*({NAME})",
    re.IGNORECASE,
)


def declared_name(piece: Piece) -> str:
    """The relation of a CREATE TABLE or ALTER TABLE that may not be readable; "" for others."""
    found = _DECLARED.match(piece.text)
    return piece.spaces.full_name(found[1]) if found else ""


@dataclass(frozen=True, slots=True)
class Passed:
    """A statement that was passed over: its first words, and its line."""

    what: str
    line: int


def passed(piece: Piece) -> Passed:
    return Passed(_what(piece), piece.place.line)


def _what(piece: Piece) -> str:
    first, *rest = piece.words
    if piece.words[:2] == _STATISTICS:
        return " ".join(_STATISTICS)
    if first in {"CREATE", "ALTER", "DROP"}:
        kinds = [word for word in rest if word in _KINDS or word in _READ]
        other = _OTHER_INDEX.match(piece.text)
        how = f" USING {other['how'].lower()}" if other else ""
        return " ".join([first, *kinds[:1]]) + how
    return piece.text.split("\n")[0] if first in {"\\", ":"} else first


_SHOWN = 5


def passed_notes(found: Iterable[Passed]) -> Iterator[str]:
    """The statements that were passed over, as one text for each kind."""
    lines: dict[str, list[int]] = {}
    for each in found:
        lines.setdefault(each.what, []).append(each.line)
    for what, at in lines.items():
        shown = ", ".join(map(str, at[:_SHOWN]))
        more = f" and {len(at) - _SHOWN} more" if len(at) > _SHOWN else ""
        yield f"passed over: {what} (line{'s' if len(at) > 1 else ''} {shown}{more})"
