"""Compares following changes with rebuilding, for a deferred aggregate. The goal: following is at
least five times as fast for 100 000 changes of two million rows."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa
from pyspark.sql import SparkSession

import hornbeam
from bench.materialize import apply, serving
from bench.measure import Figure, ratios
from hornbeam import Connection
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.refresh.driver import refresh

SCHEMA = """
CREATE TABLE measure (id INTEGER PRIMARY KEY, place INTEGER NOT NULL, value DECIMAL(15,2) NOT NULL);
CREATE MATERIALIZED VIEW by_place WITH (refresh = 'deferred') AS
SELECT place, count(*) AS n, sum(value) AS total, avg(value) AS mean FROM measure GROUP BY place;
"""
PLACES = 10_000
BATCH = 5_000
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}


def deferred(spark: SparkSession, rows: int, changes: int, rounds: int) -> list[Figure]:
    """Seconds of batches that follow changes and of rebuilds, in turn. They include reading the log
    and all of Spark's work."""
    following, rebuilding = [], []
    with (
        serving() as url,
        hornbeam.connect(url, autocommit=True, timeout_s=600) as db,
        closing(open_transport(parse_url(url), 600)) as node,
    ):
        apply(db, SCHEMA, "", "node")
        _fill(db, rows)
        refresh(spark.sparkContext, node, url, "default")
        for number in range(rounds):
            _change(db, rows, changes, number)
            done = refresh(spark.sparkContext, node, url, "default")
            assert done.counts.changes == changes, done
            following.append(done.seconds)
            node.json("POST", "/v1/groups/rebuild", {"views": ["by_place"]})
            rebuilding.append(refresh(spark.sparkContext, node, url, "default").seconds)
    note = f"{changes} changes of {rows} rows in {PLACES} groups"
    return [
        Figure("deferred", "following changes", "s", tuple(following), note=note),
        Figure("deferred", "rebuild", "s", tuple(rebuilding), note=note),
        Figure(
            "deferred",
            "rebuild ÷ following changes",
            "×",
            ratios(rebuilding, following),
            at_least=5.0,
        ),
    ]


def _fill(db: Connection, rows: int) -> None:
    for start in range(0, rows, BATCH):
        ids = range(start, min(start + BATCH, rows))
        table = pa.table(
            {
                "id": pa.array(ids, pa.int32()),
                "place": pa.array([n % PLACES for n in ids], pa.int32()),
                "value": pa.array([f"{n % 977}.25" for n in ids]).cast(pa.decimal128(15, 2)),
            }
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        db.transport.post("/v1/load/measure", sink.getvalue().to_pybytes(), ARROW)


def _change(db: Connection, rows: int, changes: int, number: int) -> None:
    """Update `changes` rows, which lie in all groups. Each round has its own range of rows."""
    cursor, first = db.cursor(), number * changes % (rows - changes)
    for start in range(first, first + changes, BATCH):
        cursor.execute(
            "UPDATE measure SET value = value + 1 WHERE id >= ? AND id < ?", (start, start + BATCH)
        )
