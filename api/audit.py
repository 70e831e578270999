"""The audit log: who asked for which change, when, and what came of it.

One JSON line per write or administrator's request, and per request that was refused with 401 or
403, on a logger of its own. It names keys by their public ids, and relations; it holds no
statement, no value and no secret. A client that went away before its answer has the status 0.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access import Principal, Role, needed_role
from api.authentication import PRINCIPAL, claimed_id
from schema.errors import InvalidRequest

STANDARD_ERROR = "-"
_NOTED = "hornbeam.audited"
_REFUSED = frozenset({401, 403})

Write = Callable[..., Any]


def note(scope: Scope, **facts: Any) -> None:
    """Have a request logged whatever its route, with these facts. Names and ids only."""
    scope.setdefault(_NOTED, {}).update(facts)


def logger_to(target: Path) -> Write:
    """Writes lines to a file, which may be moved away (it is opened anew), or to standard error.

    Raises InvalidRequest when the file cannot be written.
    """
    handler: logging.Handler
    try:
        if str(target) == STANDARD_ERROR:
            handler = logging.StreamHandler(sys.stderr)
        else:
            handler = WatchedFileHandler(target, encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(
            f"The audit log {target} cannot be written: {error.strerror}.",
            cure="Choose another file, or turn it off.",
        ) from None
    below = logging.Logger("hornbeam.audit", logging.INFO)
    below.addHandler(handler)
    bound = structlog.wrap_logger(
        below,
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.BoundLogger,
    )
    return bound.info  # type: ignore[no-any-return]


class Audit:
    """The layer of the application that writes the audit log."""

    def __init__(self, app: ASGIApp, write: Write) -> None:
        self._app = app
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            if status in _REFUSED or _NOTED in scope or _changes(scope):
                self._write("request", **_facts(scope, status))


def _changes(scope: Scope) -> bool:
    """Is it a request to a route for writers or administrators?"""
    route = scope.get("route")
    role = None if route is None else needed_role(route.openapi_extra)
    return role is not None and role is not Role.READER


def _facts(scope: Scope, status: int) -> dict[str, Any]:
    principal: Principal | None = scope.get(PRINCIPAL)
    route = scope.get("route")
    client = scope.get("client")
    return {
        "key": claimed_id(scope) if principal is None else principal.key,
        "name": None if principal is None else principal.name,
        "role": None if principal is None else str(principal.role),
        "client": None if client is None else client[0],
        "method": scope["method"],
        "route": None if route is None else route.path,
        "path": scope["path"][:200],
        "status": status,
        **scope.get(_NOTED, {}),
    }
