"""Errors as the protocol has them: severity, SQLSTATE, message, hint, position."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hornbeam.errors import DatabaseError, Error, InterfaceError, NotSupportedError
from hornbeam_server.pgwire.session.placeholders import Statement
from hornbeam_server.schema.model import PUBLIC

INTERNAL = "XX000"
PROTOCOL_VIOLATION = "08P01"
CANCELLED = "query-canceled"
"""The code of a statement that a CancelRequest has ended."""
SQLSTATES: Mapping[str, str] = {
    "schema-invalid": "42P16",
    "sql-invalid": "42601",
    "sql-unknown-name": "42P01",
    "sql-type-mismatch": "22000",
    "division-by-zero": "22012",
    "sql-unsupported": "0A000",
    "constraint-violation": "23000",
    "not-null-violation": "23502",
    "unique-violation": "23505",
    "foreign-key-violation": "23503",
    "check-violation": "23514",
    "precondition-failed": "23000",
    "transaction-aborted": "40001",
    "read-conflict": "40001",
    "outcome-unknown": "08007",
    "idempotency-mismatch": INTERNAL,
    "snapshot-too-old": "72000",
    "stale-plan": "40001",
    "being-loaded": "55006",
    "not-found": "42704",
    "limit-exceeded": "54000",
    "memory-exceeded": "53200",
    "statement-timeout": "57014",
    "overloaded": "53000",
    "unavailable": "57P03",
    "disk-full": "53100",
    "corruption": "XX001",
    "invalid-request": "22023",
    "unauthenticated": "28000",
    "forbidden": "42501",
    "misdirected-request": PROTOCOL_VIOLATION,
    "internal": INTERNAL,
    "failed-transaction": "25P02",
    "read-only": "25006",
    CANCELLED: "57014",
}
"""The SQLSTATE of each code of Hornbeam's errors. A code that stands for several of PostgreSQL's
errors has the SQLSTATE of their class."""
_MEANINGS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "sql-unknown-name": (
        (r"Column ", "42703"),
        (r"Function ", "42883"),
        (r"There is no (type|role|constraint) ", "42704"),
        (r"There is no schema ", "3F000"),
        (r"There is no database ", "3D000"),
    ),
    "sql-type-mismatch": (
        (r"Unrecognized privilege type", "22023"),
        (r"Invalid fork name", "22023"),
        (r"Wrong kind of object", "42809"),
    ),
    "schema-invalid": (
        (r".*COMMENT ON is wrong at ", "42601"),
        (r"The (table|view|materialized view|index|sequence) .* does not exist", "42P01"),
        (r"The schema .* does not exist", "3F000"),
        (r"The (type|domain) .* does not exist", "42704"),
    ),
    "": (
        (r"There is no prepared statement ", "26000"),
        (r"There is a prepared statement ", "42P05"),
        (r"The (table|view|materialized view|index|sequence) .* does not exist", "42P01"),
    ),
}
"""The SQLSTATEs of errors by their codes and the beginnings of their messages, where a code stands
for several of PostgreSQL's errors. "": the client's own errors."""
_PLACE = re.compile(r"\(line (\d+), column (\d+)\)")
_WRONG_USE = "55000"
_INTEGRITY = "23"
"""The class of the SQLSTATEs of rows that break a constraint."""


@dataclass(eq=False)
class Failure(Exception):
    """An error for the client. `more` has further fields by their codes. `fatal`: the connection
    ends."""

    sqlstate: str
    message: str
    hint: str = ""
    fatal: bool = False
    more: Mapping[str, str] = field(default_factory=dict)

    def fields(self) -> dict[str, str]:
        severity = "FATAL" if self.fatal else "ERROR"
        found = {"S": severity, "V": severity, "C": self.sqlstate, "M": self.message}
        return {**found, "H": self.hint, **self.more}


def notice_fields(text: str) -> dict[str, str]:
    message, _, hint = text.partition("\n")
    return {"S": "NOTICE", "V": "NOTICE", "C": "00000", "M": message, "H": hint.strip()}


def warning_fields(text: str) -> dict[str, str]:
    return {"S": "WARNING", "V": "WARNING", "C": "01000", "M": text}


def failure_of(error: Exception, statement: Statement | None = None, before: int = 0) -> Failure:
    """The failure that an error of a statement means. The places in its message are those of the
    statement, which has `before` characters before it in the text of the client."""
    if isinstance(error, Failure):
        return error
    if not isinstance(error, Error):
        return Failure(INTERNAL, "An unexpected error; the server's log has the details.")
    message, _, hint = str(error).partition("\n")
    position = _position(message, statement)
    more = {"P": str(before + position)} if position else {}
    sqlstate = _sqlstate(error)
    if sqlstate.startswith(_INTEGRITY):
        more |= _broken(error.problem)
    return Failure(sqlstate, message, " ".join(hint.split()), more=more)


def _broken(problem: Mapping[str, Any]) -> dict[str, str]:
    """The fields that name the object that a row breaks: schema and table, or the domain, column
    and constraint."""
    of_domain = "domain" in problem
    space, _, name = str(problem.get("domain" if of_domain else "relation", "")).rpartition(".")
    found = {
        "s": name and (space or PUBLIC),
        "d" if of_domain else "t": name,
        "c": "" if of_domain else problem.get("column", ""),
        "n": problem.get("constraint", ""),
    }
    return {code: value for code, value in found.items() if value}


def _sqlstate(error: Error) -> str:
    for pattern, sqlstate in _MEANINGS.get(error.code, ()):
        if re.match(pattern, str(error)):
            return sqlstate
    if error.code:
        return SQLSTATES.get(error.code, INTERNAL)
    if isinstance(error, NotSupportedError):
        return SQLSTATES["sql-unsupported"]
    if isinstance(error, InterfaceError) or not isinstance(error, DatabaseError):
        return _WRONG_USE
    return SQLSTATES["sql-invalid"]


def _position(message: str, statement: Statement | None) -> int:
    """The number of the character, from 1, at the place that a message names; 0 for none."""
    found = _PLACE.search(message)
    if found is None or statement is None:
        return 0
    line, column = int(found[1]), int(found[2])
    before = statement.sql.split("\n")[: line - 1]
    return statement.given_position(sum(len(each) + 1 for each in before) + column)
