"""Contention of many clients, costs of locks, and the time of each part of a request."""

import random
from collections import Counter
from contextlib import closing

import pytest

import hornbeam
from bench.peers.contention import ContendedUpdates, Zipf, contention
from bench.peers.design import joins, tpcw
from bench.peers.hornbeam import Hornbeam
from bench.peers.locks import lock_costs, of_one_root, of_roots
from bench.peers.paper import Paper
from bench.peers.port import Cannot, Task
from bench.peers.results import LOCKS, ONE_ROOT, PAPER_LOCKS, PIECES, ROOTS_EACH
from bench.peers.run import Options
from bench.peers.throughput import pieces_of
from hornbeam_server.demo.tpcw.data import Size
from hornbeam_server.demo.tpcw.sessions import INTERACTIONS, MIXES, EmulatedBrowser, Measured
from hornbeam_server.storage.local.log import LocalLog
from hornbeam_server.storage.rocks.store import RocksStore

ROWS = 50
TASK = Task("count_up", "UPDATE customer SET c_discount = c_discount + 1 WHERE c_id = ?", False)


def contended(**changes):
    given = {"rows": ROWS, "skews": (0.0, 1.2), "clients": 4, "seconds": 0.2} | changes
    return ContendedUpdates(TASK, lambda row: (row,), **given)


class Refusing:
    """A system that refuses every update of the first row."""

    def __init__(self):
        self.closed = 0

    def session(self):
        return self

    def run(self, task, values):
        assert task is TASK
        if values == (1,):
            raise Cannot("1 is taken")

    def close(self):
        self.closed += 1


def test_refusals_are_counted_and_grow_with_skew():
    refusing = Refusing()
    even, skewed = contention({"refusing": refusing}, contended())["refusing"]
    assert (even.skew, skewed.skew) == (0.0, 1.2)
    assert even.refused / (even.refused + even.done) == pytest.approx(1 / ROWS, abs=0.02)
    first = 1 / sum(row**-1.2 for row in range(1, ROWS + 1))
    assert skewed.refused / (skewed.refused + skewed.done) == pytest.approx(first, abs=0.1)
    assert skewed.p99_ms >= skewed.p50_ms > 0
    assert skewed.error == "1 is taken"
    assert refusing.closed == 8


def test_a_system_that_refuses_all_updates_completes_none():
    class Never(Refusing):
        def run(self, task, values):
            raise Cannot("no")

    (point,) = contention({"never": Never()}, contended(skews=(0.0,), seconds=0.01))["never"]
    assert (point.done, point.p50_ms, point.error) == (0, 0.0, "no")
    assert point.refused >= 4


def test_a_client_without_a_session_ends_the_run():
    class Shut(Refusing):
        def session(self):
            raise Cannot("shut")

    with pytest.raises(Cannot, match="shut"):
        contention({"shut": Shut()}, contended(skews=(0.0,)))


def test_zipf_draws_by_its_weights():
    chance = random.Random(1)
    zipf = Zipf(4, 1.0)
    seen = Counter(zipf.draw(chance) for _ in range(10_000))
    total = 1 + 1 / 2 + 1 / 3 + 1 / 4
    for number in range(1, 5):
        assert seen[number] / 10_000 == pytest.approx(1 / number / total, abs=0.02)
    even = Counter(Zipf(4, 0.0).draw(chance) for _ in range(10_000))
    assert min(even.values()) > 2_200
    assert even.keys() == {1, 2, 3, 4}


@pytest.fixture(scope="module")
def ten_customers(tmp_path_factory):
    folder, source = tmp_path_factory.mktemp("contention"), joins(10)
    with (
        closing(Hornbeam("here", f"hornbeam:///{folder / 'here'}", source)) as here,
        closing(
            Paper(
                lambda: RocksStore.open(folder / "paper"),
                lambda: LocalLog.open(folder / "log", "paper", 1),
                source.design,
            )
        ) as paper,
    ):
        for system in (here, paper):
            for relation in source.relations:
                system.load(relation, source.rows(relation))
            system.loaded()
        yield here, paper


def quantities(system):
    with closing(hornbeam.connect(system.url, autocommit=True)) as db:
        cursor = db.cursor()
        cursor.execute("SELECT ol_o_id, ol_id, ol_qty FROM order_line")
        return {(order, line): quantity for order, line, quantity in cursor.fetchall()}


def test_locks_are_timed_by_method_and_number(ten_customers):
    here, paper = ten_customers
    before = quantities(here)
    found = lock_costs(here.url, paper, 10, (1, 10), rounds=2)
    assert tuple(found) == LOCKS
    for way in (ROOTS_EACH, ONE_ROOT, PAPER_LOCKS):
        assert {number: len(t.times_ms) for number, t in found[way].items()} == {1: 2, 10: 2}
    after = quantities(here)
    changed = Counter({line: after[line] - before[line] for line in before})
    wanted = Counter(of_roots(1))  # the first run is not timed
    for number in (1, 10):
        for run in range(2):
            wanted += Counter(of_roots(number)) + Counter(of_one_root(run + 1, number))
    assert +changed == wanted
    with pytest.raises(ValueError, match="too few"):
        lock_costs(here.url, paper, 10, (11,), rounds=1)


def test_locks_of_the_paper_are_released(ten_customers):
    _, paper = ten_customers
    paper.lock_cycle("customer", [(1,), (2,)])
    paper.lock_cycle("customer", [(2,), (1,)])
    with pytest.raises(Cannot, match="does not exist in customer"):
        paper.lock_cycle("customer", [(99,)])


def test_contention_on_hornbeam_is_never_refused_and_loses_nothing(ten_customers):
    here, _ = ten_customers
    (point,) = contention({"here": here}, contended(rows=10, skews=(1.2,)))["here"]
    assert point.done > 0
    assert point.refused == 0
    with closing(hornbeam.connect(here.url, autocommit=True)) as db:
        cursor = db.cursor()
        cursor.execute("SELECT SUM(c_discount) FROM customer")
        ((total,),) = cursor.fetchall()
    fresh = sum(row[12] for row in joins(10).rows("customer"))
    assert total - fresh == pytest.approx(point.done)


def test_parts_of_a_request_are_the_times_of_the_node_and_the_rest():
    measured = Measured()
    measured.latencies = {"w": [10.0, 20.0], "r": [3.0]}
    parts = {"plan": 1.0, "lock": 2.0, "compute": 0.5, "log": 3.0, "apply": 1.5}
    measured.pieces = {"w": [parts, parts], "r": [{"answer": 2.0}]}
    found = pieces_of(measured)
    assert found["w"]["lock and read"].times_ms == (2.0, 2.0)
    assert found["w"]["way"].times_ms == (2.0, 12.0)
    assert {name: piece.times_ms for name, piece in found["r"].items()} == {
        "answer": (2.0,),
        "way": (1.0,),
    }
    assert found["w"].keys() | found["r"].keys() == set(PIECES)


def test_every_mix_weighs_every_interaction():
    for weights in MIXES.values():
        assert len(weights) == len(INTERACTIONS)
        assert sum(weights) == 10_000
    assert all(callable(getattr(EmulatedBrowser, name)) for name in INTERACTIONS)


def test_contention_updates_a_statement_of_the_workload():
    tasks = tpcw(Size(10, 10)).tasks
    assert tasks["refresh_session"].sql.count("?") == 3
    assert Options().mixes == tuple(MIXES)
