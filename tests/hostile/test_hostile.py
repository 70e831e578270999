"""A server under a short attack (`make hostile` runs a long one), and the parts of the attack: the
drawn requests, the measurements of the polite client, and the report."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.depth import depth
from tests.hostile import hostile_clients
from tests.hostile.hostile_bodies import BODIES, SCHEMAS, TEXTS
from tests.hostile.hostile_clients import Sent, send
from tests.hostile.hostile_families import FAMILIES, MEMORY, RESULTS, TIME, WRITES, attack
from tests.hostile.hostile_polite import LINES, LIVE, READ, Asked, _Pace, _paced
from tests.hostile.hostile_report import (
    Bounds,
    Outcome,
    by_family,
    document,
    milliseconds,
    missed,
    phases,
    stalls,
    table,
    timeline,
    worst,
)
from tests.hostile.hostile_requests import MOST_AT_ONCE, QUERY, TRANSACT, Attack, Manner
from tests.hostile.hostile_run import GB, Plan, _orders, besieged
from tests.hostile.hostile_server import prepare, started
from tests.hostile.hostile_watch import Sample, Watch, family_of

READ_P99_MS, RSS_MB, TIMES = 500.0, 1536.0, 3
"""Bounds for a machine with other load. If reads were slow before the attack, they may be TIMES as
slow during it."""


@pytest.fixture
def folder(tmp_path):
    """Remove the folder at once, so that the kernel drops its unwritten pages: later tests wait
    until their own files are synced."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.alone
@pytest.mark.timeout(300)
def test_a_server_keeps_its_bounds_under_a_short_attack(folder):
    seconds = depth(12, long=20)
    plan = Plan(
        seconds=seconds, clients=3, longest_s=2, patience_s=20, calm_s=3, address_space=8 * GB
    )
    outcome = besieged(plan, folder)
    before = milliseconds(phases(outcome, outcome.asked[READ])["before"], 0.99)
    bounds = Bounds(max(READ_P99_MS, TIMES * before), RSS_MB)
    assert before < math.inf
    shown = table(outcome, bounds)
    print(shown)
    assert {sent.family for sent in outcome.sent} == set(FAMILIES), shown
    assert missed(outcome, bounds) == [], shown
    assert outcome.logged == [], shown


@pytest.mark.alone
@pytest.mark.timeout(300)
def test_every_statement_reaches_its_functions(folder):
    """With small numbers the templates are valid: their sizes are hostile, not their syntax."""
    with started(folder, 8 * GB) as target:
        prepare(target)
        orders = _orders(Plan(patience_s=30), target, math.inf)
        refused = {}
        for template in (*MEMORY, *TIME, *RESULTS, *WRITES):
            sql = re.sub("<[a-z]>", "5", template.text)
            write = template in WRITES
            body = {"statements": [{"sql": sql}]} if write else {"sql": sql}
            sent = Attack(
                "one",
                sql,
                TRANSACT if write else QUERY,
                json.dumps(body | {"timeout_ms": 1_000}).encode(),
                1.0,
            )
            status = send(orders, sent, 0).status
            if status not in {"200", "200 error", "200 long", "409", "413", "504", "507"}:
                refused[sql] = status
        assert refused == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_draws_the_same_requests(family):
    drawn = [attack(7, number, [family]) for number in range(60)]
    assert drawn == [attack(7, number, [family]) for number in range(60)]
    assert drawn != [attack(8, number, [family]) for number in range(60)]
    assert {each.family for each in drawn} == {family}
    assert len({each.label for each in drawn}) > 8
    assert all(1 <= each.limit_s <= 30 for each in drawn)
    assert all(1 <= each.at_once <= MOST_AT_ONCE for each in drawn)
    assert all(len(each.body) < 64 << 20 for each in drawn)


def test_the_families_take_turns_and_limits_are_bounded():
    drawn = [attack(1, number, list(FAMILIES), 2.0) for number in range(80)]
    assert [each.family for each in drawn] == [*FAMILIES] * 10
    own = [each for each in drawn if each.family in {"memory", "time", "slots", "results"}]
    assert all(1 <= each.limit_s <= 2 for each in own)
    assert all(json.loads(each.body)["timeout_ms"] == round(each.limit_s * 1000) for each in own)


