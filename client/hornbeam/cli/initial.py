"""`hornbeam load --spark`: load files into empty relations with Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hornbeam.cli.common import ERR, OUT, long_progress, opened, print_json
from hornbeam.server_package import spark_module


def load_initially(
    url: str,
    sources: Mapping[str, Sequence[Path]],
    *,
    master: str,
    rejects: Path | None,
    max_rejects: int,
    resume: bool,
    single_lines: bool,
    as_json: bool,
) -> None:
    """Load the files of `sources`, which maps relations to files, and print the report."""
    job, errors = (
        spark_module("pipeline.load.driver"),
        spark_module("pipeline.spark.errors"),
    )
    with long_progress() as bars:
        task = bars.add_task("reading", total=None, note="")
        began: list[tuple[float, int]] = []

        def show(written: int, staged: int | None) -> None:
            """Update the bar. The first call gives the rows that earlier runs have written."""
            if not began:
                began.append((time.monotonic(), written))
            since, before = began[0]
            rate = (written - before) / max(time.monotonic() - since, 1e-9)
            bars.update(task, completed=written, total=staged, note=f"{written:,} rows")
            bars.update(task, description=f"{rate:,.0f} rows/s")

        with errors.client_errors():
            report = job.load(
                url,
                {name: [str(path) for path in paths] for name, paths in sources.items()},
                master=master,
                rejects=None if rejects is None else str(rejects),
                max_rejects=max_rejects,
                resume=resume,
                single_lines=single_lines,
                progress=show,
            )
    _print_report(asdict(report), rejects, as_json)


def cancel(url: str, as_json: bool) -> None:
    """Cancel the running load."""
    with opened(url) as db:
        cancelled = db.transport.json("DELETE", "/v1/loads")["cancelled"]
    if as_json:
        print_json({"cancelled": cancelled})
    else:
        OUT.print(f"Cancelled: the load of {', '.join(cancelled)}.")


def _print_report(report: dict[str, Any], rejects: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    for relation, rows in report["rows"].items():
        existing = report["there"].get(relation, 0)
        rejected = report["rejected"].get(relation, 0)
        OUT.print(
            f"{rows:,} rows into {relation}"
            + (f", {existing:,} existed already" if existing else "")
            + (f", {rejected:,} rejected" if rejected else "")
        )
    written = sum(report["rows"].values())
    OUT.print(f"{report['seconds']:.1f} s, {written / max(report['seconds'], 1e-6):,.0f} rows/s")
    if report["rejected"]:
        ERR.print(
            f"{sum(report['rejected'].values()):,} rows were rejected; {rejects} lists the reasons."
        )
