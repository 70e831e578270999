"""Short queries, answered without FastAPI's layers, which take longer than the read itself.

The layer stands behind authentication. It answers a `POST /v1/query` whose body has only the usual
members, and whose statement is planned and can be read directly (`Reads.directly`). Everything
else goes on to the application, with the same body: other requests, answers other than rows, and
all errors. So errors, limits and documents are those of the application.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hornbeam_server.api.rest.authentication import PRINCIPAL
from hornbeam_server.api.rest.body_limits import SHORT_BYTES
from hornbeam_server.api.rest.json_parameters import values_of
from hornbeam_server.api.rest.metrics import Metrics, now_s
from hornbeam_server.api.rest.request_models import MAX_MS, MAX_SQL, MAX_TS
from hornbeam_server.api.rest.serializers import direct_document
from hornbeam_server.api.security.roles import Principal, Role
from hornbeam_server.node.node import Serving
from hornbeam_server.node.reads import DirectResult
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import HornbeamError

PATH = "/v1/query"
_JSON = b"application/json"
_ACCEPTED = {b"application/json", b"*/*"}


class _Query(msgspec.Struct, forbid_unknown_fields=True):
    """The usual members of `QueryBody`, with its bounds. A body with others does not fit. The time
    limit has no effect, since nothing waits."""

    sql: str
    parameters: list[Any] | dict[str, Any] = []
    bookmark: int = 0
    use_views: bool = True
    timeout_ms: int | None = None


_decode = msgspec.json.Decoder(_Query).decode
_encode = msgspec.json.Encoder().encode


class ShortQueries:
    """The layer. `route` is the route of queries, under whose name the metrics count a request."""

    def __init__(
        self, app: ASGIApp, serving: Serving, settings: Settings, metrics: Metrics, route: Any
    ) -> None:
        self._app = app
        self._serving = serving
        self._max_parameters = settings.max_parameters
        self._max_rows = settings.max_json_rows
        self._metrics = metrics
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") != PATH or scope["method"] != "POST" or not _is_usual(scope):
            await self._app(scope, receive, send)
            return
        began, first = now_s(), await receive()
        body = first.get("body", b"")
        whole = first["type"] == "http.request" and not first.get("more_body", False)
        answer = self._answer(body, began) if whole and len(body) <= SHORT_BYTES else None
        if answer is None:
            await self._app(scope, _again(first, receive), send)
            return
        scope["route"] = self._route
        headers = [(b"content-length", b"%d" % len(answer)), (b"content-type", _JSON)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})
        self._metrics.query(now_s() - began)

    def _answer(self, body: bytes, began: float) -> bytes | None:
        """The whole answer; None if the application has to answer."""
        try:
            asked = _decode(body)
            parameters = values_of(asked.parameters)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
            return None
        if len(asked.sql) > MAX_SQL or not 0 <= asked.bookmark <= MAX_TS:
            return None
        if asked.timeout_ms is not None and not 0 < asked.timeout_ms <= MAX_MS:
            return None
        if len(parameters) > self._max_parameters:
            return None
        found = self._found(asked, parameters)
        if found is None or len(found.rows) > self._max_rows:
            return None
        return _encode(direct_document(found, began))

    def _found(self, asked: _Query, parameters: list[Any] | dict[str, Any]) -> DirectResult | None:
        try:
            database = self._serving.require_readable()
            return database.directly(
                asked.sql, parameters, bookmark=asked.bookmark, use_views=asked.use_views
            )
        except HornbeamError:
            return None  # the application meets the error again, and reports it


def _is_usual(scope: Scope) -> bool:
    """May the layer answer this request, by its principal and its headers?"""
    principal: Principal = scope[PRINCIPAL]
    if principal.grants is not None or not principal.role.includes(Role.READER):
        return False
    typed = False
    for name, value in scope["headers"]:
        if name == b"content-type":
            typed = value == _JSON
        elif name == b"content-encoding" or (name == b"accept" and value not in _ACCEPTED):
            return False
    return typed


def _again(first: Message, receive: Receive) -> Receive:
    """A `receive` that gives the message `first` again."""
    waiting = [first]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
