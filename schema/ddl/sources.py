"""The dialects in which a schema's text may be written, and their recognition."""

from __future__ import annotations

import enum
import re
from functools import cached_property

from sqlglot.dialects.dialect import Dialect


class Source(enum.Enum):
    """A database whose files are read. The value is its name for users."""

    POSTGRES = "postgres"
    MYSQL = "mysql"
    SQLITE = "sqlite"
    SQLSERVER = "sqlserver"

    @cached_property
    def dialect(self) -> Dialect:
        return Dialect.get_or_raise("tsql" if self is Source.SQLSERVER else self.value)

    @property
    def folds_quoted(self) -> bool:
        """Do quoted names not distinguish case? They are then folded to lower case, so that a query
        finds them without quotes."""
        return self is not Source.POSTGRES

    @property
    def default_schema(self) -> str:
        """The schema of names without one."""
        return {Source.POSTGRES: "public", Source.SQLSERVER: "dbo", Source.SQLITE: "main"}.get(
            self, ""
        )


_HEAD = 60_000
"""The number of characters that are searched for signs of a dialect."""
_SIGNS: dict[Source, tuple[tuple[int, str], ...]] = {
    Source.POSTGRES: (
        (9, r"^-- PostgreSQL database dump"),
        (3, r"^COPY\b[^;\n]*\bFROM\s+stdin\b|\bpg_catalog\.|^\\(?:c|connect|restrict)\b"),
        (2, r"\bOWNER\s+TO\b|::\w|\bnextval\s*\(|\bALTER\s+TABLE\s+ONLY\b|\$\w*\$"),
        (2, r"\b(?:BIG|SMALL)?SERIAL\b|\bTIMESTAMPTZ\b|\bBYTEA\b|\bGENERATED\s+(?:BY|ALWAYS)\b"),
        (2, r"\bMATERIALIZED\s+VIEW\b|\bWITH(?:OUT)?\s+TIME\s+ZONE\b|\bJSONB\b"),
    ),
    Source.MYSQL: (
        (9, r"^-- (?:MySQL|MariaDB) dump|^/\*!\d{5} "),
        (3, r"\bENGINE\s*=|`\w+`\s+\w+|`\s*\(|^DELIMITER\s"),
        (2, r"\bAUTO_INCREMENT\s*=|\bUNSIGNED\b|^[ \t]*(?:UNIQUE\s+|FULLTEXT\s+)?KEY\s+[`\w]"),
        (1, r"\bAUTO_INCREMENT\b|\bTINYINT\b|\bMEDIUM\w+\b"),
    ),
    Source.SQLITE: (
        (5, r"^PRAGMA\b|\bAUTOINCREMENT\b|\bWITHOUT\s+ROWID\b|\bsqlite_sequence\b"),
        (3, r"(?<![\w\])\"])\[\w+\]\s+\(?\w+"),
        (5, r"^CREATE\s+VIRTUAL\s+TABLE\b"),
        (3, r"\bBLOB\s+SUB_TYPE\b|\bDATETIME\s*\(\s*'"),
        (2, r"\bINTEGER\s+(?:NOT\s+NULL\s+)?PRIMARY\s+KEY\b"),
        (1, r"\bDATETIME\b"),
    ),
    Source.SQLSERVER: (
        (5, r"^GO\s*$|\[dbo\]\.|\bIDENTITY\s*\(\s*\d|\b(?:NON)?CLUSTERED\b"),
        (3, r"(?<![\w\])\"])\[\w+\]\s+\[?\w+|\bN?VARCHAR\s*\(\s*MAX\s*\)"),
        (1, r"\bN'"),
        (2, r"\bUNIQUEIDENTIFIER\b|\bDATETIME2\b|\bGETDATE\s*\("),
    ),
}
_FOREIGN = 3
"""The weight of the signs from which on a text is not taken for PostgreSQL's."""
_PATTERNS = {
    source: [(weight, re.compile(sign, re.IGNORECASE | re.MULTILINE)) for weight, sign in signs]
    for source, signs in _SIGNS.items()
}
_STRINGS = re.compile(r"'(?:[^'\\\n]|''|\\.)*'")
_COMMENT = re.compile(r"(?:^|(?<=\s))--(?! (?:PostgreSQL|MySQL|MariaDB)\b).*$", re.MULTILINE)


def recognised(text: str) -> Source:
    """The dialect that `text` is written in: the one with most signs, PostgreSQL in doubt."""
    head = _COMMENT.sub("", _STRINGS.sub("''", text[:_HEAD]))
    weights = {
        source: sum(weight for weight, sign in patterns if sign.search(head))
        for source, patterns in _PATTERNS.items()
    }
    best = max(weights, key=lambda source: weights[source])
    return best if weights[best] >= _FOREIGN else Source.POSTGRES
