"""Errors over HTTP: RFC 9457 problem details, one status per code.

The body never carries a stack trace. `outcome` says what is known of the transaction: "none"
(nothing happened), "committed", or "unknown" (ask by transaction id).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from schema.errors import HornbeamError, Unauthenticated

MEDIA_TYPE = "application/problem+json"
PLACES = 20
"""Places of a request that does not fit that are named; the first are enough to go on."""

STATUS: dict[str, int] = {
    "schema-invalid": 422,
    "schema-cycle": 422,
    "sql-invalid": 422,
    "sql-unknown-name": 422,
    "sql-type-mismatch": 422,
    "sql-unsupported": 422,
    "constraint-violation": 409,
    "not-null-violation": 409,
    "unique-violation": 409,
    "foreign-key-violation": 409,
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
    "statement-timeout": 504,
    "overloaded": 429,
    "unavailable": 503,
    "disk-full": 507,
    "corruption": 500,
    "invalid-request": 422,
    "unauthenticated": 401,
    "forbidden": 403,
    "internal": 500,
}


def problem(error: HornbeamError) -> dict[str, Any]:
    """The problem document of an error. RFC 9457's own members win over an error's details."""
    details = {name: value for name, value in error.details.items() if value not in ("", 0, None)}
    return details | {
        "type": f"urn:hornbeam:{error.code}",
        "title": error.code.replace("-", " "),
        "status": STATUS[error.code],
        "detail": error.message,
        "code": error.code,
        "cure": error.cure,
        "retryable": error.retryable,
        "outcome": error.outcome,
    }


def response(error: HornbeamError) -> Response:
    document = problem(error)
    headers = {"Retry-After": "1"} if error.retryable else {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="hornbeam"'
    return _document(document["status"], document, headers)


def unexpected() -> Response:
    """The answer to an error that is a mistake of ours."""
    return _plain(500, "internal", "An unexpected error; the server's log has the details.")


def install(app: FastAPI, routes: Sequence[APIRoute]) -> None:
    """Answer every error of `app` as a problem; what is left over, `api/middleware.py` answers.

    `routes` are all routes: where one path has several, each of them knows only its own method.
    """

    async def hornbeam_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HornbeamError)
        return response(error)

    async def invalid_request(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        errors = error.errors()[:PLACES]
        places = [{"at": "/".join(map(str, e["loc"])), "problem": e["msg"]} for e in errors]
        detail = "; ".join(f"{place['at']}: {place['problem']}" for place in places)
        return _plain(422, "invalid-request", f"The request does not fit: {detail}", places=places)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if isinstance(error.__cause__, HornbeamError):  # while the body was read
            return response(error.__cause__)
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
    body = msgspec.json.encode(document, enc_hook=str)
    return Response(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)
