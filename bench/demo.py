"""The main job in one command: TPC-W from schema to verified views, on an embedded database.

Uploads schema and workload, loads a population, lets shoppers run over REST, verifies every view,
and prints what was served by what and how fast, next to the same statements on base relations.
`python -m bench.demo --help` lists the options; `make demo` runs it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from api.app import create_app
from api.database import Database
from api.planning import PlanRequest
from api.settings import Settings
from bench.tpcw import PAPER_ROOTS, SCHEMA, WORKLOAD
from bench.tpcw.compare import Comparison, compare_statements
from bench.tpcw.data import RELATIONS, Population, Size
from bench.tpcw.sessions import Measured, shop_in_process
from schema.workload import load_workload
from txlayer.verify import VerifyReport

LOAD_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What `--help` explains."""

    customers: int
    items: int
    seconds: float
    sessions: int
    folder: Path
    rounds: int


def parse_options(arguments: list[str] | None = None) -> DemoOptions:
    parser = argparse.ArgumentParser(prog="python -m bench.demo", description=__doc__)
    parser.add_argument("--customers", type=int, default=1_000)
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=8.0, help="how long shoppers run")
    parser.add_argument("--sessions", type=int, default=8, help="shoppers at the same time")
    parser.add_argument("--rounds", type=int, default=20, help="runs of a statement to compare")
    parser.add_argument("--folder", type=Path, default=Path("var/demo"))
    return DemoOptions(**vars(parser.parse_args(arguments)))


