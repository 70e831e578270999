"""The bulk work in one command: TPC-H on an embedded database, with Spark.

Loads TPC-H, and starts a writer that changes all relations. While it writes, Spark builds
join views and keeps TPC-H's 22 queries as deferred views. After every batch the demo compares each
deferred view with its query. Then it damages a view, and Spark reconciles it.
`python -m bench.spark_demo --help` lists the options; `make demo-spark` runs it.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from rich.console import Console

import hornbeam
from bench.materialize import apply
from bench.options import parse
from bench.tpch import SCHEMA, VIEWS
from bench.tpch.changes import Changes
from bench.tpch.data import files
from hornbeam.cli.common import progress
from hornbeam.connection import Connection
from hornbeam_server.api.rest.app import create_app
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.demo.results import new_console
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import program_of
from hornbeam_server.node.settings import Settings
from hornbeam_server.pipeline.build.driver import materialize
from hornbeam_server.pipeline.load.driver import load
from hornbeam_server.pipeline.reconcile.command import run as reconcile
from hornbeam_server.pipeline.refresh.driver import refresh
from hornbeam_server.pipeline.spark.session import LOCAL, session
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Put

JOINS = """
-- name: orders_of_a_customer
SELECT c_name, o_orderkey, o_totalprice FROM customer, orders
WHERE c_custkey = o_custkey AND c_custkey = ?;
-- name: lines_of_an_order
SELECT o_orderdate, l_linenumber, l_quantity FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND o_orderkey = ?;
"""
TIMEOUT_S = 600.0
DAMAGED_ROWS = 5


@asynccontextmanager
async def served(database: Database, settings: Settings) -> AsyncIterator[str]:
    """Serve `database` on a free port of the loopback interface. Yields the URL."""
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


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    scale: Annotated[float, "TPC-H's scale factor"] = 0.01
    batches: Annotated[int, "batches of deferred views to compare"] = 4
    seed: Annotated[int, "seed of the writer"] = 1
    master: Annotated[str, "Spark's master"] = LOCAL
    folder: Annotated[Path, "folder of the database; it is emptied"] = Path("var/demo-spark")


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    return parse(Options, "bench.spark_demo", __doc__, arguments)


class Server:
    """The database and its node, in their own thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = threading.Event()
        self._ended = asyncio.Event()
        self.url = ""

    @classmethod
    @contextmanager
    def open(cls, folder: Path) -> Iterator[Server]:
        server = cls(folder)
        thread = threading.Thread(target=lambda: asyncio.run(server._serve()), name="node")
        thread.start()
        server._ready.wait()
        try:
            yield server
        finally:
            server._loop.call_soon_threadsafe(server._ended.set)
            thread.join()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        # The queries of deferred views read whole relations, while a writer and Spark run. Spark
        # alone does the batches.
        settings = Settings(
            data=self._folder, statement_timeout_s=TIMEOUT_S, resident_refresh=False
        )
        try:
            self.database = await Database.open(settings)
            async with self.database, served(self.database, settings) as url:
                self.url = url.replace("http://", "hornbeam://")
                self._ready.set()
                await self._ended.wait()
        finally:
            self._ready.set()

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    async def damage(self, view: str) -> int:
        """Damage the first rows of a view in the store, without a transaction: delete and change
        them in turn. Returns their number."""
        codec = Codecs(self.database.catalog)(view)
        table, puts = codec.layout.table, []
        async for cells in self.database.store.scan(table, b"", None, NEWEST, limit=DAMAGED_ROWS):
            for number, cell in enumerate(cells):
                row = codec.decode(cell.value)
                text = next(i for i, value in enumerate(row) if isinstance(value, str))
                changed = codec.encode((*row[:text], "damaged", *row[text + 1 :]))
                puts.append(Put(cell.key, changed if number % 2 else TOMBSTONE))
        await self.database.store.put({table: puts}, self.database.watermark())
        return len(puts)


@dataclass
class Writer:
    """Runs random transactions, one after the other, in a thread, until `running` ends."""

    url: str
    changes: Changes
    done: int = 0
    error: Exception | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._write, name="writer")
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
        if self.error is not None:
            raise self.error

    def _write(self) -> None:
        try:
            with hornbeam.connect(self.url) as db, db.cursor() as cursor:
                for transaction in self.changes:
                    if self._stop.is_set():
                        return
                    for sql, parameters in transaction:
                        cursor.execute(sql, parameters)
                    db.commit()
                    self.done += 1
        except Exception as error:
            self.error = error


