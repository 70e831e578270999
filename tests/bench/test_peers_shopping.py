"""The same emulated browsers on every system, through its sessions."""

import asyncio
import os
import time
from contextlib import closing

import pytest

from bench.peers.cores import HBASE, Cores
from bench.peers.design import tpcw
from bench.peers.hornbeam import Hornbeam
from bench.peers.paper import Paper
from bench.peers.port import Cannot, Task
from bench.peers.shopping import DRIVERS, REST, SessionStore, SystemRun, shopping
from hornbeam_server.demo.tpcw.data import TODAY, Size
from hornbeam_server.demo.tpcw.sessions import Counter, EmulatedBrowser, Measured, StatementFailed
from hornbeam_server.storage.local.log import LocalLog
from hornbeam_server.storage.rocks.store import RocksStore

SIZE = Size(customers=20, items=20, orders_per_customer=3)
SOURCE = tpcw(SIZE)
TASKS = SOURCE.tasks


class NoCluster:
    def status(self):
        return []


@pytest.fixture(scope="module")
def systems(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shops")
    with (
        closing(Hornbeam("here", f"hornbeam:///{folder / 'here'}", SOURCE)) as here,
        closing(
            Paper(
                lambda: RocksStore.open(folder / "paper"),
                lambda: LocalLog.open(folder / "log", "paper", 1),
                SOURCE.design,
            )
        ) as paper,
    ):
        for system in (here, paper):
            for relation in SOURCE.relations:
                system.load(relation, SOURCE.rows(relation))
            system.loaded()
        yield {"here": here, "paper": paper}


def shop(system, **changes):
    given = {"clients": 2, "seconds": 1.5, "mix": "ordering", "skip": 10_000_000} | changes
    return SystemRun(system, TASKS, SIZE, **given)


def count(system, sql):
    with closing(system.session()) as session:
        return len(session.run(Task("count", sql, True), ()))


def test_every_point_is_on_all_systems(systems):
    steps = []
    found = shopping(
        systems, NoCluster(), TASKS, SIZE, ("browsing", "ordering"), (1, 3), 0.4, steps.append
    )
    assert list(found) == list(systems)
    assert steps[:2] == ["browsing, 1 clients, here", "browsing, 1 clients, paper"]
    for points in found.values():
        assert [(each.mix, each.clients, each.nodes) for each in points] == [
            ("browsing", 1, 1),
            ("browsing", 3, 1),
            ("ordering", 1, 1),
            ("ordering", 3, 1),
        ]
        for each in points:
            assert each.interactions > 0
            assert each.p99_ms >= each.p50_ms > 0
            assert each.cores.keys() == {HBASE, DRIVERS, REST}
            assert each.cores[DRIVERS] > 0
    for each in found["here"]:
        assert (each.errors, each.error) == (0, None)


def test_every_purchase_is_an_order(systems):
    before = count(systems["here"], "SELECT o_id FROM orders")
    seen = shop(systems["here"]).run()
    bought = sum(
        len(times)
        for each in seen
        for name, times in each.latencies.items()
        if name.startswith("enter_order")
    )
    assert bought > 0
    assert count(systems["here"], "SELECT o_id FROM orders") == before + bought
    assert not [error for each in seen for error in each.errors]


def test_the_paper_refuses_transactions_of_several_statements(systems):
    with (
        closing(systems["paper"].session()) as session,
        pytest.raises(Cannot, match="one statement"),
    ):
        session.transact([(TASKS["create_cart"], (1, TODAY)), (TASKS["clear_cart"], (1,))])
    errors = [error for each in shop(systems["paper"], clients=1).run() for error in each.errors]
    assert errors
    assert all("A transaction is one statement." in error for error in errors)


def test_transactions_of_several_statements_are_atomic(systems):
    here, cart = systems["here"], (77_777_777, TODAY)
    with closing(here.session()) as session:
        with pytest.raises(Cannot):
            session.transact(
                [(TASKS["create_cart"], cart), (TASKS["cart_line_insert"], (cart[0], 0, 1))]
            )
        sql = f"SELECT sc_id FROM shopping_cart WHERE sc_id = {cart[0]}"
        assert count(here, sql) == 0
        session.transact([(TASKS["create_cart"], cart)])
        assert count(here, sql) == 1


class Refusing:
    def session(self):
        return self

    def run(self, task, values):
        raise Cannot("shut")

    def transact(self, writes):
        raise Cannot("shut")

    def close(self):
        pass


def test_refused_statements_count_as_errors_and_not_as_interactions():
    (point,) = shopping({"shut": Refusing()}, NoCluster(), TASKS, SIZE, ("shopping",), (2,), 0.05)[
        "shut"
    ]
    assert (point.interactions, point.p50_ms, point.p99_ms) == (0, 0.0, 0.0)
    assert point.errors >= 2
    assert point.error.endswith("shut")
    store = SessionStore(Refusing(), TASKS, Measured())
    with pytest.raises(StatementFailed, match="get_stock: shut"):
        asyncio.run(store.read("get_stock", 1))


def test_interactions_that_end_late_do_not_count():
    class Late:
        """Answers each call after 50 ms."""

        async def read(self, name, *_):
            await asyncio.sleep(0.05)
            return [(1, "a", 1, "a")]

        async def write(self, *_):
            await asyncio.sleep(0.05)

    measured = Measured()
    browser = EmulatedBrowser(Late(), SIZE, Counter(SIZE), "1")
    asyncio.run(browser.run(time.monotonic() + 0.01, "browsing", measured))
    assert measured.interactions == 0
    asyncio.run(browser.run(time.monotonic() + 0.5, "browsing", measured))
    assert measured.interactions > 0


def test_busy_cores_are_attributed_to_groups_and_the_rest():
    began, spent = time.perf_counter(), time.process_time()
    cores = Cores({"none": list, "this": lambda: [os.getpid()]}, "rest")
    while time.process_time() < spent + 0.5:
        pass
    busy = cores.busy()
    expected = (time.process_time() - spent) / (time.perf_counter() - began)
    assert list(busy) == ["none", "this", "rest"]
    assert busy["none"] == 0
    assert busy["this"] == pytest.approx(expected, rel=0.3)  # other processes compete for the cores
