"""The query engine: SQL in, a stream of rows out, at whatever moment the reader stands for.

Preparing parses, binds, rewrites over readable views and plans; prepared statements are kept by
text and catalog version. Running resolves parameters and reads. `query/native.py` answers what it
can in our own loops; DuckDB answers everything else (`query/residual.py`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import aclosing
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from query.access import unbounded
from query.algebra import StatementKind
from query.binder import BoundQuery, OutputColumn, bind
from query.duck import arrow_schema, from_record_batch, to_record_batch
from query.explain import Explanation, explain
from query.native import NativePlan, TooManyRows
from query.planner import Plan, plan_query, plan_spilling
from query.residual import ResidualPlan, plan_rows
from query.rewrite import Rewritten, rewrite
from query.session import Duck, DuckSession, new_threads
from schema.catalog import Catalog
from schema.errors import LimitExceeded, SqlError, StatementTimeout, TypeMismatch, Unsupported
from schema.model import Column
from schema.types import ColumnType, Kind, Row, Value
from storage.snapshot import RowReader

T = TypeVar("T")
PREPARED = 1_024
"""Prepared statements kept."""
SHORT = 8_000
"""Characters of SQL that are read on the event loop: that takes 0.1 s at most, and mostly 2 ms."""


def _timed_out() -> StatementTimeout:
    return StatementTimeout(
        "the statement ran into its time limit", cure="narrow it, or allow more time"
    )


class QueryEngine:
    """Prepares statements and owns DuckDB. One per process; `close` it.

    `memory_limit_mb` and `spill_folder` are DuckDB's: without a folder a query that needs more
    memory fails with LimitExceeded.
    """

    def __init__(
        self,
        *,
        memory_limit_mb: int = 128,
        spill_folder: Path | None = None,
        new_threads: Callable[[int], Executor] = new_threads,
        prepared: int = PREPARED,
    ) -> None:
        self.duck = Duck(
            memory_limit_mb=memory_limit_mb, spill_folder=spill_folder, new_threads=new_threads
        )
        # Apart, so that who holds locks does not wait for queries to get a thread.
        self._expressions = Duck(
            memory_limit_mb=memory_limit_mb, threads=1, new_threads=new_threads
        )
        self._prepared: OrderedDict[tuple[str, int, bool, bool], PreparedQuery] = OrderedDict()
        self._limit = prepared
        self._new_threads = new_threads
        self._reading: Executor | None = None

    def prepare(
        self, sql: str, catalog: Catalog, *, use_views: bool = True, columnar: bool = False
    ) -> PreparedQuery:
        """Plan a SELECT. Raises SqlError, UnknownName, Unsupported.

        `columnar`: the result will be read by `QueryStream.arrow`. It gives rows too, but the
        plan may be a slower one for them.
        """
        key = (sql, catalog.version, use_views, columnar)
        found = self._prepared.pop(key, None)
        if found is None or found.catalog is not catalog:
            bound = bind(sql, catalog)
            found = self.prepare_bound(bound, catalog, use_views=use_views, columnar=columnar)
        self._prepared[key] = found
        if len(self._prepared) > self._limit:
            self._prepared.popitem(last=False)
        return found

    def prepare_bound(
        self,
        bound: BoundQuery,
        catalog: Catalog,
        *,
        use_views: bool = True,
        columnar: bool = False,
    ) -> PreparedQuery:
        """Plan a SELECT that is bound already (a part of another statement). Not cached."""
        if bound.statement.kind is not StatementKind.SELECT:
            raise Unsupported(
                f"{bound.statement.kind.value.upper()} is not a query",
                cure="send it as a transaction",
            )
        rewritten = rewrite(bound, catalog) if use_views else Rewritten(bound, (), ())
        plan = plan_query(rewritten.bound, catalog, columnar=columnar)
        return PreparedQuery(self.duck, bound.statement.sql, catalog, rewritten, plan)

    async def read(
        self, characters: int, work: Callable[[], T], deadline: float | None = None
    ) -> T:
        """What `work` returns, which reads so much SQL: much in a thread, one text at a time. It
        cannot be stopped there, only left: raises StatementTimeout at that time of the loop's
        clock."""
        if characters <= SHORT:
            return work()
        if self._reading is None:
            self._reading = self._new_threads(1)
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.wrap_future(self._reading.submit(work))
        except TimeoutError:
            raise _timed_out() from None

    async def evaluate(self, work: Callable[[], T]) -> T:
        """What `work` returns, which evaluates expressions of a write by DuckDB, in a thread."""
        async with self._expressions.session() as session:
            return await session.evaluate(work)

    def close(self) -> None:
        """Release DuckDB and its threads. Idempotent."""
        self._prepared.clear()
        if self._reading is not None:
            self._reading.shutdown(cancel_futures=True)
            self._reading = None
        self._expressions.close()
        self.duck.close()


class PreparedQuery:
    """A planned query. May be run any number of times, also at once."""

    def __init__(
        self, duck: Duck, sql: str, catalog: Catalog, rewritten: Rewritten, plan: Plan
    ) -> None:
        self.sql = sql
        self.catalog = catalog
        self.rewritten = rewritten
        self.plan = plan
        self.columns = _output_columns(rewritten.bound, plan)
        self.served_by = tuple(dict.fromkeys(access.layout.name for access in plan.accesses))
        """Relations, views and indexes that are read."""
        self.sources = frozenset(catalog.layout(name).source for name in self.served_by)
        """Relations and views that are read, by themselves or by their indexes."""
        self.deferred = tuple(name for name in self.served_by if name in catalog.deferred_view)
        self._duck = duck
        self._parameters = [
            (name, _comparable(type_)) for name, type_ in rewritten.bound.parameter_types.items()
        ]

    async def run(
        self,
        reader: RowReader,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        deadline: float | None = None,
        max_rows: int | None = None,
    ) -> QueryStream:
        """Begin to run. `deadline` is a time of the event loop's clock (seconds).

        Raises SqlError for missing or surplus parameters, TypeMismatch for values that do not
        fit. The stream raises StatementTimeout after the deadline, LimitExceeded beyond
        `max_rows`.
        """
        values = self._values(parameters)
        if isinstance(self.plan, NativePlan):
            rows = self._native(self.plan, reader, values)
            return QueryStream(self.columns, rows, None, deadline, max_rows)
        session = self._duck.session()
        batches = self._residual(self.plan, reader, values, session)
        stream = QueryStream(self.columns, batches, session, deadline, max_rows)
        await stream.begin()
        return stream

    def explain(self, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> Explanation:
        """How the query is answered. `parameters` are checked, if given."""
        if parameters is not None:
            self._values(parameters)
        return explain(self.sql, self.catalog, self.rewritten, self.plan)

    def _values(self, given: Sequence[Any] | Mapping[str, Any]) -> dict[int | str, Value]:
        """Parameters by number or name, coerced to the types they are compared with."""
        named: Mapping[Any, Any] = given if isinstance(given, Mapping) else dict(enumerate(given))
        if len(named) != len(self._parameters):
            raise SqlError(
                f"the statement has {len(self._parameters)} parameters, {len(named)} are given"
            )
        try:
            return {
                name: named[name] if type_ is None else _coerced(type_, named[name])
                for name, type_ in self._parameters
            }
        except KeyError as missing:
            raise SqlError(
                f"parameter {missing} has no value",
                cure="give a list for ? and a mapping for :name",
            ) from None

    async def _native(
        self, plan: NativePlan, reader: RowReader, values: Mapping[int | str, Value]
    ) -> AsyncGenerator[list[Row], None]:
        """Rows of our own loops; of DuckDB when they turn out too many for these."""
        try:
            async with aclosing(plan.batches(reader, values)) as batches:
                async for rows in batches:
                    yield rows
        except TooManyRows:
            async with aclosing(
                plan_rows(self._spilling(), reader, values, self._duck)
            ) as rows_of_duck:
                async for rows in rows_of_duck:
                    yield rows

    async def _residual(
        self,
        plan: ResidualPlan,
        reader: RowReader,
        values: Mapping[int | str, Value],
        session: DuckSession,
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Batches of DuckDB, its subqueries answered by our own loops unless they are too large."""
        try:
            async with aclosing(plan.batches(reader, values, session)) as batches:
                async for batch in batches:
                    yield batch
        except TooManyRows:
            async with aclosing(self._spilling().batches(reader, values, session)) as batches:
                async for batch in batches:
                    yield batch

    def _spilling(self) -> ResidualPlan:
        return plan_spilling(self.rewritten.bound, self.catalog, "many rows")


