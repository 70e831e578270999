"""Measures the work of Spark on this machine, in one run (`python -m bench.spark`).

TPC-H lies in an embedded store, with the join of customer, orders and lineitem as a view. Ratios
compare times of one run. The times include all work of Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Annotated

from pyspark.sql import SparkSession
from rich.console import Console

import hornbeam
from bench.deferred import deferred
from bench.initial import initial
from bench.materialize import apply, materialize, serving
from bench.measure import Figure, in_turns, print_figures, ratios
from bench.options import ROUNDS, parse
from bench.tpch import SCHEMA
from bench.tpch.data import files, load
from hornbeam.transport import Transport, open_transport, parse_url
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.pipeline.reconcile import job, plan
from hornbeam_server.pipeline.sources.reader import register
from hornbeam_server.pipeline.spark import export as exports
from hornbeam_server.pipeline.spark.session import LOCAL, session

VIEW = "customer__orders__lineitem"
WORKLOAD = (
    "SELECT c_name, o_orderdate, l_quantity FROM customer, orders, lineitem"
    " WHERE c_custkey = o_custkey AND o_orderkey = l_orderkey AND l_orderkey = ?;"
)
SECTION = "reconcile"


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    scale: Annotated[float, "TPC-H's scale factor"] = 0.05
    rows: Annotated[int, "rows below the deferred aggregate"] = 2_000_000
    changes: Annotated[int, "changes of these rows in a batch"] = 100_000
    rounds: Annotated[int, ROUNDS] = 5
    master: Annotated[str, "Spark's master"] = LOCAL


def main() -> None:
    options = parse(Options, "bench.spark", __doc__)
    console = Console()
    with database(options.scale) as url, session(options.master) as spark:
        register(spark)
        with closing(open_transport(parse_url(url), 600)) as transport:
            figures = reconcile(spark, transport, url, options.rounds)
        with serving() as empty:
            figures += materialize(spark, empty, options.rounds)
        with serving() as empty:
            figures += initial(spark, empty, options.rounds)
        figures += deferred(spark, options.rows, options.changes, options.rounds)
    print_figures(console, figures)


@contextmanager
def database(scale: float) -> Iterator[str]:
    """Yields the URL of an embedded store's server, with TPC-H loaded and the view built."""
    ddl, roots = SCHEMA.read_text(), ["customer"]
    with serving() as url:
        with hornbeam.connect(url, autocommit=True, timeout_s=600) as db:
            apply(db, ddl, "", "node", roots)
            load(db, files(scale))
            apply(db, ddl, WORKLOAD, "node", roots)
            while db.transport.json("GET", f"/v1/views/{VIEW}")["state"] != "readable":
                time.sleep(0.2)
        yield url


def reconcile(spark: SparkSession, transport: Transport, url: str, rounds: int) -> list[Figure]:
    """Compare reconciling an undamaged view with reading it through the data source."""
    context = spark.sparkContext
    rows = 0

    def read() -> None:
        frame = spark.read.format("hornbeam").options(url=url, view=VIEW).load()
        frame.write.format("noop").mode("overwrite").save()

    def alone() -> None:
        nonlocal rows
        export = exports.begin(transport)
        last = plan.last_relation(export.codecs().catalog, VIEW)
        tasks = job.tasks_of(export, [plan.RelationScan(last, (VIEW,))])
        found = job.compare(context, export, tasks, lambda _done, _total: None)
        exports.end(transport, export)
        assert not any(part.differences for part in found.values())
        rows = sum(part.rows for part in found.values() if part.name == VIEW)

    def with_indexes() -> None:
        report, _ = job.reconcile(context, transport, url, [VIEW])
        assert not report.differences

    taken = in_turns((read, alone, with_indexes), rounds)
    reading, reconciling, indexes = [tuple(turn.clock for turn in each) for each in taken]
    note = f"{rows} rows of {VIEW}"
    return [
        Figure(SECTION, "reading a view", "s", reading, note=note),
        Figure(SECTION, "reconciling it", "s", reconciling, note=note),
        Figure(SECTION, "reconciling ÷ reading", "×", ratios(reconciling, reading), at_most=1.5),
        Figure(SECTION, "with its indexes ÷ reading", "×", ratios(indexes, reading)),
    ]


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
