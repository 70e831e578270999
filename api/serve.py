"""Serve one database over HTTP until told to stop. `hornbeam serve` calls this."""

from __future__ import annotations

from typing import Any

import uvicorn

from api.app import create_app
from api.settings import load_settings
from schema.errors import InvalidRequest

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def serve(**given: Any) -> None:
    """Serve with settings from file and environment, `given` on top. Returns at a signal.

    Raises InvalidRequest for an address beyond loopback: there is no authentication yet.
    """
    settings = load_settings(**given)
    if settings.host not in _LOOPBACK:
        raise InvalidRequest(
            f"Refusing to listen on {settings.host}: without authentication only loopback is safe.",
            cure="Use 127.0.0.1, and a proxy that authenticates in front of it.",
        )
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http="httptools",
        access_log=False,
        timeout_graceful_shutdown=10,
    )
