"""Check the protocol models: `python -m tests.models.run`, or `make models`.

Every model is checked exhaustively (never by bitstate hashing) and must hold; every broken variant
must violate the expected property, shown by a shortest run (breadth-first search). Prints a table,
with `--stories` the counter-examples too; exits with 1 if a result is unexpected. Spin's files go
to a temporary folder.
"""

from __future__ import annotations

import argparse
import functools
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIME_LIMIT_S = 1800
MEMORY_LIMIT_MB = 6000
MAX_DEPTH = 10_000

SMALL = ("SLAVES=2", "ROOTS=2", "CRASHES=1")
FAULTLESS = ("SLAVES=2", "ROOTS=2", "CRASHES=0")
CHAIN = ("SLAVES=3", "ROOTS=2", "CRASHES=2", "LAST_SNAPSHOT=0")
# Two-phase commit has as many roots as slaves; CONFIGURATION chooses one of its initial states.
PAIR = ("SLAVES=2", "CRASHES=1", "CONFIGURATION=0", "LAST_SNAPSHOT=0")
FAULTLESS_PAIR = ("SLAVES=2", "CRASHES=0")

# The initial states of travelling locks: CONFIGURATION is 2 * what the master does besides
# (nothing, a member joins, a slot moves, the schema changes) + 1 if the transactions share one root
# instead of two; HOMES is 3 * the coordinator of the first transaction + that of the second.
QUIET = ("CONFIGURATION=0", "LAST_SNAPSHOT=0", "HOMES=2", "CRASHES=0")
QUIET_APART = ("CONFIGURATION=1", "LAST_SNAPSHOT=0", "HOMES=2", "CRASHES=0")
DEATH = ("CONFIGURATION=0", "LAST_SNAPSHOT=0", "HOMES=2", "CRASHES=1")
DEATH_APART = ("CONFIGURATION=1", "LAST_SNAPSHOT=0", "HOMES=2", "CRASHES=1")
DEATH_READ = ("CONFIGURATION=0", "LAST_SNAPSHOT=1", "HOMES=2", "CRASHES=1")
DEATHS = ("CONFIGURATION=0", "LAST_SNAPSHOT=0", "HOMES=2", "CRASHES=2")
JOINING = ("CONFIGURATION=3", "LAST_SNAPSHOT=1", "HOMES=2", "CRASHES=0")
JOINING_DEATH = ("CONFIGURATION=3", "LAST_SNAPSHOT=1", "HOMES=8", "CRASHES=1")
MOVING = ("CONFIGURATION=4", "LAST_SNAPSHOT=0", "HOMES=2", "CRASHES=0")
MOVING_APART = ("CONFIGURATION=5", "LAST_SNAPSHOT=0", "HOMES=2", "CRASHES=0")
MOVING_DEATH = ("CONFIGURATION=4", "LAST_SNAPSHOT=0", "HOMES=2", "CRASHES=1")
CHANGING = ("CONFIGURATION=6", "LAST_SNAPSHOT=0", "HOMES=2", "CRASHES=0")
CHANGING_DEATH = ("CONFIGURATION=6", "LAST_SNAPSHOT=0", "HOMES=2", "CRASHES=1")

# Lanes: LAST_SNAPSHOT and CRASHES as above. Stars have one size.
LANES = ("LAST_SNAPSHOT=2", "CRASHES=0")
LANES_DEATH = ("LAST_SNAPSHOT=1", "CRASHES=1")

# Guards: RING is the number of transactions; CONFIGURATION 1: a member joins, 2: one transaction
# takes no guards.
GUARDS = ("RING=2", "CONFIGURATION=0", "CRASHES=0")
GUARDS_PLAIN = ("RING=2", "CONFIGURATION=2", "CRASHES=0")
GUARDS_PLAIN_DEATH = ("RING=2", "CONFIGURATION=2", "CRASHES=1", "HOMES=1")
GUARDS_JOINING = ("RING=2", "CONFIGURATION=1", "CRASHES=0", "HOMES=2")
GUARDS_JOINING_DEATH = ("RING=2", "CONFIGURATION=1", "CRASHES=1", "HOMES=2")

