"""Access of routes to their request: the database, the settings, strictly read JSON, limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from hornbeam_server.api.rest.authentication import PRINCIPAL, KeyRing
from hornbeam_server.api.rest.authorization import Authorizer
from hornbeam_server.api.rest.body_limits import SHORT_BYTES, read_json
from hornbeam_server.api.rest.metrics import Metrics
from hornbeam_server.api.rest.problems import Refused
from hornbeam_server.api.rest.search_paths import SearchPaths
from hornbeam_server.api.security.roles import Principal, needed_role
from hornbeam_server.node.database import Database
from hornbeam_server.node.node import Serving
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import LimitExceeded
from hornbeam_server.txlayer.statements.requests import OtherCatalog, Parameters

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")


def serving_of(request: Request) -> Serving:
    serving: Serving = request.app.state.serving
    return serving


def database_of(request: Request) -> Database:
    """The database. For frequent routes, where the time that FastAPI takes to resolve `Db` matters.
    Raises Unavailable."""
    return serving_of(request).require()


def readable_of(request: Request) -> Database:
    """The database for reads, which go on between the terms of a node. Raises Unavailable."""
    return serving_of(request).require_readable()


async def _readable(request: Request) -> Database:
    return readable_of(request)


async def _database(request: Request) -> Database:
    """A coroutine, because FastAPI runs plain functions in a thread: that takes twice the time of a
    read."""
    return database_of(request)


def settings_of(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def metrics_of(request: Request) -> Metrics:
    metrics: Metrics = request.app.state.metrics
    return metrics


def principal_of(request: Request) -> Principal:
    """The principal of a request. Raises KeyError on a route that needs no API key, because the
    request is not authenticated there."""
    principal: Principal = request.scope[PRINCIPAL]
    return principal


def key_ring_of(request: Request) -> KeyRing:
    ring: KeyRing = request.app.state.keys
    return ring


def paths_of(request: Request) -> SearchPaths:
    paths: SearchPaths = request.app.state.search_paths
    return paths


def authorizer_of(request: Request) -> Authorizer:
    authorizer: Authorizer = request.app.state.authorizer
    return authorizer


async def admitted(
    request: Request,
    db: Database,
    body: T,
    characters: int,
    locate: Callable[[T, Catalog], T],
    allow: Callable[[Principal, T, Catalog], S],
) -> tuple[T, S]:
    """The body with full names, which its client may use, and the result of `allow`. `characters`
    is the length of its SQL, `locate` a method of `SearchPaths`, and `allow` one of `Authorizer`.
    Raises Forbidden, SqlError, StatementTimeout."""
    catalog, principal = db.catalog, key_ring_of(request).named_now(principal_of(request))

    def located() -> tuple[T, S]:
        found = locate(body, catalog)
        return found, allow(principal, found, catalog)

    return await db.engine.read(characters, located)


async def under_one_catalog(
    db: Database,
    admit: Callable[[], Awaitable[tuple[T, S]]],
    run: Callable[[T, S, int], Awaitable[R]],
) -> R:
    """Run a request under the version of the catalog under which it is admitted: a name may mean
    another relation in the next one. If the catalog changes between both, it is admitted again."""
    while True:
        version = db.catalog.version
        body, allowed = await admit()
        try:
            return await run(body, allowed, version)
        except OtherCatalog:
            continue


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


_JSON = "application/json"
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE"})
_SHOWN = 100
"""Maximum characters of a header that a message quotes."""


_LONG_BODIES = 2
"""Maximum number of long bodies that are read at the same time. Each is read in a thread, which
takes time from the event loop."""


class StrictRequest(Request):
    """A request whose JSON has been read and validated before FastAPI asks for it."""

    document: Any = None

    async def json(self) -> Any:
        return self.document


class StrictRoute(APIRoute):
    """A route that checks the role of the API key, and reads its body with `StrictRequest`. A route
    without a declared role (`needs`) cannot be created.

    If a route takes only a JSON body, headers and the request, valid requests go straight to its
    function: FastAPI's general handler takes longer than a point read. Invalid requests go to that
    handler, which reports their errors.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle: Callable[[Request], Awaitable[Response]] = super().get_route_handler()
        call, direct = self.dependant.call, self._is_direct()
        assert call is not None
        role, types = needed_role(self.openapi_extra), self._media_types()

        async def strict(request: Request) -> Response:
            if role is not None:
                principal_of(request).require_role(role)
            request = StrictRequest(request.scope, request.receive)
            if request.method not in _WITHOUT_BODY:
                _require_plain(request)
                _require_type(request, types)
            if self.body_field and (content := await request.body()):
                request.document = await in_steps(
                    request, len(content), partial(_validated, content, self.body_field)
                )
            arguments = self._arguments(request) if direct else None
            if arguments is None:
                return await handle(request)
            response: Response = await call(**arguments)
            return response

        return strict

    def _media_types(self) -> tuple[str, ...]:
        """The media types of the body that this route reads; none: it reads no body."""
        described = (self.openapi_extra or {}).get("requestBody", {})
        return (_JSON,) if self.body_field else tuple(described.get("content", ()))

    def _is_direct(self) -> bool:
        takes = self.dependant
        others = (takes.dependencies, takes.path_params, takes.query_params, takes.cookie_params)
        return bool(self.body_field and takes.request_param_name) and not any(others)

    def _arguments(self, request: StrictRequest) -> dict[Any, Any] | None:
        """The arguments of the route's function; None if FastAPI must handle the request."""
        headers, body, takes = request.headers, self.body_field, self.dependant
        if body is None or request.document is None:
            return None
        found: dict[Any, Any] = {takes.request_param_name: request, body.name: request.document}
        for field in takes.header_params:
            if field.alias in headers:
                found[field.name], errors = field.validate(headers[field.alias])
                if errors:
                    return None
        return found


