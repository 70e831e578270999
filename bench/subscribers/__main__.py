"""What many subscribers of one view cost a node: while nothing changes, and when a row does
(`make bench-subscribers`).

The node serves a database in a folder, in a process of its own. The subscribers are connections of
another process. First all of them want all rows of a view, then each wants a row of its own of
those of the view. Prints a table and writes a JSON report.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from rich.console import Console

import hornbeam
from bench.measure import Figure, run_in_folder
from bench.options import REPORT, parse
from bench.serving import Process
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.demo.serving import server

DDL = (
    "CREATE TABLE sale (s_id INTEGER PRIMARY KEY, s_shop INTEGER NOT NULL, s_amount INTEGER)",
    """CREATE MATERIALIZED VIEW by_shop WITH (refresh = 'live', interval = '100 ms') AS
SELECT s_shop, count(*) AS sales, sum(s_amount) AS amount FROM sale GROUP BY s_shop""",
)
SHOPS = 100
WAIT_S = 60.0
OTHERS = 8
"""Connections of the server that no subscriber has."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    subscribers: Annotated[int, "subscribers of the view"] = 10_000
    seconds: Annotated[float, "how long nothing changes"] = 60.0
    heartbeat_s: Annotated[float, "time between two messages without changes"] = 15.0
    changes: Annotated[int, "changes of a row"] = 10
    folder: Annotated[Path, "folder of the database; it is emptied"] = Path("var/bench-subscribers")
    output: Annotated[Path, REPORT] = Path("bench/reports/subscribers.json")


class Failed(AssertionError):
    """A subscriber was lost, or did not get a change or heartbeat."""


class Subscribers:
    """The process of the subscribers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def counts(self) -> dict[str, Any]:
        """The counts of `bench.subscribers.sockets`. Waits until all subscriptions have begun.
        Raises Failed if one was lost."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"lost": -1}')
        if found["lost"]:
            raise Failed(f"Subscribers were lost: {found}.")
        return found

    def until(self, changes: int) -> dict[str, Any]:
        """The counts once so many changes have come. Raises Failed if they do not come."""
        give_up, first = time.monotonic() + WAIT_S, 0.0
        while time.monotonic() < give_up:
            found = self.counts()
            first = first or found["first"]
            if found["changes"] >= changes:
                return found | {"first": first}
            time.sleep(0.01)
        raise Failed(f"{changes} changes were to come: {found}.")


@contextmanager
def subscribed(port: int, count: int, paths: Sequence[str]) -> Iterator[Subscribers]:
    command = [sys.executable, "-m", "bench.subscribers.sockets", str(port), str(count), *paths]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        try:
            yield Subscribers(process)
        finally:
            process.terminate()


def room() -> int:
    """The number of subscribers for which this system lets a server have connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard // 2 - OTHERS


def measure(options: Options) -> list[Figure]:
    count = min(options.subscribers, room())
    settings: dict[str, Any] = {
        "resident_refresh": True,
        "max_subscriptions": count,
        "max_connections": count + OTHERS,
        "max_concurrent_requests": 1_000,
    }
    with (
        server(options.folder / "database", **settings) as (port, process),
        hornbeam.connect(f"hornbeam://127.0.0.1:{port}", autocommit=True, timeout_s=60) as db,
    ):
        for statement in DDL:
            db.cursor().execute(statement)
        for shop in range(SHOPS):
            _sell(db, shop, shop)
        _refresh(db)
        figures = []
        everything = f"{count:,} subscribers of all rows"
        figures += _measured(options, everything, db, Process(process), port, [_path(options)])
        each = [_path(options, shop) for shop in range(SHOPS)]
        some = f"{count:,} subscribers of a row"
        figures += _measured(options, some, db, Process(process), port, each)
        return figures


def _measured(
    options: Options,
    section: str,
    db: hornbeam.Connection,
    server: Process,
    port: int,
    paths: Sequence[str],
) -> list[Figure]:
    """The figures of subscribers whose requests have `paths`, in turn."""
    count = min(options.subscribers, room())
    alone, memory, used = (
        server.share(options.seconds / 6),
        server.memory_kb(),
        server.processor_s(),
    )
    with subscribed(port, count, paths) as subscribers:
        before = subscribers.counts()
        begin_ms = (server.processor_s() - used) * 1000 / count
        grown_kb = (server.memory_kb() - memory) / count
        idle = server.share(options.seconds)
        after = subscribers.counts()
        beats = (after["heartbeats"] - before["heartbeats"]) / options.seconds
        wanted = count / options.heartbeat_s
        if beats < 0.9 * wanted and options.seconds >= 2 * options.heartbeat_s:
            raise Failed(f"{beats:.0f} heartbeats a second came, of {wanted:.0f}.")
        concerned = count / len(paths)
        rounds = [
            _changed(db, server, subscribers, number, int(concerned))
            for number in range(options.changes)
        ]
    _wait_for_the_end(db)
    firsts, lasts, taken = zip(*rounds, strict=True)
    return [
        Figure(section, "memory of a subscriber", "kB", (grown_kb,)),
        Figure(section, "processor time to begin", "ms", (begin_ms,), note="of a subscription"),
        Figure(section, "processor without them", "%", (alone,), note="of a core"),
        Figure(
            section, "processor while nothing changes", "%", (idle,), at_most=25,
            note=f"of a core; {beats:,.0f} heartbeats a second",
        ),
        Figure(section, "first subscriber", "ms", firsts, note="after the commit was answered"),
        Figure(section, "last subscriber", "ms", lasts, note=f"of {concerned:,.0f}"),
        Figure(section, "processor time of a change", "ms", taken, note="with its commit"),
    ]  # fmt: skip


def _changed(
    db: hornbeam.Connection, server: Process, subscribers: Subscribers, number: int, count: int
) -> tuple[float, float, float]:
    """A change that `count` subscribers get. Returns the milliseconds from the answer of its commit
    until the first and the last of them has it, and the server's milliseconds of processor."""
    wanted = subscribers.counts()["changes"] + count
    used = server.processor_s()
    _sell(db, time.time_ns() % (1 << 31), number % SHOPS)
    answered = time.monotonic()
    found = subscribers.until(wanted)
    taken = server.processor_s() - used
    first, last = found["first"] - answered, found["last"] - answered
    return first * 1000, last * 1000, taken * 1000


def _wait_for_the_end(db: hornbeam.Connection) -> None:
    """Wait until the server has ended all subscriptions. Raises Failed."""
    give_up = time.monotonic() + WAIT_S
    while "hornbeam_subscriptions 0.0" not in db.transport.text("/metrics"):
        if time.monotonic() > give_up:
            raise Failed("The server has not ended all subscriptions.")
        time.sleep(0.1)


def _path(options: Options, shop: int | None = None) -> str:
    given = {"name": "by_shop", "rows": "false", "heartbeat_s": options.heartbeat_s}
    if shop is not None:
        given["wanted"] = json.dumps({"s_shop": shop})
    return f"/v1/subscribe?{urlencode(given)}"


def _sell(db: hornbeam.Connection, number: int, shop: int) -> None:
    db.cursor().execute("INSERT INTO sale VALUES (?, ?, 5)", (number, shop))


def _refresh(db: hornbeam.Connection) -> None:
    db.cursor().execute("REFRESH MATERIALIZED VIEW by_shop")


def main(arguments: Sequence[str] | None = None) -> None:
    options, console = parse(Options, "bench.subscribers", __doc__, arguments), Console()
    run_in_folder(
        options.folder, options.output, asdict(options), lambda: measure(options), console
    )


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