# Epochs: COMMITS is their number; CONFIGURATION 1: a member joins.
EPOCHS = ("COMMITS=2", "CRASHES=0")
EPOCHS_DEATH = ("COMMITS=1", "CRASHES=1")
EPOCHS_JOINING = ("COMMITS=1", "CRASHES=0", "CONFIGURATION=1")

# Broken variants: bounds that suffice to show the bug, and the violated property.
BROKEN: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {
    "commit": {
        "NO_FENCE": (SMALL, "EXCLUSIVE"),
        "FENCE_SEGMENT_ONLY": (SMALL, "DURABLE"),
        "READ_BEFORE_FENCE": (SMALL, "DURABLE"),
        "UNLOCK_BEFORE_LOGGED": (FAULTLESS, "SERIAL"),
        "UNLOCK_BEFORE_APPLIED": (FAULTLESS, "SERIAL"),
        "READ_WITHOUT_LOGGED": (FAULTLESS, "SNAPSHOT"),
        "LOGGED_DROPPED_EARLY": (FAULTLESS, "SNAPSHOT"),
        "NEAR_NOT_MERGED": (FAULTLESS, "SNAPSHOT"),
        "WATERMARK_EARLY": (FAULTLESS, "SNAPSHOT"),
        "REPLAY_NEW_TIMESTAMP": (SMALL, "SNAPSHOT"),
        "GRANT_BEFORE_REPLAY": (SMALL, "SERIAL"),
        "CHECKPOINT_EARLY": (SMALL, "DURABLE"),
        "SUCCESSOR_KEEPS_CLOCK": (SMALL, "RISING"),
        "CLOCK_NOT_NOTED": (CHAIN, "RISING"),
        "STALE_SUCCESSOR": (CHAIN, "EXCLUSIVE"),
        "GRANT_TO_SUCCEEDED": (CHAIN, "STUCK"),
        "JOIN_WITHOUT_MERGE": (SMALL, "SNAPSHOT"),
        "DROP_DEAD_WATERMARK": (SMALL, "SNAPSHOT"),
        "PURGE_UNDER_ZOMBIE": (SMALL, "SNAPSHOT"),
    },
    "twophase": {
        "DECISION_NOT_LOGGED": (PAIR, "ATOMIC"),
        "PRESUME_COMMIT": (PAIR, "ATOMIC"),
        "FORGET_BEFORE_APPLIED": (FAULTLESS_PAIR, "ATOMIC"),
        "UNLOCK_ON_VOTE": (FAULTLESS_PAIR, "SERIAL"),
        "VOTE_BEFORE_LOGGED": (FAULTLESS_PAIR, "DURABLE"),
        "WATERMARK_PAST_VOTE": (FAULTLESS_PAIR, "SNAPSHOT"),
        "DECISION_NOT_MERGED": (("SLAVES=3", "CRASHES=0"), "RISING"),
        "ANSWER_BEFORE_FENCE": (PAIR, "DURABLE"),
        "CHECKPOINT_PAST_PREPARED": (PAIR, "DURABLE"),
        "CHECKPOINT_PAST_DECISION": (PAIR, "ATOMIC"),
        "APPLIED_WITHOUT_RECORD": (PAIR, "ATOMIC"),
        "GRANT_IN_DOUBT": (PAIR, "SERIAL"),
        "STALE_VOTE": (FAULTLESS_PAIR, "DURABLE"),
        "WAIT_FOR_ANYBODY": (FAULTLESS_PAIR, "STUCK"),
    },
    "locks": {
        "GRANT_NOT_MERGED": (QUIET, "RISING"),
        "RELEASE_NOT_MERGED": (QUIET_APART, "RISING"),
        "MEMBERSHIP_NOT_CHECKED": (DEATH, "EXCLUSIVE"),
        "MEMBERSHIP_CHECKED_EARLY": (DEATH, "EXCLUSIVE"),
        "RELEASE_BEFORE_APPLIED": (QUIET, "DURABLE"),
        "FREE_AT_DEATH": (DEATH, "EXCLUSIVE"),
        "KEEP_LOCKS_OF_THE_DEAD": (DEATH, "STUCK"),
        "GRANT_TO_THE_DEAD": (DEATH, "STUCK"),
        "NO_FENCE": (DEATH, "EXCLUSIVE"),
        "GRANT_BEFORE_REPLAY": (DEATH, "DURABLE"),
        "GRANT_BEFORE_ACKNOWLEDGED": (DEATH, "EXCLUSIVE"),
        "ACKNOWLEDGE_UNAPPLIED": (DEATH, "EXCLUSIVE"),
        "RECOVER_ONE_BY_ONE": (DEATHS, "EXCLUSIVE"),
        "ANSWER_UNCERTAIN": (DEATH, "SERIAL"),
        "LATE_REQUEST": (QUIET, "STUCK"),
        "WAIT_FOR_ANYBODY": (QUIET, "STUCK"),
        "DROP_DEAD_WATERMARK": (DEATH_READ, "SNAPSHOT"),
        "RESERVED_NOT_RECOVERED": (JOINING_DEATH, "SNAPSHOT"),
        "DEATH_WITHOUT_CLOCK": (DEATH_APART, "RISING"),
        "MOVE_WITHOUT_CLOCK": (MOVING_APART, "RISING"),
        "VERSION_NOT_MERGED": (DEATH_APART, "RISING"),
        "JOIN_COMMITS_EARLY": (JOINING, "SNAPSHOT"),
        "JOIN_BESIDE_THE_DEAD": (JOINING_DEATH, "SNAPSHOT"),
        "MOVE_WITHOUT_DRAINING": (MOVING, "EXCLUSIVE"),
        "GRANT_WHILE_LEAVING": (MOVING, "EXCLUSIVE"),
        "WAIT_FOR_LEAVING": (MOVING, "STUCK"),
        "MOVE_NOT_WITHDRAWN": (MOVING_DEATH, "STUCK"),
        "CHANGE_WITHOUT_DRAINING": (CHANGING, "SCHEMA"),
        "CHANGE_BESIDE_THE_DEAD": (CHANGING_DEATH, "SCHEMA"),
    },
    "lanes": {
        "CACHE_KEPT": (LANES_DEATH, "CACHE"),
        "CACHE_NOT_RESTORED": (LANES, "CACHE"),
        "READ_IN_FLIGHT": (LANES, "CACHE"),
        "READ_REPLACES": (LANES, "CACHE"),
        "LANE_GIVEN_EARLY": (LANES_DEATH, "OWNER"),
        "LANE_WITHOUT_FENCE": (LANES_DEATH, "OWNER"),
        "LANE_WITHOUT_CLOCK": (LANES_DEATH, "RISING"),
        "WRITER_NOT_IN_KEY": (LANES, "TOTAL"),
        "REPLAY_ADDS": (LANES_DEATH, "TOTAL"),
        "CELL_REMOVED": (LANES, "TOTAL"),
        "GROUP_REMOVED": (LANES, "TOTAL"),
        "BASE_PER_RANGE": (LANES, "TOTAL"),
        "BASE_WITH_LANES": (LANES, "TOTAL"),
        "WATERMARK_EARLY": (LANES, "TOTAL"),
    },
    "guards": {
        "GUARDS_NOT_HEEDED": (GUARDS, "SERIAL"),
        "COMMITS_NOT_WAITED_FOR": (GUARDS, "SERIAL"),
        "READ_BEFORE_GUARDED": (GUARDS, "SERIAL"),
        "RELEASE_NOT_MERGED": (GUARDS_PLAIN, "RISING"),
        "JOINED_NOT_ASKED": (GUARDS_JOINING, "SERIAL"),
        "MEMBERS_COMPARED": (GUARDS_JOINING_DEATH, "SERIAL"),
        "FREE_AT_DEATH": (GUARDS_PLAIN_DEATH, "RISING"),
        "KEEP_GUARDS_OF_THE_DEAD": (GUARDS_PLAIN_DEATH, "STUCK"),
    },
    "epochs": {
        "MEMBER_NOT_ASKED": (EPOCHS, "WHOLE"),
        "FORGOTTEN_NOT_SAID": (EPOCHS, "WHOLE"),
        "DEAD_NOT_HEEDED": (EPOCHS_DEATH, "WHOLE"),
        "CLOCK_NOT_COMPARED": (EPOCHS_DEATH, "WHOLE"),
        "MEMBERS_READ_EARLY": (EPOCHS_JOINING, "WHOLE"),
        "DEAD_LOG_LEFT_OUT": (EPOCHS_DEATH, "WHOLE"),
        "BEGUN_AGAIN": (EPOCHS, "TOTAL"),
        "BEGUN_UNCOMPARED": (EPOCHS, "TOTAL"),
        "PUT_UNRECORDED": (EPOCHS, "TOTAL"),
        "ADDED_TO_NEWEST": (EPOCHS, "EQUAL"),
        "FINISHED_EARLY": (EPOCHS, "TOTAL"),
        "ENDED_BY_ANOTHER": (EPOCHS, "TOTAL"),
    },
    "stars": {
        "PARENT_NOT_EXCLUSIVE": ((), "TOTAL"),
        "PARENT_NOT_KEPT": ((), "TOTAL"),
        "GRANDPARENT_NOT_KEPT": ((), "TOTAL"),
        "CHANGE_KEEPS_NOTHING": ((), "TOTAL"),
        "NOT_READ_AGAIN": ((), "TOTAL"),
    },
}

