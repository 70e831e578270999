"""Serve one database over HTTP until a signal arrives. `hornbeam serve` calls this.

With several workers, each is a node of its own in a process of its own. All of them listen at the
address of the settings, and each also at one of its own, by which the other nodes know it
(decision 85).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import structlog
import uvicorn
import uvloop
from fastapi import FastAPI
from pydantic import ValidationError

from hornbeam_server import __version__
from hornbeam_server.api.rest.app import create_app
from hornbeam_server.api.rest.http_protocol import HEAD_S, BoundedProtocol, room_for
from hornbeam_server.api.rest.wire_gate import listener_of
from hornbeam_server.api.security.tls import node_contexts, renew, require_safe, server_context
from hornbeam_server.api.supervisor import Supervisor
from hornbeam_server.node import logging_setup
from hornbeam_server.node.adapters import cluster_ports, session
from hornbeam_server.node.database import Database
from hornbeam_server.node.node import Node, Serving
from hornbeam_server.node.settings import (
    Settings,
    load_settings,
    require_known,
    sealed_settings,
)
from hornbeam_server.pgwire.server.listener import Listener
from hornbeam_server.query.workers.processes import FORK_SERVER
from hornbeam_server.schema.allocator import keep_trimmed, return_freed_memory
from hornbeam_server.schema.collector import collect_when_calm, settle_collector, spare_present
from hornbeam_server.schema.errors import Corruption, HornbeamError, InvalidRequest, Unavailable
from hornbeam_server.schema.model import DATABASE
from hornbeam_server.storage.codec.implementation import implementation
from hornbeam_server.storage.local.system import SystemClock
from hornbeam_server.storage.tcp.peers import Tls
from hornbeam_server.storage.tracing import Tracer

if TYPE_CHECKING:
    from hornbeam_server.api.telemetry.export import Telemetry

_LOG = structlog.get_logger(__name__)
GRACE_S = 10
"""How long requests that are under way at a signal may go on."""
EXIT_TEMPORARY, EXIT_DAMAGED, EXIT_CONFIGURATION = 75, 65, 78
"""Exit codes of sysexits.h: try again later, damaged data, wrong settings."""
FINAL = frozenset({EXIT_CONFIGURATION, EXIT_DAMAGED})
"""Codes of errors that a process that is started again would meet, too."""
HIGHEST_PORT = 65_535


def serve(**given: Any) -> None:
    """Serve with settings from file and environment; `given` overrides them. A signal ends it.

    An error is reported as one line on standard error. The process then exits with 75 (a folder,
    port or service is not available now), 65 (damaged data) or 78 (settings).
    """
    with _exit_codes():
        require_known(os.environ)
        _serve(load_settings(**given))


def serve_sealed(**given: Any) -> None:
    """`serve` with the settings in `given` and defaults: those of another server of this machine
    do not count."""
    with _exit_codes():
        _serve(sealed_settings(**given))


def _serve(settings: Settings) -> None:
    implementation()  # a wrong choice ends the server before it opens anything
    if settings.workers > 1:
        _supervise(settings)
    else:
        _serve_here(settings, partial(_begun, settings))


def _serve_here(settings: Settings, started: Callable[[str], None], **more: Any) -> None:
    logging_setup.configure(settings.log_level)
    os.umask(0o077)  # for files of RocksDB and DuckDB, on file systems without access lists
    settle_collector()
    return_freed_memory()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(settings, started, **more))


@contextlib.contextmanager
def _exit_codes() -> Iterator[None]:
    """End the process with a code of sysexits.h and one line on standard error after an error."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        _exit(EXIT_CONFIGURATION, f"Setting {name}: {first['msg']}.")
    except InvalidRequest as error:
        _exit(EXIT_CONFIGURATION, str(error))
    except Corruption as error:
        _exit(EXIT_DAMAGED, str(error))
    except HornbeamError as error:
        _exit(EXIT_TEMPORARY, str(error))


