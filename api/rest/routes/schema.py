"""Routes to plan, apply and show the schema, and to show its views."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request, Response

from hornbeam_server.api.rest import response_models
from hornbeam_server.api.rest.audit import note
from hornbeam_server.api.rest.dependencies import (
    Asking,
    Db,
    ReadDb,
    check_parameters,
    encoded,
    settings_of,
    tagged,
)
from hornbeam_server.api.rest.request_models import (
    AlterBody,
    ApplyBody,
    CommentBody,
    PlanBody,
    RestartBody,
)
from hornbeam_server.api.rest.schema_documents import graph_document
from hornbeam_server.api.rest.serializers import (
    deferred_view_document,
    immediate_view_document,
    plan_document,
    schema_document,
    view_document,
)
from hornbeam_server.api.rest.streams import NDJSON, plan_response, unless_gone
from hornbeam_server.api.security.roles import Role, needs, visible_catalog
from hornbeam_server.node.alterations import altered
from hornbeam_server.node.database import Database
from hornbeam_server.node.query_tables import creates_from_query, query_table
from hornbeam_server.node.schema_plans import in_thread
from hornbeam_server.node.sequence_values import with_numbers
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.commented import commented, objects_of
from hornbeam_server.schema.ddl import load_comment, load_restart
from hornbeam_server.schema.errors import NotFound, StatementTimeout
from hornbeam_server.schema.model import PUBLIC
from hornbeam_server.viewselect.picture import forest_mermaid, forest_svg
from hornbeam_server.viewselect.watch import Report

router = tagged("schema")
READER, ADMIN = needs(Role.READER), needs(Role.ADMIN)


@router.post(
    "/v1/schema/plan",
    responses=response_models.leading_to(
        response_models.of(response_models.Plan, 400, 413, 422, 429, 503, 504),
        apply=response_models.APPLY_IT,
    ),
    openapi_extra=ADMIN,
)
async def plan_schema(
    body: PlanBody,
    request: Request,
    db: Db,
    accept: Annotated[str, Header(description=f"`{NDJSON}` for lines of progress.")] = "",
) -> Response:
    """Choose trees, views and indexes for a schema and a workload. Changes nothing.

    `Accept` chooses the plan alone, or lines of progress and then a line with the member `plan`.
    Progress is a share of the maximum effort of the search; most searches end before. `text` and
    `plan.cut` say whether the search was cut. It ends when the client disconnects.
    """
    asked, limit = body.request(), settings_of(request).max_timeout_s

    async def planned(report: Report = lambda _: None) -> dict[str, Any]:
        try:
            async with asyncio.timeout(limit):
                return await in_thread(
                    lambda watch: plan_document(db.plan_schema(asked, watch)), report
                )
        except TimeoutError:
            raise StatementTimeout(
                f"Planning ran into the time limit of {limit:g} s.",
                cure="Plan a smaller workload, or raise max_timeout_s.",
            ) from None

    if NDJSON in accept:
        return await unless_gone(request.receive, plan_response(planned))
    return encoded(await unless_gone(request.receive, planned()))


@router.post(
    "/v1/schema/apply",
    responses=response_models.of(response_models.Applied, 400, 409, 413, 422, 429, 503, 507),
    openapi_extra=ADMIN,
)
async def apply_schema(body: ApplyBody, db: Db) -> Response:
    """Put a plan into force. Views are built in the background; see /v1/views. A plan that writes
    the rows of relations again is in force when all rows are written.

    409 when planning again gives another plan than `plan_id`, or when stored rows break a UNIQUE
    index or a foreign key that the plan adds. Nothing is changed then.
    """
    catalog = await db.apply_schema(
        body.request(),
        body.plan_id,
        allow_drop=body.allow_drop,
        build_externally=body.build == "spark",
    )
    building = [name for name, build in db.keeper.builds.items() if not build.finished]
    return encoded({"catalog_version": catalog.version, "building": building})


@router.post(
    "/v1/schema/alter",
    responses=response_models.of(response_models.AlteredSchema, 400, 413, 422, 429, 503),
    openapi_extra=ADMIN,
)
async def alter_schema(body: AlterBody, db: Db) -> Response:
    """The schema in force after ALTER, DROP or CREATE TABLE … AS, as DDL. Changes nothing: plan and
    apply it, then run `insert`, if there is one.

    422 when something uses what the statement would drop; CASCADE drops that, too.
    """
    catalog, path = db.catalog, _path(body.search_path)
    if creates_from_query(body.sql):
        table = await asyncio.to_thread(query_table, body.sql, catalog, path)
        return encoded(
            {
                "ddl": table.ddl,
                "same": table.same,
                "renames": [],
                "usings": [],
                "notes": [],
                "insert": table.insert,
                "catalog_version": catalog.version,
            }
        )
    change = await asyncio.to_thread(altered, catalog, body.sql, path)
    return encoded(
        {
            "ddl": change.ddl,
            "same": change.same,
            "renames": [asdict(rename) for rename in change.renames],
            "usings": [asdict(using) for using in change.usings],
            "notes": list(change.notes),
            "insert": "",
            "catalog_version": catalog.version,
        }
    )


@router.post(
    "/v1/schema/restart",
    responses=response_models.of(response_models.Restarted, 400, 404, 413, 422, 429, 503, 507),
    openapi_extra=ADMIN,
)
async def restart_identity(body: RestartBody, request: Request, db: Db) -> Response:
    """Set the next number of an identity column or a sequence, at all nodes. It may then give
    numbers that rows have already."""
    check_parameters([body.parameters], settings_of(request))
    sql = await with_numbers(body.sql, body.parameters, db.catalog, db.fetch)
    if sql is None:  # setval is strict
        answer = {"relation": "", "column": "", "next": None, "value": None}
        return encoded(answer | {"catalog_version": db.catalog.version})
    restart = load_restart(sql, db.catalog.schema, path=_path(body.search_path))
    note(request.scope, restarted=f"{restart.relation}.{restart.column}")
    counter = await db.keeper.restart(restart.relation, restart.column, restart.at)
    drawn = {counter.sequence: restart.value} if restart.called else None
    return encoded(
        {
            "relation": counter.relation,
            "column": counter.column,
            "next": counter.at,
            "value": restart.value,
            "catalog_version": db.catalog.version,
            **({} if drawn is None else {"drawn": drawn}),
        }
    )


@router.post(
    "/v1/schema/comment",
    responses=response_models.of(response_models.CommentSet, 400, 413, 422, 429, 503, 507),
    openapi_extra=ADMIN,
)
async def comment_on(body: CommentBody, request: Request, db: Db) -> Response:
    """Set the comment of an object, or take it away. No open transaction notices it."""
    path = _path(body.search_path)
    on = load_comment(body.sql, db.catalog, path).on
    note(request.scope, commented=f"{on.kind} {on.name}")
    await db.keeper.restate(lambda now: commented(now, load_comment(body.sql, now, path)))
    return encoded(
        {
            "kind": on.kind.value,
            "name": on.name,
            "member": on.member,
            "notice": "" if on in objects_of(db.catalog) else f"There is no {on.kind} {on.name}.",
            "catalog_version": db.catalog.version,
        }
    )


@router.get(
    "/v1/schema", responses=response_models.of(response_models.Schema, 503), openapi_extra=READER
)
async def show_schema(db: ReadDb, asking: Asking) -> Response:
    """The part of the catalog in force that the API key may read."""
    return encoded(schema_document(db, visible_catalog(asking, db.catalog)))


@router.get("/v1/schema/graph", responses=response_models.graph(422, 503), openapi_extra=READER)
async def schema_graph(
    db: ReadDb, asking: Asking, format: Literal["svg", "mermaid", "json"] = "svg"
) -> Response:
    """The schema graph with its trees and views: the part that the API key may read."""
    catalog = visible_catalog(asking, db.catalog)
    match format:
        case "svg":
            return Response(forest_svg(catalog), media_type="image/svg+xml")
        case "mermaid":
            return Response(forest_mermaid(catalog), media_type="text/plain")
    return encoded(graph_document(catalog))


Sizes = Annotated[bool, Query(description="Count the bytes, which reads the tables once.")]


@router.get(
    "/v1/views",
    responses=response_models.leading_to(
        response_models.of(list[response_models.View], 422, 503), view=response_models.FIRST_OF_THEM
    ),
    openapi_extra=READER,
)
async def list_views(db: ReadDb, asking: Asking, sizes: Sizes = True) -> Response:
    """All views that the API key may read, with their states and the progress of their builds."""
    shown = visible_catalog(asking, db.catalog)
    found = [await _view(db, shown, name, sizes, program=False) for name in shown.all_views]
    return encoded(found)


@router.get(
    "/v1/views/{name:path}",
    responses=response_models.of(response_models.View, 404, 422, 503),
    openapi_extra=READER,
)
async def show_view(name: str, db: ReadDb, asking: Asking, sizes: Sizes = True) -> Response:
    """A view, with its state and the progress of its build."""
    shown = visible_catalog(asking, db.catalog)
    if not db.catalog.relations_of(name):
        known = ", ".join(shown.all_views)
        raise NotFound(f"There is no view {name}.", cure=f"There are: {known or 'none'}.")
    asking.require_read([name])
    return encoded(await _view(db, shown, name, sizes, program=True))


async def _view(
    db: Database, shown: Catalog, name: str, sizes: bool, *, program: bool
) -> dict[str, Any]:
    if name in shown.deferred_view:
        document = await deferred_view_document(db, name, program=program)
    elif name in shown.transactional_view:
        document = immediate_view_document(db, name)
    else:
        document = view_document(db, shown, name)
    counted = (await db.sizes([name]))[name] if sizes else None
    return document | {"bytes": counted}


def _path(search_path: Sequence[str] | None) -> Sequence[str]:
    """The search path of a request; an empty one has no schemas."""
    return (PUBLIC,) if search_path is None else search_path
