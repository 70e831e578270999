"""The REST interface: an application of thin routes over `Database`.

Answers are encoded by msgspec (`api/documents.py`), large ones are streamed (`api/streams.py`),
errors are problem documents (`api/problems.py`).
"""

from __future__ import annotations

from fastapi import FastAPI

from api import problems
from api.database import Database
from api.metrics import Metrics
from api.middleware import Guard
from api.node import Serving
from api.routes import health, queries, schema, transactions, upkeep
from api.settings import Settings

VERSION = "0.1.0"
ROUTERS = (queries, transactions, schema, upkeep, health)
"""Routes are tried in this order, each with a regular expression: the hot ones first."""


def create_app(settings: Settings, serving: Serving | Database) -> FastAPI:
    """The application, over what the caller opens and closes."""
    app = FastAPI(
        title="Hornbeam",
        summary="Transactions and always-right materialised views",
        description="Errors are RFC 9457 problem documents; `code` is stable, `retryable` says"
        " whether to send the same again, `outcome` what is known of the transaction.",
        version=VERSION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        docs_url="/docs",
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.serving = serving if isinstance(serving, Serving) else Serving(serving)
    app.state.settings = settings
    app.state.metrics = Metrics()
    app.add_middleware(Guard, settings=settings, metrics=app.state.metrics)
    problems.install(app)
    for module in ROUTERS:
        app.include_router(module.router)
    return app
