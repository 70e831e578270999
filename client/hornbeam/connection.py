"""Connections: transactions, bookmarks, retries.

Outside autocommit a transaction is optimistic. Its first read fixes its snapshot. Writes stay in
the client until the commit. The server also tries each write at once, as a dry run on top of the
earlier writes, so that row counts, RETURNING and errors come at the call that caused them. Reads
see the snapshot with those writes, and the client records the rows that they read. `commit` sends
everything as one transaction, which succeeds if no row that was read has changed.

The answer of a dry run may contain its external inputs (numbers of identity columns, the time) and
their results (`replay`). The client sends them back with every request that repeats the dry run. So
the results that the caller has read stay valid; otherwise the server refuses the commit.

A dry run repeats the writes before it. If the results are not needed one by one, `pipeline` sends
the writes together, as `executemany` does.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType, TracebackType
from typing import Any, TypeVar

from hornbeam import errors
from hornbeam.cursor import Cursor, Write
from hornbeam.ddl import execute_ddl
from hornbeam.errors import Error, InterfaceError, NotSupportedError, ProgrammingError
from hornbeam.isolation import DEFAULT_LEVEL, Action, Control, Modes, control_of, level_of
from hornbeam.namespaces import PUBLIC, SearchPath, Setting
from hornbeam.prepared import Prepared, deallocated, discarded, prepared_of
from hornbeam.statements import Kind, calls_of_session, kind
from hornbeam.transport import Transport, open_transport, parse_url, persistently
from hornbeam.types import Parameters, wire_parameters

T = TypeVar("T")
MAX_ATTEMPTS = 10
DEFAULT_TIMEOUT_S = 60.0


def connect(
    url: str,
    *,
    autocommit: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    use_views: bool = True,
    max_staleness_s: float | None = None,
    isolation: str = DEFAULT_LEVEL,
    search_path: Sequence[str] | None = None,
) -> Connection:
    """Open `hornbeam://host:port` or an embedded `hornbeam:///folder`.

    `?autocommit=true`, `?use_views=false`, `?timeout_s=5`, `?max_staleness_s=10`,
    `?isolation=serializable` and `?search_path=shop,public` in the URL are the same as the
    arguments. `isolation` is the level of transactions that name no other: READ COMMITTED,
    REPEATABLE READ or SERIALIZABLE. `search_path` lists the schemas of names without one.
    `timeout_s` limits each statement. With `max_staleness_s`,
    deferred views that are not older may answer aggregates. A statement that names a deferred view
    that is older waits some time for a batch, and then fails. Over
    HTTP the client sends nothing before the first statement. Raises InterfaceError for an invalid
    URL, DatabaseError when a folder cannot be opened.
    """
    target = parse_url(url)
    options = dict(target.options)
    autocommit = _flag(options.pop("autocommit", autocommit))
    use_views = _flag(options.pop("use_views", use_views))
    timeout_s = _seconds("timeout_s", options.pop("timeout_s", timeout_s))
    staleness = options.pop("max_staleness_s", max_staleness_s)
    isolation = level_of(options.pop("isolation", isolation))
    if "search_path" in options:
        search_path = [part.strip() for part in options.pop("search_path").split(",")]
    if options:
        raise InterfaceError(f"Unknown options in the URL: {', '.join(options)}")
    transport = open_transport(target, timeout_s)
    return Connection(
        transport,
        autocommit=autocommit,
        use_views=use_views,
        timeout_s=timeout_s,
        max_staleness_s=None if staleness is None else _seconds("max_staleness_s", staleness),
        isolation=isolation,
        search_path=search_path,
    )


def _flag(value: str | bool) -> bool:
    text = str(value).lower()
    if text not in {"1", "true", "yes", "0", "false", "no"}:
        raise InterfaceError(f"{value!r} is neither true nor false.")
    return text in {"1", "true", "yes"}


def _seconds(name: str, value: str | float) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InterfaceError(f"{name} must be a positive number, not {value!r}.")
    return seconds


class Connection:
    """A PEP 249 connection. One thread uses it at a time (threadsafety 1).

    `bookmark` is the commit timestamp of the last transaction on this connection. Later reads on
    this connection, or on another connection that gets the bookmark, see that transaction (except
    in statements that name deferred views). In autocommit, reads raise it to their snapshot,
    unless the connection allows staleness. `use_views` and `max_staleness_s` apply from the next
    statement on.
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

    def __init__(
        self,
        transport: Transport,
        *,
        autocommit: bool = False,
        use_views: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_staleness_s: float | None = None,
        isolation: str = DEFAULT_LEVEL,
        search_path: Sequence[str] | None = None,
    ) -> None:
        self.transport = transport
        self.bookmark = 0
        self.use_views = use_views
        self.max_staleness_s = max_staleness_s
        self._timeout_ms = max(int(timeout_s * 1000), 1)
        self._autocommit = autocommit
        self._modes = Modes(isolation)
        self._path = SearchPath(search_path)
        self._pipelines = 0
        self._closed = False
        self._drawn: dict[str, int] = {}
        """The last number that this connection has taken from each sequence, for currval; the last
        one at the end, for lastval."""
        self._has_drawn = False
        """Has nextval given one of them? Then lastval is defined."""
        self._prepared: dict[str, Prepared] = {}
        self._snapshot: int | None
        self._writes: list[Write]
        self._reads: dict[tuple[str, str], int | None]
        self._ranges: dict[tuple[Any, ...], None]
        self._savepoints: dict[str, int]
        self._replay: dict[str, Any]
        self._forget()

    # ------------------------------------------------------------ PEP 249

    def cursor(self) -> Cursor:
        """A new cursor."""
        self._check_open()
        return Cursor(self)

    def commit(self) -> None:
        """Make the transaction's writes durable, all or none.

        Raises OperationalError with code "read-conflict" when a row that the transaction read has
        changed; at SERIALIZABLE also when a row has begun to match one of its queries. Then retry
        the transaction (`run` does so automatically).
        """
        self._check_open()
        self._check_sound()
        writes, replay, level = self._writes, self._replay, self._modes.level.lower()
        rests_on = {
            "reads": [[layout, key, ts] for (layout, key), ts in self._reads.items()],
            "ranges": list(self._ranges),
        }
        bookmark = max(self.bookmark, self._snapshot or 0)
        self._end()
        self._path.commit()
        if writes:
            more = {"bookmark": bookmark, "isolation": level, **replay}
            self._transact(writes, {**rests_on, **more})
        self.bookmark = max(self.bookmark, bookmark)

    def rollback(self) -> None:
        """Discard the transaction. The server holds no state of it."""
        self._check_open()
        self._end()
        self._path.rollback()

    def close(self) -> None:
        """Roll back, and release the transport. Idempotent."""
        if not self._closed:
            self._end()
            self._closed = True
            self.transport.close()

    # ------------------------------------------------------------ beyond PEP 249

    @property
    def autocommit(self) -> bool:
        """True: each statement is its own transaction."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if value != self._autocommit:
            if self._writes:
                raise InterfaceError("Commit or roll back before changing autocommit.")
            self._autocommit = value
            self._forget()

    @property
    def isolation(self) -> str:
        """The isolation level of the open transaction. Setting it sets the level of transactions
        that name no other. Raises InterfaceError inside a transaction that has read or written, or
        for an unknown level."""
        return self._modes.level

    @isolation.setter
    def isolation(self, level: str) -> None:
        self._set_modes(Control(Action.SET_SESSION, level_of(level)))

    @property
    def search_path(self) -> tuple[str, ...]:
        """The schemas in which names without a schema are searched for, in their order. A new
        relation is in the first one that exists. SET search_path sets it, too."""
        return (PUBLIC,) if self._path.names is None else self._path.names

    @search_path.setter
    def search_path(self, path: Sequence[str]) -> None:
        self.set_path(Setting(tuple(path), local=False))

    @property
    def behind_s(self) -> float:
        """Staleness, in seconds, of the node that sent the last answer. A node that is disconnected
        from the other nodes reports the seconds since it last learned of commits: its answers are
        as of that time. 0.0: the node is connected."""
        return self.transport.behind_s

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def in_transaction(self) -> bool:
        """Whether there is an open transaction, which commit or rollback would end."""
        return self._modes.block or self._has_begun

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        """Collect the writes of the block, and send them together at the end of the block, before a
        read, or when a result of a write is accessed. In autocommit they are one transaction.

        Constraints are checked when the writes are sent, so a child may come before its parent. If
        a write fails, the whole transaction must be rolled back.
        """
        self._pipelines += 1
        try:
            yield
        except BaseException:
            if self._autocommit:
                self._forget()
            raise
        finally:
            self._pipelines -= 1
        if not self._pipelines:
            self.settle()

    def savepoint(self, name: str) -> None:
        """Set a savepoint. It replaces an older savepoint with the same name.

        Raises InterfaceError in autocommit, as `rollback_to` and `release` do: there each statement
        is its own transaction, which has no savepoints.
        """
        self._check_open()
        self._check_transactional()
        self._check_sound()
        self.settle()
        self._savepoints.pop(name, None)
        self._savepoints[name] = len(self._writes)

    def rollback_to(self, name: str) -> None:
        """Discard the writes since a savepoint. The savepoint stays. The recorded reads also stay:
        the commit validates them."""
        self._check_open()
        self._check_transactional()
        self._writes = self._writes[: self._savepoints[self._later_than(name)]]
        self._accepted = self._failed = False

    def release(self, name: str) -> None:
        """Remove a savepoint and the later ones. The writes stay."""
        self._check_open()
        self._check_transactional()
        self._check_sound()
        del self._savepoints[self._later_than(name)]

    def schema_document(self) -> dict[str, Any]:
        """The schema in force: the document of /v1/schema."""
        self._check_open()
        document: dict[str, Any] = self.transport.json("GET", "/v1/schema")
        return document

    def ping(self) -> None:
        """Check the connection. Raises OperationalError when the database cannot be reached."""
        self._check_open()
        self.transport.json("GET", "/livez")

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
                self._end()
                retryable = isinstance(error, Error) and error.retryable
                if not retryable or attempt == attempts - 1:
                    raise
                time.sleep(min(0.002 * 2**attempt, 0.2))
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
            if kind is None and not self._closed:
                self.commit()
        finally:
            self.close()

    # ------------------------------------------------------------ for cursors

    def set_path(self, setting: Setting) -> None:
        """Set the search path of later statements. Raises InterfaceError for SET LOCAL outside of a
        transaction."""
        self._check_open()
        self.settle()
        if setting.local and self._automatic:
            raise InterfaceError("SET LOCAL belongs into a transaction: BEGIN first.")
        self._path.set(setting.path, local=setting.local)
        if self._automatic:
            self._path.commit()

    @property
    def path_member(self) -> dict[str, list[str]]:
        """The search path as a member of a request's body."""
        return self._path.member

    def control(self, sql: str) -> None:
        """Run BEGIN, COMMIT, ROLLBACK, SAVEPOINT, SET TRANSACTION and the like. Outside of a
        transaction, on a connection in autocommit, COMMIT and ROLLBACK do nothing, as in
        PostgreSQL. Raises ProgrammingError, NotSupportedError, InterfaceError."""
        self._check_open()
        control = control_of(sql)
        match control.action:
            case Action.BEGIN:
                self.settle()
                self._set_modes(control)
                self._modes.block = True
            case Action.SET if self._automatic:
                raise InterfaceError("SET TRANSACTION belongs into a transaction: BEGIN first.")
            case Action.SET | Action.SET_SESSION:
                self._set_modes(control)
            case Action.COMMIT:
                self.commit()
            case Action.ROLLBACK:
                self.rollback()
            case Action.SAVEPOINT:
                self.savepoint(control.name)
            case Action.ROLLBACK_TO:
                self.rollback_to(control.name)
            case Action.RELEASE:
                self.release(control.name)

    def prepare(self, sql: str) -> None:
        """Keep the statement of PREPARE under its name. A query is planned at once. Raises
        ProgrammingError, NotSupportedError, and the errors of the plan."""
        self._check_open()
        name, statement = prepared_of(sql)
        if name in self._prepared:
            raise ProgrammingError(
                f"There is a prepared statement {name} already.\n  DEALLOCATE {name} before."
            )
        if kind(statement.sql) is Kind.READ:
            self.explain(statement.sql, ())
        self._prepared[name] = statement

    def prepared(self, name: str) -> Prepared:
        """A prepared statement. Raises ProgrammingError."""
        if name not in self._prepared:
            raise ProgrammingError(
                f"There is no prepared statement {name}.\n  PREPARE it on this connection."
            )
        return self._prepared[name]

    def deallocate(self, sql: str) -> None:
        """Forget the prepared statement that DEALLOCATE names, or all."""
        self._check_open()
        name = deallocated(sql)
        if name:
            self.prepared(name)
        for each in [name] if name else list(self._prepared):
            del self._prepared[each]

    def discard(self, sql: str) -> None:
        """DISCARD ALL forgets what statements have set in this session; DISCARD SEQUENCES the
        numbers of currval and lastval. Nodes keep no plans or tables of a session."""
        self._check_open()
        what = discarded(sql)
        if what == "all":
            if not self._automatic:
                raise ProgrammingError(
                    "DISCARD ALL cannot run inside a transaction.\n  Commit or roll back before."
                )
            self._prepared.clear()
            self._path.set(None, local=False)
        if what in {"all", "sequences"}:
            self._drawn, self._has_drawn = {}, False

    def query(self, sql: str, parameters: Parameters) -> dict[str, Any]:
        """Run a SELECT in the open transaction, and return the answer's document."""
        body = self._query_body(sql, parameters) | ({} if self._automatic else {"trace": True})
        answer: dict[str, Any] = persistently(
            lambda: self.transport.json("POST", "/v1/query", body)
        )
        self._note_snapshot(answer["snapshot"])
        self._note_drawn(answer)
        for layout, key, ts in answer["reads"] or ():
            self._reads.setdefault((layout, key), ts)
        self._ranges.update(dict.fromkeys(map(tuple, answer.get("ranges") or ())))
        return answer

    @contextmanager
    def query_stream(
        self, sql: str, parameters: Parameters, accept: str
    ) -> Iterator[Iterator[bytes]]:
        """Run a SELECT whose answer does not list the rows that it read. Yields the body's pieces.

        The transaction may not write afterwards, since its commit could not be validated.
        """
        if self._writes and not self._automatic:
            raise NotSupportedError("In a transaction that writes, use execute; or commit first.")
        body = self._query_body(sql, parameters)
        with self.transport.stream("/v1/query", body, {"Accept": accept}) as response:
            self._untraced = self._is_traced
            self._note_snapshot(int(response.headers["hornbeam-snapshot"]))
            yield iter(response.pieces)

    def explain(
        self, sql: str, parameters: Parameters, flags: Mapping[str, bool] = MappingProxyType({})
    ) -> dict[str, Any]:
        """The plan of a SELECT: the document of /v1/explain. `flags`: its members `analyze`,
        `costs`, `timing`, `summary` and `verbose`."""
        self._check_open()
        body: dict[str, Any] = {
            "sql": sql,
            "use_views": self.use_views,
            "trace": self._is_traced,
            "bookmark": self.bookmark,
            **self._staleness(),
            **flags,
            **self._path.member,
        }
        if parameters:
            body["parameters"] = wire_parameters(sql, parameters)
        answer: dict[str, Any] = self.transport.json("POST", "/v1/explain", body)
        return answer

    def write(self, writes: Sequence[Write]) -> None:
        """Run writes: in autocommit as a transaction, else as a dry run on top of the earlier
        writes. Inside a pipeline the writes run later."""
        self._check_open()
        self._check_sound()
        if self._untraced:
            raise NotSupportedError(
                "This transaction has read Arrow results, which cannot be validated at commit.\n"
                "  Commit or roll back before writing, or read with execute."
            )
        if self._modes.read_only:
            raise ProgrammingError("This transaction is READ ONLY.")
        self._writes += writes
        if sessions := [found for each in writes if (found := self._session(each.body["sql"]))]:
            # The first write of the request: a later one would undo what those before it draw.
            first = next(write for write in self._writes if write.result is None)
            first.body |= sessions[0]
        if self._pipelines:
            self._accepted = True
        else:
            self.settle()

    def settle(self) -> None:
        """Run all writes that have no result yet, with one request."""
        waiting = [write for write in self._writes if write.result is None]
        if not waiting:
            return
        self._check_open()
        try:
            if self._automatic:
                self._writes = []
                self._transact(waiting, {"isolation": self._modes.level.lower()})
            else:
                self._try()
        except BaseException:
            # The pipeline accepted writes that are now dropped. Without them the transaction would
            # not be the one that the caller wanted.
            self._failed = self._accepted and not self._automatic
            self._writes = [write for write in self._writes if write.result is not None]
            raise
        self._accepted = False

    def ddl(self, statement: str, parameters: Parameters = ()) -> dict[str, Any] | None:
        """Change the schema at once. The change cannot be rolled back. Returns the answer to
        setval, whose arguments may be `parameters`.

        Raises ProgrammingError inside a transaction that has written, or is READ ONLY."""
        self._check_open()
        if self._modes.read_only:
            raise ProgrammingError("This transaction is READ ONLY.")
        if self._writes:
            raise ProgrammingError(
                "This transaction has written, and a schema change would not be part of it.\n"
                "  Commit or roll back before changing the schema."
            )
        answer = execute_ddl(
            self.transport,
            statement,
            lambda sql: self._transact([Write.of(sql, ())], {}),
            wire_parameters(statement, parameters),
            self._path.names,
        )
        self._forget()
        # As in PostgreSQL, setval sets what currval gives, and leaves lastval at its sequence.
        drawn = (answer or {}).get("drawn") or {}
        self._drawn = {**dict.fromkeys(drawn, 0), **self._drawn, **drawn}
        return answer

    # ------------------------------------------------------------ inside

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("The connection is closed.")

    @property
    def _automatic(self) -> bool:
        """Is each statement its own transaction now?"""
        return self._autocommit and not self._modes.block

    @property
    def _is_traced(self) -> bool:
        """Does a commit validate what queries read now?"""
        return not self._automatic and self._modes.level != "READ COMMITTED"

    @property
    def _has_begun(self) -> bool:
        """Has the open transaction read or written?"""
        return bool(self._writes) or self._snapshot is not None or self._failed

    def _set_modes(self, control: Control) -> None:
        if self._has_begun and control[1:3] != (None, None):
            raise InterfaceError(
                "The modes of a transaction are set before its first statement.\n"
                "  Commit or roll back before."
            )
        self._modes.set(control)

    def _check_transactional(self) -> None:
        if self._automatic:
            raise InterfaceError(
                "Savepoints need a transaction, and this connection is in autocommit.\n"
                "  Set autocommit to False."
            )

    def _later_than(self, name: str) -> str:
        """Remove the savepoints after `name`. Returns `name`. Raises InterfaceError."""
        if name not in self._savepoints:
            raise InterfaceError(f"There is no savepoint {name}.")
        names = list(self._savepoints)
        for later in names[names.index(name) + 1 :]:
            del self._savepoints[later]
        return name

    def _check_sound(self) -> None:
        if self._failed:
            raise InterfaceError("A write of this transaction has failed: roll back.")

    def _end(self) -> None:
        """End the open transaction."""
        self._forget()
        self._modes.end()

    def _forget(self) -> None:
        self._snapshot = None
        self._writes = []
        self._reads = {}
        self._ranges = {}
        self._savepoints = {}
        self._replay = {}
        self._untraced = self._accepted = self._failed = False

    def _query_body(self, sql: str, parameters: Parameters) -> dict[str, Any]:
        """The body of a query. Outside of a transaction it has only members that a node can answer
        directly (decision 76)."""
        self._check_open()
        self._check_sound()
        self.settle()
        body = {
            "sql": sql,
            "parameters": wire_parameters(sql, parameters),
            "bookmark": self.bookmark,
            "use_views": self.use_views,
            "timeout_ms": self._timeout_ms,
            **self._staleness(),
            **self._session(sql),
            **self._path.member,
        }
        if self._automatic:
            return body
        return body | {
            "isolation": self._modes.level.lower(),
            "snapshot": None if self._modes.level == "READ COMMITTED" else self._snapshot,
            "pending": [write.body for write in self._writes],
            **self._replay,
        }

    def _session(self, sql: str) -> dict[str, dict[str, int]]:
        """What a statement needs to know of this session: the last numbers of sequences. It learns
        none if it asks for lastval, and setval alone has given them: lastval is an error then."""
        calls = calls_of_session(sql)
        known = self._drawn and (self._has_drawn or "lastval" not in calls)
        return {"session": dict(self._drawn)} if calls and known else {}

    def _note_drawn(self, answer: Mapping[str, Any]) -> None:
        for name, number in (answer.get("drawn") or {}).items():
            self._has_drawn = True
            self._drawn.pop(name, None)
            self._drawn[name] = number

    def _staleness(self) -> dict[str, int]:
        staleness = self.max_staleness_s
        return {} if staleness is None else {"max_staleness_ms": max(int(staleness * 1000), 1)}

    def _note_snapshot(self, snapshot: int) -> None:
        each_newer = self._automatic or self._modes.level == "READ COMMITTED"
        if each_newer and self.max_staleness_s is None:  # else later reads may be earlier
            self.bookmark = max(self.bookmark, snapshot)
        if not self._automatic and self._snapshot is None:
            self._snapshot = snapshot

    def _try(self) -> None:
        body = self._body(self._writes, {"dry_run": True, **self._replay})
        answer = persistently(lambda: self.transport.json("POST", "/v1/transactions", body))
        self._replay = {"replay": answer["replay"]} if "replay" in answer else {}
        self._note_drawn(answer)
        _give_results(self._writes, answer)

    def _transact(self, writes: Sequence[Write], more: Mapping[str, Any]) -> None:
        """Send a transaction. The request has an idempotency key, so repeating it is safe."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        body = self._body(writes, more)
        answer = persistently(
            lambda: self.transport.json("POST", "/v1/transactions", body, headers=headers)
        )
        self.bookmark = max(self.bookmark, answer["bookmark"])
        self._note_drawn(answer)
        _give_results(writes, answer)

    def _body(self, writes: Sequence[Write], more: Mapping[str, Any]) -> dict[str, Any]:
        statements = [write.body for write in writes]
        standard = {"bookmark": self.bookmark, "timeout_ms": self._timeout_ms}
        return {"statements": statements, **standard, **more}


def _give_results(writes: Sequence[Write], answer: Mapping[str, Any]) -> None:
    """Set the results of writes that have none. Existing results do not change, since the caller
    may have read them."""
    for write, result in zip(writes, answer["statements"], strict=True):
        if write.result is None:
            write.result = result
