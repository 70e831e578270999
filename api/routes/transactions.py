"""Write transactions, and what became of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response

from api import answers
from api.documents import transaction_document
from api.models import TransactionBody
from api.requests import (
    Db,
    IdempotencyKey,
    check_parameters,
    database_of,
    encoded,
    metrics_of,
    settings_of,
    tagged,
    timeout_s,
)
from schema.errors import NotFound

router = tagged("transactions")


@router.post(
    "/v1/transactions",
    responses=answers.leading_to(
        answers.of(answers.Transaction, 400, 404, 409, 412, 413, 422, 429, 503, 504, 507),
        outcome=answers.OUTCOME_OF_IT,
        read=answers.READ_OF_IT,
    )
    | {202: {"model": answers.Transaction, "description": "Committed, not applied yet."}},
)
async def transact(
    body: TransactionBody,
    request: Request,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Run INSERT, UPDATE and DELETE statements as one transaction."""
    db, limits = database_of(request), settings_of(request)
    check_parameters(body.parameter_lists(), limits)
    result = await db.transact(body.request(idempotency_key, timeout_s(body.timeout_ms, limits)))
    metrics_of(request).transaction(result)
    return encoded(transaction_document(db.catalog, result), 200 if result.applied else 202)


TransactionId = Annotated[
    str,
    Path(pattern="^[0-9a-f]{32}$", description="32 lower-case hexadecimal digits."),
]


@router.get(
    "/v1/transactions/{transaction_id}", responses=answers.of(answers.Outcome, 404, 422, 503)
)
async def outcome(transaction_id: TransactionId, db: Db) -> Response:
    """What became of a transaction: "committed", or "unknown" while the log has not answered.

    404 when no commit of it is recorded: it was not committed, or longer ago than answers are
    kept (`outcome_retention_s`).
    """
    unfinished = transaction_id in db.manager.unfinished
    found = await db.outcome(transaction_id)
    if found is not None:
        return encoded(
            {
                "transaction_id": transaction_id,
                "outcome": "committed",
                "commit_ts": found.commit_ts,
                "answer": transaction_document(db.catalog, found.answer),
            }
        )
    if not unfinished:
        raise NotFound(
            f"No commit of transaction {transaction_id} is recorded.",
            cure="It was not committed, or longer ago than answers are kept.",
        )
    return encoded(
        {
            "transaction_id": transaction_id,
            "outcome": "unknown",
            "commit_ts": None,
            "answer": None,
        }
    )
