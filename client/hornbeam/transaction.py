"""The state of an open transaction, which its client keeps (`session.py`)."""

from __future__ import annotations

from typing import Any

from hornbeam.errors import InternalError, ProgrammingError
from hornbeam.writes import Write


class Transaction:
    """What one transaction has read and written so far."""

    def __init__(self) -> None:
        self.snapshot: int | None = None
        self.writes: list[Write] = []
        self.reads: dict[tuple[str, str], int | None] = {}
        self.ranges: dict[tuple[Any, ...], None] = {}
        self.savepoints: dict[str, int] = {}
        """The number of writes before each savepoint."""
        self.replay: dict[str, Any] = {}
        self.untraced = False
        """Has it read rows that no answer has listed?"""
        self.failure = ""
        """The error of the statement that has aborted it; "" while none has."""

    @property
    def has_begun(self) -> bool:
        """Has it read or written?"""
        return bool(self.writes) or self.snapshot is not None or bool(self.failure)

    def abort(self, error: BaseException) -> None:
        """A statement has failed. The error of the first one counts."""
        self.failure = self.failure or str(error) or type(error).__name__

    def aborted(self) -> InternalError:
        """The error of statements that an aborted transaction ignores (SQLSTATE 25P02)."""
        return _aborted(
            "Current transaction is aborted, commands ignored until end of transaction block.",
            f"ROLLBACK, or ROLLBACK TO a savepoint. Its first error was: {self.failure}",
        )

    def rolled_back(self) -> InternalError:
        """The error of a commit that has rolled back an aborted transaction."""
        return _aborted(
            "The transaction was aborted, so the commit has rolled it back.",
            f"Run the transaction again. Its first error was: {self.failure}",
        )

    def savepoint(self, name: str) -> None:
        """Set a savepoint. It replaces an older savepoint with the same name."""
        self.savepoints.pop(name, None)
        self.savepoints[name] = len(self.writes)

    def rollback_to(self, name: str) -> None:
        """Discard the writes since a savepoint. The savepoint and the recorded reads stay. Raises
        ProgrammingError, as `release` does, for an unknown savepoint."""
        self.writes = self.writes[: self.savepoints[self._later_than(name)]]
        self.failure = ""

    def release(self, name: str) -> None:
        """Remove a savepoint and the later ones. The writes stay."""
        del self.savepoints[self._later_than(name)]

    def _later_than(self, name: str) -> str:
        """Remove the savepoints after `name`. Returns `name`."""
        if name not in self.savepoints:
            raise ProgrammingError(f"There is no savepoint {name}.")
        names = list(self.savepoints)
        for later in names[names.index(name) + 1 :]:
            del self.savepoints[later]
        return name


def _aborted(detail: str, cure: str) -> InternalError:
    return InternalError(
        f"{detail}\n  {cure}", {"code": "failed-transaction", "detail": detail, "cure": cure}
    )


def refused_write(message: str) -> ProgrammingError:
    """The error of a write in a transaction that may only read (SQLSTATE 25006)."""
    return ProgrammingError(message, {"code": "read-only"})
