"""Errors over HTTP: RFC 9457 problem details, one status per code.

The body never carries a stack trace. `outcome` is what is known of the transaction: "none" (it had
no effect), "committed", or "unknown" (ask by transaction id).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import Scope

from hornbeam_server.schema.errors import Corruption, HornbeamError, Unauthenticated

_LOG = structlog.get_logger(__name__)
MEDIA_TYPE = "application/problem+json"
LEADER = "Hornbeam-Leader"
"""Header of a refusal that only the leader would not have made: the URL of the node that leads."""
PLACES = 20
"""Maximum number of places that the problem of an invalid request names: the first are enough."""
PLACE, TEXT, ITEMS = 200, 8_000, 1_000
"""Maximum characters of a place, characters of any text and items of any list in a problem, which
may quote long input of the client."""

STATUS: dict[str, int] = {
    "schema-invalid": 422,
    "sql-invalid": 422,
    "sql-unknown-name": 422,
    "sql-type-mismatch": 422,
    "division-by-zero": 422,
    "sql-unsupported": 422,
    "constraint-violation": 409,
    "not-null-violation": 409,
    "unique-violation": 409,
    "foreign-key-violation": 409,
    "check-violation": 409,
    "precondition-failed": 412,
    "transaction-aborted": 409,
    "read-conflict": 409,
    "outcome-unknown": 504,
    "idempotency-mismatch": 422,
    "snapshot-too-old": 410,
    "stale-plan": 409,
    "being-loaded": 409,
    "not-found": 404,
    "limit-exceeded": 413,
    "memory-exceeded": 507,
    "statement-timeout": 504,
    "overloaded": 429,
    "unavailable": 503,
    "disk-full": 507,
    "corruption": 500,
    "invalid-request": 422,
    "unauthenticated": 401,
    "forbidden": 403,
    "misdirected-request": 421,
    "internal": 500,
}


class Refused(HTTPException):
    """A refusal because of the head or the form of a request: a status without a code of its
    own."""

    def __init__(self, status: int, detail: str, *, cure: str, close: bool = False) -> None:
        super().__init__(status, detail, {"Connection": "close"} if close else None)
        self.cure = cure


def problem(error: HornbeamError, status: int | None = None) -> dict[str, Any]:
    """The problem document of an error. `status` defaults to that of the error's code. The members
    of RFC 9457 take precedence over details of the error."""
    details = {name: value for name, value in error.details.items() if value not in ("", 0, None)}
    return details | {
        "type": f"urn:hornbeam:{error.code}",
        "title": error.code.replace("-", " "),
        "status": status or STATUS[error.code],
        "detail": error.message,
        "code": error.code,
        "cure": error.cure,
        "retryable": error.retryable,
        "outcome": error.outcome,
    }


def response(error: HornbeamError, status: int | None = None) -> Response:
    document = problem(error, status)
    headers = {"Retry-After": "1"} if error.retryable else {}
    if leader := document.get("leader"):
        headers[LEADER] = leader
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="hornbeam"'
    return _document(document["status"], document, headers)


def reported(scope: Scope, error: HornbeamError) -> Response:
    """The answer to a request that has failed. Damage is logged, too."""
    if isinstance(error, Corruption):
        log_damage(scope, error)
    return response(error)


def log_damage(scope: Scope, error: Corruption) -> None:
    """Log damage, so that an operator learns of it whatever the client does with the answer."""
    _LOG.error("damage found", path=scope["path"], error=error.message, cure=error.cure)


def refused(error: Refused) -> Response:
    """The answer to a request that is refused because of its head or its form."""
    answer = _plain(error.status_code, "invalid-request", str(error.detail), cure=error.cure)
    answer.headers.update(error.headers or {})
    return answer


def unexpected() -> Response:
    """The answer to an error that is a bug of the server."""
    return _plain(500, "internal", "An unexpected error; the server's log has the details.")


def install(app: FastAPI, routes: Sequence[APIRoute]) -> None:
    """Let `app` answer errors as problems. `api/rest/middleware.py` answers unhandled exceptions.

    `routes` are all routes. They give the methods of a path for a 405: where a path has several
    routes, each of them knows only its own method.
    """

    async def hornbeam_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HornbeamError)
        return reported(request.scope, error)

    async def invalid_request(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        errors = error.errors()[:PLACES]
        places = [
            {"at": _cut("/".join(map(str, e["loc"])), PLACE), "problem": _cut(e["msg"], PLACE)}
            for e in errors
        ]
        detail = "; ".join(f"{place['at']}: {place['problem']}" for place in places)
        detail = f"The request does not fit: {detail}"
        cure = "Correct these places; /docs has the form of each request."
        return _plain(422, "invalid-request", detail, cure=cure, places=places)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if isinstance(error.__cause__, HornbeamError):  # while the body was read
            return response(error.__cause__)
        if isinstance(error, Refused):
            return refused(error)
        code = "not-found" if error.status_code == 404 else "invalid-request"
        answer = _plain(error.status_code, code, str(error.detail))
        answer.headers.update(error.headers or {})
        if error.status_code == 405:
            path = request.scope["path"]
            allowed = {m for r in routes if r.path_regex.match(path) for m in r.methods or ()}
            allowed |= {"HEAD"} if "GET" in allowed else set()
            answer.headers["Allow"] = ", ".join(sorted(allowed)) or answer.headers["Allow"]
        return answer

    app.add_exception_handler(HornbeamError, hornbeam_error)
    app.add_exception_handler(RequestValidationError, invalid_request)
    app.add_exception_handler(HTTPException, http_error)


def _plain(status: int, code: str, detail: str, **more: Any) -> Response:
    document = {
        "type": f"urn:hornbeam:{code}",
        "title": code.replace("-", " "),
        "status": status,
        "detail": detail,
        "code": code,
        "cure": "",
        "retryable": False,
        "outcome": "unknown" if status == 500 else "none",
    }
    return _document(status, document | more, {})


def _document(status: int, document: dict[str, Any], headers: dict[str, str]) -> Response:
    body = msgspec.json.encode(_bounded(document), enc_hook=str)
    return Response(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def _bounded(value: Any) -> Any:
    """`value` with long texts and lists cut."""
    if isinstance(value, str):
        return _cut(value, TEXT)
    if isinstance(value, dict):
        return {_cut(str(name), PLACE): _bounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_bounded(item) for item in value[:ITEMS]]
    return value


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
