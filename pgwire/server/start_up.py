"""The start of a connection: encryption, the user, its password, and the first settings."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hornbeam_server.pgwire.codec import answers
from hornbeam_server.pgwire.codec import requests as asked
from hornbeam_server.pgwire.codec.frames import ProtocolViolation
from hornbeam_server.pgwire.ports import Gate, Unknown
from hornbeam_server.pgwire.server.wire import Gone, Wire
from hornbeam_server.pgwire.session import scram
from hornbeam_server.pgwire.session.failures import PROTOCOL_VIOLATION, Failure
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.schema.model import DATABASE
from hornbeam_server.storage.ports import Ids

START_S = 10.0
"""Seconds until a client has logged in, as HTTP has for the head of a request."""
_MINOR = 0
_TLS = b"\x16"
"""The first byte of a handshake of TLS. That of a message in the clear is zero."""
_MAX_ENCRYPT = 2
"""A client asks at most for GSS, and then for TLS."""


@dataclass(frozen=True)
class Started:
    """A client that has logged in. `principal` is None if all are trusted."""

    user: str
    principal: Any
    parameters: Mapping[str, str]


class StartUp:
    """The start of one connection."""

    def __init__(self, wire: Wire, gate: Gate, tls: ssl.SSLContext | None, ids: Ids) -> None:
        self._wire = wire
        self._gate = gate
        self._tls = tls
        self._ids = ids
        self._secure = False

    async def run(self) -> Started | asked.Cancel:
        """Log the client in. Raises Failure, Gone, ProtocolViolation, HornbeamError."""
        opening = await self._opening()
        if isinstance(opening, asked.Cancel):
            return opening
        if opening.major != asked.PROTOCOL:
            raise Failure("0A000", "Only version 3 of the protocol is spoken.", fatal=True)
        parameters = dict(opening.parameters)
        unknown = [name for name in parameters if name.startswith("_pq_.")]
        if opening.minor > _MINOR or unknown:
            await self._wire.send(answers.negotiate(_MINOR, unknown))
        if self._tls is not None and not self._secure:
            raise Failure("28000", "This server needs TLS.", "Set sslmode=require.", fatal=True)
        self._wire.frames.started = True
        user = parameters.get("user", "")
        _require_database(parameters.get("database") or user)
        principal = await self._authenticated(user)
        await self._wire.send(answers.AUTHENTICATED)
        return Started(user, principal, parameters)

    async def _opening(self) -> asked.Start | asked.Cancel:
        if await self._wire.first() == _TLS:
            if self._tls is None:
                raise Gone("The client begins with TLS, for which there is no certificate.")
            await self._wire.encrypt_from_start(self._tls, START_S)
            self._secure = True
        for _ in range(_MAX_ENCRYPT + 1):
            frame = await self._wire.next()
            opening = asked.opening_of(frame.body)
            if not isinstance(opening, asked.Encrypt):
                return opening
            if opening.gss or self._tls is None or self._secure:
                await self._wire.send(answers.SSL_NO)
                continue
            await self._wire.send(answers.SSL_YES)
            await self._wire.encrypt(self._tls, START_S)
            self._secure = True
        raise ProtocolViolation("The client asks for encryption again.")

    async def _authenticated(self, user: str) -> Any:
        if not self._gate.needs_password:
            return None
        try:
            login = await self._gate.login(user)
            if login is not None and not login.verifier:
                return await self._by_password(user)
            return await self._by_scram(user, "" if login is None else login.verifier)
        except (Unknown, scram.ScramError) as error:
            self._gate.refused(user, self._wire.peer[0])
            raise Failure(
                "28P01",
                f"Password authentication failed for user {user!r}.",
                "The user is the name or the id of an API key, the password the key.",
                fatal=True,
            ) from error

    async def _by_password(self, user: str) -> Any:
        await self._wire.send(answers.ASK_PASSWORD)
        password = asked.decoded((await self._password()).removesuffix(b"\0"))
        return await self._gate.by_password(user, password)

    async def _by_scram(self, user: str, verifier: str) -> Any:
        found = (
            scram.read_verifier(verifier)
            if verifier
            else scram.missing_verifier(user, self._gate.secret)
        )
        exchange = scram.Exchange(found, self._ids.new())
        await self._wire.send(answers.ask_sasl([scram.MECHANISM]))
        reader = asked.Reader(await self._password())
        if reader.text() != scram.MECHANISM:
            raise scram.ScramError("Another mechanism than the one that is offered.")
        length = reader.int32()
        first = exchange.first(reader.take(max(length, 0)))
        await self._wire.send(answers.sasl_continue(first))
        final = exchange.final(await self._password())
        principal = await self._gate.by_name(user)
        await self._wire.send(answers.sasl_final(final))
        return principal

    async def _password(self) -> bytes:
        request = asked.request_of(await self._wire.next())
        if not isinstance(request, asked.Password):
            raise ProtocolViolation("The answer to a request for a password is a password.")
        return request.body


def _require_database(name: str) -> None:
    if name != DATABASE:
        raise Failure(
            "3D000",
            f'Database "{name}" does not exist.',
            f"Connect to the database {DATABASE}.",
            fatal=True,
        )


def fatal(error: Exception) -> Failure:
    """The failure with which a connection ends."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, ProtocolViolation):
        return Failure(PROTOCOL_VIOLATION, str(error), fatal=True)
    if isinstance(error, HornbeamError):
        return Failure("57P03", error.message, error.cure, fatal=True)
    return Failure("08006", "The client has not logged in in time.", fatal=True)
