"""The parts of connections and cursors that need no request, for both kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hornbeam import errors
from hornbeam.results import Description, Results, Tentative
from hornbeam.session import Session
from hornbeam.settings import CONSISTENCY
from hornbeam.subscriptions import Follower


class BaseConnection:
    """The state of a connection.

    `bookmark` is the commit timestamp of the last transaction on this connection. Later reads on
    this connection, or on another connection that gets the bookmark, see that transaction. In
    statements that name deferred views they do so if hornbeam.views_show_own_writes is on. In
    autocommit, reads raise it to their snapshot, unless the connection allows staleness.
    `use_views` and `max_staleness_s` apply from the next statement on.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, session: Session) -> None:
        self._session = session

    def _follower(
        self, name: str, wanted: Mapping[str, Any], moment: int | None, *, rows: bool
    ) -> Follower:
        """The beginning of a subscription. Raises InterfaceError for a closed connection."""
        self._session.check_open()
        return Follower(name, wanted, moment, self._session.timeout_s, rows=rows)

    @property
    def bookmark(self) -> int:
        return self._session.bookmark

    @bookmark.setter
    def bookmark(self, value: int) -> None:
        self._session.bookmark = value

    @property
    def use_views(self) -> bool:
        return self._session.use_views

    @use_views.setter
    def use_views(self, value: bool) -> None:
        self._session.use_views = value

    @property
    def max_staleness_s(self) -> float | None:
        return self._session.max_staleness_s

    @max_staleness_s.setter
    def max_staleness_s(self, value: float | None) -> None:
        self._session.max_staleness_s = value

    @property
    def consistency(self) -> str:
        """snapshot, or tentative: live and deferred views are read at the newest snapshot, not as
        of their last batch. Setting it is SET hornbeam.consistency."""
        return self._session.consistency

    @consistency.setter
    def consistency(self, value: str) -> None:
        self._session.set_kept(CONSISTENCY, value, local=False)

    @property
    def autocommit(self) -> bool:
        """True: each statement is its own transaction."""
        return self._session.autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self._session.autocommit = value

    @property
    def isolation(self) -> str:
        """The isolation level of the open transaction. Setting it sets the level of transactions
        that name no other. Raises InterfaceError inside a transaction that has read or written, or
        for an unknown level."""
        return self._session.isolation

    @isolation.setter
    def isolation(self, level: str) -> None:
        self._session.isolation = level

    @property
    def behind_s(self) -> float:
        """Staleness, in seconds, of the node that sent the last answer. A node that is disconnected
        from the other nodes reports the seconds since it last learned of commits: its answers are
        as of that time. 0.0: the node is connected."""
        return self._session.behind_s

    @property
    def closed(self) -> bool:
        return self._session.closed

    @property
    def in_transaction(self) -> bool:
        """Whether there is an open transaction, which commit or rollback would end."""
        return self._session.in_transaction


class BaseCursor:
    """The state of a cursor, without its results."""

    lastrowid: None = None

    def __init__(self, session: Session) -> None:
        self._results = Results(session)

    @property
    def arraysize(self) -> int:
        """The number of rows that `fetchmany` fetches by default."""
        return self._results.arraysize

    @arraysize.setter
    def arraysize(self, value: int) -> None:
        self._results.arraysize = value

    @property
    def served_by(self) -> list[str]:
        """Views, indexes and relations that answered the last SELECT."""
        return self._results.served_by

    @property
    def tentative(self) -> Tentative | None:
        """The snapshots of the last SELECT, if its consistency was tentative."""
        return self._results.tentative

    @property
    def notice(self) -> str:
        """A remark about the last statement: VACUUM has nothing to do, or COMMIT has rolled back
        an aborted transaction."""
        return self._results.notice

    @property
    def statusmessage(self) -> str | None:
        """PostgreSQL's command tag of the last statement, such as `INSERT 0 3`; None before it has
        run."""
        return self.results().tag

    @property
    def description(self) -> list[Description] | None:
        """(name, SQL type, None …) for each column of the result; None without a result."""
        return self.results().description

    @property
    def rowcount(self) -> int:
        """Number of rows of the result, or of rows that the write changed; -1 before the first
        statement."""
        return self.results().rowcount

    @property
    def rownumber(self) -> int | None:
        """Index of the next row to fetch; None without a result."""
        return self.results().rownumber

    def _repr_html_(self) -> str | None:
        """The last result in a notebook: its first rows, or the plan of EXPLAIN."""
        return self._results.html()

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Do nothing (PEP 249 allows that)."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing (PEP 249 allows that)."""

    def results(self) -> Results:
        """The results, after the writes of the last statement have run."""
        raise NotImplementedError
