"""The evaluation of Synergy (section IX) on this machine: `make bench-peers`.

It measures Hornbeam, Phoenix without and with transactions, our views maintained by an application
over Phoenix, the paper's own protocol, and PostgreSQL. All systems have the same data, and run the
same statements, interleaved. All but PostgreSQL use one HBase on the same machine. Needs Java 17,
Maven, PostgreSQL (Debian: `apt install postgresql`) and the libraries of `requirements-bench.lock`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import logging
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import structlog
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from bench.nodes import NodeProcesses
from bench.peers import report
from bench.peers.bare import bare_operations
from bench.peers.contention import ContendedUpdates, contention
from bench.peers.design import Source, joins, tpcw
from bench.peers.files import HBaseFiles
from bench.peers.hornbeam import HornbeamOnHBase
from bench.peers.locks import lock_costs
from bench.peers.measuring import Measured, OnStep, measure
from bench.peers.paper import Paper
from bench.peers.phoenix import Phoenix
from bench.peers.phoenix_cluster import PhoenixCluster, phoenix_cluster
from bench.peers.port import Cannot, Design, Row, System, Task
from bench.peers.postgres import PostgreSQL
from bench.peers.results import (
    BASELINE,
    HORNBEAM,
    MVCC_A,
    PAPER,
    PHOENIX,
    POSTGRES,
    POSTGRES_VIEWS,
    Contention,
    Kind,
    Results,
    Statement,
    Throughput,
    Timing,
    way,
)
from bench.peers.script import script
from bench.peers.shopping import shopping
from bench.peers.throughput import Points, throughput
from bench.peers.whole import Reader, drained
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.demo.measures import machine
from hornbeam_server.demo.tpcw.data import TODAY, Size
from hornbeam_server.demo.tpcw.sessions import MIXES
from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.optimizer.rewrite import rewrite
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.collector import settle_collector
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.storage.hbase.store import HBaseStore
from hornbeam_server.storage.hdfs.log import HdfsLog

BARE_ROUNDS = 200
COMPARED_CUSTOMERS = 500
"""Up to this number of customers all values of whole joins are compared; above it only the numbers
of rows."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    customers: int = 1_000
    items: int = 1_000
    rounds: int = 10
    warm_up: int = 3
    seed: int = 7
    joins: tuple[int, ...] = (50, 500)
    join_rounds: int = 3
    locks: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100)
    lock_rounds: int = 10
    skews: tuple[float, ...] = (0.0, 0.6, 0.9, 1.2)
    contenders: int = 16
    nodes: tuple[int, ...] = (1, 2, 4)
    clients: tuple[int, ...] = (1, 8, 32, 128)
    mixes: tuple[str, ...] = tuple(MIXES)
    seconds: float = 5.0
    without: tuple[str, ...] = ()
    region_heap_mb: int = 1_024
    folder: Path = Path("var/bench-peers")
    output: Path = Path("bench/reports/peers.json")


QUICK = Options(
    customers=100,
    items=100,
    rounds=3,
    warm_up=1,
    joins=(),
    locks=(),
    skews=(1.2,),
    nodes=(1,),
    clients=(16,),
    mixes=("shopping",),
    seconds=3.0,
    without=(MVCC_A, PAPER, POSTGRES_VIEWS),
    output=Path("var/peers-quick.json"),
)
"""Creating tables and indexes takes most of the time: half a minute for each further system, for
whole joins and for locks. A quick run does not overwrite the report of the full run."""


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.run", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="a small run of a few minutes, for daily use")
    add("--customers", type=int, help="customers of TPC-W; they determine addresses and orders")
    add("--items", type=int, help="items of TPC-W")
    add("--rounds", type=int, help="counted runs of each statement")
    add("--warm-up", type=int, help="runs of each statement before the counted ones")
    add("--seed", type=int, help="seed of the statements' values")
    add("--joins", type=int, nargs="*", help="customers of the whole joins; × 111 = rows")
    add("--join-rounds", type=int, help="counted runs of a whole join")
    add(
        "--locks",
        type=int,
        nargs="*",
        help="numbers of rows, each of another root, in a transaction",
    )
    add("--lock-rounds", type=int, help="counted transactions of each number of rows")
    add(
        "--skews",
        type=float,
        nargs="*",
        help="exponents of Zipf's law, which draws the updated rows",
    )
    add("--contenders", type=int, help="concurrent clients that update the same rows (contention)")
    add("--nodes", type=int, nargs="*", help="numbers of Hornbeam's nodes for emulated browsers")
    add("--clients", type=int, nargs="*", help="numbers of concurrent emulated browsers")
    add("--mixes", nargs="*", choices=MIXES, help="mixes of the emulated browsers")
    add("--seconds", type=float, help="seconds of each point of browsers and of contention")
    add("--without", nargs="*", help="names of systems to leave out")
    add(
        "--region-heap-mb",
        type=int,
        help="heap of HBase's region server; 1024 is too small for whole joins of 5000 customers",
    )
    add("--folder", type=Path, help="folder of cluster and databases; it is emptied")
    add("--output", type=Path, help="the JSON report; an HTML page is written beside it")
    given = {k: v for k, v in vars(parser.parse_args(arguments)).items() if v is not None}
    start = QUICK if given.pop("quick") else Options()
    lists = {k: tuple(v) for k, v in given.items() if isinstance(v, list)}
    return replace(start, **(given | lists))


