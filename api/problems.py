"""Errors over HTTP: RFC 9457 problem details, one status per code.

The body never carries a stack trace. `outcome` says what is known of the transaction: "none"
(nothing happened), "committed", or "unknown" (ask by transaction id).
"""

from __future__ import annotations

from typing import Any

import msgspec
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from schema.errors import HornbeamError

_LOG = structlog.get_logger(__name__)
MEDIA_TYPE = "application/problem+json"

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
    "not-found": 404,
    "limit-exceeded": 413,
    "statement-timeout": 504,
    "overloaded": 429,
    "unavailable": 503,
    "disk-full": 507,
    "corruption": 500,
    "invalid-request": 422,
    "internal": 500,
}


def problem(error: HornbeamError) -> dict[str, Any]:
    """The problem document of an error."""
    return {
        "type": f"urn:hornbeam:{error.code}",
        "title": error.code.replace("-", " "),
        "status": STATUS[error.code],
        "detail": error.message,
        "code": error.code,
        "cure": error.cure,
        "retryable": error.retryable,
        "outcome": error.outcome,
        **{name: value for name, value in error.details.items() if value not in ("", 0, None)},
    }


def response(error: HornbeamError) -> Response:
    document = problem(error)
    headers = {"Retry-After": "1"} if error.retryable else None
    return _document(document["status"], document, headers)


def install(app: FastAPI) -> None:
    """Answer every error of `app` as a problem."""

    async def hornbeam_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HornbeamError)
        return response(error)

    async def invalid_body(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        places = [{"at": "/".join(map(str, e["loc"])), "problem": e["msg"]} for e in error.errors()]
        detail = "; ".join(f"{place['at']}: {place['problem']}" for place in places)
        return _plain(422, "invalid-request", f"The request does not fit: {detail}", places)

    async def http_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = "not-found" if error.status_code == 404 else "invalid-request"
        return _plain(error.status_code, code, str(error.detail))

    async def anything(request: Request, error: Exception) -> Response:
        _LOG.error("unexpected error", path=request.url.path, exc_info=error)
        return _plain(500, "internal", "An unexpected error; the server's log has the details.")

    app.add_exception_handler(HornbeamError, hornbeam_error)
    app.add_exception_handler(RequestValidationError, invalid_body)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, anything)


def _plain(status: int, code: str, detail: str, places: Any = None) -> Response:
    document = {
        "type": f"urn:hornbeam:{code}",
        "title": code.replace("-", " "),
        "status": status,
        "detail": detail,
        "code": code,
        "cure": "",
        "retryable": False,
        "outcome": "none",
    }
    return _document(status, document | ({"places": places} if places else {}))


def _document(
    status: int, document: dict[str, Any], headers: dict[str, str] | None = None
) -> Response:
    body = msgspec.json.encode(document, enc_hook=str)
    return Response(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)