# Variants of travelling locks that the suite runs; all of them would take too long.
IN_SUITE = {
    "GRANT_NOT_MERGED",
    "MEMBERSHIP_CHECKED_EARLY",
    "RELEASE_BEFORE_APPLIED",
    "KEEP_LOCKS_OF_THE_DEAD",
    "GRANT_BEFORE_ACKNOWLEDGED",
    "ANSWER_UNCERTAIN",
    "LATE_REQUEST",
    "JOIN_COMMITS_EARLY",
    "MOVE_WITHOUT_CLOCK",
    "CHANGE_WITHOUT_DRAINING",
}

# Variants of other models that take too long for the suite.
SLOW = {"MEMBERS_COMPARED", "BEGUN_UNCOMPARED", "PUT_UNRECORDED"}

_STORY = re.compile(
    r"(slave \d|member \d|keeper \d|transaction \d|a successor|a recoverer|master|builder|reader"
    r"|purge|FAULT|[A-Z]{5,}):? "
)
_PROPERTY = re.compile(r"([A-Z]{5,}): ")


class MissingTool(Exception):
    """Spin or the C compiler is missing."""


@dataclass(frozen=True)
class Case:
    """One run. `expected` is the property that is violated; None: all hold."""

    model: str
    defines: tuple[str, ...]
    variant: str | None = None
    expected: str | None = None


