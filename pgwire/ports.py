"""What the protocol needs of the server around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

ROWS = "hornbeam.rows"
"""Key in the scope of a request of this process: the `RowTaker` that takes the rows of the answer,
instead of their JSON."""
SENDER = "hornbeam.sender"
"""Key in the scope of a request of this process: its principal, which has authenticated itself at
the beginning of its connection. HTTP sets no keys in scopes."""

BACKEND = "hornbeam.backend"
"""Key in the scope of a request of this process: the number of its session."""

Rows = Sequence[tuple[Any, ...]]


class NamedType(NamedTuple):
    """A column: its name, and the name of its type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Handed:
    """The rows of a query. `batches` is read once, in lists that are not empty. `tail` gives the
    members of the answer that follow the rows: about those that were read so far. `close` ends the
    query; it may be called again."""

    columns: tuple[NamedType, ...]
    batches: AsyncIterator[Rows]
    tail: Callable[[], Mapping[str, Any]]
    close: Callable[[], Awaitable[None]]


class WholeRows(NamedTuple):
    """All rows of a query, and the members of the answer that follow them."""

    columns: tuple[NamedType, ...]
    rows: Rows
    tail: Mapping[str, Any]


RowsAtOnce = Callable[[Any, bytes], WholeRows | None]
"""Gives the rows of `POST /v1/query` of a principal with a body, without waiting. None if the
application has to answer."""


class RowTaker(Protocol):
    """Takes the rows of a query in the same process."""

    def begin(self, columns: Sequence[NamedType], tail: Callable[[], Mapping[str, Any]]) -> None:
        """The query has begun. `tail` is that of `Handed`."""

    async def put(self, rows: Rows) -> None:
        """Take rows. Returns when the next ones may come."""

    def end(self, problem: Mapping[str, Any] | None = None) -> None:
        """There are no more rows, or the query has failed: `problem` is the problem document."""


class Unknown(Exception):
    """The client has not proved that it is what it claims to be. The message says why, for the
    log."""


class Login(NamedTuple):
    """How a user logs in: `verifier` for SCRAM; "": by its password in the clear."""

    verifier: str


class Gate(Protocol):
    """Authentication: finds and checks the keys of the database."""

    @property
    def needs_password(self) -> bool:
        """False: all clients are trusted, since authentication is off."""

    @property
    def secret(self) -> bytes:
        """Bytes that no client knows and that stay as long as the server runs."""

    async def login(self, user: str) -> Login | None:
        """How this user logs in; None if there is no such user, or more than one. Raises
        HornbeamError when the keys cannot be read."""

    async def by_name(self, user: str) -> Any:
        """The principal of a user that SCRAM has authenticated. Raises Unknown, HornbeamError."""

    async def by_password(self, user: str, password: str) -> Any:
        """The principal of a user by its password. Raises Unknown, HornbeamError."""

    def refused(self, user: str, client: str) -> None:
        """Note in the audit log that a client was refused."""
