"""TPC-H's revenue by nation as a deferred view, with and without a partial aggregate: the time of a
batch in which one nation gets another name, and of a batch in which one line changes.

The node does the batches, over the embedded store. `python -m bench.tpch.nations --help` lists the
options.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import duckdb

from bench.deltas import without_partials
from bench.measure import Figure, ratios
from bench.options import ROUNDS, parse
from bench.tpch import SCHEMA
from bench.tpch.data import files
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.node.settings import Settings

REVENUE = """
CREATE MATERIALIZED VIEW revenue WITH (refresh = 'deferred', interval = '50 ms') AS
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*) AS lines
FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND c_nationkey = n_nationkey
GROUP BY n_name;
"""
COUNTS = {"nation": 25, "customer": 150_000, "orders": 1_500_000, "lineitem": 6_000_000}
"""The rows of scale factor 1, which make the partial aggregate worthwhile."""
LOAD_ROWS = 5_000
CHANGES = {
    "a nation gets another name": "UPDATE nation SET n_name = 'round {}' WHERE n_nationkey = 7",
    "a line changes": "UPDATE lineitem SET l_quantity = {}, l_discount = 0.0{}"
    " WHERE l_orderkey = 1 AND l_linenumber = 1",
}


@dataclass(frozen=True)
class Options:
    scale: Annotated[float, "scale factor of TPC-H"] = 0.05
    rounds: Annotated[int, ROUNDS] = 5


def _parts(path: Path) -> Iterator[tuple[list[str], list[tuple[object, ...]]]]:
    """The columns and rows of a CSV file, in parts."""
    answer = duckdb.execute("SELECT * FROM read_csv($1)", [str(path)])
    columns = [column[0] for column in answer.description or ()]
    while rows := answer.fetchmany(LOAD_ROWS):
        yield columns, rows


async def _shown(database: Database, at: int) -> float:
    """Wait until the view shows the snapshot `at`; returns the milliseconds of its last batch."""
    while True:
        state = await database.deferred.state("default")
        if state.as_of >= at and state.batch is None and state.last is not None:
            return state.last.seconds * 1e3
        await asyncio.sleep(0.01)


async def measured(options: Options, folder: Path, partial: bool) -> dict[str, list[float]]:
    """The milliseconds of the batches of each change, with or without a partial aggregate."""
    settings = Settings(data=folder, resident_rows=1_000_000_000, resident_refresh=False)
    async with await Database.open(settings) as database:
        request = PlanRequest(SCHEMA.read_text() + REVENUE, row_counts=COUNTS)
        catalog = database.plan_schema(request).catalog
        await database.keeper.apply(catalog if partial else without_partials(catalog, "revenue"))
        await database.keeper.wait_built()
        for name, path in files(options.scale).items():
            for columns, rows in _parts(path):
                await database.load(name, columns, rows)
    settings = settings.model_copy(update={"resident_refresh": True})
    async with await Database.open(settings) as database:
        await _shown(database, database.watermark())
        return {what: await _times(database, sql, options) for what, sql in CHANGES.items()}


async def _times(database: Database, sql: str, options: Options) -> list[float]:
    times = []
    for number in range(options.rounds + 1):
        done = await database.execute(sql.format(number + 1, number % 10))
        times.append(await _shown(database, done.commit_ts))
    return times[1:]  # the first round compiles


def main() -> None:
    options = parse(Options, "bench.tpch.nations", __doc__)
    with tempfile.TemporaryDirectory() as folder:
        eager, plain = (
            asyncio.run(measured(options, Path(folder) / str(partial), partial))
            for partial in (True, False)
        )
    for what in CHANGES:
        for figure in (
            Figure("nations", f"{what}, with a partial aggregate", "ms", tuple(eager[what])),
            Figure("nations", f"{what}, without", "ms", tuple(plain[what])),
            Figure("nations", f"{what}, without / with", "×", ratios(plain[what], eager[what])),
        ):
            rounds = ", ".join(f"{value:.1f}" for value in figure.rounds)
            print(f"{figure.name}: {figure.value:.1f} {figure.unit} ({rounds})")


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
