"""All errors of Hornbeam, with their stable codes.

::

    HornbeamError
    ├── SchemaError                 schema-invalid          a DDL file or a reflected schema
    ├── SqlError                    sql-invalid             a statement cannot be bound
    │   ├── UnknownName             sql-unknown-name
    │   ├── TypeMismatch            sql-type-mismatch       a value does not fit its type
    │   │   └── DivisionByZero      division-by-zero
    │   └── Unsupported             sql-unsupported         valid SQL that is refused, and why
    ├── ConstraintViolation         constraint-violation
    │   ├── NotNullViolation        not-null-violation
    │   ├── UniqueViolation         unique-violation
    │   ├── ForeignKeyViolation     foreign-key-violation
    │   ├── CheckViolation          check-violation
    │   └── PreconditionFailed      precondition-failed     if_absent / if_version
    ├── TransactionAborted          transaction-aborted     no effect; retryable
    │   └── ReadConflict            read-conflict           a row read by the client has changed
    ├── OutcomeUnknown              outcome-unknown         ask by transaction id
    ├── IdempotencyMismatch         idempotency-mismatch    same key, another request
    ├── SnapshotTooOld              snapshot-too-old
    ├── StalePlan                   stale-plan              the catalog has changed since
    ├── BeingLoaded                 being-loaded            not during an initial load
    ├── NotFound                    not-found
    ├── LimitExceeded               limit-exceeded          rows, bytes, parameters, locks
    │   └── MemoryExceeded          memory-exceeded         a statement needs too much memory
    ├── StatementTimeout            statement-timeout
    ├── Overloaded                  overloaded              retryable
    ├── Unavailable                 unavailable             store or log out of reach; retryable
    │   └── DiskFull                disk-full
    ├── Corruption                  corruption              invalid bytes on disk
    ├── Unauthenticated             unauthenticated         no valid API key
    ├── Forbidden                   forbidden               no permission, or from another site
    ├── Misdirected                 misdirected-request     a Host that is not this server's
    └── InvalidRequest              invalid-request         a request, option or setting

The message says what is wrong and where; `cure` says what to do about it.
The codes are mapped to HTTP in `api/rest/problems.py` and to PEP 249 in `hornbeam/errors.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

Outcome = Literal["none", "committed", "unknown"]


def capitalised(text: str) -> str:
    """`text` with a capital first letter, and its other letters as they are."""
    return text[:1].upper() + text[1:]


class HornbeamError(Exception):
    """The base class. `outcome` is the known outcome of the transaction; "none" means no effect."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    outcome: ClassVar[Outcome] = "none"
    usual_cure: ClassVar[str] = ""
    """The cure for an error of this class that is raised without a `cure`."""

    def __init__(self, message: str, *, cure: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure or self.usual_cure
        self.details = details
        """Machine-readable facts (names, positions); never values of other users' rows."""

    def __str__(self) -> str:
        return f"{self.message}\n  {self.cure}" if self.cure else self.message

    def of_row(self, number: int) -> None:
        """Note that the error is about the row, or the set of parameters, with this number. A
        number that is noted counts from there."""
        self.details["row"] = number - 1 + (self.details.get("row") or 1)


class SchemaError(HornbeamError):
    """An invalid schema, with the place: `file`, and `line` and `column`, which count from 1."""

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


class SqlError(HornbeamError):
    code = "sql-invalid"


class UnknownName(SqlError):
    code = "sql-unknown-name"


class TypeMismatch(SqlError):
    code = "sql-type-mismatch"


class DivisionByZero(TypeMismatch):
    code = "division-by-zero"
    usual_cure = "Write NULLIF(divisor, 0), or leave such rows out."

    @classmethod
    def of(cls, division: str) -> DivisionByZero:
        """The error of a division, which is given as text."""
        return cls(f"Division by zero in expression ({division}).")


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


class CheckViolation(ConstraintViolation):
    code = "check-violation"


class PreconditionFailed(ConstraintViolation):
    code = "precondition-failed"


class TransactionAborted(HornbeamError):
    code = "transaction-aborted"
    retryable = True
    usual_cure = "Send it again: nothing has happened."


class ReadConflict(TransactionAborted):
    code = "read-conflict"


class OutcomeUnknown(HornbeamError):
    code = "outcome-unknown"
    outcome = "unknown"
    usual_cure = "Ask for the transaction by its id, or repeat it with its idempotency key."


class IdempotencyMismatch(HornbeamError):
    code = "idempotency-mismatch"


class SnapshotTooOld(HornbeamError):
    code = "snapshot-too-old"
    retryable = True
    usual_cure = "Read at a newer snapshot, or name none."


class StalePlan(HornbeamError):
    code = "stale-plan"
    usual_cure = "Plan again, look at the new plan, and apply it."


class BeingLoaded(HornbeamError):
    code = "being-loaded"


class NotFound(HornbeamError):
    code = "not-found"
    usual_cure = "See what there is: hornbeam schema show, hornbeam view list, or GET /v1/schema."


class LimitExceeded(HornbeamError):
    code = "limit-exceeded"


class MemoryExceeded(LimitExceeded):
    code = "memory-exceeded"


class StatementTimeout(HornbeamError):
    code = "statement-timeout"


class Overloaded(HornbeamError):
    code = "overloaded"
    retryable = True
    usual_cure = "Try again in a moment."


class Unavailable(HornbeamError):
    code = "unavailable"
    retryable = True
    usual_cure = "Try again in a moment. If it lasts, look into the log of the server."


class Closing(Unavailable):
    """The database was closed while the request ran."""


class DiskFull(Unavailable):
    code = "disk-full"


class Corruption(HornbeamError):
    code = "corruption"
    usual_cure = (
        "Keep the files as they are. docs/troubleshooting.md says under corruption what to do about"
        " each kind of damage."
    )


class InvalidRequest(HornbeamError):
    code = "invalid-request"


class Unauthenticated(HornbeamError):
    code = "unauthenticated"


class Forbidden(HornbeamError):
    code = "forbidden"


class Misdirected(HornbeamError):
    code = "misdirected-request"
