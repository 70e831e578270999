"""Write transactions and their outcomes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import Path, Request, Response

from hornbeam_server.api.rest import response_models
from hornbeam_server.api.rest.audit import note
from hornbeam_server.api.rest.authorization import discreet_violation, shown_transaction
from hornbeam_server.api.rest.dependencies import (
    Asking,
    Db,
    IdempotencyKey,
    admitted,
    authorizer_of,
    check_parameters,
    database_of,
    encoded,
    metrics_of,
    paths_of,
    principal_of,
    settings_of,
    tagged,
    timeout_s,
    under_one_catalog,
)
from hornbeam_server.api.rest.request_models import TransactionBody
from hornbeam_server.api.rest.serializers import transaction_document
from hornbeam_server.api.security.roles import Principal, Role, needs
from hornbeam_server.schema.errors import ConstraintViolation, NotFound
from hornbeam_server.txlayer.statements.requests import TransactionResult
from hornbeam_server.txlayer.statements.truncation import restarts

router = tagged("transactions")
WRITER = needs(Role.WRITER)


@router.post(
    "/v1/transactions",
    responses=response_models.leading_to(
        response_models.of(
            response_models.Transaction, 400, 404, 409, 412, 413, 422, 429, 503, 504, 507
        ),
        outcome=response_models.OUTCOME_OF_IT,
        read=response_models.READ_OF_IT,
    )
    | {202: {"model": response_models.Transaction, "description": "Committed, not applied yet."}},
    openapi_extra=WRITER,
)
async def transact(
    body: TransactionBody,
    request: Request,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Run INSERT, UPDATE, DELETE, MERGE and TRUNCATE statements as one transaction."""
    db, limits, principal = database_of(request), settings_of(request), principal_of(request)
    check_parameters(body.parameter_lists(), limits)
    characters = sum(len(statement.sql) for statement in body.statements)
    locate, allow = paths_of(request).transaction, authorizer_of(request).transaction
    time_s = timeout_s(body.timeout_ms, limits)

    if any(restarts(each.sql) for each in body.statements):
        principal.require_role(Role.ADMIN)

    async def run(body: TransactionBody, _: None, version: int) -> TransactionResult:
        asked = body.request(idempotency_key, time_s, principal.key)
        return await db.transact(replace(asked, admitted_under=version))

    admit = partial(admitted, request, db, body, characters, locate, allow)
    try:
        result = await under_one_catalog(db, admit, run)
    except ConstraintViolation as error:
        raise discreet_violation(error, principal, db.catalog) from None
    metrics_of(request).transaction(result)
    note(request.scope, transaction=result.transaction_id, changed=sorted(result.affected))
    texts = [each.sql for each in body.statements]
    document = transaction_document(db.catalog, result, texts)
    document = shown_transaction(document, principal, db.catalog)
    return encoded(document, 200 if result.applied else 202)


TransactionId = Annotated[
    str,
    Path(pattern="^[0-9a-f]{32}$", description="32 lower-case hexadecimal digits."),
]


@router.get(
    "/v1/transactions/{transaction_id}",
    responses=response_models.of(response_models.Outcome, 404, 422, 503),
    openapi_extra=WRITER,
)
async def transaction_outcome(transaction_id: TransactionId, db: Db, asking: Asking) -> Response:
    """The outcome of a transaction: "committed", or "unknown" while the log has not answered.

    404 when no commit of it is recorded: it was not committed, or its outcome is older than
    `outcome_retention_s`. Also 404 for a transaction of another API key, except for administrators.
    """
    owner = await db.unfinished(transaction_id)
    found = await db.outcome(transaction_id)
    if found is not None and _may_know(asking, found.owner):
        answer = transaction_document(db.catalog, found.answer, ())
        return encoded(
            {
                "transaction_id": transaction_id,
                "outcome": "committed",
                "commit_ts": found.commit_ts,
                "answer": shown_transaction(answer, asking, db.catalog),
            }
        )
    if found is not None or owner is None or not _may_know(asking, owner):
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


def _may_know(principal: Principal, owner: str) -> bool:
    return principal.key == owner or principal.role is Role.ADMIN
