"""Verification: views and indexes are computed again at one snapshot, independently, and compared.

The independent computation is DuckDB's: the base relations of the snapshot are tables, and a view
is its SQL join. No code of `maintain/` takes part. Rows are compared in both directions, as bags;
foreign keys and CHECKs are checked too. Stored rows are read with their keys, so a row under a
wrong key counts as damage.

Repair runs in transactions: each damaged row is locked by its root, computed again, and written
like any other change (`RepairRows`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa

from hornbeam_server.query.dialect.duckdb_types import from_record_batch, quoted
from hornbeam_server.query.duckdb.session import DuckSession
from hornbeam_server.query.optimizer.partial_indexes import condition_sql, value_sql
from hornbeam_server.query.workers.pool import Workers
from hornbeam_server.schema.catalog import Catalog, Layout
from hornbeam_server.schema.errors import NotFound
from hornbeam_server.schema.model import Check, Column, ForeignKey, Relation
from hornbeam_server.schema.sqltext import shown
from hornbeam_server.schema.types import Row
from hornbeam_server.schema.views import JoinView
from hornbeam_server.storage.batches import bytes_of_values
from hornbeam_server.storage.codec.arrow import arrow_schema, to_record_batch
from hornbeam_server.storage.codec.folds import Fold
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.folded import FoldedReads
from hornbeam_server.storage.ports import TableStore

BATCH_ROWS, BATCH_BYTES = 8_192, 4 << 20
"""A batch of stored rows ends when it reaches either limit."""
SAMPLE_ROWS = 20
"""Maximum number of differing rows that a report shows for a view or index. All of them are counted
and repaired."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result for one view, index, foreign key or CHECK. `rows` were checked. `missing` rows
    should be stored and are not; `extra` rows are stored and should not be; under `different` keys
    another row is stored; `misplaced` rows are stored under a key that is not their own. For a
    foreign key, `missing` is the number of rows without a parent. For a CHECK, `extra` is the
    number of rows that do not meet it, and `offending` names some of them by primary key."""

    name: str
    kind: str
    rows: int
    missing: int = 0
    extra: int = 0
    different: int = 0
    misplaced: int = 0
    repaired: int = 0
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    """Encoded keys of all damaged rows of a view or index."""
    sample: tuple[Row, ...] = ()
    offending: tuple[str, ...] = ()

    @property
    def differences(self) -> int:
        return self.missing + self.extra + self.different + self.misplaced


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The results of all checks at `snapshot`. `differences` are those found there, also those that
    are repaired afterwards."""

    snapshot: int
    checked: tuple[Checked, ...]

    @property
    def differences(self) -> int:
        return sum(item.differences for item in self.checked)


Progress = Callable[[str, int, int], None]
"""Called with a name, the number of finished checks, and the number of all checks."""


async def verify(
    catalog: Catalog,
    codecs: Codecs,
    store: TableStore,
    at: int,
    workers: Workers,
    *,
    names: Sequence[str] | None = None,
    queries: Mapping[str, str] = MappingProxyType({}),
    progress: Progress = lambda _name, _done, _total: None,
) -> VerifyReport:
    """Check the views and indexes `names` at snapshot `at`. Default: all readable views and
    indexes, and all foreign keys and CHECKs. `queries`: the SQL queries of the immediate views, by
    name.

    Raises NotFound for a name that is no readable view or index.
    """
    targets = _targets(catalog, names)
    relations = catalog.schema.relations if names is None else ()
    foreign_keys = [(r, fk) for r in relations for fk in r.foreign_keys]
    conditions = [(r, each) for r in relations for each in r.checks]
    check = _Check(catalog, codecs, store, at, workers)
    total = len(targets) + len(foreign_keys) + len(conditions)
    checked: list[Checked] = []
    try:
        for done, name in enumerate(targets):
            progress(name, done, total)
            source = catalog.layout(name).source
            if name in catalog.transactional_view or source in catalog.immediate_view:
                kind = "index" if name in catalog.index else "immediate view"
                checked.append(await check.declared(name, queries[source], kind))
            else:
                checked.append(await check.stored(name))
        for done, (relation, fk) in enumerate(foreign_keys, start=len(targets)):
            progress(fk.name, done, total)
            checked.append(await check.foreign_key(relation, fk))
        for done, (relation, each) in enumerate(conditions, start=total - len(conditions)):
            progress(each.name, done, total)
            checked.append(await check.condition(relation, each))
    finally:
        check.close()
    progress("", total, total)
    return VerifyReport(at, tuple(checked))


