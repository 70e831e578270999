"""Emulated browsers on several nodes while nodes are killed, and a check of everything afterwards.

`demonstrate` uploads TPC-W's schema and workload, loads a population, and runs emulated browsers
over REST. While they run, a subscriber follows a live view at the node that does the view's
batches. That node is killed, and the subscriber goes on at another one; then the node that leads is
killed. In the end every view, index and foreign key is verified.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

import hornbeam
from bench import remote
from bench.peers.design import tpcw
from bench.served import N, Node, Nodes
from hornbeam_server.demo.measures import machine
from hornbeam_server.demo.results import print_measured
from hornbeam_server.demo.tpcw import LIVE
from hornbeam_server.demo.tpcw.data import RELATIONS, Population, Size
from hornbeam_server.demo.tpcw.live import Watched, node_of, watch
from hornbeam_server.demo.tpcw.sessions import BrowserRun, Measured, run_in_process

GO_ON_S = 30.0
"""A subscriber whose node was killed goes on at another one within this time."""


@dataclass(frozen=True, slots=True)
class Load:
    """The options of the load."""

    customers: Annotated[int, "customers of TPC-W; they determine addresses and orders"] = 300
    items: Annotated[int, "items of TPC-W"] = 300
    seconds: Annotated[float, "how long the emulated browsers run"] = 30.0
    sessions: Annotated[int, "number of emulated browsers"] = 8


@dataclass(frozen=True, slots=True)
class Report:
    """The results of the demo. `take_over_s`: maximum seconds from a kill until other nodes owned
    the node's roots. `subscriptions`: how many were open at the first node that was killed, and
    then at the other nodes."""

    nodes: int
    load_rows_s: float
    measured: Measured
    watched: Watched
    take_over_s: float
    subscriptions: tuple[int, int]
    differences: int
    checked: list[dict[str, Any]]

    @property
    def failed(self) -> bool:
        watched = all(self.subscriptions) and not self.watched.differing
        return bool(self.differences or not watched or self.measured.errors)


def demonstrate(nodes: Nodes[N], options: Load, console: Console) -> Report:
    """Apply the schema, load, run emulated browsers while nodes are killed, and verify."""
    size = Size(options.customers, options.items)
    with hornbeam.connect(nodes.client_url, autocommit=True) as db:
        console.rule("Views chosen for the roots {author, customer, country}")
        shop = tpcw(size)
        shop = replace(shop, ddl=shop.ddl + LIVE.read_text())
        console.print(remote.apply(db, shop), highlight=False, markup=False, soft_wrap=True)
        console.rule("Loading over REST, with all views and indexes")
        rate = _load(db, size, console)
        console.rule(
            f"{options.sessions} emulated browsers over REST for {options.seconds:g} s;"
            " the node that keeps the live view and the one that leads are killed"
        )
        found = asyncio.run(_run_browsers(nodes, size, options, console))
        console.rule("Every view and index recomputed by DuckDB and compared")
        report = remote.verify(db)
    return Report(len(nodes.nodes), rate, *found, report["differences"], report["checked"])


def _load(db: hornbeam.Connection, size: Size, console: Console) -> float:
    """Load the population. Returns rows per second."""
    population, began, rows = Population(size), time.monotonic(), 0
    for relation in RELATIONS:
        loaded = remote.load(db, relation, population.rows(relation))
        console.print(f"{relation}: {loaded} rows")
        rows += loaded
    return rows / (time.monotonic() - began)


async def _run_browsers(
    nodes: Nodes[N], size: Size, options: Load, console: Console
) -> tuple[Measured, Watched, float, tuple[int, int]]:
    """Run the emulated browsers, watch the live view, and kill the nodes that keep it and that
    lead. Returns the measurements, the maximum seconds from a kill until the other nodes own all
    roots and have recovered the killed node's commits, and `Report.subscriptions`."""
    settings = BrowserRun(size.customers, size.items, options.sessions, options.seconds)
    browsers = asyncio.ensure_future(run_in_process(nodes.client_url, settings))
    keeping = await asyncio.to_thread(_keeping, nodes)
    others = [node for node in nodes.nodes if node is not keeping]
    first = nodes.client_url_of([keeping, *others])
    watching = asyncio.ensure_future(watch(nodes.client_url, browsers, first))
    await asyncio.sleep(options.seconds / 4)
    before = await asyncio.to_thread(_subscriptions, [keeping])
    going_on = asyncio.ensure_future(_going_on(others, before))
    take_over_s = await _killed(nodes, keeping, "which keeps the live view", console)
    after = await going_on
    leading = await asyncio.to_thread(nodes.leading)
    if leading is not keeping:
        later_s = await _killed(nodes, leading, "which leads", console)
        take_over_s = max(take_over_s, later_s)
    return await browsers, await watching, take_over_s, (before, after)


