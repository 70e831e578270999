"""Verification and bulk loading."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Header, Request, Response

from api import answers
from api.bulk import name_bad_row, read_rows
from api.models import VerifyBody
from api.requests import Db, IdempotencyKey, encoded, metrics_of, settings_of, tagged
from api.streams import verify_response
from schema.errors import NotFound, TypeMismatch

router = tagged("upkeep")


@router.post(
    "/v1/verify", responses=answers.verify(400, 404, 422, 429, 503), response_class=Response
)
async def verify(body: VerifyBody, db: Db) -> Response:
    """Recompute and compare views and indexes: lines of progress, then the report."""
    return await verify_response(db, body.names, body.repair)


@router.post(
    "/v1/load/{relation}",
    responses=answers.of(answers.Loaded, 404, 409, 413, 415, 422, 429, 503, 504, 507),
    openapi_extra=answers.LOAD_BODY,
)
async def load(
    relation: str,
    request: Request,
    db: Db,
    idempotency_key: IdempotencyKey = None,
    content_type: Annotated[str, Header()] = "text/csv",
) -> Response:
    """Insert the rows of a CSV (with a header row) or an Arrow stream as one transaction.

    In CSV an empty field is NULL, and a quoted empty field is the empty text.
    """
    if relation not in db.catalog.schema:
        raise NotFound(f"There is no relation {relation}.")
    into = db.catalog.schema.relation(relation)
    body, limits = await request.body(), settings_of(request)
    columns, rows = await asyncio.to_thread(
        read_rows, body, content_type, into, limits.max_load_rows
    )
    try:
        result = await db.load(
            relation,
            columns,
            rows,
            idempotency_key=idempotency_key,
            timeout_s=limits.max_timeout_s,
        )
    except TypeMismatch as error:
        raise name_bad_row(error, into, columns, rows) from None
    metrics_of(request).transaction(result)
    return encoded({"rows": result.statements[0].affected, "commit_ts": result.commit_ts})
