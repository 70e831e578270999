"""Subscriptions to the changes of relations and views."""

from __future__ import annotations

import math
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Header, Query, Request, Response

from hornbeam_server.api.rest import response_models
from hornbeam_server.api.rest.change_streams import ChangeStream, Form
from hornbeam_server.api.rest.dependencies import Asking, Db, key_ring_of, tagged
from hornbeam_server.api.rest.json_parameters import values_of
from hornbeam_server.api.rest.problems import Refused
from hornbeam_server.api.rest.streams import EVENTS, NDJSON, Stream
from hornbeam_server.api.security.roles import Principal, Role, needs
from hornbeam_server.schema.errors import Unsupported

router = tagged("queries")
HEARTBEAT_S = 15.0


@router.get(
    "/v1/subscribe",
    responses=response_models.subscription(400, 404, 410, 422, 429, 503),
    response_class=Response,
    openapi_extra=needs(Role.READER),
)
async def subscribe(
    request: Request,
    db: Db,
    asking: Asking,
    name: Annotated[str, Query(description="A relation or view.", examples=["orders"])],
    moment: Annotated[
        int | None,
        Query(ge=0, description="Begin after this moment, instead of now."),
    ] = None,
    rows: Annotated[
        bool, Query(description="Begin with all rows, unless there is a moment.")
    ] = True,
    wanted: Annotated[
        str,
        Query(
            max_length=10_000,
            description="Only rows with these values, as a JSON object by column.",
            examples=['{"o_c_id": 5}'],
        ),
    ] = "{}",
    envelope: Annotated[
        Literal["hornbeam", "debezium"], Query(description="The form of the messages.")
    ] = "hornbeam",
    heartbeat_s: Annotated[
        float,
        Query(ge=0.1, le=300, description="Without changes, a message comes after this time."),
    ] = HEARTBEAT_S,
    lasts_s: Annotated[
        float | None, Query(ge=0, le=86_400, description="The answer ends after this time.")
    ] = None,
    accept: Annotated[
        str, Header(description=f"`{EVENTS}` for server-sent events; else lines of JSON.")
    ] = "",
    last_event_id: Annotated[
        str, Header(description="The moment, as browsers send it when they connect again.")
    ] = "",
) -> Response:
    """The changes of a relation or view as they happen, until the client disconnects.

    Each message that has a moment says: these were all changes up to it. A client that asks again
    with the last moment that it got goes on there. An error is the last message; its member
    `moment` says where to go on.
    """
    given = _moment(moment, last_event_id)
    known = db.catalog
    if asking.grants is not None:
        asking.require_read([name])
    if name in known.plain_view:
        raise Unsupported(
            f"{name} is a plain view, which is not stored.",
            cure=f"Subscribe to a relation that it reads, or make a view of it: CREATE MATERIALIZED"
            f" VIEW … WITH (refresh = 'live') AS SELECT … FROM {name}.",
        )
    form = Form(events=EVENTS in accept, debezium=envelope == "debezium")
    async with AsyncExitStack() as stack:
        opened = db.subscriptions.open(name, _wanted(wanted), given)
        subscription = await stack.enter_async_context(opened)
        still = partial(_still, request, asking, name)
        whole = rows and given is None
        stream = ChangeStream(
            subscription,
            form,
            heartbeat_s,
            still,
            whole=whole,
            lasts_s=math.inf if lasts_s is None else lasts_s,
        )
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        media_type = EVENTS if form.events else NDJSON
        return Stream(stream.chunks(), media_type, headers, stack.pop_all())


def _moment(given: int | None, last_event_id: str) -> int | None:
    if last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 20:
        return int(last_event_id)
    return given


def _wanted(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        cure = 'Send an object by column, such as {"o_c_id": 5}.'
        raise Refused(400, f"wanted is no JSON object: {error}.", cure=cure) from None
    try:
        return dict(values_of(found))
    except ValueError as error:
        cure = "Give each column a number, a text, true, false or null."
        raise Refused(400, f"wanted is wrong: {error}.", cure=cure) from None


async def _still(request: Request, principal: Principal, name: str) -> None:
    """Raises Unauthenticated or Forbidden if the key may not read any more, and Unavailable when
    the keys cannot be read."""
    now = await key_ring_of(request).renewed(principal)
    now.require_role(Role.READER)
    if now.grants is not None:
        now.require_read([name])