# ---------------------------------------------------------------- systems


@contextmanager
def hornbeam_on(base: PhoenixCluster, folder: Path, source: Source) -> Iterator[HornbeamOnHBase]:
    """Yields Hornbeam on HBase with one node, which runs in its own process."""
    database = _fresh("hornbeam")
    with (
        NodeProcesses(base.cluster, folder, 1, database=database) as nodes,
        closing(HornbeamOnHBase(nodes.client_url, source, HBaseFiles(base, database))) as system,
    ):
        yield system


class PaperOnHBase(Paper):
    """The paper's system with its rows in HBase, through the gateway that Hornbeam uses, and its
    log in HDFS."""

    def __init__(self, base: PhoenixCluster, design: Design) -> None:
        database, cluster = _fresh("paper"), base.cluster
        super().__init__(
            lambda: HBaseStore([cluster.thrift], namespace=database),
            lambda: HdfsLog.open(
                cluster.hdfs_url, f"/{database}/log", "slave", 1, catalog_version=1
            ),
            design,
        )
        self._files = HBaseFiles(base, database)

    def loaded(self) -> None:
        super().loaded()
        self._files.flush()

    def sizes(self) -> Mapping[str, int]:
        return self._files.sizes()


def _fresh(name: str) -> str:
    """A new name for a database."""
    return f"{name}{time.time_ns() // 1_000_000:x}"


def all_systems(
    base: PhoenixCluster, options: Options, source: Source
) -> dict[str, Callable[[], AbstractContextManager[System]]]:
    """By name: a function that starts the system. PostgreSQL comes first: its answers are the
    reference."""
    design, folder = source.design, options.folder

    def phoenix(
        name: str, catalog: Catalog, schema: str, *, transactional: bool
    ) -> Callable[[], AbstractContextManager[System]]:
        return lambda: closing(Phoenix(name, base, catalog, schema, transactional=transactional))

    return {
        POSTGRES: lambda: PostgreSQL(folder / "postgres", design),
        HORNBEAM: lambda: hornbeam_on(base, folder / "hornbeam", source),
        PHOENIX: phoenix(PHOENIX, design.plain, "plain", transactional=False),
        BASELINE: phoenix(BASELINE, design.plain, "baseline", transactional=True),
        MVCC_A: phoenix(MVCC_A, design.views, "mvcca", transactional=True),
        PAPER: lambda: closing(PaperOnHBase(base, design)),
        POSTGRES_VIEWS: lambda: PostgreSQL(folder / "postgres-views", design, views=True),
    }


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description:>30}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), console=console)


def load(systems: Mapping[str, System], source: Source, console: Console) -> dict[str, float]:
    """Load the source into all systems. Returns rows per second by system. The times include views
    and indexes."""
    rates, total = {}, sum(1 for name in source.relations for _ in source.rows(name))
    with _progress(console) as progress:
        for name, system in systems.items():
            task = progress.add_task(name, total=total)
            began = time.perf_counter()
            for relation in source.relations:
                system.load(relation, _counted(source.rows(relation), progress, task))
            system.loaded()
            rates[name] = total / (time.perf_counter() - began)
    return rates


def _counted(rows: Iterator[Row], progress: Progress, task: TaskID) -> Iterator[Row]:
    for row in rows:
        progress.advance(task)
        yield row


# ---------------------------------------------------------------- measurements


