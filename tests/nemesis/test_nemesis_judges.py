"""The judges find planted errors, and nothing without them: rounds on an embedded database whose
fault is another client that changes rows."""

from __future__ import annotations

import asyncio
import os
import random
import time
from contextlib import closing
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import hornbeam
from bench.nodes import NodeProcess
from bench.served import client_url
from hornbeam_server.cluster.ports import free_ports
from hornbeam_server.demo.tpcw.live import Subscriber
from tests.nemesis import nemesis_live, nemesis_run
from tests.nemesis.nemesis_faults import FAULTS
from tests.nemesis.nemesis_kinds import KINDS
from tests.nemesis.nemesis_run import Database, Round
from tests.nemesis.nemesis_workloads import ROUND, Shop
from tests.nemesis.nemesis_world import ROOT


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder, (port,) = tmp_path_factory.mktemp("embedded"), free_ports(1)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HORNBEAM_")}
    environment |= {"HORNBEAM_DATA": str(folder / "data"), "HORNBEAM_PORT": str(port)}
    environment["PYTHONPATH"] = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"
    node = NodeProcess("embedded", port, folder / "log", environment)
    node.start()
    try:
        while not node.ready:
            time.sleep(0.1)
        addresses = [f"127.0.0.1:{port}"]
        with closing(Database(addresses)) as database:
            database.prepare(list(KINDS))
            yield SimpleNamespace(
                addresses=addresses, revive=list, is_settled=lambda: True, database=database
            )
    finally:
        node.kill()


PATIENCE_S = 20.0


@dataclass
class Tamper:
    """A client that no journal records."""

    statements: list[str]
    hold_s: float = 0.2
    silent: bool = True
    taken_over: float | None = None

    def strike(self, world: Any, rng: random.Random) -> None:
        """Run each statement once it finds rows to change."""
        give_up = time.monotonic() + PATIENCE_S
        with hornbeam.connect(client_url(world.addresses), autocommit=True) as db:
            for statement in self.statements:
                cursor = db.cursor()
                while cursor.execute(statement).rowcount < 1:
                    assert time.monotonic() < give_up, f"nothing to change: {statement}"
                    time.sleep(0.1)

    def heal(self, world: Any) -> None: ...


def judged(world, monkeypatch, number, *statements):
    """The verdict on a short round that runs `statements` as its fault."""
    monkeypatch.setitem(FAULTS, "tampering", lambda: Tamper(list(statements)))
    monkeypatch.setattr(nemesis_run, "BEFORE_S", 1.0)
    monkeypatch.setattr(nemesis_run, "AFTER_S", 0.5)
    round_ = Round(world, world.database, list(KINDS), number, number)
    return asyncio.run(round_.run("tampering"))


def test_a_round_without_errors_is_sound(world, monkeypatch):
    verdict = judged(world, monkeypatch, 1)
    assert verdict.sound, verdict
    assert verdict.acknowledged > 20
    assert verdict.failed == 0
    assert verdict.live_lag_s is not None


@pytest.mark.parametrize(
    ("number", "statement", "words"),
    [
        (2, f"DELETE FROM transfer WHERE t_id = {2 * ROUND}", "transfer"),
        (3, f"UPDATE list SET l_values = '' WHERE l_id >= {3 * ROUND}", "lost-append"),
        (8, "DELETE FROM event", "event"),
    ],
    ids=["transfer", "append", "event"],
)
def test_a_lost_write_is_found(world, monkeypatch, number, statement, words):
    verdict = judged(world, monkeypatch, number, statement)
    assert any(words in lost for lost in verdict.lost), verdict
    assert not verdict.sound


def test_a_change_that_a_subscriber_misses_is_found(world, monkeypatch):
    take, missed = Subscriber.take, []

    def forgetful(subscriber, changes, now_ms):
        if changes and not changes.begins and not missed:
            missed.append(changes.pop())
        take(subscriber, changes, now_ms)

    monkeypatch.setattr(Subscriber, "take", forgetful)
    monkeypatch.setattr(nemesis_live, "CATCH_UP_S", 3.0)
    verdict = judged(world, monkeypatch, 10)
    assert missed
    assert any("a subscriber has" in torn for torn in verdict.torn), verdict


@pytest.mark.parametrize(
    ("number", "statement", "words"),
    [
        (4, f"UPDATE counter SET c_value = c_value + 1000 WHERE c_id >= {4 * ROUND}", "counter"),
        (5, "UPDATE page SET p_entries = p_entries + 1 WHERE p_a_id = 1", "done twice"),
        (9, "UPDATE event SET ev_cost = ev_cost + 1", "costs 8"),
        (7, f"DELETE FROM cc_xacts WHERE cx_o_id > {Shop.SIZE.orders}", "without its payment"),
        (
            6,
            "UPDATE account SET a_balance = a_balance + 1 WHERE a_id = 1",
            "sum up to",
        ),  # last: it stays so
    ],
    ids=["counter", "entries", "events", "payments", "money"],  # the last error stays
)
def test_violations_are_found(world, monkeypatch, number, statement, words):
    verdict = judged(world, monkeypatch, number, statement)
    assert any(words in torn for torn in verdict.torn), verdict
    assert not verdict.sound
