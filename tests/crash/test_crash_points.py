"""Crashes at every point of every kind of transaction and schema change, and of recovery.

After each crash: a request has happened wholly or not at all, and wholly if it was acknowledged; a
repeated request happens once and has the same answer; base rows, views and indexes are right;
nothing is locked; later commits have later timestamps than every snapshot read before.

The points are not listed here: a life without a crash shows them. Crashes that leave the same bytes
have the same future, which runs once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, count
from typing import Any

import pytest

from hornbeam_server.node.assembly import SYSTEM_TABLES
from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import State
from hornbeam_server.txlayer.commit.failpoints import Step
from hornbeam_server.txlayer.ddl.numbering import tables_of
from tests.crash.crash_points_kinds import KINDS, Kind
from tests.crash.crash_points_world import Life, Work, World, left, live
from tests.depth import depth
from tests.sim.shared_work import shared_work
from tests.txlayer.database_world import run_all, settled, stored_rows
from tests.txlayer.test_transactions_statements import FILL

MACHINES = (None, 0, 1)
"""The fate of the machine: it survives, loses everything unsynced, or loses a part of it."""
VOLATILE = {"v_id", "v_at", "v_day", "rowid", "n_id", "n_no"}
"""Columns whose defaults differ from one attempt to the next."""
IDLE_S = 10
"""Longer than timestamps are reserved for."""
APART = 5
"""Turns of the event loop between requests: the second batch is logged before the first is
applied."""
EVERY_IMAGE = bool(depth(0, long=1))
"""Recoveries are cut from every image. Otherwise, of images that recover over the same points to
the same result, from the first one."""
KIND = {kind.name: kind for kind in KINDS}
Contents = dict[str, Counter]
Course = tuple[tuple[str, ...], frozenset[int], int | None]
"""The points of a recovery, its result, and the fate of the machine before it."""


@dataclass(frozen=True)
class Reported:
    """What clients know from all lives so far: the latest snapshot, and answers by number."""

    seen_ts: int = 0
    answers: dict[int, Any] = field(default_factory=dict)

    def then(self, life: Life) -> Reported:
        return Reported(max(self.seen_ts, life.seen_ts), self.answers | life.answers)


@dataclass(frozen=True)
class Verdict:
    """The findings of a restart: which requests had happened, the answers to repeated requests, the
    timestamp of a later commit, and the points of the recovery."""

    happened: frozenset[int]
    answers: dict[int, Any]
    later_ts: int
    recovery: tuple[str, ...]


# ------------------------------------------------------------ invariants


async def contents(database: Database) -> Contents:
    """All rows of all relations, views and indexes, which must be readable. Immediate views are
    read as groups."""
    await database.committer.drain()  # the answers may have come before
    catalog, at = database.catalog, database.watermark()
    assert set(catalog.state.values()) <= {State.READABLE}
    found = {}
    for name in (*catalog.schema.names, *catalog.view, *catalog.index):
        columns = catalog.layout(name).columns
        kept = [i for i, c in enumerate(columns) if c.name not in VOLATILE and not c.dropped]
        rows = await stored_rows(database, name, at)
        found[name] = Counter(tuple(row[i] for i in kept) for row in rows)
    for name in catalog.immediate_view:
        found[name] = Counter(await database.fetch(f"SELECT * FROM {name}"))
    return found


async def require_no_orphans(database: Database) -> None:
    catalog, stored = database.catalog, await database.store.tables()
    assert set(stored) == {*SYSTEM_TABLES, *tables_of(catalog)}


def require_nothing_stuck(database: Database) -> None:
    locks = database.locks
    assert (locks.held_count, locks.waiting_count) == (0, 0)
    assert not database.manager.unfinished


async def ask(
    kind: Kind, database: Database, among: Iterable[int], answers: dict[int, Any]
) -> None:
    """Send the requests `among`, each a little after the one before, without waiting for
    answers."""

    async def one(number: int) -> None:
        for _ in range(APART * number):
            await asyncio.sleep(0)
        answers[number] = await kind.asks[number](database)

    await asyncio.gather(*map(one, among))


class Case:
    """One kind of work: the world before it, the whole life, and the rows that are stored after
    each subset of its requests."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        world = World()
        live(world, self._prepare)
        self.image = world.image()
        self.all = frozenset(range(len(kind.asks)))
        self.stored = {some: self._after(some) for some in _subsets(self.all)}
        alike = any(a == b for a, b in combinations(self.stored.values(), 2))
        assert alike == kind.is_refused, (
            "what has happened cannot be distinguished from what has not"
        )
        self.whole = live(World.of(self.image), self.work)
        self._verdicts: dict[bytes, Verdict] = {}
        self._cut_recoveries: dict[tuple[bytes, int], tuple[bytes, Life]] = {}
        self._courses: set[Course] = set()
        self.crashes = 0
        self.crashed_at: set[str] = set()
        self.crashed_at_in_recovery: set[str] = set()

    async def _prepare(self, database: Database, _: Life) -> None:
        await database.keeper.apply(self.kind.catalog)
        await database.keeper.wait_built()
        await run_all(database, *FILL)
        await asyncio.sleep(1.5)
        await self.kind.prepare(database)

    def _after(self, some: frozenset[int]) -> Contents:
        found = []

        async def look(database: Database, _: Life) -> None:
            await ask(self.kind, database, some, {})
            await database.keeper.wait_built()
            if some == self.all and database.catalog.immediate:
                assert (await database.verify()).differences == 0
            found.append(await contents(database))

        live(World.of(self.image), look)
        return found[0]

    async def work(self, database: Database, life: Life) -> None:
        """Run all requests to the end: a checkpoint, idleness, and the close of the database."""
        await ask(self.kind, database, self.all, life.answers)
        await database.keeper.wait_built()
        await asyncio.sleep(IDLE_S)
        await database.close()

    @property
    def outcomes(self) -> set[frozenset[int]]:
        """The sets of requests that had happened after some crash."""
        return {verdict.happened for verdict in self._verdicts.values()}

    # ------------------------------------------------------------ verdicts

    def require(self, image: bytes, reported: Reported) -> Verdict:
        """Restart `image` and judge it. Raises AssertionError."""
        self.crashes += 1
        if image not in self._verdicts:
            self._verdicts[image] = self._restart(image)
        verdict = self._verdicts[image]
        assert verdict.later_ts > reported.seen_ts, (
            "a commit not later than a snapshot that was read"
        )
        for number, answer in verdict.answers.items():
            if number in reported.answers:
                assert number in verdict.happened, "it was acknowledged, and is lost"
                assert answer == reported.answers[number], "asked again, it is answered otherwise"
            elif number not in verdict.happened and answer is not None:
                assert answer[1] > reported.seen_ts, (
                    "a commit not later than a snapshot that was read"
                )
        return verdict

    def _restart(self, image: bytes) -> Verdict:
        found = []

        async def judge(database: Database, life: Life) -> None:
            require_nothing_stuck(database)
            await database.keeper.wait_built()
            recovery = tuple(life.points)
            await require_no_orphans(database)
            found.append(await self._judged(database, recovery))

        live(World.of(image), judge)
        return found[0]

    async def _judged(self, database: Database, recovery: tuple[str, ...]) -> Verdict:
        reached, stored = database.watermark(), await contents(database)
        fits = [some for some, expected in self.stored.items() if expected == stored]
        assert fits, "something happened in part"
        happened, answers, again = fits[-1], {}, {}
        await ask(self.kind, database, self.all, answers)
        await database.keeper.wait_built()
        assert await contents(database) == self.stored[self.all], "asked again, it happens again"
        for number in happened:
            if answers[number] is not None:
                assert answers[number][1] <= reached, (
                    "it happened before, and is reported to be later"
                )
        await ask(self.kind, database, self.all, again)
        assert again == answers
        later = await database.execute("INSERT INTO event (v_kind) VALUES ('later')")
        assert database.committer.readable() >= later.commit_ts
        await database.committer.drain()
        await asyncio.sleep(0)  # its locks are released in the next turn of the loop
        require_nothing_stuck(database)
        await settled(database)
        return Verdict(happened, answers, later.commit_ts, recovery)

    # ------------------------------------------------------------ crashes

    def explore(self) -> None:
        """Crash at every point of the work; where the point is a step, also at every step of the
        recovery, once and twice; and once at every point of the longest recovery."""
        longest = self.image, Reported(), ()
        for point in range(self.whole.started, len(self.whole.points)):
            world = World.of(self.image)
            life = live(world, self.work, crash_at=point)
            assert life.crashed
            reported, step = Reported().then(life), isinstance(life.points[-1], Step)
            self.crashed_at.add(life.points[-1])
            end = world.image()
            for machine in MACHINES if step else (None, 1):
                image = left(end, machine)
                verdict = self.require(image, reported)
                if step and machine != 0:
                    self._crash_in_recovery(image, reported, verdict, machine)
                longest = max(
                    longest, (image, reported, verdict.recovery), key=lambda it: len(it[2])
                )
        image, reported, recovery = longest
        for point in range(len(recovery)):
            self._crash_again(image, reported, point, 1)

    def _crash_in_recovery(
        self, image: bytes, reported: Reported, verdict: Verdict, machine: int | None
    ) -> None:
        course = verdict.recovery, verdict.happened, machine
        if course in self._courses and not EVERY_IMAGE:
            return
        self._courses.add(course)
        for point, name in enumerate(verdict.recovery):
            if isinstance(name, Step):
                self.crashed_at_in_recovery.add(name)
                again, reported_again = self._crash_again(image, reported, point, machine)
                recovery = self.require(again, reported_again).recovery
                if machine is None and name in recovery:
                    self._crash_again(again, reported_again, recovery.index(name), machine)

    def _crash_again(
        self, image: bytes, reported: Reported, point: int, machine: int | None
    ) -> tuple[bytes, Reported]:
        """Cut the recovery from `image` at `point`, and judge the result."""
        if (image, point) not in self._cut_recoveries:
            world = World.of(image)
            life = live(world, _recover, crash_at=point)
            assert life.crashed
            self._cut_recoveries[image, point] = world.image(), life
        end, life = self._cut_recoveries[image, point]
        again, reported = left(end, machine), reported.then(life)
        self.require(again, reported)
        return again, reported


