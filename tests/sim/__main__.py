"""Run simulations: `make sim SEEDS=200 FIRST_SEED=1`, or `make sim MINUTES=60`.

Every seed draws a workload, a mix of faults and a number of nodes, runs them, and checks what must
hold. The command that repeats a failure is printed with it.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hornbeam_server.storage.simulated.chaos import Fault
from tests.sim.scenarios import WORKLOADS, Scenario, load_mixes, load_nodes, scenario
from tests.sim.simulation import Report, simulate

ENOUGH_SEEDS = 50
"""With this many seeds every fault of the mixes must have fired."""


@dataclass
class Totals:
    """The totals over all runs."""

    seeds: int = 0
    committed: int = 0
    refused: int = 0
    reads: int = 0
    processes: int = 0
    stopped: int = 0
    followed: int = 0
    """Commits that followers of the logs learned of."""
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    fired: Counter[str] = field(default_factory=Counter)
    scenarios: Counter[str] = field(default_factory=Counter)
    traces: dict[int, str] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, report: Report) -> None:
        self.seeds += 1
        self.committed += report.committed
        self.refused += report.refused
        self.reads += report.reads
        self.processes += report.processes
        self.stopped += report.stopped
        self.followed += report.counts["followed"]
        self.simulated_s += report.simulated_s
        self.cpu_s += report.cpu_s
        self.fired.update({str(fault): n for fault, n in report.fired.items()})
        self.scenarios[name] += 1
        self.traces[report.seed] = report.trace_hash

    @property
    def transactions(self) -> int:
        """All transactions of known outcome: committed, refused for good, and reads."""
        return self.committed + self.refused + self.reads

    @property
    def per_second(self) -> float:
        """Transactions per second of one core."""
        return self.transactions / self.cpu_s if self.cpu_s else 0.0


def main() -> int:
    options = _arguments()
    if os.environ.get("PYTHONHASHSEED") != "0":
        print("Set PYTHONHASHSEED=0: the order of sets is part of a run.", file=sys.stderr)
        return 2
    began, totals = time.monotonic(), Totals()
    pools = multiprocessing.get_context("fork")
    # Objects loaded before the first run stay: no run has to search them for garbage.
    with pools.Pool(options.jobs, gc.freeze, maxtasksperchild=50) as pool:
        work = ((seed, options) for seed in _seeds(options, began))
        for chosen, outcome in pool.imap_unordered(_run, work):
            if isinstance(outcome, Report):
                totals.add(chosen.name, outcome)
            else:
                _tell_failure(chosen, outcome, options)
                totals.failures.append({"seed": chosen.seed, "scenario": chosen.name,
                                        "error": outcome.strip().splitlines()[-1]})  # fmt: skip
            _progress(totals, began, options)
    silent = _silent_faults(totals, options)
    _tell(totals, time.monotonic() - began, silent, options)
    return 1 if totals.failures or silent else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many runs (100)")
    parser.add_argument("--first-seed", type=int, default=1, help="the first of them (1)")
    parser.add_argument("--minutes", type=float, help="run for so long instead")
    parser.add_argument("--transactions", type=int, default=500, help="per run (500)")
    parser.add_argument("--workload", action="append", choices=sorted(WORKLOADS), default=[],
                        help="only this one; may be repeated")  # fmt: skip
    parser.add_argument("--mix", action="append", default=[],
                        choices=[mix.name for mix in load_mixes()],
                        help="only these faults; may be repeated")  # fmt: skip
    parser.add_argument("--nodes", action="append", type=int, choices=sorted(load_nodes()),
                        default=[], help="only so many that serve; may be repeated")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--follow", action="store_true", help="a follower reads the logs, too")
    parser.add_argument("--json", action="store_true", help="print the totals as JSON")
    return parser.parse_args()


def _seeds(options: argparse.Namespace, began: float) -> Iterator[int]:
    """The seeds to run; with --minutes until the time is over."""
    if options.minutes is None:
        yield from range(options.first_seed, options.first_seed + options.seeds)
        return
    for seed in itertools.count(options.first_seed):
        if time.monotonic() - began > options.minutes * 60:
            return
        yield seed
        while seed - options.first_seed - _done.value > 4 * options.jobs:
            time.sleep(0.05)  # otherwise the pool would take all seeds at once


_done = multiprocessing.Value("q", 0)


def _run(work: tuple[int, argparse.Namespace]) -> tuple[Scenario, Report | str]:
    seed, options = work
    chosen = scenario(seed, options.workload or tuple(WORKLOADS), options.mix, options.nodes)
    try:
        outcome: Report | str = simulate(
            seed,
            WORKLOADS[chosen.workload],
            chosen.mix.profile,
            options.transactions,
            nodes=chosen.nodes,
            clients=chosen.mix.clients,
            follow=options.follow,
        )
    except BaseException:
        outcome = traceback.format_exc()
    with _done.get_lock():
        _done.value += 1
    return chosen, outcome


def _silent_faults(totals: Totals, options: argparse.Namespace) -> list[str]:
    """Faults that should have fired and never did: such a run proves less than it claims."""
    if totals.seeds < ENOUGH_SEEDS:
        return []
    used = [mix for mix in load_mixes() if not options.mix or mix.name in options.mix]
    expected: set[Fault] = set().union(*(mix.profile.faults for mix in used))
    return sorted(str(fault) for fault in expected if not totals.fired[fault])


def _replay(chosen: Scenario, options: argparse.Namespace) -> str:
    extra = f" TRANSACTIONS={options.transactions}"
    extra += "".join(f" WORKLOAD={name}" for name in options.workload)
    extra += "".join(f" MIX={name}" for name in options.mix)
    extra += "".join(f" NODES={number}" for number in options.nodes)
    extra += " FOLLOW=1" if options.follow else ""
    return f"make sim SEEDS=1 FIRST_SEED={chosen.seed}{extra}"


def _tell_failure(chosen: Scenario, outcome: str, options: argparse.Namespace) -> None:
    print(f"\nSeed {chosen.seed} ({chosen.name}) failed:\n{outcome}", file=sys.stderr)
    print(f"Again: {_replay(chosen, options)}\n", file=sys.stderr, flush=True)


def _progress(totals: Totals, began: float, options: argparse.Namespace) -> None:
    if sys.stderr.isatty():
        done = totals.seeds + len(totals.failures)
        share = f"{done}" if options.minutes else f"{done}/{options.seeds}"
        seconds = time.monotonic() - began
        print(
            f"\r{share} seeds, {totals.transactions:,} transactions,"
            f" {len(totals.failures)} failed, {seconds:.0f} s ",
            end="", file=sys.stderr, flush=True,
        )  # fmt: skip


def _tell(totals: Totals, real_s: float, silent: list[str], options: argparse.Namespace) -> None:
    if options.json:
        print(
            json.dumps(
                vars(totals)
                | {"transactions": totals.transactions, "real_s": real_s, "silent": silent}
            )
        )
        return
    print(f"\n{'scenario':<32}{'seeds':>8}")
    for name, count in sorted(totals.scenarios.items()):
        print(f"{name:<32}{count:>8}")
    print(f"\n{'fault':<32}{'fired':>8}")
    for name, count in sorted(totals.fired.items()):
        print(f"{name:<32}{count:>8}")
    if len(totals.traces) == 1:
        print(f"\ntrace {next(iter(totals.traces.values()))}")
    print(
        f"\n{totals.seeds} seeds, {totals.transactions:,} transactions"
        f" ({totals.committed:,} commits, {totals.refused:,} refused, {totals.reads:,} reads),"
        f" {totals.processes:,} processes, {totals.stopped:,} of them stopped in good order,"
        f" {totals.simulated_s / 3600:.1f} simulated hours"
        f" in {real_s:.0f} s; {totals.per_second:,.0f} transactions per second and core"
    )
    if options.follow:
        print(f"{totals.followed:,} of the commits were followed")
    for name in silent:
        print(f"Never fired: {name}")
    print(f"{len(totals.failures)} violations")


if __name__ == "__main__":
    sys.exit(main())
