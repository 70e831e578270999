"""Measures bare operations of HBase in the same run. They make figures of two runs comparable."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from itertools import count

import happybase

from hornbeam_server.cluster import Cluster

TABLE = b"bare"
CELL = {b"d:v": b"x" * 100}
ROWS = 1_000
"""Number of rows of the scan."""


def bare_operations(cluster: Cluster, rounds: int) -> dict[str, list[float]]:
    """The milliseconds of each operation's rounds, through the Thrift 1 gateway, after as many
    rounds that are not counted. Drops its table at the end."""
    with closing(happybase.Connection(*cluster.thrift1)) as connection:
        connection.create_table(TABLE, {"d": {}})
        try:
            return _measured(connection.table(TABLE), rounds)
        finally:
            connection.delete_table(TABLE, disable=True)


def _measured(table: happybase.Table, rounds: int) -> dict[str, list[float]]:
    numbers = count()
    with table.batch() as batch:
        for _ in range(ROWS):
            batch.put(_key(next(numbers)), CELL)
    operations: dict[str, Callable[[], object]] = {
        "put": lambda: table.put(_key(next(numbers)), CELL),
        "get": lambda: table.row(_key(ROWS // 2)),
        f"scan of {ROWS} rows": lambda: list(table.scan(limit=ROWS, batch_size=ROWS)),
    }
    found: dict[str, list[float]] = {name: [] for name in operations}
    for number in range(2 * rounds):
        for name, operation in operations.items():
            began = time.perf_counter()
            operation()
            if number >= rounds:
                found[name].append((time.perf_counter() - began) * 1000)
    return found


def _key(number: int) -> bytes:
    return number.to_bytes(8)
