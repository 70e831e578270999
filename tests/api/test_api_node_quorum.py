"""A node of a real cluster whose ZooKeeper stops and starts again."""

import time

import httpx
import pytest

import hornbeam
from bench.nodes import NodeProcesses

pytestmark = pytest.mark.timeout(300)
READ = {"sql": "SELECT a FROM t ORDER BY a"}
WRITE = {"statements": [{"sql": "INSERT INTO t VALUES (2)"}]}


def test_without_zookeeper_reads_use_the_last_snapshot(real_cluster, tmp_path):
    with (
        NodeProcesses(real_cluster, tmp_path, 1, database="quorum") as nodes,
        httpx.Client(base_url=nodes.nodes[0].url, timeout=30) as node,
    ):
        with hornbeam.connect(nodes.client_url, autocommit=True) as db:
            plan = {"ddl": "CREATE TABLE t (a INTEGER PRIMARY KEY);", "workload": "", "roots": None}
            planned = db.transport.json("POST", "/v1/schema/plan", plan)
            db.transport.json("POST", "/v1/schema/apply", plan | {"plan_id": planned["plan_id"]})
            db.cursor().execute("INSERT INTO t VALUES (1)")
        real_cluster.kill("zookeeper")
        try:
            while "Hornbeam-Behind-S" not in (read := node.post("/v1/query", json=READ)).headers:
                time.sleep(0.1)  # until the node notices that its session has expired
            assert read.json()["rows"] == [[1]]
            refused = node.post("/v1/transactions", json=WRITE)
            assert (refused.status_code, refused.json()["outcome"]) == (503, "none")
            assert "Retry-After" in refused.headers
            strong = node.post("/v1/query", json=READ | {"consistency": "strong"})
            assert strong.status_code == 503
        finally:
            real_cluster.restart("zookeeper")
            real_cluster.await_health()
        nodes.settled()
        assert node.post("/v1/transactions", json=WRITE).status_code == 200
        assert node.post("/v1/query", json=READ).json()["rows"] == [[1], [2]]
