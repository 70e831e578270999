"""The audit log: the API key, time and status of every request for a change.

It has one JSON line for each write, each administrator's request, and each request refused with 401
or 403, on a logger of its own. A line names the public id of the key, and relations; it holds no
statement, no value and no secret. It is written before the answer is sent. A request without an
answer (its client disconnected, or the server failed) has the status 0.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hornbeam_server.api.rest.authentication import PRINCIPAL, claimed_id
from hornbeam_server.api.security.roles import Principal, Role, needed_role
from hornbeam_server.schema.errors import InvalidRequest

STANDARD_ERROR = "-"
_NOTED = "hornbeam.audited"
_REFUSED = frozenset({401, 403})
_LOG = structlog.get_logger(__name__)

Write = Callable[..., Any]


def note(scope: Scope, **facts: Any) -> None:
    """Let the audit log have this request, whatever its route, with these facts: names and ids
    only."""
    scope.setdefault(_NOTED, {}).update(facts)


class Lines:
    """A logger that appends lines to a file, or to standard error. The file may be moved at any
    time.

    If the file cannot be written any more, the server's log reports the line: the commit is not
    taken back.
    """

    def __init__(self, target: Path) -> None:
        """Raises InvalidRequest when the file cannot be written."""
        self._target = target
        try:
            self._append("")
        except OSError as error:
            raise InvalidRequest(
                f"The audit log {target} cannot be written: {error.strerror}.",
                cure="Choose another file, or turn it off.",
            ) from None

    def msg(self, line: str) -> None:
        try:
            self._append(line + "\n")
        except OSError as error:
            _LOG.error("the audit log cannot be written", line=line, error=str(error))

    info = msg

    def _append(self, text: str) -> None:
        if str(self._target) == STANDARD_ERROR:
            sys.stderr.write(text)
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with os.fdopen(os.open(self._target, flags, 0o600), "ab") as file:
            file.write(text.encode())


def logger_to(target: Path) -> Write:
    """The function that writes a line of the audit log to `target`. Raises InvalidRequest when
    `target` cannot be written."""
    logger = structlog.wrap_logger(
        Lines(target),
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.BoundLogger,
    )
    return logger.info  # type: ignore[no-any-return]


class Audit:
    """The layer of the application that writes the audit log."""

    def __init__(self, app: ASGIApp, write: Write) -> None:
        self._app = app
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answered = False

        async def noted(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                self._note(scope, message["status"])
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            if not answered:
                self._note(scope, 0)

    def _note(self, scope: Scope, status: int) -> None:
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
        "route": None if route is None else route.path_format,
        "path": scope["path"][:200],
        "status": status,
        **scope.get(_NOTED, {}),
    }
