"""A database in dictionaries under deferred views. It checks every read and write strictly, and
compares the views with DuckDB's answers over the base rows after every step."""

import asyncio
from collections import Counter
from dataclasses import replace
from types import MappingProxyType
from zlib import crc32

import pyarrow as pa

from hornbeam_server.maintain.changes import Change
from hornbeam_server.maintain.deltas.batches import SegmentBytes
from hornbeam_server.maintain.deltas.clock import CLOCK, ticked
from hornbeam_server.maintain.deltas.executors import run, run_inputs
from hornbeam_server.maintain.deltas.program import compile_view, refresh
from hornbeam_server.maintain.deltas.relations import schema_of, stored_fields, weighted
from hornbeam_server.maintain.deltas.stages import input_schema
from hornbeam_server.maintain.deltas.zsets import ZSet
from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.dialect.duckdb_types import (
    column_type,
    from_record_batch,
    with_known_types,
)
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.schema.catalog import Catalog, Forest, Index, Layout, State
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.model import DeclaredView
from hornbeam_server.storage.codec.arrow import to_record_batch
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.log.following import final_segment
from hornbeam_server.storage.snapshot import RowVersion
from tests.duckdb_oracle import without_tables

PARTS = 3
DUCKDB, LOOPS, MIXED = -1, 1 << 60, 2
"""Numbers of rows up to which an input is worked off row by row: never, always, now and then."""


def catalog_of(ddl):
    """Return a catalog in which all declared indexes are READABLE."""
    schema = load_ddl(ddl)
    indexes = tuple(Index(i.name, i.relation, i.columns, i.include) for i in schema.indexes)
    states = tuple((index.name, State.READABLE) for index in indexes)
    return Catalog(1, schema, Forest(()), indexes=indexes, states=states)


class Rows:
    """A `RowReader` over rows of layouts by encoded key. `whole`: layouts may be read whole."""

    def __init__(self, catalog, layouts, *, whole=False):
        self.catalog = catalog
        self.whole = whole
        self.codecs = {layout.name: LayoutCodec(layout) for layout in layouts}
        self.rows = {name: {} for name in self.codecs}
        self.reads = Counter()
        self.found = Counter()
        """The number of rows that reads have found, by layout."""

    async def get(self, layout, keys):
        self.reads["get", layout] += len(keys)
        assert keys, "a read of nothing"
        codec = self.codecs[layout]
        encoded = [codec.key_of(key) for key in keys]
        assert len(set(encoded)) == len(encoded), "a key read twice in one get"
        found = [self.rows[layout].get(key) for key in encoded]
        self.found[layout] += sum(row is not None for row in found)
        return [
            None if row is None else RowVersion(key, 1, row)
            for key, row in zip(encoded, found, strict=True)
        ]

    async def prefixes(self, layout, prefixes):
        self.reads["prefixes", layout] += len(prefixes)
        assert prefixes, "a read of nothing"
        encoded = [self.codecs[layout].prefix(prefix) for prefix in prefixes]
        assert all(encoded), "a scan of everything"
        assert len(set(encoded)) == len(encoded), "a prefix read twice"
        found = [self._between(layout, start) for start in encoded]
        self.found[layout] += sum(map(len, found))
        return [[RowVersion(key, 1, row) for key, row in rows] for rows in found]

    async def scan(self, layout, key_range=KeyRange(), *, reverse=False, limit=None):
        self.reads["scan", layout] += 1
        bounds = (key_range.low, key_range.high, limit)
        assert self.whole or bounds != (None, None, None), "a scan of everything"
        start, end = self.codecs[layout].range(key_range)
        stored = sorted(self.rows[layout].items())
        rows = [row for key, row in stored if start <= key and (end is None or key < end)]
        rows = (rows[::-1] if reverse else rows)[:limit]
        self.found[layout] += len(rows)
        for i in range(0, len(rows), 2):
            yield rows[i : i + 2]

    def _between(self, layout, start):
        return [(k, row) for k, row in sorted(self.rows[layout].items()) if k.startswith(start)]

    def apply(self, mutations):
        written = [(m.layout, m.key) for m in mutations]
        assert len(set(written)) == len(written), "a stored row is written twice"
        for m in mutations:
            assert repr(m.old) != repr(m.new), "a mutation that changes nothing"
            row = m.old if m.new is None else m.new
            assert m.key == self.codecs[m.layout].key(row)
            stored = self.rows[m.layout].get(m.key)
            assert repr(stored) == repr(m.old), f"{m.layout}: {stored} is stored, not {m.old}"
            if m.new is None:
                del self.rows[m.layout][m.key]
            else:
                self.rows[m.layout][m.key] = m.new