async def verify_deferred(
    catalog: Catalog,
    codecs: Codecs,
    store: TableStore,
    at: int,
    queries: Mapping[str, str],
    workers: Workers,
    *,
    progress: Progress = lambda _name, _done, _total: None,
) -> list[Checked]:
    """Check deferred views whose rows are as of snapshot `at`. `queries`: the SQL query by name
    whose result each view has there."""
    check = _Check(catalog, codecs, store, at, workers)
    checked: list[Checked] = []
    try:
        for done, (name, query) in enumerate(queries.items()):
            progress(name, done, len(queries))
            checked.append(await check.declared(name, query, "deferred view"))
    finally:
        check.close()
    return checked


def _targets(catalog: Catalog, names: Sequence[str] | None) -> list[str]:
    kept = (*catalog.view, *catalog.transactional_view, *catalog.index)
    known = [name for name in kept if catalog.readable(name)]
    for name in names or ():
        if name not in known:
            raise NotFound(
                f"There is no readable view or index {name}.",
                cure=f"There are: {', '.join(known) or 'none'}.",
            )
    return list(names) if names is not None else known


class _Check:
    """The checks at one snapshot, in a DuckDB session. Relations are loaded when needed, once."""

    def __init__(
        self,
        catalog: Catalog,
        codecs: Codecs,
        store: TableStore,
        at: int,
        workers: Workers,
    ) -> None:
        self._catalog, self._codecs, self._store, self._at = catalog, codecs, store, at
        self._duck = DuckSession(workers, restartable=False)
        self._loaded: set[str] = set()
        self._misplaced: dict[str, dict[bytes, bytes]] = {}
        """The right key of each misplaced row, by layout and stored key."""

    def close(self) -> None:
        self._duck.close()

    async def stored(self, name: str) -> Checked:
        layout = self._catalog.layout(name)
        source = layout.source
        view = self._catalog.view.get(source)
        for relation in view.path if view is not None else (source,):
            await self._load(relation)
        await self._load(name)
        expected = self._expected(layout)
        found = await self._compare(layout, view, expected)
        await self._forget(name)
        return found

    def _expected(self, layout: Layout) -> str:
        """The SELECT of the rows that a view or an index should have."""
        index, source = self._catalog.index.get(layout.name), layout.source
        definition = _definition(self._catalog, source)
        if index is None or index.is_whole:
            return f"SELECT {_listed(layout.columns)} FROM ({definition})"
        relation = self._catalog.schema.relation(source)
        values = {each.column: value_sql(each.sql, relation) for each in index.expressions}
        names = layout.column_names
        outputs = ", ".join(f"{values.get(n) or quoted(n)} AS {quoted(n)}" for n in names)
        condition = condition_sql(index.where, relation) if index.where else "TRUE"
        return f"SELECT {outputs} FROM ({definition}) AS {quoted(source)} WHERE {condition}"

    async def declared(self, name: str, query: str, kind: str) -> Checked:
        """Compare the visible rows of a declared view as a bag: equal rows differ only in a stored
        column that is not visible."""
        source = self._catalog.layout(name).source
        for relation in self._catalog.declared_view[source].relations:
            await self._load(relation)
            await self._duck.run(
                f"CREATE OR REPLACE TEMP VIEW {quoted(relation)} AS"
                f" SELECT {_listed(self._catalog.visible(relation))} FROM {_table(relation)}"
            )
        await self._load(name)
        visible = _listed(self._compared(name))
        found = await self._compare_bags(name, visible, query, kind)
        await self._forget(name)
        return found

    def _compared(self, name: str) -> tuple[Column, ...]:
        """The columns to compare of a declared view, or of an index on it: those that queries can
        read, or the terms of those that are computed from them."""
        source = self._catalog.layout(name).source
        view = self._catalog.immediate_view.get(source)
        computed = None if view is None else view.computed
        return self._catalog.visible(source) if computed is None else computed.terms

    async def _compare_bags(self, name: str, visible: str, query: str, kind: str) -> Checked:
        stored = f"SELECT {visible} FROM {_table(name)}"
        # The table has the types of the stored rows, so the query's result is cast to them.
        await self._duck.run(
            f"CREATE TEMP TABLE expected AS {stored} LIMIT 0;"
            f"INSERT INTO expected SELECT * FROM ({query})"
        )
        expected = "SELECT * FROM expected"
        missing = await self._count(f"SELECT count(*) FROM ({expected} EXCEPT ALL {stored})")
        extra = await self._count(f"SELECT count(*) FROM ({stored} EXCEPT ALL {expected})")
        rows = await self._count(f"SELECT count(*) FROM {_table(name)}")
        await self._duck.run("DROP TABLE expected")
        misplaced = len(self._misplaced.pop(name, {}))
        return Checked(name, kind, rows, missing, extra, misplaced=misplaced)

    async def foreign_key(self, relation: Relation, fk: ForeignKey) -> Checked:
        await self._load(relation.name)
        await self._load(fk.parent)
        on = _equal("c", fk.columns, "p", fk.parent_columns)
        present = " AND ".join(f"c.{quoted(column)} IS NOT NULL" for column in fk.columns)
        orphans = (
            f"SELECT count(*) FROM {_table(relation.name)} c"
            f" WHERE {present} AND NOT EXISTS (SELECT 1 FROM {_table(fk.parent)} p WHERE {on})"
        )
        rows = await self._count(f"SELECT count(*) FROM {_table(relation.name)}")
        missing = await self._count(orphans)
        return Checked(f"{relation.name}.{fk.name}", "foreign key", rows, missing=missing)

    async def condition(self, relation: Relation, check: Check) -> Checked:
        """Evaluate a CHECK over all rows. NOT NULL needs no check: without the value a row is not
        decoded."""
        await self._load(relation.name)
        key = [relation.column(name) for name in relation.primary_key]
        rows_of = f"{_table(relation.name)} AS {quoted(relation.name)}"
        broken = f"{rows_of} WHERE NOT ({condition_sql(check.sql, relation)})"
        sample = f"SELECT {_listed(key)} FROM {broken} ORDER BY ALL LIMIT {SAMPLE_ROWS}"
        offending: list[str] = []
        async with aclosing(self._duck.query(sample, {})) as batches:
            async for batch in batches:
                rows = from_record_batch(batch, [column.type for column in key])
                offending += [shown(relation.primary_key, row) for row in rows]
        return Checked(
            f"{relation.name}.{check.name}",
            "CHECK",
            await self._count(f"SELECT count(*) FROM {_table(relation.name)}"),
            extra=await self._count(f"SELECT count(*) FROM {broken}"),
            offending=tuple(offending),
        )

    async def _compare(self, layout: Layout, view: JoinView | None, expected: str) -> Checked:
        stored = f"SELECT * FROM {_table(layout.name)}"
        key = [part.column for part in layout.key]
        await self._duck.run(
            f"CREATE TEMP TABLE missing AS ({expected}) EXCEPT ALL ({stored});"
            f"CREATE TEMP TABLE extra AS ({stored}) EXCEPT ALL ({expected})"
        )
        both = " AND ".join(f"m.{quoted(c)} IS NOT DISTINCT FROM e.{quoted(c)}" for c in key)
        different = await self._count(f"SELECT count(*) FROM missing m JOIN extra e ON {both}")
        missing = await self._count("SELECT count(*) FROM missing") - different
        extra = await self._count("SELECT count(*) FROM extra") - different
        damaged, sample = await self._damaged(layout)
        misplaced = self._misplaced.pop(layout.name, {})
        result = Checked(
            layout.name,
            "view" if view is not None and layout.name == view.name else "index",
            await self._count(f"SELECT count(*) FROM {_table(layout.name)}"),
            missing,
            extra,
            different,
            len(misplaced),
            keys=tuple(dict.fromkeys([*damaged, *misplaced, *misplaced.values()])),
            sample=sample,
        )
        await self._duck.run("DROP TABLE missing; DROP TABLE extra")
        return result

    async def _damaged(self, layout: Layout) -> tuple[list[bytes], tuple[Row, ...]]:
        """The keys of all missing, extra and different rows, and a sample of these rows."""
        key, types = self._codecs(layout.name).key, [column.type for column in layout.columns]
        keys: list[bytes] = []
        sample: tuple[Row, ...] = ()
        sql = "SELECT * FROM missing UNION SELECT * FROM extra"
        async with aclosing(self._duck.query(sql, {})) as batches:
            async for batch in batches:
                rows = from_record_batch(batch, types)
                keys += map(key, rows)
                sample = (*sample, *rows)[:SAMPLE_ROWS]
        return keys, sample

    async def _count(self, sql: str) -> int:
        async with aclosing(self._duck.query(sql, {})) as batches:
            async for batch in batches:
                return int(batch[0][0].as_py())
        raise AssertionError("count(*) has a row")

    async def _forget(self, name: str) -> None:
        self._loaded.discard(name)
        await self._duck.run(f"DROP TABLE {_table(name)}")

    async def _load(self, name: str) -> None:
        """Load the stored rows of a relation, view or index into a DuckDB table, once."""
        if name in self._loaded:
            return
        codec, layout = self._codecs(name), self._catalog.layout(name)
        table = _loaded(name)
        if layout.source in self._catalog.immediate_view:
            await self._load_groups(name)
            self._loaded.add(name)
            return
        whole = range(len(layout.columns))
        await self._duck.append(table, arrow_schema(layout.columns).empty_table(), first=True)
        async for batch in self._batches(name):
            keys, values = zip(*batch, strict=True)
            records, own = codec.many.with_keys(values, whole)
            for key, right in zip(keys, own, strict=True):
                if key != right:
                    self._misplaced.setdefault(name, {})[key] = right
            await self._duck.append(table, pa.Table.from_batches([records]), first=False)
        self._loaded.add(name)

    async def _load_groups(self, name: str) -> None:
        """Load the groups of an immediate view, or of an index on it, before anything is computed
        from them."""
        view = self._catalog.immediate_view[self._catalog.layout(name).source]
        fold = Fold(view, index=name if name in self._catalog.index else None)
        table = _loaded(name)
        await self._duck.append(table, arrow_schema(fold.columns).empty_table(), first=True)
        reads = FoldedReads(self._store, self._codecs, fold, self._at, None)
        async for groups in reads.scan(KeyRange(), reverse=False, limit=None):
            rows = to_record_batch(fold.columns, [group.row for group in groups])
            await self._duck.append(table, pa.Table.from_batches([rows]), first=False)

    async def _batches(self, name: str) -> AsyncIterator[list[tuple[bytes, bytes]]]:
        table = self._catalog.layout(name).table
        buffer: list[tuple[bytes, bytes]] = []
        size = 0
        async for cells in self._store.scan(table, b"", None, self._at):
            buffer += [(cell.key, cell.value) for cell in cells]
            size += bytes_of_values(cells)
            if len(buffer) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield buffer
                buffer, size = [], 0
        if buffer:
            yield buffer


