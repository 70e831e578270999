"""`hornbeam refresh`: keep deferred views fresh, by Spark."""

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
        list[str] | None, typer.Argument(help="Groups of deferred views; all when left out.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="One batch of each group, then end.")
    ] = False,
    rebuild: Annotated[
        list[str] | None,
        typer.Option(help="A deferred view to rebuild first; may be given several times."),
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Bring deferred views up to date, batch after batch, until interrupted.

    May be ended at any time, also by kill -9, and run by several at once: a batch that was begun is
    done again, with the same result. With --json, a line per batch.
    """
    spark_module("pipeline.refresh.command").keep(
        url,
        groups or (),
        once=once,
        rebuild=rebuild or (),
        master=master,
        report=_tell_json if as_json else _tell,
    )


def _tell(batch: Any) -> None:
    if isinstance(batch, Error):
        report(batch)
        return
    moment = dt.datetime.fromtimestamp(batch.upto / 1000).isoformat(" ", "milliseconds")
    OUT.print(
        f"{batch.group} as of {moment}: {len(batch.views)} views,"
        f" {batch.counts.changes} changes, {batch.counts.rows} rows, {batch.seconds:.1f} s",
        highlight=False,
        soft_wrap=True,
    )


def _tell_json(batch: Any) -> None:
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
