"""An initial load on a real HBase: rows go to the gateways, and the leader dies during the load."""

import json

import pytest

import hornbeam
from bench.nodes import NodeProcesses
from hornbeam.errors import OperationalError
from hornbeam_server.pipeline.load import driver as job
from hornbeam_server.pipeline.load import sort_and_check

pytestmark = pytest.mark.timeout(300)
DDL = """
CREATE TABLE customer (c_id INTEGER PRIMARY KEY, c_name TEXT NOT NULL, c_email TEXT UNIQUE);
CREATE TABLE orders (
  o_id INTEGER PRIMARY KEY, o_c_id INTEGER REFERENCES customer (c_id), o_total DECIMAL(15,2));
CREATE TABLE visit (v_id INTEGER PRIMARY KEY);
"""
WORKLOAD = "SELECT c_name, o_id, o_total FROM customer, orders WHERE c_id = o_c_id AND c_id = ?;\n"
JOIN = "SELECT count(*) FROM customer, orders WHERE c_id = o_c_id"
CUSTOMERS, ORDERS = 300, 3_000


def apply(db):
    plan = {"ddl": DDL, "workload": WORKLOAD, "roots": None}
    planned = db.transport.json("POST", "/v1/schema/plan", plan)
    db.transport.json("POST", "/v1/schema/apply", plan | {"plan_id": planned["plan_id"]})


def differences(db):
    with db.transport.stream("/v1/verify", {}) as answer:
        *_, last = [json.loads(line) for line in answer.lines() if line.strip()]
    return last["report"]["differences"]


def files(folder):
    """Each tenth order refers to a missing customer; two customers have the same address."""
    customers = [f"{n},name {n},{n % (CUSTOMERS - 1)}@here" for n in range(CUSTOMERS)]
    orders = [f"{n},{n % CUSTOMERS if n % 10 else CUSTOMERS},{n}.50" for n in range(ORDERS)]
    made = {
        "customer": ["c_id,c_name,c_email", *customers],
        "orders": ["o_id,o_c_id,o_total", *orders],
    }
    for name, lines in made.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return {name: [str(folder / f"{name}.csv")] for name in ("orders", "customer")}


def test_a_load_continues_after_the_leader_dies(spark, real_cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(sort_and_check, "RANGE_ROWS", 500)
    ran = []
    with (
        NodeProcesses(real_cluster, tmp_path, 2, database="load") as nodes,
        hornbeam.connect(nodes.client_url, autocommit=True, timeout_s=120) as db,
    ):
        apply(db)
        cursor, run = db.cursor(), sort_and_check.Sorted.run

        def run_and_kill(self, task, number):
            ran.append(task)
            if len(ran) == 3:
                with pytest.raises(OperationalError, match="initial load"):
                    cursor.execute("INSERT INTO orders VALUES (?, NULL, 1)", [-1])
                cursor.execute("INSERT INTO visit VALUES (1)")
                cursor.execute(JOIN)
                assert cursor.fetchone() == (0,)
                nodes.leading().kill()
            return run(self, task, number)

        monkeypatch.setattr(sort_and_check.Sorted, "run", run_and_kill)
        report = job.load(
            nodes.client_url,
            files(tmp_path),
            master=spark.sparkContext.master,
            rejects=str(tmp_path / "rejects.jsonl"),
        )
        # The second customer with the same address is rejected, and so are its orders.
        there = [n % CUSTOMERS for n in range(ORDERS) if n % 10 and n % CUSTOMERS != CUSTOMERS - 1]
        assert report.rows == {"customer": CUSTOMERS - 1, "orders": len(there)}
        assert report.rejected == {"customer": 1, "orders": ORDERS - len(there)}
        assert len(ran) > 5
        cursor.execute(JOIN)
        assert cursor.fetchone() == (len(there),)
        cursor.execute("UPDATE customer SET c_name = 'x' WHERE c_id = 1")
        cursor.execute("INSERT INTO orders VALUES (?, 1, 1)", [ORDERS])
        cursor.execute("SELECT count(*) FROM customer, orders WHERE c_id = o_c_id AND c_name = 'x'")
        assert cursor.fetchone() == (there.count(1) + 1,)
        assert differences(db) == 0
