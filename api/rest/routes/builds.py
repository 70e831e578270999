"""Building views and indexes, loading, and writing beside the nodes, as Spark does."""

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
    """A body of `POST /v1/puts`: rows by physical table."""

    ts: int
    writes: Annotated[dict[str, msgspec.Raw], msgspec.Meta(max_length=MAX_NAMES)]
    flush: bool = False


MAX_PUTS = 1_000_000
"""Rows of one table in one body."""
_body = msgspec.msgpack.Decoder(_Puts)
_rows = msgspec.msgpack.Decoder(Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_PUTS)])
_row = msgspec.msgpack.Decoder(Put)


def _decoded(content: bytes) -> tuple[_Puts, dict[str, list[Put]]]:
    """Row by row, as `api/rest/body_limits.py` says why. Raises InvalidRequest."""
    try:
        body = _body.decode(content)
        writes = {
            name: [_row.decode(row) for row in _rows.decode(rows)]
            for name, rows in body.writes.items()
        }
    except msgspec.DecodeError as error:
        raise InvalidRequest(
            f"The body is not what is put: {error}.",
            cure=f"Send MessagePack of ts, writes and flush, at most {MAX_PUTS} rows of a table.",
        ) from None
    return body, writes


@router.get(
    "/v1/builds",
    responses=response_models.of(list[response_models.Build], 503),
    openapi_extra=ADMIN,
)
async def builds(db: Db) -> Response:
    """What is left to be built beside the nodes, and which keys are missing. The node that leads
    knows."""
    return encoded([build_document(db, name) for name in db.keeper.left_to_others()])


@router.post(
    "/v1/builds",
    responses=response_models.of(list[response_models.Build], 400, 404, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def begin_builds(body: BuildBody, request: Request, db: Db) -> Response:
    """Have views with their indexes, or indexes, built beside the nodes, by who asks.

    What a node is building it leaves to the caller, as far as it has come for nothing; what is
    quarantined is built anew, and so is, with `rebuild`, what is readable: nobody can read it
    meanwhile. The answer has all of them; readable ones lack nothing.
    """
    note(request.scope, built=body.names)
    names = await db.keeper.leave_to_others(body.names, rebuild=body.rebuild)
    return encoded([build_document(db, name) for name in names])


@router.post(
    "/v1/built",
    responses=response_models.of(list[response_models.Build], 400, 404, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def finish_ranges(body: FinishedBody, db: Db) -> Response:
    """All rows for a range of keys of the relation that is scanned are stored, and on disk.

    Views and indexes are readable soon after all keys are finished. Safe to repeat.
    """
    await db.keeper.finish(body.rows, body.span(), body.scanned)
    return encoded([build_document(db, name) for name in db.keeper.left_to_others()])


@router.delete(
    "/v1/builds/{name:path}",
    responses=response_models.of(response_models.BuildCancelled, 404, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def cancel_build(name: str, request: Request, db: Db) -> Response:
    """Give up building a view with its indexes, or an index: it leaves the catalog, and its table
    goes. Applying the schema again plans it again."""
    gone = await db.keeper.cancel([name])
    note(request.scope, cancelled=gone)
    return encoded({"cancelled": gone})


@router.get(
    "/v1/loads", responses=response_models.of(response_models.Loads, 503), openapi_extra=ADMIN
)
async def loads(db: Db) -> Response:
    """The initial load under way, and which keys are missing; null: there is none. The node that
    leads knows."""
    return encoded(load_document(db))


@router.post(
    "/v1/loads",
    responses=response_models.of(response_models.Loads, 400, 404, 409, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def begin_load(body: LoadBody, request: Request, db: Db) -> Response:
    """Have relations that are empty filled beside the nodes, by who asks, with their indexes and
    all views over them, in tables that nobody reads before the load is ended.

    Meanwhile no transaction writes them, what they reference, or what references them. One load at
    a time; safe to repeat.
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
    """Of a range of keys of a relation, all rows that are loaded are stored, and on disk: its own,
    those of its indexes, and those of the views whose last relation it is. Safe to repeat."""
    await db.initial_loads.finish(body.number, body.relation, body.span(), body.rows, body.reach())
    return encoded(load_document(db))


@router.post(
    "/v1/loads/publish",
    responses=response_models.of(response_models.LoadEnded, 400, 404, 409, 422, 503, 507),
    openapi_extra=ADMIN,
)
async def end_load(body: LoadEndBody, request: Request, db: Db) -> Response:
    """All keys of all relations are finished: their rows are there from now on."""
    await db.initial_loads.end(body.number)
    note(request.scope, version=db.catalog.version)
    return encoded({"version": db.catalog.version})


@router.delete(
    "/v1/loads",
    responses=response_models.of(response_models.LoadCancelled, 404, 503, 507),
    openapi_extra=ADMIN,
)
async def cancel_load(request: Request, db: Db) -> Response:
    """Give up the load under way: its tables go, and the relations are empty as before."""
    gone = await db.initial_loads.cancel()
    note(request.scope, cancelled=gone)
    return encoded({"cancelled": gone})


@router.post(
    "/v1/puts",
    responses=response_models.of(response_models.BulkPut, 404, 410, 413, 422, 503, 507),
    openapi_extra=needs(Role.ADMIN, **response_models.PUTS_BODY),
)
async def put_rows(request: Request, db: Db) -> Response:
    """Write rows of tables that are being built or loaded, as of a snapshot, beside the
    transactions.

    For Spark's jobs and an embedded database; on HBase they write to the gateways. The body is
    MessagePack: `ts`, `writes` (by physical table, lists of key and value), and `flush` (true: on
    return all that was put is on disk).
    """
    content = await request.body()
    body, writes = await in_steps(request, len(content), partial(_decoded, content))
    await db.put(writes, body.ts)
    if body.flush:
        await db.store.flush()
    return encoded({"rows": sum(map(len, writes.values()))})
