"""What routes get out of a request: the database, the settings, strictly read JSON, limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from api.database import Database
from api.metrics import Metrics
from api.settings import Settings
from schema.errors import LimitExceeded
from txlayer.model import Parameters


async def _database(request: Request) -> Database:
    """A coroutine, because FastAPI sends plain functions to a thread: twice the time of a read."""
    database: Database = request.app.state.database
    return database


def settings_of(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def metrics_of(request: Request) -> Metrics:
    metrics: Metrics = request.app.state.metrics
    return metrics


Db = Annotated[Database, Depends(_database)]
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
    """A route that reads its body with `StrictRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle: Callable[[Request], Awaitable[Response]] = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return strict


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
