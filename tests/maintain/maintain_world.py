"""A database in dictionaries for maintenance tests, which checks every read and write strictly."""

import asyncio
from collections import Counter
from itertools import pairwise

import duckdb

from hornbeam_server.maintain.changes import Change
from hornbeam_server.maintain.programs import compile_programs
from hornbeam_server.maintain.recompute import recompute
from hornbeam_server.query.dialect.definitions import Definitions
from hornbeam_server.query.dialect.duckdb_types import MEANING
from hornbeam_server.schema.catalog import Catalog, Forest, Index, State
from hornbeam_server.schema.model import Column, ForeignKey, KeyPart, Relation, Schema
from hornbeam_server.schema.types import ColumnType, Kind
from hornbeam_server.schema.views import JoinView, ViewColumn
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.snapshot import RowVersion

INTEGER = ColumnType(Kind.INTEGER)
EVERYTHING = KeyRange()


def relation(name, columns, key, *foreign_keys):
    """Return a relation of integers; a foreign key is (columns, parent, parent columns)."""
    return Relation(
        name,
        tuple(Column(c, INTEGER, c not in key.split()) for c in columns.split()),
        tuple(key.split()),
        tuple(
            ForeignKey(f"{name}_{columns.replace(' ', '_')}", tuple(columns.split()), parent,
                       tuple(parent_columns.split()))
            for columns, parent, parent_columns in foreign_keys
        ),
    )  # fmt: skip


def view(schema, *path, edges=None):
    edges = edges or tuple(
        next(fk for fk in schema.relation(child).foreign_keys if fk.parent == parent)
        for parent, child in pairwise(path)
    )
    columns = tuple(
        ViewColumn(f"{name}_{c}", name, c) for name in path for c in schema.relation(name).positions
    )
    return JoinView("-".join(path), path, edges, columns)


def index(on, columns, include=()):
    parts = tuple(KeyPart(c.lstrip("-"), c.startswith("-")) for c in columns.split())
    return Index(f"{on}.{columns.replace(' ', '_')}", on, parts, tuple(include))


def catalog(schema, views=(), indexes=(), states=None):
    """Return a catalog; all views and indexes are READABLE unless `states` gives another state."""
    names = [thing.name for thing in (*views, *indexes)]
    states = dict.fromkeys(names, State.READABLE) | (states or {})
    return Catalog(1, schema, Forest(()), tuple(views), tuple(indexes), tuple(states.items()))


