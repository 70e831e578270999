"""Every error Hornbeam raises on purpose, with its stable code.

::

    HornbeamError
    ├── SchemaError                 schema-invalid          a DDL file or a reflected schema
    │   └── CircularReference       schema-cycle
    ├── SqlError                    sql-invalid             a statement cannot be bound
    │   ├── UnknownName             sql-unknown-name
    │   ├── TypeMismatch            sql-type-mismatch
    │   └── Unsupported             sql-unsupported         right SQL that we refuse, and why
    ├── ConstraintViolation         constraint-violation
    │   ├── NotNullViolation        not-null-violation
    │   ├── UniqueViolation         unique-violation
    │   ├── ForeignKeyViolation     foreign-key-violation
    │   └── PreconditionFailed      precondition-failed     if_absent / if_version
    ├── TransactionAborted          transaction-aborted     nothing happened; retryable
    │   └── ReadConflict            read-conflict           a row read by the client has changed
    ├── OutcomeUnknown              outcome-unknown         ask by transaction id
    ├── IdempotencyMismatch         idempotency-mismatch    same key, another request
    ├── SnapshotTooOld              snapshot-too-old
    ├── StalePlan                   stale-plan              the catalog has moved on
    ├── BeingLoaded                 being-loaded            not while an initial load is under way
    ├── NotFound                    not-found
    ├── LimitExceeded               limit-exceeded          rows, bytes, parameters, locks
    ├── StatementTimeout            statement-timeout
    ├── Overloaded                  overloaded              retryable
    ├── Unavailable                 unavailable             store or log out of reach; retryable
    │   └── DiskFull                disk-full
    ├── Corruption                  corruption              bytes on disk that must not be there
    ├── Unauthenticated             unauthenticated         no API key, or none that is valid
    ├── Forbidden                   forbidden               a valid key without the right
    └── InvalidRequest              invalid-request         a request, option or setting

A message says what is wrong and where; `cure` says what to do about it.
The code is mapped once to HTTP (`api/problems.py`) and once to PEP 249 (`hornbeam/errors.py`).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

Outcome = Literal["none", "committed", "unknown"]


class HornbeamError(Exception):
    """Base of all. `outcome` says what is known of the transaction; "none" means no effect."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    outcome: ClassVar[Outcome] = "none"

    def __init__(self, message: str, *, cure: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure
        self.details = details
        """Machine-readable facts (names, positions); never values of other people's rows."""

    def __str__(self) -> str:
        return f"{self.message}\n  {self.cure}" if self.cure else self.message


class SchemaError(HornbeamError):
    """A schema that cannot be used. Knows where: `file`, `line` and `column` count from 1."""

    code = "schema-invalid"

    def __init__(
        self,
        message: str,
        *,
        cure: str = "",
        file: str = "",
        line: int = 0,
        column: int = 0,
        **details: Any,
    ) -> None:
        super().__init__(message, cure=cure, file=file, line=line, column=column, **details)
        self.file, self.line, self.column = file, line, column

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        return f"{place}: {super().__str__()}" if place else super().__str__()


class CircularReference(SchemaError):
    code = "schema-cycle"


class SqlError(HornbeamError):
    code = "sql-invalid"


class UnknownName(SqlError):
    code = "sql-unknown-name"


class TypeMismatch(SqlError):
    code = "sql-type-mismatch"


class Unsupported(SqlError):
    code = "sql-unsupported"


class ConstraintViolation(HornbeamError):
    code = "constraint-violation"


class NotNullViolation(ConstraintViolation):
    code = "not-null-violation"


class UniqueViolation(ConstraintViolation):
    code = "unique-violation"


class ForeignKeyViolation(ConstraintViolation):
    code = "foreign-key-violation"


class PreconditionFailed(ConstraintViolation):
    code = "precondition-failed"


class TransactionAborted(HornbeamError):
    code = "transaction-aborted"
    retryable = True


class ReadConflict(TransactionAborted):
    code = "read-conflict"


class OutcomeUnknown(HornbeamError):
    code = "outcome-unknown"
    outcome = "unknown"


class IdempotencyMismatch(HornbeamError):
    code = "idempotency-mismatch"


class SnapshotTooOld(HornbeamError):
    code = "snapshot-too-old"
    retryable = True


class StalePlan(HornbeamError):
    code = "stale-plan"


class BeingLoaded(HornbeamError):
    code = "being-loaded"


class NotFound(HornbeamError):
    code = "not-found"


class LimitExceeded(HornbeamError):
    code = "limit-exceeded"


class StatementTimeout(HornbeamError):
    code = "statement-timeout"


class Overloaded(HornbeamError):
    code = "overloaded"
    retryable = True


class Unavailable(HornbeamError):
    code = "unavailable"
    retryable = True


class DiskFull(Unavailable):
    code = "disk-full"


class Corruption(HornbeamError):
    code = "corruption"


class InvalidRequest(HornbeamError):
    code = "invalid-request"


class Unauthenticated(HornbeamError):
    code = "unauthenticated"


class Forbidden(HornbeamError):
    code = "forbidden"
