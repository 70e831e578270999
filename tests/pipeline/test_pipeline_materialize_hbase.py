"""Spark builds a view on a real HBase: rows go to the gateways, and the leader dies meanwhile."""

import json
import threading

import pytest

import hornbeam
from bench.nodes import NodeProcesses
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.build import driver as job
from hornbeam_server.pipeline.build.executor import attempt
from hornbeam_server.pipeline.build.leader import begun

pytestmark = pytest.mark.timeout(300)
DDL = """
CREATE TABLE customer (c_id INTEGER PRIMARY KEY, c_name TEXT NOT NULL);
CREATE TABLE orders (
  o_id INTEGER PRIMARY KEY, o_c_id INTEGER REFERENCES customer (c_id), o_total DECIMAL(15,2));
"""
WORKLOAD = "SELECT c_name, o_id, o_total FROM customer, orders WHERE c_id = o_c_id AND c_id = ?;\n"
VIEW, ORDERS = "customer__orders", 2_000


def apply(db, workload, build="node"):
    plan = {"ddl": DDL, "workload": workload, "roots": None}
    planned = db.transport.json("POST", "/v1/schema/plan", plan)
    applied = plan | {"plan_id": planned["plan_id"], "build": build}
    db.transport.json("POST", "/v1/schema/apply", applied)


def differences(db):
    with db.transport.stream("/v1/verify", {}) as answer:
        *_, last = [json.loads(line) for line in answer.lines() if line.strip()]
    return last["report"]["differences"]


def write(url, stop):
    with hornbeam.connect(url, autocommit=True) as db:
        cursor = db.cursor()
        for n in range(10_000):
            cursor.execute("UPDATE orders SET o_c_id = ? WHERE o_id = ?", [n % 20, n % ORDERS])
            cursor.execute("DELETE FROM orders WHERE o_id = ?", [n * 7 % ORDERS])
            cursor.execute("INSERT INTO orders VALUES (?, ?, 1)", [10_000 + n, n % 20])
            cursor.execute("UPDATE customer SET c_name = ? WHERE c_id = ?", [f"n{n}", n % 20])
            if stop.is_set():
                return


def test_a_view_is_built_by_spark_while_a_writer_writes_and_the_leader_dies(
    spark, real_cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr(job, "SLICE_S", 0.0)
    with (
        NodeProcesses(real_cluster, tmp_path, 2, database="materialize") as nodes,
        hornbeam.connect(nodes.client_url, autocommit=True, timeout_s=120) as db,
    ):
        apply(db, "")
        cursor = db.cursor()
        cursor.executemany("INSERT INTO customer VALUES (?, ?)", [(n, "name") for n in range(20)])
        cursor.executemany(
            "INSERT INTO orders VALUES (?, ?, ?)", [(n, n % 20, "1.50") for n in range(ORDERS)]
        )
        apply(db, WORKLOAD, build="spark")
        stop, ran = threading.Event(), []
        writer = threading.Thread(target=write, args=(nodes.client_url, stop))
        writer.start()
        on_spark = job.on_spark(spark.sparkContext)

        def run(task):
            ran.append(task.start)
            if len(ran) == 3:
                nodes.leading().kill()
            return on_spark(task) if len(ran) in (1, 4) else attempt(task)

        try:
            node = open_transport(parse_url(nodes.client_url), 60)
            report = job.Driver(node, nodes.client_url, run, 1).build(
                begun(node, [VIEW]), lambda *_: None
            )
            node.close()
        finally:
            stop.set()
            writer.join()
        assert VIEW in report.names
        assert len(set(ran)) > 5
        view = db.transport.json("GET", f"/v1/views/{VIEW}")
        assert view["state"] == "readable"
        assert differences(db) == 0
