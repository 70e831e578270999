"""The same statements on several systems: here on Hornbeam with and without views."""

import datetime as dt
from contextlib import ExitStack, closing
from decimal import Decimal

import pytest

from bench.peers.answers import same
from bench.peers.design import joins, tpcw
from bench.peers.hornbeam import Hornbeam
from bench.peers.measuring import measure
from bench.peers.port import Cannot
from bench.peers.script import WRITES, script
from bench.peers.whole import drained
from hornbeam_server.demo.tpcw.data import Size

SIZE = Size(customers=20, items=20)
TASKS = tpcw(SIZE).tasks


class Broken:
    """A system that gives a wrong answer, or fails with `error`."""

    def __init__(self, error=""):
        self._error = error
        self.asked = 0

    def session(self):
        return self

    def run(self, task, values):
        self.asked += 1
        if self._error:
            raise Cannot(self._error)
        return [("another",)]

    def close(self):
        pass


class FromBase(Hornbeam):
    """Hornbeam whose sessions use no views."""

    def session(self):
        return super().session(use_views=False)


@pytest.fixture(scope="module")
def systems(tmp_path_factory):
    folder, source = tmp_path_factory.mktemp("peers"), tpcw(SIZE)
    with ExitStack() as stack:
        made = {}
        for name, kind in (("plain", FromBase), ("views", Hornbeam)):
            system = kind(name, f"hornbeam:///{folder / name}", source)
            made[name] = stack.enter_context(closing(system))
        for system in made.values():
            for relation in source.relations:
                system.load(relation, source.rows(relation))
            system.loaded()
        yield made


def test_every_statement_runs_and_answers_are_equal(systems):
    found = measure(systems, script(SIZE, 3), TASKS, warm_up=1)
    assert found.keys() == {"plain", "views"}
    for system, statements in found.items():
        assert statements.keys() == TASKS.keys()
        for name, measured in statements.items():
            assert measured.error is None, (system, name)
            assert len(measured.times_ms) == 2
            assert measured.equal is (True if TASKS[name].reads else None), (system, name)
    assert found["views"]["get_cart"].rows == 2
    assert set(systems["views"].sizes()) >= {"customer", "customer__orders"}


def test_a_wrong_answer_and_a_failure_are_reported(systems):
    (step,) = (step for step in script(SIZE, 3) if step.name == "get_name")
    failing = Broken("no such thing")
    found = measure({"plain": systems["plain"], "broken": Broken()}, [step], TASKS, warm_up=0)
    assert found["broken"]["get_name"].equal is False
    found = measure({"plain": systems["plain"], "broken": failing}, [step], TASKS, warm_up=0)
    assert found["broken"]["get_name"].error == "no such thing"
    assert failing.asked == 1


def test_the_script_has_every_statement_once_and_new_keys():
    steps = script(SIZE, 4)
    assert sorted(step.name for step in steps) == sorted(TASKS)
    for step in steps:
        if step.name in {"create_cart", "enter_order", "create_customer", "enter_address"}:
            assert len({values[0] for values in step.runs}) == 4
    assert script(SIZE, 4) == steps
    assert {name for names in WRITES for name in names} <= TASKS.keys()


def test_designs_differ_in_their_views():
    made = tpcw(SIZE).design
    assert made.views.view
    assert not made.plain.view
    assert all(made.views.readable(name) for name in (*made.views.view, *made.views.index))


def test_the_joins_are_views():
    made = joins(3)
    assert set(made.design.views.view) == {"customer__orders", "customer__orders__order_line"}
    assert sum(1 for _ in made.rows("order_line")) == made.row_counts["order_line"] == 300


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], True),
        ([(1,), (1,)], [(1,)], False),
        ([(Decimal("10.00"),)], [(10.0,)], True),
        ([(0.1 + 0.2,)], [(0.3,)], True),
        ([(Decimal("10.01"),)], [(10.0,)], False),
        ([(dt.datetime(2026, 1, 1),)], [(dt.datetime(2026, 1, 1, tzinfo=dt.UTC),)], True),
        ([(None,)], [("",)], False),
        ([(bytearray(b"x"),)], [(b"x",)], True),
        ([(True,)], [(1,)], True),
    ],
)
def test_answers_are_compared_by_value(one, other, equal):
    assert same("get_name", one, other) is equal


def test_with_ties_at_a_limit_only_the_number_of_rows_is_compared():
    assert same("best_sellers", [(1,)], [(2,)])
    assert not same("best_sellers", [(1,)], [])


class Reader(Broken):
    """Returns the given number of rows, or fails when it is drained."""

    def __init__(self, rows, error=""):
        super().__init__(error)
        self._rows = rows

    def drain(self, task):
        return len(super().run(task, ()) * self._rows)

    def run(self, task, values):
        return [("row", number) for number in range(self._rows)]


def test_whole_joins_are_drained_by_turns_and_compared(tmp_path):
    source, steps = joins(3), []
    with closing(Hornbeam("here", f"hornbeam:///{tmp_path / 'here'}", source)) as here:
        for relation in source.relations:
            here.load(relation, source.rows(relation))
        here.loaded()
        with (
            closing(here.session()) as viewed,
            closing(here.session(use_views=False)) as joined,
        ):
            readers = {"view": viewed, "join": joined, "wrong": Reader(30)}
            found = drained(readers, source.tasks["Q1"], 2, compare=True, on_step=steps.append)
    assert steps[:4] == ["Q1, view", "Q1, join", "Q1, wrong", "Q1, join"]
    for way, measured in found.items():
        assert len(measured.times_ms) == 2
        assert measured.rows == 2 * 30
        assert measured.equal is (way != "wrong")


def test_without_comparison_rows_are_only_counted():
    task = joins(3).tasks["Q1"]
    readers = {
        "first": Reader(30),
        "other": Reader(30),
        "fewer": Reader(29),
        "broken": Reader(30, "no"),
    }
    found = drained(readers, task, 1, compare=False)
    assert [measured.equal for measured in found.values()] == [True, True, False, None]
    assert (found["broken"].error, readers["broken"].asked) == ("no", 1)
