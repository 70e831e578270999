"""What the system catalog knows besides the schema: the client that asks, the sessions of the node,
and the bytes of relations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Backend:
    """A session of PostgreSQL's protocol. `key` is the id of its API key, `user` the name with
    which its client has logged in. Times are milliseconds since 1970; None: there is no open
    transaction, or no statement yet. `state` and `sql` are those of `pg_stat_activity`."""

    pid: int
    key: str
    user: str
    application: str
    client: tuple[str, int]
    """The address and the port of the client; "" for a socket of this machine."""
    began_ms: int
    transaction_ms: int | None
    query_ms: int | None
    changed_ms: int
    state: str
    sql: str


@dataclass(frozen=True, slots=True)
class Asker:
    """The client that sends a statement. `names` are its names as a user besides that of the
    database, `key` is the id of its API key. `grants` maps the relations and views that it may read
    to whether it may write them; None: all of them. `pid` is the number of its session, 0 outside
    of PostgreSQL's protocol; `client` its address and port there."""

    names: frozenset[str] = frozenset()
    key: str = ""
    administers: bool = True
    writes: bool = True
    grants: Mapping[str, bool] | None = None
    pid: int = 0
    client: tuple[str, int] = ("", 0)
    backends: Callable[[], Sequence[Backend]] = tuple
    """Gives the sessions of the node."""

    def may_signal(self, backend: Backend) -> bool:
        """May this client end the session, and read its statement?"""
        return self.administers or backend.key == self.key

    def reads(self, name: str) -> bool:
        return self.grants is None or name in self.grants

    def changes(self, name: str) -> bool:
        """May this client write the relation `name`, or take numbers from the sequence?"""
        return self.writes and (self.grants is None or self.grants.get(name, False))


ADMINISTRATOR = Asker()
"""The client of an embedded database."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rows of a live system relation follow from, besides the catalog. `sizes` has the
    bytes by name of relation, view and index, as far as they are known."""

    asker: Asker = ADMINISTRATOR
    sizes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
