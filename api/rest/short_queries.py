"""Short queries: a `POST /v1/query` whose body has only the usual members, and whose statement is
planned and can be read directly (`Reads.directly`). FastAPI answers all others, and reports all
errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec
from starlette.responses import Response
from starlette.types import Scope

from hornbeam_server.api.rest.handed_rows import whole_rows
from hornbeam_server.api.rest.json_parameters import values_of
from hornbeam_server.api.rest.metrics import Metrics, now_s
from hornbeam_server.api.rest.request_models import MAX_SQL
from hornbeam_server.api.rest.serializers import direct_document
from hornbeam_server.api.rest.short_requests import UNREADABLE, is_usual, is_within_bounds
from hornbeam_server.api.security.roles import Role
from hornbeam_server.node.live.ahead import Tentative
from hornbeam_server.node.node import Serving
from hornbeam_server.node.query_stages import DirectResult
from hornbeam_server.node.settings import Settings
from hornbeam_server.pgwire.ports import ROWS, WholeRows
from hornbeam_server.query.parsing.system_signals import SIGNALS
from hornbeam_server.schema.errors import HornbeamError

PATH = "/v1/query"


class _Query(msgspec.Struct, forbid_unknown_fields=True):
    """The usual members of `QueryBody`, with its bounds. A body with others does not fit. The time
    limit has no effect, since nothing waits."""

    sql: str
    parameters: list[Any] | dict[str, Any] = []
    bookmark: int = 0
    use_views: bool = True
    timeout_ms: int | None = None
    consistency: Literal["snapshot", "tentative"] = "snapshot"


_decode = msgspec.json.Decoder(_Query).decode
_encode = msgspec.json.Encoder().encode


class ShortQueries:
    """The short route of queries."""

    method = "POST"
    role: Role | None = Role.READER

    def __init__(self, serving: Serving, settings: Settings, metrics: Metrics, route: Any) -> None:
        self._serving = serving
        self._max_parameters = settings.max_parameters
        self._max_rows = settings.max_json_rows
        self._metrics = metrics
        self.route = route

    def takes(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        return is_usual(headers)

    async def respond(self, scope: Scope, body: bytes, began: float) -> bytes | Response | None:
        """None also for a query whose rows are handed over: `rows_now` has left it."""
        return None if ROWS in scope else self.answer_now(body, began)

    def rows_now(self, body: bytes, began: float) -> WholeRows | None:
        """The rows of the query in a body; None if the application has to answer."""
        found = self._asked(body)
        if found is None:
            return None
        self._metrics.query(now_s() - began)
        return whole_rows(found, began)

    def answer_now(self, body: bytes, began: float) -> bytes | None:
        answer = self._answer(body, began)
        if answer is not None:
            self._metrics.query(now_s() - began)
        return answer

    def _answer(self, body: bytes, began: float) -> bytes | None:
        """The whole answer; None if the application has to answer."""
        found = self._asked(body)
        if found is None or len(found.rows) > self._max_rows:
            return None
        if any(column.system in SIGNALS for column in found.columns):
            return None
        return _encode(direct_document(found, began))

    def _asked(self, body: bytes) -> DirectResult | None:
        """The answer to the query in a body; None if the application has to answer."""
        try:
            asked = _decode(body)
            parameters = values_of(asked.parameters)
        except UNREADABLE:
            return None
        if len(asked.sql) > MAX_SQL or not is_within_bounds(asked.bookmark, asked.timeout_ms):
            return None
        if len(parameters) > self._max_parameters:
            return None
        return self._found(asked, parameters)

    def _found(self, asked: _Query, parameters: list[Any] | dict[str, Any]) -> DirectResult | None:
        try:
            database = self._serving.require_readable()
            found = database.directly(
                asked.sql, parameters, bookmark=asked.bookmark, use_views=asked.use_views
            )
            if found is None or asked.consistency == "snapshot":
                return found
            return replace(found, tentative=Tentative(found.snapshot))
        except HornbeamError:
            return None  # the application meets the error again, and reports it
