"""Catalogs for binder and rewrite tests, and the same tables in DuckDB, the oracle."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import duckdb

from hornbeam_server.schema.catalog import Catalog, Forest, Index, State
from hornbeam_server.schema.model import Column, ForeignKey, Relation, Schema
from hornbeam_server.schema.types import ColumnType, Kind, Row
from hornbeam_server.schema.views import JoinView, ViewColumn

FIXTURES = Path(__file__).parent / "fixtures"
_KINDS = {"VARCHAR": Kind.TEXT, "BLOB": Kind.BYTES, "TIMESTAMP WITH TIME ZONE": Kind.TIMESTAMPTZ}


def reflected(ddl: str) -> Schema:
    """Run a script of CREATE TABLEs in DuckDB; return the schema that it reports."""
    with duckdb.connect() as connection:
        connection.execute(ddl)
        columns = connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns()"
            " WHERE NOT internal ORDER BY table_oid, column_index"
        ).fetchall()
        constraints = connection.execute(
            "SELECT table_name, constraint_type, constraint_column_names, referenced_table,"
            " referenced_column_names FROM duckdb_constraints() ORDER BY constraint_index"
        ).fetchall()
    names = dict.fromkeys(table for table, *_ in columns)
    return Schema(tuple(_relation(name, columns, constraints) for name in names))


def _relation(name, columns, constraints) -> Relation:
    own = [row[1:] for row in constraints if row[0] == name]
    key = next(tuple(names) for kind, names, *_ in own if kind == "PRIMARY KEY")
    return Relation(
        name,
        tuple(
            Column(column, _type(type_), nullable and column not in key)
            for table, column, type_, nullable in columns
            if table == name
        ),
        key,
        tuple(
            ForeignKey(f"{'_'.join(names)}_fkey", tuple(names), parent, tuple(referenced))
            for kind, names, parent, referenced in own
            if kind == "FOREIGN KEY"
        ),
    )


def _type(text: str) -> ColumnType:
    decimal = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", text)
    if decimal:
        return ColumnType(Kind.DECIMAL, int(decimal[1]), int(decimal[2]))
    return ColumnType(_KINDS.get(text) or Kind(text.lower()))


def statements(text: str) -> Iterator[tuple[str, str]]:
    """Yield (name, SQL) of a script whose statements follow `-- name:` comments."""
    for part in re.split(r"(?m)^-- name: ", text)[1:]:
        name, _, sql = part.partition("\n")
        yield name.strip(), sql.split(";\n")[0].rstrip().rstrip(";")


def view(schema: Schema, *path: str, using: Mapping[str, str] | None = None) -> JoinView:
    """Return the join view along `path`; `using` names the foreign key of a child with several."""
    edges = tuple(
        next(
            key
            for key in schema.relation(child).foreign_keys
            if key.parent == parent and key.name == (using or {}).get(child, key.name)
        )
        for parent, child in pairwise(path)
    )
    names = [
        (relation, column) for relation in path for column in schema.relation(relation).column_names
    ]
    every = [column for _, column in names]
    columns = tuple(ViewColumn(c if every.count(c) == 1 else f"{r}_{c}", r, c) for r, c in names)
    return JoinView("__".join(path), path, edges, columns)


def catalog(
    schema: Schema,
    views: Iterable[JoinView] = (),
    *,
    indexes: Iterable[Index] = (),
    building: Iterable[str] = (),
) -> Catalog:
    """Return a catalog in which all but `building` is readable; its trees have the views' edges."""
    views, indexes, building = tuple(views), tuple(indexes), set(building)
    parents: dict[str, ForeignKey] = {}
    for one in views:
        parents |= dict(zip(one.path[1:], one.edges, strict=True))
    roots = tuple(name for name in schema.names if name not in parents)
    states = tuple(
        (thing.name, State.BUILDING if thing.name in building else State.READABLE)
        for thing in (*views, *indexes)
    )
    return Catalog(1, schema, Forest(roots, tuple(parents.items())), views, indexes, states)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def oracle(catalog: Catalog, data: Mapping[str, list[Row]]) -> duckdb.DuckDBPyConnection:
    """DuckDB with base tables that hold `data`, and the views as tables from plain joins."""
    connection = duckdb.connect()
    for relation in catalog.schema.relations:
        columns = ", ".join(f"{quoted(c.name)} {c.type.sql()}" for c in relation.columns)
        connection.execute(f"CREATE TABLE {quoted(relation.name)} ({columns})")
        rows = data.get(relation.name, [])
        if rows:
            marks = ", ".join("?" * len(relation.columns))
            connection.executemany(f"INSERT INTO {quoted(relation.name)} VALUES ({marks})", rows)
    for one in catalog.views:
        connection.execute(f"CREATE TABLE {quoted(one.name)} AS {view_query(one)}")
    return connection


def view_query(view: JoinView) -> str:
    columns = ", ".join(
        f"{quoted(c.relation)}.{quoted(c.column)} AS {quoted(c.name)}" for c in view.columns
    )
    conditions = [
        f"{quoted(child)}.{quoted(column)} = {quoted(edge.parent)}.{quoted(referenced)}"
        for child, edge in zip(view.path[1:], view.edges, strict=True)
        for column, referenced in zip(edge.columns, edge.parent_columns, strict=True)
    ]
    tables = ", ".join(quoted(name) for name in view.path)
    return f"SELECT {columns} FROM {tables} WHERE {' AND '.join(conditions)}"
