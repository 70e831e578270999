"""Groups of deferred views: their freshness, and the batches that refresh them."""

from __future__ import annotations

from fastapi import Request, Response

from hornbeam_server.api.rest import response_models
from hornbeam_server.api.rest.audit import note
from hornbeam_server.api.rest.dependencies import Asking, Db, ReadDb, encoded, tagged
from hornbeam_server.api.rest.request_models import FinishBody, RebuildBody, ResultBody
from hornbeam_server.api.rest.serializers import (
    batch_document,
    group_documents,
    refreshed_document,
)
from hornbeam_server.api.security.roles import Role, needs
from hornbeam_server.node.live.outcomes import CURE, Left
from hornbeam_server.schema.errors import Unsupported

router = tagged("groups")
ADMIN = needs(Role.ADMIN)


@router.get(
    "/v1/groups",
    responses=response_models.of(list[response_models.Group], 503),
    openapi_extra=needs(Role.READER),
)
async def list_groups(db: ReadDb, asking: Asking) -> Response:
    """All groups with a view that the API key may read: the snapshot that they show, and its
    age."""
    return encoded(await group_documents(db, asking.may_read))


@router.post(
    "/v1/groups/{group:path}/batches",
    responses=response_models.of(response_models.Batch, 404, 410, 503, 507),
    openapi_extra=ADMIN,
)
async def begin_batch(group: str, request: Request, db: Db) -> Response:
    """The next batch of a group with its inputs: the batch under way, or a new one.

    Only for administrators: the inputs give access to the rows of all relations.
    """
    batch = await db.begin_batch(group)
    note(request.scope, group=group, upto=batch.work.upto)
    return encoded(batch_document(batch))


@router.post(
    "/v1/groups/{group:path}/batches/{upto}/results",
    responses=response_models.of(response_models.Agreed, 400, 404, 409, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def agree_on_result(group: str, upto: int, body: ResultBody, db: Db) -> Response:
    """State the digest of the rows of a recomputed view, before its first row is put. 409 if the
    digest was another one when this batch was done before. May be repeated."""
    await db.deferred.agree(group, upto, body.view, body.digest)
    return encoded({"digest": body.digest})


@router.post(
    "/v1/groups/{group:path}/batches/{upto}",
    responses=response_models.of(response_models.BatchFinished, 400, 404, 409, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def finish_batch(
    group: str, upto: int, body: FinishBody, request: Request, db: Db
) -> Response:
    """Finish a batch whose rows are all put: queries read at `upto` from now on. May be
    repeated."""
    state = await db.deferred.finish(group, upto, body.finished())
    note(request.scope, group=group, as_of=state.as_of)
    return encoded({"as_of": state.as_of})


@router.post(
    "/v1/groups/{group:path}/refresh",
    responses=response_models.of(response_models.Refreshed, 404, 410, 413, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def refresh_group(group: str, request: Request, db: Db) -> Response:
    """Take a group to a snapshot that has everything that is committed now, and build its new
    views, at the nodes. 422 with the member `left` if the nodes leave that to Spark, for the reason
    that `left` gives. May be repeated."""
    try:
        state = await db.live.refresh(group)
    except Left as left:
        raise Unsupported(str(left), cure=CURE, left=left.reason) from None
    note(request.scope, group=group, as_of=state.as_of)
    return encoded(refreshed_document(db, group, state))


@router.post(
    "/v1/groups/rebuild",
    responses=response_models.of(response_models.Rebuilding, 400, 404, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def rebuild_groups(body: RebuildBody, request: Request, db: Db) -> Response:
    """Let the next batch rebuild deferred views. They cannot be read until it is finished."""
    await db.deferred.rebuild(body.views)
    note(request.scope, rebuilt=body.views)
    return encoded({"views": body.views})
