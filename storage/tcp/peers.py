"""Messages between members over TCP: `TcpPeers`. PROTOCOL.md describes the protocol.

A connection is one asyncio protocol at either end. Its callbacks handle received frames. Tasks run
`answer` only, one per message. An event loop begins tasks in the order of their creation, and each
task first checks whether its connection still lives. This gives the order that the port promises.

No bytes from the other side make a callback raise. Bytes that no member sends are refused: one line
in the log, and the connection is closed.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, cast

import structlog

from hornbeam_server.schema.errors import HornbeamError, Unavailable
from hornbeam_server.storage.limits import require_sendable
from hornbeam_server.storage.ports import MESSAGE_BYTES, Answer, Caller
from hornbeam_server.storage.tcp.frames import (
    FRAME_BYTES,
    NONCE_BYTES,
    Frames,
    Hello,
    Kind,
    Refused,
    Side,
    frame,
    numbered,
    proof,
    require_proof,
    split_numbered,
)

PING_S = 0.5
SILENCE_S = 2.0
"""A connection breaks when the other side has been silent for so long."""
CONNECT_S = 2.0
"""Time to connect, with TLS and proofs; then either side gives up."""
QUEUE_BYTES = 4 * MESSAGE_BYTES
"""A connection breaks when so much waits to be sent: the other side does not read."""
PAUSE_S = 1.0
"""Pause after a failure to accept connections."""
REASON_CHARACTERS = 200
"""Maximum length of a reason that the other side gives; the rest is cut off."""

_LOG = structlog.get_logger(__name__)


class Tls(NamedTuple):
    """TLS contexts for both ends of a connection; each end asks for the other's certificate."""

    listener: ssl.SSLContext
    caller: ssl.SSLContext


class TcpPeers:
    """The `Peers` of one process."""

    def __init__(
        self,
        database: str,
        secret: bytes,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        address: str = "",
        tls: Tls | None = None,
    ) -> None:
        """`listen` uses `host` and `port` (0: any free port), and returns `address` for the other
        members (if empty, `host` and the port). A member that does not know `secret` is
        refused."""
        self.database = database
        self.secret = secret
        self.tls = tls
        self._host = host
        self._port = port
        self._address = address
        self._answer: Answer | None = None
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: set[_Connection] = set()
        self._newest: dict[str, _Answering] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def listen(self, answer: Answer) -> str:
        self._answer = answer
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(
                self._host or None, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            family, _, _, _, place = found[0]
            self._listening = socket.create_server(place[:2], family=family)
        except (OSError, UnicodeError) as error:
            raise Unavailable(
                f"Cannot listen for members on {self._host}:{self._port}: {error}.",
                cure="Set peer_host and peer_port.",
            ) from None
        self._listening.setblocking(False)
        self._accepting = loop.create_task(self._accept_all(self._listening))
        return self._address or _joined(self._host, self._listening.getsockname()[1])

    async def connect(self, name: str, address: str, number: int) -> _Asking:
        if self._closed:
            raise Unavailable("The connections of this member are closed.")
        host, port = _split(address)
        loop = asyncio.get_running_loop()
        link = _Asking(self, address, name, number)
        context = None if self.tls is None else self.tls.caller
        try:
            async with asyncio.timeout(CONNECT_S):
                await loop.create_connection(lambda: link, host, port, ssl=context)
                await link.accepted
        except BaseException as error:
            link.hang_up("no caller waits for it any more")
            if isinstance(error, OSError | UnicodeError):  # TLS and time-outs are among them
                raise _unreachable(address, str(error) or "it has not answered") from None
            raise
        return link

    async def close(self) -> None:
        self._closed = True
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        if self._listening is not None:
            self._listening.close()
        for connection in list(self._connections):
            connection.hang_up("this member closed it")
        await asyncio.sleep(0)  # sockets are closed in callbacks

    # ------------------------------------------------------------ accepting

    async def _accept_all(self, listening: socket.socket) -> None:
        """Accept connections. asyncio's own server is not used, since it does not report failures
        of TLS."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, place = await loop.sock_accept(listening)
            except OSError as error:  # too many open files
                _LOG.error("cannot accept connections of members", error=str(error))
                await asyncio.sleep(PAUSE_S)
            else:
                self.begin(self._accept(accepted, _joined(*place[:2])))

    async def _accept(self, accepted: socket.socket, place: str) -> None:
        connection = _Answering(self, place)
        context = None if self.tls is None else self.tls.listener
        limit = None if context is None else CONNECT_S
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=context, ssl_handshake_timeout=limit
            )
        except OSError as error:
            connection.hang_up(str(error))

    # ------------------------------------------------------------ for connections

    async def answer(self, caller: Caller, message: bytes) -> bytes:
        assert self._answer is not None
        answer = await self._answer(caller, message)
        require_sendable("An answer", answer)
        return answer

    def admit(self, connection: _Answering) -> None:
        """Serve this connection, and cut an earlier one of the same name. Raises Refused.

        The newest connection of each name is kept while this process lives. A name is new with
        each session, so there are few.
        """
        name, number = connection.caller
        newest = self._newest.get(name)
        if newest is not None:
            if newest.caller.connection >= number:
                raise Refused("a newer connection of this name is there")
            newest.hang_up("a newer one took its place")
        self._newest[name] = connection

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def add(self, connection: _Connection) -> None:
        if self._closed:  # it was accepted just before
            connection.hang_up("this member closed it")
        else:
            self._connections.add(connection)

    def remove(self, connection: _Connection) -> None:
        self._connections.discard(connection)


def _unreachable(address: str, why: str) -> Unavailable:
    return Unavailable(f"Cannot connect to the member at {address}: {why}.")


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _split(address: str) -> tuple[str, int]:
    """Host and port. Raises Unavailable."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise Unavailable(
            f"{address!r} is no address: host:port is asked for.",
            cure="Correct peer_address at the node that has it.",
        )
    return host.strip("[]"), int(port)


