"""Live views that several nodes keep on a real HBase, after the evaluation of VMS: processor time
and lag by the number of nodes, and lag while regions split (`make bench-live-nodes`).

Eight groups have one view each, of the same SELECT, and the nodes share the groups. With
`--groups 1 --views 8` one group has all, and the nodes divide each batch. The services,
the nodes and the clients share one machine in one run. So processor time says more than rates, and
the lags are those of a busy machine. Needs Java 17 and Maven. `--help` lists the options.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import hornbeam
from bench import remote
from bench.connections import Connection
from bench.live_views.load import (
    CONNECTIONS,
    PLAIN,
    SELECT,
    Failed,
    Run,
    apply,
    fill,
    insertions,
    paced,
    watched,
)
from bench.measure import Figure
from bench.nodes import NodeProcesses, run_on_cluster
from bench.options import EMPTIED, REPORT, Numbers, parse
from bench.serving import Process, get
from hornbeam_server.cluster import Cluster
from hornbeam_server.cluster.admin import admin
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.demo.measures import percentile
from hornbeam_server.demo.tpcw.live import lags_s

VIEW = f"""
CREATE MATERIALIZED VIEW {{name}}
  WITH (refresh = 'live', interval = '250 ms', "group" = '{{group}}') AS {SELECT};
