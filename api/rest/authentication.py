"""Authentication: the API key of every request is compared with the keys of the database.

Keys are cached: a request is checked against keys that were read at most `key_refresh_s` ago. So a
key that another node revoked is refused here within that time. The node that revokes a key refuses
it before it answers. After half of that time the keys are read again in the background, so that no
request waits as long as requests arrive regularly.
"""

from __future__ import annotations

import asyncio
import contextlib
import math

from starlette.types import ASGIApp, Receive, Scope, Send

from hornbeam_server.api.rest import problems
from hornbeam_server.api.rest.console_files import CONSOLE_PATHS
from hornbeam_server.api.rest.occupancy import LASTING, Occupancy
from hornbeam_server.api.security.api_keys import (
    ID,
    TABLE,
    ApiKey,
    bootstrap_key,
    id_in,
    matches,
    read_keys,
)
from hornbeam_server.api.security.roles import ANONYMOUS, Principal
from hornbeam_server.node.node import Serving
from hornbeam_server.node.settings import Settings
from hornbeam_server.pgwire.ports import SENDER
from hornbeam_server.query.workers.places import CLIENT
from hornbeam_server.schema.errors import HornbeamError, Overloaded, Unauthenticated, Unavailable
from hornbeam_server.storage.local.system import SystemClock
from hornbeam_server.storage.ports import Clock, TableStore
from hornbeam_server.txlayer.ddl.claim import NO_CATALOG

PRINCIPAL = "hornbeam.principal"
"""Key of the principal in the scope of a request."""
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
        *CONSOLE_PATHS,
    }
)
"""Routes that need no API key: they show nothing that is stored."""
WATCHED = frozenset({"/metrics", "/v1/status"})
"""Routes for monitoring, which must work while the server is in trouble. While the store does not
answer they accept the keys last read, however old. They do not count for the limit per key."""
READ_S = 5.0
"""Seconds that a request waits for the keys."""
_ASK_FOR_KEY = "Ask for a new one."


