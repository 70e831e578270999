"""`hornbeam refresh`: keep deferred views fresh with Spark."""

from __future__ import annotations

import datetime as dt
import json
from typing import Annotated, Any

import typer

from hornbeam.cli.common import DEFAULT_URL, OUT, AsJson, Url, report
from hornbeam.errors import Error
from hornbeam.server_package import spark_module


def register(app: typer.Typer) -> None:
    app.command("refresh")(refresh)


def refresh(
    groups: Annotated[
        list[str] | None, typer.Argument(help="Groups of deferred views. Default: all groups.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Run one batch of each group, then exit.")
    ] = False,
    rebuild: Annotated[
        list[str] | None,
        typer.Option(help="A deferred view to rebuild first. Repeat for several views."),
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Bring deferred views up to date, batch after batch, until interrupted.

    You may stop the command at any time, also with kill -9, and run several at once: an interrupted
    batch is repeated with the same result. With --json, prints a line per batch.
    """
    spark_module("pipeline.refresh.command").keep(
        url,
        groups or (),
        once=once,
        rebuild=rebuild or (),
        master=master,
        report=_print_json if as_json else _print,
    )


def _print(batch: Any) -> None:
    if isinstance(batch, Error):
        report(batch)
        return
    as_of = dt.datetime.fromtimestamp(batch.upto / 1000).isoformat(" ", "milliseconds")
    OUT.print(
        f"{batch.group} as of {as_of}: {len(batch.views)} views,"
        f" {batch.counts.changes} changes, {batch.counts.rows} rows, {batch.seconds:.1f} s",
        highlight=False,
        soft_wrap=True,
    )


def _print_json(batch: Any) -> None:
    if isinstance(batch, Error):
        document: dict[str, Any] = {"error": str(batch), "code": batch.code}
    else:
        document = {
            "group": batch.group,
            "as_of": batch.upto,
            "views": list(batch.views),
            "changes": batch.counts.changes,
            "rows": batch.counts.rows,
            "seconds": batch.seconds,
        }
    print(json.dumps(document), flush=True)
