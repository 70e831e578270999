"""Short transactions: a `POST /v1/transactions` whose body has only the usual members.

A request that does not fit goes to FastAPI before it has an effect, and FastAPI reports what is
wrong. Once the transaction has begun, its result and its errors are answered here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Scope

from hornbeam_server.api.rest import problems
from hornbeam_server.api.rest.audit import note
from hornbeam_server.api.rest.authentication import PRINCIPAL
from hornbeam_server.api.rest.dependencies import encoded, timeout_s
from hornbeam_server.api.rest.json_parameters import values_of
from hornbeam_server.api.rest.metrics import Metrics
from hornbeam_server.api.rest.request_models import MAX_SQL
from hornbeam_server.api.rest.serializers import transaction_document
from hornbeam_server.api.rest.short_requests import UNREADABLE, is_usual, is_within_bounds
from hornbeam_server.api.security.roles import Principal, Role
from hornbeam_server.node.database import Database
from hornbeam_server.node.node import Serving
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest

PATH = "/v1/transactions"
_MAX_KEY = 255
"""Maximum characters of an idempotency key."""


class _Statement(msgspec.Struct, forbid_unknown_fields=True):
    """The usual members of `StatementBody`."""

    sql: str
    parameters: list[Any] | dict[str, Any] = []


class _Transaction(msgspec.Struct, forbid_unknown_fields=True):
    """The usual members of `TransactionBody`. A body with others does not fit."""

    statements: list[_Statement]
    bookmark: int = 0
    timeout_ms: int | None = None


_decode = msgspec.json.Decoder(_Transaction).decode


class ShortTransactions:
    """The short route of transactions."""

    method = "POST"
    role: Role | None = Role.WRITER

    def __init__(self, serving: Serving, settings: Settings, metrics: Metrics, route: Any) -> None:
        self._serving = serving
        self._settings = settings
        self._metrics = metrics
        self.route = route

    def takes(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        return is_usual(headers)

    async def respond(self, scope: Scope, body: bytes, began: float) -> bytes | Response | None:
        request, database = self._request(scope, body), self._serving.database
        if request is None or database is None:
            return None
        try:
            return await self._transacted(scope, database, request)
        except HornbeamError as error:
            return problems.reported(scope, error)

    async def _transacted(
        self, scope: Scope, database: Database, request: TransactionRequest
    ) -> bytes | Response:
        scope["route"] = self.route  # for the audit log, also if the request is cancelled
        result = await database.transact(request)
        self._metrics.transaction(result)
        note(scope, transaction=result.transaction_id, changed=sorted(result.affected))
        texts = [each.sql for each in request.statements if isinstance(each, Statement)]
        document = transaction_document(database.catalog, result, texts)
        return msgspec.json.encode(document) if result.applied else encoded(document, 202)

    def _request(self, scope: Scope, body: bytes) -> TransactionRequest | None:
        """The request to the transaction layer; None if FastAPI has to answer."""
        try:
            asked = _decode(body)
            statements = tuple(Statement(s.sql, values_of(s.parameters)) for s in asked.statements)
        except UNREADABLE:
            return None
        key = _idempotency_key(scope)
        if not (self._fits(asked, statements) and (key is None or 0 < len(key) <= _MAX_KEY)):
            return None
        principal: Principal = scope[PRINCIPAL]
        return TransactionRequest(
            statements,
            idempotency_key=key,
            bookmark=asked.bookmark,
            timeout_s=timeout_s(asked.timeout_ms, self._settings),
            owner=principal.key,
        )

    def _fits(self, asked: _Transaction, statements: tuple[Statement, ...]) -> bool:
        """Is the body within the bounds of `TransactionBody`?"""
        parameters = sum([len(each.parameters) for each in statements])
        return (
            is_within_bounds(asked.bookmark, asked.timeout_ms)
            and parameters <= self._settings.max_parameters
            and bool(statements)
            and all(0 < len(each.sql) <= MAX_SQL for each in statements)
        )


def _idempotency_key(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"idempotency-key":
            return str(value.decode("latin-1"))
    return None
