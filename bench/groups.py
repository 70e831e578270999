"""The group benchmark: what an immediate view costs its writers, on one hot group, and what it
saves its readers (`make bench-groups`).

Writers insert entries of one account, each in a durable transaction: without a view, with a view
that counts and adds them up, with one over a star of three relations, and with a total that the
application keeps in a row. All are measured in turn in one run, so their ratios are comparable.
Readers ask for one group, from the view and from the relation. Prints a table and writes a JSON
report.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import structlog
from rich.console import Console

from bench.measure import Figure, print_figures, ratios, seconds, write_report
from bench.options import REPORT, ROUNDS, parse
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.node.settings import load_settings
from hornbeam_server.schema.collector import settle_collector
from hornbeam_server.txlayer.transactions.requests import Statement, TransactionRequest

WRITERS = (1, 8, 32, 64)
TABLES = """
CREATE TABLE region (r_id INTEGER PRIMARY KEY, r_name TEXT);
CREATE TABLE account (
  a_id INTEGER PRIMARY KEY, a_r_id INTEGER NOT NULL REFERENCES region (r_id),
  a_total DECIMAL(20,2));
CREATE TABLE kind (k_id INTEGER PRIMARY KEY, k_name TEXT);
CREATE TABLE entry (
  e_id BIGINT PRIMARY KEY, e_a_id INTEGER NOT NULL REFERENCES account (a_id),
  e_k_id INTEGER NOT NULL REFERENCES kind (k_id), e_amount DECIMAL(10,2));
"""
VIEW = """
CREATE MATERIALIZED VIEW total WITH (refresh = 'immediate') AS
SELECT e_a_id, count(*) AS entries, sum(e_amount) AS amount FROM entry GROUP BY e_a_id;
"""
STAR = """
CREATE MATERIALIZED VIEW total WITH (refresh = 'immediate') AS
SELECT r_name, k_name, count(*) AS entries, sum(e_amount) AS amount
FROM entry JOIN account ON e_a_id = a_id JOIN region ON a_r_id = r_id JOIN kind ON e_k_id = k_id
GROUP BY r_name, k_name;
"""
INSERT = "INSERT INTO entry VALUES (?, 1, 1, 1.25)"
ADD = "UPDATE account SET a_total = a_total + 1.25 WHERE a_id = 1"
GROUP = "SELECT entries, amount FROM total WHERE e_a_id = ?"
ROW = "SELECT a_r_id, a_total FROM account WHERE a_id = ?"
AGGREGATE = "SELECT count(*), sum(e_amount) FROM entry WHERE e_a_id = ?"


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    writes: Annotated[int, "transactions per round and number of writers"] = 1_600
    reads: Annotated[int, "reads per round"] = 2_000
    rounds: Annotated[int, ROUNDS] = 3
    folder: Annotated[Path, "folder of the databases; it is emptied"] = Path("var/bench-groups")
    output: Annotated[Path, REPORT] = Path("bench/reports/groups.json")


@dataclass(frozen=True, slots=True)
class Way:
    """A way to keep a total: the view's DDL, and the statements of a transaction."""

    name: str
    ddl: str = ""
    adds: bool = False


NOTHING = Way("no total")
KEPT = Way("immediate view", VIEW)
STARRED = Way("immediate view over a star of 3", STAR)
OWN = Way("total kept by the application", adds=True)
WAYS = (NOTHING, KEPT, STARRED, OWN)


class Writing:
    """Writers of one database. Entries have rising numbers over all rounds."""

    def __init__(self, database: Database, way: Way) -> None:
        self.database = database
        self._adds = way.adds
        self._ids = itertools.count(1)

    async def rate(self, writers: int, transactions: int) -> float:
        """Transactions a second of `writers` at a time."""
        left = iter(range(transactions))

        async def writer() -> None:
            for _ in left:
                await self._transact()

        async def work() -> None:
            await asyncio.gather(*(writer() for _ in range(writers)))

        return transactions / await seconds(work)

    async def _transact(self) -> None:
        statements = [Statement(INSERT, (next(self._ids),))]
        if self._adds:
            statements.append(Statement(ADD))
        await self.database.transact(TransactionRequest(tuple(statements)))


