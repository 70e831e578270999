"""The server: accepts connections, and runs a session for each."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import structlog
from starlette.types import ASGIApp

from hornbeam.errors import Error
from hornbeam.options import Options
from hornbeam.results import Results
from hornbeam.session import Session
from hornbeam.settings import quoted_text
from hornbeam_server.pgwire.codec import answers
from hornbeam_server.pgwire.codec import requests as asked
from hornbeam_server.pgwire.codec.frames import ProtocolViolation
from hornbeam_server.pgwire.ports import Gate, RowsAtOnce
from hornbeam_server.pgwire.server.backends import Backends, Served, SessionSignals
from hornbeam_server.pgwire.server.inside import Inside
from hornbeam_server.pgwire.server.start_up import START_S, Started, StartUp, fatal
from hornbeam_server.pgwire.server.wire import ALPN, Gone, Wire
from hornbeam_server.pgwire.session.conversation import Conversation
from hornbeam_server.pgwire.session.execution import Execution
from hornbeam_server.pgwire.session.failures import Failure, failure_of
from hornbeam_server.query.dialect.settings import SETTINGS
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.storage.ports import Clock, Ids

_LOG = structlog.get_logger(__name__)
_REPORTED = (
    *("server_version", "server_encoding", "client_encoding", "DateStyle", "IntervalStyle"),
    *("TimeZone", "integer_datetimes", "standard_conforming_strings"),
)
_OF_START = frozenset({"user", "database", "options", "replication"})
_FIXED = frozenset({"timezone", "datestyle"})
"""Settings with one value. Drivers send those of their machine; the server reports its own."""
_ENCODINGS = frozenset({"utf8", "utf-8", "unicode", "sql_ascii", "'utf-8'", "'utf8'"})
"""Encodings of clients. SQL_ASCII is that of a client without a locale: it takes the bytes as they
are."""
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)


@dataclass(frozen=True)
class Limits:
    """`connections` at the same time, `bytes` of a message, seconds of a statement."""

    connections: int
    bytes: int
    statement_s: float


class Listener:
    """All connections of a node."""

    def __init__(
        self,
        app: ASGIApp,
        at_once: RowsAtOnce,
        gate: Gate,
        limits: Limits,
        tls: ssl.SSLContext | None,
        ids: Ids,
        clock: Clock,
        backends: Backends,
    ) -> None:
        """`tls`: clients have to encrypt; None: they cannot. `backends` gets the sessions."""
        self._app = app
        self._at_once = at_once
        self._gate = gate
        self._limits = limits
        if tls is not None:
            tls.set_alpn_protocols([ALPN])
        self._tls = tls
        self._ids = ids
        self._clock = clock
        self._backends = backends
        self._tasks: dict[Wire, asyncio.Task[None]] = {}
        self._busy: set[Wire] = set()
        """Connections that have a request under way."""
        self._closing = False

    def protocol(self) -> Wire:
        """The protocol of a new connection, for `create_server`."""
        return Wire(self._limits.bytes, self._made, self._lost)

    async def close(self, grace_s: float) -> None:
        """End all connections. Requests that are under way may go on for `grace_s` seconds."""
        self._closing = True
        tasks = dict(self._tasks)
        for wire, task in tasks.items():
            if wire not in self._busy:
                task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks.values(), timeout=grace_s)
            for task in left:
                task.cancel()
            await asyncio.wait(tasks.values())

    def _made(self, wire: Wire) -> None:
        if len(self._tasks) >= self._limits.connections:
            failure = Failure("53300", "There are too many connections.", fatal=True)
            wire.transport.write(answers.error(failure.fields()))
            wire.close()
            return
        self._tasks[wire] = asyncio.ensure_future(self._serve(wire))

    def _lost(self, wire: Wire) -> None:
        if (task := self._tasks.get(wire)) is not None:
            task.cancel()

    async def _serve(self, wire: Wire) -> None:
        try:
            await self._session(wire)
        except Gone:
            pass
        except asyncio.CancelledError:
            with contextlib.suppress(Gone):
                failure = Failure("57P01", "The server ends the connection.", fatal=True)
                await wire.send(answers.error(failure.fields()))
        except (Failure, ProtocolViolation, HornbeamError, TimeoutError) as error:
            with contextlib.suppress(Gone):
                await wire.send(answers.error(fatal(error).fields()))
        except Exception as error:
            _LOG.error("unexpected error", exc_info=error)
        finally:
            del self._tasks[wire]
            wire.close()

    async def _session(self, wire: Wire) -> None:
        async with asyncio.timeout(START_S):
            started = await StartUp(wire, self._gate, self._tls, self._ids).run()
        if isinstance(started, asked.Cancel):
            self._backends.cancel(started)
            return
        pid, secret = self._backends.new_key(self._ids)
        inside = Inside(self._app, self._at_once, started.principal, wire.peer, pid)
        session = Session(inside, Options(autocommit=True, timeout_s=self._limits.statement_s))
        reported = partial(_reported, started, session)
        execution = Execution(session, inside)
        conversation = Conversation(execution, wire.send, reported, self._limits.bytes)
        now_ms, task = self._clock.wall_ms(), self._tasks[wire]
        served = Served(
            pid, secret, started.user, getattr(started.principal, "key", ""),
            _administers(started), wire.peer, inside, conversation,
            lambda: session.own_settings.get("application_name", ""),
            task, self._clock.wall_ms, now_ms, now_ms,
        )  # fmt: skip
        execution.signals = SessionSignals(self._backends, lambda: served, conversation.warn)
        self._backends.add(served)
        try:
            await _set_first(session, started.parameters)
            await wire.send(answers.backend_key(pid, secret))
            await conversation.begin()
            await self._converse(wire, served)
        finally:
            self._backends.remove(served)
            await conversation.end()
            await inside.close()

    async def _converse(self, wire: Wire, served: Served) -> None:
        requests = _Requests(wire)
        while not self._closing:
            request = await requests.next()
            if isinstance(request, asked.Terminate):
                return
            if isinstance(request, asked.Password):
                raise ProtocolViolation("No password was asked for.")
            self._busy.add(wire)
            served.asks(request)
            try:
                await served.conversation.handle(request, requests)
            finally:
                self._busy.discard(wire)
            served.answered(request)
        raise Failure("57P01", "The server ends the connection.", fatal=True)


class _Requests:
    """The requests of one connection."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.ahead = wire.ahead

    async def next(self) -> asked.Request:
        return asked.request_of(await self._wire.next())


