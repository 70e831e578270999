"""`hornbeam materialize`: build views and indexes by Spark, online."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import quote

import typer

from hornbeam.cli.common import (
    DEFAULT_URL,
    OUT,
    AsJson,
    Url,
    fail,
    long_progress,
    opened,
    print_json,
)
from hornbeam.server_package import spark_module


def register(app: typer.Typer) -> None:
    app.command("materialize")(materialize)


def materialize(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Views, with their indexes; indexes; relations: their indexes. Left out: all that"
            " is left to be built, as by hornbeam schema apply --build spark."
        ),
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
    rate: Annotated[
        float | None, typer.Option(min=1, help="Read at most so many rows a second.")
    ] = None,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Rebuild readable views; no query uses them meanwhile."),
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Give up building, and take NAMES from the catalog.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Build views and their indexes by Spark while writers go on.

    What was finished is kept: a job that was interrupted goes on where it ended. What a node is
    building is taken over, and what is quarantined is built anew.
    """
    if cancel:
        _cancel(url, names or fail("Say what to cancel."), as_json)
        return
    if rebuild and not names:
        fail("Say what to rebuild.")
    job, told = (
        spark_module("pipeline.build.driver"),
        spark_module("pipeline.spark.errors"),
    )
    began = time.monotonic()
    with long_progress() as bars:
        task = bars.add_task("build", total=None, note="")

        def show(scanned: int, total: int | None) -> None:
            rate_now = scanned / max(time.monotonic() - began, 1e-9)
            bars.update(task, completed=scanned, total=total, note=f"{scanned:,} rows")
            bars.update(task, description=f"{rate_now:,.0f} rows/s")

        with told.client_errors():
            report = job.materialize(
                url, names or [], master=master, rate=rate, rebuild=rebuild, progress=show
            )
    _tell(asdict(report), as_json)


def _cancel(url: str, names: list[str], as_json: bool) -> None:
    with opened(url) as db:
        gone = [
            name
            for asked in names
            for name in db.transport.json("DELETE", f"/v1/builds/{quote(asked, safe='')}")[
                "cancelled"
            ]
        ]
    if as_json:
        print_json({"cancelled": gone})
    else:
        OUT.print(f"Cancelled: {', '.join(gone)}.")


def _tell(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    if report["readable"]:
        OUT.print(f"Readable already: {', '.join(report['readable'])} (--rebuild).")
    if not report["names"]:
        OUT.print("Nothing is left to be built.")
        return
    OUT.print(
        f"Readable: {', '.join(report['names'])}. {report['rows']:,} rows"
        f" from {report['scanned']:,} in {report['seconds']:.1f} s."
    )
