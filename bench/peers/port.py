"""What every system that is compared offers, so that one program can measure all of them.

All calls block; a session belongs to one thread at a time, and a system may have several. A
statement is the workload's, by name and as it is written there; each system says it in its own
dialect. What a system cannot do it refuses with `Cannot`, and the report shows that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hornbeam_server.schema.catalog import Catalog

Row = tuple[Any, ...]


class Cannot(Exception):
    """The system has no way to do it, or failed at it; says why."""


@dataclass(frozen=True, slots=True)
class Task:
    """A statement of the workload. Parameters are `?`, in order."""

    name: str
    sql: str
    reads: bool


@dataclass(frozen=True, slots=True)
class Design:
    """What is stored. `views`: the catalog with the views and indexes that were chosen for the
    workload; `plain`: that for the same without room for views, which has the base indexes that
    filters and foreign keys need."""

    views: Catalog
    plain: Catalog


Write = tuple[Task, Sequence[Any]]
"""With its values."""


class Session(Protocol):
    """One client's connection."""

    def run(self, task: Task, values: Sequence[Any]) -> list[Row]:
        """Its rows, all of them, in this process; of a write none: it is a transaction of its own,
        and committed on return. Values come and go as the Python types of their columns (int,
        float, str, bool, Decimal, date, datetime, bytes, None). Raises Cannot."""

    def transact(self, writes: Sequence[Write]) -> None:
        """Several as one transaction, as far as the system has any. Raises Cannot."""

    def close(self) -> None: ...


class System(Protocol):
    """A system with the relations of a design, empty at first."""

    @property
    def name(self) -> str: ...

    @property
    def versions(self) -> Mapping[str, str]:
        """Of its parts, for the report."""

    def load(self, relation: str, rows: Iterable[Row]) -> None:
        """Rows in column order of the relation, parents first. Raises Cannot."""

    def loaded(self) -> None:
        """All is loaded: bring it into the state in which it would be read (views filled,
        statistics gathered, memory flushed to files)."""

    def session(self) -> Session: ...

    def sizes(self) -> Mapping[str, int]:
        """By table (relation, index, view), bytes on disk, uncompressed where there is a choice."""

    def close(self) -> None:
        """Stop what was started. What was stored may be thrown away."""
