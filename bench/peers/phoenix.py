"""Phoenix over HBase, three ways.

* *Phoenix plain*: base tables and covered indexes, each statement on its own (auto-commit).
* *Baseline*: the same in Omid's transactions, one for each statement; that of Synergy, where the
  oracle was Tephra, which Phoenix has given up since.
* *MVCC-A*: our views and their indexes as tables and indexes of Phoenix, kept by the application
  in Omid's transactions (`phoenix_views`), and its reads rewritten over them by hand, which our
  rewriting does here.

As Phoenix's manual advises: indexes are global, and cover what the workload's joins want of a table
that they look up by them, besides what ours do; a client goes by what it knows of a table for a
while (`jdbc`); joins look up by key (`phoenix_sql`); indexes are made and statistics gathered when
all is loaded. All else is as it is by default. Tables are not salted: there is one region server.
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
from bench.peers.phoenix_sql import Said
from bench.peers.port import Row, Task, Write
from hornbeam_server.schema.catalog import Catalog, Index, JoinView
from hornbeam_server.schema.model import Column

BATCH = 500
"""Rows in a transaction while loading."""
_AT_ONCE = 4
"""Tables that are made, or flushed: HBase takes a second for each."""


class Phoenix:
    """The relations, indexes and views of `catalog` in the Phoenix schema `schema`, on a cluster
    without them. Raises Unavailable, Cannot."""

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
        """Views filled, indexes made, statistics gathered, and all in files."""
        for view in self._catalog.views:
            self._fill(view)
        columns = self._columns
        self._each([self._index_definitions(name, *of_it) for name, of_it in columns.items()])
        self._each([[f"UPDATE STATISTICS {self._schema}.{name}"] for name in columns])
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._flush, self._stored))

    def _fill(self, view: JoinView) -> None:
        """In one statement, or where that would be one transaction, in several."""
        query = views.filled(view, self._catalog, self._schema).sql
        table, names = f"{self._schema}.{view.name}", [column.name for column in view.columns]
        if not self._transactional:
            self._each([[f"UPSERT INTO {table} ({', '.join(names)}) {query}"]])
            return
        with closing(self._connection()) as reader, closing(self._connection()) as writer:
            writer.insert(sql.upsert(table, names), reader.read(query), BATCH)

    def session(self, *, use_views: bool = True) -> _Session:
        return _Session(self._connection(), partial(self._said, use_views=use_views))

    def sizes(self) -> Mapping[str, int]:
        """Bytes of the tables' files in HDFS."""
        found = file_sizes(self._stored)
        prefix = len(self._schema) + 1
        return {name[prefix:].lower(): size for name, size in found.items()}

    def close(self) -> None:
        """The cluster's end is the tables' end."""

    def _flush(self, table: str) -> None:
        with closing(self._connection()) as db:
            db.flush([table])

    def _connection(self) -> Connection:
        return Connection(self._zookeeper, autocommit=not self._transactional)

    def _said(self, task: Task, *, use_views: bool) -> tuple[Said, ...]:
        """What is run for a statement, in its transaction."""
        of_itself = sql.said(task.sql, self._catalog, self._schema, use_views=use_views)
        if task.reads:
            return (of_itself,)
        return of_itself, *views.upkeep(task.sql, self._catalog, self._schema)

    @cached_property
    def _columns(self) -> Mapping[str, tuple[Sequence[Column], Sequence[str]]]:
        """Of each table, and its key."""
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
        """Tables of HBase."""
        names = [*self._columns, *(index.name for index in self._indexes)]
        return [f"{self._schema}.{name}".upper() for name in names]

    def _definitions(self) -> Iterable[str]:
        """Of the tables."""
        for name, (columns, key) in self._columns.items():
            table = f"{self._schema}.{name}"
            yield sql.create_table(table, columns, key, transactional=self._transactional)

    def _index_definitions(
        self, name: str, columns: Sequence[Column], key: Sequence[str]
    ) -> list[str]:
        """Of a table."""
        order = [column.name for column in columns]
        return [
            sql.create_index(
                index, f"{self._schema}.{name}", key, sorted(self._wanted(index), key=order.index)
            )
            for index in self._indexes
            if index.on == name
        ]

    def _wanted(self, index: Index) -> Iterable[str]:
        return self._joined_by.get((index.on, index.columns[0].column), ())

    @cached_property
    def _joined_by(self) -> Mapping[tuple[str, str], Collection[str]]:
        return sql.joined_by(self._catalog)

    def _each(self, works: Sequence[Sequence[str]]) -> None:
        """Several at once; the statements of each in order."""

        def work(statements: Sequence[str]) -> None:
            with closing(self._connection()) as db:
                for statement in statements:
                    db.define(statement)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(work, works))


class _Session:
    def __init__(self, db: Connection, say: Callable[[Task], tuple[Said, ...]]) -> None:
        self._db = db
        self._say = say
        self._said: dict[str, tuple[Said, ...]] = {}

    def run(self, task: Task, values: Sequence[Any]) -> list[Row]:
        return self._db.transact(self._statements(task, values))

    def drain(self, task: Task) -> int:
        ((said, _),) = self._statements(task, ())
        return self._db.count(said.sql)

    def transact(self, writes: Sequence[Write]) -> None:
        self._db.transact([each for write in writes for each in self._statements(*write)])

    def _statements(self, task: Task, values: Sequence[Any]) -> list[tuple[Said, Sequence[Any]]]:
        if task.name not in self._said:
            self._said[task.name] = self._say(task)
        return [(each, values) for each in self._said[task.name]]

    def close(self) -> None:
        self._db.close()
