"""Queries and explanations of queries."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated, Any, NamedTuple

from fastapi import Header, Request, Response

from hornbeam_server.api.rest import response_models
from hornbeam_server.api.rest.askers import asker_of
from hornbeam_server.api.rest.authorization import ShownNames
from hornbeam_server.api.rest.dependencies import (
    ReadDb,
    admitted,
    authorizer_of,
    check_parameters,
    encoded,
    metrics_of,
    paths_of,
    readable_of,
    settings_of,
    tagged,
    timeout_s,
    under_one_catalog,
)
from hornbeam_server.api.rest.handed_rows import HandedRows
from hornbeam_server.api.rest.metrics import now_s
from hornbeam_server.api.rest.request_models import ExplainBody, QueryBody
from hornbeam_server.api.rest.serializers import explanation_document
from hornbeam_server.api.rest.streams import ARROW, arrow_response, json_response, unless_gone
from hornbeam_server.api.security.roles import Role, needs
from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import Settings
from hornbeam_server.pgwire.ports import ROWS, RowTaker
from hornbeam_server.query.explain import Explanation, Shown
from hornbeam_server.query.parsing.system_signals import mentions_signals
from hornbeam_server.query.system.asking import Asker
from hornbeam_server.schema.errors import Unsupported

router = tagged("queries")
READER = needs(Role.READER)
BEHIND = "Hornbeam-Behind-S"
"""Header of answers by a node that has lost the other nodes: the age in seconds of its snapshot."""


@router.post(
    "/v1/query",
    responses=response_models.query(400, 409, 410, 413, 422, 429, 503, 504, 507),
    openapi_extra=READER,
)
async def query(
    body: QueryBody,
    request: Request,
    accept: Annotated[str, Header(description=f"`{ARROW}` for an Arrow stream.")] = "",
) -> Response:
    """Run a SELECT at one snapshot. `Accept` chooses JSON or an Arrow stream.

    A large JSON answer is streamed. An error in the middle of it ends it with a member `error`
    instead of `snapshot`. An error in the middle of an Arrow stream cuts the connection.
    """
    began, limits, db = now_s(), settings_of(request), readable_of(request)
    check_parameters(body.parameter_lists(), limits)
    characters = len(body.sql) + sum(len(item.sql) for item in body.pending)
    locate, allow = paths_of(request).query, authorizer_of(request).query

    async def answer(body: QueryBody, shown: ShownNames, version: int) -> Response:
        taker, arrow = request.scope.get(ROWS), ARROW in accept
        asked = _Asked(body, shown, asker_of(request), version, began)
        answering = _answer(asked, db, limits, arrow=arrow, taker=taker)
        return await unless_gone(request.receive, answering)

    admit = partial(admitted, request, db, body, characters, locate, allow)
    response = await under_one_catalog(db, admit, answer)
    if db.behind_s is not None:
        response.headers[BEHIND] = f"{db.behind_s:.1f}"
    metrics_of(request).query(now_s() - began)
    return response


class _Asked(NamedTuple):
    """A query that is admitted under a version of the catalog: what the system catalog shows to it,
    and its client. `began` is a time of `metrics.now_s`."""

    body: QueryBody
    shown: ShownNames
    asker: Asker
    version: int
    began: float


async def _answer(
    asked: _Asked, db: Database, limits: Settings, *, arrow: bool, taker: RowTaker | None
) -> Response:
    """The answer, if the catalog still has the version under which the query was admitted."""
    body, began = asked.body, asked.began
    if taker is None and mentions_signals(body.sql):
        raise Unsupported(
            "Sessions are ended over PostgreSQL's protocol only.",
            cure="Connect by psql or a driver of PostgreSQL.",
        )
    async with AsyncExitStack() as stack:
        query = db.query(
            body.sql,
            body.parameters,
            bookmark=body.bookmark,
            snapshot=body.snapshot,
            strong=body.consistency == "strong",
            tentative=body.consistency == "tentative",
            pending=[item.statement() for item in body.pending],
            replay=None if body.replay is None else body.replay.replay(),
            trace=body.trace,
            serializable=body.trace and body.isolation == "serializable",
            locking_only=body.isolation == "read committed",
            use_views=body.use_views,
            timeout_s=timeout_s(body.timeout_ms, limits),
            max_rows=body.max_rows,
            columnar=arrow,
            max_staleness_s=_seconds(body.max_staleness_ms),
            view_bookmark=body.view_bookmark,
            view_wait_s=_seconds(body.view_wait_ms) or 0.0,
            session=body.session,
            admitted_under=asked.version,
            shown=asked.shown,
            asker=asked.asker,
        )
        result = await stack.enter_async_context(query)
        if taker is not None:
            return HandedRows(result, stack.pop_all(), taker, began)
        if arrow:
            return await arrow_response(result, stack)
        return await json_response(result, stack, began, limits.max_json_rows)


@router.post(
    "/v1/explain",
    responses=response_models.of(response_models.Explained, 400, 413, 422, 429, 503),
    openapi_extra=READER,
)
async def explain(body: ExplainBody, request: Request, db: ReadDb) -> Response:
    """The plan of a SELECT, with the reasons for it, or of a statement that writes, which is not
    run. With `analyze` the SELECT is run."""
    locate, allow = paths_of(request).explanation, authorizer_of(request).explanation

    async def run(body: ExplainBody, shown: ShownNames, version: int) -> Explanation:
        options: dict[str, Any] = {
            "use_views": body.use_views,
            "trace": body.trace,
            "bookmark": body.bookmark,
            "max_staleness_s": _seconds(body.max_staleness_ms),
            "strong": body.consistency == "strong",
            "tentative": body.consistency == "tentative",
            "admitted_under": version,
            "shown": shown,
        }
        if body.analyze:
            asker = asker_of(request)
            return await db.analyzed(body.sql, body.parameters or (), asker=asker, **options)
        return await db.explained(body.sql, body.parameters, **options)

    admit = partial(admitted, request, db, body, len(body.sql), locate, allow)
    explanation = await under_one_catalog(db, admit, run)
    shown = Shown(body.costs, body.timing, body.summary, body.verbose)
    return encoded(explanation_document(explanation, shown))


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