def statements(tasks: Mapping[str, Task], catalog: Catalog) -> tuple[Statement, ...]:
    """The statements for the report, with their kinds and whether a view serves each."""
    return tuple(_statement(task, catalog) for task in tasks.values())


def _statement(task: Task, catalog: Catalog) -> Statement:
    if not task.reads:
        return Statement(task.name, task.sql, "write")
    bound = bind(task.sql, catalog)
    several = any(len(block.sources) > 1 for block in bound.statement.blocks)
    kind: Kind = "join" if several else "read"
    return Statement(task.name, task.sql, kind, view=bool(rewrite(bound, catalog).uses))


def whole_joins(
    base: PhoenixCluster, options: Options, customers: int, console: Console
) -> dict[str, dict[str, Timing]]:
    """The times of Q1 and Q2 with all rows, by scans of views and by joins; by query and `way`. A
    system that cannot be loaded has an error."""
    source, schema = joins(customers), f"joins{customers}"
    with hornbeam_on(base, options.folder / schema, source) as ours:
        phoenix = Phoenix(PHOENIX, base, source.design.views, schema, transactional=False)
        systems: dict[str, HornbeamOnHBase | Phoenix] = {HORNBEAM: ours, PHOENIX: phoenix}
        failed = {}
        for name, system in systems.items():
            try:
                load({name: system}, source, console)
            except Cannot as error:
                failed[name] = Timing(error=str(error))
        with ExitStack() as stack:
            readers = {
                way(name, view=view): stack.enter_context(closing(system.session(use_views=view)))
                for view in (True, False)
                for name, system in systems.items()
                if name not in failed
            }
            found = _drained(readers, options, source, customers, console)
    ways = {way(name, view=view): failed[name] for name in failed for view in (True, False)}
    return {query: timings | ways for query, timings in found.items()}


def _drained(
    readers: Mapping[str, Reader],
    options: Options,
    source: Source,
    customers: int,
    console: Console,
) -> dict[str, dict[str, Timing]]:
    found, rounds = {}, options.join_rounds
    with _progress(console) as progress:
        total = len(source.tasks) * (1 + rounds) * len(readers)
        on_step = _stepper(progress, progress.add_task("", total=total))
        for query, task in source.tasks.items():
            compare = customers <= COMPARED_CUSTOMERS
            by_way = drained(readers, task, rounds, compare=compare, on_step=on_step)
            found[query] = {way: timing(measured) for way, measured in by_way.items()}
    return found


def locks(base: PhoenixCluster, options: Options, console: Console) -> dict[str, dict[int, Timing]]:
    customers = max(options.locks, default=0)
    if not customers:
        return {}
    source = joins(customers)
    with ExitStack() as stack:
        ours = stack.enter_context(hornbeam_on(base, options.folder / "locks", source))
        paper = stack.enter_context(closing(PaperOnHBase(base, source.design)))
        load({HORNBEAM: ours, PAPER: paper}, source, console)
        return lock_costs(ours.url, paper, customers, options.locks, options.lock_rounds)


def contended(
    systems: Mapping[str, System], options: Options, source: Source, console: Console
) -> dict[str, tuple[Contention, ...]]:
    """Concurrent clients refresh sessions: they update a customer's row, and its view rows."""
    updates = ContendedUpdates(
        source.tasks["refresh_session"],
        lambda customer: (TODAY, TODAY + dt.timedelta(hours=2), customer),
        options.customers,
        options.skews,
        options.contenders,
        options.seconds,
    )
    with _progress(console) as progress:
        total = len(systems) * len(options.skews)
        return contention(systems, updates, _stepper(progress, progress.add_task("", total=total)))


def browsed(
    base: PhoenixCluster,
    systems: Mapping[str, System],
    options: Options,
    source: Source,
    console: Console,
) -> dict[str, tuple[Throughput, ...]]:
    """Run emulated browsers on each system, with the data that the statements have left."""
    size, clients = Size(options.customers, options.items), options.clients
    with _progress(console) as progress:
        total = len(systems) * len(options.mixes) * len(clients)
        on_step = _stepper(progress, progress.add_task("", total=total))
        seconds = options.seconds
        return shopping(
            systems, base.cluster, source.tasks, size, options.mixes, clients, seconds, on_step
        )


