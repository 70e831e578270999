"""Spans of requests: of HTTP, and of the statements of PostgreSQL's wire protocol, which are
requests within the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.types import Scope

from hornbeam_server.pgwire.ports import SENDER
from hornbeam_server.storage.tracing import Entered, Span, Tracer, Untraced, within

T = TypeVar("T")
UNTRACED = frozenset({"/livez", "/readyz", "/metrics"})
"""Routes of monitoring, whose requests would fill a store of traces."""
_HEADERS = {b"traceparent": "traceparent", b"tracestate": "tracestate"}
_FAILED = 500


def entered(tracer: Tracer | None, scope: Scope) -> Entered | Untraced:
    """A context that is a request. It continues the trace of the client, if there is one."""
    if tracer is None or scope["path"] in UNTRACED:
        return within(None)
    headers = {
        _HEADERS[name]: value.decode("latin-1")
        for name, value in scope["headers"]
        if name in _HEADERS
    }
    method, protocol = scope["method"], "postgresql" if SENDER in scope else "http"
    return Entered(tracer.begin(method, _attributes(method, protocol), headers))


def end(span: Span | None, scope: Scope, status: int) -> None:
    """End the span of a request that was answered with `status`; 0: its answer was cut short."""
    if span is not None:
        path = getattr(scope.get("route"), "path_format", "")
        span.note(_answer(path, status), f"{scope['method']} {path}".rstrip())
        span.end(str(status) if status >= _FAILED or not status else None)


def at_once(
    tracer: Tracer, method: str, path: str, protocol: str, answer: Callable[[], T | None]
) -> T | None:
    """Call `answer`, which answers a whole request or returns None: then nothing is recorded."""
    if path in UNTRACED:
        return answer()
    span = tracer.begin(f"{method} {path}", _attributes(method, protocol), {})
    with within(span):
        found = answer()
    if found is not None:
        span.note(_answer(path, 200))
        span.end()
    return found


def _attributes(method: str, protocol: str) -> dict[str, str | int | float]:
    return {"http.request.method": method, "network.protocol.name": protocol}


def _answer(path: str, status: int) -> dict[str, Any]:
    return {"http.route": path, "http.response.status_code": status}
