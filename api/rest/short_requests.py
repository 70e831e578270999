"""Short requests, answered without FastAPI's layers, which take longer than the work itself.

The layer stands behind authentication. For some paths it knows a `ShortRoute`, which answers
requests of the usual form. All others go on to the application, with the same body. So limits,
documents and most errors are those of the application.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hornbeam_server.api.rest.authentication import PRINCIPAL
from hornbeam_server.api.rest.body_limits import SHORT_BYTES
from hornbeam_server.api.rest.metrics import now_s
from hornbeam_server.api.rest.request_models import MAX_MS, MAX_TS
from hornbeam_server.api.security.roles import ANONYMOUS, Principal, Role

JSON = b"application/json"
DECLINED = "hornbeam.declined"
"""Key in the scope of a request that its short route has declined to answer already."""
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError)
"""Errors of decoding a body and its parameters. The application reports what is wrong."""
_ACCEPTED = {JSON, b"*/*"}
_NO_BODY: Message = {"type": "http.request", "body": b"", "more_body": False}


class ShortRoute(Protocol):
    """Answers the usual requests of one path. `route` is the application's route, under whose name
    metrics and the audit log have the request; `role` the role that a key needs, None if no key is
    needed."""

    method: str
    route: Any
    role: Role | None

    def takes(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """May it answer a request with these headers?"""

    async def respond(self, scope: Scope, body: bytes, began: float) -> bytes | Response | None:
        """The body of an answer in JSON, or a whole answer; None if the application has to answer,
        for which the request has had no effect. `began` is a time of `metrics.now_s`."""


class RouteAtOnce(ShortRoute, Protocol):
    """A short route that never waits, and whose requests have no effect. So `AtOnce` answers most
    of them while they are received."""

    def answer_now(self, body: bytes, began: float) -> bytes | None:
        """The answer of `respond`, without waiting."""


class ShortRequests:
    """The layer. `routes` are by path."""

    def __init__(self, app: ASGIApp, routes: Mapping[str, ShortRoute]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        short = self._routes.get(scope.get("path", ""))
        if short is None or not _is_for(short, scope):
            await self._app(scope, receive, send)
            return
        began, first = now_s(), _NO_BODY
        if short.method != "GET":
            first = await receive()
        body = first.get("body", b"")
        whole = first["type"] == "http.request" and not first.get("more_body", False)
        answer = await short.respond(scope, body, began) if whole and _is_short(body) else None
        if answer is None:
            again = receive if first is _NO_BODY else _again(first, receive)
            await self._app(scope, again, send)
            return
        scope["route"] = short.route
        if isinstance(answer, Response):
            await answer(scope, receive, send)
            return
        headers = [(b"content-length", b"%d" % len(answer)), (b"content-type", JSON)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


def _is_for(short: ShortRoute, scope: Scope) -> bool:
    """May `short` answer this request, unless it has been asked already?"""
    if scope["method"] != short.method or DECLINED in scope:
        return False
    return permits(short, scope.get(PRINCIPAL, ANONYMOUS)) and short.takes(scope["headers"])


def permits(short: ShortRoute, principal: Principal) -> bool:
    """Has the principal all rights of the role that the route needs?"""
    role = short.role
    return role is None or (principal.grants is None and principal.role.includes(role))


def is_usual(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Are they headers of a request with a body in JSON?"""
    typed = False
    for name, value in headers:
        if name == b"content-type":
            typed = value == JSON
        elif name == b"content-encoding" or (name == b"accept" and value not in _ACCEPTED):
            return False
    return typed


def is_within_bounds(bookmark: int, timeout_ms: int | None) -> bool:
    """Are both within the bounds of the request models?"""
    return 0 <= bookmark <= MAX_TS and (timeout_ms is None or 0 < timeout_ms <= MAX_MS)


def _is_short(body: bytes) -> bool:
    return len(body) <= SHORT_BYTES


def _again(first: Message, receive: Receive) -> Receive:
    """A `receive` that gives the message `first` again."""
    waiting = [first]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
