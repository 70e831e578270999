"""Crashes at each step of batches of live views, with and without a view over the current time.

A life commits changes, and does two batches of the node: one with these commits, one without any.
It is cut at each step of the batches: before and after the batch is recorded, after its first, a
middle and its last row is put, and after the batch is finished. The machine survives, or loses what
was not forced to disk.

After each crash, the views show the rows of their SELECTs at the group's snapshot, which has not
gone back. A batch that was recorded is the next to be finished, with the rows that a build has at
its end. The same holds after a second crash in the repeated batch.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.model import Refresh
from hornbeam_server.txlayer.views.refresh_groups import GroupState
from tests.crash.crash_points_world import SETTINGS, Life, World, left, live
from tests.depth import depth
from tests.sim.batch_oracle import GROUP, check_built, stored
from tests.sim.shared_work import shared_work
from tests.sim.workload_deferred import with_deferred
from tests.txlayer.database_world import catalog_of, run_all

MACHINES = (None, 0)
"""The fate of the machine, as in `test_crash_points`."""
EVERY_ROW = bool(depth(0, long=1))
TABLES = """
CREATE TABLE shop (s_id INTEGER PRIMARY KEY, s_region TEXT);
CREATE TABLE sale (
  e_id INTEGER PRIMARY KEY, e_s_id INTEGER REFERENCES shop (s_id), e_value INTEGER,
  e_at TIMESTAMPTZ DEFAULT now());
CREATE INDEX sale_by_time ON sale (e_at);
"""
SELECTS = {
    "regions": "SELECT s_region, count(*) AS n, sum(e_value) AS total, max(e_value) AS high"
    " FROM sale JOIN shop ON e_s_id = s_id GROUP BY s_region",
}
TIMED = {
    "recent": "SELECT e_s_id, count(*) AS n FROM sale"
    " WHERE e_at > now() - INTERVAL '2 seconds' GROUP BY e_s_id",
    "due": "SELECT e_id, s_region FROM sale JOIN shop ON e_s_id = s_id"
    " WHERE e_at <= now() - INTERVAL '1 second'",
}
FILL = (
    "INSERT INTO shop VALUES (1, 'north'), (2, 'south')",
    "INSERT INTO sale (e_id, e_s_id, e_value) VALUES (1, 1, 5), (2, 1, 7), (3, 2, 9)",
)
CHANGES = (
    "INSERT INTO sale (e_id, e_s_id, e_value) VALUES (4, 2, 4), (5, 1, 8)",
    "DELETE FROM sale WHERE e_id = 3",
    "UPDATE shop SET s_region = 'east' WHERE s_id = 2",
)
CALLS = ("write", "put")
"""Those of a batch that have an effect."""
LATER = "INSERT INTO sale (e_id, e_s_id, e_value) VALUES (9, 1, 1)"
OPTIONS = SETTINGS.model_copy(update={"snapshot_retention_s": 3_600, "resident_refresh": True})
PAUSE_S = 1.2
"""Rows enter and leave by time in each pause."""


@dataclass
class Story:
    """A group of views, and what crashes in its batches have left."""

    selects: dict[str, str]
    image: bytes = b""
    crashed_at: set[str] = field(default_factory=set)
    verdicts: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    """By image: the stage of the batch, and the group's snapshot."""

    def prepare(self) -> None:
        """The world in which all views are built."""
        options = {"refresh": Refresh.LIVE, "interval_s": 3_600.0}
        catalog = with_deferred(catalog_of(load_ddl(TABLES), views=[]), self.selects, **options)

        async def build(database: Database, _: Life) -> None:
            await database.keeper.apply(catalog)
            await database.keeper.wait_built()
            await run_all(database, *FILL)
            await database.live.refresh(GROUP)
            await database.close()

        world = World()
        live(world, build, settings=OPTIONS)
        self.image = world.image()

    async def work(self, database: Database, life: Life) -> None:
        """Commit changes, then do the batches. `answers` has the first point of the batches, and
        then their snapshots."""
        await database.clock.sleep(PAUSE_S)  # a node that has started does a batch
        await run_all(database, *CHANGES)
        for number in range(2):
            await database.clock.sleep(PAUSE_S)
            life.answers.setdefault(-1, len(life.points))
            life.answers[number] = (await database.live.refresh(GROUP)).as_of

    def explore(self) -> None:
        """Crash at each step of the batches, and at each step of one that is repeated."""
        whole = live(World.of(self.image), self.work, settings=OPTIONS)
        half_put = b"", 0
        for point in _chosen(whole.points, whole.answers[-1]):
            world = World.of(self.image)
            life = live(world, self.work, crash_at=point, settings=OPTIONS)
            assert life.crashed
            self.crashed_at.add(life.points[-1])
            shown = max([0, *(at for number, at in life.answers.items() if number >= 0)])
            end = world.image()
            for machine in MACHINES:
                stage = self.judge(left(end, machine), shown)
                if stage == "partly put" and machine is None:
                    half_put = end, shown
        self.crash_again(*half_put)

    def crash_again(self, image: bytes, shown: int) -> None:
        """Crash at each step of the next life, which begins with the batch under way."""
        assert image, "no batch was left half way"
        whole = live(World.of(image), self.repeat, settings=OPTIONS)
        for point in _chosen(whole.points, whole.started):
            world = World.of(image)
            assert live(world, self.repeat, crash_at=point, settings=OPTIONS).crashed
            self.judge(world.image(), shown)

    async def repeat(self, database: Database, _: Life) -> None:
        await database.clock.sleep(PAUSE_S)
        await database.live.refresh(GROUP)

    # ------------------------------------------------------------ verdicts

    def judge(self, image: bytes, shown: int) -> str:
        """Restart `image` and check the views; a client has read them at snapshot `shown`. Returns
        the stage of the batch."""
        if image not in self.verdicts:
            world = World.of(image)

            async def restarted(database: Database, _: Life) -> None:
                self.verdicts[image] = await self._checked(world, database)

            live(world, restarted, settings=OPTIONS)
        stage, as_of = self.verdicts[image]
        assert as_of >= shown, "the group's snapshot has gone back"
        return stage

    async def _checked(self, world: World, database: Database) -> tuple[str, int]:
        """Check the views of a new process, before and after it has finished the batch."""
        before = await database.deferred.state(GROUP)
        stage = _stage(world, database, before)
        await self._require_rows(database)
        await database.execute(LATER)
        after = await database.live.refresh(GROUP)
        assert after.as_of > before.as_of
        ends = {after.as_of} if before.batch is None else {after.as_of, before.batch.upto}
        for at in ends:
            assert after.was_as_of(at), f"the batch to {at} was given up"
            await check_built(world.tables, database.catalog, at)
        assert await self._require_rows(database) >= after.as_of
        return stage, before.as_of

    async def _require_rows(self, database: Database) -> int:
        """Check all views against their SELECTs at the snapshot that they show; return it."""
        at: int | None = None
        for name, select in self.selects.items():
            async with database.query(f"SELECT * FROM {name}", snapshot=at) as result:
                at, rows = result.snapshot, await result.stream.all()
            expected = await database.fetch(_at(select, at), snapshot=at, use_views=False)
            assert Counter(rows) == Counter(expected), f"{name} at {at}"
        assert at is not None
        return at


