"""Compares building a view by Spark with inserting the same rows.

Part of `bench.spark`, on an embedded store whose server is a separate process, and of
`bench.spark_cluster`, on a real HBase. The same rows are stored in three ways: Spark rebuilds a
view of two relations; transactions of 5 000 rows fill a relation with the view's columns;
transactions of one row each, from 16 clients, insert further rows. Rounds follow one another in one
run. One build that is not counted warms up Spark's session.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

import hornbeam
from bench.measure import Figure, ratios
from hornbeam import Connection
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.demo.serving import server
from hornbeam_server.pipeline.build.driver import Driver, on_spark
from hornbeam_server.pipeline.build.leader import begun

VIEW = "customer__orders"
CUSTOMERS, CLIENTS, BATCH = 2_000, 16, 5_000
RELATIONS = """
CREATE TABLE customer (c_id INTEGER PRIMARY KEY, c_name TEXT NOT NULL, c_city TEXT);
CREATE TABLE orders (
  o_id INTEGER PRIMARY KEY, o_c_id INTEGER REFERENCES customer (c_id), o_total DECIMAL(15,2),
  o_note TEXT);
"""
FLAT = """
CREATE TABLE {name} (
  c_id INTEGER, c_name TEXT NOT NULL, c_city TEXT, o_id INTEGER PRIMARY KEY, o_c_id INTEGER,
  o_total DECIMAL(15,2), o_note TEXT);
"""
WORKLOAD = "SELECT c_name, o_total FROM customer, orders WHERE c_id = o_c_id AND o_id = ?;"
HEADER = "c_id,c_name,c_city,o_id,o_c_id,o_total,o_note"
SECTION = "materialize"


def materialize(
    spark: SparkSession, url: str, rounds: int, rows: int = 200_000, single: int = 4_800
) -> list[Figure]:
    """The figures on a database without relations. `single`: number of rows that are inserted one
    by one."""
    names = [f"flat{n}" for n in range(rounds)]
    ddl = RELATIONS + "".join(FLAT.format(name=name) for name in names)
    with hornbeam.connect(url, autocommit=True, timeout_s=600) as db:
        apply(db, ddl, "", "node")
        load(db, "customer", "c_id,c_name,c_city", customers())
        load(db, "orders", "o_id,o_c_id,o_total,o_note", orders(rows))
        apply(db, ddl, WORKLOAD, "spark")
        built, batched, singly = [], [], []
        build(spark, url)
        for name in names:
            built.append(rows / build(spark, url))
            began = time.perf_counter()
            load(db, name, HEADER, view_rows(0, rows))
            batched.append(rows / (time.perf_counter() - began))
            singly.append(insert_one_by_one(url, name, rows, rows + single))
    note = f"{rows} rows of {VIEW}"
    return [
        Figure(SECTION, "a view built by Spark", "rows/s", tuple(built), note=note),
        Figure(SECTION, "its rows by transactions of 5 000", "rows/s", tuple(batched)),
        Figure(SECTION, "its rows one by one, 16 clients", "rows/s", tuple(singly)),
        Figure(SECTION, "built ÷ transactions of 5 000", "×", ratios(built, batched)),
        Figure(SECTION, "built ÷ one by one", "×", ratios(built, singly), at_least=3),
    ]


@contextmanager
def serving() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="hornbeam-bench-"))
    try:
        with server(folder) as (port, _):
            yield f"hornbeam://127.0.0.1:{port}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def apply(
    db: Connection, ddl: str, workload: str, build: str, roots: Sequence[str] | None = None
) -> None:
    wanted = {"ddl": ddl, "workload": workload, "roots": roots}
    planned = db.transport.json("POST", "/v1/schema/plan", wanted)
    applied = wanted | {"plan_id": planned["plan_id"], "build": build}
    db.transport.json("POST", "/v1/schema/apply", applied)


def customers() -> Iterator[str]:
    return (f"{n},customer number {n},city {n % 97}" for n in range(CUSTOMERS))


def orders(rows: int) -> Iterator[str]:
    return (f"{n},{n % CUSTOMERS},{n % 1_000}.50,a note on order {n}" for n in range(rows))


def view_rows(first: int, last: int) -> Iterator[str]:
    for n in range(first, last):
        c = n % CUSTOMERS
        yield (f"{c},customer number {c},city {c % 97},{n},{c},{n % 1_000}.50,a note on order {n}")


def load(db: Connection, relation: str, header: str, lines: Iterator[str]) -> None:
    rows = list(lines)
    for start in range(0, len(rows), BATCH):
        body = "\n".join([header, *rows[start : start + BATCH]]).encode()
        db.transport.post(f"/v1/load/{relation}", body, {"Content-Type": "text/csv"})


def build(spark: SparkSession, url: str) -> float:
    """Seconds from the request that begins the build until the view is readable."""
    context = spark.sparkContext
    began = time.perf_counter()
    with closing(open_transport(parse_url(url), 600)) as node:
        driver = Driver(node, url, on_spark(context), context.defaultParallelism)
        driver.build(begun(node, [VIEW], rebuild=True), lambda _scanned, _total: None)
    return time.perf_counter() - began


def insert_one_by_one(url: str, name: str, first: int, last: int) -> float:
    """Insert the view rows from `first` to before `last` one by one, by `CLIENTS` concurrent
    clients. Returns rows per second."""
    share = (last - first) // CLIENTS
    sql = f"INSERT INTO {name} ({HEADER}) VALUES (?, ?, ?, ?, ?, ?, ?)"

    def insert(start: int) -> None:
        with hornbeam.connect(url, autocommit=True) as db:
            cursor = db.cursor()
            for line in view_rows(start, start + share):
                c_id, c_name, city, o_id, c, total, note = line.split(",")
                cursor.execute(sql, [int(c_id), c_name, city, int(o_id), int(c), total, note])

    with ThreadPoolExecutor(CLIENTS) as clients:
        began = time.perf_counter()
        list(clients.map(insert, range(first, first + share * CLIENTS, share)))
        return share * CLIENTS / (time.perf_counter() - began)
