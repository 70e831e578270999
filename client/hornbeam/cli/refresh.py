"""`hornbeam refresh`: bring live and deferred views up to date, at the nodes or by Spark."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import AbstractContextManager, closing
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from hornbeam.cli.common import DEFAULT_URL, OUT, AsJson, Url, opened, progress, report
from hornbeam.errors import Error
from hornbeam.refreshing import (
    Batches,
    Kept,
    Refresh,
    Refreshed,
    Rounds,
    checked,
    each_once,
    listed,
)
from hornbeam.server_package import spark_module


def register(app: typer.Typer) -> None:
    app.command("refresh")(refresh)


def refresh(
    groups: Annotated[
        list[str] | None, typer.Argument(help="Groups of deferred views. Default: all groups.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Bring each group up to date, then exit.")
    ] = False,
    rebuild: Annotated[
        list[str] | None,
        typer.Option(help="A deferred view to rebuild first. Repeat for several views."),
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Bring live and deferred views up to date, batch after batch, until interrupted.

    The nodes do the batches that they can. Only batches that they leave (hornbeam view show says
    which, and why) need Spark. With --once the nodes do theirs at once; otherwise at the interval
    of the group, whether this command runs or not.

    You may stop the command at any time, also with kill -9, and run several at once: an interrupted
    batch is repeated with the same result. With --json, prints a line per batch.
    """
    shown = _print_json if as_json else _print
    with opened(url) as db:
        node = db.transport
        if rebuild:
            node.json("POST", "/v1/groups/rebuild", {"views": list(rebuild)})
        wanted = checked(listed(node), groups or ())
        with progress() as bars:
            bar = bars.add_task("refresh", total=len(wanted) if once else None, note="")

            def reported(done: Refreshed | Kept | Error) -> None:
                bars.stop()  # while it is shown, it takes what is printed
                shown(done)
                bars.advance(bar)
                bars.start()

            spark = partial(_spark, url, master)
            with closing(Batches(node, spark, lambda note: bars.update(bar, note=note))) as batches:
                if once:
                    each_once(wanted, batches.refresh, reported)
                else:
                    known = partial(listed, node)
                    Rounds(known, groups or (), batches.refresh, reported).go_on()


def _spark(url: str, master: str) -> AbstractContextManager[Refresh]:
    found: AbstractContextManager[Refresh] = spark_module("pipeline.refresh.command").refreshing(
        url, master
    )
    return found


def _print(done: Refreshed | Kept | Error) -> None:
    if isinstance(done, Error):
        report(done)
        return
    OUT.print(_line(done), highlight=False, soft_wrap=True)


def _line(done: Refreshed | Kept) -> str:
    if isinstance(done, Kept):
        return f"kept by the nodes: {', '.join(done.groups) or 'no group'}"
    as_of = dt.datetime.fromtimestamp(done.as_of / 1000).isoformat(" ", "milliseconds")
    return (
        f"{done.group} as of {as_of}: {len(done.views)} views, {done.changes} changes,"
        f" {done.rows} rows, {done.seconds:.1f} s, by {done.by}"
    )


def _print_json(done: Refreshed | Kept | Error) -> None:
    if isinstance(done, Error):
        document: dict[str, Any] = {"error": str(done), "code": done.code}
    elif isinstance(done, Kept):
        document = {"kept": list(done.groups)}
    else:
        document = asdict(done)
    print(json.dumps(document), flush=True)