async def _recover(database: Database, _: Life) -> None:
    await database.keeper.wait_built()


# ------------------------------------------------------------ the tests


def _subsets(numbers: frozenset[int]) -> list[frozenset[int]]:
    """All subsets, from the empty set to `numbers`."""
    sizes = range(len(numbers) + 1)
    return [frozenset(some) for size in sizes for some in combinations(sorted(numbers), size)]


@cache
def explored(kind: Kind) -> Case:
    with shared_work():
        case = Case(kind)
        case.explore()
    return case


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_crash_anywhere_leaves_all_or_nothing(kind):
    case = explored(kind)
    assert kind.passes <= case.crashed_at, "steps that were never reached"
    assert kind.recovers <= case.crashed_at_in_recovery, "steps of recovery never reached"
    assert {frozenset(), case.all} <= case.outcomes or kind.is_refused


def test_crashes_reach_every_step_of_the_registry():
    cases = [explored(kind) for kind in KINDS]
    reached = {step for case in cases for step in case.crashed_at | case.crashed_at_in_recovery}
    assert set(Step) <= reached


def test_concurrent_transactions_share_batches_and_overlap():
    steps = [point for point in Case(KIND["many at once"]).whole.points if isinstance(point, Step)]
    assert steps.count(Step.TICKED) < steps.count(Step.QUEUED)
    applying = steps.index(Step.APPLYING, steps.index(Step.FINISHED))
    assert Step.LOGGED in steps[applying : steps.index(Step.APPLIED, applying)]


def test_a_crash_between_any_two_callbacks():
    """Cut one commit up to its checkpoint, and one recovery."""
    with shared_work():
        _cut_a_move_everywhere()


def _cut_a_move_everywhere() -> None:
    case = Case(KIND["move of a subtree"])

    async def work(database: Database, life: Life) -> None:
        await ask(case.kind, database, case.all, life.answers)
        await asyncio.sleep(1.5)

    to_replay = [
        (image, reported)
        for image, reported, verdict in _cut_anywhere(case, case.image, work, Reported())
        if Step.REPLAYING in verdict.recovery
    ]
    image, reported = to_replay[0]
    assert len(list(_cut_anywhere(case, image, _recover, reported))) > len(Step)


def _cut_anywhere(
    case: Case, image: bytes, work: Work, reported: Reported
) -> Iterator[tuple[bytes, Reported, Verdict]]:
    """Cut `work` after each number of callbacks, and judge the results."""
    for callbacks in count():
        world = World.of(image)
        life = live(world, work, callbacks=callbacks)
        if not life.crashed:
            return
        end, then = world.image(), reported.then(life)
        for machine in (None, 1):
            found = left(end, machine)
            yield found, then, case.require(found, then)