@pytest.mark.parametrize("template", [*MEMORY, *TIME, *RESULTS, *WRITES], ids=lambda t: t.text)
def test_all_numbers_of_a_template_are_drawn(template):
    sql = template.sql(random.Random(1))
    assert set(re.findall("<([a-z])>", template.text)) == template.ranges.keys()
    assert not re.search("<[a-z]>", sql)


def test_every_text_body_and_schema_can_be_generated():
    rng = random.Random(1)
    assert all(make(rng) for _, make in TEXTS)
    assert all(make(rng) for _, _, make, _ in BODIES)
    assert all(make(rng)["ddl"] for _, make in SCHEMAS)


@pytest.mark.alone
def test_a_late_answer_makes_the_next_requests_late():
    """The pace continues during a late answer, so the requests behind it are late as well."""
    stop, line = threading.Event(), _Nothing()

    def ask(_, number):
        time.sleep(0.5 if number == 0 else 0)
        if number == 20:
            stop.set()

    asked = _paced(_Pace(LIVE, time.monotonic()), ask, line, stop)
    assert [round(b.due - a.due, 6) for a, b in pairwise(asked)] == [0.1] * 20
    assert asked[0].seconds >= 0.5
    assert asked[2].seconds >= 0.25
    assert asked[20].seconds < 0.25
    assert line.closed


@pytest.mark.alone
def test_requests_due_at_the_end_count_as_not_sent():
    stop = threading.Event()

    def ask(_, number):
        time.sleep(0.55)
        stop.set()

    asked = _paced(_Pace(LIVE, time.monotonic()), ask, _Nothing(), stop)
    assert [each.failure for each in asked] == ["", *["not sent"] * (len(asked) - 1)]
    assert len(asked) >= 6


def test_connections_of_a_kind_take_turns():
    paces = [_Pace(READ, 100.0, turn) for turn in range(LINES[READ])]
    due = sorted(pace.due(number) for number in range(3) for pace in paces)
    assert due == pytest.approx([100 + n / 50 for n in range(3 * LINES[READ])])


class _Nothing:
    closed = False

    def close(self):
        self.closed = True


def test_a_failed_request_counts_as_never_answered():
    asked = [Asked(n, 0.001) for n in range(98)] + [Asked(98, 0.001, "503"), Asked(99, 0.5)]
    assert milliseconds(asked, 0.5) == 1
    assert milliseconds(asked, 0.99) == 500
    assert milliseconds(asked, 1) == math.inf
    assert milliseconds([], 0.99) == 0


SOUND = Outcome(
    seed=1,
    began=10.0,
    ended=20.0,
    quiet=25.0,
    sent=[
        Sent("time", "slow", "504", 11.0, 1.2, 1.0),
        Sent("memory", "big", "507", 12.0, 0.1, 1.0),
    ],
    asked={READ: [Asked(n / 10, 0.002) for n in range(300)], LIVE: []},
    samples=[
        Sample(n / 10, (100 + n) << 20, (110 + n) << 20, 9, 30, 2) for n in range(0, 300, 10)
    ],
    peak=400 << 20,
    lost=[],
    differences=[],
    restarted=False,
)  # fmt: skip


def test_a_sound_outcome_misses_no_bound():
    assert missed(SOUND, Bounds()) == []
    assert "All bounds are kept." in table(SOUND, Bounds())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"asked": {READ: [Asked(n / 10, 0.06) for n in range(300)]}}, "Point reads during: p99"),
        ({"asked": {READ: [Asked(n / 10, 0.0, "504") for n in range(300)]}}, "p99 is inf ms"),
        ({"asked": {READ: [Asked(n / 10, 0.0) for n in range(200)]}}, "Point reads after"),
        ({"peak": 1025 << 20}, "1025 MB"),
        ({"sent": [Sent("writes", "x", "500", 11, 1, 1)]}, "1 answers 500 to writes: x"),
        ({"sent": [Sent("writes", "x", "502 cut", 11, 1, 1)]}, "1 answers 502"),
        ({"sent": [Sent("time", "x", "504", 11, 7.1, 2)]}, "Answered 5.1 s past its limit of 2 s"),
        ({"sent": [Sent("time", "x", "none in time", 11, 62, 2)]}, "60.0 s past"),
        ({"lost": [7]}, "1 acknowledged writes are lost: [7]"),
        ({"differences": ["a view"]}, "hornbeam verify: a view"),
        ({"left_over": [123]}, "run on: [123]"),
        ({"restarted": True}, "has ended"),
        ({"stopped": True}, "was killed"),
    ],
)
def test_each_bound_can_be_missed(change, words):
    found = missed(replace(SOUND, **change), Bounds())
    assert any(words in each for each in found), found


