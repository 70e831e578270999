"""The cycle checker is itself tested, on hand-written histories."""

from pathlib import Path

import pytest

from tests.checkers import cycles
from tests.checkers.list_append import Append, Read, Transaction, parse
from tests.checkers.serializable import check, kinds

HISTORIES = Path(__file__).with_name("histories.txt").read_text()


def cases():
    for block in HISTORIES.split("\n== ")[1:]:
        name, expected, *lines = block.split("\n")
        assert expected.startswith("expect:"), name
        yield pytest.param("\n".join(lines), expected.split()[1:], id=name)


@pytest.mark.parametrize(("text", "expected"), list(cases()))
def test_finds_exactly_the_anomalies(text, expected):
    found = check(*parse(text))
    assert sorted(a.kind for a in found) == sorted(expected), "\n".join(map(str, found))


def test_there_are_many_histories_with_different_names():
    names = [case.id for case in cases()]
    assert len(names) == len(set(names)) >= 50


@pytest.mark.parametrize(("text", "expected"), list(cases()))
def test_a_limited_search_still_finds_an_anomaly(monkeypatch, text, expected):
    monkeypatch.setattr(cycles, "SEARCH_LIMIT", 0)
    assert bool(check(*parse(text))) is bool(expected)


def test_an_anomaly_is_explained_in_words():
    text = """
        T1: x+1 y+1
        T2 snapshot: y=[1] x=[]
        T3 0-1: z+1
        T4 2-3: z=[]
        final: x=[1] y=[1] z=[1]
    """
    found = check(*parse(text))
    assert [str(anomaly) for anomaly in found] == [
        "torn-snapshot: T2 saw y:1 of T1, but not x:1",
        "G-single: T2 read x without 1, which T1 appended; T1 appended y:1, which T2 read",
        "G-single-realtime: T4 read z without 1, which T3 appended; "
        "T3 completed at 1, before T4 was invoked at 2, on root z",
    ]
    assert found[-1].transactions == ("T4", "T3")


def test_the_shortest_cycle_is_reported():
    """Three transactions make a cycle, and two of them make one alone."""
    text = """
        T1: x+1 y+1 z+1
        T2: z+2 v+2
        T3: x+3 y+3 v+3
        final: x=[1,3] y=[3,1] z=[1,2] v=[2,3]
    """
    found = check(*parse(text))
    assert [(a.kind, set(a.transactions)) for a in found] == [("G0", {"T1", "T3"})]


def test_a_long_history_needs_no_deep_stack():
    """2000 transactions in one cycle: each appends after the one before it, the first last."""
    count = 2000
    history = [
        Transaction(f"T{n}", (Append(f"k{n}", 1), Append(f"k{(n + 1) % count}", 2)), "p", 0, 1)
        for n in range(count)
    ]
    assert kinds(check(history, {f"k{n}": (2, 1) for n in range(count)})) == {"G0"}
    assert check(history, {f"k{n}": (1, 2) for n in range(1, count)}) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("T1: x+1\nT1: x+2", "two transactions are called T1"),
        ("T1: x+1\nT2: x+1", "1 is appended to x twice"),
        ("T1: x+1 x+1", "1 is appended to x twice"),
        ("T1 2-1: x+1", "completed before it was invoked"),
        ("T1 2-?: x+1", "say when it completed"),
        ("T1 snapshot: x+1", "cannot append"),
        ("T1 sometimes: x+1", "not an attribute"),
        ("T1: x-1", "not an operation"),
    ],
)
def test_an_invalid_history_is_refused(text, reason):
    with pytest.raises(ValueError, match=reason):
        check(*parse(text))


def test_an_unanswered_read_shows_nothing():
    lost = Transaction("T1", (Append("x", 1), Read("x", None)), "p", 0, None, "unknown")
    assert check([lost], {"x": (1,)}) == []
