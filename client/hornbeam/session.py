"""Sessions: transactions, bookmarks, retries, for connections of both kinds.

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

What may wait is a coroutine. `connection.py` runs it over requests that block, `aio/connection.py`
in an event loop (`waiting.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from hornbeam.ddl import execute_ddl
from hornbeam.errors import Error, InterfaceError, NotSupportedError, ProgrammingError
from hornbeam.isolation import ENDING, Action, Control, Modes, control_of, level_of
from hornbeam.namespaces import PUBLIC, SearchPath, Setting
from hornbeam.options import Options
from hornbeam.prepared import Prepared, deallocated, discarded, prepared_of
from hornbeam.restarting import refused_change, setval_arguments, setval_of
from hornbeam.settings import (
    TENTATIVE,
    VIEW_WAIT_MS,
    Settings,
    asks_for_settings,
    name_shown,
    quoted_text,
    with_own_settings,
)
from hornbeam.statements import (
    Kind,
    cached_for_statements,
    calls_of_session,
    draws,
    is_setval,
    kind,
    may_show,
    sets_comment,
)
from hornbeam.transaction import Transaction, refused_write
from hornbeam.transport import NONE, Requests, encode, encode_text, repeated, utf8
from hornbeam.types import Parameters, wire_parameters
from hornbeam.writes import Write, give_results


class Session:
    """The transactions of one connection, over `requests`.

    `bookmark` is the commit timestamp of the last transaction on this connection. Later reads on
    this connection, or on another connection that gets the bookmark, see that transaction (except
    in statements that name deferred views). In autocommit, reads raise it to their snapshot,
    unless the connection allows staleness. `use_views` and `max_staleness_s` apply from the next
    statement on.
    """

    def __init__(self, requests: Requests, options: Options) -> None:
        self._requests = requests
        self.bookmark = 0
        self.use_views = options.use_views
        self.max_staleness_s = options.max_staleness_s
        self._connection_limit_ms = max(int(options.timeout_s * 1000), 1)
        self._autocommit = options.autocommit
        self._modes = Modes(options.isolation)
        self._path = SearchPath(options.search_path)
        self._settings = Settings(options.consistency)
        self._pipelines = 0
        self._closed = False
        self._drawn: dict[str, int] = {}
        """The last number that this connection has taken from each sequence, for currval; the last
        one at the end, for lastval."""
        self._has_drawn = False
        """Has nextval given one of them? Then lastval is defined."""
        self._prepared: dict[str, Prepared] = {}
        self._open = Transaction()

    # ------------------------------------------------------------ transactions

    async def commit(self) -> None:
        """Make the transaction's writes durable, all or none.

        Raises OperationalError with code "read-conflict" when a row that the transaction read has
        changed; at SERIALIZABLE also when a row has begun to match one of its queries. Then retry
        the transaction (`run` does so automatically). Rolls back a transaction that a failed
        statement has aborted, and raises InternalError with code "failed-transaction".
        """
        self.check_open()
        ended, level = self._open, self._modes.level.lower()
        if ended.failure:
            self.rollback()
            raise ended.rolled_back()
        rests_on = {
            "reads": [[layout, key, ts] for (layout, key), ts in ended.reads.items()],
            "ranges": list(ended.ranges),
        }
        bookmark = max(self.bookmark, ended.snapshot or 0)
        self._end()
        self._path.commit()
        self._settings.commit()
        if ended.writes:
            more = {"bookmark": bookmark, "isolation": level, **ended.replay}
            await self._transact(ended.writes, {**rests_on, **more})
        self.bookmark = max(self.bookmark, bookmark)

    def rollback(self) -> None:
        """Discard the transaction. The server holds no state of it."""
        self.check_open()
        self._end()
        self._path.rollback()
        self._settings.rollback()

    def close(self) -> bool:
        """Roll back. Returns whether the session was open."""
        was_open = not self._closed
        if was_open:
            self._end()
            self._closed = True
        return was_open

    @property
    def autocommit(self) -> bool:
        """True: each statement is its own transaction."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if value != self._autocommit:
            if self._open.writes or self._open.failure:
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
    def consistency(self) -> str:
        """That of queries: snapshot or tentative."""
        return self._settings.consistency

    @property
    def search_path(self) -> tuple[str, ...]:
        """The schemas in which names without a schema are searched for, in their order. A new
        relation is in the first one that exists. SET search_path sets it, too."""
        return (PUBLIC,) if self._path.names is None else self._path.names

    @property
    def behind_s(self) -> float:
        """Staleness, in seconds, of the node that sent the last answer. A node that is disconnected
        from the other nodes reports the seconds since it last learned of commits: its answers are
        as of that time. 0.0: the node is connected."""
        return self._requests.behind_s

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def in_transaction(self) -> bool:
        """Whether there is an open transaction, which commit or rollback would end."""
        return self._modes.block or self._open.has_begun

    @property
    def in_block(self) -> bool:
        """Has BEGIN opened a transaction that has not ended?"""
        return self._modes.block

    @property
    def is_aborted(self) -> bool:
        """Has a failed statement aborted the open transaction?"""
        return bool(self._open.failure)

    @property
    def savepoints(self) -> int:
        """Number of savepoints of the open transaction."""
        return len(self._open.savepoints)

    def abort(self, error: BaseException) -> None:
        """Abort the open transaction, if any, because of an error outside of its statements."""
        if not self._automatic:
            self._open.abort(error)

    @property
    def timeout_s(self) -> float:
        """The time limit of the connection's statements."""
        return self._connection_limit_ms / 1000

    @property
    def statement_limit_s(self) -> float:
        """That of statements now: the value of SET statement_timeout, or `timeout_s`."""
        return self._time_limit_ms / 1000

    @property
    def _time_limit_ms(self) -> int:
        return self._settings.time_limit_ms or self._connection_limit_ms

    def check_open(self) -> None:
        if self._closed:
            raise InterfaceError("The connection is closed.")

    def begin_pipeline(self) -> None:
        """Collect the writes that follow."""
        self._pipelines += 1

    async def end_pipeline(self, *, failed: bool) -> None:
        """Run the collected writes at the end of the outermost pipeline. `failed`: the block of the
        pipeline raised an exception."""
        self._pipelines -= 1
        if failed and self._automatic:
            self._forget()
        if not failed and not self._pipelines:
            await self.settle()

    async def savepoint(self, name: str) -> None:
        """Set a savepoint. It replaces an older savepoint with the same name.

        Raises InterfaceError in autocommit, as `rollback_to` and `release` do: there each statement
        is its own transaction, which has no savepoints.
        """
        with self.statement():
            self._check_transactional()
            await self.settle()
            self._open.savepoint(name)
            self._modes.savepoint(name)

    def rollback_to(self, name: str) -> None:
        """Discard the writes since a savepoint. The savepoint stays. The recorded reads also stay:
        the commit validates them. An aborted transaction goes on."""
        with self.statement(ignored=False):
            self._check_transactional()
            self._open.rollback_to(name)
            self._modes.rollback_to(name)

    def release(self, name: str) -> None:
        """Remove a savepoint and the later ones. The writes stay."""
        with self.statement():
            self._check_transactional()
            self._open.release(name)
            self._modes.release(name)

    async def schema_document(self) -> dict[str, Any]:
        """The schema in force: the document of /v1/schema."""
        self.check_open()
        document: dict[str, Any] = await self._requests.json("GET", "/v1/schema")
        return document

    async def ping(self) -> None:
        """Check the connection. Raises OperationalError when the database cannot be reached."""
        self.check_open()
        await self._requests.json("GET", "/livez")

    def retry_pause_s(self, error: BaseException, attempt: int, attempts: int) -> float | None:
        """Roll back after attempt `attempt` of `attempts`, from 0. Returns the seconds until the
        next one; None if the error is final."""
        self._end()
        retryable = isinstance(error, Error) and error.retryable
        return min(0.002 * 2**attempt, 0.2) if retryable and attempt < attempts - 1 else None

    # ------------------------------------------------------------ for cursors

    @contextmanager
    def statement(self, *, ignored: bool = True) -> Iterator[None]:
        """Run a statement. One that fails aborts the open transaction. An InterfaceError does not:
        the client was used wrongly, and has sent nothing.

        `ignored`: an aborted transaction refuses the statement (InternalError).
        """
        self.check_open()
        transaction = self._open
        if ignored and transaction.failure:
            raise transaction.aborted()
        try:
            yield
        except (InterfaceError, GeneratorExit):  # the latter when an iterator of rows is closed
            raise
        except BaseException as error:
            if not self._automatic:
                transaction.abort(error)
            raise

    async def set_path(self, setting: Setting) -> None:
        """Set the search path of later statements. Raises InterfaceError for SET LOCAL outside of a
        transaction."""
        self.check_open()
        await self.settle()
        if setting.local and self._automatic:
            raise InterfaceError("SET LOCAL belongs into a transaction: BEGIN first.")
        self._path.set(setting.path, local=setting.local)
        if self._automatic:
            self._path.commit()
            self._settings.commit()

    @property
    def path_member(self) -> dict[str, list[str]]:
        """The search path as a member of a request's body."""
        return self._path.member

    async def control(self, sql: str) -> str:
        """Run BEGIN, COMMIT, ROLLBACK, SAVEPOINT, SET TRANSACTION and the like. Outside of a
        transaction, on a connection in autocommit, COMMIT and ROLLBACK do nothing, as in
        PostgreSQL. COMMIT of an aborted transaction rolls it back: the result says so, and is ""
        otherwise. Raises ProgrammingError, NotSupportedError, InterfaceError."""
        control, failure = control_of(sql), self._open.failure
        if control.action is Action.COMMIT and failure:
            self.rollback()
            return f"COMMIT has rolled back, since a statement has failed: {failure}"
        with self.statement(ignored=control.action not in ENDING):
            await self._carry_out(control)
        return ""

    async def set_mode(self, name: str, value: str) -> bool:
        """SET of a mode of transactions, such as default_transaction_isolation. Returns False for
        another setting. Raises InterfaceError."""
        control = self._modes.controlled(name.lower(), value)
        if control is not None:
            await self._carry_out(control)
        return control is not None

    def set_kept(self, name: str, value: str, *, local: bool) -> bool:
        """SET of a setting that the session keeps. Returns False for another one. Raises
        InterfaceError for a value that it cannot have."""
        kept = self._settings.set(name.lower(), value, local=local)
        if self._automatic:
            self._settings.commit()
        return kept

    def reset_kept(self) -> None:
        """RESET ALL of the settings that the session keeps."""
        self._settings.reset()
        if self._automatic:
            self._settings.commit()

    @property
    def own_settings(self) -> dict[str, str]:
        """The values of settings that this session has for itself, by their names."""
        return {**self._modes.values, **self._settings.values}

    async def _carry_out(self, control: Control) -> None:
        self.check_open()
        match control.action:
            case Action.BEGIN:
                await self.settle()
                self._set_modes(control)
                self._modes.block = True
            case Action.SET if self._automatic:
                raise InterfaceError("SET TRANSACTION belongs into a transaction: BEGIN first.")
            case Action.SET | Action.SET_SESSION:
                self._set_modes(control)
            case Action.COMMIT:
                await self.commit()
            case Action.ROLLBACK:
                self.rollback()
            case Action.SAVEPOINT:
                await self.savepoint(control.name)
            case Action.ROLLBACK_TO:
                self.rollback_to(control.name)
            case Action.RELEASE:
                self.release(control.name)

    async def prepare(self, sql: str) -> None:
        """Keep the statement of PREPARE under its name. A query is planned at once. Raises
        ProgrammingError, NotSupportedError, and the errors of the plan."""
        self.check_open()
        name, statement = prepared_of(sql)
        if name in self._prepared:
            raise ProgrammingError(
                f"There is a prepared statement {name} already.\n  DEALLOCATE {name} before."
            )
        if kind(statement.sql) is Kind.READ:
            await self.explain(statement.sql, ())
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
        self.check_open()
        name = deallocated(sql)
        if name:
            self.prepared(name)
        for each in [name] if name else list(self._prepared):
            del self._prepared[each]

    def discard(self, sql: str) -> None:
        """DISCARD ALL forgets what statements have set in this session; DISCARD SEQUENCES the
        numbers of currval and lastval. Nodes keep no plans or tables of a session."""
        self.check_open()
        what = discarded(sql)
        if what == "all":
            if not self._automatic:
                raise ProgrammingError(
                    "DISCARD ALL cannot run inside a transaction.\n  Commit or roll back before."
                )
            self._prepared.clear()
            self._modes.reset()
            self._path.set(None, local=False)
            self._settings.reset()
            self._path.commit()
            self._settings.commit()
        if what in {"all", "sequences"}:
            self._drawn, self._has_drawn = {}, False

    async def query(self, sql: str, parameters: Parameters) -> dict[str, Any]:
        """Run a SELECT in the open transaction, and return the answer's document."""
        body = await self.query_body(sql, parameters, trace=True)
        answer = await self._persistently("/v1/query", body)
        self.note_answer(answer)
        if may_show(sql) and name_shown(sql) == "all":
            own = self.own_settings
            answer["rows"] = [[name, own.get(name, value), t] for name, value, t in answer["rows"]]
        return answer

    def note_answer(self, answer: Mapping[str, Any]) -> None:
        """Note what an answer to `query_body` says behind its rows: its snapshot, and the rows that
        the open transaction has read."""
        self._note_snapshot(answer["snapshot"])
        self._note_drawn(answer)
        if reads := answer["reads"]:
            for layout, key, ts in reads:
                self._open.reads.setdefault((layout, key), ts)
        if ranges := answer.get("ranges"):
            self._open.ranges.update(dict.fromkeys(map(tuple, ranges)))

    async def query_body(self, sql: str, parameters: Parameters, *, trace: bool = False) -> bytes:
        """The body of a query, as JSON. Outside of a transaction it has only members that a node
        can answer directly (decision 76). `trace`: inside a transaction the answer lists the rows
        that were read, which `note_answer` takes."""
        self.check_open()
        if self._modes.read_only and draws(sql):
            raise refused_write("This transaction is READ ONLY, and nextval takes a number.")
        await self.settle()
        sql = self._with_settings(sql)
        values = encode_text(wire_parameters(sql, parameters))
        members = f'"sql":{_literal(sql)},"parameters":{values},{self._standard()}'
        more: dict[str, Any] = {**self._session(sql), **self._path.member}
        if not self._automatic:
            read_committed = self._modes.level == "READ COMMITTED"
            more |= {
                "isolation": self._modes.level.lower(),
                "snapshot": None if read_committed else self._open.snapshot,
                "pending": [write.body for write in self._open.writes],
                **self._open.replay,
            }
            if trace:
                more["trace"] = True
        return utf8(f"{{{members},{encode_text(more)[1:]}" if more else f"{{{members}}}")

    async def streamed_body(self, sql: str, parameters: Parameters) -> bytes:
        """The body of a SELECT whose answer does not list the rows that it read.

        The transaction may not write afterwards, since its commit could not be validated.
        """
        if self._open.writes and not self._automatic:
            raise NotSupportedError("In a transaction that writes, use execute; or commit first.")
        return await self.query_body(sql, parameters)

    def note_streamed(self, headers: Mapping[str, str]) -> None:
        """Note the snapshot of an answer that is streamed."""
        self._open.untraced = self._is_traced
        self._note_snapshot(int(headers["hornbeam-snapshot"]))

    async def explain(
        self, sql: str, parameters: Parameters, flags: Mapping[str, bool] = MappingProxyType({})
    ) -> dict[str, Any]:
        """The plan of a SELECT: the document of /v1/explain. `flags`: its members `analyze`,
        `costs`, `timing`, `summary` and `verbose`."""
        self.check_open()
        body: dict[str, Any] = {
            "sql": sql,
            "use_views": self.use_views,
            "trace": self._is_traced,
            "bookmark": self.bookmark,
            **self._staleness(),
            **({"consistency": TENTATIVE} if self.consistency == TENTATIVE else {}),
            **flags,
            **self._path.member,
        }
        if parameters:
            body["parameters"] = wire_parameters(sql, parameters)
        answer: dict[str, Any] = await self._requests.json("POST", "/v1/explain", body)
        return answer

    async def write(self, writes: Sequence[Write]) -> None:
        """Run writes: in autocommit as a transaction, else as a dry run on top of the earlier
        writes. Inside a pipeline the writes run later."""
        self.check_open()
        if self._open.untraced:
            raise NotSupportedError(
                "This transaction has read Arrow results, which cannot be validated at commit.\n"
                "  Commit or roll back before writing, or read with execute."
            )
        if self._modes.read_only:
            raise refused_write("This transaction is READ ONLY.")
        for write in writes:
            write.body["sql"] = self._with_settings(write.body["sql"])
        self._open.writes += writes
        if sessions := [found for each in writes if (found := self._session(each.body["sql"]))]:
            # The first write of the request: a later one would undo what those before it draw.
            first = next(write for write in self._open.writes if write.result is None)
            first.body |= sessions[0]
        if not self._pipelines:
            await self.settle()

    async def settle(self) -> None:
        """Run all writes that have no result yet, with one request."""
        waiting = [write for write in self._open.writes if write.result is None]
        if not waiting:
            return
        transaction = self._open
        try:
            with self.statement():
                if self._automatic:
                    transaction.writes = []
                    await self._transact(waiting, {"isolation": self._modes.level.lower()})
                else:
                    await self._try()
        except BaseException:
            transaction.writes = [write for write in transaction.writes if write.result is not None]
            raise

    async def ddl(self, statement: str, parameters: Parameters = ()) -> dict[str, Any]:
        """Change the schema at once. The change cannot be rolled back. Returns what `execute_ddl`
        does; the arguments of setval may be `parameters`.

        Raises ProgrammingError inside a transaction that is READ ONLY, or has written. The latter
        may have COMMENT ON, which no write notices."""
        self.check_open()
        if self._modes.read_only:
            raise refused_write("This transaction is READ ONLY.")
        within = self.in_transaction and is_setval(statement)
        if within:  # with the values that its arguments have in the transaction
            answer = await self.query(setval_arguments(statement), parameters)
            statement, parameters = setval_of(answer["rows"]), ()
        elif self._open.writes and not sets_comment(statement):
            raise refused_change()
        values, names = wire_parameters(statement, parameters), self._path.names
        answer = await execute_ddl(self._requests, statement, self._fill, values, names)
        if not (within or sets_comment(statement)):
            self._forget()
        # As in PostgreSQL, setval sets what currval gives, and leaves lastval at its sequence: the
        # last of these.
        drawn = answer.get("drawn") or {}
        new = {name: number for name, number in drawn.items() if name not in self._drawn}
        self._drawn = {**new, **self._drawn, **drawn}
        return answer

    # ------------------------------------------------------------ inside

    async def _fill(self, insert: str) -> int:
        """Fill a new table. Returns the number of rows."""
        write = Write.of(insert, ())
        await self._transact([write], {})
        return int(write.result["affected"]) if write.result else 0

    @property
    def _automatic(self) -> bool:
        """Is each statement its own transaction now?"""
        return self._autocommit and not self._modes.block

    @property
    def _is_traced(self) -> bool:
        """Does a commit validate what queries read now?"""
        return not self._automatic and self._modes.level != "READ COMMITTED"

    def _set_modes(self, control: Control) -> None:
        if self._open.has_begun and self._modes.sets_late(control):
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

    def _end(self) -> None:
        """End the open transaction."""
        self._forget()
        self._modes.end()

    def _forget(self) -> None:
        self._open = Transaction()

    def _with_settings(self, sql: str) -> str:
        """The statement, with the session's own values of the settings that it asks for."""
        if may_show(sql):
            name, own = name_shown(sql), self.own_settings
            return f'SELECT {quoted_text(own[name])} AS "{name}"' if name in own else sql
        return with_own_settings(sql, self.own_settings) if asks_for_settings(sql) else sql

    def _standard(self) -> str:
        """Members of each query, as JSON."""
        fresh = self._freshness()
        views = "true" if self.use_views else "false"
        text = (
            f'"bookmark":{self.bookmark:d},"use_views":{views},"timeout_ms":{self._time_limit_ms}'
        )
        if self._settings.consistency == TENTATIVE:
            text += f',"consistency":"{TENTATIVE}"'
        return f"{text},{encode_text(fresh)[1:-1]}" if fresh else text

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

    def _freshness(self) -> dict[str, int]:
        """Members of a query: how fresh deferred views are that answer it."""
        asked = self._staleness()
        if self._settings.views_show_own_writes:
            asked["view_bookmark"] = self.bookmark
        return asked | {"view_wait_ms": VIEW_WAIT_MS} if asked else {}

    def _staleness(self) -> dict[str, int]:
        milliseconds = self._settings.max_staleness_ms
        if milliseconds is None and self.max_staleness_s is not None:
            milliseconds = max(int(self.max_staleness_s * 1000), 1)
        return {} if milliseconds is None else {"max_staleness_ms": milliseconds}

    def _note_snapshot(self, snapshot: int) -> None:
        each_newer = self._automatic or self._modes.level == "READ COMMITTED"
        if each_newer and not self._staleness():  # else later reads may be earlier
            self.bookmark = max(self.bookmark, snapshot)
        if not self._automatic and self._open.snapshot is None:
            self._open.snapshot = snapshot

    async def _try(self) -> None:
        body = self._body(self._open.writes, {"dry_run": True, **self._open.replay})
        answer = await self._persistently("/v1/transactions", body)
        self._open.replay = {"replay": answer["replay"]} if "replay" in answer else {}
        self._note_drawn(answer)
        give_results(self._open.writes, answer)

    async def _transact(self, writes: Sequence[Write], more: Mapping[str, Any]) -> None:
        """Send a transaction. The request has an idempotency key, so repeating it is safe."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        body = self._body(writes, more)
        answer = await self._persistently("/v1/transactions", body, headers)
        self.bookmark = max(self.bookmark, answer["bookmark"])
        self._note_drawn(answer)
        give_results(writes, answer)

    async def _persistently(
        self, path: str, body: Any, headers: Mapping[str, str] = NONE
    ) -> dict[str, Any]:
        """The answer to a request that is safe to repeat."""
        content = body if isinstance(body, bytes) else encode(body)
        requests = self._requests
        answer: dict[str, Any] = await repeated(
            lambda: requests.json("POST", path, content, headers), requests.pause
        )
        return answer

    def _body(self, writes: Sequence[Write], more: Mapping[str, Any]) -> dict[str, Any]:
        statements = [write.body for write in writes]
        standard = {"bookmark": self.bookmark, "timeout_ms": self._time_limit_ms}
        return {"statements": statements, **standard, **more}


_literal = cached_for_statements(encode_text)
"""A statement as a string of JSON."""