@dataclass(frozen=True)
class Result:
    """`broken` is the violated property, "" if Spin gave no reason; None: all hold."""

    case: Case
    broken: str | None
    states: int
    depth: int
    memory_mb: float
    seconds: float
    story: tuple[str, ...]

    @property
    def as_expected(self) -> bool:
        return self.broken == self.case.expected


def small_cases() -> list[Case]:
    """All models at small bounds, and broken variants, for the test suite."""
    commit = [Case("commit", bounds) for bounds in (FAULTLESS, SMALL)]
    twophase = [Case("twophase", ("SLAVES=2", n)) for n in ("CRASHES=0", "CRASHES=1")]
    locks = [Case("locks", bounds) for bounds in (MOVING, DEATH)]
    lanes = [Case("lanes", bounds) for bounds in (LANES, LANES_DEATH)]
    guards = [Case("guards", bounds) for bounds in (GUARDS, GUARDS_PLAIN, GUARDS_JOINING)]
    epochs = [Case("epochs", bounds) for bounds in (EPOCHS, EPOCHS_DEATH)]
    broken = (
        case
        for case in _broken_cases()
        if (case.model != "locks" or case.variant in IN_SUITE) and case.variant not in SLOW
    )
    whole = [*commit, *twophase, *locks, *guards, *lanes, *epochs, Case("stars", ())]
    return [*whole, *broken]


