"""Catalogs with aggregate views, their rows in memory, and the same tables in DuckDB."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from hornbeam_server.maintain.deltas.program import outline
from hornbeam_server.maintain.immediate.definition import define
from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.engine import PreparedQuery, QueryEngine
from hornbeam_server.schema.catalog import Catalog, Forest, State
from hornbeam_server.schema.model import DeclaredView, KeyPart, Refresh, Schema
from hornbeam_server.schema.types import ColumnType, Row
from hornbeam_server.schema.views import DeferredView, ImmediateView
from hornbeam_server.storage.codec.arrow import to_record_batch
from tests.duckdb_oracle import connect
from tests.query.query_world import Data, MemoryReader, ask


def catalog_with(
    schema: Schema, views: dict[str, str], *, building: Iterable[str] = (), version: int = 1
) -> Catalog:
    """A catalog with immediate views, by name and SELECT; all but `building` are readable. Raises
    Unsupported."""
    catalog = Catalog(version, schema, Forest(schema.names))
    immediate = tuple(
        define(DeclaredView(name, sql, refresh=Refresh.IMMEDIATE), catalog).view
        for name, sql in views.items()
    )
    states = tuple((name, State.BUILDING if name in building else State.READABLE) for name in views)
    return Catalog(version, schema, Forest(schema.names), states=states, immediate=immediate)


def catalog_with_deferred(schema: Schema, views: dict[str, str], *, version: int = 1) -> Catalog:
    """A catalog with deferred views, by name and SELECT. Their rows have no hidden columns: the key
    is the columns that begin with "g", which are the groups. Raises Unsupported."""
    catalog = Catalog(version, schema, Forest(schema.names))
    deferred = []
    for name, sql in views.items():
        found = outline(DeclaredView(name, sql), catalog)
        key = [column.name for column in found.columns if column.name.startswith("g")]
        parts = tuple(KeyPart(name) for name in key or [found.columns[0].name])
        deferred.append(replace(found, key=parts))
    states = tuple((name, State.READABLE) for name in views)
    return Catalog(version, schema, Forest(schema.names), states=states, deferred=tuple(deferred))


@dataclass(frozen=True)
class Answered:
    """The result of a query: its rows, and its types."""

    rows: list[Row]
    types: list[ColumnType | None]


class ViewReader(MemoryReader):
    """A reader over relations and views in memory."""

    def __init__(self, catalog: Catalog, data: Data, part: int | None = None) -> None:
        self.part = part
        self.catalog = catalog
        self.batch = 3
        self.reads: list[tuple[str, str, int]] = []
        self.data = {
            name: sorted(rows, key=functools.partial(self._key, catalog.layout(name)))
            for name, rows in data.items()
        }


def with_views(catalog: Catalog, data: Data, connection: duckdb.DuckDBPyConnection) -> Data:
    """`data` with the rows of all views, which DuckDB computes from the relations."""
    for relation in catalog.schema.relations:
        batch = to_record_batch(relation.columns, data.get(relation.name, []))
        connection.register("incoming", batch)
        connection.execute(f'CREATE OR REPLACE TABLE "{relation.name}" AS SELECT * FROM incoming')
        connection.unregister("incoming")
    found = {relation.name: data.get(relation.name, []) for relation in catalog.schema.relations}
    for view in catalog.immediate:
        rows = _rows(view, define(view.declared, catalog).sql, connection)
        found[view.name] = rows if view.grouped else [(*row, 1) for row in rows]
    for declared in catalog.deferred:
        found[declared.name] = _rows(
            declared, duckdb_sql(bind(declared.declared.sql, catalog).ast), connection
        )
    return found


def _rows(
    view: ImmediateView | DeferredView, sql: str, connection: duckdb.DuckDBPyConnection
) -> list[Row]:
    """The rows of a view's SELECT, in the types of its columns."""
    assert not view.hidden or (isinstance(view, ImmediateView) and not view.grouped), (
        "select every group"
    )
    columns = ", ".join(f'"c{i}" {c.type.sql()}' for i, c in enumerate(view.columns))
    connection.execute(f"CREATE OR REPLACE TEMP TABLE shown ({columns})")
    connection.execute(f"INSERT INTO shown {sql}")
    return ask(connection, "SELECT * FROM shown")


class World:
    """One catalog with rows. `ask` runs a query by the engine, `oracle` by DuckDB alone."""

    def __init__(
        self,
        engine: QueryEngine,
        catalog: Catalog,
        data: Data,
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> None:
        self.engine = engine
        self.catalog = catalog
        self.connection = connection or connect()
        self.data = with_views(catalog, data, self.connection)

    def prepared(self, sql: str, *, use_views: bool = True) -> PreparedQuery:
        stale = frozenset(self.catalog.deferred_view) if use_views else frozenset[str]()
        return self.engine.prepare(sql, self.catalog, use_views=use_views, stale=stale)

    def ask(self, sql: str, parameters: Sequence[Any] = (), *, use_views: bool = True) -> Answered:
        async def run() -> Answered:
            reader = ViewReader(self.catalog, self.data)
            query = self.prepared(sql, use_views=use_views)
            stream = await query.run(reader, parameters)
            rows = await stream.all()
            return Answered(rows, [_bare(column.type) for column in stream.columns])

        return asyncio.run(run())

    def oracle(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return ask(self.connection, sql, parameters)


def _bare(type_: ColumnType | None) -> ColumnType | None:
    """A type without the length of texts, which DuckDB does not keep."""
    return None if type_ is None else replace(type_, length=None)
