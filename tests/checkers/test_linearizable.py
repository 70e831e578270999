"""The linearizability judge is itself tested, on hand-written and on random histories."""

import re
from itertools import combinations, permutations
from random import Random

import pytest

from tests.checkers.linearizable import (
    NOT_REPORTED,
    CheckerError,
    History,
    Operation,
    Verdict,
    check,
    check_all,
    program,
)

pytestmark = pytest.mark.go
LINE = re.compile(
    r"(?P<key>\w+) (?P<call>\d+)-(?P<end>\d+|\?) (?P<kind>\w+)(?P<args>( -?\d+| none)*)"
    r"( -> (?P<result>\S+))?(?P<failed> failed)?"
)
WORDS = {"none": None, "true": True, "false": False, "?": NOT_REPORTED}


def number(word):
    return WORDS[word] if word in WORDS else int(word)


def history(text):
    """One operation per line: key, call-return (? when no answer came), kind, arguments, result.

    Every operation has its own process. `cas 1 2` replaces 1 by 2.
    """
    operations = []
    for process, line in enumerate(filter(None, map(str.strip, text.splitlines()))):
        m = LINE.fullmatch(line)
        assert m, line
        arguments = [number(word) for word in m["args"].split()]
        operations.append(
            Operation(
                process=process,
                key=m["key"],
                kind=m["kind"],
                call=int(m["call"]),
                returned=None if m["end"] == "?" else int(m["end"]),
                argument=arguments[-1] if arguments else None,
                expected=arguments[0] if m["kind"] == "cas" else None,
                result=number(m["result"]) if m["result"] else NOT_REPORTED,
                outcome="failed" if m["failed"] else "unknown" if m["end"] == "?" else "ok",
            )
        )
    return operations


GOOD = {
    "nothing": "",
    "no row at first": "x 0-1 read -> none",
    "one after the other": """
        x 0-1 write 1
        x 2-3 read -> 1
        x 4-5 write 2
        x 6-7 read -> 2""",
    "a concurrent write is seen": """
        x 0-9 write 1
        x 1-2 read -> 1""",
    "a concurrent write is not seen yet": """
        x 0-9 write 1
        x 1-2 read -> none
        x 3-4 read -> 1""",
    "what ends as another begins is concurrent": """
        x 0-2 write 1
        x 2-3 read -> none""",
    "two writes in either order": """
        x 0-9 write 1
        x 0-9 write 2
        x 10-11 read -> 1""",
    "a write deletes": """
        x 0-1 write 1
        x 2-3 write none
        x 4-5 read -> none""",
    "adds": """
        x 0-1 write 10
        x 2-9 add 1 -> 13
        x 2-9 add 2 -> 12
        x 10-11 read -> 13""",
    "an add whose sum was not reported": """
        x 0-1 write 10
        x 2-3 add 1
        x 4-5 read -> 11""",
    "an add without a row does nothing": """
        x 0-1 add 1 -> none
        x 2-3 read -> none""",
    "insert if absent, once": """
        x 0-9 cas none 1 -> true
        x 0-9 cas none 2 -> false
        x 10-11 read -> 1""",
    "a chain of swaps": """
        x 0-9 cas 2 3 -> true
        x 0-9 cas 1 2 -> true
        x 0-9 cas none 1 -> true""",
    "a failed write had no effect": """
        x 0-1 write 1
        x 2-3 write 2 failed
        x 4-5 read -> 1""",
    "an unknown write took effect": """
        x 0-? write 1
        x 2-3 read -> 1""",
    "an unknown write never took effect": """
        x 0-? write 1
        x 2-3 read -> none
        x 4-5 read -> none""",
    "an unknown write took effect late": """
        x 0-? write 1
        x 2-3 write 2
        x 4-5 read -> 2
        x 6-7 read -> 1""",
    "an unknown add explains the sum": """
        x 0-1 write 0
        x 2-? add 5
        x 4-5 add 1 -> 6""",
    "an unknown swap": """
        x 0-? cas none 1
        x 2-3 read -> 1
        x 4-5 cas none 2 -> false""",
    "an unknown read says nothing": """
        x 0-1 write 1
        x 2-? read""",
    "keys are independent": """
        x 0-1 write 1
        y 2-3 read -> none
        y 4-5 write 2
        x 6-7 read -> 1""",
}

BAD = {
    "made up": "x 0-1 read -> 7",
    "stale read": """
        x 0-1 write 1
        x 2-3 read -> none""",
    "lost write": """
        x 0-1 write 1
        x 2-3 write 2
        x 4-5 read -> 1""",
    "back in time": """
        x 0-9 write 1
        x 1-2 read -> 1
        x 3-4 read -> none""",
    "two readers disagree on the order": """
        x 0-9 write 1
        x 0-9 write 2
        x 10-11 read -> 1
        x 12-13 read -> 2""",
    "reads what is not yet asked for": """
        x 0-1 read -> 1
        x 2-3 write 1""",
    "lost update of two adds": """
        x 0-1 write 10
        x 2-9 add 1 -> 11
        x 2-9 add 1 -> 11""",
    "an add that had no effect": """
        x 0-1 write 10
        x 2-3 add 1
        x 4-5 read -> 10""",
    "two winners of insert if absent": """
        x 0-9 cas none 1 -> true
        x 0-9 cas none 2 -> true""",
    "a swap refused for no reason": """
        x 0-1 write 1
        x 2-3 cas 1 2 -> false""",
    "a failed write is seen": """
        x 0-1 write 1 failed
        x 2-3 read -> 1""",
    "an unknown write is seen before its call": """
        x 0-1 read -> 1
        x 2-? write 1""",
    "an unknown write takes effect twice": """
        x 0-? write 1
        x 2-3 read -> 1
        x 4-5 write 2
        x 6-7 read -> 1""",
    "an unknown write is seen and then gone": """
        x 0-? write 1
        x 2-3 read -> 1
        x 4-5 read -> none""",
    "an unknown add counts twice": """
        x 0-1 write 0
        x 2-? add 5
        x 4-5 read -> 5
        x 6-7 read -> 10""",
    "deleted rows come back": """
        x 0-1 write 1
        x 2-3 write none
        x 4-5 read -> 1""",
    "one key of two": """
        a 0-1 write 1
        a 2-3 read -> 1
        x 0-1 write 1
        x 2-3 read -> none""",
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD.keys())
def test_linearizable(text):
    assert check(history(text)) == Verdict(True)


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_not_linearizable(text):
    verdict = check(history(text))
    assert not verdict.linearizable
    assert verdict.key == "x"
    assert "none of these can follow: process" in verdict.description