def _supervise(settings: Settings) -> None:
    """Serve with several nodes. Raises InvalidRequest and Unavailable."""
    if settings.store == "embedded":
        raise InvalidRequest(
            f"An embedded database belongs to one process, so it cannot have {settings.workers} "
            "workers.",
            cure="Leave workers at 1: long statements run in processes of their own "
            '(query_places) all the same. For more cores, set store = "hbase" (docs/nodes.md).',
        )
    if settings.postgresql_port == 0:
        raise InvalidRequest(
            "Workers share one port of PostgreSQL's protocol, so 0 cannot pick it.",
            cure="Choose postgresql_port, such as 5432.",
        )
    for name in ("worker_port", "peer_port"):
        if (first := getattr(settings, name)) and first + settings.workers - 1 > HIGHEST_PORT:
            raise InvalidRequest(
                f"{name} = {first} leaves no ports for {settings.workers} workers.",
                cure=f"Choose at most {HIGHEST_PORT + 1 - settings.workers}.",
            )
    require_safe(settings)
    logging_setup.configure(settings.log_level)
    with contextlib.closing(_reserve(settings)) as reserved:
        shared = settings.model_copy(update={"port": reserved.getsockname()[1]})
        url = _url(reserved, secure=server_context(settings) is not None)
        supervisor = Supervisor(
            _WorkerNode(shared),
            settings.workers,
            final=FINAL,
        )
        code = asyncio.run(supervisor.run(lambda: _announce(settings, url, settings.workers)))
    raise SystemExit(code)


@dataclass(frozen=True)
class _WorkerNode:
    """The work of one process of several: a node."""

    settings: Settings
    """The settings of all, with the port at which all of them listen."""

    def __call__(self, number: int, supervisor: Connection) -> None:
        with _exit_codes(), contextlib.closing(_listen(self.settings, shared=True)) as shared:
            _serve_here(
                self._of(number),
                lambda _: _tell(supervisor),
                shared=shared,
                supervisor=supervisor,
            )

    def _of(self, number: int) -> Settings:
        """The settings of one worker: folders and ports of its own."""
        given = self.settings

        def port(first: int) -> int:
            return first and first + number - 1

        peer_host, _, peer_port = given.peer_address.rpartition(":")
        own = {
            "data": given.data / f"worker-{number}",
            "port": port(given.worker_port),
            "peer_port": port(given.peer_port),
            "peer_address": peer_host and f"{peer_host}:{port(int(peer_port))}",
        }
        return given.model_copy(update=own)


def _tell(supervisor: Connection) -> None:
    spare_present()
    supervisor.send(None)


async def run(
    settings: Settings,
    started: Callable[[str], None],
    *,
    shared: socket.socket | None = None,
    supervisor: Connection | None = None,
) -> None:
    """Open the database and serve it until SIGINT or SIGTERM. Calls `started` with the URL.

    A worker also listens at `shared`, the address of all workers, and also ends when `supervisor`
    is closed at the other end.

    A second SIGINT does not wait for requests under way; SIGHUP reads the certificates again. The
    database is closed with a checkpoint in any case. Raises InvalidRequest for settings that would
    be unsafe (`api/security/tls.py`) or cannot be used, Unavailable when the folder or the port is
    in use.
    """
    require_safe(settings)
    context, tls = server_context(settings), node_contexts(settings)
    FORK_SERVER.start()
    trimming = asyncio.ensure_future(keep_trimmed())
    with (
        contextlib.closing(_listen(settings)) as listening,
        _wire_socket(settings) as wire_socket,
        _cancelled_at_the_end(trimming),
    ):
        url = _url(listening, secure=context is not None)
        address = settings.address or url
        if shared is not None:
            address = _at_port(address, listening.getsockname()[1])
        async with (
            _telemetry(settings, address) as telemetry,
            _opened(settings, address, tls, telemetry) as (serving, ended),
        ):
            app = create_app(settings, serving, _tracer(telemetry))
            wire = None if wire_socket is None else listener_of(app, settings, context)
            config = uvicorn.Config(
                app,
                http=BoundedProtocol,
                ws="none",
                limit_concurrency=room_for(settings.max_connections) + 1,
                access_log=False,
                log_config=None,
                timeout_graceful_shutdown=GRACE_S,
                ssl_context_factory=None if context is None else _handing_out(context),
                proxy_headers=settings.tls_by_proxy,
            )

            def announce() -> None:
                if wire_socket is not None:
                    _announce_wire(wire_socket)
                started(url)

            server = _Server(config, announce, serving.end_lasting, wire, wire_socket)
            ended.add_done_callback(lambda _: setattr(server, "should_exit", True))
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, server.handle_exit, number, None)
            loop.add_signal_handler(signal.SIGHUP, _renew, settings, context, tls)
            if supervisor is not None:
                loop.add_reader(supervisor.fileno(), _end_without, supervisor, server)
            collecting = asyncio.ensure_future(collect_when_calm())
            async with _measuring(telemetry, app, serving):
                with _cancelled_at_the_end(collecting):
                    await server.serve(
                        sockets=[listening] if shared is None else [listening, shared]
                    )


