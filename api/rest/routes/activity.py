"""The cost of statements by their text, and the transactions that are under way: of this node,
since it serves. Statements may contain values of any relation, so only administrators see them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from hornbeam_server.api.rest import activity, response_models
from hornbeam_server.api.rest.audit import note
from hornbeam_server.api.rest.dependencies import Db, ReadDb, encoded, tagged
from hornbeam_server.api.security.roles import Role, needs

router = tagged("activity")
ADMIN = needs(Role.ADMIN)


@router.get(
    "/v1/statements",
    responses=response_models.of(activity.Statistics, 422, 503),
    openapi_extra=ADMIN,
)
async def list_statements(
    db: ReadDb,
    order: Annotated[activity.Order, Query(description="The largest come first.")] = "time",
    limit: Annotated[int, Query(ge=1, le=100_000)] = 100,
) -> Response:
    """The statements that this node has run, with their calls, times and rows.

    Texts that differ only in literals are counted together, with `?` for each literal. The counts
    begin when the node starts to serve, or with the last `DELETE`.
    """
    return encoded(activity.statistics_document(db.statements, order, limit))


@router.delete(
    "/v1/statements",
    responses=response_models.of(activity.StatisticsReset, 503),
    openapi_extra=ADMIN,
)
async def reset_statements(request: Request, db: ReadDb) -> Response:
    """Forget the counts of all statements of this node."""
    db.statements.reset()
    note(request.scope, reset="statements")
    return encoded({"since_ms": db.statements.since_ms})


@router.get(
    "/v1/transactions",
    responses=response_models.of(list[activity.RunningTransactionAnswer], 503),
    openapi_extra=ADMIN,
)
async def list_transactions(db: Db) -> Response:
    """The transactions of this node that are under way, the oldest first, each with the lock for
    which it waits.

    A transaction of a client's session is under way when it commits: before that, it holds no
    locks.
    """
    now_ms = db.clock.wall_ms()
    running = db.running_transactions()
    return encoded([activity.running_document(each, now_ms) for each in running])
