"""Compares an initial load by Spark and a data frame's append with transactions of the same rows.

Part of `bench.spark`, on an embedded store, and of `bench.spark_cluster`, on a real HBase. Each
round fills three pairs of relations, customer and orders, each pair with its join as a view and an
index for each foreign key. Spark loads the first pair from two CSV files, from reading to
publishing. Data frames of these files are appended to the second pair. One client fills the third
pair by transactions of 5 000 rows. Appends and transactions maintain the view. One load that is not
counted warms up Spark's session.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

import hornbeam
from bench.materialize import apply, customers, orders
from bench.materialize import load as insert
from bench.measure import Figure, ratios
from hornbeam import Connection
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.load.driver import Driver, planned

DDL = """
CREATE TABLE customer{n} (c_id INTEGER PRIMARY KEY, c_name TEXT NOT NULL, c_city TEXT);
CREATE TABLE orders{n} (
  o_id INTEGER PRIMARY KEY, o_c_id INTEGER REFERENCES customer{n} (c_id), o_total DECIMAL(15,2),
  o_note TEXT);
"""
WORKLOAD = "SELECT c_name, o_total FROM customer{n}, orders{n} WHERE c_id = o_c_id AND o_id = ?;\n"
CUSTOMER, ORDERS = "c_id,c_name,c_city", "o_id,o_c_id,o_total,o_note"
TYPES = {
    "customer": "c_id INT, c_name STRING, c_city STRING",
    "orders": "o_id INT, o_c_id INT, o_total DECIMAL(15,2), o_note STRING",
}
SECTION = "load"


def initial(spark: SparkSession, url: str, rounds: int, rows: int = 200_000) -> list[Figure]:
    """The figures of `rounds` rounds on a database without relations. `rows`: number of orders."""
    numbers = range(3 * rounds + 1)
    loaded, appended, inserted = [], [], []
    with (
        hornbeam.connect(url, autocommit=True, timeout_s=600) as db,
        tempfile.TemporaryDirectory(prefix="hornbeam-bench-") as folder,
    ):
        ddl, workload = ("".join(text.format(n=n) for n in numbers) for text in (DDL, WORKLOAD))
        apply(db, ddl, workload, "node")
        sources = {
            "customer": _written(Path(folder) / "customer.csv", CUSTOMER, customers()),
            "orders": _written(Path(folder) / "orders.csv", ORDERS, orders(rows)),
        }
        for n in range(rounds + 1):
            elapsed = _load(spark, url, {f"{name}{n}": [path] for name, path in sources.items()})
            if n:  # the first load warms up
                loaded.append(rows / elapsed)
                appended.append(rows / _append(spark, url, 2 * rounds + n, sources))
                inserted.append(rows / _insert(db, rounds + n, rows))
    note = f"{rows} orders, with a join view and an index"
    return [
        Figure(SECTION, "loaded by Spark", "rows/s", tuple(loaded), at_least=15_000, note=note),
        Figure(SECTION, "appended by a data frame", "rows/s", tuple(appended)),
        Figure(SECTION, "by transactions of 5 000", "rows/s", tuple(inserted)),
        Figure(SECTION, "loaded ÷ transactions", "×", ratios(loaded, inserted)),
        Figure(SECTION, "appended ÷ transactions", "×", ratios(appended, inserted)),
    ]


def _written(path: Path, header: str, lines: Iterator[str]) -> str:
    path.write_text("\n".join([header, *lines]) + "\n")
    return str(path)


def _load(spark: SparkSession, url: str, sources: dict[str, Sequence[str]]) -> float:
    """Load files by Spark. Returns the seconds from planning until the rows are published."""
    began = time.perf_counter()
    with closing(open_transport(parse_url(url), 600)) as node:
        plan = planned(node, sources, single_lines=True)
        Driver(node, url, plan, lambda _written, _staged: None).load(spark, None, 0, resume=False)
    return time.perf_counter() - began


def _append(spark: SparkSession, url: str, n: int, sources: Mapping[str, str]) -> float:
    """Append data frames of the files. Returns the seconds, including those of reading."""
    began = time.perf_counter()
    for name, path in sources.items():
        frame = spark.read.csv(path, schema=TYPES[name], header=True)
        target = {"url": url, "relation": f"{name}{n}"}
        frame.write.format("hornbeam").options(**target).mode("append").save()
    return time.perf_counter() - began


def _insert(db: Connection, n: int, rows: int) -> float:
    """Insert all rows by transactions. Returns the seconds."""
    began = time.perf_counter()
    insert(db, f"customer{n}", CUSTOMER, customers())
    insert(db, f"orders{n}", ORDERS, orders(rows))
    return time.perf_counter() - began