@contextlib.contextmanager
def _cancelled_at_the_end(task: asyncio.Future[None]) -> Iterator[None]:
    try:
        yield
    finally:
        task.cancel()


@contextlib.asynccontextmanager
async def _telemetry(settings: Settings, address: str) -> AsyncIterator[Telemetry | None]:
    """Traces and metrics for a receiver, if the settings ask for them. Raises InvalidRequest."""
    if not settings.telemetry or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        yield None
        return
    try:
        from hornbeam_server.api.telemetry.export import Telemetry
    except ImportError as error:
        raise InvalidRequest(
            f"Telemetry needs packages that are not installed ({error.name}).",
            cure="Install them (pip install 'hornbeam-server[otel]'), or set telemetry to false.",
        ) from None
    telemetry = Telemetry(address)
    try:
        yield telemetry
    finally:
        await telemetry.close()


def _tracer(telemetry: Telemetry | None) -> Tracer | None:
    return None if telemetry is None else telemetry.tracer


def _measuring(
    telemetry: Telemetry | None, app: FastAPI, serving: Serving
) -> contextlib.AbstractAsyncContextManager[None]:
    """A context in which the metrics of the application are sent."""
    if telemetry is None:
        return contextlib.nullcontext()
    return telemetry.measuring(app.state.metrics, serving)


def _opened(
    settings: Settings, address: str, tls: Tls | None, telemetry: Telemetry | None
) -> contextlib.AbstractAsyncContextManager[tuple[Serving, asyncio.Future[None]]]:
    if settings.store == "embedded":
        return _embedded(settings)
    return _node(settings, address, tls, _tracer(telemetry))


@contextlib.asynccontextmanager
async def _embedded(settings: Settings) -> AsyncIterator[tuple[Serving, asyncio.Future[None]]]:
    """Open the embedded database. The future is done when serving must end: here never."""
    async with await Database.open(settings) as database:
        yield Serving(database), asyncio.get_running_loop().create_future()


@contextlib.asynccontextmanager
async def _node(
    settings: Settings, address: str, tls: Tls | None, tracer: Tracer | None
) -> AsyncIterator[tuple[Serving, asyncio.Future[None]]]:
    """Run a node of a cluster. The future is done when no further term can serve. On exit raises
    the reason."""

    async def join() -> Database:
        coordination = await session(settings)
        return await Database.join(
            settings, cluster_ports(settings, coordination, tls, tracer), address
        )

    serving = Serving()
    running = asyncio.ensure_future(Node(serving, join, SystemClock()).run())
    try:
        yield serving, running
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


class _Server(uvicorn.Server):
    """A uvicorn server that calls `started` when it listens and `ending` before it waits for the
    requests under way, and limits the time of TLS handshakes. The event loop handles the signals,
    so that the database is closed before the process ends."""

    def __init__(
        self,
        config: uvicorn.Config,
        started: Callable[[], None],
        ending: Callable[[], None],
        wire: Listener | None,
        wire_socket: socket.socket | None,
    ) -> None:
        super().__init__(config)
        self._wire = wire
        self._wire_socket = wire_socket
        self._on_started = started
        self._on_ending = ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        loop, tls = asyncio.get_running_loop(), self.config.ssl
        for listening in sockets or []:
            server = await loop.create_server(
                self._protocol,
                sock=listening,
                backlog=self.config.backlog,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else HEAD_S,
            )
            self.servers.append(server)
        if self._wire is not None and self._wire_socket is not None:
            protocol, listening = self._wire.protocol, self._wire_socket
            self.servers.append(await loop.create_server(protocol, sock=listening))
        self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_ending()
        if self._wire is not None:
            for server in self.servers:
                server.close()
            await self._wire.close(GRACE_S)
        await super().shutdown(sockets)

    def _protocol(self) -> BoundedProtocol:
        return BoundedProtocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _renew(settings: Settings, context: ssl.SSLContext | None, tls: Tls | None) -> None:
    """Read the certificates for clients and for nodes again. Without certificates SIGHUP does
    nothing, but needs a handler: by default it ends the process with the database open."""
    if context is None and tls is None:
        _LOG.info("there are no certificates to read again")
    if context is not None:
        renew([context], settings, settings.tls_client_ca)
    if tls is not None:
        renew(tls, settings, settings.node_ca)


