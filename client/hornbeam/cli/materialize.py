"""`hornbeam materialize`: build views and indexes with Spark, while writers continue."""

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
            help="Views (with their indexes), indexes, or relations (for their indexes). Default:"
            " all views and indexes that are not built, as after hornbeam schema apply --build"
            " spark."
        ),
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
    rate: Annotated[
        float | None, typer.Option(min=1, help="Maximum number of rows to read per second.")
    ] = None,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild", help="Rebuild readable views. Queries do not use them until then."
        ),
    ] = False,
    cancel: Annotated[
        bool,
        typer.Option("--cancel", help="Cancel building NAMES, and remove them from the catalog."),
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Build views and their indexes with Spark while writers continue.

    Finished parts are kept: an interrupted job continues where it ended. The job takes over views
    and indexes that a node is building, and rebuilds those that are quarantined.
    """
    if cancel:
        _cancel(url, names or fail("Give the names to cancel."), as_json)
        return
    if rebuild and not names:
        fail("Give the names to rebuild.")
    job, errors = (
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

        with errors.client_errors():
            report = job.materialize(
                url, names or [], master=master, rate=rate, rebuild=rebuild, progress=show
            )
    _print_report(asdict(report), as_json)


def _cancel(url: str, names: list[str], as_json: bool) -> None:
    with opened(url) as db:
        cancelled = [
            name
            for given in names
            for name in db.transport.json("DELETE", f"/v1/builds/{quote(given, safe='')}")[
                "cancelled"
            ]
        ]
    if as_json:
        print_json({"cancelled": cancelled})
    else:
        OUT.print(f"Cancelled: {', '.join(cancelled)}.")


def _print_report(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    if report["readable"]:
        OUT.print(f"Already readable: {', '.join(report['readable'])} (see --rebuild).")
    if not report["names"]:
        OUT.print("There is nothing to build.")
        return
    OUT.print(
        f"Readable: {', '.join(report['names'])}. {report['rows']:,} rows"
        f" from {report['scanned']:,} in {report['seconds']:.1f} s."
    )
