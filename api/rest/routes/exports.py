"""Exports of whole relations, and of their changes, for external readers such as Spark
(`pipeline/`)."""

from __future__ import annotations

from fastapi import Request, Response

from hornbeam_server.api.rest import response_models
from hornbeam_server.api.rest.audit import note
from hornbeam_server.api.rest.dependencies import Db, encoded, tagged
from hornbeam_server.api.rest.request_models import ChangesBody, ExportBody
from hornbeam_server.api.rest.serializers import changes_document, export_document
from hornbeam_server.api.security.roles import Role, needs
from hornbeam_server.schema.errors import NotFound

router = tagged("exports")
ADMIN = needs(Role.ADMIN)


@router.post(
    "/v1/exports",
    responses=response_models.of(response_models.Exported, 400, 404, 410, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def begin_export(body: ExportBody, request: Request, db: Db) -> Response:
    """Begin an export: a snapshot of all relations, its catalog, and the place of its rows.

    Only for administrators: a reader with access to that place sees the rows of all relations.
    """
    export = await db.export(body.snapshot, body.view)
    note(request.scope, export=export.name)
    return encoded(export_document(export))


@router.delete(
    "/v1/exports/{name}",
    responses=response_models.of(response_models.ExportEnded, 404, 503, 507),
    openapi_extra=ADMIN,
)
async def end_export(name: str, db: Db) -> Response:
    """Remove the checkpoint of an export before the export expires. 404: it has no checkpoint, or
    none any more; exports from HBase have none."""
    if not await db.exports.end(name):
        raise NotFound(f"Export {name} has no checkpoint.", cure="It has expired, or had none.")
    return encoded({"ended": name})


@router.post(
    "/v1/changes",
    responses=response_models.of(response_models.ChangesFound, 400, 410, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def read_changes(body: ChangesBody, request: Request, db: Db) -> Response:
    """The changes of all relations between two snapshots: the place of the logs, and the segments
    that hold them. The segments do not change, and are kept for the retention.

    Only for administrators, as exports are. 410: the logs have lost some of the changes.
    """
    found = await db.changes(body.after, body.upto)
    note(request.scope, after=found.after, upto=found.upto)
    return encoded(changes_document(found))
