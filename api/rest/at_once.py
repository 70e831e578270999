"""Whole requests that are answered while they are received, without a task, a scope or an event.

A client with a connection of its own sends the same head again and again: only the body changes.
The first request with a head takes the complete path: uvicorn's parser, and all layers of the
application. If it was one whole request of a plain form for a route that does not wait
(`RouteAtOnce`), its head is remembered with what the parser has read. A later request with the same
bytes as its head, and a body of the same length, means the same. So there is no second parser that
could disagree with the first one about the end of a request.

Layers whose decisions depend on the head alone (`SameOrigin`, and the form of the request) decide
when a head is remembered. Limits, and the API key, are checked at each request. Whatever is refused
here, takes the complete path, which reports the reason. Only routes that the audit log leaves out
are answered here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.types import Scope

from hornbeam_server.api.rest import request_spans
from hornbeam_server.api.rest.authentication import OPEN, KeyRing, bearer
from hornbeam_server.api.rest.body_limits import SHORT_BYTES
from hornbeam_server.api.rest.metrics import Metrics, Observed, now_s
from hornbeam_server.api.rest.middleware import ALWAYS
from hornbeam_server.api.rest.occupancy import Occupancy
from hornbeam_server.api.rest.same_origin import OriginRules
from hornbeam_server.api.rest.short_queries import PATH as QUERY
from hornbeam_server.api.rest.short_queries import ShortQueries
from hornbeam_server.api.rest.short_requests import RouteAtOnce, ShortRoute, permits
from hornbeam_server.api.security.roles import ANONYMOUS, Principal, Role, needed_role
from hornbeam_server.node.settings import Settings
from hornbeam_server.pgwire.ports import WholeRows
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.storage.tracing import Tracer

HEADS = 1_024
"""Maximum number of heads that are remembered."""
HEAD_BYTES = 2_048
"""Maximum bytes of a head that is remembered."""
_PLAIN = re.compile(
    rb"(?:GET|POST) /[\w/]+ HTTP/1\.1\r\n"
    rb"(?:[\w!#$%&'*+.^`|~-]+:[ \t]*(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?[ \t]*\r\n)+\r\n"
)
"""A head in the form that all programs read alike: a path as its target, each header on a line of
its own, CR LF at each end of a line, ASCII only."""
_UNUSUAL = frozenset(
    {
        *(b"transfer-encoding", b"connection", b"keep-alive", b"te", b"trailer"),
        *(b"upgrade", b"expect", b"content-encoding", b"http2-settings"),
        *(b"traceparent", b"tracestate"),
    }
)
"""Headers about the connection or about the form of the body, and those of traces, which differ
from request to request."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a request from its head. `length` is that of its body in bytes; `key` the
    text of its API key, None on a route that needs none."""

    route: RouteAtOnce
    path: str
    length: int
    key: str | None
    observed: Observed


class AtOnce:
    """Remembers heads, and answers requests that have one of them."""

    def __init__(
        self,
        routes: Mapping[str, RouteAtOnce],
        queries: ShortQueries,
        settings: Settings,
        metrics: Metrics,
        *,
        inside: Occupancy,
        inside_by_key: Occupancy,
        ring: KeyRing | None,
        origins: OriginRules | None,
        tracer: Tracer | None,
    ) -> None:
        """`routes` by path, `queries` among them; `ring` is None without authentication, `origins`
        without checks of origins."""
        for route in routes.values():
            assert needed_role(route.route.openapi_extra) in {None, Role.READER}, "audited"
        self._routes = routes
        self._queries = queries
        self._observed = metrics.requests(queries.route, queries.method, 200)
        self._max_length = min(SHORT_BYTES, settings.max_body_bytes)
        self._metrics = metrics
        self._inside = inside
        self._inside_by_key = inside_by_key
        self._ring = ring
        self._origins = origins
        self._tracer = tracer
        self._heads: dict[bytes, Head] = {}

    def head(self, text: bytes) -> Head | None:
        """What is remembered of the head `text`."""
        return self._heads.get(text)

    def answer(self, head: Head, body: bytes) -> bytes | None:
        """The body of an answer in JSON with the status 200; None if the route has to be asked by
        the application. Raises any error of the route, which the application meets again."""
        tracer = self._tracer
        if tracer is None:
            return _answered(head, body)
        method, path, work = head.route.method, head.path, partial(_answered, head, body)
        return request_spans.at_once(tracer, method, path, "http", work)

    def admits(self, head: Head) -> bool:
        """May a request with this head run now?"""
        if self._inside.is_full() and head.path not in ALWAYS:
            return False
        if head.key is None:
            return True
        assert self._ring is not None
        try:
            principal = self._ring.principal_at_once(head.key)
        except HornbeamError:
            return False
        return principal is not None and self._may_run(principal, head.route)

    def rows(self, sender: Principal, body: bytes) -> WholeRows | None:
        """The rows of a short query of a session, whose client has authenticated itself as
        `sender`. None if the application has to answer."""
        if len(body) > self._max_length or self._inside.is_full():
            return None
        began = now_s()
        try:
            principal = ANONYMOUS if self._ring is None else self._ring.renewed_at_once(sender)
            if principal is None or not self._may_run(principal, self._queries):
                return None
            found = self._rows(body, began)
        except Exception:
            return None  # the application meets the error again, and reports it
        if found is not None:
            self._observed(now_s() - began)
        return found

    def _rows(self, body: bytes, began: float) -> WholeRows | None:
        tracer, queries = self._tracer, self._queries
        if tracer is None:
            return queries.rows_now(body, began)
        work = partial(queries.rows_now, body, began)
        return request_spans.at_once(tracer, queries.method, QUERY, "postgresql", work)

    def _may_run(self, principal: Principal, route: ShortRoute) -> bool:
        """Does the limit for a key allow another request, and has it all rights?"""
        return not self._inside_by_key.is_full(principal.key) and permits(route, principal)

    def learn(self, text: bytes, scope: Scope, length: int) -> None:
        """Remember the head `text` if requests with it can be answered here. `scope` is what the
        parser has read from it; `length` that of the body that came with it."""
        route = self._routes.get(scope["path"])
        if route is None or route.method != scope["method"] or text in self._heads:
            return
        if not (self._is_plain(text, scope) and length <= self._max_length):
            return
        if not (route.takes(scope["headers"]) and self._is_own(scope)):
            return
        try:
            key = self._key(scope, route)
        except HornbeamError:
            return
        if len(self._heads) >= HEADS:
            self._heads.clear()
        path = scope["path"]
        observed = self._metrics.requests(route.route, route.method, 200)
        self._heads[text] = Head(route, path, length, key, observed)

    def _is_plain(self, text: bytes, scope: Scope) -> bool:
        """Is there only one reading of this head?"""
        given: list[tuple[bytes, bytes]] = scope["headers"]
        names = [name for name, _ in given]
        unusual = _UNUSUAL.intersection(names)
        if unusual and not (unusual == {b"connection"} and _is_kept_alive(given)):
            return False
        return (
            len(text) <= HEAD_BYTES
            and len(names) == len(set(names))
            and _PLAIN.fullmatch(text) is not None
        )

    def _is_own(self, scope: Scope) -> bool:
        try:
            if self._origins is not None:
                self._origins.check(scope)
        except HornbeamError:
            return False
        return True

    def _key(self, scope: Scope, route: RouteAtOnce) -> str | None:
        """The text of the API key; None if none is needed. Raises Unauthenticated when the request
        has none."""
        if self._ring is not None and scope["path"] not in OPEN:
            return bearer(scope)
        assert permits(route, ANONYMOUS)
        return None


def _answered(head: Head, body: bytes) -> bytes | None:
    began = now_s()
    answer = head.route.answer_now(body, began)
    if answer is not None:
        head.observed(now_s() - began)
    return answer


def _is_kept_alive(headers: list[tuple[bytes, bytes]]) -> bool:
    return all(value.lower() == b"keep-alive" for name, value in headers if name == b"connection")


def of(app: Any) -> AtOnce | None:
    """The `AtOnce` of an application; None of other applications."""
    return getattr(getattr(app, "state", None), "at_once", None)
