"""The micro-benchmark: it measures the parts on this machine, in one run (`make bench`).

It measures reads and writes in-process, REST next to `/livez`, bulk loads, the whole-result joins
of Synergy (IX-B) with views, by our best plan without views and by index nested loops, batches of
deferred views after few changes, and the memory of a server that streams. Prints a table and writes
a JSON report. `--help` lists the options.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import random
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import structlog
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench import microdata, serving, short_reads
from bench.deltas import deltas
from bench.measure import Figure, print_figures, ratios, seconds, where_time_goes, write_report
from bench.microdata import INSERT, POINT, PREFIX, Q1, Q2, V1, V2
from bench.options import REPORT, ROUNDS, parse
from hornbeam_server.api.security import api_keys as keys
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.demo.measures import percentile
from hornbeam_server.demo.serving import server
from hornbeam_server.demo.tpcw.data import TODAY
from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import Settings
from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.execution.loops import NativePlan
from hornbeam_server.query.loops_plan import plan_native
from hornbeam_server.schema.collector import settle_collector
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.txlayer.statements.requests import Timings

LOAD_BATCH = 5_000
DELTA_ROWS = 20
"""Rows per customer of the relation that deferred views are refreshed from."""
WRITERS = (1, 16, 64)
PIECES = ("plan", "lock", "compute", "log", "apply")
Work = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    customers: Annotated[int, "customers of the joins; × 111 = rows"] = 1_000
    rounds: Annotated[int, ROUNDS] = 5
    reads: Annotated[int, "reads per round"] = 3_000
    writes: Annotated[int, "transactions per round"] = 3_200
    requests: Annotated[int, "requests over REST per round"] = 1_000
    load_customers: Annotated[int, "customers loaded per round"] = 300
    folder: Annotated[Path, "folder of the databases; it is emptied"] = Path("var/bench")
    output: Annotated[Path, REPORT] = Path("bench/reports/latest.json")


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    return parse(Options, "bench.micro", __doc__, arguments)


# ---------------------------------------------------------------- databases


@asynccontextmanager
async def fresh(folder: Path, views: tuple[str, ...], customers: int) -> AsyncIterator[Database]:
    """Yields an empty database with the three relations and the views `views`."""
    shutil.rmtree(folder, ignore_errors=True)
    async with await reopened(folder) as database:
        await use_views(database, views, customers)
        yield database


async def reopened(folder: Path) -> Database:
    return await Database.open(Settings(data=folder, statement_timeout_s=600))


async def use_views(database: Database, views: tuple[str, ...], customers: int) -> None:
    """Put a catalog with exactly the views `views` into force, and build them."""
    counts = microdata.row_counts(customers)
    version = database.catalog.version + 1
    await database.keeper.apply(microdata.micro_catalog(version, views, counts))
    await database.keeper.wait_built()


async def load(database: Database, customers: int, relations: Sequence[str]) -> float:
    """Load the micro-benchmark's data. Returns seconds, without the time of generating rows."""
    spent = 0.0
    for relation in relations:
        columns = database.catalog.schema.relation(relation).column_names
        rows = microdata.rows(relation, customers)
        while batch := list(itertools.islice(rows, LOAD_BATCH)):
            began = time.perf_counter()
            await database.load(relation, columns, batch)
            spent += time.perf_counter() - began
    return spent


# ---------------------------------------------------------------- reads


async def reads(database: Database, options: Options) -> list[Figure]:
    """The figures of reads: one client on one core runs one query after the other."""
    rng = random.Random(1)
    customers, count = options.customers, options.reads
    orders = customers * microdata.ORDERS_PER_CUSTOMER
    served = ", ".join(database.prepare(PREFIX).served_by)

    async def rate(sql: str, highest: int) -> float:
        keys = [(rng.randint(1, highest),) for _ in range(count)]

        async def work() -> None:
            for key in keys:
                await database.fetch(sql, key)

        return count / await seconds(work)

    await rate(POINT, orders)  # warm
    points = [await rate(POINT, orders) for _ in range(options.rounds)]
    prefixes = [await rate(PREFIX, customers) for _ in range(options.rounds)]
    return [
        Figure("reads", "point", "reads/s", tuple(points), at_least=5_000),
        Figure(
            "reads",
            "view prefix of 10 rows",
            "reads/s",
            tuple(prefixes),
            at_least=3_000,
            note=f"served by {served}",
        ),
    ]


