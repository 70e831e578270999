"""What routes get out of a request: the database, the settings, strictly read JSON, limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from api.access import Principal, needed_role
from api.authentication import PRINCIPAL, KeyRing
from api.authorization import Authorizer
from api.database import Database
from api.metrics import Metrics
from api.node import Serving
from api.settings import Settings
from schema.errors import LimitExceeded
from txlayer.model import Parameters


def serving_of(request: Request) -> Serving:
    serving: Serving = request.app.state.serving
    return serving


def database_of(request: Request) -> Database:
    """For routes called so often that the time FastAPI takes to resolve `Db` counts."""
    return serving_of(request).require()


def readable_of(request: Request) -> Database:
    """For reads, which go on while this node does not serve."""
    return serving_of(request).require_readable()


async def _readable(request: Request) -> Database:
    return readable_of(request)


async def _database(request: Request) -> Database:
    """A coroutine, because FastAPI sends plain functions to a thread: twice the time of a read."""
    return database_of(request)


def settings_of(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def metrics_of(request: Request) -> Metrics:
    metrics: Metrics = request.app.state.metrics
    return metrics


def principal_of(request: Request) -> Principal:
    """Who asks. Raises KeyError on a route that is open to everybody: nobody was asked there."""
    principal: Principal = request.scope[PRINCIPAL]
    return principal


def key_ring_of(request: Request) -> KeyRing:
    ring: KeyRing = request.app.state.keys
    return ring


def authorizer_of(request: Request) -> Authorizer:
    authorizer: Authorizer = request.app.state.authorizer
    return authorizer


async def _principal(request: Request) -> Principal:
    return principal_of(request)


Db = Annotated[Database, Depends(_database)]
ReadDb = Annotated[Database, Depends(_readable)]
Asking = Annotated[Principal, Depends(_principal)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        description="A request repeated with the same key is done once and answered alike.",
        examples=["6f1c1d0e-7f0b-4c55-8f0e-0b3a1c9d2e44"],
    ),
]


class StrictRequest(Request):
    """JSON as RFC 8259 has it: no NaN, no infinities, no lone surrogates, bounded depth."""

    async def json(self) -> Any:
        body = await self.body()
        try:
            return msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise HTTPException(400, f"The body is no JSON: {error}.") from None
        except RecursionError:
            raise HTTPException(400, "The body is nested too deeply.") from None


class StrictRoute(APIRoute):
    """A route that asks for the role that it says it needs, and reads its body with
    `StrictRequest`. One that does not say who may call it cannot be made.

    Where a route takes just a JSON body, headers and the request, what fits goes straight to its
    function: FastAPI's general way takes longer than a point read. What does not fit goes that
    way, and is told there what is wrong with it.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle: Callable[[Request], Awaitable[Response]] = super().get_route_handler()
        call, direct = self.dependant.call, self._is_direct()
        assert call is not None
        role = needed_role(self.openapi_extra)

        async def strict(request: Request) -> Response:
            if role is not None:
                principal_of(request).require_role(role)
            request = StrictRequest(request.scope, request.receive)
            _require_plain(request)
            arguments = await self._arguments(request) if direct else None
            if arguments is None:
                if self.body_field:
                    await _require_json(request)
                return await handle(request)
            response: Response = await call(**arguments)
            return response

        return strict

    def _is_direct(self) -> bool:
        takes = self.dependant
        others = (takes.dependencies, takes.path_params, takes.query_params, takes.cookie_params)
        return bool(self.body_field and takes.request_param_name) and not any(others)

    async def _arguments(self, request: Request) -> dict[Any, Any] | None:
        """What the route's function takes; None if FastAPI should look at the request."""
        headers, body, takes = request.headers, self.body_field, self.dependant
        if headers.get("content-type") != "application/json" or not await request.body():
            return None
        given: list[tuple[Any, Any]] = [(body, await request.json())]
        given += [(h, headers[h.alias]) for h in takes.header_params if h.alias in headers]
        found: dict[Any, Any] = {takes.request_param_name: request}
        for field, value in given:
            found[field.name], errors = field.validate(value)
            if errors:
                return None
        return found


def _require_plain(request: Request) -> None:
    coding = request.headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        raise HTTPException(415, f"A body in Content-Encoding {coding} is not read; send it plain.")


async def _require_json(request: Request) -> None:
    """For a body of another type FastAPI says that it is no object, not that it was not read."""
    given = request.headers.get("content-type", "")
    media_type = given.partition(";")[0].strip().lower()
    is_json = media_type.startswith("application/") and media_type.endswith(("/json", "+json"))
    if not is_json and await request.body():
        told = f"A body of type {given}" if given else "A body without Content-Type"
        raise HTTPException(415, f"{told} is not read; send it as application/json.")


def tagged(tag: str) -> APIRouter:
    return APIRouter(tags=[tag], route_class=StrictRoute)


def encoded(document: Any, status: int = 200) -> Response:
    """A JSON answer."""
    body = msgspec.json.encode(document)
    return Response(body, status_code=status, media_type="application/json")


def timeout_s(asked_ms: int | None, settings: Settings) -> float:
    """The time limit of a request in seconds."""
    if asked_ms is None:
        return settings.statement_timeout_s
    return min(asked_ms / 1000, settings.max_timeout_s)


def check_parameters(lists: Iterable[Parameters], settings: Settings) -> None:
    """Raises LimitExceeded for more parameters in all than one request may have."""
    count = sum(map(len, lists))
    if count > settings.max_parameters:
        raise LimitExceeded(
            f"{count} parameters in one request; {settings.max_parameters} are allowed.",
            cure="Send several transactions, or use /v1/load.",
        )
