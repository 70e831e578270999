"""Refuse requests that a web page of another site may have sent.

Without authentication every client that reaches the port may read and write, and every web page in
a browser on this machine reaches it. Two checks keep such pages out:

- `Host` must be loopback or configured (421). A page whose own name is made to resolve to 127.0.0.1
  (DNS rebinding) still sends its own name.
- `Origin` and `Sec-Fetch-Site`, which browsers add and pages cannot change, must not name another
  site (403). Clients other than browsers send neither.

With API keys a page of another site can do nothing, because a browser adds no key by itself. Then
any `Host` is accepted, because the server may have any name, unless `allowed_hosts` is set.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from hornbeam_server.api.rest import problems
from hornbeam_server.node.hosts import Authority, is_loopback, read_authority
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import Forbidden, HornbeamError, InvalidRequest, Misdirected

ANY_HOST = frozenset({"/livez", "/readyz"})
"""Probes name the server as they reach it (Kubernetes: by the pod's address). These routes show
nothing that is stored."""
_OWN_SITE = frozenset({"same-origin", "none"})
"""`none`: the user typed the address or opened a bookmark."""
_SHOWN = 100
"""Maximum characters of a header that a message quotes."""


def is_guarded(settings: Settings) -> bool:
    """Do these settings require the checks of `SameOrigin`?"""
    return settings.authentication == "none" or bool(settings.allowed_hosts)


class SameOrigin:
    """The layer of the application that refuses requests from pages of other sites."""

    def __init__(self, app: ASGIApp, rules: OriginRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["type"] == "http":
                self._rules.check(scope)
        except InvalidRequest as error:
            await problems.response(error, 400)(scope, receive, send)
        except HornbeamError as error:
            await problems.response(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class OriginRules:
    """The rules of `SameOrigin`, which are about path and headers of a request."""

    def __init__(self, settings: Settings) -> None:
        self._allowed = _configured(settings)
        self._by_proxy = settings.tls_by_proxy

    def check(self, scope: Scope) -> None:
        """Raises Misdirected for an unknown host, Forbidden for another site, and InvalidRequest
        for a request that does not name exactly one host."""
        hosts, origins, sites = _headers(scope, b"host", b"origin", b"sec-fetch-site")
        if any(site not in _OWN_SITE for site in sites):
            raise _foreign(f"with Sec-Fetch-Site {sites[0][:_SHOWN]}")
        if scope["path"] in ANY_HOST and not origins:
            return
        host = self._checked_host(hosts)
        for origin in origins:
            if not self._is_own(origin, host, scope["scheme"]):
                raise _foreign(f"of the origin {origin[:_SHOWN]!r}")

    def _checked_host(self, given: list[str]) -> Authority:
        host = read_authority(given[0]) if len(given) == 1 else None
        if host is None:
            raise InvalidRequest(
                "The request does not name one host.",
                cure="Send one header Host: with the server's name or address, and its port.",
            )
        if not (is_loopback(host.host) or host.host in self._allowed):
            raise Misdirected(
                f"This server is not known as {given[0][:_SHOWN]!r}.",
                cure="Ask for 127.0.0.1 or localhost, or add the name to the setting"
                " allowed_hosts.",
            )
        return host

    def _is_own(self, origin: str, host: Authority, scheme: str) -> bool:
        """Is `origin` the origin of this server's own pages, under the host that the client
        used?"""
        given, _, rest = origin.partition("://")
        schemes = {"http", "https"} if self._by_proxy else {scheme}
        authority = read_authority(rest) if given in schemes else None
        return authority is not None and authority.on(given) == host.on(given)


def _configured(settings: Settings) -> frozenset[str]:
    """The hosts in `allowed_hosts`, and the host in the address of this node."""
    names = [*settings.allowed_hosts.split(","), urlsplit(settings.address).netloc]
    found = [read_authority(name.strip()) for name in names]
    return frozenset(authority.host for authority in found if authority is not None)


def _headers(scope: Scope, *names: bytes) -> tuple[list[str], ...]:
    """All values of each of these headers."""
    return tuple(
        [value.decode("latin-1") for given, value in scope["headers"] if given == name]
        for name in names
    )


def _foreign(which: str) -> Forbidden:
    return Forbidden(
        f"A request {which} is refused: it may come from a web page of another site.",
        cure="Open the server's own pages by typing their address; a program leaves out"
        " Origin and Sec-Fetch-Site.",
    )
