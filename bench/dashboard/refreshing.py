"""Runs `hornbeam refresh` next to a database, and reports the batches that it finishes."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from hornbeam_server.schema.errors import Unavailable

PROGRAM = "from hornbeam.cli import main; main()"
START_S = 600.0
"""Time limit of the first batch, which starts Spark and builds the view."""
MASTER = "local[1]"
"""Spark has one thread: the machine's cores are for the database and its clients."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A finished batch: when its line arrived, on this process's clock, the snapshot that the view
    shows since, in milliseconds, the changes that it read, and its seconds."""

    at: float
    as_of: int
    changes: int
    seconds: float


@dataclass
class Refreshing:
    """A running `hornbeam refresh` and its batches. `log` gets its errors."""

    log: Path
    batches: list[Batch] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def between(self, began: float, ended: float) -> list[Batch]:
        return [each for each in self.batches if began <= each.at <= ended]

    def _read(self, lines: Iterator[bytes]) -> None:
        for line in lines:
            document: dict[str, Any] = json.loads(line)
            if "error" in document:
                self.errors.append(document["error"])
                continue
            batch = Batch(
                time.monotonic(), document["as_of"], document["changes"], document["seconds"]
            )
            self.batches.append(batch)


def reached_s(batches: Sequence[Batch]) -> float | None:
    """The median seconds between the snapshots of neighbouring batches; None for fewer than
    two."""
    steps = [(b.as_of - a.as_of) / 1000 for a, b in pairwise(batches)]
    return statistics.median(steps) if steps else None


@contextmanager
def refreshing(url: str, log: Path) -> Iterator[Refreshing]:
    """Keep all deferred views of the database at `url`. Begins after the first batch. Raises
    Unavailable."""
    command = [sys.executable, "-c", PROGRAM, "refresh", "--json", "--master", MASTER]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*command, "--url", url],
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
        )
    assert process.stdout is not None
    running = Refreshing(log)
    reader = threading.Thread(target=running._read, args=(process.stdout,), name="refresh")
    reader.start()
    try:
        _await_batch(process, running)
        yield running
        if running.errors:
            raise Unavailable(f"hornbeam refresh reports: {running.errors[-1]}")
    finally:
        process.terminate()
        process.wait()
        reader.join()
        process.stdout.close()


def _await_batch(process: subprocess.Popen[bytes], running: Refreshing) -> None:
    """Wait until the first batch is finished. Raises Unavailable."""
    deadline = time.monotonic() + START_S
    while not running.batches:
        if process.poll() is not None:
            last = running.log.read_text(errors="replace").splitlines()[-5:]
            raise Unavailable("hornbeam refresh has ended:\n  " + "\n  ".join(last))
        if time.monotonic() > deadline:
            raise Unavailable(
                f"hornbeam refresh finishes no batch in {START_S:g} s; see {running.log}."
            )
        time.sleep(0.05)
