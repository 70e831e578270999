"""The main job on a real cluster, while nodes are killed: `make demo-cluster`.

Starts HDFS, ZooKeeper, HBase and three Hornbeam nodes on this machine, and runs the load of
`bench/failover.py` on them. Needs Java 17 and Maven.
`python -m bench.cluster_demo --help` lists the options.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import httpx
from rich.console import Console

import hornbeam
from bench.failover import Load, demonstrate, finished
from bench.nodes import NodeProcesses
from bench.options import parse
from hornbeam_server.cluster import Cluster
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.demo.results import new_console
from hornbeam_server.schema.errors import HornbeamError


@dataclass(frozen=True, slots=True)
class Options(Load):
    """The options that `--help` explains."""

    nodes: Annotated[int, "number of Hornbeam nodes"] = 3
    folder: Annotated[Path, "folder of the cluster and the nodes"] = Path("var/demo-cluster")
    keep: Annotated[bool, "leave HBase running at the end"] = False


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    return parse(Options, "bench.cluster_demo", __doc__, arguments)


def run(options: Options, console: Console) -> int:
    """Run the demo. Returns the exit code: 0 without differences and errors."""
    shutil.rmtree(options.folder / "nodes", ignore_errors=True)
    console.rule("HDFS, ZooKeeper and HBase on this machine")
    cluster = Cluster.start(
        options.folder / "cluster", on_change=lambda name, state: console.print(f"{name}: {state}")
    )
    try:
        database = f"demo{time.time_ns() // 1_000_000:x}"
        with NodeProcesses(
            cluster, options.folder / "nodes", options.nodes, database=database
        ) as nodes:
            report = demonstrate(nodes, options, console)
    finally:
        if not options.keep:
            console.print("Stopping the cluster")
            cluster.stop()
    return finished(report, options, options.folder, console)


def main() -> None:
    options, console = parse_options(), new_console()
    try:
        sys.exit(run(options, console))
    except (HornbeamError, hornbeam.Error, httpx.HTTPError) as error:
        console.print(f"demo-cluster: {error}", style="red", markup=False, highlight=False)
        sys.exit(1)


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