async def load(database: Database, size: Size, console: Console) -> tuple[int, float]:
    """Load the population with a progress bar; returns rows and seconds."""
    population = Population(size)
    began, rows = time.monotonic(), 0
    with Progress(
        TextColumn("{task.description:>12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        for relation in RELATIONS:
            data = list(population.rows(relation))
            columns = database.catalog.schema.relation(relation).column_names
            task = progress.add_task(relation, total=len(data))
            for start in range(0, len(data), LOAD_BATCH):
                batch = data[start : start + LOAD_BATCH]
                await database.load(relation, columns, batch)
                progress.advance(task, len(batch))
            rows += len(data)
    return rows, time.monotonic() - began


@asynccontextmanager
async def served(database: Database, settings: Settings) -> AsyncIterator[str]:
    """Serve `database` on a free port of the loopback; yields the URL."""
    app = create_app(settings, database)
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning")
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server.serve())
    try:
        while not server.started:
            if task.done():
                await task
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


async def run(options: DemoOptions, console: Console) -> int:
    """The demo; returns the exit code: 0 when no difference was found."""
    size = Size(options.customers, options.items)
    shutil.rmtree(options.folder, ignore_errors=True)
    settings = Settings(data=options.folder / "database")
    request = PlanRequest(
        SCHEMA.read_text(),
        WORKLOAD.read_text(),
        roots=PAPER_ROOTS,
        row_counts=size.row_counts,
        ddl_file="schema.sql",
        workload_file="workload.sql",
    )
    async with await Database.open(settings) as database:
        planned = database.plan_schema(request)
        console.rule("Views chosen for the roots {author, customer, country}")
        console.print(planned.plan.text(), highlight=False, markup=False, soft_wrap=True)
        learned = database.plan_schema(replace(request, roots=None))
        console.rule("The same with learned roots")
        console.print(learned.plan.summary(), highlight=False, markup=False, soft_wrap=True)
        await database.apply_schema(request, planned.plan_id)
        await database.keeper.wait_built()

        console.rule("Loading")
        rows, load_s = await load(database, size, console)
        await database.keeper.refresh_counts()
        console.print(f"{rows} rows in {load_s:.1f} s: {rows / load_s:,.0f} rows/s with all views")

        console.rule(f"{options.sessions} shoppers over REST for {options.seconds:g} s")
        async with served(database, settings) as url:
            measured = await shop_in_process(
                url, size, sessions=options.sessions, seconds=options.seconds
            )
        console.print(
            f"{measured.interactions} interactions, {database.manager.committed} transactions,"
            f" {len(measured.errors)} errors"
        )
        console.rule("Every view and index recomputed by DuckDB and compared")
        report = await database.verify()
        statements = {s.name: s.sql for s in load_workload(request.workload)}
        comparison = await compare_statements(database, statements, size, options.rounds)
        storage = _storage(database, await database.sizes())
        differences = _print(console, comparison, measured, report, storage)
        _write(options.folder, planned.plan, comparison, measured, report, storage, rows / load_s)
        console.print(
            f"\nWritten: {options.folder}/report.json and {options.folder}/trees.svg\n"
            f"Look around: make serve DATA={settings.data}   then open http://127.0.0.1:8780/docs"
            " or run: .venv/bin/hornbeam status"
        )
        return 1 if differences or measured.errors else 0


def _print(
    console: Console,
    comparison: list[Comparison],
    measured: Measured,
    report: VerifyReport,
    storage: dict[str, int],
) -> int:
    table = Table(title="Reads (in-process, milliseconds)")
    for name in ("statement", "served by"):
        table.add_column(name, overflow="fold")
    for name in ("p50", "p99", "p50 base only", "ratio"):
        table.add_column(name, justify="right")
    for row in comparison:
        table.add_row(
            row.name,
            ", ".join(row.served_by),
            f"{row.p50_ms:.2f}",
            f"{row.p99_ms:.2f}",
            f"{row.base_p50_ms:.2f}",
            f"{row.ratio:.1f} ×",
        )
    console.print(table)
    over = Table(title="Over REST, all shoppers at once (milliseconds)")
    over.add_column("statement or transaction", overflow="fold")
    for name in ("count", "p50", "p99"):
        over.add_column(name, justify="right")
    for name, values in sorted(measured.latencies.items()):
        ordered = sorted(values)
        over.add_row(
            name,
            str(len(ordered)),
            f"{statistics.median(ordered):.2f}",
            f"{ordered[int(len(ordered) * 0.99)]:.2f}",
        )
    console.print(over)
    for error in measured.errors[:10]:
        console.print(f"[red]error[/red] {error}", markup=True, highlight=False)
    _print_storage(console, storage)
    checked = len(report.checked)
    rows = sum(item.rows for item in report.checked)
    console.print(
        f"Verified {checked} views, indexes and foreign keys, {rows:,} rows:"
        f" [bold]{report.differences} differences[/bold]"
    )
    for item in report.checked:
        if item.differences:
            console.print(f"  {item}")
    return report.differences


def _storage(database: Database, sizes: dict[str, int]) -> dict[str, int]:
    """Bytes of base relations, of their indexes, of views, and of view-indexes."""
    catalog = database.catalog
    kinds = {"relations": 0, "indexes": 0, "views": 0, "view-indexes": 0}
    for name, size in sizes.items():
        if name in catalog.index:
            kind = "view-indexes" if catalog.index[name].on in catalog.view else "indexes"
        else:
            kind = "views" if name in catalog.view else "relations"
        kinds[kind] += size
    return kinds


def _print_storage(console: Console, storage: dict[str, int]) -> None:
    parts = ", ".join(f"{kind} {size / 1e6:.1f} MB" for kind, size in storage.items())
    without = storage["relations"] + storage["indexes"]
    ratio = sum(storage.values()) / max(without, 1)
    console.print(f"Storage: {parts}; with views {ratio:.2f} × what it is without")


def _write(
    folder: Path,
    plan: Any,
    comparison: list[Comparison],
    measured: Measured,
    report: VerifyReport,
    storage: dict[str, int],
    load_rows_s: float,
) -> None:
    document = {
        "machine": machine(),
        "plan": plan.json(),
        "load_rows_s": round(load_rows_s),
        "reads": [row.json() for row in comparison],
        "rest": {
            name: {
                "count": len(values),
                "p50_ms": statistics.median(values),
                "p99_ms": sorted(values)[int(len(values) * 0.99)],
            }
            for name, values in measured.latencies.items()
        },
        "errors": measured.errors,
        "bytes": storage,
        "differences": report.differences,
    }
    (folder / "report.json").write_text(json.dumps(document, indent=2, default=str))
    (folder / "trees.svg").write_text(plan.svg())


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    sys.exit(asyncio.run(run(parse_options(), Console())))


if __name__ == "__main__":
    main()
