"""Strike a real cluster: `make nemesis`, or FAULT="kill ZooKeeper" RUNS=5 MINUTES=60 SEED=7.

Every run of a fault is a round under load with a verdict, which is printed and appended to
`var/nemesis/verdicts.jsonl`. A run of all faults starts a new file, a run of some faults adds to
it; the table in `docs/nemesis.md` is made of the whole file. Runs over Thrift 1 gateways
(`--thrift 1`) have a folder and a file of their own, and are not in that table. After a round that
is not sound the next round gets a new world.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from hornbeam_server.demo.ending import ended_by_sigterm
from tests.nemesis import nemesis_report
from tests.nemesis.nemesis_faults import FAULTS
from tests.nemesis.nemesis_kinds import KINDS
from tests.nemesis.nemesis_run import Database, Round, Verdict, as_line, from_line
from tests.nemesis.nemesis_world import GATEWAY_ROLES, ROOT, world

PAGE = ROOT / "docs" / "nemesis.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make nemesis", description=__doc__)
    parser.add_argument("--fault", choices=FAULTS, action="append", help="default: all")
    parser.add_argument("--runs", type=int, default=3, help="of each fault")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin none after")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("var/nemesis"))
    parser.add_argument("--thrift", type=int, choices=GATEWAY_ROLES, default=2, help="of gateways")
    options = parser.parse_args()
    rng, faults = random.Random(options.seed), options.fault or list(FAULTS)
    plan = [fault for _ in range(options.runs) for fault in rng.sample(faults, len(faults))]
    folder = options.folder.resolve() / (f"thrift{options.thrift}" if options.thrift == 1 else "")
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "verdicts.jsonl"
    if not options.fault:
        kept.unlink(missing_ok=True)
    until = time.monotonic() + options.minutes * 60
    verdicts = []
    for verdict in strike(plan, options.seed, folder, until, options.thrift):
        with kept.open("a", encoding="utf-8") as file:
            file.write(as_line(verdict) + "\n")
        _tell(verdict)
        verdicts.append(verdict)
    everything = [from_line(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    print(nemesis_report.table(everything))
    if options.thrift != 1:
        nemesis_report.write(PAGE, everything)
    sys.exit(0 if all(verdict.sound for verdict in verdicts) else 1)


def strike(
    plan: Sequence[str], seed: int, folder: Path, until: float, thrift: int = 2
) -> Iterator[Verdict]:
    """The verdicts on the faults of `plan`, each as soon as its round is over."""
    left = list(enumerate(plan, 1))
    worlds = 0
    while left and time.monotonic() < until:
        worlds += 1
        place = folder / f"world-{worlds}"
        shutil.rmtree(place, ignore_errors=True)
        with world(place, thrift) as struck, closing(Database(struck.addresses)) as database:
            database.prepare(list(KINDS))
            sound = True
            while sound and left and time.monotonic() < until:
                number, fault = left.pop(0)
                round_ = Round(struck, database, list(KINDS), number, seed * 1_000 + number)
                verdict = asyncio.run(round_.run(fault))
                sound = verdict.sound
                yield verdict


def _tell(verdict: Verdict) -> None:
    found = "sound" if verdict.sound else "NOT SOUND"
    print(
        f"{verdict.fault}: {found}, {verdict.acknowledged} writes, {verdict.failed} requests"
        f" failed, none acknowledged for {verdict.outage_s} s, recovery after"
        f" {verdict.recovery_s} s, live views {verdict.live_lag_s} s late (seed {verdict.seed})",
        flush=True,
    )
    for words in (*verdict.lost, *verdict.torn, *verdict.stuck, *verdict.ended)[:20]:
        print(f"  {words}", flush=True)


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
