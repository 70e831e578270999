"""Hornbeam in this process: writers of one group by all ways, point reads, and a GROUP BY of many
rows as the application wrote it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

from bench.groups.ways import ADD, INSERT, KEPT, NOTHING, ROWS, STARRED, TABLES, Way, compare
from bench.measure import Figure, ratios, seconds
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.node.settings import load_settings
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest

ENTRY, VIEW = "entry", "total"
GROUP = f"SELECT entries, amount FROM {VIEW} WHERE e_a_id = ?"
ROW = "SELECT a_r_id, a_total FROM account WHERE a_id = ?"

GROUPS = 1_000
SALES = """
CREATE TABLE shop (s_id INTEGER PRIMARY KEY);
CREATE TABLE sale (
  id BIGINT PRIMARY KEY, place INTEGER NOT NULL, shop INTEGER NOT NULL REFERENCES shop (s_id),
  amount DECIMAL(10,2));
"""
"""Sales have as many shops as places. The foreign key has an index, the place has none."""
BY_PLACE = """
CREATE MATERIALIZED VIEW by_{column} WITH (refresh = 'immediate') AS
SELECT {column}, count(*) AS sales, sum(amount) AS total FROM sale GROUP BY {column};
"""
ONE_GROUP = "SELECT {column}, count(*), sum(amount) FROM sale WHERE {column} = ? GROUP BY {column}"
ALL_GROUPS = "SELECT {column}, count(*), sum(amount) FROM sale GROUP BY {column}"
COLUMNS = {"place": "a column without an index", "shop": "a foreign key with its index"}
BY_INDEX = "without the view, the index reads only the rows of the group"
"""Why one group of a column with an index misses its goal, if it does."""
LOAD_BATCH = 5_000


class NotServed(AssertionError):
    """A view does not serve a query that it should serve, or it answers something else."""


@asynccontextmanager
async def opened(folder: Path, ddl: str) -> AsyncIterator[Database]:
    """A new database in `folder` with the schema `ddl`."""
    async with await Database.open(load_settings(data=folder)) as database:
        request = PlanRequest(ddl)
        await database.apply_schema(request, database.plan_schema(request).plan_id)
        await database.keeper.wait_built()
        yield database


async def _load(database: Database, relation: str, rows: Iterator[tuple[object, ...]]) -> None:
    columns = database.catalog.schema.relation(relation).column_names
    while batch := list(itertools.islice(rows, LOAD_BATCH)):
        await database.load(relation, columns, batch)


class EmbeddedWriters:
    """Writers of one database. Entries have rising numbers over all rounds. `processor_us`: the
    microseconds of processor time of a transaction, by number of writers and round; the first round
    of each number warms up."""

    def __init__(self, database: Database, way: Way) -> None:
        self.processor_us: dict[int, list[float]] = {}
        self.name = way.name
        self.database = database
        self._way = way
        self._insert = INSERT.format(entry=ENTRY)
        self._count = 0

    async def rate(self, writers: int, transactions: int) -> float:
        left = iter(range(transactions))

        async def writer() -> None:
            for _ in left:
                await self._transact()

        async def work() -> None:
            await asyncio.gather(*(writer() for _ in range(writers)))

        began = time.process_time()
        taken_s = await seconds(work)
        each_us = (time.process_time() - began) / transactions * 1e6
        self.processor_us.setdefault(writers, []).append(each_us)
        return transactions / taken_s

    async def _transact(self) -> None:
        self._count += 1
        statements = [Statement(self._insert, (self._count,))]
        if self._way.adds:
            statements.append(Statement(ADD))
        await self.database.transact(TransactionRequest(tuple(statements)))

    async def check(self) -> None:
        ((total,),) = await self.database.fetch(self._way.amount(ENTRY, VIEW))
        compare(self.name, total, self._count)


@asynccontextmanager
async def writing(folder: Path, way: Way) -> AsyncIterator[EmbeddedWriters]:
    async with opened(folder, TABLES + way.ddl(ENTRY, VIEW)) as database:
        for relation, rows in ROWS.items():
            await _load(database, relation, iter(rows))
        yield EmbeddedWriters(database, way)


def processor_times(ways: Sequence[EmbeddedWriters], writers: int) -> list[Figure]:
    """The processor time of a transaction, of all ways, and its ratios. It scatters less than the
    time on a machine that other programs use."""
    section = f"processor time, {writers} writers"
    times = {way.name: way.processor_us[writers][1:] for way in ways}
    plain = times[NOTHING.name]
    return [
        *(Figure(section, name, "µs", tuple(of)) for name, of in times.items()),
        Figure(section, "view / no total", "×", ratios(times[KEPT.name], plain), at_most=1 / 0.9),
        Figure(section, "star / no total", "×", ratios(times[STARRED.name], plain), at_most=1.3),
    ]


# ---------------------------------------------------------------- reads


async def point_reads(database: Database, count: int, rounds: int) -> list[Figure]:
    """Point reads of a group and of a base row, in turn. `database` keeps a view of one
    account."""
    await _rate(database, GROUP, count)
    await _rate(database, ROW, count)
    groups, rows = [], []
    for _ in range(rounds):
        groups.append(await _rate(database, GROUP, count))
        rows.append(await _rate(database, ROW, count))
    section = "point reads"
    return [
        Figure(section, "a group of a view", "reads/s", tuple(groups)),
        Figure(section, "a base row by its key", "reads/s", tuple(rows)),
        Figure(section, "time of a group / of a row", "×", ratios(rows, groups), at_most=1.5),
    ]


async def _rate(database: Database, sql: str, count: int) -> float:
    async def work() -> None:
        for _ in range(count):
            await database.fetch(sql, (1,))

    return count / await seconds(work)


async def grouped_reads(folder: Path, rows: int, reads: int, rounds: int) -> list[Figure]:
    """A GROUP BY of `rows` rows in `GROUPS` groups as the application wrote it, served by a view
    and computed from the relation, in turn."""
    views = "".join(BY_PLACE.format(column=column) for column in COLUMNS)
    async with opened(folder, SALES + views) as database:
        await _load(database, "shop", ((n,) for n in range(GROUPS)))
        await _load(database, "sale", _sales(rows))
        figures = []
        for column, is_indexed in COLUMNS.items():
            section = f"GROUP BY {column}, {is_indexed}"
            one, every = (each.format(column=column) for each in (ONE_GROUP, ALL_GROUPS))
            found = await _served_and_computed(database, one, (7,), reads, rounds)
            why = BY_INDEX if column == "shop" else ""
            figures += _compared(section, "one group", found, 100, why)
            found = await _served_and_computed(database, every, (), max(reads // 100, 1), rounds)
            figures += _compared(section, "all groups", found, 20, "")
        return figures


def _sales(rows: int) -> Iterator[tuple[object, ...]]:
    """Sales in an order in which neither places nor shops lie together."""
    return ((n, n * 7 % GROUPS, n * 11 % GROUPS, Decimal(n % 997) / 100 + 1) for n in range(rows))


Found = tuple[list[float], list[float]]
"""The milliseconds of a query from the view and from the relation, by round."""


async def _served_and_computed(
    database: Database, sql: str, arguments: Sequence[object], reads: int, rounds: int
) -> Found:
    """The milliseconds of one query. It runs `reads` times with the view, and a hundredth as often
    without. Raises NotServed."""
    if "sale" in database.prepare(sql).served_by:
        raise NotServed(f"No view serves {sql}")

    async def timed(count: int, *, use_views: bool) -> float:
        async def work() -> None:
            for _ in range(count):
                await database.fetch(sql, arguments, use_views=use_views)

        return await seconds(work) / count * 1000

    answers = [await database.fetch(sql, arguments, use_views=each) for each in (True, False)]
    if not answers[0] or sorted(map(str, answers[0])) != sorted(map(str, answers[1])):
        raise NotServed(f"The view and the relation answer differently: {sql}")
    served, computed = [], []
    for _ in range(rounds):
        served.append(await timed(reads, use_views=True))
        computed.append(await timed(max(reads // 100, 1), use_views=False))
    return served, computed


def _compared(section: str, name: str, found: Found, at_least: float, why: str) -> list[Figure]:
    served, computed = found
    ratio = ratios(computed, served)
    return [
        Figure(section, f"{name}, from the view", "ms", tuple(served)),
        Figure(section, f"{name}, from the relation", "ms", tuple(computed)),
        Figure(section, f"{name}, relation / view", "×", ratio, at_least=at_least, why=why),
    ]