def view_layouts(program):
    yield Layout(program.name, "", (*program.columns, *program.hidden), program.key, program.name)
    for state in program.states:
        name = f"{program.name}.{state.name}"
        yield Layout(name, "", state.columns, state.key, name)


class World:
    """Base rows, their indexes, and the views of `sqls` by name. `partials` has the partial
    aggregates that a view keeps, by its name."""

    def __init__(self, catalog, sqls, partials=MappingProxyType({})):
        declared = tuple(DeclaredView(name, sql) for name, sql in sqls.items())
        catalog = replace(catalog, schema=replace(catalog.schema, views=declared))
        self.catalog = catalog
        self.sqls = sqls
        self.programs = {
            view.name: compile_view(view, catalog, partials=partials.get(view.name, ()))
            for view in declared
        }
        self.relations = {r.name: r for r in catalog.schema.relations}
        base = [catalog.layout(name) for name in [*self.relations, *catalog.index]]
        own = [layout for p in self.programs.values() for layout in view_layouts(p)]
        self.views = [layout.name for layout in own]
        self.layouts = [*base, *own]
        self.whole = any(program.whole for program in self.programs.values())
        self.store = Rows(catalog, self.layouts, whole=self.whole)
        self.commits = 0
        self.now = 0
        """The snapshot of the next batch, in milliseconds."""
        self.shown_at = None
        self.build()

    def build(self, *, parts=True):
        """Build the views for the first time, with all base rows as changes."""
        everything = {
            name: [Change(name, None, row) for row in self.store.rows[name].values()]
            for name in self.relations
        }
        nothing = Rows(self.catalog, self.layouts, whole=self.whole)
        self.shown_at = None
        self.store.apply(self.mutations(everything, nothing, parts=parts))
        self.shown_at = self.now

    def mutations(self, changes, old, *, parts=True):
        tick = {CLOCK: ticked(self.shown_at, self.now)}
        zsets = {n: self.zset(n, c) for n, c in changes.items() if c} | tick
        found = []
        for program in self.programs.values():
            mutations = self.by_both(program, zsets, old)
            if parts:
                passing = {n: self.passing(n, c) for n, c in changes.items() if c} | tick
                few = (LOOPS, DUCKDB, MIXED)[self.commits // 2 % 3]
                again = asyncio.run(in_parts(program, passing, old, few))
                assert by_key(mutations) == by_key(again), "parts and the whole differ"
            found += mutations
        return found

    def by_both(self, program, zsets, old):
        """Run a program by both executors; the reads count once."""
        earlier, found = old.reads, []
        for few in (DUCKDB, LOOPS):
            old.reads = Counter()
            mutations = asyncio.run(refresh(program, zsets, old, few))
            found.append((by_key(mutations), old.reads))
        assert found[0] == found[1], "the executors differ"
        old.reads = earlier + old.reads
        return mutations

    def zset(self, relation, changes):
        return ZSet.of_changes(self.relations[relation].columns, changes)

    def passing(self, relation, changes):
        """Add an insert and a delete of the same row to the changes, as a log may contain them."""
        ghost = changes[0].new or changes[0].old
        more = [Change(relation, None, ghost), Change(relation, ghost, None)]
        return self.zset(relation, [*changes, *more])

    def commit(self, *writes):
        """Run one batch: (relation, row) puts a row, (relation, key, None) deletes one."""
        before, after = {}, {}
        for relation, row, *deleted in writes:
            codec = self.store.codecs[relation]
            key = codec.key_of(row) if deleted else codec.key(row)
            before[relation, key] = self.store.rows[relation].get(key)
            after[relation, key] = None if deleted else row
        changes = {}
        for (relation, key), new in after.items():
            change = Change(relation, before[relation, key], new)
            if repr(change.old) != repr(change.new):  # equal intervals may have other parts
                changes.setdefault(relation, []).append(change)
        self.commits += 1
        mutations = self.mutations(changes, self.store, parts=self.commits % 2 == 1)
        for relation, found in changes.items():
            for change in found:
                self._write(relation, change)
        self.store.apply(mutations)
        self.shown_at = self.now

    def _write(self, relation, change):
        """Write a change of a base row and of its index entries."""
        for layout in [relation, *(i.name for i in self.catalog.indexes_on(relation))]:
            names = self.catalog.layout(layout).column_names
            positions = [self.relations[relation].positions[name] for name in names]
            codec, rows = self.store.codecs[layout], self.store.rows[layout]
            for row, there in ((change.old, False), (change.new, True)):
                if row is not None:
                    entry = tuple(row[i] for i in positions)
                    rows[codec.key(entry)] = entry
                    if not there:
                        del rows[codec.key(entry)]

    # Checks

    def check(self):
        """Assert that the incremental rows equal DuckDB's answers."""
        answers = self.answers()
        for name, program in self.programs.items():
            types, rows = answers[name]
            assert [c.type for c in program.columns] == types, name
            width = len(program.columns)
            stored = [row[:width] for row in self.store.rows[name].values()]
            assert shown(stored) == shown(rows), f"{name}: {self.sqls[name]}"

    def check_anew(self):
        """Assert that the incremental rows and states equal those of a new build."""
        rebuilt = World.__new__(World)
        rebuilt.__dict__ |= self.__dict__
        rebuilt.store = Rows(self.catalog, self.layouts, whole=self.whole)
        for name in [*self.relations, *self.catalog.index]:
            rebuilt.store.rows[name] = self.store.rows[name]
        rebuilt.build(parts=False)
        for name in self.views:
            assert shown(self.store.rows[name].values()) == shown(rebuilt.store.rows[name].values())

    def answers(self, over_views=False):
        """Answer each view's SELECT over the base rows, or as declared over the views' rows."""
        found = {}
        with without_tables() as database:
            self._fill(database, over_views)
            for name, program in self.programs.items():
                asked = program.sql_at(self.now)
                sql = duckdb_sql(parse(self.sqls[name])) if over_views else asked
                answer = database.sql(sql)
                types = [column_type(type_) for type_ in answer.types]
                types = with_known_types(types, [column.type for column in program.columns])
                batches = answer.to_arrow_table().to_batches()
                found[name] = types, [r for b in batches for r in from_record_batch(b, types)]
        return found

    def _fill(self, database, over_views):
        """Create the relations, with `over_views` also the views, as tables with their rows."""
        tables = {name: relation.visible for name, relation in self.relations.items()}
        if over_views:
            tables |= {name: program.columns for name, program in self.programs.items()}
        for name, columns in tables.items():
            typed = ", ".join(f'"{f.name}" {f.duck}' for f in stored_fields(columns))
            hidden = (
                len(self.relations[name].columns) - len(columns) if name in self.relations else 0
            )
            shown_columns = slice(hidden, hidden + len(columns))  # a row identity comes first
            stored = [row[shown_columns] for row in self.store.rows[name].values()]
            database.execute(f'CREATE TABLE "{name}" ({typed})')
            database.register("given", to_record_batch(columns, stored))
            database.execute(f'INSERT INTO "{name}" SELECT * FROM given')


def shown(rows):
    """Return rows as a multiset of texts with types and scales; -0.0 becomes 0.0."""
    return Counter(repr(tuple(v + 0.0 if isinstance(v, float) else v for v in row)) for row in rows)


def by_key(mutations):
    return {(m.layout, m.key): repr((m.old, m.new)) for m in mutations}


async def in_parts(program, changes, old, few):
    """Run the program as executors do: inputs and stages in parts, and the first part twice."""
    zsets = dict(changes)
    mutations = []
    for number, stage in enumerate(program.stages):
        projected = [run_inputs(stage, part, few).table for part in parts_of_sources(zsets)]
        table = pa.concat_tables([input_schema(stage).empty_table(), *projected])
        parts = [ZSet(stage.columns, table=part) for part in split(table, stage.partition_by)]
        first = await run(stage, parts[0], old, few)
        results = [await run(stage, part, old, few) for part in parts]
        assert by_key(first.mutations) == by_key(results[0].mutations), "a second run differs"
        tables = [result.changed.table for result in results]
        assert shown(rows_of(first.changed.table)) == shown(rows_of(tables[0]))
        mutations += [m for result in results for m in result.mutations]
        assert all(table.schema == schema_of(weighted(stage.output)) for table in tables)
        zsets[number] = ZSet(stage.output, table=pa.concat_tables(tables))
    return mutations


def parts_of_sources(zsets):
    """Split the changes of each source into two halves, row by row."""
    for half in (0, 1):
        yield {
            name: ZSet(zset.fields, table=taken(zset.table, range(half, len(zset), 2)))
            for name, zset in zsets.items()
        }


def taken(table, rows):
    return table.take(pa.array(rows, pa.int64()))


def rows_of(table):
    return [tuple(row.values()) for row in table.to_pylist()]


def split(table, columns):
    """Split a table; rows with equal `columns` stay together."""
    if not columns:
        return [table]
    keys = table.select(list(columns)).to_pylist()
    place = [crc32(repr(sorted(key.items())).encode()) % PARTS for key in keys]
    return [taken(table, [i for i, p in enumerate(place) if p == n]) for n in range(PARTS)]


async def segment_bytes(logs, segments):
    """The contents of closed segments, as a small batch reads them."""
    return [
        SegmentBytes(
            await final_segment(logs, each.log, each.epoch, each.sequence, each.bytes),
            each.epoch,
            each.sequence,
        )
        for each in segments
    ]