# ---------------------------------------------------------------- writes


class Writers:
    """Inserts orders of random customers, each in a durable transaction."""

    def __init__(self, database: Database, customers: int, first_id: int = 1) -> None:
        self._database = database
        self._customers = customers
        self._ids = itertools.count(first_id)
        self._chance = random.Random(2)
        self.latencies_ms: list[float] = []
        self.timings: list[Timings] = []

    async def run(self, writers: int, transactions: int) -> float:
        """Run about `transactions` transactions by `writers` writers. Returns transactions per
        second."""
        each = max(transactions // writers, 1)

        async def work() -> None:
            await asyncio.gather(*(self._write(each) for _ in range(writers)))

        return each * writers / await seconds(work)

    async def _write(self, count: int) -> None:
        for _ in range(count):
            customer = self._chance.randint(1, self._customers)
            values = (next(self._ids), customer, TODAY, "10.00", "0.83", "13.83")
            began = time.perf_counter()
            result = await self._database.execute(INSERT, values)
            self.latencies_ms.append((time.perf_counter() - began) * 1000)
            self.timings.append(result.timings)


async def writes(folder: Path, options: Options) -> list[Figure]:
    """The figures of transactions that maintain one join view and one view-index."""
    figures: list[Figure] = []
    async with fresh(folder, (V1,), options.customers) as database:
        await load(database, options.customers, ("customer",))
        await Writers(database, options.customers).run(16, options.writes // 4)  # warm
        for count in WRITERS:
            writers = Writers(database, options.customers, first_id=count * 10_000_000)
            rates = [await writers.run(count, options.writes) for _ in range(options.rounds)]
            for figure in _write_figures(writers, count, rates):
                work = partial(writers.run, count, options.writes // 4)
                figures.append(await explained(figure, work))
    return figures


def _write_figures(writers: Writers, count: int, rates: list[float]) -> list[Figure]:
    name = f"{count} writer{'s' if count > 1 else ''}"
    goal = 1_500 if count == 16 else None
    found = [
        Figure("writes", name, "tx/s", tuple(rates), at_least=goal, note="every one durable"),
        *(
            Figure("writes", f"{name}, p{int(share * 100)}", "ms", (percentile(times, share),))
            for times in (writers.latencies_ms,)
            for share in (0.5, 0.99)
        ),
    ]
    if count != 64:
        found += [
            Figure("one write", f"{piece}, {name}", "ms", (_median_ms(writers.timings, piece),))
            for piece in PIECES
        ]
    return found


def _median_ms(timings: Sequence[Timings], piece: str) -> float:
    return percentile([getattr(timing, f"{piece}_ms") for timing in timings], 0.5)


# ---------------------------------------------------------------- REST


def rest(folder: Path, options: Options, in_process_ms: float) -> list[Figure]:
    """The figures of point reads and /livez, in turn, over a keep-alive socket (bench/serving.py).

    `in_process_ms` is the time of the same read without HTTP.
    """
    floor, read = _point_reads(folder, options)
    to_livez = ratios(read, floor)
    key = keys.fresh()
    settings = {"authentication": "keys", "bootstrap_key": keys.bootstrap_line(key)}
    header = f"Authorization: Bearer {key.text}"
    keyed_floor, keyed = _point_reads(folder, options, header, **settings)
    ratio = Figure(
        "REST", "point read / livez", "×", to_livez, at_most=2, note="blocking raw socket"
    )
    if not ratio.met:
        why = f"the read itself takes {in_process_ms:.3f} ms, routing and validation the rest"
        ratio = replace(ratio, why=why)
    return [
        Figure("REST", "/livez, p50", "ms", tuple(floor)),
        Figure("REST", "point read, p50", "ms", tuple(read)),
        ratio,
        Figure(
            "REST",
            "point read with an API key / without",
            "×",
            ratios(ratios(keyed, keyed_floor), to_livez),
            note="each over its own server's /livez, which needs no key",
        ),
    ]


def _point_reads(
    folder: Path, options: Options, *headers: str, **settings: str
) -> tuple[list[float], list[float]]:
    """Milliseconds (p50) of /livez and of a point read with `headers`, per round."""
    query = serving.post("/v1/query", {"sql": POINT, "parameters": [options.customers]}, *headers)
    livez = serving.get("/livez")
    floor: list[float] = []
    read: list[float] = []
    with server(folder, **settings) as (port, _), serving.Client(port) as client:
        client.times_ms(query, options.requests // 4)  # warm
        for _ in range(options.rounds):
            floor.append(percentile(client.times_ms(livez, options.requests), 0.5))
            read.append(percentile(client.times_ms(query, options.requests), 0.5))
    return floor, read


def memory(folder: Path, _: Options) -> list[Figure]:
    """The peak memory of a fresh server that streams all of Q2, from the view and without views."""
    with server(folder) as (port, process):
        idle = serving.Process(process).peak_memory_kb() / 1024
        figures = [Figure("memory", "server, idle", "MB", (idle,))]
        for name, use in (("Q2 from the view", True), ("Q2 without views", False)):
            headers = ("Accept: application/vnd.apache.arrow.stream", "Connection: close")
            request = serving.post("/v1/query", {"sql": Q2, "use_views": use}, *headers)
            size = serving.drain(port, request) / 1e6
            peak = serving.Process(process).peak_memory_kb() / 1024
            note = f"{size:.0f} MB streamed"
            figures.append(
                Figure("memory", f"server, {name}", "MB", (peak,), at_most=500, note=note)
            )
    return figures


# ---------------------------------------------------------------- load


async def loads(folder: Path, options: Options) -> list[Figure]:
    """The figures of bulk loads through `Database.load`, in transactions of 5 000 rows."""
    customers = options.load_customers
    count = customers * microdata.ROWS_PER_CUSTOMER
    figures = []
    for name, views, goal in (
        ("without views", (), 40_000),
        ("with two views and their indexes", (V1, V2), 15_000),
    ):
        rates = []
        for _ in range(max(options.rounds // 2, 1)):
            async with fresh(folder, views, customers) as database:
                rates.append(count / await load(database, customers, microdata.RELATIONS))
        figure = Figure("load", name, "rows/s", tuple(rates), at_least=goal)

        async def reload(views: tuple[str, ...] = views) -> None:
            async with fresh(folder, views, customers) as database:
                await load(database, customers // 3 or 1, microdata.RELATIONS)

        figures.append(await explained(figure, reload))
    return figures


async def explained(figure: Figure, work: Work) -> Figure:
    """The figure. If it misses its goal, a profile of `work` is added as the reason."""
    return figure if figure.met is not False else replace(figure, why=await where_time_goes(work))


# ---------------------------------------------------------------- joins


async def joins(database: Database, options: Options) -> list[Figure]:
    """The figures of joins with whole results, as an in-process client gets them: rows as Python
    tuples, or Arrow."""
    figures: list[Figure] = []
    for name, sql, goal in (("Q1", Q1, 6), ("Q2", Q2, 11)):
        figures += await _join(database, name, sql, goal, max(options.rounds // 2, 1))
    return figures


async def _join(database: Database, name: str, sql: str, goal: int, rounds: int) -> list[Figure]:
    expected = database.catalog.row_count[V1 if name == "Q1" else V2]
    loops = plan_native(bind(sql, database.catalog), database.catalog, most_cost=math.inf)
    methods: dict[str, Callable[[], Awaitable[int]]] = {
        "view": lambda: count_rows(database, sql, use_views=True),
        "best plan without views": lambda: count_rows(database, sql, use_views=False),
        "index nested loops": lambda: run_plan(database, loops),
        "view, Arrow": lambda: count_rows(database, sql, use_views=True, arrow=True),
        "best plan without views, Arrow": lambda: count_rows(
            database, sql, use_views=False, arrow=True
        ),
    }
    for run in methods.values():
        await run()  # not measured: the first query starts the worker processes
    times: dict[str, list[float]] = {method: [] for method in methods}
    for _ in range(rounds):
        for method, run in methods.items():
            began = time.perf_counter()
            found = await run()
            times[method].append(time.perf_counter() - began)
            if found != expected:
                raise RuntimeError(f"{name} by {method} gives {found} rows, not {expected}.")
    measured = [Figure("joins", f"{name}, {method}", "s", tuple(t)) for method, t in times.items()]
    note = "on HBase the paper has 6 × and 11.7 ×: there the join crosses the network"
    for method, basis, minimum in (
        ("best plan without views", "view", goal),
        ("index nested loops", "view", goal),
        ("best plan without views, Arrow", "view, Arrow", None),
    ):
        ratios = tuple(a / b for a, b in zip(times[method], times[basis], strict=True))
        title = f"{name}, {method} / {basis}"
        figure = Figure("joins", title, "×", ratios, at_least=minimum, note=note)
        measured.append(await explained(figure, methods["view"]))
    return measured


async def count_rows(database: Database, sql: str, *, use_views: bool, arrow: bool = False) -> int:
    """Read a whole result, and discard it. Returns the number of its rows."""
    count = 0
    async with database.query(sql, use_views=use_views, columnar=arrow) as result:
        if arrow:
            async for batch in result.stream.arrow():
                count += batch.num_rows
        else:
            async for rows in result.stream.batches():
                count += len(rows)
    return count


async def run_plan(database: Database, plan: NativePlan) -> int:
    """Run a plan of our own loops, and discard its rows. Returns their number."""
    reader = Snapshot(database.store, database.manager.state.codecs, database.watermark())
    count = 0
    async with aclosing(plan.batches(reader, {})) as batches:
        async for rows in batches:
            count += len(rows)
    return count


# ---------------------------------------------------------------- the run


async def measure(
    options: Options, step: Callable[[str], None], on_missing: Callable[[str], None]
) -> list[Figure]:
    """All figures. Calls `step` with the name of each step that begins, and `on_missing` with a
    sentence about a program that is not installed."""
    scratch, kept = options.folder / "scratch", options.folder / "joins"
    floors = options.folder / "floors"  # folders of databases are private to this user
    figures: list[Figure] = []
    step("writes")
    figures += await writes(scratch, options)
    step("bulk load")
    figures += await loads(scratch, options)
    step(f"loading {options.customers * microdata.ROWS_PER_CUSTOMER:,} rows, building views")
    async with fresh(kept, (), options.customers) as database:
        await load(database, options.customers, microdata.RELATIONS)
        built = await seconds(lambda: use_views(database, (V1, V2), options.customers))
        built_rows = options.customers * 2 * (microdata.ROWS_PER_CUSTOMER - 1)
        figures.append(
            Figure("load", "online build of views and indexes", "rows/s", (built_rows / built,))
        )
        step("reads")
        read = await reads(database, options)
        figures += read
        step("short reads")
        figures += await short_reads.in_process(
            database, options.customers, options.requests, options.rounds, floors
        )
        step("joins")
        figures += await joins(database, options)
    step("short reads over REST")
    figures += await short_reads.served(
        kept, options.customers, options.requests, options.rounds, floors, on_missing
    )
    step("REST")
    figures += rest(kept, options, 1_000 / read[0].value)
    step("deferred views after few changes")
    shutil.rmtree(scratch, ignore_errors=True)
    async with await reopened(scratch) as database:
        figures += await deltas(database, options.customers * DELTA_ROWS, options.rounds)
    step("memory of a streaming server")
    figures += memory(kept, options)
    shutil.rmtree(options.folder)
    return figures


STEPS = 10


def main(arguments: Sequence[str] | None = None) -> None:
    options, console = parse_options(arguments), Console()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    began = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=STEPS)

        def step(name: str) -> None:
            progress.update(task, description=name)
            progress.advance(task)

        figures = asyncio.run(measure(options, step, progress.console.print))
    print_figures(console, figures)
    elapsed_s = time.perf_counter() - began
    write_report(options.output, options.folder, asdict(options), figures, elapsed_s)
    console.print(f"{elapsed_s:.1f} s; written: {options.output}")


if __name__ == "__main__":
    settle_collector()  # as the server does
    with ended_by_sigterm():
        main()
