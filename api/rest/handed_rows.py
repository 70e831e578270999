"""Answers whose rows are handed over within this process (`pgwire/ports.py`), instead of being
written as JSON."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from functools import lru_cache

from fastapi import Response
from starlette.types import Receive, Scope, Send

from hornbeam_server.api.rest import problems
from hornbeam_server.api.rest.serializers import tail_document
from hornbeam_server.node.query_stages import DirectResult, QueryResult
from hornbeam_server.pgwire.ports import NamedType, RowTaker, WholeRows
from hornbeam_server.query.binding.binder import OutputColumn
from hornbeam_server.schema.errors import HornbeamError


class HandedRows(Response):
    """The answer to a query. It takes over `stack`, which keeps the query open until `taker` has
    taken the rows, or does not need them any more."""

    def __init__(
        self, result: QueryResult, stack: AsyncExitStack, taker: RowTaker, began: float
    ) -> None:
        super().__init__(None)
        self._result = result
        self._stack = stack
        self._taker = taker
        self._began = began

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        result, taker = self._result, self._taker
        async with self._stack, aclosing(result.stream.batches()) as batches:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            taker.begin(types_of(result.stream.columns), lambda: tail_document(result, self._began))
            try:
                async for batch in batches:
                    await taker.put(batch)
            except HornbeamError as error:
                taker.end(problems.problem(error))
            else:
                taker.end()
        await send({"type": "http.response.body", "body": b""})


def whole_rows(result: DirectResult, began: float) -> WholeRows:
    """The rows of a short query. `began` is a time of `metrics.now_s`."""
    return WholeRows(types_of(result.columns), result.rows, tail_document(result, began))


@lru_cache(maxsize=1_024)
def types_of(columns: tuple[OutputColumn, ...]) -> tuple[NamedType, ...]:
    """The columns with the names of their types as they were declared; a NULL without a type is
    text."""
    return tuple([NamedType(column.name, column.type_name or "TEXT") for column in columns])
