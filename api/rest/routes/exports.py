"""Reading whole relations, and what changes in them, beside the nodes, as Spark does
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
async def begin(body: ExportBody, request: Request, db: Db) -> Response:
    """A snapshot of everything, the catalog it belongs to, and where its rows lie.

    For administrators: whoever can reach them there sees the rows of all relations.
    """
    export = await db.export(body.snapshot, body.view)
    note(request.scope, export=export.name)
    return encoded(export_document(export))


@router.delete(
    "/v1/exports/{name}",
    responses=response_models.of(response_models.ExportEnded, 404, 503, 507),
    openapi_extra=ADMIN,
)
async def end(name: str, db: Db) -> Response:
    """Give up what keeps the rows of an export; otherwise it goes when its time is over."""
    if not await db.exports.end(name):
        raise NotFound(f"There is nothing of an export {name}.")
    return encoded({"ended": name})


@router.post(
    "/v1/changes",
    responses=response_models.of(response_models.ChangesFound, 400, 410, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def changes(body: ChangesBody, request: Request, db: Db) -> Response:
    """The changes of all relations between two snapshots: where the logs lie that have them, and
    which of their segments. These stay as they are until they are older than the retention.

    For administrators, as exports are. 410: the logs do not have all of it any more.
    """
    found = await db.changes(body.after, body.upto)
    note(request.scope, after=found.after, upto=found.upto)
    return encoded(changes_document(found))
