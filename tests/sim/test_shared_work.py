"""Simulated processes share work without effect on the run."""

import contextlib

import pytest

from hornbeam_server.query.binding import binder
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.query.workers import statements
from hornbeam_server.query.workers.control import Options
from hornbeam_server.query.workers.messages import Query
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.trees import unlink
from hornbeam_server.txlayer.statements import write_compiler
from tests.sim import simulation
from tests.sim.scenarios import WORKLOADS, scenario
from tests.sim.shared_work import shared_work


@pytest.mark.parametrize(("workload", "seed", "transactions"), [("totals", 2, 80), ("live", 5, 20)])
def test_a_run_takes_the_same_course_without_shared_work(monkeypatch, workload, seed, transactions):
    """Views come and go, or are rebuilt, so many catalogs are compiled, and nodes crash."""
    shared = run(workload, seed, transactions)
    monkeypatch.setattr(simulation, "shared_work", contextlib.nullcontext)
    alone = run(workload, seed, transactions)
    assert (shared.trace_hash, shared.counts) == (alone.trace_hash, alone.counts)
    assert shared.processes > 3


def run(workload, seed, transactions):
    drawn = scenario(seed, (workload,), ("everything",), (3,))
    return simulation.simulate(seed, WORKLOADS[workload], drawn.mix.profile, transactions, nodes=3)


def test_each_caller_owns_the_tree_of_a_text():
    sql = "SELECT a, sum(b) FROM t WHERE c = ? AND d IN (1, 2) GROUP BY a"
    with shared_work():
        trees = [binder.parse(sql) for _ in range(4)]
        assert len(set(map(id, trees))) == 4
        trees[2].args["where"].pop()
        unlink(trees[3])
        assert binder.parse(sql) == parse(sql)
        assert [node.meta for node in binder.parse(sql).walk()] == [
            node.meta for node in parse(sql).walk()
        ]
        with pytest.raises(SqlError):
            binder.parse("SELECT FROM FROM")


def test_a_text_with_a_sequence_is_refused_where_its_value_is_not_taken_out():
    sql = "INSERT INTO t VALUES (nextval('s'))"
    with shared_work():
        for _ in range(3):
            assert write_compiler.parse(sql, sequences=True) == parse(sql, sequences=True)
            with pytest.raises(SqlError):
                binder.parse(sql)


def test_a_database_serves_the_next_process_without_the_tables_of_the_last():
    with shared_work():
        first = statements.Statements(Options())
        first.answer(Query("CREATE TEMP TABLE mine AS SELECT 1 AS x", {}))
        first.close()
        again = statements.Statements(Options())
        assert again is first
        with pytest.raises(SqlError, match="mine"):
            again.answer(Query("SELECT * FROM mine", {}))
        assert statements.Statements(Options(memory_mb=64)) is not first
