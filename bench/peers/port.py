"""The interface of a compared system, so that one program can measure all systems.

All calls block. One thread at a time uses a session; a system may have several sessions. Statements
have the names and the text of the workload. Each system translates them into its own dialect. A
system refuses an operation that it does not support with `Cannot`, and the report shows that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hornbeam_server.schema.catalog import Catalog

Row = tuple[Any, ...]


class Cannot(Exception):
    """The system does not support the operation, or the operation failed. The message gives the
    reason."""


@dataclass(frozen=True, slots=True)
class Task:
    """A statement of the workload. Its parameters are `?`, in order."""

    name: str
    sql: str
    reads: bool


@dataclass(frozen=True, slots=True)
class Design:
    """Two catalogs for the same schema and workload. `views` has the chosen views and indexes.
    `plain` is planned without views, and has the base indexes that filters and foreign keys
    need."""

    views: Catalog
    plain: Catalog


Write = tuple[Task, Sequence[Any]]
"""A write statement with its values."""


class Session(Protocol):
    """A client's connection."""

    def run(self, task: Task, values: Sequence[Any]) -> list[Row]:
        """Run a statement, and return all its rows; a write returns none. A write is its own
        transaction, and is committed on return. Values have the Python types of their columns
        (int, float, str, bool, Decimal, date, datetime, bytes, None). Raises Cannot."""

    def transact(self, writes: Sequence[Write]) -> None:
        """Run writes as one transaction, if the system has transactions. Raises Cannot."""

    def close(self) -> None: ...


class System(Protocol):
    """A system with the relations of a design, which are empty at first."""

    @property
    def name(self) -> str: ...

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of the system's parts, for the report."""

    def load(self, relation: str, rows: Iterable[Row]) -> None:
        """Insert rows, whose values are in column order. Parents come first. Raises Cannot."""

    def loaded(self) -> None:
        """Prepare the system for reads after the last load: fill views, gather statistics, flush
        memory to files."""

    def session(self) -> Session: ...

    def sizes(self) -> Mapping[str, int]:
        """The bytes of each table (relation, index, view) on disk, uncompressed where the system
        has a choice."""

    def close(self) -> None:
        """Stop the system. Its data may be discarded."""