def nodes(
    base: PhoenixCluster, options: Options, source: Source, console: Console
) -> tuple[tuple[Throughput, ...], dict[str, dict[str, Timing]]]:
    points = Points(options.nodes, options.clients, options.mixes, options.seconds)
    folder, size = options.folder / "browsers", Size(options.customers, options.items)
    with _progress(console) as progress:
        on_step = _stepper(progress, progress.add_task("", total=points.count))
        return throughput(base.cluster, folder, _fresh("shop"), source, size, points, on_step)


def _stepper(progress: Progress, task: TaskID) -> OnStep:
    """A callback that advances the bar by a step, and shows the step's name."""
    return lambda name: progress.update(task, advance=1, description=name)


def timing(measured: Measured) -> Timing:
    return Timing(tuple(measured.times_ms), measured.error, measured.rows, measured.equal)


def run(options: Options, console: Console) -> Iterator[Results]:
    """Yields all results but whole joins, then the results with the whole joins of each number of
    customers. The largest number may take most of an hour, and leaves the cluster busy for a
    while."""
    began = dt.datetime.now(dt.UTC)
    source = tpcw(Size(options.customers, options.items))
    shutil.rmtree(options.folder, ignore_errors=True)

    def print_state(name: str, state: str) -> None:
        console.print(f"{name}: {state}", highlight=False)

    with phoenix_cluster(
        options.folder / "cluster", region_heap_mb=options.region_heap_mb, on_change=print_state
    ) as base:
        with ExitStack() as stack:
            systems = {
                name: stack.enter_context(start())
                for name, start in all_systems(base, options, source).items()
                if name not in options.without
            }
            console.rule("Loading")
            rates = load(systems, source, console)
            console.rule("All statements, in turn on all systems")
            found = _measured(systems, options, source, console)
            bare = bare_operations(base.cluster, BARE_ROUNDS)
            storage = {name: dict(system.sizes()) for name, system in systems.items()}
            console.rule(f"{options.contenders} concurrent clients, on one system at a time")
            contention_found = contended(systems, options, source, console)
            console.rule("Emulated browsers, on one system at a time")
            shopping_found = browsed(base, systems, options, source, console)
            versions = {name: dict(system.versions) for name, system in systems.items()}
        console.rule("Locks")
        locked = locks(base, options, console)
        console.rule("Emulated browsers at one node of Hornbeam, and at several")
        throughput_of_nodes, pieces = nodes(base, options, source, console)
        results = Results(
            began=began.isoformat(timespec="seconds"),
            command=shlex.join(["python", "-m", "bench.peers.run", *sys.argv[1:]]),
            options={k: str(v) if isinstance(v, Path) else v for k, v in asdict(options).items()},
            machine=machine(options.folder),
            versions_by_system=versions,
            systems=tuple(rates),
            statements=statements(source.tasks, source.design.views),
            timings={
                system: {name: timing(each) for name, each in of_system.items()}
                for system, of_system in found.items()
            },
            storage=storage,
            bare={name: Timing(tuple(times)) for name, times in bare.items()},
            joins={},
            load_rows_s=rates,
            locks=locked,
            contention=contention_found,
            throughput=throughput_of_nodes,
            shopping=shopping_found,
            pieces=pieces,
        )
        yield results
        for customers in options.joins:
            console.rule(f"Whole joins, {customers} customers")
            of_size = whole_joins(base, options, customers, console)
            results = replace(results, joins={**results.joins, customers: of_size})
            yield results


def _measured(
    systems: Mapping[str, System], options: Options, source: Source, console: Console
) -> dict[str, dict[str, Measured]]:
    size = Size(options.customers, options.items)
    steps = script(size, options.warm_up + options.rounds, options.seed)
    with _progress(console) as progress:
        on_step = _stepper(progress, progress.add_task("", total=len(steps)))
        return measure(systems, steps, source.tasks, warm_up=options.warm_up, on_step=on_step)


def main(arguments: Sequence[str] | None = None) -> None:
    options, console = parse_options(arguments), Console()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    settle_collector()
    found, broken = None, False
    try:
        for results in run(options, console):
            found = report.Report(results)
            report.write(found, options.output)
    except (HornbeamError, Cannot) as error:
        broken = True
        console.print(f"bench-peers: {error}", style="red", markup=False, highlight=False)
    if found is not None:
        console.print(report.markdown(found), markup=False, highlight=False, soft_wrap=True)
        console.print(f"Written: {options.output} and {options.output.with_suffix('.html')}")
    if broken:
        sys.exit(1)


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