"""
BEFORE_SPLIT_S = 0.3
"""The regions split after this part of a run."""


NODES = Numbers((1, 2, 4))
SETTINGS = {"resident_refresh": "true"}


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    nodes: Annotated[Numbers, "numbers of nodes"] = NODES
    groups: Annotated[int, "number of groups"] = 8
    views: Annotated[int, "number of views of each group"] = 1
    rate: Annotated[int, "changes a second"] = 100
    seconds: Annotated[float, "seconds of a run"] = 15.0
    warm_up: Annotated[float, "seconds of a run that is not counted, to warm Java up"] = 30.0
    folder: Annotated[Path, EMPTIED] = Path("var/bench-live-nodes")
    output: Annotated[Path, REPORT] = Path("bench/reports/live-nodes.json")


class Views:
    """The views of a database on several nodes, and their writers."""

    def __init__(self, nodes: NodeProcesses, options: Options) -> None:
        self._nodes = nodes
        self._options = options
        self._requests: Iterator[bytes] = insertions()
        self._groups = [f"group{number}" for number in range(options.groups)]
        self._declared = {
            f"{group}_view{number}": group
            for group in self._groups
            for number in range(options.views)
        }
        self.names = [*self._declared]

    @property
    def ports(self) -> list[int]:
        return [node.port for node in self._nodes.nodes]

    def declare(self, *, views: bool) -> None:
        """Put the relations, and with `views` the views, into force, and build them."""
        declared = [
            VIEW.format(name=name, group=group) for name, group in self._declared.items() if views
        ]
        with self._connected() as db:
            apply(db, PLAIN + "".join(declared))
            remote.wait_built(db)
            if not views:
                fill(db)
            for name in self.names if views else ():
                db.cursor().execute(f"REFRESH MATERIALIZED VIEW {name}")

    async def run(self, seconds: float) -> tuple[Run, float]:
        """A run of the writers, and the seconds of processor time that the nodes took for it."""
        used = self._processor_s()
        run = await self._paced(seconds)
        return run, self._processor_s() - used

    async def watched(self, seconds: float) -> tuple[Run, list[float], float]:
        """The same with the lags of each commit in each group, in milliseconds."""
        used = self._processor_s()
        running = asyncio.ensure_future(self._paced(seconds))
        shown = await watched(self.ports[0], running, self._groups)
        run = running.result()
        lags = [
            lag * 1000
            for snapshots in shown.values()
            for lag in lags_s(run.commits, snapshots)
        ]  # fmt: skip
        return run, lags, self._processor_s() - used

    async def _paced(self, seconds: float) -> Run:
        every_s = 1 / self._options.rate
        return await paced(self.ports, self._requests, every_s, seconds, CONNECTIONS)

    def _processor_s(self) -> float:
        processes = [node.process for node in self._nodes.nodes if node.process is not None]
        return sum(Process(process.pid).processor_s() for process in processes)

    async def most_kept(self) -> int:
        """The most groups that one node keeps."""
        async with await Connection.open(self.ports[0]) as connection:
            groups = json.loads(await connection.ask(get("/v1/groups")))
        return max(Counter(group["node"] for group in groups).values())

    def check(self, run: Run) -> None:
        """Raises Failed if a view differs from its SELECT."""
        with self._connected() as db:
            db.bookmark = max(run.commits)
            for name in self.names:
                kept, computed = (
                    sorted(db.cursor().execute(sql).fetchall())
                    for sql in (f"SELECT * FROM {name}", SELECT)
                )
                if kept != computed:
                    raise Failed(f"{name} differs from its SELECT.")

    def _connected(self) -> closing[hornbeam.Connection]:
        return closing(hornbeam.connect(self._nodes.client_url, autocommit=True, timeout_s=600))


def measure(cluster: Cluster, options: Options, on_round: Callable[[str], None]) -> list[Figure]:
    figures: list[Figure] = []
    name = f"live{time.time_ns() // 1_000_000:x}"
    for count in options.nodes:
        title = f"{count} node{'s' if count > 1 else ''}"
        folder, database = options.folder / f"nodes{count}", f"{name}n{count}"
        with NodeProcesses(cluster, folder, count, database, SETTINGS) as nodes:
            views = Views(nodes, options)
            figures += asyncio.run(_kept(views, title, options, on_round))
            if count == max(options.nodes):
                split = partial(admin, cluster, "split", database)
                figures += asyncio.run(_split(views, title, split, options, on_round))
    return figures


async def _kept(
    views: Views, title: str, options: Options, on_round: Callable[[str], None]
) -> list[Figure]:
    """Processor time without and with the views, and the lags."""
    await asyncio.to_thread(views.declare, views=False)
    on_round(f"{title}, warming up")
    await views.run(options.warm_up)
    on_round(f"{title}, without views")
    bare, bare_s = await views.run(options.seconds)
    await asyncio.to_thread(views.declare, views=True)
    on_round(f"{title}, with {len(views.names)} views")
    run, lags, used_s = await views.watched(options.seconds)
    await asyncio.to_thread(views.check, run)
    before, after = (
        1e6 * seconds / len(each.commits) for seconds, each in ((bare_s, bare), (used_s, run))
    )
    note = (
        f"{options.groups} groups of {options.views}, at most {await views.most_kept()} at one node"
    )
    figure = partial(Figure, title)
    return [
        figure("processor time of a transaction without views", "µs", (before,)),
        figure("more for each view", "µs", ((after - before) / len(views.names),), note=note),
        *_lag_figures(title, lags),
    ]


async def _split(
    views: Views,
    title: str,
    split: Callable[[], int],
    options: Options,
    on_round: Callable[[str], None],
) -> list[Figure]:
    """The lags of a run in which the region of every table splits."""
    on_round(f"{title}, regions split")

    async def splitting() -> int:
        await asyncio.sleep(BEFORE_SPLIT_S * options.seconds)
        return await asyncio.to_thread(split)

    count, (run, lags, _) = await asyncio.gather(splitting(), views.watched(options.seconds))
    await asyncio.to_thread(views.check, run)
    return _lag_figures(f"{title}, {count} regions split", lags)


def _lag_figures(title: str, lags: Sequence[float]) -> list[Figure]:
    parts = {"median": 0.5, "99 %": 0.99, "longest": 1.0}
    return [
        Figure(title, f"lag, {part}", "ms", (percentile(lags, share),))
        for part, share in parts.items()
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "bench.live_views.nodes", __doc__, arguments)
    settings = asdict(options)
    run_on_cluster(
        options.folder,
        options.output,
        settings,
        lambda cluster, on_round: measure(cluster, options, on_round),
    )


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
