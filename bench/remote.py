"""Applies schemas and loads rows of a served database, as an administrator does."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

import hornbeam
from bench.peers.design import Source
from bench.peers.port import Row
from hornbeam.cli.csvtext import csv_line
from hornbeam.transport import persistently
from hornbeam_server.demo.tpcw.sessions import wire

LOAD_BATCH = 1_000
POLL_S = 0.1


def apply(db: hornbeam.Connection, source: Source) -> str:
    """Put the schema and the chosen join views into force, and wait until they are built. Returns
    the plan as text."""
    body = {
        "ddl": source.ddl,
        "workload": source.workload,
        "roots": list(source.roots),
        "row_counts": dict(source.row_counts),
        "method": source.method,
        "aggregates": False,
    }
    plan = db.transport.json("POST", "/v1/schema/plan", body)
    db.transport.json("POST", "/v1/schema/apply", {**body, "plan_id": plan["plan_id"]})
    wait_built(db)
    return str(plan["text"])


def wait_built(db: hornbeam.Connection) -> None:
    while not all(build["finished"] for build in status(db)["builds"]):
        time.sleep(POLL_S)


def status(db: hornbeam.Connection) -> dict[str, Any]:
    document: dict[str, Any] = db.transport.json("GET", "/v1/status")
    return document


def verify(db: hornbeam.Connection) -> dict[str, Any]:
    """Compare every view and index with its recomputation. Returns the report."""
    with db.transport.stream("/v1/verify", {}) as response:
        *_, last = response.lines()
    report: dict[str, Any] = json.loads(last)["report"]
    return report


def load(db: hornbeam.Connection, relation: str, rows: Iterable[Row]) -> int:
    """Insert rows, which are in column order, in transactions of `LOAD_BATCH` rows. Returns their
    number."""
    header, loaded = csv_line(_columns(db, relation)), 0
    for batch in _batches(rows):
        lines = (csv_line(map(wire, row)) for row in batch)
        _send(db, relation, loaded, header + "".join(lines))
        loaded += len(batch)
    return loaded


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while batch := list(itertools.islice(remaining, LOAD_BATCH)):
        yield batch


def _send(db: hornbeam.Connection, relation: str, start: int, text: str) -> None:
    headers = {"Content-Type": "text/csv", "Idempotency-Key": f"bench-{relation}-{start}"}
    persistently(lambda: db.transport.post(f"/v1/load/{relation}", text.encode(), headers))


def _columns(db: hornbeam.Connection, relation: str) -> list[str]:
    relations = db.transport.json("GET", "/v1/schema")["relations"]
    (found,) = (each for each in relations if each["name"] == relation)
    return [column["name"] for column in found["columns"]]