def all_cases() -> list[Case]:
    """Three slaves, three roots, up to two crashes, and every broken variant.

    A run ends when its crashes are used up, so smaller numbers of crashes are runs of their own.
    The eight initial states of two-phase commit, and those of travelling locks, are checked
    separately where the memory does not suffice for all.
    """
    numbers = (("CRASHES=0",), ("CRASHES=1",), ("CRASHES=2",))
    beginnings = [f"CONFIGURATION={n}" for n in range(8)]
    commit = [Case("commit", ("SLAVES=3", "ROOTS=3", *n)) for n in numbers]
    twophase = [Case("twophase", ("SLAVES=3", *n)) for n in numbers[:2]]
    twophase += [Case("twophase", ("SLAVES=3", "CRASHES=2", n)) for n in beginnings]
    locks = [Case("locks", ("CRASHES=0", "LAST_SNAPSHOT=2"))]
    locks += [Case("locks", ("CRASHES=1", "LAST_SNAPSHOT=1", n)) for n in beginnings]
    locks += [Case("locks", ("CRASHES=2", "LAST_SNAPSHOT=0", n)) for n in beginnings]
    lanes = [Case("lanes", ("LAST_SNAPSHOT=3", n)) for n in ("CRASHES=0", "CRASHES=1")]
    lanes += [Case("lanes", ("LAST_SNAPSHOT=1", "CRASHES=2"))]
    guards = [Case("guards", ("RING=3", "CONFIGURATION=0", "CRASHES=0"))]
    guards += [
        Case("guards", ("RING=2", f"CONFIGURATION={n}", f"CRASHES={crashes}"))
        for n in range(3)
        for crashes in (0, 1)
    ]
    epochs = [
        Case("epochs", bounds)
        for bounds in (
            ("COMMITS=3", "CRASHES=0"),
            ("COMMITS=2", "CRASHES=0", "LAST_SNAPSHOT=3"),
            ("COMMITS=2", "CRASHES=1"),
            ("COMMITS=1", "CRASHES=0", "CONFIGURATION=1"),
            ("COMMITS=1", "CRASHES=1", "LAST_SNAPSHOT=1", "CONFIGURATION=1"),
        )
    ]
    whole = [*commit, *twophase, *locks, *guards, *lanes, *epochs, Case("stars", ())]
    return [*whole, *_broken_cases()]


def _broken_cases() -> Iterator[Case]:
    for model, variants in BROKEN.items():
        for variant, (defines, expected) in variants.items():
            yield Case(model, defines, variant, expected)


def require_tools() -> None:
    """Raises MissingTool unless Spin and a C compiler are installed."""
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if missing:
        raise MissingTool(
            f"{' and '.join(missing)} not found: the models need Spin 6 and a C compiler. "
            "Install them, on Debian with: apt-get install spin gcc libc6-dev"
        )


