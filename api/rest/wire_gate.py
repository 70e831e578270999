"""API keys as users of PostgreSQL's wire protocol."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from hornbeam_server.api.rest.authentication import KeyRing
from hornbeam_server.api.security.roles import ANONYMOUS, Principal
from hornbeam_server.node.settings import Settings
from hornbeam_server.pgwire.ports import Login, Unknown
from hornbeam_server.pgwire.server.listener import Limits, Listener
from hornbeam_server.schema.errors import Unauthenticated
from hornbeam_server.storage.local.system import RandomIds, SystemClock

Write = Callable[..., Any]


def listener_of(app: FastAPI, settings: Settings, tls: ssl.SSLContext | None) -> Listener:
    """The server of PostgreSQL's protocol in front of an application. It accepts as many
    connections as HTTP does."""
    ids = RandomIds()
    secret = bytes.fromhex(ids.new() + ids.new())
    ring = app.state.keys if settings.authentication == "keys" else None
    limits = Limits(settings.max_connections, settings.max_body_bytes, settings.statement_timeout_s)
    gate = WireGate(ring, app.state.audit, secret)
    clock, backends = SystemClock(), app.state.backends
    return Listener(app, app.state.at_once.rows, gate, limits, tls, ids, clock, backends)


class WireGate:
    """The `Gate` of a database: a user is the name of an API key, or its id, and the password is
    the key.

    A key has a verifier for SCRAM since it was created by this version. An older key, and the one
    of the settings, are sent in the clear: the connection is encrypted then, or goes to this
    machine, as that of a key over HTTP.
    """

    def __init__(self, ring: KeyRing | None, audit: Write | None, secret: bytes) -> None:
        """`ring` None: authentication is off."""
        self._ring = ring
        self._audit = audit
        self.secret = secret

    @property
    def needs_password(self) -> bool:
        return self._ring is not None

    async def login(self, user: str) -> Login | None:
        assert self._ring is not None
        key = await self._ring.key_of(user)
        return None if key is None else Login(key.verifier)

    async def by_name(self, user: str) -> Principal:
        if self._ring is None:
            return ANONYMOUS
        key = await self._ring.key_of(user)
        if key is None:
            raise Unknown(user)
        return self._ring.active(key)

    async def by_password(self, user: str, password: str) -> Principal:
        assert self._ring is not None
        try:
            found = await self._ring.principal(password)
        except Unauthenticated as error:
            raise Unknown(error.message) from None
        if user not in {found.name, found.key}:
            raise Unknown(f"The key is not that of {user}.")
        return found

    def refused(self, user: str, client: str) -> None:
        if self._audit is not None:
            self._audit("login", user=user[:200], client=client, protocol="postgresql", status=401)
