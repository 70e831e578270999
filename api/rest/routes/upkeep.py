"""Verification and bulk loading."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import Header, Request, Response

from hornbeam_server.api.rest import response_models
from hornbeam_server.api.rest.audit import note
from hornbeam_server.api.rest.authorization import discreet_violation, require_verify
from hornbeam_server.api.rest.dependencies import (
    Asking,
    Db,
    IdempotencyKey,
    encoded,
    metrics_of,
    settings_of,
    tagged,
)
from hornbeam_server.api.rest.load_bodies import name_bad_row, name_orphan, read_rows
from hornbeam_server.api.rest.request_models import (
    LoadTogetherBody,
    RebuildBody,
    RepairBody,
    VerifyBody,
)
from hornbeam_server.api.rest.streams import verify_response
from hornbeam_server.api.security.roles import Role, needs
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import ConstraintViolation, NotFound, TypeMismatch
from hornbeam_server.txlayer.statements.requests import InsertRows, TransactionResult

router = tagged("upkeep")


@router.post(
    "/v1/verify",
    responses=response_models.verify(400, 404, 422, 429, 503),
    response_class=Response,
    openapi_extra=needs(Role.READER),
)
async def verify_views(body: VerifyBody, request: Request, db: Db, asking: Asking) -> Response:
    """Recompute views and indexes, and compare them with the stored rows. The answer has lines of
    progress, then a line with the report.

    Only administrators may repair.
    """
    require_verify(asking, body.names, body.repair, db.catalog)
    if body.repair:
        note(request.scope, repaired=body.names)
    return await verify_response(db, body.names, body.repair)


@router.post(
    "/v1/repair/{name:path}",
    responses=response_models.of(response_models.Repaired, 400, 404, 409, 422, 429, 503, 504, 507),
    openapi_extra=needs(Role.ADMIN),
)
async def repair_view(name: str, body: RepairBody, request: Request, db: Db) -> Response:
    """Recompute some rows of a view or index from the base relations, under their locks, and write
    those that differ."""
    note(request.scope, repaired=[name])
    return encoded({"repaired": await db.repair(name, body.decoded())})


@router.post(
    "/v1/rebuild",
    responses=response_models.of(response_models.Rebuilding, 400, 404, 422, 503, 507),
    openapi_extra=needs(Role.ADMIN),
)
async def rebuild_views(body: RebuildBody, request: Request, db: Db) -> Response:
    """Build views that commits maintain again, with their indexes, while writers go on.

    Until they are built, queries are answered from the relations, and queries that name the views
    are refused. `POST /v1/groups/rebuild` does the same for deferred views.
    """
    note(request.scope, rebuilt=body.views)
    return encoded({"views": await db.rebuild(body.views)})


@router.post(
    "/v1/load/{relation:path}",
    responses=response_models.of(
        response_models.Loaded, 404, 409, 413, 415, 422, 429, 503, 504, 507
    ),
    openapi_extra=needs(Role.WRITER, **response_models.LOAD_BODY),
)
async def load_rows(
    relation: str,
    request: Request,
    db: Db,
    asking: Asking,
    idempotency_key: IdempotencyKey = None,
    content_type: Annotated[str, Header()] = "",
) -> Response:
    """Insert the rows of a CSV (with a header row) or an Arrow stream as one transaction.

    In CSV an empty field is NULL, and a quoted empty field is the empty text. An empty line is a
    row of NULL if the header has one column, and is skipped otherwise.
    """
    if relation not in db.catalog.schema:
        raise NotFound(f"There is no relation {relation}.")
    asking.require_write(relation)
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
            owner=asking.key,
        )
    except TypeMismatch as error:
        raise name_bad_row(error, into, columns, rows) from None
    except ConstraintViolation as error:
        named = name_orphan(error, into, columns, rows)
        raise discreet_violation(named, asking, db.catalog) from None
    return _loaded(result, request)


@router.post(
    "/v1/load",
    responses=response_models.of(
        response_models.Loaded, 404, 409, 413, 415, 422, 429, 503, 504, 507
    ),
    openapi_extra=needs(Role.WRITER),
)
async def load_relations(
    body: LoadTogetherBody,
    request: Request,
    db: Db,
    asking: Asking,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Insert rows of several relations as one transaction. References are checked at its end, so
    that rows may reference one another in a circle."""
    catalog, limits = db.catalog, settings_of(request)
    for part in body.parts:
        if part.relation not in catalog.schema:
            raise NotFound(f"There is no relation {part.relation}.")
        asking.require_write(part.relation)
    batches: list[InsertRows] = []
    left = limits.max_load_rows
    for part in body.parts:
        into = catalog.schema.relation(part.relation)
        columns, rows = await asyncio.to_thread(
            read_rows, part.decoded(), part.content_type, into, left
        )
        left -= len(rows)
        batches.append(InsertRows(part.relation, tuple(columns), rows))
    try:
        result = await db.load_together(
            batches,
            idempotency_key=idempotency_key,
            timeout_s=limits.max_timeout_s,
            owner=asking.key,
        )
    except TypeMismatch as error:
        raise _located(error, batches, catalog) from None
    except ConstraintViolation as error:
        raise discreet_violation(error, asking, catalog) from None
    return _loaded(result, request)


def _located(error: TypeMismatch, batches: Sequence[InsertRows], catalog: Catalog) -> TypeMismatch:
    """`error` with the relation, row and column of the first value that does not fit."""
    for batch in batches:
        into = catalog.schema.relation(batch.relation)
        found = name_bad_row(error, into, batch.columns, batch.rows)
        if found is not error:
            details = {**found.details, "relation": batch.relation}
            return TypeMismatch(f"{batch.relation}: {found.message}", cure=found.cure, **details)
    return error


def _loaded(result: TransactionResult, request: Request) -> Response:
    metrics_of(request).transaction(result)
    note(request.scope, transaction=result.transaction_id, changed=sorted(result.affected))
    rows = sum(each.affected for each in result.statements)
    return encoded({"rows": rows, "commit_ts": result.commit_ts})
