"""`hornbeam cluster up`, `down` and `status`: a complete HBase cluster on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from hornbeam.cli.common import OUT, AsJson, fail, print_json, progress, table
from hornbeam.errors import from_problem
from hornbeam.server_package import server_module

Dir = Annotated[
    Path, typer.Option("--dir", help="The cluster's folder: configuration, data, logs.")
]
_FOLDER = Path("var/cluster")


def register(app: typer.Typer) -> None:
    cluster = typer.Typer(help="HBase, HDFS and ZooKeeper on this machine.", no_args_is_help=True)
    cluster.command()(up)
    cluster.command()(down)
    cluster.command()(status)
    app.add_typer(cluster, name="cluster")


def up(
    folder: Dir = _FOLDER,
    region_servers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Region servers. Default: 1, or the existing number.", show_default=False
        ),
    ] = None,
    data_nodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Data nodes; HDFS keeps up to 3 copies. Default: 1, or the existing number.",
            show_default=False,
        ),
    ] = None,
    gateways: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Thrift 2 gateways. Default: 1, or the existing number.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PORT",
            help="The port of a process, for example thrift=9091. Other processes get free ports.",
        ),
    ] = None,
    hbase: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="HBase of a new cluster, for example 2.5.8, with a Hadoop that it goes with.",
        ),
    ] = None,
    hadoop: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Hadoop of a new cluster.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds until all must be healthy.")] = 240,
    as_json: AsJson = False,
) -> None:
    """Start the processes that do not run, and wait until all are healthy. Needs Java 17 and Maven.

    The first start fetches HBase and Hadoop from Maven Central (125 MB). All processes listen on
    127.0.0.1. A start that fails or is interrupted stops the processes that it has started.
    """
    ports = dict(_named_port(text) for text in port or ())
    with _control() as control, _Watch() as watch:
        cluster = control.Cluster.start(
            folder,
            region_servers=region_servers,
            data_nodes=data_nodes,
            gateways=gateways,
            hbase_version=hbase,
            hadoop_version=hadoop,
            ports=ports,
            timeout_s=timeout,
            on_change=watch.up,
        )
        statuses = cluster.status()
    _show(cluster, statuses, as_json)


def down(
    folder: Dir = _FOLDER,
    now: Annotated[
        bool,
        typer.Option(
            "--now", help="Kill the processes, like a power cut. The next start recovers."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Stop all processes, each before the processes that it needs. The data stay."""
    with _control() as control, _Watch() as watch:
        control.stop(folder, at_once=now, on_change=watch.down)
    stopped = sorted(watch.done)
    if as_json:
        print_json({"folder": str(folder.resolve()), "stopped": stopped})
    else:
        OUT.print(f"Stopped: {', '.join(stopped)}." if stopped else "Nothing was running.")


def status(folder: Dir = _FOLDER, as_json: AsJson = False) -> None:
    """Show the processes with their addresses, states and health. Exit code 1: a process is down or
    not healthy."""
    with _control() as control:
        cluster = control.Cluster.at(folder)
        statuses = cluster.status()
    _show(cluster, statuses, as_json)
    raise typer.Exit(0 if _all_healthy(statuses) else 1)


def _named_port(text: str) -> tuple[str, int]:
    name, _, port = text.partition("=")
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        fail(f"--port {text} is not NAME=PORT.", "For example: --port thrift=9091.")
    return name, int(port)


@contextlib.contextmanager
def _control() -> Iterator[Any]:
    """Yields the server's module that controls clusters. Raises its errors as the client's."""
    control = server_module("cluster.control")
    errors = server_module("schema.errors")
    try:
        yield control
    except errors.HornbeamError as error:
        problem = {"detail": error.message, "code": error.code, "cure": error.cure}
        raise from_problem(problem) from None


class _Watch:
    """A progress bar that counts processes. It shows the state of the process that changed last."""

    def __init__(self) -> None:
        self._bars = progress()
        self._known: set[str] = set()
        self.done: set[str] = set()

    def __enter__(self) -> _Watch:
        self._bars.start()
        self._task = self._bars.add_task("cluster", total=None, note="")
        return self

    def __exit__(self, *failure: object) -> None:
        self._bars.stop()

    def up(self, name: str, state: str) -> None:
        self._show(name, state, ended=state == "healthy")

    def down(self, name: str, state: str) -> None:
        self._show(name, state, ended=state == "stopped")

    def _show(self, name: str, state: str, *, ended: bool) -> None:
        if name == "jars":
            self._bars.update(self._task, note="fetching jars, if they are missing")
            return
        self._known.add(name)
        if ended:
            self.done.add(name)
        total, note = len(self._known), f"{name}: {state}"
        self._bars.update(self._task, total=total, completed=len(self.done), note=note)


def _show(cluster: Any, statuses: list[Any], as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "folder": str(cluster.folder),
                "healthy": _all_healthy(statuses),
                "processes": [_document(each) for each in statuses],
            }
        )
        return
    columns = ("process", "address", "pid", "state", "health")
    rows = [
        (each.name, str(each.address), each.pid, _state(each), each.health.note)
        for each in statuses
    ]
    OUT.print(table(columns, rows))
    OUT.print(f"Logs: {cluster.folder / 'logs'}")


def _document(status: Any) -> dict[str, Any]:
    return {
        "name": status.name,
        "role": status.role.value,
        "host": status.address.host,
        "port": status.address.port,
        "ports": dict(status.ports),
        "pid": status.pid,
        "state": _state(status),
        "healthy": status.health.ok,
        "note": status.health.note,
    }


def _state(status: Any) -> str:
    if status.pid is None:
        return "down"
    return "paused" if status.paused else "up"


def _all_healthy(statuses: list[Any]) -> bool:
    return all(each.health.ok for each in statuses)