class World:
    """Base rows, views and indexes by key; commits through the maintenance programs.

    Views and indexes that are not READABLE also hold their rows, as after the build, but a read of
    them fails the test.
    """

    def __init__(self, catalog: Catalog):
        self.catalog = catalog
        self.codecs = Codecs(catalog)
        self.programs = compile_programs(catalog, self.codecs)
        maintained = [*catalog.view, *catalog.index]
        maintained = [name for name in maintained if self.kept(name)]
        self.names = [*catalog.schema.names, *maintained]
        self.rows = {name: {} for name in self.names}
        self.reads = Counter()
        self.duck = duckdb.connect(config=MEANING)
        self._definitions = Definitions()
        for r in catalog.schema.relations:
            columns = ", ".join(f"{c.name} INTEGER" for c in r.columns)
            self.duck.execute(f"CREATE TABLE {r.name} ({columns})")

    def answer(self, sql):
        """DuckDB's answer to a SELECT over the base relations."""
        self._definitions.create_for(sql, self.duck)
        return self.duck.execute(sql).fetchall()

    def kept(self, name):
        source = self.catalog.layout(name).source
        return all(
            self.catalog.maintained(n) for n in {name, source} - {*self.catalog.schema.names}
        )

    # RowReader

    async def get(self, layout, keys):
        self._note("get", layout)
        assert keys, "a read of nothing"
        assert len(set(keys)) == len(keys), "a key read twice in one get"
        assert not any(None in key for key in keys), "NULL references nothing"
        return [self._version(layout, self.rows[layout].get(key)) for key in keys]

    async def prefixes(self, layout, prefixes):
        self._note("prefixes", layout)
        assert prefixes, "a read of nothing"
        n = len(prefixes[0])
        under = {prefix: [] for prefix in prefixes}
        for key, row in self.rows[layout].items():
            if key[:n] in under:
                under[key[:n]].append(self._version(layout, row))
        return [under[prefix] for prefix in prefixes]

    async def scan(self, layout, key_range=EVERYTHING, *, reverse=False, limit=None):
        self._note("scan", layout)
        n = len(key_range.prefix)
        rows = [
            self.rows[layout][key]
            for key in sorted(self.rows[layout])
            if key[:n] == key_range.prefix and (key_range.low is None or key[n] > key_range.low)
        ]
        for i in range(0, len(rows), 2):
            yield rows[i : i + 2]

    def _note(self, kind, layout):
        if layout not in self.catalog.schema:
            for name in {layout, self.catalog.layout(layout).source}:
                assert name in self.catalog.schema or self.catalog.readable(name), f"read {name}"
        self.reads[kind, layout] += 1

    def _version(self, layout, row):
        return None if row is None else RowVersion(self.codecs(layout).key(row), 1, row)

    # Writing

    def key(self, name, row):
        return tuple(row[i] for i in self.catalog.layout(name).key_positions)

    def put(self, name, *rows):
        """Run a transaction that inserts or replaces rows."""
        return self.commit({name: {self.key(name, row): row for row in rows}})

    def commit(self, rows):
        """Run a transaction (relation → key → new row or None); return its mutations."""
        changes = self.changes(rows)
        self.reads.clear()
        mutations = asyncio.run(self.programs.mutations(changes, self))
        self.apply(mutations)
        for change in changes:
            self._write_duck(change)
        return mutations

    def changes(self, rows):
        return [
            Change(name, self.rows[name].get(key), new)
            for name, by_key in rows.items()
            for key, new in by_key.items()
            if self.rows[name].get(key) != new
        ]

    def apply(self, mutations):
        keys = [(m.layout, m.key) for m in mutations]
        assert len(set(keys)) == len(keys), "a stored row is written twice"
        for m in mutations:
            assert m.old != m.new, "a mutation that changes nothing"
            row = m.old if m.new is None else m.new
            assert m.key == self.codecs(m.layout).key(row)
            key = self.key(m.layout, row)
            assert self.rows[m.layout].get(key) == m.old, f"{m.layout}: wrong old row"
            if m.new is None:
                del self.rows[m.layout][key]
            else:
                self.rows[m.layout][key] = m.new

    def _write_duck(self, change):
        r = self.catalog.schema.relation(change.relation)
        row = change.old or change.new
        where = " AND ".join(f"{r.columns[i].name} = {row[i]}" for i in r.key_positions)
        self.duck.execute(f"DELETE FROM {r.name} WHERE {where}")
        if change.new is not None:
            marks = ", ".join("?" for _ in r.columns)
            self.duck.execute(f"INSERT INTO {r.name} VALUES ({marks})", change.new)

    # Checks

    def check(self):
        """Assert that incremental rows, recomputed rows and DuckDB's answers are equal."""
        base = {name: list(self.rows[name].values()) for name in self.catalog.schema.names}
        for name in self.names:
            stored = order(self.rows[name].values())
            assert stored == order(recompute(self.catalog, base, name)), f"{name} is wrong"
            if name not in self.catalog.schema:
                assert stored == order(self.answer(self.sql(name))), name

    def sql(self, name):
        """Return the query over base relations that defines a view or index."""
        layout = self.catalog.layout(name)
        if name in self.catalog.index:
            source = layout.source
            if source in self.catalog.view:
                source = f"({self.sql(source)})"
            columns = ", ".join(layout.column_names)
            return f"SELECT {columns} FROM {source} AS source"
        view = self.catalog.view[name]
        columns = ", ".join(f"{c.relation}.{c.column} AS {c.name}" for c in view.columns)
        joins = [
            f"{child}.{column} = {edge.parent}.{parent_column}"
            for child, edge in zip(view.path[1:], view.edges, strict=True)
            for column, parent_column in zip(edge.columns, edge.parent_columns, strict=True)
        ]
        return f"SELECT {columns} FROM {', '.join(view.path)} WHERE {' AND '.join(joins)}"


def order(rows):
    return sorted(rows, key=lambda row: tuple((v is not None, v or 0) for v in row))


SCHEMA = Schema((
    relation("country", "co v", "co"),
    relation("customer", "c co v", "c", ("co", "country", "co")),
    relation("orders", "o c v", "o", ("c", "customer", "c")),
    relation("line", "o n v", "o n", ("o", "orders", "o")),
))  # fmt: skip
