"""Relations on a real HBase are altered under load; Spark then reads, builds and refreshes."""

import json
import threading
import time
from collections import Counter
from contextlib import closing

import pytest

import hornbeam
from bench.nodes import NodeProcesses
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.build import driver as building
from hornbeam_server.pipeline.build.leader import begun
from hornbeam_server.pipeline.refresh import driver as refreshing
from hornbeam_server.pipeline.sources.reader import register

pytestmark = pytest.mark.timeout(300)
DDL = """
CREATE TABLE customer (c_id INTEGER PRIMARY KEY, c_name TEXT NOT NULL);
CREATE TABLE orders (
  o_id INTEGER PRIMARY KEY, o_c_id INTEGER REFERENCES customer (c_id), o_old TEXT,
  o_total INTEGER NOT NULL);
CREATE MATERIALIZED VIEW by_name WITH (refresh = 'deferred') AS
  SELECT c_name, count(*) AS n, sum(o_total) AS total FROM customer
  JOIN orders ON c_id = o_c_id GROUP BY c_name;
"""
WORKLOAD = "SELECT c_name, o_id FROM customer, purchase WHERE c_id = o_c_id AND c_id = ?;\n"
VIEW, CUSTOMERS = "customer__purchase", 10
ALTERATIONS = (
    "RENAME TABLE orders TO purchase",
    "ALTER TABLE purchase DROP COLUMN o_old",
    "ALTER TABLE purchase ADD COLUMN o_code TEXT DEFAULT '7'",
    "ALTER TABLE purchase ALTER o_code TYPE INTEGER USING CAST(o_code AS INTEGER)",
    "CREATE TABLE orders (o_id INTEGER PRIMARY KEY, o_text TEXT)",
)


def plan(db, ddl, workload, build="node"):
    body = {"ddl": ddl, "workload": workload, "roots": None}
    planned = db.transport.json("POST", "/v1/schema/plan", body)
    db.transport.json(
        "POST", "/v1/schema/apply", body | {"plan_id": planned["plan_id"], "build": build}
    )


def write(url, stop, written):
    """Write under the name that the relation has, until `stop`. `written` counts the rows."""
    name, number = "orders", 0
    with hornbeam.connect(url, autocommit=True, timeout_s=120) as db:
        cursor = db.cursor()
        while not stop.is_set():
            number += 1
            try:
                cursor.execute(
                    f"INSERT INTO {name} (o_id, o_c_id, o_total) VALUES (?, ?, ?)",
                    [number, number % CUSTOMERS, number],
                )
                written[number] = number
                if number % 3 == 0:
                    cursor.execute(f"DELETE FROM {name} WHERE o_id = ?", [number - 1])
                    written.pop(number - 1, None)  # the insert met the change of the name
            except hornbeam.ProgrammingError:  # it has another name now
                name = "purchase"


def wait_built(db):
    while not all(each["finished"] for each in db.transport.json("GET", "/v1/status")["builds"]):
        time.sleep(0.1)


def differences(db):
    with db.transport.stream("/v1/verify", {}) as answer:
        *_, last = [json.loads(line) for line in answer.lines() if line.strip()]
    return last["report"]["differences"]


def test_relations_are_altered_under_load_and_spark_goes_on(spark, real_cluster, tmp_path):
    with (
        NodeProcesses(real_cluster, tmp_path, 2, database="alter") as nodes,
        hornbeam.connect(nodes.client_url, autocommit=True, timeout_s=120) as db,
        closing(open_transport(parse_url(nodes.client_url), 60)) as node,
    ):
        plan(db, DDL, "")
        cursor = db.cursor()
        names = [(n, f"name {n % 3}") for n in range(CUSTOMERS)]
        cursor.executemany("INSERT INTO customer VALUES (?, ?)", names)
        wait_built(db)
        stop, written = threading.Event(), {}
        writer = threading.Thread(target=write, args=(nodes.client_url, stop, written))
        writer.start()
        try:
            refreshing.refresh(spark.sparkContext, node, nodes.client_url, "default")
            for sql in ALTERATIONS:
                cursor.execute(sql)
        finally:
            stop.set()
            writer.join()
        cursor.execute("INSERT INTO orders VALUES (1, 'new')")
        cursor.execute("SELECT o_id, o_total, o_code FROM purchase")
        assert Counter(cursor.fetchall()) == Counter((k, v, 7) for k, v in written.items())
        assert differences(db) == 0

        register(spark)
        read = spark.read.format("hornbeam").option("url", nodes.client_url)
        rows = read.option("relation", "purchase").load().select("o_id", "o_total", "o_code")
        assert Counter(map(tuple, rows.collect())) == Counter((k, v, 7) for k, v in written.items())
        assert [tuple(row) for row in read.option("relation", "orders").load().collect()] == [
            (1, "new")
        ]

        ddl = db.transport.json("GET", "/v1/schema")["ddl"]
        plan(db, ddl, WORKLOAD, build="spark")
        run = building.on_spark(spark.sparkContext)
        driver = building.Driver(node, nodes.client_url, run, 1)
        assert VIEW in driver.build(begun(node, [VIEW]), lambda *_: None).names
        refreshing.refresh(spark.sparkContext, node, nodes.client_url, "default")
        cursor.execute("SELECT sum(n), sum(total) FROM by_name")
        assert cursor.fetchall() == [(len(written), sum(written.values()))]
        assert differences(db) == 0
