"""The REST interface: thin routes over `Database`.

Answers are encoded by msgspec: decimals, dates and timestamps as text, bytes as base64, all
exact. Large answers stream; an error in the middle of one ends the body with an `error` member.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from fastapi import Depends, FastAPI, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from viewselect.picture import forest_mermaid, forest_svg

from api import problems
from api.bulk import read_rows
from api.database import Database, QueryResult
from api.metrics import Metrics
from api.models import (
    ApplyBody,
    ExplainBody,
    PlanBody,
    QueryBody,
    TransactionBody,
    VerifyBody,
)
from api.planning import PlannedSchema
from api.settings import Settings
from maintain.changes import Mutation
from query.binder import OutputColumn
from schema.ddl import render_ddl
from schema.errors import HornbeamError, InvalidRequest, LimitExceeded, NotFound
from schema.types import Row
from txlayer.model import StatementResult, TransactionResult
from txlayer.verify import VerifyReport

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
FIRST_ROWS = 2_000
"""An answer of up to so many rows is sent whole, with a Content-Length."""


def create_app(settings: Settings, database: Database | None = None) -> FastAPI:
    """The application. With `database` given the caller opens and closes it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if database is not None:
            app.state.database = database
            yield
            return
        async with await Database.open(settings) as opened:
            app.state.database = opened
            yield

    app = FastAPI(
        title="Hornbeam",
        summary="Transactions and always-right materialised views",
        version="0.1.0",
        lifespan=lifespan,
        docs_url="/docs",
        redoc_url=None,
    )
    if database is not None:
        app.state.database = database
    app.state.metrics = Metrics()
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    problems.install(app)
    for add in (_add_queries, _add_transactions, _add_schema, _add_upkeep, _add_health):
        add(app, settings)
    return app


async def _database(request: Request) -> Database:
    """A coroutine, because FastAPI sends plain functions to a thread: twice the time of a read."""
    database: Database = request.app.state.database
    return database


Db = Annotated[Database, Depends(_database)]


