"""Crashes at every point of every kind of transaction and schema change, and of every recovery.

After each: what was asked for has happened wholly or not at all, and wholly if it was acknowledged;
asked for again it happens once and has the same answer; base rows, views and indexes are right;
nothing is locked; what is committed later has a later timestamp than all that was seen before.

The points are not listed here: a life that nothing cuts shows them. Crashes that leave the same
bytes behind have the same future, which is lived once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
from crash_points_kinds import KINDS, Kind
from crash_points_world import Life, World, left, live
from database_world import run_all, settled, stored_rows
from test_transactions_statements import FILL

from api.database import SYSTEM_TABLES, Database
from schema.catalog import State
from txlayer.steps import Step

MACHINES = (None, 0, 1)
"""What becomes of the machine: it lives on, loses what was not synced, loses part of that."""
VOLATILE = {"v_id", "v_at", "v_day"}
"""Columns whose defaults differ from one attempt to the next."""
Contents = dict[str, Counter]


@dataclass(frozen=True)
class Told:
    """What the world has seen of the lives so far."""

    seen_ts: int = 0
    acknowledged: bool = False
    answer: Any = None

    def then(self, life: Life) -> Told:
        told = replace(self, seen_ts=max(self.seen_ts, life.seen_ts))
        if life.acknowledged:
            told = replace(told, acknowledged=True, answer=life.answer)
        return told


@dataclass(frozen=True)
class Verdict:
    """What a restart has found: whether the work had happened, the answer to asking again, the
    timestamp of a later commit, and the points of its recovery."""

    happened: bool
    answer: Any
    later_ts: int
    recovery: tuple[str, ...]


# ------------------------------------------------------------ what must hold


async def contents(database: Database) -> Contents:
    """All rows of everything, which is readable."""
    catalog, at = database.catalog, database.watermark()
    assert set(catalog.state.values()) <= {State.READABLE}
    found = {}
    for name in (*catalog.schema.names, *catalog.view, *catalog.index):
        columns = catalog.layout(name).column_names
        kept = [i for i, column in enumerate(columns) if column not in VOLATILE]
        rows = await stored_rows(database, name, at)
        found[name] = Counter(tuple(row[i] for i in kept) for row in rows)
    return found


async def require_no_orphans(database: Database) -> None:
    catalog, stored = database.catalog, await database.store.tables()
    names = (*catalog.schema.names, *catalog.view, *catalog.index)
    assert set(stored) == {*SYSTEM_TABLES, *(catalog.layout(name).table for name in names)}


def require_nothing_stuck(database: Database) -> None:
    locks = database.manager.locks
    assert (locks.held_count, locks.waiting_count) == (0, 0)
    assert not database.manager.unfinished


class Case:
    """One kind of work: the world before it, the whole life, what is stored before and after."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        world = World()
        live(world, self._prepare)
        self.image = world.image()
        self.before = self._look(world)
        world = World.of(self.image)
        self.whole = live(world, self.work)
        self.after = self._look(world)
        self._verdicts: dict[bytes, Verdict] = {}
        self._cut_recoveries: dict[tuple[bytes, int], tuple[bytes, Life]] = {}
        self.crashes = 0
        self.crashed_at: set[str] = set()
        self.crashed_at_in_recovery: set[str] = set()

    async def _prepare(self, database: Database, _: Life) -> None:
        await database.keeper.apply(self.kind.catalog)
        await database.keeper.wait_built()
        await run_all(database, *FILL)
        await asyncio.sleep(1.5)
        await self.kind.prepare(database)

    def _look(self, world: World) -> Contents:
        found = []

        async def look(database: Database, _: Life) -> None:
            found.append(await contents(database))

        live(World.of(world.image()), look)
        return found[0]

    async def work(self, database: Database, life: Life) -> None:
        """To the end of everything: a checkpoint, and the close of the database."""
        life.answer = await self.kind.ask(database)
        life.acknowledged = True
        await database.keeper.wait_built()
        await asyncio.sleep(1.5)
        await database.close()

    # ------------------------------------------------------------ judging

    def require(self, image: bytes, told: Told) -> Verdict:
        """Restart `image` and judge it. Raises AssertionError."""
        self.crashes += 1
        if image not in self._verdicts:
            self._verdicts[image] = self._restart(image)
        verdict = self._verdicts[image]
        assert verdict.later_ts > told.seen_ts, "a commit not later than a snapshot that was read"
        if told.acknowledged:
            assert verdict.happened, "it was acknowledged, and is lost"
            assert verdict.answer == told.answer, "asked again, it is answered otherwise"
        elif not verdict.happened and verdict.answer is not None:
            _, commit_ts, *_ = verdict.answer
            assert commit_ts > told.seen_ts, "a commit not later than a snapshot that was read"
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
        happened = stored == self.after
        assert happened or stored == self.before, "it happened in part"
        answer = await self.kind.ask(database)
        await database.keeper.wait_built()
        assert await contents(database) == self.after, "asked again, it has another effect"
        if happened and answer is not None:
            assert answer[1] <= reached, "it happened before, and is told to be later"
        assert await self.kind.ask(database) == answer
        later = await database.execute("INSERT INTO product VALUES (99, 'later', 0)")
        assert database.watermark() >= later.commit_ts
        require_nothing_stuck(database)
        await settled(database)
        return Verdict(happened, answer, later.commit_ts, recovery)

    # ------------------------------------------------------------ crashing

    def explore(self) -> None:
        """Crash at every point of the work; where that is a step, at every step of the recovery
        as well, once and twice; and once at all other points of the longest recovery."""
        longest = self.image, Told(), ()
        for point in range(self.whole.started, len(self.whole.points)):
            world = World.of(self.image)
            life = live(world, self.work, crash_at=point)
            assert life.crashed
            told, step = Told().then(life), isinstance(life.points[-1], Step)
            self.crashed_at.add(life.points[-1])
            end = world.image()
            for machine in MACHINES:
                image = left(end, machine)
                verdict = self.require(image, told)
                if step:
                    self._crash_in_recovery(image, told, verdict, machine)
                longest = max(longest, (image, told, verdict.recovery), key=lambda it: len(it[2]))
        image, told, recovery = longest
        for point in range(len(recovery)):
            self._crash_again(image, told, point, 1)

    def _crash_in_recovery(
        self, image: bytes, told: Told, verdict: Verdict, machine: int | None
    ) -> None:
        for point, name in enumerate(verdict.recovery):
            if isinstance(name, Step):
                self.crashed_at_in_recovery.add(name)
                again, told_again = self._crash_again(image, told, point, machine)
                recovery = self.require(again, told_again).recovery
                if name in recovery:
                    self._crash_again(again, told_again, recovery.index(name), machine)

    def _crash_again(
        self, image: bytes, told: Told, point: int, machine: int | None
    ) -> tuple[bytes, Told]:
        """Cut the recovery from `image` at `point`; what it leaves is judged."""
        if (image, point) not in self._cut_recoveries:
            world = World.of(image)
            life = live(world, _recover, crash_at=point)
            assert life.crashed
            self._cut_recoveries[image, point] = world.image(), life
        end, life = self._cut_recoveries[image, point]
        again, told = left(end, machine), told.then(life)
        self.require(again, told)
        return again, told