async def _set_first(session: Session, parameters: Mapping[str, str]) -> None:
    """Give settings the values that the client has sent at the start. Raises Failure."""
    given = {n: v for n, v in parameters.items() if n not in _OF_START and n[:5] != "_pq_."}
    for name, value in {**given, **_options(parameters.get("options", ""))}.items():
        if name.lower() in _FIXED:
            continue
        if name.lower() == "client_encoding":
            if value.lower() not in _ENCODINGS:
                raise Failure("22023", f"There is no conversion to {value}.", fatal=True)
            continue
        if not _NAME.fullmatch(name):
            raise Failure("42704", f"There is no setting {name!r}.", fatal=True)
        try:
            shown = value if name.lower() == "search_path" else quoted_text(value)
            await Results(session).execute(f"SET {name} TO {shown or quoted_text('')}")
        except Error as error:
            found = failure_of(error)
            raise Failure(found.sqlstate, found.message, found.hint, fatal=True) from None


def _options(text: str) -> dict[str, str]:
    """The settings in the parameter `options`: `-c name=value`, `--name=value`."""
    words = text.replace("\\ ", "\0").split()
    joined = " ".join(words).replace("-c ", "-c").split()
    found = {}
    for word in joined:
        name, _, value = word.removeprefix("-c").removeprefix("--").partition("=")
        found[name.replace("-", "_")] = value.replace("\0", " ")
    return found


def _reported(started: Started, session: Session) -> dict[str, str]:
    """The settings that drivers rely on, for ParameterStatus."""
    own = session.own_settings
    return {
        **{name: SETTINGS[name][0] for name in _REPORTED},
        "application_name": own.get("application_name", ""),
        "default_transaction_read_only": own["default_transaction_read_only"],
        "in_hot_standby": "off",
        "is_superuser": "on" if _administers(started) else "off",
        "session_authorization": started.user,
    }


def _administers(started: Started) -> bool:
    return started.principal is None or started.principal.role == "admin"
