"""Phoenix over HBase, as three systems.

* *Phoenix plain*: base tables and covered indexes, each statement in auto-commit.
* *Baseline*: the same in Omid's transactions, one per statement. It is Synergy's Baseline, whose
  oracle was Tephra; Phoenix has since dropped Tephra.
* *MVCC-A*: our views and their indexes as tables and indexes of Phoenix. The application maintains
  them in Omid's transactions (`phoenix_views`), and rewrites its reads over them: by hand in
  Synergy, by our rewriter here.

The systems follow Phoenix's manual. Indexes are global, and cover all columns that the workload's
joins read of a table that they look up by the index, in addition to our indexes' columns. A client
caches a table's metadata for a while (`jdbc`). Joins look up by key (`phoenix_sql`). Indexes are
created and statistics gathered after loading. All else has its default. Tables are not salted,
since there is one region server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cached_property, partial
from typing import Any

from bench.peers import phoenix_sql as sql
from bench.peers import phoenix_views as views
from bench.peers.jdbc import Connection, file_sizes, start_java
from bench.peers.phoenix_cluster import PHOENIX_VERSIONS, PhoenixCluster
from bench.peers.phoenix_sql import PhoenixStatement
from bench.peers.port import Row, Task, Write
from hornbeam_server.schema.catalog import Catalog, Index
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.views import JoinView

BATCH = 500
"""Rows per transaction while loading."""
_AT_ONCE = 4
"""Number of tables that are created or flushed concurrently: HBase takes a second for each."""


class Phoenix:
    """The relations, indexes and views of `catalog` in a new Phoenix schema, `schema`. Raises
    Unavailable, Cannot."""

    def __init__(
        self,
        name: str,
        cluster: PhoenixCluster,
        catalog: Catalog,
        schema: str,
        *,
        transactional: bool,
    ) -> None:
        self.name = name
        self.versions = PHOENIX_VERSIONS
        self._zookeeper = cluster.cluster.zookeeper
        self._catalog = catalog
        self._schema = schema
        self._transactional = transactional
        start_java(cluster)
        self._each([[definition] for definition in self._definitions()])

    def load(self, relation: str, rows: Iterable[Row]) -> None:
        columns = self._catalog.schema.relation(relation).column_names
        with closing(self._connection()) as db:
            db.insert(sql.upsert(f"{self._schema}.{relation}", columns), rows, BATCH)

    def loaded(self) -> None:
        """Fill views, create indexes, gather statistics, and flush all tables to files."""
        for view in self._catalog.views:
            self._fill(view)
        columns = self._columns
        self._each([self._index_definitions(name, *of_it) for name, of_it in columns.items()])
        self._each([[f"UPDATE STATISTICS {self._schema}.{name}"] for name in columns])
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._flush, self._stored))

    def _fill(self, view: JoinView) -> None:
        """Fill a view with one statement. In a transactional system that would be one transaction,
        so many transactions fill the view there."""
        query = views.filled(view, self._catalog, self._schema).sql
        table, names = f"{self._schema}.{view.name}", [column.name for column in view.columns]
        if not self._transactional:
            self._each([[f"UPSERT INTO {table} ({', '.join(names)}) {query}"]])
            return
        with closing(self._connection()) as reader, closing(self._connection()) as writer:
            writer.insert(sql.upsert(table, names), reader.read(query), BATCH)

    def session(self, *, use_views: bool = True) -> _Session:
        return _Session(self._connection(), partial(self._translated, use_views=use_views))

    def sizes(self) -> Mapping[str, int]:
        """The bytes of the tables' files in HDFS."""
        found = file_sizes(self._stored)
        prefix = len(self._schema) + 1
        return {name[prefix:].lower(): size for name, size in found.items()}

    def close(self) -> None:
        """Do nothing: the tables end with the cluster."""

    def _flush(self, table: str) -> None:
        with closing(self._connection()) as db:
            db.flush([table])

    def _connection(self) -> Connection:
        return Connection(self._zookeeper, autocommit=not self._transactional)

    def _translated(self, task: Task, *, use_views: bool) -> tuple[PhoenixStatement, ...]:
        """The translated statement, and the statements that maintain the views."""
        statement = sql.translated(task.sql, self._catalog, self._schema, use_views=use_views)
        if task.reads:
            return (statement,)
        return statement, *views.maintenance(task.sql, self._catalog, self._schema)

    @cached_property
    def _columns(self) -> Mapping[str, tuple[Sequence[Column], Sequence[str]]]:
        """The columns and the key of each table."""
        catalog = self._catalog
        relations = {r.name: (r.columns, r.primary_key) for r in catalog.schema.relations}
        of_views = {
            view.name: (views.view_columns(view, catalog), views.view_key(view, catalog))
            for view in catalog.views
        }
        return relations | of_views

    @cached_property
    def _indexes(self) -> list[Index]:
        return [*self._catalog.indexes, *views.maintenance_indexes(self._catalog)]

    @cached_property
    def _stored(self) -> list[str]:
        """The names of the tables of HBase."""
        names = [*self._columns, *(index.name for index in self._indexes)]
        return [f"{self._schema}.{name}".upper() for name in names]

    def _definitions(self) -> Iterable[str]:
        """The definitions of the tables."""
        for name, (columns, key) in self._columns.items():
            table = f"{self._schema}.{name}"
            yield sql.create_table(table, columns, key, transactional=self._transactional)

    def _index_definitions(
        self, name: str, columns: Sequence[Column], key: Sequence[str]
    ) -> list[str]:
        """The definitions of a table's indexes."""
        order = [column.name for column in columns]
        return [
            sql.create_index(
                index,
                f"{self._schema}.{name}",
                key,
                sorted(self._read_by_joins(index), key=order.index),
            )
            for index in self._indexes
            if index.on == name
        ]

    def _read_by_joins(self, index: Index) -> Iterable[str]:
        return self._joined_by.get((index.on, index.columns[0].column), ())

    @cached_property
    def _joined_by(self) -> Mapping[tuple[str, str], Collection[str]]:
        return sql.joined_by(self._catalog)

    def _each(self, works: Sequence[Sequence[str]]) -> None:
        """Run lists of definitions concurrently. The statements of a list run in order."""

        def work(statements: Sequence[str]) -> None:
            with closing(self._connection()) as db:
                for statement in statements:
                    db.define(statement)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(work, works))


class _Session:
    def __init__(
        self, db: Connection, translate: Callable[[Task], tuple[PhoenixStatement, ...]]
    ) -> None:
        self._db = db
        self._translate = translate
        self._translated: dict[str, tuple[PhoenixStatement, ...]] = {}

    def run(self, task: Task, values: Sequence[Any]) -> list[Row]:
        return self._db.transact(self._statements(task, values))

    def drain(self, task: Task) -> int:
        ((statement, _),) = self._statements(task, ())
        return self._db.count(statement.sql)

    def transact(self, writes: Sequence[Write]) -> None:
        self._db.transact([each for write in writes for each in self._statements(*write)])

    def _statements(
        self, task: Task, values: Sequence[Any]
    ) -> list[tuple[PhoenixStatement, Sequence[Any]]]:
        if task.name not in self._translated:
            self._translated[task.name] = self._translate(task)
        return [(each, values) for each in self._translated[task.name]]

    def close(self) -> None:
        self._db.close()
