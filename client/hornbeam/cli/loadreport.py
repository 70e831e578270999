"""What `hornbeam load` and `hornbeam import` show: their progress, and their report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from rich.progress import Progress, TaskID

from hornbeam.cli.append import Loader
from hornbeam.cli.common import ERR, OUT, print_json


class Show(Protocol):
    def __call__(self, position: int, length: int | None = None) -> None:
        """Show a position in a file, and the file's length if it is given."""


def shower(bars: Progress, task: TaskID, loader: Loader, before: int = 0) -> Show:
    """The function that shows the progress of a file. What was loaded before the file by the same
    task has the size `before`."""

    def show(position: int, length: int | None = None) -> None:
        rejected = loader.total().rejected
        note = f"{loader.rate:,.0f} rows/s" + (f", {rejected:,} rejected" if rejected else "")
        bars.update(task, completed=before + position, total=length, note=note)

    return show


def print_report(
    loader: Loader, rejects: Path | None, as_json: bool, notes: Sequence[str] | None = None
) -> None:
    """Print the rows of each relation. `notes` are those about a dump."""
    total = loader.total()
    if as_json:
        relations = {name: asdict(each) for name, each in loader.totals.items()}
        about = {"seconds": round(loader.seconds, 3), "relations": relations}
        print_json(asdict(total) | about | ({} if notes is None else {"notes": notes}))
        return
    for note in notes or ():
        ERR.print(note, soft_wrap=True)
    for name, each in loader.totals.items():
        skipped = f", {each.skipped} existed already" if each.skipped else ""
        rejected = f", {each.rejected} rejected" if each.rejected else ""
        OUT.print(f"{each.rows} rows into {name}{skipped}{rejected}")
    OUT.print(f"{total.rows} rows in {loader.seconds:.1f} s, {loader.rate:,.0f} rows/s")
    if total.rejected:
        ERR.print(f"{total.rejected} rows were rejected; {rejects} lists the reasons.")
