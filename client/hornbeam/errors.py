"""PEP 249's exceptions, and their mapping from the server's error codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Warning(Exception):
    """PEP 249 requires this class. The client never raises it."""


class Error(Exception):
    """The base of all errors. `code`, `cure`, `retryable` and `outcome` come from the server's
    answer."""

    def __init__(self, message: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        problem = problem or {}
        self.problem = problem
        self.code: str = problem.get("code", "")
        self.cure: str = problem.get("cure", "")
        self.retryable: bool = problem.get("retryable", False)
        self.outcome: str = problem.get("outcome", "none")


class InterfaceError(Error):
    """The client was used wrongly."""


class DatabaseError(Error): ...


class DataError(DatabaseError): ...


class OperationalError(DatabaseError): ...


class IntegrityError(DatabaseError): ...


class InternalError(DatabaseError): ...


class ProgrammingError(DatabaseError): ...


class NotSupportedError(DatabaseError): ...


BY_CODE: dict[str, type[DatabaseError]] = {
    "schema-invalid": ProgrammingError,
    "sql-invalid": ProgrammingError,
    "sql-unknown-name": ProgrammingError,
    "sql-type-mismatch": DataError,
    "division-by-zero": DataError,
    "sql-unsupported": NotSupportedError,
    "constraint-violation": IntegrityError,
    "not-null-violation": IntegrityError,
    "unique-violation": IntegrityError,
    "foreign-key-violation": IntegrityError,
    "check-violation": IntegrityError,
    "precondition-failed": IntegrityError,
    "transaction-aborted": OperationalError,
    "read-conflict": OperationalError,
    "outcome-unknown": OperationalError,
    "idempotency-mismatch": ProgrammingError,
    "snapshot-too-old": OperationalError,
    "stale-plan": OperationalError,
    "being-loaded": OperationalError,
    "not-found": ProgrammingError,
    "limit-exceeded": OperationalError,
    "memory-exceeded": OperationalError,
    "statement-timeout": OperationalError,
    "overloaded": OperationalError,
    "unavailable": OperationalError,
    "disk-full": OperationalError,
    "corruption": InternalError,
    "invalid-request": ProgrammingError,
    "unauthenticated": OperationalError,
    "forbidden": ProgrammingError,
    "misdirected-request": ProgrammingError,
}


_PLACE = ("file", "line", "column")


def from_problem(problem: Mapping[str, Any]) -> DatabaseError:
    """The exception for a problem document. Its text has all problems of a schema's file."""
    kind = BY_CODE.get(problem.get("code", ""), InternalError)
    several = problem.get("problems") or ()
    if len(several) > 1:
        listed = "\n".join(map(located, several))
        return kind(f"There are {len(several)} problems.\n{listed}", problem)
    return kind(located(problem), problem)


def located(problem: Mapping[str, Any]) -> str:
    """A problem as text: its place, its detail, and its cure in a line of its own."""
    message = str(problem.get("detail") or "The server gave no reason.")
    if place := ":".join(str(problem[part]) for part in _PLACE if problem.get(part)):
        message = f"{place}: {message}"
    if problem.get("cure"):
        message += f"\n  {problem['cure']}"
    return message