@asynccontextmanager
async def opened(folder: Path, way: Way) -> AsyncIterator[Writing]:
    async with await Database.open(load_settings(data=folder)) as database:
        request = PlanRequest(TABLES + way.ddl)
        await database.apply_schema(request, database.plan_schema(request).plan_id)
        await database.keeper.wait_built()
        await database.load("region", ["r_id", "r_name"], [(1, "north")])
        await database.load("kind", ["k_id", "k_name"], [(1, "sale")])
        await database.load("account", ["a_id", "a_r_id", "a_total"], [(1, 1, 0), (2, 1, 0)])
        yield Writing(database, way)


async def writes(all_writing: Sequence[Writing], options: Options) -> list[Figure]:
    """Rates of all ways by number of writers, and their ratios."""
    figures = []
    for writers in WRITERS:
        rates: list[list[float]] = [[] for _ in WAYS]
        for number in range(options.rounds + 1):
            for writing, of_way in zip(all_writing, rates, strict=True):
                rate = await writing.rate(writers, options.writes)
                if number:  # the first round warms up
                    of_way.append(rate)
        section = f"{writers} writers of one group" if writers > 1 else "1 writer"
        for way, of_way in zip(WAYS, rates, strict=True):
            figures.append(Figure(section, way.name, "transactions/s", tuple(of_way)))
        nothing, kept, starred, own = rates
        busy = writers == 32
        figures += [
            Figure(section, "view / no total", "×", ratios(kept, nothing), 0.9 if busy else None),
            Figure(section, "star / no total", "×", ratios(starred, nothing), 1 / 1.3),
            Figure(section, "view / application", "×", ratios(kept, own), 10 if busy else None),
        ]
    return figures


async def reads(database: Database, options: Options) -> list[Figure]:
    """Point reads of a group and of a base row, and of the group without the view."""

    async def rate(sql: str, count: int, *, use_views: bool = True) -> float:
        async def work() -> None:
            for _ in range(count):
                await database.fetch(sql, (1,), use_views=use_views)

        await work()
        return count / await seconds(work)

    count = options.reads
    groups = [await rate(GROUP, count) for _ in range(options.rounds)]
    rows = [await rate(ROW, count) for _ in range(options.rounds)]
    sums = [await rate(AGGREGATE, 5, use_views=False) for _ in range(options.rounds)]
    entries = (await database.fetch("SELECT count(*) FROM entry"))[0][0]
    section = "reads of one group"
    return [
        Figure(section, "from the view", "reads/s", tuple(groups)),
        Figure(section, "a base row by its key", "reads/s", tuple(rows)),
        Figure(section, "time of a group / of a row", "×", ratios(rows, groups), at_most=1.5),
        Figure(section, "from the relation", "reads/s", tuple(sums), note=f"{entries:,} entries"),
        Figure(section, "view / relation", "×", ratios(groups, sums), at_least=100),
    ]


async def measure(options: Options) -> list[Figure]:
    shutil.rmtree(options.folder, ignore_errors=True)
    async with AsyncExitStack() as stack:
        all_writing = [
            await stack.enter_async_context(opened(options.folder / str(number), way))
            for number, way in enumerate(WAYS)
        ]
        settle_collector()
        figures = await writes(all_writing, options)
        return figures + await reads(all_writing[WAYS.index(KEPT)].database, options)


def main(arguments: Sequence[str] | None = None) -> None:
    options, console = parse(Options, "bench.groups", __doc__, arguments), Console()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    began = time.perf_counter()
    with console.status("measuring"):
        figures = asyncio.run(measure(options))
    print_figures(console, figures)
    elapsed_s = time.perf_counter() - began
    write_report(options.output, options.folder, asdict(options), figures, elapsed_s)
    console.print(f"{elapsed_s:.0f} s. The report is {options.output}.")


if __name__ == "__main__":
    main()
