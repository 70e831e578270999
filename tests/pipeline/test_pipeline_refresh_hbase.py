"""Deferred views on HBase, refreshed from the logs of several nodes. One node dies in the middle
of a batch."""

from contextlib import closing

import pytest

import hornbeam
from bench.nodes import NodeProcesses
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.refresh import driver as job
from tests.pipeline.test_pipeline_changes_hbase import DDL, write

pytestmark = pytest.mark.timeout(300)
BY_NAME = "SELECT c_name, count(*) AS n, sum(o_total) AS total, max(o_id) AS latest FROM customer" \
    " JOIN orders ON c_id = o_c_id GROUP BY c_name"  # fmt: skip
WITHOUT = "SELECT c_id FROM customer WHERE NOT EXISTS (SELECT 1 FROM orders WHERE o_c_id = c_id)"
VIEWS = {"by_name": BY_NAME, "without": WITHOUT}


def apply(db):
    views = "".join(
        f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'deferred') AS {sql};"
        for name, sql in VIEWS.items()
    )
    plan = {"ddl": DDL + views, "workload": "", "roots": None}
    planned = db.transport.json("POST", "/v1/schema/plan", plan)
    db.transport.json("POST", "/v1/schema/apply", plan | {"plan_id": planned["plan_id"]})


def check(db, upto):
    for name, sql in VIEWS.items():
        (shown, of), (again, _) = (answer(db, text, upto) for text in (f"FROM {name}", sql))
        assert (shown, of) == (again, upto), name
        assert shown or name == "without"


def answer(db, sql, at):
    body = {"sql": sql, "parameters": [], "snapshot": at}
    document = db.transport.json("POST", "/v1/query", body)
    return sorted(document["rows"]), document["snapshot"]


def test_a_batch_is_correct_when_the_leader_is_killed(spark, real_cluster, tmp_path, monkeypatch):
    with (
        NodeProcesses(real_cluster, tmp_path, 2, database="refresh") as nodes,
        hornbeam.connect(nodes.client_url, autocommit=True) as db,
        closing(open_transport(parse_url(nodes.client_url), 60)) as node,
    ):
        apply(db)
        one, two = nodes.nodes
        write(f"hornbeam://{one.address}", 10)
        write(f"hornbeam://{two.address}", 30)
        first = job.refresh(spark.sparkContext, node, nodes.client_url, "default")
        assert set(first.views) == set(VIEWS)
        check(db, first.upto)

        write(f"hornbeam://{one.address}", 50)
        write(f"hornbeam://{two.address}", 70)
        run, leader = job.run, nodes.leading()

        def killed(*arguments):
            leader.kill()
            return run(*arguments)

        monkeypatch.setattr(job, "run", killed)
        second = job.refresh(spark.sparkContext, node, nodes.client_url, "default")
        assert second.counts.changes >= 60
        assert second.upto > first.upto
        check(db, second.upto)
        monkeypatch.undo()
        # The next batch is correct, too.
        (left,) = [node for node in nodes.nodes if node is not leader]
        write(f"hornbeam://{left.address}", 90)
        third = job.refresh(spark.sparkContext, node, nodes.client_url, "default")
        assert third.counts.changes
        check(db, third.upto)