def check(case: Case, *, small: bool = False) -> Result:
    """Let Spin write a verifier, compile it, run it. `small`: the states fit into memory without
    compression, which takes more than half of the time. Raises RuntimeError if a tool fails."""
    with tempfile.TemporaryDirectory(prefix="hornbeam-models-") as name:
        folder = Path(name)
        defines = [f"-D{define}" for define in (*case.defines, case.variant) if define]
        model = str(HERE / f"{case.model}.pml")
        _run(folder, "spin", "-a", *defines, model)
        options = ["-DSAFETY", "-DNOFAIR", f"-DMEMLIM={MEMORY_LIMIT_MB}"]
        options += ["-DBFS", "-O0"] if case.variant else ["-O1"]
        options += [] if small else ["-DCOLLAPSE"]
        _run(folder, "gcc", "-w", *options, "-o", "pan", "pan.c")
        output = _run(folder, "./pan", f"-m{MAX_DEPTH}")
        story = [
            line
            for trail in folder.glob("*.trail")
            for line in _story(_run(folder, "spin", "-t", "-T", "-k", trail.name, *defines, model))
        ]
    return _result(case, output, tuple(story))


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout


def _story(trail: str) -> tuple[str, ...]:
    lines = (line.strip() for line in trail.splitlines())
    return tuple(line for line in lines if _STORY.match(line))


def _result(case: Case, output: str, story: tuple[str, ...]) -> Result:
    """Raises RuntimeError for a search that neither found an error nor reached every state."""

    def number(pattern: str) -> float:
        found = re.search(pattern, output)
        if found is None:
            raise RuntimeError(f"{case}: no {pattern!r} in\n{output}")
        return float(found[1])

    errors = number(r"errors: (\d+)")
    if not errors and ("not completed" in output or "too small" in output):
        raise RuntimeError(f"{case}: the search is not exhaustive:\n{output}")
    fallen = _PROPERTY.match(story[-1]) if story else None
    return Result(
        case=case,
        broken=None if not errors else fallen[1] if fallen else "",
        states=int(number(r"([\d.e+]+) states, stored")),
        depth=int(number(r"depth reached (\d+)")),
        memory_mb=number(r"([\d.]+)\ttotal actual memory usage"),
        seconds=number(r"elapsed time ([\d.e+-]+) seconds"),
        story=story,
    )


def check_all(cases: Sequence[Case], jobs: int, *, small: bool) -> Iterator[Result]:
    """The results in the order of `cases`; `jobs` searches run at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(functools.partial(check, small=small), cases)


def _line(result: Result) -> str:
    case = result.case
    found = "holds" if result.broken is None else f"{result.broken or 'error'} falls"
    verdict = found if result.as_expected else f"{found}, UNEXPECTED"
    return (
        f"{case.model:9} {case.variant or '-':25} {' '.join(case.defines):50} {verdict:18}"
        f"{result.states:>12,} {result.depth:>6} {result.memory_mb:>8,.0f} {result.seconds:>8.1f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="small bounds: what the suite runs")
    parser.add_argument("--stories", action="store_true", help="print the counter-examples")
    parser.add_argument("--jobs", type=int, default=2, help="searches at a time (default 2)")
    parser.add_argument(
        "--model", default="", help="one of " + ", ".join(BROKEN) + " (default all)"
    )
    parser.add_argument("--only", metavar="TEXT", default="", help="variants that contain TEXT")
    options = parser.parse_args()
    cases = small_cases() if options.small else all_cases()
    cases = [case for case in cases if options.only in (case.variant or "")]
    cases = [case for case in cases if options.model in case.model]
    try:
        require_tools()
    except MissingTool as error:
        print(error, file=sys.stderr)
        return 2
    print(
        f"{'model':9} {'variant':25} {'bounds':50} {'result':18}"
        f"{'states':>12} {'depth':>6} {'MB':>8} {'seconds':>8}"
    )
    unexpected = 0
    for result in check_all(cases, options.jobs, small=options.small):
        unexpected += not result.as_expected
        print(_line(result), flush=True)
        if result.story and (options.stories or not result.as_expected):
            print("".join(f"    {line}\n" for line in result.story), end="", flush=True)
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