class KeyRing:
    """The keys of the database that is served, cached."""

    def __init__(self, serving: Serving, settings: Settings, clock: Clock | None = None) -> None:
        self._serving = serving
        self._refresh_s = settings.key_refresh_s
        self._clock = clock or SystemClock()
        self._settled = bootstrap_key(settings.bootstrap_key) if settings.bootstrap_key else None
        self._keys: dict[str, ApiKey] = {}
        self._principals: dict[str, Principal] = {}
        self._named_in = NO_CATALOG
        """The catalog whose names the cached principals have."""
        self._read_at = -math.inf
        """Monotonic time at which the read of the cached keys began."""
        self._reading: asyncio.Task[None] | None = None
        self._table_of: TableStore | None = None
        """The store in which the table is known to exist."""

    async def principal(self, text: str, *, however_old: bool = False) -> Principal:
        """The principal of the API key `text`. With `however_old` the cached keys suffice when the
        store does not answer. Raises Unauthenticated, and Unavailable when the keys cannot be read.
        """
        await self._renew(however_old)
        return self._checked(text)

    async def key_of(self, user: str) -> ApiKey | None:
        """The active key with this id or name; None if there is none, or several have the name.
        Raises Unavailable."""
        await self._renew(however_old=False)
        now_ms = self._clock.wall_ms()
        active = [key for key in self._keys.values() if key.state(now_ms) == "active"]
        found = [key for key in active if key.id == user]
        found = found or [key for key in active if key.name == user]
        return found[0] if len(found) == 1 else None

    async def renewed(self, principal: Principal) -> Principal:
        """The principal of a request that has been accepted, by the keys as they are now. Raises
        Unauthenticated for a key that was revoked or has expired since, and Unavailable."""
        if principal is ANONYMOUS:
            return principal
        await self._renew(however_old=False)
        key = self._keys.get(principal.key)
        if key is None:
            raise Unauthenticated("This API key is not known any more.", cure=_ASK_FOR_KEY)
        return self.active(key)

    def renewed_at_once(self, principal: Principal) -> Principal | None:
        """As `renewed`, but None if the keys have to be read again, or do not have this one."""
        key = self._keys.get(principal.key)
        if key is None or self._age_s() > self._refresh_s / 2:
            return None
        return self.active(key)

    def principal_at_once(self, text: str) -> Principal | None:
        """As `principal`, but None if the keys have to be read again. Raises Unauthenticated."""
        return self._checked(text) if self._age_s() <= self._refresh_s / 2 else None

    def _age_s(self) -> float:
        return self._clock.monotonic() - self._read_at

    def _checked(self, text: str) -> Principal:
        """The principal of an API key, by the keys last read. Raises Unauthenticated."""
        key = self._keys.get(text[ID])
        if key is None or not matches(text, key):
            raise Unauthenticated("This API key is not known.", cure="Check it; ask for a new one.")
        return self.active(key)

    def active(self, key: ApiKey) -> Principal:
        """The principal of a key. Raises Unauthenticated for one that may not be used now."""
        state = key.state(self._clock.wall_ms())
        if state != "active":
            raise Unauthenticated(f"This API key is {state}.", cure=_ASK_FOR_KEY)
        return self._principal(key)

    def named_now(self, principal: Principal) -> Principal:
        """The principal with grants by the names in the catalog in force: relations may have got
        other names since the request was authenticated."""
        key = self._keys.get(principal.key)
        return principal if principal.grants is None or key is None else self._principal(key)

    def _principal(self, key: ApiKey) -> Principal:
        """The principal of a key, by the names in the catalog in force."""
        database = self._serving.database or self._serving.retired
        catalog = NO_CATALOG if database is None else database.catalog
        if catalog is not self._named_in:
            self._named_in, self._principals = catalog, {}
        found = self._principals.get(key.id)
        if found is None:
            found = self._principals[key.id] = key.principal(catalog)
        return found

    async def reload(self) -> None:
        """Read the current keys from the store. Raises Unavailable."""
        if self._reading is not None:
            await asyncio.wait({self._reading})  # this read may have begun too early
        await self._wait(self._begin())

    async def all(self) -> list[ApiKey]:
        """All current keys, in the order of their creation. Raises Unavailable."""
        await self.reload()
        return sorted(self._keys.values(), key=lambda key: (key.created_ms, key.id))

    async def make_table(self) -> TableStore:
        """Create the table of keys if it is missing, and return the store. Raises Unavailable."""
        store = self._serving.require_readable().store
        if store is not self._table_of:
            await store.create_table(TABLE)
            self._table_of = store
        return store

    async def _renew(self, however_old: bool) -> None:
        """Read keys again that were read long ago, and wait for them if they are too old."""
        age_s = self._age_s()
        if age_s <= self._refresh_s / 2:
            return
        reading = self._begin()
        if age_s <= self._refresh_s:
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
        """The read under way, or a new one."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read())
            self._reading.add_done_callback(self._ended)
        return self._reading

    def _ended(self, reading: asyncio.Task[None]) -> None:
        self._reading = None
        if not reading.cancelled():
            reading.exception()  # retrieved, in case no request waits for it

    async def _read(self) -> None:
        began = self._clock.monotonic()
        found = await read_keys(await self.make_table())
        if self._settled is not None:
            found[self._settled.id] = self._settled
        self._keys, self._principals, self._read_at = found, {}, began


class Authentication:
    """The layer of the application that finds the principal of a request, or refuses the request.

    Without a key ring (authentication is off) the principal is `ANONYMOUS`. At most
    `max_concurrent_requests_per_key` requests with one key run at the same time.
    """

    def __init__(self, app: ASGIApp, ring: KeyRing | None, inside: Occupancy) -> None:
        """`inside` counts the requests by the id of their key."""
        self._app = app
        self._ring = ring
        self._inside = inside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._ring is None:
            scope[PRINCIPAL] = ANONYMOUS
            CLIENT.set((scope.get("client") or ("",))[0])
            await self._app(scope, receive, send)
        elif scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
        else:
            await self._judged(self._ring, scope, receive, send)

    async def _judged(self, ring: KeyRing, scope: Scope, receive: Receive, send: Send) -> None:
        watches = scope["path"] in WATCHED
        try:
            sender: Principal | None = scope.get(SENDER)
            if sender is None:
                principal = await ring.principal(bearer(scope), however_old=watches)
            else:
                principal = await ring.renewed(sender)
            if self._inside.is_full(principal.key) and not watches:
                raise Overloaded(
                    f"{self._inside.limit} requests with this API key are under way already.",
                    cure="Try again in a moment.",
                )
        except HornbeamError as error:
            await problems.response(error)(scope, receive, send)
            return
        scope[PRINCIPAL] = principal
        CLIENT.set(principal.key)
        uncounted = watches or scope["path"] in LASTING
        with contextlib.nullcontext() if uncounted else self._inside.entered(principal.key):
            await self._app(scope, receive, send)


def claimed_id(scope: Scope) -> str | None:
    """The public id in the API key of a request, whether or not the key is valid."""
    try:
        return id_in(bearer(scope))
    except Unauthenticated:
        return None


def bearer(scope: Scope) -> str:
    """The API key in the header `Authorization: Bearer …`. Raises Unauthenticated."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, text = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer":
                return str(text.strip())
            break
    raise Unauthenticated("This needs an API key.", cure="Send it as: Authorization: Bearer hb_…_…")