async def in_steps(request: Request, size: int, work: Callable[[], T]) -> T:
    """The result of `work`, which reads a body of `size` bytes. A long body is read in a thread."""
    if size <= SHORT_BYTES:
        return work()
    async with request.app.state.long_bodies:
        return await asyncio.to_thread(work)


def long_bodies() -> asyncio.Semaphore:
    """The semaphore that limits how many long bodies an application reads at the same time."""
    return asyncio.Semaphore(_LONG_BODIES)


def _validated(content: bytes, field: Any) -> Any:
    """The model of a JSON body. Raises Refused for a body that is no JSON, LimitExceeded, and
    RequestValidationError for a body that does not fit the model."""
    try:
        document = read_json(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        cure = "Send one JSON value as RFC 8259 has it, in UTF-8."
        raise Refused(400, f"The body is no JSON: {error}.", cure=cure) from None
    except RecursionError:
        cure = "Send a flatter one."
        raise Refused(400, "The body is nested too deeply.", cure=cure) from None
    model, errors = field.validate(document, loc=("body",))
    if errors:
        raise RequestValidationError(errors)
    return model


def _require_plain(request: Request) -> None:
    coding = request.headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        raise Refused(
            415,
            f"A body in Content-Encoding {coding[:_SHOWN]} is not read; send it plain.",
            cure="Leave out the header Content-Encoding.",
        )


def _require_type(request: Request, types: tuple[str, ...]) -> None:
    """Raises Refused unless the request declares a body of one of `types`.

    A web page can send text/plain, forms, and bodies without a type to other sites without a
    preflight request. No route reads such a body, so no page can send one that is read. A route
    that reads no body accepts requests without a type, and JSON from clients that always send it.
    """
    given = request.headers.get("content-type", "")
    media_type = given.partition(";")[0].strip().lower()
    if media_type in types or (not types and media_type in {"", _JSON}):
        return
    if _JSON in types and media_type.startswith("application/") and media_type.endswith("+json"):
        return
    shown = f"A body of type {given[:_SHOWN]}" if given else "A body without Content-Type"
    if not types:
        raise Refused(415, f"{shown} is not read.", cure="Send this request without a body.")
    readable = " or ".join(types)
    raise Refused(
        415,
        f"{shown} is not read; send it as {readable}.",
        cure=f"Set the header Content-Type: {types[0]}.",
    )


def tagged(tag: str) -> APIRouter:
    return APIRouter(tags=[tag], route_class=StrictRoute)


def encoded(document: Any, status: int = 200) -> Response:
    """An answer with a JSON document."""
    body = msgspec.json.encode(document)
    return Response(body, status_code=status, media_type="application/json")


def timeout_s(asked_ms: int | None, settings: Settings) -> float:
    """The time limit of a request in seconds: the one asked for, up to `max_timeout_s`, or else the
    default."""
    if asked_ms is None:
        return settings.statement_timeout_s
    return min(asked_ms / 1000, settings.max_timeout_s)


def check_parameters(lists: Iterable[Parameters], settings: Settings) -> None:
    """Raises LimitExceeded if the lists together have more than `max_parameters` parameters."""
    count = sum(map(len, lists))
    if count > settings.max_parameters:
        raise LimitExceeded(
            f"{count} parameters in one request; {settings.max_parameters} are allowed.",
            cure="Send several transactions, or use /v1/load.",
        )
