"""Who asks? API keys checked against those of the database, for every request.

Keys are cached: a request is judged by keys read at most `key_refresh_s` ago, so a key that was
revoked on another node is refused here within that time; the node that revokes it refuses it
before it answers. After half of that time they are read anew beside the requests, so that none
waits for it as long as requests come.
"""

from __future__ import annotations

import asyncio
import math

from starlette.types import ASGIApp, Receive, Scope, Send

from hornbeam_server.api import problems
from hornbeam_server.api.access import ANYBODY, Principal
from hornbeam_server.api.keys import ID, TABLE, ApiKey, bootstrap_key, id_in, matches, read_keys
from hornbeam_server.api.node import Serving
from hornbeam_server.api.settings import Settings
from hornbeam_server.query.workers.places import CLIENT
from hornbeam_server.schema.errors import HornbeamError, Overloaded, Unauthenticated, Unavailable
from hornbeam_server.storage.local.system import SystemClock
from hornbeam_server.storage.ports import Clock, TableStore

PRINCIPAL = "hornbeam.principal"
"""Where a request's scope says who asks."""
OPEN = frozenset(
    {
        "/livez",
        "/readyz",
        "/openapi.json",
        "/",
        "/docs",
        "/docs/start.js",
        "/docs/swagger-ui-bundle.js",
        "/docs/swagger-ui.css",
    }
)
"""Answered to everybody: they tell nothing of what is stored."""
WATCHED = frozenset({"/metrics", "/v1/status"})
"""Judged by the keys last read, however old, while the store does not answer, and not counted: who
watches the server must see it just then."""
READ_S = 5.0
"""How long a request waits for the keys."""


class KeyRing:
    """The keys of the database that is served, cached."""

    def __init__(self, serving: Serving, settings: Settings, clock: Clock | None = None) -> None:
        self._serving = serving
        self._refresh_s = settings.key_refresh_s
        self._clock = clock or SystemClock()
        self._settled = bootstrap_key(settings.bootstrap_key) if settings.bootstrap_key else None
        self._keys: dict[str, ApiKey] = {}
        self._principals: dict[str, Principal] = {}
        self._read_at = -math.inf
        """When the reading of the cached keys began."""
        self._reading: asyncio.Task[None] | None = None
        self._table_of: TableStore | None = None
        """The store that is known to have the table."""

    async def principal(self, text: str, *, however_old: bool = False) -> Principal:
        """Whose key `text` is. Raises Unauthenticated, and Unavailable while that is not known."""
        age_s = self._clock.monotonic() - self._read_at
        if age_s > self._refresh_s / 2:
            await self._renew(age_s > self._refresh_s, however_old)
        key = self._keys.get(text[ID])
        if key is None or not matches(text, key):
            raise Unauthenticated("This API key is not known.", cure="Check it; ask for a new one.")
        state = key.state(self._clock.wall_ms())
        if state != "active":
            raise Unauthenticated(f"This API key is {state}.", cure="Ask for a new one.")
        return self._principals[key.id]

    async def reload(self) -> None:
        """Read the keys as they are now. Raises Unavailable."""
        if self._reading is not None:
            await asyncio.wait({self._reading})  # it may have begun too early
        await self._wait(self._begin())

    async def all(self) -> list[ApiKey]:
        """All keys as they are now, in order of their making. Raises Unavailable."""
        await self.reload()
        return sorted(self._keys.values(), key=lambda key: (key.created_ms, key.id))

    async def make_table(self) -> TableStore:
        """The store with its table of keys. Raises Unavailable."""
        store = self._serving.require_readable().store
        if store is not self._table_of:
            await store.create_table(TABLE)
            self._table_of = store
        return store

    async def _renew(self, too_old: bool, however_old: bool) -> None:
        reading = self._begin()
        if not too_old:
            return
        try:
            await self._wait(reading)
        except HornbeamError:
            if not (however_old and self._keys):
                raise

    async def _wait(self, reading: asyncio.Task[None]) -> None:
        await asyncio.wait({reading}, timeout=READ_S)
        if not reading.done():
            raise Unavailable("The API keys cannot be read in time.", cure="Try again in a moment.")
        reading.result()

    def _begin(self) -> asyncio.Task[None]:
        """The reading that is under way, or a new one."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read())
            self._reading.add_done_callback(self._ended)
        return self._reading

    def _ended(self, reading: asyncio.Task[None]) -> None:
        self._reading = None
        if not reading.cancelled():
            reading.exception()  # seen, should nobody wait for it

    async def _read(self) -> None:
        began = self._clock.monotonic()
        found = await read_keys(await self.make_table())
        if self._settled is not None:
            found[self._settled.id] = self._settled
        self._principals = {key.id: key.principal for key in found.values()}
        self._keys, self._read_at = found, began


class Authentication:
    """The layer of the application that says who asks, or that nobody may ask so.

    Without a key ring (authentication is off) it is anybody. One key may have
    `max_concurrent_requests_per_key` requests under way.
    """

    def __init__(self, app: ASGIApp, ring: KeyRing | None, settings: Settings) -> None:
        self._app = app
        self._ring = ring
        self._limit = settings.max_concurrent_requests_per_key
        self._inside: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._ring is None:
            scope[PRINCIPAL] = ANYBODY
            CLIENT.set((scope.get("client") or ("",))[0])
            await self._app(scope, receive, send)
        elif scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
        else:
            await self._judged(self._ring, scope, receive, send)

    async def _judged(self, ring: KeyRing, scope: Scope, receive: Receive, send: Send) -> None:
        watches = scope["path"] in WATCHED
        try:
            principal = await ring.principal(_bearer(scope), however_old=watches)
            inside = self._inside.get(principal.key, 0)
            if inside >= self._limit and not watches:
                raise Overloaded(
                    f"{self._limit} requests with this API key are under way already.",
                    cure="Try again in a moment.",
                )
        except HornbeamError as error:
            await problems.response(error)(scope, receive, send)
            return
        scope[PRINCIPAL] = principal
        CLIENT.set(principal.key)
        counted = int(not watches)
        self._inside[principal.key] = inside + counted
        try:
            await self._app(scope, receive, send)
        finally:
            self._inside[principal.key] -= counted


def claimed_id(scope: Scope) -> str | None:
    """The public part of the key that a request brings, be it valid or not."""
    try:
        return id_in(_bearer(scope))
    except Unauthenticated:
        return None


def _bearer(scope: Scope) -> str:
    """The key of `Authorization: Bearer …`. Raises Unauthenticated."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, text = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer":
                return str(text.strip())
            break
    raise Unauthenticated("This needs an API key.", cure="Send it as: Authorization: Bearer hb_…_…")
