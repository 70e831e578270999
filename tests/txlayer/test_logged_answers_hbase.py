"""A node on a real HBase that is killed between the answers of commits and their puts."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from bench.nodes import NodeProcess, NodeProcesses
from tests.query.test_workers import wait_until

pytestmark = pytest.mark.timeout(300)
DDL = """
CREATE TABLE owner (o_id INTEGER PRIMARY KEY);
CREATE TABLE account (
  a_id INTEGER PRIMARY KEY, a_o_id INTEGER REFERENCES owner (o_id), a_balance INTEGER);
CREATE INDEX by_balance ON account (a_balance);
CREATE MATERIALIZED VIEW totals AS SELECT a_o_id, count(*) AS n, sum(a_balance) AS total
  FROM account GROUP BY a_o_id;
"""
HOLDING = """
import asyncio
from pathlib import Path
from hornbeam_server.api.serve import serve
from hornbeam_server.txlayer.commit.committer import Committer

put = Committer._put

async def held(self, batch):
    while Path({hold!r}).exists():
        await asyncio.sleep(0.01)
    await put(self, batch)

Committer._put = held
serve()
"""
ADD = "UPDATE account SET a_balance = a_balance + 1 WHERE a_id = 1"
BALANCE, TOTAL = "SELECT a_balance FROM account WHERE a_id = 1", "SELECT total FROM totals"
BY_BALANCE = "SELECT a_id FROM account WHERE a_balance = 101"


@dataclass
class HoldingNodes(NodeProcesses):
    """Nodes that put no rows of commits while the file `hold` exists."""

    @property
    def hold(self) -> Path:
        return self.folder / "hold"

    def _node(self, number: int, port: int) -> NodeProcess:
        node = super()._node(number, port)
        return replace(node, program=("-c", HOLDING.format(hold=str(self.hold))))


def post(node, path, body, key=None):
    headers = {"Idempotency-Key": key} if key else {}
    sent = httpx.post(f"{node.url}{path}", json=body, headers=headers, timeout=60, trust_env=False)
    assert sent.status_code == 200, sent.text
    return json.loads(sent.text.splitlines()[-1])  # of a stream its last line


def is_built(node):
    status = httpx.get(f"{node.url}/v1/status", timeout=60, trust_env=False).json()
    return status["views"] == {"totals": "readable"}


def execute(node, sql, key=None):
    return post(node, "/v1/transactions", {"statements": [{"sql": sql}]}, key)


def value(node, sql, bookmark=0):
    return post(node, "/v1/query", {"sql": sql, "bookmark": bookmark})["rows"][0][0]


def test_answered_commits_outlive_a_kill_before_they_are_put(real_cluster, tmp_path):
    with HoldingNodes(real_cluster, tmp_path, 2, database="logged") as nodes:
        leader = nodes.leading()
        plan = {"ddl": DDL, "workload": "", "roots": None}
        planned = post(leader, "/v1/schema/plan", plan)
        post(leader, "/v1/schema/apply", plan | {"plan_id": planned["plan_id"]})
        execute(leader, "INSERT INTO owner VALUES (1)")
        opened = execute(leader, "INSERT INTO account VALUES (1, 1, 100)")["bookmark"]
        dying, other = nodes.nodes
        for node in nodes.nodes:
            wait_until(lambda: is_built(node), 60)  # noqa: B023
        assert value(other, TOTAL, opened) == value(dying, TOTAL, opened) == 100
        nodes.hold.touch()
        added = execute(dying, ADD, key="add")
        assert added["applied"]
        for sql, read in ((BALANCE, 101), (TOTAL, 101), (BY_BALANCE, 1)):
            assert value(dying, sql, added["bookmark"]) == value(dying, sql) == read
        assert value(other, BALANCE) == value(other, TOTAL) == 100
        dying.kill()
        nodes.hold.unlink()
        nodes.settled()
        for sql, read in ((BALANCE, 101), (TOTAL, 101), (BY_BALANCE, 1)):
            assert value(other, sql, added["bookmark"]) == read
        assert execute(other, ADD, key="add")["commit_ts"] == added["commit_ts"]
        assert value(other, BALANCE, execute(other, ADD)["bookmark"]) == 102
        assert post(other, "/v1/verify", {})["report"]["differences"] == 0
