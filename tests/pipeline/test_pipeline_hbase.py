"""The data source over HBase: the rows come from the gateways, not from a node."""

from functools import partial

import pytest

import hornbeam
from bench.nodes import NodeProcesses

pytestmark = pytest.mark.timeout(300)
DDL = """
CREATE TABLE customer (c_id INTEGER PRIMARY KEY, c_name TEXT NOT NULL);
CREATE TABLE orders (
  o_id INTEGER PRIMARY KEY, o_c_id INTEGER REFERENCES customer (c_id), o_total DECIMAL(15,2));
"""
WORKLOAD = "SELECT c_name, o_id, o_total FROM customer, orders WHERE c_id = o_c_id AND c_id = ?;\n"


def frame(spark, url, **options):
    return spark.read.format("hornbeam").options(url=url, **options).load()


def apply(db):
    plan = {"ddl": DDL, "workload": WORKLOAD, "roots": None}
    planned = db.transport.json("POST", "/v1/schema/plan", plan)
    db.transport.json("POST", "/v1/schema/apply", plan | {"plan_id": planned["plan_id"]})


def test_a_relation_and_a_view_of_a_cluster_are_read(spark, real_cluster, tmp_path):
    with (
        NodeProcesses(real_cluster, tmp_path, 1, database="spark") as nodes,
        hornbeam.connect(nodes.client_url, autocommit=True) as db,
    ):
        apply(db)
        cursor = db.cursor()
        cursor.executemany(
            "INSERT INTO customer VALUES (?, ?)", [(n, f"name {n}") for n in range(20)]
        )
        cursor.executemany(
            "INSERT INTO orders VALUES (?, ?, ?)", [(n, n % 20, f"{n}.50") for n in range(200)]
        )
        reads = partial(frame, spark, nodes.client_url)
        before = reads(relation="orders")
        assert before.count() == 200
        cursor.execute("DELETE FROM orders WHERE o_id < 100")
        assert before.count() == 200
        view = reads(view="customer__orders")
        found = sorted(map(tuple, view.collect()))
        cursor.execute(
            f"SELECT {', '.join(view.columns)} FROM customer, orders WHERE c_id = o_c_id"
        )
        assert found == sorted(cursor.fetchall())
        assert len(found) == 100
