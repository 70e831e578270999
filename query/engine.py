"""The query engine: SQL in, a stream of rows out, read at the snapshot of the given reader.

Preparing a statement parses, binds, rewrites over readable views and plans it. Prepared statements
are cached by text and catalog version. Running a statement resolves its parameters and reads.
`query/execution/loops.py` answers supported queries with native loops; DuckDB answers all others
(`query/duckdb_plan.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from hornbeam_server.query.binding.algebra import StatementKind
from hornbeam_server.query.binding.binder import BoundQuery, OutputColumn, Use, bind
from hornbeam_server.query.binding.parameters import (
    Misfit,
    read,
    readers,
    types_of,
    untyped,
    with_literals,
    with_types,
)
from hornbeam_server.query.dialect.duckdb_types import from_record_batch, with_known_types
from hornbeam_server.query.duckdb.session import DuckSession
from hornbeam_server.query.duckdb_plan import ResidualPlan
from hornbeam_server.query.execution.direct import Attempts, is_direct, rows_directly
from hornbeam_server.query.execution.loops import NativePlan, TooManyRows
from hornbeam_server.query.execution.measures import Measures, begins
from hornbeam_server.query.explain import Explanation, Ran, described, explain
from hornbeam_server.query.optimizer.plain_views import with_merged_views
from hornbeam_server.query.optimizer.rewrite import Rewritten, rewrite
from hornbeam_server.query.parsing.locking import LOCKING
from hornbeam_server.query.planner import Plan, plan_query, plan_spilling
from hornbeam_server.query.sharing import Split, split
from hornbeam_server.query.workers.control import Options
from hornbeam_server.query.workers.places import Preempted
from hornbeam_server.query.workers.pool import PLACES, PROCESSES, Workers, new_threads
from hornbeam_server.query.workers.processes import Worker, fork_worker, timed_out
from hornbeam_server.schema.caches import TextCache
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import HornbeamError, LimitExceeded, SqlError, Unsupported
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.sizes import long_positions, pieces
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.types import (
    ColumnType,
    Kind,
    Row,
    Value,
    as_text,
    enumeration_of,
)
from hornbeam_server.storage.codec.arrow import arrow_schema, to_record_batch
from hornbeam_server.storage.direct import DirectSnapshot
from hornbeam_server.storage.ports import BATCH_BYTES
from hornbeam_server.storage.snapshot import RowReader

T = TypeVar("T")
_Shown = frozenset[str] | None
"""The names that the system catalog shows; None: all."""
_Key = tuple[str, int, _Shown, bool, bool, bool, frozenset[str]]
_Typed = tuple["PreparedQuery", tuple[ColumnType | None, ...]]
_Shape = tuple[Catalog, tuple[int, ...] | str]
"""The places of literals that become parameters, under a catalog; before they are known, a text
that shares no plan."""
_KINDS = {
    "integer": {Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL},
    "decimal": {Kind.DECIMAL},
    "text": {
        *(Kind.TEXT, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.UUID),
        Kind.ENUM,
    },
    "date": {Kind.DATE},
    "timestamp": {Kind.TIMESTAMP},
}
"""The types to which literals become parameters, by the kind of the literal."""
PREPARED = 1_024
"""Maximum number of cached prepared statements."""
SHORT = 2_000
"""Maximum length in characters of SQL that is parsed on the event loop: 25 joined relations take
about 50 ms, most statements 2 ms."""


class QueryEngine:
    """Prepares statements and owns the workers that run DuckDB. One per process; `close` it.

    `options` limit a worker's resources. `places` limits the statements that run at the same time,
    `processes` the statements that have started and not ended.
    """

    def __init__(
        self,
        options: Options = Options(),  # noqa: B008  # frozen
        *,
        places: int = PLACES,
        processes: int = PROCESSES,
        new_worker: Callable[[Options], Awaitable[Worker]] = fork_worker,
        new_threads: Callable[[int], Executor] = new_threads,
        prepared: int = PREPARED,
    ) -> None:
        new_pool = partial(Workers, new_worker=new_worker, new_threads=new_threads)
        self.workers = new_pool(options, places=places, processes=processes)
        self.checking = new_pool(options, places=1, processes=1)
        """A separate pool for verifications, which have no time limit and cannot restart. One runs
        at a time and takes no place of a query."""
        # A separate pool: a transaction that holds locks must not wait for queries.
        alone = replace(options, threads=1, spill_folder=None)
        self._expressions = new_pool(alone, places=places, processes=processes)
        self._prepared: TextCache[_Key, PreparedQuery] = TextCache(prepared)
        self._shapes: TextCache[tuple[str, int, _Shown, bool, bool], _Shape] = TextCache(prepared)
        self.typed_plans: TextCache[_Typed, PreparedQuery] = TextCache(prepared)
        """The plans for types of parameters; a query that no native code runs is its own plan."""
        self._new_threads = new_threads
        self._reading: Executor | None = None

    def prepare(
        self,
        sql: str,
        catalog: Catalog,
        *,
        use_views: bool = True,
        columnar: bool = False,
        traced: bool = False,
        stale: frozenset[str] = frozenset(),
    ) -> PreparedQuery:
        """Plan a SELECT. Raises SqlError, UnknownName, Unsupported.

        `columnar`: optimise the plan for reading by `QueryStream.arrow`. Reading rows still works
        but may be slower. `traced`: the rows that are read will be validated. Groups of immediate
        views cannot be, so no aggregate is answered from them. `stale`: deferred views that may
        answer aggregates although the statement does not name them.
        """
        key = (sql, *_under(catalog), use_views, columnar, traced, stale)
        found = self._cached(key, catalog)
        if found is None:
            bound = bind(sql, catalog)
            found = self.prepare_bound(
                bound, catalog, use_views=use_views, columnar=columnar, traced=traced, stale=stale
            )
            self._prepared.put(key, len(sql), found)
        return found

    def shared(
        self, sql: str, catalog: Catalog, *, use_views: bool = True, traced: bool = False
    ) -> tuple[PreparedQuery, Sequence[Value]] | None:
        """A plan that `sql` shares with texts that differ from it in literals, and the values of
        these literals as its parameters. None if there is no such plan. The first text of a shape
        with aggregates or subqueries has a plan of its own."""
        found = split(sql) if len(sql) <= SHORT else None
        if found is None:
            return None
        key = (found.shape, *_under(catalog), use_views, traced)
        known = self._shapes.get(key)
        if known is None or known[0] is not catalog:
            # One text of a complex shape would be planned twice, and often there is no other.
            known = catalog, "" if found.compared_simply() else sql
            self._shapes.put(key, len(sql), known)
        places = known[1]
        if places == sql:
            return None
        if isinstance(places, str):
            places = self._places(found, catalog, use_views=use_views, traced=traced)
            self._shapes.put(key, len(sql), (catalog, places))
        if not places:
            return None
        text, values = found.taking(places)
        return self.prepare(text, catalog, use_views=use_views, traced=traced), values

    def _places(
        self, found: Split, catalog: Catalog, *, use_views: bool, traced: bool
    ) -> tuple[int, ...]:
        """The places of the literals of a shape that become parameters."""
        places = found.compared()
        while places:
            try:
                text = found.taking(places)[0]
                prepared = self.prepare(text, catalog, use_views=use_views, traced=traced)
            except HornbeamError:
                return ()
            if prepared.deferred or _has_partial_index(prepared.sources, catalog):
                return ()
            kept = prepared.taken([found.kinds[place] for place in places])
            if _is_added_up(prepared.sources, catalog):
                simple = set(found.compared_simply())
                kept = [i for i in kept if places[i] in simple]
            if len(kept) == len(places):
                return places
            places = tuple(places[i] for i in kept)
        return ()

    def known(
        self, sql: str, catalog: Catalog, *, use_views: bool = True, traced: bool = False
    ) -> PreparedQuery | None:
        """The plan of a SELECT, if it is cached."""
        key = (sql, *_under(catalog), use_views, False, traced, frozenset[str]())
        return self._cached(key, catalog)

    def _cached(self, key: _Key, catalog: Catalog) -> PreparedQuery | None:
        found = self._prepared.get(key)
        return found if found is not None and found.catalog is catalog else None

    def prepare_bound(
        self,
        bound: BoundQuery,
        catalog: Catalog,
        *,
        use_views: bool = True,
        columnar: bool = False,
        traced: bool = False,
        stale: frozenset[str] = frozenset(),
    ) -> PreparedQuery:
        """Plan a bound SELECT, such as a part of another statement. The plan is not cached. Each
        `bound` can be planned only once."""
        merged, rewritten = bound, Rewritten(bound)
        try:
            _require_query(bound)
            merged = with_merged_views(bound, catalog)
            rewritten = Rewritten(merged)
            if use_views:
                rewritten = rewrite(merged, catalog, grouped=not traced, stale=stale)
            plan = plan_query(rewritten.bound, catalog, columnar=columnar)
        finally:
            unlink(bound.ast)
            unlink(merged.ast)
            unlink(rewritten.bound.ast)
        again = partial(
            self.prepare_bound,
            catalog=catalog,
            use_views=use_views,
            columnar=columnar,
            traced=traced,
            stale=stale,
        )
        return PreparedQuery(self, bound, catalog, rewritten, plan, again)

    async def read(
        self, characters: int, work: Callable[[], T], deadline: float | None = None
    ) -> T:
        """The result of `work`, which parses SQL of `characters` length. Long SQL is parsed in a
        thread, one text at a time. Raises StatementTimeout at `deadline` (a time of the event
        loop's clock); the thread still runs to its end."""
        if characters <= SHORT:
            return work()
        if self._reading is None:
            self._reading = self._new_threads(1)
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.wrap_future(self._reading.submit(work))
        except TimeoutError:
            raise timed_out() from None

    async def evaluate(self, work: Callable[[], T]) -> T:
        """The result of `work`, which evaluates a write's expressions in DuckDB. `work` must have
        no side effects, because it may be called again."""
        async with DuckSession(self._expressions) as session:
            return await session.evaluate(work)

    def close(self) -> None:
        """End all workers. Idempotent."""
        self._prepared.clear()
        self._shapes.clear()
        self.typed_plans.clear()
        if self._reading is not None:
            self._reading.shutdown(cancel_futures=True)
            self._reading = None
        self._expressions.close()
        self.checking.close()
        self.workers.close()


def _under(catalog: Catalog) -> tuple[int, _Shown]:
    """What distinguishes plans under different catalogs: the version, and the names that the system
    catalog shows."""
    return catalog.version, None if catalog.part is None else catalog.part.names


def _belongs(kind: str, use: Use) -> bool:
    """Does a literal of the kind belong to the type of a use? Only LIMIT and OFFSET cast one."""
    if use.cast:
        return kind == "integer"
    return use.type is not None and use.type.kind in _KINDS[kind]


def _is_added_up(sources: Iterable[str], catalog: Catalog) -> bool:
    """Is there a declared view over one of the relations? A literal may decide whether it answers
    an aggregate."""
    read = {name for source in sources for name in (catalog.relations_of(source) or (source,))}
    return any(not read.isdisjoint(view.relations) for view in catalog.declared_view.values())


def _has_partial_index(relations: Iterable[str], catalog: Catalog) -> bool:
    """Is there an index that only some literals make readable?"""
    return any(index.where for name in relations for index in catalog.indexes_on(name))


class PreparedQuery:
    """A planned query. It may run any number of times, also concurrently."""

    def __init__(
        self,
        engine: QueryEngine,
        bound: BoundQuery,
        catalog: Catalog,
        rewritten: Rewritten,
        plan: Plan,
        again: Callable[[BoundQuery], PreparedQuery],
    ) -> None:
        """`again` plans the same statement with literals instead of parameters."""
        self.sql = bound.statement.sql
        self.catalog = catalog
        self.rewritten = rewritten
        self.plan = plan
        self.columns = _output_columns(rewritten.bound, plan)
        self.served_by = tuple(dict.fromkeys(access.layout.name for access in plan.accesses))
        """Names of the relations, views and indexes that the plan reads."""
        self.sources = frozenset(catalog.layout(name).source for name in self.served_by)
        """Names of the relations and views that the plan reads, directly or through indexes."""
        self.deferred = tuple(name for name in self.served_by if name in catalog.deferred_view)
        """Names of the deferred views that the plan reads."""
        self.locking = bool(bound.ast.meta.get(LOCKING))
        """Has the statement FOR UPDATE or the like?"""
        self.engine = engine
        self._workers = engine.workers
        self._bound = bound
        self._again = again
        self._readers = readers(bound, _coerced)
        short = len(self.sql) <= SHORT
        by_types = short and isinstance(plan, ResidualPlan) and plan.by_types
        self._untyped = untyped(bound) if by_types else ()
        """The parameters whose types are those of their values, if the plan depends on them."""
        self.direct = (
            isinstance(plan, NativePlan)
            and is_direct(plan)
            and not self.deferred
            and self.sources.isdisjoint(catalog.immediate_view)
        )
        """May the query be run by `run_directly`?"""
        self.live = plan.all_live if isinstance(plan, ResidualPlan) else frozenset[str]()
        """Names of the live system relations that the plan reads."""
        self._attempts = Attempts()

    def taken(self, kinds: Sequence[str]) -> list[int]:
        """The parameters whose values may be literals of these kinds: each is compared with one
        known type, to which the literal belongs."""
        return [
            number
            for number, kind in enumerate(kinds)
            if len(uses := self._bound.uses.get(number, ())) == 1 and _belongs(kind, uses[0])
        ]

    def typed(self, parameters: Sequence[Any] | Mapping[str, Any]) -> PreparedQuery:
        """The plan for the types of these values, as far as native code runs it; else this one."""
        types = types_of(self._bound, self._untyped, parameters) if self._untyped else None
        if types is None:
            return self
        key, known = (self, types), self.engine.typed_plans
        found = known.get(key)
        if found is None:
            found = self._native_for(types) or self
            known.put(key, len(self.sql), found)
        return found

    def _native_for(self, types: Sequence[ColumnType | None]) -> PreparedQuery | None:
        """The native plan for `types` of the untyped parameters, over the same sources. None if
        there is none, or PostgreSQL would refuse these types."""
        try:
            pairs = dict(zip(self._untyped, types, strict=True))
            query = self._again(with_types(self._bound, pairs, self.catalog))
        except SqlError:
            return None
        if not isinstance(query.plan, NativePlan) or {*query.served_by} != {*self.served_by}:
            return None
        return self._named_like(query)

    def _named_like(self, query: PreparedQuery) -> PreparedQuery:
        """`query`, another plan of this statement, with this one's names of columns."""
        if len(query.columns) == len(self.columns):
            pairs = zip(self.columns, query.columns, strict=True)
            query.columns = tuple(OutputColumn(mine.name, its.type) for mine, its in pairs)
        return query

    def takes(self, values: Sequence[Value]) -> bool:
        """Do the values fit their parameters? Raises SqlError, TypeMismatch."""
        try:
            self._values(values)
        except Misfit:
            return False
        return True

    def run_directly(
        self, reader: DirectSnapshot, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> list[Row] | None:
        """All rows of a query that is `direct`, read without suspension. None if they are or were
        lately too many, or a parameter needs another plan: `run` answers then. Raises the errors of
        `run`."""
        assert isinstance(self.plan, NativePlan)
        if not self._attempts.begin():
            return None
        try:
            values = self._values(parameters)
        except Misfit:
            return None
        rows = rows_directly(self.plan, reader, values)
        self._attempts.end(short=rows is not None)
        return rows

    async def run(
        self,
        reader: RowReader,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        deadline: float | None = None,
        max_rows: int | None = None,
        live: Mapping[str, pa.Table] | None = None,
    ) -> QueryStream:
        """Start the query. `deadline` is a time of the event loop's clock in seconds; `live` has
        the live system relations by name.

        Raises SqlError for missing or surplus parameters, TypeMismatch for values that do not
        fit. The stream raises StatementTimeout after the deadline, LimitExceeded beyond
        `max_rows`.
        """
        options: Any = {"deadline": deadline, "max_rows": max_rows, "live": live}
        try:
            values = self._values(parameters)
        except Misfit:
            work = partial(self._with_literals, parameters)
            query, left = await self.engine.read(len(self.sql), work, deadline)
            return await query.run(reader, left, **options)
        if (typed := self.typed(parameters)) is not self:
            return await typed.run(reader, parameters, **options)
        begins(reader, self, self.plan)
        if isinstance(self.plan, NativePlan):
            if self.plan.columns is not None:
                columns = self.plan.record_batches(reader, values)
                return QueryStream(self.columns, columns, None, deadline, max_rows)
            rows = self._native(self.plan, reader, values)
            return QueryStream(self.columns, rows, None, deadline, max_rows)
        session = DuckSession(self._workers, live=live or {})
        batches = self._residual(self.plan, reader, values, session)
        stream = QueryStream(self.columns, batches, session, deadline, max_rows)
        await stream.begin()
        return stream

    def explain(
        self,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        notes: Sequence[str] = (),
    ) -> Explanation:
        """The description of the plan, with further `notes`. `parameters` are checked if given."""
        if parameters is not None:
            try:
                self._values(parameters)
            except Misfit:
                query, _ = self._with_literals(parameters)
                return query.explain(notes=notes)
        found = explain(self.sql, self.catalog, self.rewritten, self.plan, notes)
        return replace(found, **described(self.columns, self._bound))

    def explain_run(self, measures: Measures, rows: int, ms: float) -> Explanation:
        """The description of a run of this query, which gave `rows` in `ms` milliseconds."""
        plan = measures.plan
        found = explain(self.sql, self.catalog, self.rewritten, plan, measures=measures)
        ran = Ran(rows, ms, measures.seconds * 1000)
        return replace(found, **described(self.columns, self._bound), ran=ran)

    @property
    def answered_by(self) -> tuple[str, ...]:
        """Names of the aggregate views that answer blocks of the statement without being named."""
        found = (use.view for use in self.rewritten.uses if use.view not in self.catalog.view)
        return tuple(dict.fromkeys(found))

    def _values(self, given: Sequence[Any] | Mapping[str, Any]) -> dict[int | str, Value]:
        """Parameter values by number or name, converted to the types of their comparisons. Raises
        SqlError for missing or surplus parameters, Misfit for values that need literals."""
        named: Mapping[Any, Any] = given if isinstance(given, Mapping) else dict(enumerate(given))
        if len(named) != len(self._readers):
            raise SqlError(
                f"The statement has {len(self._readers)} parameters, {len(named)} are given.",
                cure="Give one value for each parameter.",
            )
        try:
            return read(self._readers, named)
        except KeyError as missing:
            raise SqlError(
                f"Parameter {missing} has no value.",
                cure="Give a list for ? and a mapping for :name.",
            ) from None

    def _with_literals(
        self, given: Sequence[Any] | Mapping[str, Any]
    ) -> tuple[PreparedQuery, dict[Any, Any]]:
        """The query with literals for the values that raise Misfit, and the remaining
        parameters."""
        named: Mapping[Any, Any] = given if isinstance(given, Mapping) else dict(enumerate(given))
        bound, left = with_literals(self._bound, self._readers, named, self.catalog)
        return self._named_like(self._again(bound)), left

    async def _native(
        self, plan: NativePlan, reader: RowReader, values: Mapping[int | str, Value]
    ) -> AsyncGenerator[list[Row], None]:
        """Rows from the native plan, or from DuckDB if the native plan raises TooManyRows."""
        try:
            async with aclosing(plan.batches(reader, values)) as batches:
                async for rows in batches:
                    yield rows
            return
        except TooManyRows:
            pass  # DuckDB runs after the except block, which frees the rows that the error holds
        async with DuckSession(self._workers) as session:
            wide = self._spilling()
            begins(reader, self, wide)
            spilling = self._residual(wide, reader, values, session)
            async with aclosing(spilling) as batches_of_duck:
                async for batch in batches_of_duck:
                    yield session.rows(batch, wide.types)

    async def _residual(
        self,
        plan: ResidualPlan,
        reader: RowReader,
        values: Mapping[int | str, Value],
        session: DuckSession,
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Batches from DuckDB. Native loops answer its subqueries; when one has too many rows, the
        statement restarts and spills them to DuckDB. It also restarts after Preempted."""
        while True:
            try:
                async with aclosing(plan.batches(reader, values, session)) as batches:
                    async for batch in batches:
                        yield batch
                return
            except TooManyRows:
                plan = self._spilling()
                begins(reader, self, plan)
            except Preempted:
                session.begin_again()

    def _spilling(self) -> ResidualPlan:
        return plan_spilling(self.rewritten.bound, self.catalog, "many rows")


def _require_query(bound: BoundQuery) -> None:
    kind = bound.statement.kind
    if kind is not StatementKind.SELECT:
        raise Unsupported(f"{kind.value.upper()} is not a query.", cure="Send it as a transaction.")


def _output_columns(bound: BoundQuery, plan: Plan) -> tuple[OutputColumn, ...]:
    if not isinstance(plan, NativePlan):
        return bound.columns
    return tuple(
        OutputColumn(column.name, column.type or type_, system=column.system)
        for column, type_ in zip(bound.columns, plan.types, strict=True)
    )


def _coerced(type_: ColumnType, value: Any) -> Value:
    """`value` as an operand for a column of `type_`; neither rounded nor truncated."""
    return type_.comparand(value)


class QueryStream:
    """The rows of one run, to read once by `batches`, `arrow` or `all`. The caller closes a stream
    that it does not read to the end; closing stops the query.
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
        self.returned = 0
        """The rows that were returned so far."""

    async def begin(self) -> None:
        """Run until the first batch, so that the result's types and errors are known."""
        self._first = await self._next()
        if self._session is not None:
            self.columns = _typed(self.columns, self._session)

    async def batches(self) -> AsyncGenerator[list[Row], None]:
        """Yield the rows in lists."""
        async with aclosing(self._parts()) as parts:
            async for part in parts:
                yield part if isinstance(part, list) else self._rows(part)

    async def arrow(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows as record batches of `schema`."""
        fields, schema = _fields(self.columns), self.schema
        types, names = schema.types, schema.names
        long = long_positions(column.type for column in self.columns)
        labelled = any(enumeration_of(column.type) is not None for column in self.columns)
        async with aclosing(self._parts()) as parts:
            async for part in parts:
                if isinstance(part, list):
                    for rows in pieces(part, long, BATCH_BYTES):
                        yield to_record_batch(fields, rows)
                elif part.schema.types == types and not labelled:
                    yield part.rename_columns(names)
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
        """Stop the query and release its worker. Idempotent."""
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
        """The next non-empty list or batch; None at the end. Closes the stream on errors."""
        try:
            async with asyncio.timeout_at(self._deadline):
                part = await anext(self._source, None)
        except TimeoutError:
            await self.close()
            raise timed_out() from None
        except BaseException:
            await self.close()
            raise
        if part is not None:
            rows = len(part) if isinstance(part, list) else part.num_rows
            self.returned += rows
            await self._count(rows)
        return part

    async def _count(self, rows: int) -> None:
        if self._left is None:
            return
        self._left -= rows
        if self._left < 0:
            await self.close()
            raise LimitExceeded(
                f"The result has more than {self._max_rows} rows.",
                cure="Add LIMIT, or allow more rows.",
                max_rows=self._max_rows,
            )


def _typed(columns: tuple[OutputColumn, ...], session: DuckSession) -> tuple[OutputColumn, ...]:
    """The columns with DuckDB's types, and with its names if binding did not know all columns."""
    types = with_known_types(session.types, [column.type for column in columns])
    if len(columns) != len(session.types):
        return tuple(map(OutputColumn, session.names, types))
    return tuple(
        OutputColumn(column.name, type_, system=column.system)
        for column, type_ in zip(columns, types, strict=True)
    )


def _fields(columns: Sequence[OutputColumn]) -> list[Column]:
    """The columns for Arrow's schema; a NULL without a type becomes text, and so does a label."""
    return [
        Column(column.name, as_text(column.type or ColumnType(Kind.TEXT))) for column in columns
    ]
