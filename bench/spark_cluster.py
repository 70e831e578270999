"""Measures Spark's work over a real HBase, in one run (`make bench-spark-cluster`).

HBase, one node and Spark share one machine, so ratios say more than figures. Needs Java 17 and
Maven. `--help` lists the options.

Scans: a relation and a view, each in one region, are read in turn by three readers: a partition of
the data source, in this process and without Spark, to Arrow; happybase, to the stored bytes; and
Spark with all its tasks. Processor time is this process's, which uses one core at a time.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import happybase
import structlog
from pyspark.sql import SparkSession
from rich.console import Console

from bench.initial import initial
from bench.materialize import VIEW, materialize
from bench.measure import Figure, Taken, in_turns, print_figures, ratios, write_report
from bench.nodes import NodeProcesses
from bench.options import EMPTIED, REPORT, ROUNDS, parse
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.cluster import Cluster
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.pipeline.sources.reader import Reader, register
from hornbeam_server.pipeline.spark.export import Export, begin
from hornbeam_server.pipeline.spark.session import LOCAL, session
from hornbeam_server.schema.collector import settle_collector
from hornbeam_server.storage.hbase import names
from hornbeam_server.storage.hbase.cells import FAMILY, QUALIFIER
from hornbeam_server.storage.source import HBaseSource

BATCH = 2_000
"""Rows in a call of happybase."""
GOAL = 0.6
"""A share of happybase's rows per second."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    rows: Annotated[int, "rows of the view that is built and read"] = 200_000
    rounds: Annotated[int, ROUNDS] = 5
    single: Annotated[int, "rows that are inserted one by one"] = 1_600
    folder: Annotated[Path, EMPTIED] = Path("var/bench-spark-cluster")
    output: Annotated[Path, REPORT] = Path("bench/reports/spark-cluster.json")


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    return parse(Options, "bench.spark_cluster", __doc__, arguments)


def scans(spark: SparkSession, cluster: Cluster, url: str, options: Options) -> list[Figure]:
    with closing(open_transport(parse_url(url), 60)) as node:
        export = begin(node)
    return [
        figure
        for kind, name in (("relation", "orders"), ("view", VIEW))
        for figure in _scan(
            name,
            options,
            partial(_partition, export, name),
            partial(_bare, cluster, export, name),
            partial(_whole, spark, url, kind, name),
        )
    ]


def _partition(export: Export, name: str) -> int:
    """Read all rows as a task of the data source does. Returns their number."""
    reader = Reader(export, name, export.codecs()(name).layout.columns)
    (part,) = reader.partitions()
    return sum(batch.num_rows for batch in reader.read(part))


def _bare(cluster: Cluster, export: Export, name: str) -> int:
    """Read all rows with happybase. Returns their number."""
    assert isinstance(export.source, HBaseSource)
    table = names.encode(export.codecs()(name).layout.table)
    columns = [FAMILY + b":" + QUALIFIER]
    with closing(happybase.Connection(*cluster.thrift1)) as connection:
        found = connection.table(export.source.namespace.encode() + b":" + table)
        return sum(1 for _ in found.scan(columns=columns, batch_size=BATCH))


def _whole(spark: SparkSession, url: str, kind: str, name: str) -> None:
    frame = spark.read.format("hornbeam").options(**{"url": url, kind: name}).load()
    frame.write.format("noop").mode("overwrite").save()


def _scan(
    name: str,
    options: Options,
    partition: Callable[[], int],
    bare: Callable[[], int],
    whole: Callable[[], None],
) -> list[Figure]:
    assert partition() == bare() == options.rows
    ours, theirs, all_of_spark = in_turns((partition, bare, whole), options.rounds)
    section = f"scan of {name}"

    def rate(name: str, taken: Sequence[Taken]) -> Figure:
        rates = tuple(options.rows / turn.clock for turn in taken)
        used = sorted(turn.processor for turn in taken)[len(taken) // 2] / options.rows * 1e6
        return Figure(section, name, "rows/s", rates, note=f"{used:.1f} µs of processor time a row")

    clocks = [[turn.clock for turn in taken] for taken in (theirs, ours, all_of_spark)]
    processor = [[turn.processor for turn in taken] for taken in (theirs, ours)]
    return [
        rate("a partition of the data source", ours),
        rate("happybase", theirs),
        Figure(section, "partition ÷ happybase", "×", ratios(*clocks[:2]), at_least=GOAL),
        Figure(section, "the same by processor time", "×", ratios(*processor), at_least=GOAL),
        Figure(section, "all of Spark ÷ happybase", "×", ratios(clocks[0], clocks[2])),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    options, console = parse_options(arguments), Console()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    shutil.rmtree(options.folder, ignore_errors=True)
    began = time.perf_counter()
    with (
        Cluster.start(
            options.folder / "cluster",
            on_change=lambda name, state: console.print(f"{name}: {state}"),
        ) as cluster,
        NodeProcesses(cluster, options.folder / "nodes", 1) as nodes,
        session(LOCAL) as spark,
    ):
        register(spark)
        url, rounds = nodes.client_url, options.rounds
        figures = materialize(spark, url, rounds, options.rows, options.single)
        figures += scans(spark, cluster, url, options)
        with NodeProcesses(cluster, options.folder / "load", 1, database="load") as others:
            figures += initial(spark, others.client_url, rounds, options.rows)
    print_figures(console, figures)
    elapsed_s = time.perf_counter() - began
    write_report(options.output, options.folder, asdict(options), figures, elapsed_s)
    console.print(f"{elapsed_s:.1f} s; written: {options.output}")


if __name__ == "__main__":
    settle_collector()  # as tasks in Spark's workers do
    with ended_by_sigterm():
        main()
