"""Compares the two executors of delta programs, for batches of few changes: rows and DuckDB; and
views with partial aggregates with views without them, for a change of a dimension's row.

The time is that of a whole batch in this process, with its reads from the embedded store: what a
node needs to refresh a view, without writing."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from bench.measure import Figure, ratios, where_time_goes
from hornbeam_server.maintain.changes import Change, Mutation
from hornbeam_server.maintain.deltas.catalog_programs import all_readable
from hornbeam_server.maintain.deltas.program import (
    DeltaProgram,
    compile_view,
    refresh,
    stored_program,
)
from hornbeam_server.maintain.deltas.zsets import ZSet
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest, plan_schema
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.ports import Put
from hornbeam_server.storage.snapshot import Snapshot

SCHEMA = """
CREATE TABLE region (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE place (id INTEGER PRIMARY KEY, region INTEGER NOT NULL);
CREATE INDEX place_region ON place (region);
CREATE TABLE measure (id INTEGER PRIMARY KEY, place INTEGER NOT NULL, value DECIMAL(15,2) NOT NULL);
CREATE INDEX measure_place ON measure (place);
CREATE MATERIALIZED VIEW totals WITH (refresh = 'deferred') AS
SELECT place, count(*) AS n, sum(value) AS total FROM measure GROUP BY place;
CREATE MATERIALIZED VIEW by_region WITH (refresh = 'deferred') AS
SELECT region, count(*) AS n, sum(value) AS total FROM measure JOIN place AS p
ON p.id = place
GROUP BY region;
CREATE MATERIALIZED VIEW extremes WITH (refresh = 'deferred') AS
SELECT place, min(value) AS low, max(value) AS high FROM measure GROUP BY place;
"""
BY_NAME = """
CREATE MATERIALIZED VIEW {view} WITH (refresh = 'deferred') AS
SELECT r.name, count(*) AS n, sum(value) AS total
FROM measure JOIN place AS p ON p.id = place JOIN region AS r ON r.id = p.region
GROUP BY r.name;
"""
NAMED = {"with a partial aggregate": "eager", "without": "plain"}
"""Views of one SELECT, with and without a partial aggregate of the measures by region."""
MANY = {"measure": 1_000_000, "place": 2_000, "region": 100}
"""Row counts that make the partial aggregate worthwhile."""
VIEWS = {"SUM": "totals", "join and SUM": "by_region", "MIN and MAX": "extremes"}
PLACES, REGIONS = 2_000, 100
COUNTS = (1, 10, 100, 1_000)
GOALS_US = {1: 1_000, 100: 6_000}
"""Goals by number of changes, in microseconds, for one join and one aggregate: 1 ms for a batch,
and 50 µs for each change."""
EXECUTORS = {"rows": 1 << 60, "DuckDB": -1}
"""Up to how many rows of an input the loops over rows are used."""


@dataclass(frozen=True, slots=True)
class World:
    """A database with a built view: its rows of `measure`, and a reader of its present."""

    programs: Mapping[str, DeltaProgram]
    measures: Sequence[Row]
    reader: Snapshot

    def renamed(self, number: int) -> dict[str, ZSet]:
        """An update of the name of a region."""
        change = Change("region", (number, f"r{number}"), (number, "renamed"))
        columns = self.reader.catalog.schema.relation("region").columns
        return {"region": ZSet.of_changes(columns, [change])}

    def changes(self, count: int, chance: random.Random) -> dict[str, ZSet]:
        """Updates of `count` random rows."""
        rows = chance.sample(self.measures, count)
        changed = [Change("measure", row, (*row[:2], row[2] + 1)) for row in rows]  # type: ignore[operator]
        columns = self.reader.catalog.schema.relation("measure").columns
        return {"measure": ZSet.of_changes(columns, changed)}


async def deltas(database: Database, rows: int, rounds: int) -> list[Figure]:
    """Microseconds of batches by both executors, in an empty database."""
    world, chance, figures = await _world(database, rows), random.Random(1), list[Figure]()
    for title, view in VIEWS.items():
        for count in (count for count in COUNTS if count <= rows):
            times: dict[str, list[float]] = {name: [] for name in EXECUTORS}
            for _ in range(rounds):
                changes = world.changes(count, chance)
                for name in EXECUTORS:
                    times[name].append(await _microseconds(world, view, changes, name))
            first, *others = _figures(title, count, times)
            if first.met is False:
                work = partial(_microseconds, world, view, changes, "rows")
                first = replace(first, why=await where_time_goes(work))
            figures += [first, *others]
    return [*figures, *await _dimension(world, len(world.measures) // REGIONS, rounds)]


async def _dimension(world: World, facts: int, rounds: int) -> list[Figure]:
    """Microseconds of batches in which one region is renamed, over `facts` measures of it."""
    times: dict[str, list[float]] = {title: [] for title in NAMED}
    for number in range(rounds):
        for title, view in NAMED.items():
            changes = world.renamed(number % REGIONS)
            times[title].append(await _microseconds(world, view, changes, "rows"))
    name = f"a dimension of {facts:,} facts changes"
    figures = [Figure("deltas", f"{name}, {t}", "µs", tuple(found)) for t, found in times.items()]
    eager, plain = times.values()
    return [*figures, Figure("deltas", f"{name}, without / with", "×", ratios(plain, eager))]


def _figures(title: str, count: int, times: Mapping[str, Sequence[float]]) -> list[Figure]:
    name = f"{title}, {count:,} change{'s' if count > 1 else ''}"
    goal = GOALS_US.get(count) if title == "join and SUM" else None
    figure = partial(Figure, "deltas")
    return [
        figure(f"{name}, rows", "µs", tuple(times["rows"]), at_most=goal),
        figure(f"{name}, DuckDB", "µs", tuple(times["DuckDB"])),
        figure(f"{name}, DuckDB / rows", "×", ratios(times["DuckDB"], times["rows"])),
    ]


async def _microseconds(
    world: World, view: str, changes: Mapping[str, ZSet], executor: str
) -> float:
    began = time.perf_counter()
    await refresh(world.programs[view], changes, world.reader, EXECUTORS[executor])
    return (time.perf_counter() - began) * 1e6


async def _world(database: Database, count: int) -> World:
    views = "".join(BY_NAME.format(view=view) for view in NAMED.values())
    planned = plan_schema(PlanRequest(SCHEMA + views, row_counts=MANY), database.catalog)
    await database.keeper.apply(without_partials(planned.catalog, "plain"))
    await database.keeper.wait_built()
    regions = [(i, f"r{i}") for i in range(REGIONS)]
    places = [(i, i % REGIONS) for i in range(PLACES)]
    measures = [(i, i % PLACES, Decimal(i % 977).quantize(Decimal("0.01"))) for i in range(count)]
    await database.load("region", ("id", "name"), regions)
    await database.load("place", ("id", "region"), places)
    await database.load("measure", ("id", "place", "value"), measures)
    codecs, at = database.manager.state.codecs, database.watermark()
    catalog = codecs.catalog
    programs = {view.name: stored_program(view, catalog) for view in catalog.deferred}
    found = {name: program for name, program in programs.items() if program is not None}
    whole = {
        name: ZSet.of_changes(
            catalog.schema.relation(name).columns, [Change(name, None, row) for row in rows]
        )
        for name, rows in (("region", regions), ("place", places), ("measure", measures))
    }
    for program in found.values():
        made = await refresh(program, whole, Snapshot(database.store, codecs, 0))
        await database.store.put(_puts(codecs, made), at)
    reader = Snapshot(database.store, codecs, at)
    world = World(found, measures, reader)
    for view in VIEWS.values():  # compile, and start DuckDB
        for name in EXECUTORS:
            await _microseconds(world, view, world.changes(1, random.Random(0)), name)
    return world


def without_partials(catalog: Catalog, name: str) -> Catalog:
    """The catalog in which the deferred view `name` keeps no partial aggregates."""
    states = compile_view(catalog.deferred_view[name].declared, all_readable(catalog)).states
    views = (
        replace(view, states=states, partials=()) if view.name == name else view
        for view in catalog.deferred
    )
    return replace(catalog, deferred=tuple(views))


def _puts(codecs: Codecs, mutations: Sequence[Mutation]) -> dict[str, list[Put]]:
    puts: dict[str, list[Put]] = {}
    for mutation in mutations:
        codec = codecs(mutation.layout)
        assert mutation.new is not None
        put = Put(mutation.key, codec.encode(mutation.new))
        puts.setdefault(codec.layout.table, []).append(put)
    return puts