@contextmanager
def bar(work: str) -> Iterator[Callable[..., None]]:
    """Show a progress bar for `work`. Yields a function that takes the finished and total numbers
    of parts, and a note."""
    with progress() as bars:
        task = bars.add_task(work, total=None, note="")

        def show(done: int, total: int | None, note: str = "") -> None:
            bars.update(task, completed=done, total=total, note=note)

        yield show


def build(url: str, master: str, writer: Writer, console: Console) -> None:
    before = writer.done
    with bar("build") as show:
        report = materialize(url, [], master=master, progress=show)
    console.print(
        f"Built {', '.join(report.names)} by Spark: {report.rows:,} rows in {report.seconds:.1f} s,"
        f" while the writer committed {writer.done - before} transactions"
    )


def defer(
    server: Server, db: Connection, options: Options, writer: Writer, console: Console
) -> int:
    """Run batches of the deferred views, and compare each view with its query after every batch.
    Returns the number of differences."""
    found, catalog = 0, server.database.catalog
    programs = [program_of(catalog, name) for name in catalog.deferred_view]
    with session(options.master) as spark:
        for number in range(options.batches + 1):
            batch = f"Batch {number}" if number else "First build"
            with bar(batch) as show:
                show(0, len(programs), f"{len(programs)} views on Spark")
                done = refresh(spark.sparkContext, db.transport, server.url, "default")
                differing = []
                for compared, program in enumerate(programs):
                    show(compared, len(programs), f"{program.name} and its query")
                    if not same(db, program.name, program.sql_at(done.upto), done.upto):
                        differing.append(program.name)
            found += len(differing)
            lag_s = db.transport.json("GET", "/v1/groups")[0]["lag_s"]
            console.print(
                f"{batch} of {len(programs)} deferred views: {done.counts.changes:,} changes,"
                f" {done.counts.rows:,} rows put in {done.seconds:.1f} s, {lag_s:.1f} s behind"
                f" when compared; differences: {', '.join(differing) or 0}"
            )
    console.print(f"The writer has committed {writer.done} transactions by now.")
    return found


def same(db: Connection, view: str, sql: str, at: int) -> bool:
    """Whether a deferred view has the rows of its query at the snapshot `at`."""

    def answer(sql: str) -> list[str]:
        body = {"sql": sql, "parameters": [], "snapshot": at}
        return sorted(map(repr, db.transport.json("POST", "/v1/query", body)["rows"]))

    return answer(f"SELECT * FROM {view}") == answer(sql)


def repair(server: Server, options: Options, console: Console) -> int:
    """Damage a view, and repair it. Returns the number of remaining differences."""
    (view, *_) = server.database.catalog.view
    planted = server.run(server.damage(view))

    def checked(*, repair: bool) -> dict[str, Any]:
        with bar("reconcile") as show:
            return reconcile(
                server.url, [view], repair=repair, master=options.master, progress=show
            )

    report, after = checked(repair=True), checked(repair=False)
    rest = "" if report["repaired"] == planted else " (the writer has already put the other rows)"
    console.print(
        f"Damaged {planted} rows of {view}: reconcile has repaired {report['repaired']}{rest}, and"
        f" then finds {after['differences']} differences"
    )
    return int(after["differences"])


def main() -> int:
    options, console = parse_options(), new_console()
    shutil.rmtree(options.folder, ignore_errors=True)
    tables = files(options.scale)
    with Server.open(options.folder) as server, hornbeam.connect(server.url, timeout_s=600) as db:
        schema = SCHEMA.read_text()
        apply(db, schema, "", "node")
        sources = {name: [str(path)] for name, path in tables.items()}
        with bar("load") as show:
            loaded = load(
                server.url, sources, master=options.master, single_lines=True, progress=show
            )
        rows = sum(loaded.rows.values())
        rate = rows / loaded.seconds
        console.print(f"Loaded {rows:,} rows of TPC-H by Spark, {rate:,.0f} rows/s")
        writer = Writer(server.url, Changes(tables, options.seed))
        with writer.running():
            apply(db, schema, JOINS, "spark")
            build(server.url, options.master, writer, console)
            apply(db, schema + VIEWS.read_text(), JOINS, "node")
            found = defer(server, db, options, writer, console)
            found += repair(server, options, console)
    console.print(f"[bold]{found} differences[/bold]")
    return 1 if found else 0


if __name__ == "__main__":
    with ended_by_sigterm():
        sys.exit(main())