async def _recover(database: Database, _: Life) -> None:
    await database.keeper.wait_built()


# ------------------------------------------------------------ the tests


@cache
def explored(kind: Kind) -> Case:
    case = Case(kind)
    case.explore()
    return case


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_crash_anywhere_leaves_all_or_nothing(kind):
    case = explored(kind)
    assert kind.passes <= case.crashed_at, "steps that were never reached"
    assert kind.recovers <= case.crashed_at_in_recovery, "steps of recovery never reached"


def test_every_step_of_the_registry_is_crashed_at():
    cases = [explored(kind) for kind in KINDS]
    reached = {step for case in cases for step in case.crashed_at | case.crashed_at_in_recovery}
    assert set(Step) <= reached


@pytest.mark.parametrize("machine", [None, 1])
def test_a_crash_between_any_two_callbacks(machine):
    """Of one commit, and of one recovery."""
    case = Case(next(kind for kind in KINDS if kind.name == "insert of a tree"))
    logged = None
    for callbacks in range(case.whole.callbacks):
        world = World.of(case.image)
        life = live(world, case.work, callbacks=callbacks)
        image = left(world.image(), machine)
        verdict = case.require(image, Told().then(life))
        if logged is None and Step.REPLAYING in verdict.recovery:
            logged = image, Told().then(life)
    image, told = logged
    whole = live(World.of(image), _recover)
    for callbacks in range(whole.callbacks):
        world = World.of(image)
        life = live(world, _recover, callbacks=callbacks)
        case.require(left(world.image(), machine), told.then(life))