def _output_columns(bound: BoundQuery, plan: Plan) -> tuple[OutputColumn, ...]:
    if not isinstance(plan, NativePlan):
        return bound.columns
    return tuple(
        OutputColumn(column.name, column.type or type_)
        for column, type_ in zip(bound.columns, plan.types, strict=True)
    )


def _comparable(type_: ColumnType | None) -> ColumnType | None:
    return None if type_ is None else unbounded(type_)


def _coerced(type_: ColumnType, value: Any) -> Value:
    """`value` as the type it is compared with; never rounded, for that would change the answer."""
    coerced = type_.coerce(value)
    if isinstance(coerced, Decimal) and coerced != Decimal(str(value)):
        raise TypeMismatch(
            f"a value compared with {type_.sql()} has more than {type_.scale} decimal places",
            cure="round the value",
            type=type_.sql(),
        )
    return coerced


class QueryStream:
    """The rows of one run, read once: by `batches`, `arrow` or `all`. Close it if it is not read
    to its end; closing stops the query.
    """

    def __init__(
        self,
        columns: tuple[OutputColumn, ...],
        source: AsyncGenerator[list[Row], None] | AsyncGenerator[pa.RecordBatch, None],
        session: DuckSession | None,
        deadline: float | None,
        max_rows: int | None,
    ) -> None:
        self.columns = columns
        self._source: AsyncGenerator[Any, None] = source
        self._session = session
        self._deadline = deadline
        self._left = max_rows
        self._max_rows = max_rows
        self._first: Any = None

    async def begin(self) -> None:
        """Run up to the first batch, so that types and errors of the statement are known."""
        self._first = await self._next()
        if self._session is not None:
            self.columns = _typed(self.columns, self._session)

    async def batches(self) -> AsyncGenerator[list[Row], None]:
        """Lists of rows."""
        async with aclosing(self._parts()) as parts:
            async for part in parts:
                yield part if isinstance(part, list) else self._rows(part)

    async def arrow(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Record batches of `schema`."""
        fields = _fields(self.columns)
        async with aclosing(self._parts()) as parts:
            async for part in parts:
                if isinstance(part, list):
                    yield to_record_batch(fields, part)
                elif part.schema.types == self.schema.types:
                    yield part.rename_columns(self.schema.names)
                else:
                    yield to_record_batch(fields, self._rows(part))

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the result."""
        return arrow_schema(_fields(self.columns))

    async def all(self) -> list[Row]:
        """All rows."""
        rows: list[Row] = []
        async for batch in self.batches():
            rows += batch
        return rows

    async def close(self) -> None:
        """Stop and release. Idempotent."""
        await self._source.aclose()
        if self._session is not None:
            self._session.close()

    def _rows(self, batch: pa.RecordBatch) -> list[Row]:
        return from_record_batch(batch, [column.type for column in self.columns])

    async def _parts(self) -> AsyncGenerator[Any, None]:
        try:
            part = self._first if self._first is not None else await self._next()
            self._first = None
            while part is not None:
                yield part
                part = await self._next()
        finally:
            await self.close()

    async def _next(self) -> Any:
        """The next part that has rows; None at the end. Closes the stream when it fails."""
        try:
            async with asyncio.timeout_at(self._deadline):
                part = await anext(self._source, None)
        except TimeoutError:
            await self.close()
            raise _timed_out() from None
        except BaseException:
            await self.close()
            raise
        if part is not None:
            await self._count(len(part) if isinstance(part, list) else part.num_rows)
        return part

    async def _count(self, rows: int) -> None:
        if self._left is None:
            return
        self._left -= rows
        if self._left < 0:
            await self.close()
            raise LimitExceeded(
                f"the result has more than {self._max_rows} rows",
                cure="add LIMIT, or allow more rows",
                max_rows=self._max_rows,
            )


def _typed(columns: tuple[OutputColumn, ...], session: DuckSession) -> tuple[OutputColumn, ...]:
    """DuckDB's types, and its names where binding could not know them all."""
    names = [column.name for column in columns]
    if len(names) != len(session.types):
        names = list(session.names)
    return tuple(map(OutputColumn, names, session.types))


def _fields(columns: Sequence[OutputColumn]) -> list[Column]:
    """Columns for Arrow; a NULL without type is text."""
    return [Column(column.name, column.type or ColumnType(Kind.TEXT)) for column in columns]
