"""Reading whole relations beside the nodes, as Spark does (`pipeline/`)."""

from __future__ import annotations

from fastapi import Request, Response

from api import answers
from api.access import Role, needs
from api.audit import note
from api.documents import export_document
from api.models import ExportBody
from api.requests import Db, encoded, tagged
from schema.errors import NotFound

router = tagged("exports")
ADMIN = needs(Role.ADMIN)


@router.post(
    "/v1/exports", responses=answers.of(answers.Exported, 400, 410, 422, 503), openapi_extra=ADMIN
)
async def begin(body: ExportBody, request: Request, db: Db) -> Response:
    """A snapshot of everything, the catalog it belongs to, and where its rows lie.

    For administrators: whoever can reach them there sees the rows of all relations.
    """
    export = await db.export(body.snapshot)
    note(request.scope, export=export.name)
    return encoded(export_document(export))


@router.delete(
    "/v1/exports/{name}", responses=answers.of(answers.ExportEnded, 404, 503), openapi_extra=ADMIN
)
async def end(name: str, db: Db) -> Response:
    """Give up what keeps the rows of an export; otherwise it goes when its time is over."""
    if not await db.exports.end(name):
        raise NotFound(f"There is nothing of an export {name}.")
    return encoded({"ended": name})
