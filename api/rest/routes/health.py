"""Liveness, readiness, metrics and status of the server."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from hornbeam_server.api.rest import response_models
from hornbeam_server.api.rest.authorization import shown_status
from hornbeam_server.api.rest.dependencies import (
    Asking,
    Db,
    encoded,
    metrics_of,
    serving_of,
    tagged,
)
from hornbeam_server.api.rest.serializers import group_documents
from hornbeam_server.api.security.roles import Role, needs
from hornbeam_server.schema.errors import Unavailable

router = tagged("health")
PUBLIC, READER = needs(None), needs(Role.READER)


@router.get("/livez", responses=response_models.of(response_models.Live), openapi_extra=PUBLIC)
async def livez() -> Response:
    """Liveness: the process answers."""
    return encoded({"status": "live"})


@router.get(
    "/readyz", responses=response_models.of(response_models.Ready, 503, 507), openapi_extra=PUBLIC
)
async def readyz(db: Db) -> Response:
    """Readiness: this node accepts requests. If it does not, the problem has the reason."""
    db.require_ready()
    return encoded({"status": "ready"})


@router.get(
    "/metrics",
    responses=response_models.text("Prometheus text format.", "text/plain"),
    response_class=Response,
    openapi_extra=READER,
)
async def metrics(request: Request) -> Response:
    """Prometheus metrics."""
    text, media_type = await metrics_of(request).render(serving_of(request).database)
    return Response(text, media_type=media_type)


@router.get(
    "/v1/status",
    responses=response_models.of(response_models.Status, 422, 503),
    openapi_extra=READER,
)
async def node_status(
    db: Db,
    asking: Asking,
    sizes: Annotated[bool, Query(description="Count the bytes of all tables; slow.")] = False,
) -> Response:
    """Catalog version, watermark, locks, log and builds; with `sizes` also bytes per relation, view
    and index.

    Only administrators get the data folder and the hot locks.
    """
    document = dict(await db.status())
    try:
        document["groups"] = await group_documents(db, asking.may_read)
    except Unavailable:  # the rest of the status is needed most then
        document["groups"] = None
    if sizes:
        document["bytes"] = await db.sizes()
    return encoded(shown_status(document, asking, db.catalog))