def _definition(catalog: Catalog, name: str) -> str:
    """The SQL query over loaded base tables that defines relation or view `name`."""
    view = catalog.view.get(name)
    if view is None:
        return f"SELECT * FROM {_table(name)}"
    outputs = ", ".join(
        f"{quoted(c.relation)}.{quoted(c.column)} AS {quoted(c.name)}" for c in view.columns
    )
    sql = f"SELECT {outputs} FROM {_table(view.path[0])} AS {quoted(view.path[0])}"
    for relation, edge in zip(view.path[1:], view.edges, strict=True):
        on = _equal(quoted(relation), edge.columns, quoted(edge.parent), edge.parent_columns)
        sql += f" JOIN {_table(relation)} AS {quoted(relation)} ON {on}"
    return sql


def _listed(columns: Iterable[Column]) -> str:
    return ", ".join(quoted(column.name) for column in columns)


def _equal(left: str, left_columns: Iterable[str], right: str, right_columns: Iterable[str]) -> str:
    pairs = zip(left_columns, right_columns, strict=True)
    return " AND ".join(f"{left}.{quoted(a)} = {right}.{quoted(b)}" for a, b in pairs)


def _loaded(name: str) -> str:
    return "stored " + name


def _table(name: str) -> str:
    return quoted(_loaded(name))
