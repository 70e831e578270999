"""Processes that refresh a group of deferred views outside of the nodes, and that crash, freeze
and overlap.

Each does as the driver of a small batch does (`pipeline/refresh/driver.py`), with the production
code of the batch (`maintain/deltas/batches.py`): it asks a node for the batch, reads the segments,
computes the rows as of the batch's beginning, puts them, and reports the end. With several nodes it
puts rows into the store itself, and with one node through the node, as for an embedded store.

`batch_oracle.py` checks what they do. Besides, no segment that a batch needs may be gone.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from functools import partial

from hornbeam_server.maintain.deltas.batches import SmallBatch, Writes
from hornbeam_server.node.bulk_access import DeferredBatch
from hornbeam_server.node.database import Database
from hornbeam_server.schema.errors import (
    Corruption,
    HornbeamError,
    NotFound,
    SnapshotTooOld,
    Unavailable,
)
from hornbeam_server.storage.simulated.chaos import Fault
from hornbeam_server.txlayer.views.refresh_groups import Finished
from tests.maintain.deltas.deltas_world import segment_bytes
from tests.sim.batch_oracle import GROUP, BatchOracle, Expected, Keys, programs
from tests.sim.simulated_cluster import Cluster, NoAnswer, Outside

MARGIN_MS = 30_000
"""A process puts nothing when its inputs are kept for less than this time by its own clock. It
covers the difference of clocks, as `pipeline.spark.sink.MARGIN_MS` does."""
ZOMBIE_S = 20.0
"""A process whose end was not waited for is killed after this time."""
LOOK_S, REST_S = 0.05, 0.5
REBUILD_S = 60.0
"""A request to rebuild views has had its effect after this time, or never has one."""
LAST_TRIES = 20


class TooLate(Exception):
    """The inputs of the batch may be gone: the process begins it again."""


class Refresher:
    """The processes that refresh the views of one cluster, one after another or at once."""

    def __init__(self, cluster: Cluster, expected: Expected, counts: Counter[str]) -> None:
        self._cluster = cluster
        self._counts = counts
        self._failures: list[BaseException] = []
        self._started = 0
        self._rebuilt_at = float("-inf")
        self.oracle = BatchOracle(cluster, expected)

    # ------------------------------------------------------------ processes

    async def refresh(self, draw: random.Random) -> None:
        """Run a batch in a process of its own, until it has ended, crashed or frozen, or is left
        alone. Raises AssertionError for what it did wrong."""
        self._started += 1
        outside = self._cluster.outside(f"refresh {self._started}")
        task = outside.process.start(self._run(outside))
        self._strike(outside, draw)
        loop = asyncio.get_running_loop()
        patience = loop.time() + draw.choice([5.0, 30.0])
        while not (task.done() or outside.process.dead or outside.process.frozen):
            if loop.time() > patience:
                break
            await asyncio.sleep(LOOK_S)
        if not task.done():
            self._counts["batches left"] += 1
            self._cluster.loop.in_world(ZOMBIE_S, outside.process.crash)
        elif not task.result():
            await asyncio.sleep(REST_S)
        self.look()

    def _strike(self, outside: Outside, draw: random.Random) -> None:
        """Let some processes crash, freeze for a while, or wait long for the store or the log."""
        chaos, in_world = self._cluster.chaos, self._cluster.loop.in_world
        strikes = () if self._cluster.healed else chaos.profile.every_s
        if Fault.CRASH in strikes and draw.random() < 0.3:
            outside.process.crash_after(draw.randint(0, 150))
        if Fault.FREEZE in strikes and draw.random() < 0.2:
            starts, lasts = draw.uniform(0, 0.2), chaos.between(chaos.profile.frozen_s)
            in_world(starts, outside.process.freeze)
            in_world(starts + lasts, outside.process.thaw)
        if Fault.LAG in strikes and draw.random() < 0.2:
            draw.choice(outside.services).lag_s = chaos.between(chaos.profile.lag_s)

    async def begin_only(self) -> None:
        """Begin a batch, and leave it."""
        try:
            await self._cluster.ask(_begin)
        except (NoAnswer, HornbeamError) as error:
            self._counts[f"batch: {type(error).__name__}"] += 1

    async def rebuild(self, name: str) -> None:
        """Let the next batch rebuild a view. Raises HornbeamError, NoAnswer."""
        self._rebuilt_at = asyncio.get_running_loop().time()
        await self._cluster.ask_leader(partial(_rebuild, name=name))

    async def _run(self, outside: Outside) -> bool:
        """Do the next batch; whether it is finished."""
        began = self.oracle.state.as_of
        try:
            await self._do(await self._cluster.ask(_begin), outside)
        except (NoAnswer, Unavailable, TooLate) as error:
            self._counts[f"batch: {type(error).__name__}"] += 1
            return False
        except (HornbeamError, AssertionError) as error:
            self._counts[f"batch: {type(error).__name__}"] += 1
            if not self._is_excused(error, began):
                self._failures.append(error)
            return False
        self._counts["batches"] += 1
        return True

    def _is_excused(self, error: Exception, began: int) -> bool:
        """Whether an error is right: a bit of a log has flipped, inputs are gone because another
        process has finished the batch since `as_of` was `began`, or a rebuild has dropped a
        table."""
        if isinstance(error, Corruption) and Fault.BIT_FLIP in self._cluster.chaos.profile.every_s:
            return True
        if isinstance(error, SnapshotTooOld) and self.oracle.state.as_of > began:
            return True
        since_s = asyncio.get_running_loop().time() - self._rebuilt_at
        return isinstance(error, Corruption | NotFound) and since_s < REBUILD_S

    async def _do(self, found: DeferredBatch, outside: Outside) -> None:
        work, logs = found.work, outside.logs
        segments = await segment_bytes(logs, found.changes.segments)
        known = programs(work.catalog, work.usable)
        batch = SmallBatch(known, work.as_of, work.upto, work.refreshed, work.built)
        changes, count = batch.changes(segments)
        keys: Keys = set()
        async for _, writes in batch.writes(changes, outside.store):
            if outside.clock.wall_ms() + MARGIN_MS > found.export.until_ms:
                raise TooLate
            keys |= self.oracle.putting(writes, work.upto)
            await self._put(outside, writes, work.upto)
        self.oracle.has_put(work, keys)
        done = Finished(count, len(keys))
        await self._cluster.ask_leader(partial(_finish, upto=work.upto, done=done))

    async def _put(self, outside: Outside, writes: Writes, upto: int) -> None:
        if self._cluster.several:
            await outside.store.put(writes, upto)
        else:
            await self._cluster.ask(partial(_put, writes=writes, upto=upto))

    # ------------------------------------------------------------ checks

    def look(self) -> None:
        """Check all that has happened since the last look."""
        assert not self._failures, self._failures[0]
        self.oracle.look()

    async def check(self, database: Database, at_least: int) -> None:
        """After all faults: the next batch has every commit up to `at_least`, and everything is
        stored as a build would store it."""
        for _ in range(LAST_TRIES):
            await self.refresh(random.Random(0))
            if self.oracle.state.as_of >= at_least and self.oracle.state.batch is None:
                break
        else:
            raise AssertionError(f"the views are not refreshed: {self.oracle.state}")
        await self.oracle.check_stored(database.catalog)


async def _begin(database: Database) -> DeferredBatch:
    return await database.begin_batch(GROUP)


async def _put(database: Database, *, writes: Writes, upto: int) -> None:
    await database.put(writes, upto)


async def _finish(database: Database, *, upto: int, done: Finished) -> None:
    await database.deferred.finish(GROUP, upto, done)


async def _rebuild(database: Database, *, name: str) -> None:
    await database.deferred.rebuild([name])