def test_reads_before_the_attack_miss_no_bound():
    slow = [Asked(n / 10, 9.0 if n < 100 else 0.002) for n in range(300)]
    assert missed(replace(SOUND, asked={READ: slow}), Bounds()) == []


def test_the_report_counts_by_family_and_names_the_worst():
    first, second = by_family(SOUND.sent)
    assert first == {
        "family": "time", "sent": 1, "statuses": {"504": 1}, "longest_s": 1.2, "over_s": 0.2
    }  # fmt: skip
    assert second["over_s"] == 0
    slow, big = worst(SOUND)
    assert (slow["over_s"], slow["grew_mb"], slow["read_s"]) == (0.2, 10, 0.0)
    assert big["over_s"] == 0
    never = replace(SOUND, asked={READ: [Asked(11.0, 0.0, "504")]})
    written = json.dumps(document(never, Bounds()), allow_nan=False)
    assert '"p99_ms": null' in written


def test_the_report_shows_reads_and_memory_by_minute():
    reads = [Asked(n / 10, 0.002 if n < 700 else 0.2) for n in range(1_300)]
    first, second = timeline(replace(SOUND, asked={READ: reads}))
    assert first == {"minute": 0, "p50_ms": 2, "p99_ms": 2, "max_ms": 2, "rss_mb": 390}
    assert (second["minute"], second["p50_ms"], second["rss_mb"]) == (1, 200, 0)


def test_the_report_names_the_requests_beside_late_reads():
    reads = [Asked(n / 10, 0.3 if 110 <= n < 113 or n == 150 else 0.002) for n in range(300)]
    first, second = stalls(replace(SOUND, asked={READ: reads}), 0.05)
    assert first == {"at_s": 1.0, "seconds": 0.3, "reads": 3, "beside": ["time: slow"]}
    assert (second["at_s"], second["beside"]) == (5.0, [])


@pytest.mark.alone
def test_the_watch_observes_a_process_and_its_children():
    inner = "import time; time.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    too_much = threading.Event()
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        watch = Watch(parent.pid, most=1 << 20, too_much=too_much.set)
        watch.start()
        deadline = time.monotonic() + 30
        while not (watch.samples and watch.samples[-1].children):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        _, child = family_of(parent.pid)
        assert watch.same
        assert watch.samples[-1].all_rss > watch.samples[-1].rss > 0
        assert watch.peak() >= watch.samples[-1].rss
        assert too_much.is_set()
        parent.kill()
        parent.wait()
        watch.stop()
        assert not watch.same
        assert watch.left_over() == [child.pid]
    subprocess.run(["kill", "-9", str(child.pid)], check=True)
    while family_of(child.pid):
        time.sleep(0.05)
    assert watch.left_over() == []


@pytest.mark.alone
@pytest.mark.parametrize(
    ("manner", "status"),
    [
        (Manner.WAIT, "200"),
        (Manner.SLOW, "200"),
        (Manner.LEAVE, "left"),
        (Manner.UNREAD, "unread"),
    ],
)
def test_each_manner_ends_with_its_status(server, manner, status, monkeypatch):
    monkeypatch.setattr(hostile_clients, "PAUSE_S", 0.1)
    sent = Attack("one", "x", QUERY, b'{"sql": "select 1"}', 1.0, manner=manner)
    assert send(_orders(Plan(), server, math.inf), sent, 0).status == status


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with started(tmp_path_factory.mktemp("hostile"), None) as target:
        prepare(target)
        yield target


@pytest.mark.alone
def test_the_time_of_a_request_counts_from_the_end_of_its_body(server, monkeypatch):
    monkeypatch.setattr(hostile_clients, "PAUSE_S", 0.3)
    sql = b'{"sql": "select 1", "timeout_ms": 1000}'
    sent = Attack("one", "x", QUERY, sql, 1.0, manner=Manner.SLOW)
    assert send(_orders(Plan(), server, math.inf), sent, 0).seconds < 2


@pytest.mark.alone
def test_a_request_to_an_ended_server_fails_at_once(tmp_path):
    with started(tmp_path, None) as target:
        orders = _orders(Plan(), target, math.inf)
        target.process.kill()
        target.process.wait()
        sent = Attack("one", "x", QUERY, b'{"sql": "select 1"}', 1.0)
        assert send(orders, sent, 0).status == "ConnectionRefusedError"