def _handing_out(context: ssl.SSLContext) -> Callable[..., ssl.SSLContext]:
    return lambda *_: context


def _end_without(supervisor: Connection, server: uvicorn.Server) -> None:
    """The supervisor has ended: it never sends anything."""
    asyncio.get_running_loop().remove_reader(supervisor.fileno())
    server.handle_exit(signal.SIGTERM, None)


def _listen(settings: Settings, *, shared: bool = False) -> socket.socket:
    """A socket that listens where the settings say. `shared`: other workers listen there, too."""
    return _listen_at(settings, settings.port, shared=shared)


@contextlib.contextmanager
def _wire_socket(settings: Settings) -> Iterator[socket.socket | None]:
    """A socket for PostgreSQL's protocol, which all workers share; None without a port for it."""
    if settings.postgresql_port is None:
        yield None
        return
    shared = settings.workers > 1
    with contextlib.closing(_listen_at(settings, settings.postgresql_port, shared=shared)) as found:
        yield found


def _listen_at(settings: Settings, port: int, *, shared: bool) -> socket.socket:
    family = _family(settings)
    try:
        return socket.create_server(
            (settings.host, port), family=family, backlog=2_048, reuse_port=shared
        )
    except OSError as error:
        raise _not_free(settings, port, error) from None


def _reserve(settings: Settings) -> socket.socket:
    """A socket that keeps the port for the workers, and does not listen itself. Raises Unavailable
    when another program has the port, whether or not it would share the port."""
    with socket.socket(_family(settings)) as alone:
        reserved = socket.socket(_family(settings))
        try:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind((settings.host, settings.port))
            port = alone.getsockname()[1]
            alone.close()
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            reserved.bind((settings.host, port))
        except OSError as error:
            reserved.close()
            raise _not_free(settings, settings.port, error) from None
        return reserved


def _family(settings: Settings) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in settings.host else socket.AF_INET


def _not_free(settings: Settings, port: int, error: OSError) -> Unavailable:
    return Unavailable(
        f"Cannot listen on {settings.host}:{port}: {error.strerror}.",
        cure="Stop what listens there, or choose another port (0: any free one).",
    )


def _url(listening: socket.socket, *, secure: bool) -> str:
    host, port = listening.getsockname()[:2]
    return _url_of("https" if secure else "http", host, port)


def _at_port(url: str, port: int) -> str:
    """The URL of the same host at another port."""
    parts = urlsplit(url)
    return _url_of(parts.scheme, parts.hostname or "", port)


def _url_of(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _begun(settings: Settings, url: str) -> None:
    spare_present()
    _announce(settings, url)


def _announce(settings: Settings, url: str, workers: int = 1) -> None:
    with_workers = f" with {workers} workers" if workers > 1 else ""
    pages = f"console: {url}/, API: {url}/docs" if settings.console else f"API: {url}/docs"
    print(f"Hornbeam {__version__} listens on {url}{with_workers} ({pages})", flush=True)


def _announce_wire(listening: socket.socket) -> None:
    url = _url_of("postgresql", *listening.getsockname()[:2])
    print(f"Clients of PostgreSQL connect to {url}/{DATABASE}", flush=True)


def _exit(code: int, message: str) -> NoReturn:
    print(f"hornbeam: {message}", file=sys.stderr)
    raise SystemExit(code)
