"""The main job in one command: TPC-W from schema to verified views, on an embedded database.

Uploads schema and workload, loads a population, runs emulated browsers over REST, and verifies
every view. Prints the access paths and the times of all statements, next to the times of the same
statements on base relations. `hornbeam demo` calls this.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hornbeam_server.demo import serving
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.demo.measures import machine
from hornbeam_server.demo.results import (
    REPORTS,
    DemoResult,
    new_console,
    print_results,
    print_views,
    write_reports,
)
from hornbeam_server.demo.tpcw import LIVE, PAPER_ROOTS, SCHEMA, TOTALS, WORKLOAD
from hornbeam_server.demo.tpcw.compare import compare_statements
from hornbeam_server.demo.tpcw.data import RELATIONS, Population, Size
from hornbeam_server.demo.tpcw.live import Watched, watch
from hornbeam_server.demo.tpcw.sessions import BrowserRun, Measured, run_in_process
from hornbeam_server.node.adapters import COORDINATION
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlannedSchema, PlanRequest
from hornbeam_server.node.settings import Settings, sealed_settings
from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.schema.workload import load_workload
from hornbeam_server.storage.local.coordination import locked

LOAD_BATCH = 5_000
DATABASE, WITHOUT_VIEWS = "database", "without-views"
"""Folders of the two databases, within the folder of the demo."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`folder` gets the databases and reports. Sizes are those of TPC-W; `rounds`: how often each
    statement runs; `sessions` emulated browsers run for `seconds`."""

    folder: Path
    customers: int
    items: int
    rounds: int
    sessions: int
    seconds: float


def demo(*, replace: bool = False, to_stderr: bool = False, **options: object) -> DemoResult:
    """Run the demo with `options`, the fields of DemoOptions. Prints its story, and writes its
    reports. `replace`: remove the former demo in the folder. Raises InvalidRequest for a folder
    with anything else, Unavailable while a server has the former demo open, and the errors of the
    database."""
    chosen = DemoOptions(**options)  # type: ignore[arg-type]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    _make_room(chosen.folder, replace)
    with ended_by_sigterm():
        return asyncio.run(run(chosen, new_console(stderr=to_stderr)))


def _make_room(folder: Path, replace: bool) -> None:
    """Make `folder` an empty folder. Raises InvalidRequest, and Unavailable while a former demo in
    it is open."""
    try:
        found = {each.name for each in folder.iterdir()} if folder.exists() else set()
        of_demo = found <= {DATABASE, WITHOUT_VIEWS, *REPORTS}
        if found and not (replace and of_demo):
            raise InvalidRequest(
                f"The folder {folder} is not empty.",
                cure="Choose another folder with --data, or remove the demo in it with --replace."
                if of_demo
                else "It has other files than those of a demo. Choose another folder with --data.",
            )
        if found:
            _remove(folder)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(
            f"The folder {folder} cannot be used: {error.strerror}.",
            cure="Choose another folder with --data.",
        ) from None


def _remove(folder: Path) -> None:
    """Remove a former demo. Raises Unavailable while another process has one of its databases
    open."""
    with ExitStack() as locks:
        for name in (DATABASE, WITHOUT_VIEWS):
            locks.enter_context(locked(folder / name / COORDINATION))
        shutil.rmtree(folder)


async def run(options: DemoOptions, console: Console) -> DemoResult:
    """Run the demo in its folder, which is empty."""
    size = Size(options.customers, options.items)
    request = PlanRequest(
        SCHEMA.read_text() + LIVE.read_text(),
        WORKLOAD.read_text() + TOTALS.read_text(),
        roots=PAPER_ROOTS,
        row_counts=size.row_counts,
        ddl_file="schema.sql",
        workload_file="workload.sql",
    )
    without_views = replace(request, ddl=SCHEMA.read_text(), budget=0.0)
    with_views = options.folder / DATABASE
    async with (
        _opened(with_views, request) as (database, planned),
        _opened(options.folder / WITHOUT_VIEWS, without_views) as (baseline, _),
    ):
        learned = database.plan_schema(replace(request, roots=None))
        print_views(console, planned.plan)
        load_rows_s = [await load(each, size, console) for each in (database, baseline)]
        statements = {s.name: s.sql for s in load_workload(request.workload or "")}
        with console.status("Running every read statement with and without views"):
            compared = await compare_statements(
                database, baseline, statements, size, options.rounds
            )
        baseline_storage = await _storage(baseline)
    with console.status(f"{options.sessions} emulated browsers, {options.seconds:g} s"):
        measured, watched = await _run_browsers(with_views, size, options)
    async with await Database.open(_settings(with_views)) as database:
        with console.status("Recomputing every view and index"):
            report = await database.verify()
        storage = [await _storage(database), baseline_storage]
    result = DemoResult(
        machine(options.folder),
        planned.plan.json(),
        learned.plan.json(),
        load_rows_s,
        compared,
        measured,
        watched,
        report,
        storage,
        options.sessions,
        options.seconds,
    )
    print_results(console, result)
    write_reports(options.folder, planned.plan, learned.plan, result)
    return result


def _settings(folder: Path) -> Settings:
    """Those of the demo's databases, whatever those of this machine's server are."""
    return sealed_settings(data=folder)


@asynccontextmanager
async def _opened(
    folder: Path, request: PlanRequest
) -> AsyncIterator[tuple[Database, PlannedSchema]]:
    """Yields a new database in `folder` with the plan of `request` in force, and the plan."""
    async with await Database.open(_settings(folder)) as database:
        planned = database.plan_schema(request)
        await database.apply_schema(request, planned.plan_id)
        await database.keeper.wait_built()
        yield database, planned


async def load(database: Database, size: Size, console: Console) -> float:
    """Load the population with a progress bar. Returns rows per second."""
    population = Population(size)
    began, rows = time.monotonic(), 0
    with Progress(
        TextColumn("{task.description:>12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
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
    elapsed = time.monotonic() - began
    await database.keeper.refresh_counts()
    return rows / elapsed


async def _run_browsers(folder: Path, size: Size, options: DemoOptions) -> tuple[Measured, Watched]:
    """Run the browsers against `hornbeam serve`, in a process of its own as they are,
    and watch the live view while they run."""
    with serving.server(folder, resident_refresh="true") as (port, _):
        url = f"hornbeam://127.0.0.1:{port}"
        settings = BrowserRun(size.customers, size.items, options.sessions, options.seconds)
        browsers = asyncio.ensure_future(run_in_process(url, settings))
        watched = await watch(url, browsers)
        return await browsers, watched


async def _storage(database: Database) -> dict[str, int]:
    """Bytes of base relations, their indexes, views and view-indexes."""
    catalog = database.catalog
    kinds = {"relations": 0, "indexes": 0, "views": 0, "view-indexes": 0}
    for name, size in (await database.sizes()).items():
        if name in catalog.index:
            kind = "view-indexes" if catalog.index[name].on in catalog.view else "indexes"
        else:
            kind = "relations" if name in catalog.schema else "views"
        kinds[kind] += size
    return kinds