class BodyLimit:
    """Refuse bodies over `limit` bytes, by their declared and by their real length."""

    def __init__(self, app: Callable[..., Awaitable[None]], limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        error = LimitExceeded(
            f"The body is larger than {self._limit} bytes.",
            cure="Send less at a time, or raise max_body_bytes.",
        )
        if length.isdigit() and int(length) > self._limit:
            await problems.response(error)(scope, receive, send)
            return
        seen = 0

        async def counted() -> Any:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise error
            return message

        await self._app(scope, counted, send)


def _json(document: Any, status: int = 200) -> Response:
    return Response(
        msgspec.json.encode(document), status_code=status, media_type="application/json"
    )


# ---------------------------------------------------------------- health


def _add_health(app: FastAPI, _: Settings) -> None:
    @app.get("/livez", tags=["health"])
    async def livez() -> Response:
        """The process answers."""
        return _json({"status": "live"})

    @app.get("/readyz", tags=["health"])
    async def readyz(db: Db) -> Response:
        """Requests may be sent here."""
        ready = db.ready()
        return _json({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    @app.get("/metrics", tags=["health"])
    async def metrics(request: Request, db: Db) -> Response:
        """Prometheus metrics."""
        text, media_type = await request.app.state.metrics.render(db)
        return Response(text, media_type=media_type)

    @app.get("/v1/status", tags=["health"])
    async def status(db: Db) -> Response:
        """Version, watermark, locks, log, builds, sizes."""
        return _json({**await db.status(), "bytes": await db.sizes()})


# ---------------------------------------------------------------- transactions


def _add_transactions(app: FastAPI, settings: Settings) -> None:
    @app.post("/v1/transactions", tags=["transactions"])
    async def transact(
        body: TransactionBody,
        request: Request,
        db: Db,
        idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
    ) -> Response:
        """Run INSERT, UPDATE and DELETE statements as one transaction."""
        count = sum(len(statement.parameters) for statement in body.statements)
        _check_parameters(count, settings)
        timeout_s = _timeout_s(body.timeout_ms, settings)
        result = await db.transact(body.request(idempotency_key, timeout_s))
        request.app.state.metrics.transaction(result)
        return _json(transaction_document(db, result), 200 if result.applied else 202)

    @app.get("/v1/transactions/{transaction_id}", tags=["transactions"])
    async def outcome(transaction_id: str, db: Db) -> Response:
        """What became of a transaction."""
        if len(transaction_id) != 32 or not set(transaction_id) <= set("0123456789abcdef"):
            raise InvalidRequest("A transaction id is 32 lower-case hexadecimal digits.")
        found = await db.outcome(transaction_id)
        if found is None:
            raise NotFound(
                f"No commit of transaction {transaction_id} is recorded.",
                cure="It was not committed, or longer ago than answers are kept.",
            )
        return _json(
            {
                "transaction_id": transaction_id,
                "outcome": "committed",
                "commit_ts": found.commit_ts,
                "answer": transaction_document(db, found.answer),
            }
        )


def transaction_document(db: Database, result: TransactionResult) -> dict[str, Any]:
    """JSON form of a transaction's answer."""
    document: dict[str, Any] = {
        "transaction_id": result.transaction_id,
        "commit_ts": result.commit_ts,
        "bookmark": result.commit_ts,
        "statements": [_statement_document(statement) for statement in result.statements],
        "affected": dict(result.affected),
        "timings_ms": {
            "plan": round(result.timings.plan_ms, 3),
            "lock": round(result.timings.lock_ms, 3),
            "log": round(result.timings.log_ms, 3),
            "apply": round(result.timings.apply_ms, 3),
        },
        "applied": result.applied,
    }
    if result.mutations:
        document["mutations"] = [_mutation_document(db, m) for m in result.mutations]
    return document


def _statement_document(statement: StatementResult) -> dict[str, Any]:
    return {
        "affected": statement.affected,
        "columns": [
            {"name": name, "type": type_}
            for name, type_ in zip(statement.columns, statement.types, strict=True)
        ],
        "rows": statement.rows,
    }


def _mutation_document(db: Database, mutation: Mutation) -> dict[str, Any]:
    layout = db.catalog.layout(mutation.layout)

    def named(row: Row | None) -> dict[str, Any] | None:
        return None if row is None else dict(zip(layout.column_names, row, strict=True))

    old, new = named(mutation.old), named(mutation.new)
    known = new or old or {}
    key = {part.column: known[part.column] for part in layout.key}
    return {"layout": mutation.layout, "key": key, "old": old, "new": new}


def _timeout_s(asked_ms: int | None, settings: Settings) -> float:
    if asked_ms is None:
        return settings.statement_timeout_s
    return min(asked_ms / 1000, settings.max_timeout_s)


def _check_parameters(count: int, settings: Settings) -> None:
    if count > settings.max_parameters:
        raise LimitExceeded(
            f"{count} parameters in one request; {settings.max_parameters} are allowed.",
            cure="Send several transactions, or use /v1/load.",
        )


# ---------------------------------------------------------------- queries


def _add_queries(app: FastAPI, settings: Settings) -> None:
    @app.post("/v1/query", tags=["queries"])
    async def query(
        body: QueryBody, request: Request, db: Db, accept: Annotated[str, Header()] = ""
    ) -> Response:
        """Run a SELECT at one snapshot. `Accept` chooses JSON or an Arrow stream."""
        began = time.perf_counter()
        _check_parameters(len(body.parameters), settings)
        async with AsyncExitStack() as stack:
            result = await stack.enter_async_context(
                db.query(
                    body.sql,
                    body.parameters,
                    bookmark=body.bookmark,
                    snapshot=body.snapshot,
                    pending=[item.statement() for item in body.pending],
                    trace=body.trace,
                    use_views=body.use_views,
                    timeout_s=_timeout_s(body.timeout_ms, settings),
                    max_rows=body.max_rows,
                )
            )
            if ARROW in accept:
                return await _arrow_response(result, stack)
            response = await _json_response(result, stack, began, settings)
        request.app.state.metrics.query(time.perf_counter() - began)
        return response

    @app.post("/v1/explain", tags=["queries"])
    async def explain(body: ExplainBody, db: Db) -> Response:
        """How a SELECT would be answered, and why."""
        explanation = db.explain(body.sql, body.parameters, use_views=body.use_views)
        return _json({**explanation.json(), "text": explanation.text})


def column_documents(columns: tuple[OutputColumn, ...]) -> list[dict[str, Any]]:
    return [{"name": c.name, "type": c.type.sql() if c.type is not None else ""} for c in columns]


def _tail(result: QueryResult, began: float) -> dict[str, Any]:
    reads = result.reads
    return {
        "snapshot": result.snapshot,
        "served_by": list(result.served_by),
        "reads": None if reads is None else [[r.layout, r.key.hex(), r.ts] for r in reads],
        "elapsed_ms": round((time.perf_counter() - began) * 1000, 3),
    }


async def _json_response(
    result: QueryResult, stack: AsyncExitStack, began: float, settings: Settings
) -> Response:
    batches = result.stream.batches()
    rows: list[Row] = []
    async for batch in batches:
        rows += batch
        if len(rows) > FIRST_ROWS:
            break
    else:
        columns = column_documents(result.stream.columns)
        return _json({"columns": columns, "rows": rows, **_tail(result, began)})
    kept = stack.pop_all()
    return StreamingResponse(
        _json_chunks(result, rows, batches, kept, began, settings), media_type="application/json"
    )


async def _json_chunks(
    result: QueryResult,
    rows: list[Row],
    batches: AsyncIterator[list[Row]],
    stack: AsyncExitStack,
    began: float,
    settings: Settings,
) -> AsyncIterator[bytes]:
    encode = msgspec.json.encode
    async with stack:
        yield b'{"columns":' + encode(column_documents(result.stream.columns)) + b',"rows":['
        yield encode(rows)[1:-1]
        sent = len(rows)
        tail: dict[str, Any]
        try:
            async for batch in batches:
                sent += len(batch)
                if sent > settings.max_json_rows:
                    raise LimitExceeded(
                        f"The answer has more than {settings.max_json_rows} rows.",
                        cure="Ask for the Arrow stream, or add a LIMIT.",
                    )
                if batch:
                    yield b"," + encode(batch)[1:-1]
            tail = _tail(result, began)
        except HornbeamError as error:
            tail = {"error": problems.problem(error)}
        yield b"]," + encode(tail)[1:]


async def _arrow_response(result: QueryResult, stack: AsyncExitStack) -> Response:
    batches = result.stream.arrow()
    first = await anext(batches, None)
    kept = stack.pop_all()
    headers = {
        "Hornbeam-Snapshot": str(result.snapshot),
        "Hornbeam-Served-By": ",".join(result.served_by),
    }
    return StreamingResponse(
        _arrow_chunks(result, first, batches, kept), media_type=ARROW, headers=headers
    )


async def _arrow_chunks(
    result: QueryResult,
    first: pa.RecordBatch | None,
    batches: AsyncIterator[pa.RecordBatch],
    stack: AsyncExitStack,
) -> AsyncIterator[bytes]:
    async with stack:
        schema = first.schema if first is not None else result.stream.schema
        sink = _Chunks()
        with pa.ipc.new_stream(sink, schema) as writer:
            if first is not None:
                writer.write_batch(first)
            yield sink.take()
            async for batch in batches:
                writer.write_batch(batch)
                yield sink.take()
        yield sink.take()


class _Chunks:
    """A file that is read as it is written."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        return len(part)

    def flush(self) -> None:
        """Nothing is held back."""

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing to release."""

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


# ---------------------------------------------------------------- schema


def _add_schema(app: FastAPI, _: Settings) -> None:
    @app.post("/v1/schema/plan", tags=["schema"])
    async def plan(body: PlanBody, db: Db) -> Response:
        """Choose trees, views and indexes for a schema and a workload. Changes nothing."""
        planned = await asyncio.to_thread(db.plan_schema, body.request())
        return _json(plan_document(planned))

    @app.post("/v1/schema/apply", tags=["schema"])
    async def apply(body: ApplyBody, db: Db) -> Response:
        """Put a plan into force. Views build in the background; see /v1/views."""
        catalog = await db.apply_schema(body.request(), body.plan_id)
        building = [name for name, build in db.keeper.builds.items() if not build.finished]
        return _json({"catalog_version": catalog.version, "building": building})

    @app.get("/v1/schema", tags=["schema"])
    async def show(db: Db) -> Response:
        """The catalog in force."""
        return _json(schema_document(db))

    @app.get("/v1/schema/graph", tags=["schema"])
    async def graph(
        db: Db, format: Annotated[str, Query(pattern="^(svg|mermaid|json)$")] = "svg"
    ) -> Response:
        """The schema graph with its trees and views."""
        match format:
            case "svg":
                return Response(forest_svg(db.catalog), media_type="image/svg+xml")
            case "mermaid":
                return Response(forest_mermaid(db.catalog), media_type="text/plain")
        return _json({key: schema_document(db)[key] for key in ("relations", "trees", "views")})

    @app.get("/v1/views", tags=["schema"])
    async def views(db: Db) -> Response:
        """All views with their states and progress."""
        sizes = await db.sizes()
        return _json([{**db.view_status(n), "bytes": sizes[n]} for n in db.catalog.view])

    @app.get("/v1/views/{name}", tags=["schema"])
    async def view(name: str, db: Db) -> Response:
        """One view."""
        status = db.view_status(name)
        return _json({**status, "bytes": (await db.sizes())[name]})


def plan_document(planned: PlannedSchema) -> dict[str, Any]:
    selection = planned.plan
    return {
        "plan_id": planned.plan_id,
        "base_version": planned.base_version,
        "text": selection.text(),
        "plan": selection.json(),
        "changes": [asdict(row) for row in planned.changes.rows()],
        "mermaid": selection.mermaid(),
        "svg": selection.svg(),
    }


def schema_document(db: Database) -> dict[str, Any]:
    catalog = db.catalog
    return {
        "version": catalog.version,
        "ddl": render_ddl(catalog.schema),
        "relations": [
            {
                "name": relation.name,
                "columns": [
                    {
                        "name": c.name,
                        "type": c.type.sql(),
                        "nullable": c.nullable,
                        "default": None if c.default is None else c.default.kind.value,
                    }
                    for c in relation.columns
                ],
                "primary_key": list(relation.primary_key),
                "foreign_keys": [
                    {
                        "name": fk.name,
                        "columns": list(fk.columns),
                        "parent": fk.parent,
                        "parent_columns": list(fk.parent_columns),
                        "on_delete": fk.on_delete.value,
                    }
                    for fk in relation.foreign_keys
                ],
                "root": catalog.forest.root(relation.name),
            }
            for relation in catalog.schema.relations
        ],
        "trees": {
            name: None
            if (edge := catalog.forest.parent.get(name)) is None
            else {"parent": edge.parent, "foreign_key": edge.name}
            for name in catalog.schema.names
        },
        "views": [db.view_status(name) for name in catalog.view],
        "indexes": [
            {
                "name": index.name,
                "on": index.on,
                "columns": [
                    {"column": part.column, "descending": part.descending} for part in index.columns
                ],
                "include": list(index.include),
                "unique": index.unique,
                "purpose": index.purpose.value,
                "reason": index.reason,
                "state": catalog.state[index.name].value,
            }
            for index in catalog.indexes
        ],
        "workload": [{"name": s.name, "sql": s.sql, "weight": s.weight} for s in catalog.workload],
    }


# ---------------------------------------------------------------- upkeep


def _add_upkeep(app: FastAPI, settings: Settings) -> None:
    @app.post("/v1/verify", tags=["upkeep"])
    async def verify(body: VerifyBody, db: Db) -> StreamingResponse:
        """Recompute and compare views and indexes; lines of progress, then the report."""
        return StreamingResponse(_verify_lines(db, body), media_type=NDJSON)

    @app.post("/v1/load/{relation}", tags=["upkeep"])
    async def load(
        relation: str,
        request: Request,
        db: Db,
        idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
        content_type: Annotated[str, Header()] = "text/csv",
    ) -> Response:
        """Insert the rows of a CSV (with a header row) or an Arrow stream as one transaction."""
        if relation not in db.catalog.schema:
            raise NotFound(f"There is no relation {relation}.")
        body = await request.body()
        columns, rows = await asyncio.to_thread(
            read_rows, body, content_type, db.catalog.schema.relation(relation)
        )
        result = await db.load(
            relation,
            columns,
            rows,
            idempotency_key=idempotency_key,
            timeout_s=settings.max_timeout_s,
        )
        return _json({"rows": result.statements[0].affected, "commit_ts": result.commit_ts})


async def _verify_lines(db: Database, body: VerifyBody) -> AsyncIterator[bytes]:
    lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    def progress(name: str, done: int, total: int) -> None:
        lines.put_nowait({"progress": {"name": name, "done": done, "total": total}})

    async def work() -> None:
        try:
            report = await db.verify(body.names, repair=body.repair, progress=progress)
            lines.put_nowait({"report": verify_document(report)})
        except HornbeamError as error:
            lines.put_nowait({"error": problems.problem(error)})
        finally:
            lines.put_nowait(None)

    task = asyncio.ensure_future(work())
    try:
        while (line := await lines.get()) is not None:
            yield msgspec.json.encode(line) + b"\n"
    finally:
        task.cancel()


def verify_document(report: VerifyReport) -> dict[str, Any]:
    return {
        "snapshot": report.snapshot,
        "differences": report.differences,
        "checked": [
            {
                "name": item.name,
                "kind": item.kind,
                "rows": item.rows,
                "missing": item.missing,
                "extra": item.extra,
                "different": item.different,
                "misplaced": item.misplaced,
                "repaired": item.repaired,
            }
            for item in report.checked
        ],
    }
