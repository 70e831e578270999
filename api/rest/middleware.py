"""The outermost layer of the application: limits, metrics, and answers to unhandled errors."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hornbeam_server.api.rest import problems, request_spans
from hornbeam_server.api.rest.metrics import Metrics, now_s
from hornbeam_server.api.rest.occupancy import LASTING, Occupancy
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import (
    Closing,
    Corruption,
    HornbeamError,
    LimitExceeded,
    OutcomeUnknown,
    Overloaded,
    Unavailable,
)
from hornbeam_server.schema.time_limits import within
from hornbeam_server.storage.tracing import Span, Tracer

_LOG = structlog.get_logger(__name__)
ALWAYS = {"/livez", "/readyz", "/metrics", "/v1/status"}
"""Routes that no limit on concurrent requests refuses: monitoring must work on a busy server."""
_READING, _QUERIES = {"GET", "HEAD"}, {"/v1/query", "/v1/explain"}
"""Requests that have no effect."""
BODY_S = 30.0
"""Maximum wait in seconds for the next piece of a body."""


class Guard:
    """The outermost layer of the application.

    It refuses requests beyond `max_concurrent_requests` (429), bodies whose declared or real length
    exceeds `max_body_bytes` (413), and bodies that stop arriving (408). An unhandled exception is
    logged and answered with a 500 without details. An exception in the middle of an answer cuts the
    connection, so that the client cannot take the answer for a whole one. A request that is
    cancelled because the server stops gets an answer, too.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        metrics: Metrics,
        inside: Occupancy,
        tracer: Tracer | None,
    ) -> None:
        self._app = app
        self._tracer = tracer
        self._settings = settings
        self._metrics = metrics
        self._inside = inside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            response = problems.response(refusal)
            self._metrics.request(scope, response.status_code, 0.0)
            await response(scope, receive, send)
            return
        counted = scope["path"] not in LASTING
        with (
            self._inside.entered() if counted else contextlib.nullcontext(),
            request_spans.entered(self._tracer, scope) as span,
        ):
            await self._observed(scope, receive, send, span)

    def _refusal(self, scope: Scope) -> HornbeamError | None:
        if self._inside.is_full() and scope["path"] not in ALWAYS:
            return Overloaded(
                f"{self._inside.limit} requests are under way already.",
                cure="Try again in a moment.",
            )
        length = dict(scope["headers"]).get(b"content-length", b"")
        if length.isdigit() and int(length[:20]) > self._settings.max_body_bytes:
            return self._too_large()
        return None

    def _too_large(self) -> LimitExceeded:
        return LimitExceeded(
            f"The body is larger than {self._settings.max_body_bytes} bytes.",
            cure="Send less at a time, or raise max_body_bytes.",
        )

    async def _observed(
        self, scope: Scope, receive: Receive, send: Send, span: Span | None
    ) -> None:
        began, status, seen, more = now_s(), 0, 0, True

        async def counted() -> Message:
            nonlocal seen, more
            message = await (_in_time(receive) if more else receive())
            more = message.get("more_body", False)
            seen += len(message.get("body", b""))
            if seen > self._settings.max_body_bytes:
                raise self._too_large()
            return message

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        # HEAD is answered as GET is; uvicorn leaves out the body.
        asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        try:
            await self._app(asked, counted, noted)
        except asyncio.CancelledError:  # by uvicorn, at the end of its grace period
            if not status:
                await problems.response(_stopped(scope))(scope, receive, noted)
        except ClientDisconnect:
            _LOG.debug("client gone", path=scope["path"])
        except Exception as error:
            if status:
                _log(scope, error)
            else:
                await _answer(scope, error)(scope, receive, noted)
        answered = {**asked, "method": scope["method"]}
        self._metrics.request(answered, status, now_s() - began)
        request_spans.end(span, answered, status)


def _stopped(scope: Scope) -> HornbeamError:
    """The error for a request that is cancelled because the server stops."""
    message = "The server was stopped before the request had ended."
    if scope["method"] in _READING or scope["path"] in _QUERIES:
        return Unavailable(message, cure="Try again when it is up, or at another node.")
    return OutcomeUnknown(
        message, cure="Look whether it had an effect, or repeat it with its idempotency key."
    )


async def _in_time(receive: Receive) -> Message:
    try:
        return await within(BODY_S, receive())  # type: ignore[arg-type]
    except TimeoutError:
        raise problems.Refused(
            408,
            f"No more of the body came for {BODY_S:g} s.",
            cure="Send all of it without a pause.",
            close=True,
        ) from None


def _answer(scope: Scope, error: Exception) -> Response:
    """The answer to an error that no inner layer has answered."""
    if isinstance(error, HornbeamError):
        return problems.reported(scope, error)
    if isinstance(error, problems.Refused):
        return problems.refused(error)
    _log(scope, error)
    return problems.unexpected()


def _log(scope: Scope, error: Exception) -> None:
    cause: Any = error.__cause__ if isinstance(error, RuntimeError) else error
    if isinstance(cause, Corruption):
        problems.log_damage(scope, cause)
    elif isinstance(cause, Closing):
        _LOG.info("answer cut short, since the database is closed", path=scope["path"])
    elif isinstance(cause, HornbeamError):
        _LOG.warning("answer cut short", path=scope["path"], code=cause.code, error=cause.message)
    else:
        _LOG.error("unexpected error", path=scope["path"], exc_info=error)
