"""Connections that block (PEP 249)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType, TracebackType
from typing import Any, TypeVar

from hornbeam.base import BaseConnection
from hornbeam.cursor import Cursor
from hornbeam.errors import InterfaceError
from hornbeam.isolation import DEFAULT_LEVEL
from hornbeam.namespaces import Setting
from hornbeam.options import DEFAULT_TIMEOUT_S, DEFAULTS, Options, target_and_options
from hornbeam.session import Session
from hornbeam.settings import SNAPSHOT
from hornbeam.subscriptions import Subscription
from hornbeam.transport import Blocking, Transport, open_transport
from hornbeam.types import Parameters
from hornbeam.waiting import finished

T = TypeVar("T")
MAX_ATTEMPTS = 10


def connect(
    url: str,
    *,
    autocommit: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    use_views: bool = True,
    max_staleness_s: float | None = None,
    isolation: str = DEFAULT_LEVEL,
    search_path: Sequence[str] | None = None,
    consistency: str = SNAPSHOT,
) -> Connection:
    """Open `hornbeam://host:port` or an embedded `hornbeam:///folder`.

    `?autocommit=true`, `?use_views=false`, `?timeout_s=5`, `?max_staleness_s=10`,
    `?isolation=serializable`, `?search_path=shop,public` and `?consistency=tentative` in the URL
    are the same as the arguments. `isolation` is the level of transactions that name no other: READ
    COMMITTED, REPEATABLE READ or SERIALIZABLE. `search_path` lists the schemas of names without
    one. `timeout_s` limits each statement. With `max_staleness_s`, deferred views that are not
    older may answer aggregates. A statement that names a deferred view that is older waits some
    time for a batch, and then fails. With the `consistency` tentative, live and deferred views are
    read at the newest snapshot, not as of their last batch. Over HTTP the client sends nothing
    before the first statement. Raises InterfaceError for an invalid URL or option, DatabaseError
    when a folder cannot be opened.
    """
    given = Options(
        autocommit, timeout_s, use_views, max_staleness_s, isolation, search_path, consistency
    )
    target, options = target_and_options(url, given)
    return Connection(open_transport(target, options.timeout_s), options)


class Connection(BaseConnection):
    """A PEP 249 connection. One thread uses it at a time (threadsafety 1). `release` runs at the
    end, instead of closing the transport."""

    def __init__(
        self,
        transport: Transport,
        options: Options = DEFAULTS,
        release: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(Session(Blocking(transport), options))
        self.transport = transport
        self._release = release or transport.close

    # ------------------------------------------------------------ PEP 249

    def cursor(self) -> Cursor:
        """A new cursor."""
        self._session.check_open()
        return Cursor(self, self._session)

    def commit(self) -> None:
        """Make the transaction's writes durable, all or none.

        Raises OperationalError with code "read-conflict" when a row that the transaction read has
        changed; at SERIALIZABLE also when a row has begun to match one of its queries. Then retry
        the transaction (`run` does so automatically). Rolls back a transaction that a failed
        statement has aborted, and raises InternalError with code "failed-transaction".
        """
        finished(self._session.commit())

    def rollback(self) -> None:
        """Discard the transaction. The server holds no state of it."""
        self._session.rollback()

    def close(self) -> None:
        """Roll back, and release the transport. Idempotent."""
        if self._session.close():
            self._release()

    # ------------------------------------------------------------ beyond PEP 249

    @property
    def search_path(self) -> tuple[str, ...]:
        """The schemas in which names without a schema are searched for, in their order. A new
        relation is in the first one that exists. SET search_path sets it, too."""
        return self._session.search_path

    @search_path.setter
    def search_path(self, path: Sequence[str]) -> None:
        finished(self._session.set_path(Setting(tuple(path), local=False)))

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        """Collect the writes of the block, and send them together at the end of the block, before a
        read, or when a result of a write is accessed. In autocommit they are one transaction.

        Constraints are checked when the writes are sent, so a child may come before its parent. If
        a write fails, the whole transaction must be rolled back.
        """
        self._session.begin_pipeline()
        try:
            yield
        except BaseException:
            finished(self._session.end_pipeline(failed=True))
            raise
        finished(self._session.end_pipeline(failed=False))

    def savepoint(self, name: str) -> None:
        """Set a savepoint. It replaces an older savepoint with the same name.

        Raises InterfaceError in autocommit, as `rollback_to` and `release` do: there each statement
        is its own transaction, which has no savepoints.
        """
        finished(self._session.savepoint(name))

    def rollback_to(self, name: str) -> None:
        """Discard the writes since a savepoint. The savepoint stays. The recorded reads also stay:
        the commit validates them."""
        self._session.rollback_to(name)

    def release(self, name: str) -> None:
        """Remove a savepoint and the later ones. The writes stay."""
        self._session.release(name)

    def subscribe(
        self,
        name: str,
        *,
        wanted: Mapping[str, Any] = MappingProxyType({}),
        moment: int | None = None,
        rows: bool = True,
    ) -> Subscription:
        """Follow the changes of a relation or view (`hornbeam.subscriptions`): of the rows whose
        columns have the values in `wanted`.

        The subscription goes on after `moment`, which an earlier one has given. Without it, it
        begins with all rows, or with `rows` False with the next change. It is independent of
        transactions of this connection. Raises DatabaseError if it cannot begin.
        """
        return Subscription(self.transport, self._follower(name, wanted, moment, rows=rows))

    def schema_document(self) -> dict[str, Any]:
        """The schema in force: the document of /v1/schema."""
        return finished(self._session.schema_document())

    def explain(
        self, sql: str, parameters: Parameters, flags: Mapping[str, bool] = MappingProxyType({})
    ) -> dict[str, Any]:
        """The plan of a SELECT: the document of /v1/explain. `flags`: its members `analyze`,
        `costs`, `timing`, `summary` and `verbose`."""
        return finished(self._session.explain(sql, parameters, flags))

    def ping(self) -> None:
        """Check the connection. Raises OperationalError when the database cannot be reached."""
        finished(self._session.ping())

    def run(self, work: Callable[[Connection], T], *, attempts: int = MAX_ATTEMPTS) -> T:
        """Call `work` and commit. On a retryable abort roll back and retry, up to `attempts` times.

        `work` should have no side effects outside the database: it may run several times. Any
        exception rolls back.
        """
        if attempts < 1:
            raise InterfaceError("attempts must be at least 1.")
        for attempt in range(attempts):
            try:
                result = work(self)
                self.commit()
            except BaseException as error:
                pause_s = self._session.retry_pause_s(error, attempt, attempts)
                if pause_s is None:
                    raise
                time.sleep(pause_s)
            else:
                return result
        raise AssertionError("the last attempt returns or raises")

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit if the block raised no exception, else roll back. Close in both cases."""
        try:
            if kind is None and not self.closed:
                self.commit()
        finally:
            self.close()