class _Connection(asyncio.Protocol):
    """The common part of both ends: frames in and out, signs of life, the end."""

    receives: tuple[Kind, Callable[[bytes], None]]
    """The kind of frame that is expected next, and its handler. Other kinds are refused, but for
    PING and REFUSED."""

    def __init__(self, peers: TcpPeers, place: str) -> None:
        """`place` is the address of the other side."""
        self.broken = False
        self.established = False
        self.place = place
        self._peers = peers
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._frames = Frames()
        self._begun = self._heard = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self.broken:  # given up while it was made
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=QUEUE_BYTES)
        self._timer = self._loop.call_later(PING_S, self._look)
        self._peers.add(self)

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        self._frames.feed(data)
        try:
            while not self.broken and (found := self._frames.next()) is not None:
                self._take(*found)
        except Refused as error:
            self._refuse(str(error))

    def pause_writing(self) -> None:
        self.hang_up("the other side does not read")

    def connection_lost(self, error: Exception | None) -> None:
        self.hang_up("the other side ended it" if error is None else str(error))

    # ------------------------------------------------------------ for subclasses

    def send(self, data: bytes) -> None:
        if not self.broken:
            assert self._transport is not None
            self._transport.write(data)

    def establish(self) -> None:
        """Note that both sides have proved their identity."""
        self.established = True
        self._frames.longest = FRAME_BYTES

    def hang_up(self, why: str, *, flush: bool = False) -> None:
        """Break the connection. Idempotent. With `flush`, frames that were sent before still go
        out."""
        if self.broken:
            return
        self.broken = True
        self._peers.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close() if flush else self._transport.abort()
        self.ended(why)

    def ended(self, why: str) -> None:
        """Called once, when the connection has broken."""
        raise NotImplementedError

    # ------------------------------------------------------------ inside

    def _take(self, kind: int, body: bytes) -> None:
        """Handle a frame. Raises Refused."""
        if kind == Kind.PING:
            return
        if kind == Kind.REFUSED:
            self.hang_up(f"the other side refused: {_printable(body)}")
            return
        expected, receive = self.receives
        if kind != expected:
            raise Refused(f"a frame of kind {kind} instead of {expected.name}")
        receive(body)

    def _refuse(self, why: str) -> None:
        self.send(frame(Kind.REFUSED, why.encode()))
        if self.established:
            _LOG.warning("a member was refused", peer=self.place, why=why)
        self.hang_up(why, flush=True)

    def _look(self) -> None:
        """Every PING_S: break the connection if the handshake takes too long or the other side is
        silent; else send a PING, once the connection is established."""
        now = self._loop.time()
        if not self.established and now - self._begun >= CONNECT_S:
            self.hang_up("it did not say in time who it is")
        elif now - self._heard >= SILENCE_S:
            self.hang_up("the other side is silent")
        else:
            self._timer = self._loop.call_later(PING_S, self._look)
            if self.established:
                self.send(frame(Kind.PING))


def _printable(reason: bytes) -> str:
    """The reason that the other side gives, made safe to print: the other side may be unknown."""
    text = reason.decode(errors="replace")[:REASON_CHARACTERS]
    return "".join(c if c.isprintable() else "?" for c in text)