def _chosen(points: list[str], first: int) -> list[int]:
    """The points from `first` on at which to crash: without those that leave the world as the point
    before them, and usually only after the first, the middle and the last row of a batch."""
    found = [first]
    after = [n for n in range(first, len(points)) if not points[n].startswith("before")]
    for is_put, run in groupby(after, lambda n: points[n] == "after put"):
        rows = list(run)
        found += rows if EVERY_ROW or not is_put else {rows[0], rows[len(rows) // 2], rows[-1]}
    return sorted(found)


def _at(select: str, snapshot: int) -> str:
    """A SELECT whose current time is that of a snapshot."""
    now = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=snapshot)
    return select.replace("now()", f"TIMESTAMPTZ '{now.isoformat()}'")


def _stage(world: World, database: Database, state: GroupState) -> str:
    """How far a batch had come when its process died."""
    if state.batch is None:
        return "none under way"
    catalog = database.catalog
    tables = [catalog.layout(name).table for view in catalog.deferred for name in view.stored]
    rows = [partial(stored, world.tables, table) for table in tables]
    is_put = any(at(state.as_of) != at(state.batch.upto) for at in rows)
    return "partly put" if is_put else "recorded"


@pytest.mark.parametrize("selects", [SELECTS, SELECTS | TIMED], ids=["untimed", "timed"])
def test_a_crash_in_a_batch_leaves_the_views_right(selects):
    story = Story(selects)
    with shared_work():
        story.prepare()
        story.explore()
    assert story.crashed_at == {"before write", *(f"after {call}" for call in CALLS)}
    stages = {stage for stage, _ in story.verdicts.values()}
    assert stages == {"none under way", "recorded", "partly put"}