def test_initial_rows_are_read():
    read = history("x 0-1 read -> 5")
    assert check(read, {"x": 5}).linearizable
    assert not check(read, {"x": 6}).linearizable


def test_verdicts_on_many_histories_keep_their_order():
    texts = [*GOOD.values(), *BAD.values()]
    verdicts = check_all(History(history(text)) for text in texts)
    assert [v.linearizable for v in verdicts] == [text in GOOD.values() for text in texts]
    assert check_all([]) == []


def possible(operations):
    """Whether some order, agreeing with real time, explains all results."""
    unknown = [op for op in operations if op.outcome == "unknown"]
    for absent in (set(c) for n in range(len(unknown) + 1) for c in combinations(unknown, n)):
        for order in permutations(op for op in operations if op not in absent):
            if not any(
                later.returned is not None and later.returned < earlier.call
                for i, later in enumerate(order)
                for earlier in order[:i]
            ) and answers_the_same(order):
                return True
    return False


def answers_the_same(order):
    row = None
    for op in order:
        result = None
        match op.kind:
            case "read":
                result = row
            case "write":
                row = op.argument
            case "add":
                result = row = None if row is None else row + op.argument
            case "cas":
                result = row == op.expected
                row = op.argument if result else row
        if op.result is not NOT_REPORTED and (op.result, type(op.result)) != (result, type(result)):
            return False
    return True


def random_operation(process, choice):
    kind = choice.choice(["read", "write", "add", "cas"])
    call, is_unknown = choice.randrange(8), choice.random() < 0.2
    values = [None, 1, 2, 3]
    result = {
        "read": choice.choice(values),
        "write": NOT_REPORTED,
        "add": choice.choice([*values, NOT_REPORTED]),
        "cas": choice.choice([True, False, NOT_REPORTED]),
    }[kind]
    return Operation(
        process,
        "x",
        kind,
        call=call,
        returned=None if is_unknown else call + choice.randrange(6),
        argument=1 if kind == "add" else choice.choice(values),
        expected=choice.choice(values),
        result=NOT_REPORTED if is_unknown else result,
        outcome="unknown" if is_unknown else "ok",
    )


def test_verdicts_agree_with_trying_every_order():
    choice = Random(4)
    tried = [
        [random_operation(process, choice) for process in range(choice.randrange(2, 6))]
        for _ in range(2000)
    ]
    expected = [possible(operations) for operations in tried]
    assert [v.linearizable for v in check_all(map(History, tried))] == expected
    assert 400 < sum(expected) < 1600  # both happen often


def test_the_description_says_where_the_search_stops():
    verdict = check(history(BAD["stale read"]))
    assert verdict.description == (
        "in order: process 0 [0, 1] wrote 1; then it holds 1, "
        "and none of these can follow: process 1 [2, 3] read no row"
    )


def test_a_timeout_gives_no_verdict():
    """Thirty concurrent adds have 2³⁰ sets that could come first, and none explains the read."""
    adds = [
        Operation(process, "x", "add", call=0, returned=9, argument=1 << process)
        for process in range(30)
    ]
    read = Operation(30, "x", "read", call=10, returned=11, result=-1)
    with pytest.raises(CheckerError, match=r"history 1, key x: no verdict on 31 operations"):
        check_all([History(adds, {"x": 0}), History([*adds, read], {"x": 0})], timeout_ms=50)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Operation(0, "x", "read", 0, 1), "a read that is ok has a result"),
        (Operation(0, "x", "write", 0, None), "an operation that is ok has returned"),
        (Operation(0, "x", "write", 5, 4), "before its call"),
        (Operation(0, "x", "add", 0, 1), "an add needs a number"),
        (Operation(0, "x", "cas", 0, 1, result=None), "true or false"),
        (Operation(0, "x", "push", 0, 1), "not a kind of operation"),
        (Operation(0, "x", "write", 0, 1, outcome="lost"), "not an outcome"),
    ],
)
def test_an_invalid_operation_gives_no_verdict(operation, reason):
    with pytest.raises(CheckerError, match=reason):
        check([operation])


def test_without_go_the_error_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(CheckerError, match=r"no Go 1\.22 or newer: run python -m tests\.programs"):
        check(history(GOOD["adds"]))


def test_the_judge_is_built_once(monkeypatch):
    built = program()
    monkeypatch.setenv("PATH", "")
    assert program() == built