class _Asking(_Connection):
    """The end of the caller: a `Link`."""

    def __init__(self, peers: TcpPeers, address: str, name: str, number: int) -> None:
        super().__init__(peers, address)
        self.accepted: asyncio.Future[None] = self._loop.create_future()
        self.receives = (Kind.CHALLENGE, self._challenged)
        nonce = secrets.token_bytes(NONCE_BYTES)
        self._hello = Hello(nonce, number, peers.database, name).encode()
        self._unanswered: dict[int, asyncio.Future[bytes]] = {}
        self._numbers = itertools.count(1)
        self._why = ""

    def ask(self, message: bytes) -> asyncio.Future[bytes]:
        require_sendable("A message", message)
        reply: asyncio.Future[bytes] = self._loop.create_future()
        if self.broken:
            _fail(reply, _broken(self.place, self._why))
            return reply
        number = next(self._numbers)
        self._unanswered[number] = reply
        self.send(numbered(Kind.MESSAGE, number, message))
        return reply

    async def close(self) -> None:
        self.hang_up("it was closed")

    def ended(self, why: str) -> None:
        self._why = why
        _fail(self.accepted, _unreachable(self.place, why))
        unanswered, self._unanswered = self._unanswered, {}
        for reply in unanswered.values():
            _fail(reply, _broken(self.place, why))

    # ------------------------------------------------------------ what arrives

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(frame(Kind.HELLO, self._hello))

    def _challenged(self, body: bytes) -> None:
        nonce, given = body[:NONCE_BYTES], body[NONCE_BYTES:]
        require_proof(self._peers.secret, Side.LISTENER, self._hello, nonce, given)
        self.receives = (Kind.WELCOME, self._welcomed)
        self.send(frame(Kind.PROOF, proof(self._peers.secret, Side.CALLER, self._hello, nonce)))

    def _welcomed(self, _: bytes) -> None:
        self.receives = (Kind.ANSWER, self._answered)
        self.establish()
        if not self.accepted.done():  # the caller may have given up
            self.accepted.set_result(None)

    def _answered(self, body: bytes) -> None:
        number, answer = split_numbered(body)
        reply = self._unanswered.pop(number, None)
        if reply is None:
            raise Refused(f"an answer to message {number}, which waits for none")
        if not reply.done():  # the caller may have given up
            reply.set_result(answer)


def _broken(address: str, why: str) -> Unavailable:
    return Unavailable(f"The connection to the member at {address} broke: {why}.")


def _fail(waiting: asyncio.Future[Any], error: Unavailable) -> None:
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # marks it as retrieved: perhaps no task waits for it


class _Answering(_Connection):
    """The end of the listener."""

    def __init__(self, peers: TcpPeers, place: str) -> None:
        super().__init__(peers, place)
        self.caller = Caller("", 0)
        self.receives = (Kind.HELLO, self._greeted)
        self._hello = b""
        self._nonce = secrets.token_bytes(NONCE_BYTES)

    def ended(self, why: str) -> None:
        if not self.established:
            _LOG.warning("a connection of a member was refused", peer=self.place, why=why)

    # ------------------------------------------------------------ what arrives

    def _greeted(self, body: bytes) -> None:
        hello = Hello.decode(body)
        if hello.database != self._peers.database:
            raise Refused(f"it is of another database, {hello.database!r}")
        self._hello = body
        self.caller = Caller(hello.name, hello.number)
        self.receives = (Kind.PROOF, self._proved)
        own = proof(self._peers.secret, Side.LISTENER, body, self._nonce)
        self.send(frame(Kind.CHALLENGE, self._nonce + own))

    def _proved(self, body: bytes) -> None:
        require_proof(self._peers.secret, Side.CALLER, self._hello, self._nonce, body)
        self._peers.admit(self)
        self.receives = (Kind.MESSAGE, self._asked)
        self.establish()
        self.send(frame(Kind.WELCOME))

    def _asked(self, body: bytes) -> None:
        self._peers.begin(self._handle(*split_numbered(body)))

    async def _handle(self, number: int, message: bytes) -> None:
        if self.broken:
            return
        try:
            answer = await self._peers.answer(self.caller, message)
        except HornbeamError as error:
            _LOG.warning(
                "a member's message has no answer", caller=self.caller.name, why=str(error)
            )
            self.hang_up("a message could not be answered")
        except BaseException:
            self.hang_up("answering a message has failed")
            raise
        else:
            self.send(numbered(Kind.ANSWER, number, answer))
