"""The REST interface: an application of thin routes over `Database`.

msgspec encodes the answers (`api/rest/serializers.py`). Large answers are streamed
(`api/rest/streams.py`). Errors are problem documents (`api/rest/problems.py`).
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from hornbeam_server import __version__
from hornbeam_server.api.rest import problems, response_models
from hornbeam_server.api.rest.at_once import AtOnce
from hornbeam_server.api.rest.audit import Audit, logger_to
from hornbeam_server.api.rest.authentication import Authentication, KeyRing
from hornbeam_server.api.rest.authorization import Authorizer
from hornbeam_server.api.rest.dependencies import long_bodies
from hornbeam_server.api.rest.forwarding import Forwarding
from hornbeam_server.api.rest.metrics import Metrics
from hornbeam_server.api.rest.middleware import Guard
from hornbeam_server.api.rest.occupancy import Occupancy
from hornbeam_server.api.rest.routes import (
    activity,
    builds,
    console,
    exports,
    groups,
    health,
    keys,
    pages,
    queries,
    schema,
    subscriptions,
    transactions,
    upkeep,
)
from hornbeam_server.api.rest.same_origin import OriginRules, SameOrigin, is_guarded
from hornbeam_server.api.rest.search_paths import SearchPaths
from hornbeam_server.api.rest.short_health import LIVEZ, READYZ, ShortLivez, ShortReadyz
from hornbeam_server.api.rest.short_queries import PATH as QUERY
from hornbeam_server.api.rest.short_queries import ShortQueries
from hornbeam_server.api.rest.short_requests import RouteAtOnce, ShortRequests
from hornbeam_server.api.rest.short_transactions import PATH as TRANSACTIONS
from hornbeam_server.api.rest.short_transactions import ShortTransactions
from hornbeam_server.api.security.roles import needed_role
from hornbeam_server.node.database import Database
from hornbeam_server.node.node import Serving
from hornbeam_server.node.settings import Settings
from hornbeam_server.pgwire.server.backends import Backends
from hornbeam_server.storage.tracing import Tracer

ROUTERS = (
    *(queries, transactions, schema, upkeep, subscriptions),
    *(exports, builds, groups, keys, health, activity, pages, console),
)
"""Routes are matched in this order, each by a regular expression: the most frequent ones first."""


TAGS = {
    "queries": "Run and explain queries.",
    "transactions": "Write, and ask what became of a transaction.",
    "schema": "Plan, apply and show the schema and its views.",
    "upkeep": "Verify and repair views, load rows.",
    "keys": "API keys.",
    "health": "The state of a node.",
    "activity": "Statements by their text, and transactions under way.",
}
"""The groups of routes for clients."""
INTERNAL_TAGS = {
    "builds": "For Hornbeam's Spark jobs: builds of views, and initial loads.",
    "exports": "For Hornbeam's Spark jobs: snapshots and changes.",
    "groups": "For Hornbeam's Spark jobs: batches of deferred views.",
}
"""The groups of routes for Hornbeam's own programs, which may change with each version."""


def create_app(
    settings: Settings, serving: Serving | Database, tracer: Tracer | None = None
) -> FastAPI:
    """The application over a database that the caller opens and closes. Raises InvalidRequest when
    the audit log cannot be written."""
    app = _Application(
        title="Hornbeam",
        summary="Transactions and always-right materialised views",
        description="Errors are RFC 9457 problem documents; `code` is stable, `retryable` says"
        " whether to send the same again, `outcome` what is known of the transaction.",
        version=__version__,
        openapi_tags=[
            {"name": name, "description": text} for name, text in {**TAGS, **INTERNAL_TAGS}.items()
        ],
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        docs_url=None,  # FastAPI's page would load scripts from another server
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.serving = serving if isinstance(serving, Serving) else Serving(serving)
    app.state.settings = settings
    app.state.metrics = Metrics()
    app.state.keys = KeyRing(app.state.serving, settings)
    app.state.authorizer = Authorizer()
    app.state.backends = Backends()
    app.state.search_paths = SearchPaths()
    app.state.long_bodies = long_bodies()
    found = (route for module in ROUTERS for route in module.router.routes)
    routes = [route for route in found if isinstance(route, APIRoute)]
    if settings.store == "hbase":
        app.add_middleware(Forwarding, serving=app.state.serving, settings=settings)
    known = {route.path: route for route in routes}
    given = app.state.serving, settings, app.state.metrics
    short_queries = ShortQueries(*given, known[QUERY])
    at_once: dict[str, RouteAtOnce] = {
        QUERY: short_queries,
        LIVEZ: ShortLivez(known[LIVEZ]),
        READYZ: ShortReadyz(app.state.serving, known[READYZ]),
    }
    transactions_ = ShortTransactions(*given, known[TRANSACTIONS])
    app.add_middleware(ShortRequests, routes={**at_once, TRANSACTIONS: transactions_})
    ring = app.state.keys if settings.authentication == "keys" else None
    inside = Occupancy(settings.max_concurrent_requests)
    inside_by_key = Occupancy(settings.max_concurrent_requests_per_key)
    app.add_middleware(Authentication, ring=ring, inside=inside_by_key)
    origins = OriginRules(settings) if is_guarded(settings) else None
    if origins is not None:
        app.add_middleware(SameOrigin, rules=origins)
    app.state.audit = None if settings.audit_log is None else logger_to(settings.audit_log)
    if app.state.audit is not None:
        app.add_middleware(Audit, write=app.state.audit)
    app.add_middleware(  # the outermost
        Guard, settings=settings, metrics=app.state.metrics, inside=inside, tracer=tracer
    )
    app.state.at_once = AtOnce(
        at_once,
        short_queries,
        settings,
        app.state.metrics,
        inside=inside,
        inside_by_key=inside_by_key,
        ring=ring,
        origins=origins,
        tracer=tracer,
    )
    problems.install(app, routes)
    for module in ROUTERS:
        app.include_router(module.router)
    return app


class _Application(FastAPI):
    """A FastAPI application whose OpenAPI document also describes the layers around the routes: API
    keys, and refusals of bodies and origins."""

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(response_models.problem_schemas())
        for methods in document["paths"].values():
            for operation in methods.values():
                if not INTERNAL_TAGS.keys().isdisjoint(operation["tags"]):
                    operation["x-internal"] = True
                if "requestBody" in operation:
                    _document(operation, 408, 415)
                if is_guarded(self.state.settings):
                    _document(operation, 400, 403, 421)
        if self.state.settings.authentication == "keys":
            schemes = document["components"].setdefault("securitySchemes", {})
            schemes["apiKey"] = {
                "type": "http",
                "scheme": "bearer",
                "description": "An API key: hb_, its public id, _, its secret.",
            }
            for methods in document["paths"].values():
                for operation in methods.values():
                    _secure(operation)
        return document


def _secure(operation: dict[str, Any]) -> None:
    if needed_role(operation) is not None:
        operation["security"] = [{"apiKey": []}]
        _document(operation, 401, 403, 429, 503)


def _document(operation: dict[str, Any], *statuses: int) -> None:
    for status, refusal in response_models.problems(*statuses).items():
        operation["responses"].setdefault(str(status), refusal)
