"""`GET /livez` and `GET /readyz` of a node that is ready. Load balancers ask for them all the time.
FastAPI reports why a node is not ready."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.types import Scope

from hornbeam_server.api.security.roles import Role
from hornbeam_server.node.node import Serving
from hornbeam_server.schema.errors import HornbeamError

LIVEZ, READYZ = "/livez", "/readyz"


class ShortLivez:
    """The short route of liveness."""

    method = "GET"
    role: Role | None = None

    def __init__(self, route: Any) -> None:
        self.route = route

    def takes(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        return True

    async def respond(self, scope: Scope, body: bytes, began: float) -> bytes | None:
        return self.answer_now(body, began)

    def answer_now(self, body: bytes, began: float) -> bytes | None:
        return b'{"status":"live"}'


class ShortReadyz(ShortLivez):
    """The short route of readiness."""

    def __init__(self, serving: Serving, route: Any) -> None:
        super().__init__(route)
        self._serving = serving

    def answer_now(self, body: bytes, began: float) -> bytes | None:
        try:
            self._serving.require().require_ready()
        except HornbeamError:
            return None
        return b'{"status":"ready"}'
