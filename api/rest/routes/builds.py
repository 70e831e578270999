"""External builds of views and indexes, and initial loads, as Spark runs them."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec
from fastapi import Request, Response

from hornbeam_server.api.rest import response_models
from hornbeam_server.api.rest.audit import note
from hornbeam_server.api.rest.dependencies import Db, encoded, in_steps, tagged
from hornbeam_server.api.rest.request_models import (
    MAX_NAMES,
    BuildBody,
    BuildFailedBody,
    FinishedBody,
    LoadBody,
    LoadedBody,
    LoadEndBody,
)
from hornbeam_server.api.rest.serializers import build_document, load_document
from hornbeam_server.api.security.roles import Role, needs
from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.storage.ports import Put

router = tagged("builds")
ADMIN = needs(Role.ADMIN)


class _Puts(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /v1/puts`: rows by physical table."""

    ts: int
    writes: Annotated[dict[str, msgspec.Raw], msgspec.Meta(max_length=MAX_NAMES)]
    flush: bool = False


MAX_PUTS = 1_000_000
"""Maximum number of rows of one table in one body."""
_body = msgspec.msgpack.Decoder(_Puts)
_rows = msgspec.msgpack.Decoder(Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_PUTS)])
_row = msgspec.msgpack.Decoder(Put)


def _decoded(content: bytes) -> tuple[_Puts, dict[str, list[Put]]]:
    """Decode a body row by row (`api/rest/body_limits.py` has the reason). Raises
    InvalidRequest."""
    try:
        body = _body.decode(content)
        writes = {
            name: [_row.decode(row) for row in _rows.decode(rows)]
            for name, rows in body.writes.items()
        }
    except msgspec.DecodeError as error:
        raise InvalidRequest(
            f"The body is no valid request to put rows: {error}.",
            cure=f"Send MessagePack of ts, writes and flush, at most {MAX_PUTS} rows of a table.",
        ) from None
    return body, writes


@router.get(
    "/v1/builds",
    responses=response_models.of(list[response_models.Build], 503),
    openapi_extra=ADMIN,
)
async def list_builds(db: Db) -> Response:
    """The unfinished external builds, with the keys that are missing. Only the node that leads
    knows them; other nodes answer 503."""
    return encoded([build_document(db, name) for name in db.keeper.external_builds()])


@router.post(
    "/v1/builds",
    responses=response_models.of(list[response_models.Build], 400, 404, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def begin_builds(body: BuildBody, request: Request, db: Db) -> Response:
    """Leave the build of views with their indexes, or of indexes, to the caller.

    A node stops its own builds of them, and their progress is lost. Quarantined views and indexes
    are built again. With `rebuild` readable ones are, too, and cannot be read until the build is
    finished. The answer has all of them; no keys of readable ones are missing.
    """
    note(request.scope, built=body.names)
    names = await db.keeper.leave_to_external(body.names, rebuild=body.rebuild)
    return encoded([build_document(db, name) for name in names])


@router.post(
    "/v1/built",
    responses=response_models.of(list[response_models.Build], 400, 404, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def finish_ranges(body: FinishedBody, db: Db) -> Response:
    """Report that all rows for a range of keys of the scanned relation are stored, and on disk. An
    empty range, whose start is its end, only reports that rows were scanned.

    Views and indexes become readable soon after all keys are finished. May be repeated.
    """
    await db.keeper.finish(body.rows, body.span(), body.scanned)
    return encoded([build_document(db, name) for name in db.keeper.external_builds()])


@router.post(
    "/v1/build_failures",
    responses=response_models.of(list[response_models.Build], 400, 404, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def report_build_failure(body: BuildFailedBody, request: Request, db: Db) -> Response:
    """Report that the build of an immediate view has failed, and would fail again. The view is
    quarantined: nothing maintains it, and its tables are dropped. `POST /v1/builds` rebuilds it."""
    note(request.scope, failed=body.table)
    await db.keeper.give_up(body.table, body.error)
    return encoded([build_document(db, name) for name in db.keeper.external_builds()])


@router.delete(
    "/v1/builds/{name:path}",
    responses=response_models.of(response_models.BuildCancelled, 404, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def cancel_build(name: str, request: Request, db: Db) -> Response:
    """Cancel the build of a view with its indexes, or of an index. They are removed from the
    catalog, and their tables are dropped. Applying the schema again plans them again."""
    gone = await db.keeper.cancel([name])
    note(request.scope, cancelled=gone)
    return encoded({"cancelled": gone})


@router.get(
    "/v1/loads", responses=response_models.of(response_models.Loads, 503), openapi_extra=ADMIN
)
async def list_loads(db: Db) -> Response:
    """The initial load under way, with the keys that are missing; null: there is none. Only the
    node that leads knows it; other nodes answer 503."""
    return encoded(load_document(db))


@router.post(
    "/v1/loads",
    responses=response_models.of(response_models.Loads, 400, 404, 409, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def begin_load(body: LoadBody, request: Request, db: Db) -> Response:
    """Begin an initial load: the caller fills empty relations, their indexes and all views over
    them, in tables that no query reads before the load is ended.

    Until then no transaction writes these relations, relations that they reference, or relations
    that reference them. Only one load runs at a time. May be repeated.
    """
    note(request.scope, loaded=body.relations)
    await db.initial_loads.begin(body.relations, body.identity, body.keys())
    return encoded(load_document(db))


@router.post(
    "/v1/loads/finished",
    responses=response_models.of(response_models.Loads, 400, 404, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def finish_loaded(body: LoadedBody, db: Db) -> Response:
    """Report that all rows for a range of keys of a loaded relation are stored, and on disk: rows
    of the relation, of its indexes, and of the views whose last relation it is. May be repeated."""
    await db.initial_loads.finish(body.number, body.relation, body.span(), body.rows, body.reach())
    return encoded(load_document(db))


@router.post(
    "/v1/loads/publish",
    responses=response_models.of(response_models.LoadEnded, 400, 404, 409, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def end_load(body: LoadEndBody, request: Request, db: Db) -> Response:
    """End the load: its rows become visible to all clients at once. 409 while keys of a relation
    are missing."""
    await db.initial_loads.end(body.number)
    note(request.scope, version=db.catalog.version)
    return encoded({"version": db.catalog.version})


@router.delete(
    "/v1/loads",
    responses=response_models.of(response_models.LoadCancelled, 404, 503, 507),
    openapi_extra=ADMIN,
)
async def cancel_load(request: Request, db: Db) -> Response:
    """Cancel the load under way. Its tables are dropped, and the relations stay empty."""
    gone = await db.initial_loads.cancel()
    note(request.scope, cancelled=gone)
    return encoded({"cancelled": gone})


@router.post(
    "/v1/puts",
    responses=response_models.of(response_models.BulkPut, 404, 410, 413, 422, 503, 507),
    openapi_extra=needs(Role.ADMIN, **response_models.PUTS_BODY),
)
async def put_rows(request: Request, db: Db) -> Response:
    """Write rows as of a snapshot, without a transaction, into tables that are being built or
    loaded.

    For Spark's jobs on an embedded database; on HBase the jobs write to the gateways. The body is
    MessagePack: `ts`, `writes` (by physical table, lists of key and value), and `flush` (true: when
    the answer is sent, all rows that were put are on disk).
    """
    content = await request.body()
    body, writes = await in_steps(request, len(content), partial(_decoded, content))
    await db.put(writes, body.ts)
    if body.flush:
        await db.store.flush()
    return encoded({"rows": sum(map(len, writes.values()))})