async def _going_on(nodes: Sequence[Node], count: int) -> int:
    """The subscriptions that are open at nodes, once they are so many, or after `GO_ON_S`."""
    give_up = time.monotonic() + GO_ON_S
    while (found := await asyncio.to_thread(_subscriptions, nodes)) < count:
        if time.monotonic() > give_up:
            break
        await asyncio.sleep(0.2)
    return found


def _subscriptions(nodes: Sequence[Node]) -> int:
    """The subscriptions that are open at nodes."""
    found = 0.0
    for node in nodes:
        metrics = node.get("/metrics", 5).raise_for_status()
        name, lines = "hornbeam_subscriptions ", metrics.text.splitlines()
        found += sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))
    return int(found)


def _keeping(nodes: Nodes[N]) -> N:
    """The node that does the batches of the live view."""
    with hornbeam.connect(nodes.client_url) as db:
        url = node_of(db)
    return next(node for node in nodes.nodes if node.url == url)


async def _killed(nodes: Nodes[N], node: Node, role: str, console: Console) -> float:
    """Kill a node, and start it again when other nodes own its roots. Returns the seconds until
    they do."""
    await asyncio.to_thread(node.kill)
    killed = time.monotonic()
    await asyncio.to_thread(nodes.settled)
    take_over_s = time.monotonic() - killed
    console.print(f"Killed {node.name}, {role}; others own its roots after {take_over_s:.1f} s")
    await asyncio.to_thread(node.start)
    await asyncio.to_thread(nodes.settled)
    console.print(f"{node.name} is back, and owns its share")
    return take_over_s


def finished(report: Report, options: Load, folder: Path, console: Console) -> int:
    """Print the report and write it to `report.json` in `folder`. Returns the exit code: 0 without
    differences and errors."""
    _print(console, report)
    written = folder / "report.json"
    written.write_text(json.dumps(_document(report, options, folder), indent=2, default=str) + "\n")
    console.print(f"Written: {written}")
    return 1 if report.failed else 0


def _document(report: Report, options: Load, folder: Path) -> dict[str, Any]:
    return {
        "machine": machine(folder),
        "nodes": report.nodes,
        "customers": options.customers,
        "load_rows_s": round(report.load_rows_s),
        "interactions": report.measured.interactions,
        "errors": report.measured.errors,
        "live_view": report.watched.json(),
        "take_over_s": round(report.take_over_s, 2),
        "subscriptions_at_the_killed_node": report.subscriptions[0],
        "subscriptions_then_at_others": report.subscriptions[1],
        "rest_p50_ms": {
            name: statistics.median(values) for name, values in report.measured.latencies.items()
        },
        "differences": report.differences,
        "checked": report.checked,
    }


def _print(console: Console, report: Report) -> None:
    print_measured(console, report.measured)
    console.print(f"Load: {report.load_rows_s:,.0f} rows/s with all views, over REST")
    console.print(
        f"{report.measured.interactions} interactions, {len(report.measured.errors)} errors;"
        f" a killed node's roots had other owners after {report.take_over_s:.1f} s at most"
    )
    before, after = report.subscriptions
    console.print(
        f"Followed live view of sales by subject: {report.watched.text()}; {before}"
        f" subscriptions were at the killed node, and then {after} at others"
    )
    rows = sum(item["rows"] for item in report.checked)
    console.print(
        f"Verified {len(report.checked)} views, indexes and foreign keys, {rows:,} rows:"
        f" [bold]{report.differences} differences[/bold]"
    )
