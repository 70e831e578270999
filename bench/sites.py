"""Served databases of benchmarks: a server over RocksDB, or several nodes on a real HBase."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from rich.console import Console

from bench.measure import Figure, run_in_folder
from bench.nodes import NodeProcesses
from hornbeam_server.cluster import Cluster
from hornbeam_server.demo.serving import server


@dataclass(frozen=True, slots=True)
class Site:
    """A served database: the ports of its nodes on the loopback interface, and its URL for
    clients."""

    ports: tuple[int, ...]
    url: str


Serve = Callable[[str], AbstractContextManager[Site]]
"""Serves a new, empty database while the context lasts. Its name is its folder's, and is used
once."""


Measure = Callable[[Serve, Callable[[str], object]], list[Figure]]
"""Measures on served databases. Its second argument shows the progress."""


@contextmanager
def sites(folder: Path, nodes: int, concurrent: int = 2_048) -> Iterator[Serve]:
    """Yields the function that serves databases in `folder`: each by one server over RocksDB
    (`nodes`: 0), or by so many nodes on one real HBase, which runs while the context lasts.

    A server or node runs up to `concurrent` requests at the same time.
    """
    with ExitStack() as stack:
        if nodes:
            cluster = stack.enter_context(Cluster.start(folder / "cluster"))
            yield lambda name: _on_hbase(cluster, folder / name, nodes, concurrent)
        else:
            yield lambda name: _embedded(folder / name, concurrent)


@contextmanager
def _embedded(folder: Path, concurrent: int) -> Iterator[Site]:
    with server(folder, max_concurrent_requests=str(concurrent)) as (port, _):
        yield Site((port,), f"hornbeam://127.0.0.1:{port}")


@contextmanager
def _on_hbase(cluster: Cluster, folder: Path, count: int, concurrent: int) -> Iterator[Site]:
    settings = {"max_concurrent_requests": str(concurrent), "resident_refresh": "false"}
    with NodeProcesses(cluster, folder, count, folder.name, settings) as nodes:
        yield Site(tuple(node.port for node in nodes.nodes), nodes.client_url)


def measure_at_sites(
    folder: Path,
    nodes: int,
    output: Path,
    settings: Mapping[str, Any],
    measure: Measure,
    console: Console,
) -> None:
    """`run_in_folder` for databases that are served in `folder` by so many `nodes` (`sites`)."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

    def measured() -> list[Figure]:
        with console.status("measuring") as status, sites(folder, nodes) as serve:
            return measure(serve, status.update)

    run_in_folder(folder, output, settings, measured, console)
