"""One attack from start to end: prepare, attack, wait, measure again, and check the data."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.hostile.hostile_clients import Orders, besiege
from tests.hostile.hostile_families import FAMILIES
from tests.hostile.hostile_polite import Experience, be_polite
from tests.hostile.hostile_report import Outcome
from tests.hostile.hostile_server import Target, ask, given, prepare, started, verified
from tests.hostile.hostile_watch import Watch

GB = 1 << 30
_PROCESSES = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Plan:
    """The parameters of an attack. Sizes are in bytes."""

    seed: int = 1
    seconds: float = 3_600.0
    clients: int = 4
    families: Sequence[str] = tuple(FAMILIES)
    longest_s: float = 30.0
    patience_s: float = 60.0
    calm_s: float = 10.0
    """Time of the polite client alone: before the attack, and after it and half of this time."""
    most: int = 8 * GB
    """Memory of the server and its children at which the server is killed."""
    address_space: int | None = None


def besieged(plan: Plan, folder: Path) -> Outcome:
    """Start a server in `folder`, attack it, and stop it."""
    with started(folder, plan.address_space) as target:
        prepare(target)
        watch = _watch(target, plan)
        outcome = _attack(plan, target, watch)
    left_over = [] if watch is None else watch.left_over()
    return replace(outcome, left_over=left_over, logged=_errors(folder / "server.log"))


def besieged_there(plan: Plan, url: str, pid: int | None) -> Outcome:
    """Attack a running server. Without `pid`, its memory is not measured."""
    target = given(url, pid)
    prepare(target)
    return _attack(plan, target, _watch(target, plan))


def _watch(target: Target, plan: Plan) -> Watch | None:
    if target.pid is None:
        return None
    kill = target.process.kill if target.process is not None else lambda: None
    return Watch(target.pid, plan.most, kill)


def _attack(plan: Plan, target: Target, watch: Watch | None) -> Outcome:
    """Run the attack and collect the observations before the server's end."""
    if watch is not None:
        watch.start()
    enough = _PROCESSES.Event()
    polite = _in_a_process(be_polite, target.host, target.port, enough)
    time.sleep(plan.calm_s)
    began = time.monotonic()
    sent = _in_a_process(besiege, _orders(plan, target, began + plan.seconds))()
    ended = time.monotonic()
    time.sleep(plan.calm_s / 2)
    quiet = time.monotonic()
    time.sleep(plan.calm_s)
    enough.set()
    experience: Experience = polite()
    if watch is not None:
        watch.stop()
    gone = target.ended or (watch is not None and not watch.same)
    return Outcome(
        seed=plan.seed,
        began=began,
        ended=ended,
        quiet=quiet,
        sent=sent,
        asked=experience.asked,
        samples=[] if watch is None else watch.samples,
        peak=0 if watch is None else watch.peak(),
        lost=[] if gone else lost(target, experience.acknowledged),
        differences=[] if gone else verified(target),
        restarted=gone,
        stopped=watch is not None and watch.exceeded,
    )


def _orders(plan: Plan, target: Target, until: float) -> Orders:
    return Orders(
        target.host,
        target.port,
        plan.seed,
        plan.families,
        plan.clients,
        plan.longest_s,
        until,
        plan.patience_s,
    )


def _in_a_process(work: Callable[..., None], *arguments: Any) -> Callable[[], Any]:
    """Start `work(*arguments, to)`; return a function that waits for the object sent to `to`."""
    ours, theirs = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=work, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()

    def result() -> Any:
        try:
            return ours.recv()
        finally:
            ours.close()
            process.join()
            process.close()

    return result


def lost(target: Target, acknowledged: Sequence[int]) -> list[int]:
    """Return the acknowledged keys that `journal` does not contain."""
    if not acknowledged:
        return []
    sql = "SELECT j_id FROM journal WHERE j_id >= ?"
    answer = ask(target, "/v1/query", {"sql": sql, "parameters": [min(acknowledged)]})
    there = {row[0] for row in answer["rows"]}
    return [key for key in acknowledged if key not in there]


def _errors(log: Path) -> list[str]:
    """Return the lines of the server's log that report an error."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if "level=error" in line or "[ERROR" in line]
