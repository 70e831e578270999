"""Keeps live and deferred views at a node: one task for each group, none while there is no group.

    news ─▶ due ─▶ batch ─▶ due …

The node is woken by commits: the task of a group sleeps until a commit is applied above the group's
snapshot, and until the group's interval has passed since the last batch began. If rows of a view
enter and leave by time, the interval alone decides. Once in `IDLE_S` the node does a batch without
news, so that the snapshot stays young enough to be kept. A node among others
does so in each `SEALING_S`, since only batches show that nothing was committed. If it has to read
logs, which are sealed for it, batches are at least that far apart.

A change of the schema, also the end of an index's build, wakes all groups. A batch that fails is
repeated after a pause. A batch that cannot succeed stops its group alone, with the reason in the
group's state, until the schema changes: the cure is a rebuild, which changes it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from hornbeam_server.node.assembly import Parts
from hornbeam_server.node.deferred_views import DeferredViews, GroupStatus, no_group
from hornbeam_server.node.live.aside import does_batch, node_of
from hornbeam_server.node.live.batches import Batches
from hornbeam_server.node.live.lags import Lags
from hornbeam_server.node.live.outcomes import CURE, Left, Superseded
from hornbeam_server.node.ownership import Ownership
from hornbeam_server.schema.errors import (
    HornbeamError,
    LimitExceeded,
    SnapshotTooOld,
    SqlError,
    Unavailable,
)
from hornbeam_server.storage.together import first_of
from hornbeam_server.txlayer.cluster.member import Member
from hornbeam_server.txlayer.views.refresh_groups import (
    GroupState,
    Problem,
    groups_of,
    interval_s,
    views_of,
)

IDLE_S = 60.0
"""Without news, a batch is done after this time. A group that has stopped is tried again."""
SEALING_S = 1.0
LONGEST_REST_S = 1.0
"""A batch is followed by a pause as long as it took, in which writers have the processor, and by no
longer one than this: a build may take minutes, and lags count from its end."""
PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
"""First and longest pause after a batch that failed; it doubles."""

OFF = "resident_refresh is off"
_FOLLOWER = "views"

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How the nodes keep a group. `node` does the next batch, unless `left` says why Spark does.
    `lags` are those of this node's batches; None: it has done none that had changes."""

    node: str
    left: str
    lags: Lags | None


class Maintainer:
    """The groups that one node keeps. `look` begins to keep them, `close` ends it."""

    def __init__(
        self,
        parts: Parts,
        batches: Batches,
        deferred: DeferredViews,
        ownership: Ownership,
        member: Member | None,
    ) -> None:
        self._parts = parts
        self._member = member
        self._batches = batches
        self.lags = batches.lags
        self._ownership = ownership
        self._begin = partial(_Kept, parts, batches, deferred, ownership, member)
        self._kept: dict[str, _Kept] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._open = parts.settings.resident_refresh

    def look(self) -> None:
        """Keep the groups of the catalog in force, which may have changed, and no others."""
        groups = groups_of(self._parts.manager.state.catalog) if self._open else ()
        for group in self._kept.keys() - set(groups):
            self._kept.pop(group).task.cancel()
            self.lags.pop(group, None)
        committer = self._parts.committer
        if not groups:
            committer.unfollow(_FOLLOWER)
            return
        committer.follow(_FOLLOWER)
        for group in groups:
            known = self._kept.get(group)
            if known is not None:
                known.schema_changed()
            else:
                self._kept[group] = self._begun(group)

    def _begun(self, group: str) -> _Kept:
        kept = self._begin(group)
        self._remember(kept.task)
        return kept

    def _remember(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def is_current(self, as_of: int) -> bool:
        """Is it certain that nothing was committed after snapshot `as_of`?"""
        committer = self._parts.committer
        ring = committer.ring if self._member is None else None
        return ring is not None and committer.idle and ring.is_current(as_of)

    async def refresh(self, group: str) -> GroupState:
        """Take a group to a snapshot that has every commit that was acknowledged before the call,
        and build its new views. Returns the group's new state. Raises Left, NotFound, and the
        errors of `Batches.run`; Unavailable at a node that does not lead, if views are built."""
        self._ownership.require_ready()
        known = groups_of(self._parts.manager.state.catalog)
        if group not in known:
            raise no_group(group, known)
        kept = self._kept.get(group)
        if kept is None:
            raise Left(OFF)
        task = asyncio.ensure_future(kept.refresh())
        self._remember(task)
        await asyncio.wait({task})
        if task.cancelled():
            raise Unavailable("The node is ending.", cure="Ask another one, or again in a moment.")
        return task.result()

    async def upkeep(self, status: GroupStatus) -> Upkeep:
        """How the nodes keep a group. Raises Unavailable."""
        group, member = status.name, self._member
        node = self._parts.settings.slave
        if member is not None:
            keeper = self._parts.keeper
            node = node_of(group, keeper.state.catalog, member, keeper.leader)
        return Upkeep(node, await self.left(status), self.lags.get(group))

    def does_batch(self, group: str) -> bool:
        """Does this node do the next batch of a group?"""
        kept = self._kept.get(group)
        return kept is not None and kept.is_mine()

    async def left(self, status: GroupStatus) -> str:
        """The reason why the nodes leave the next batch of a group to Spark; "": they do it. Raises
        Unavailable."""
        if not self._open:
            return OFF
        try:
            await self._batches.require_small(status.name)
        except Left as left:
            return left.reason
        problem = status.state.problem
        return "" if problem is None else problem.left

    async def close(self) -> None:
        """End all batches under way, which the next owner repeats. Idempotent."""
        self._open = False
        self.look()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def due_after(began: float, took_s: float, interval_s: float) -> float:
    """When the next batch of a group is due, after one that began at `began`."""
    return began + max(interval_s, took_s + min(took_s, LONGEST_REST_S))


class _Kept:
    """One group that a node keeps, in a task."""

    def __init__(
        self,
        parts: Parts,
        batches: Batches,
        deferred: DeferredViews,
        ownership: Ownership,
        member: Member | None,
        group: str,
    ) -> None:
        self._group = group
        self._clock = parts.ports.clock
        self._commits = parts.commits
        self._keeper = parts.keeper
        self._batches = batches
        self._snapshot_after = batches.reads.snapshot_after
        self._deferred = deferred
        self._ownership = ownership
        self._member = member
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._as_of = 0
        """The group's snapshot after the last batch of this node."""
        self._due = parts.ports.clock.monotonic()
        """The next batch does not begin before."""
        self._pause_s = PAUSE_S
        self.task = asyncio.ensure_future(self._run())

    def schema_changed(self) -> None:
        """Do the next batch without news, and try again what has failed."""
        self._as_of = 0
        self._due = min(self._due, self._clock.monotonic() + self._interval_s())
        self._changed.set()

    def _interval_s(self) -> float:
        catalog = self._keeper.state.catalog
        declared = interval_s(catalog, self._group)
        sealed = self._member is not None and self._batches.read_logs.get(self._group, True)
        return max(declared, SEALING_S) if sealed else declared

    async def do_batch(self) -> GroupState:
        """Do the next batch. Raises the errors of `Batches.run`."""
        async with self._turn:
            self._changed.clear()
            began = self._clock.monotonic()
            state = await self._batches.run(self._group)
            if not self._changed.is_set():  # else the next batch follows the new schema
                self._as_of = state.as_of
            took_s = self._clock.monotonic() - began
            self._due = due_after(began, took_s, self._interval_s())
            self._pause_s = PAUSE_S
            return state

    async def refresh(self) -> GroupState:
        """Do batches until the group has all that is committed now. Raises the errors of
        `Batches.run`; Unavailable if another node must build views."""
        catalog = self._keeper.state.catalog
        if not all(catalog.readable(view.name) for view in views_of(catalog, self._group)):
            self._keeper.led()
        _, newest = await self._snapshot_after(0)
        while True:
            with contextlib.suppress(Superseded):
                state = await self.do_batch()
                if state.as_of >= newest:  # else it was a batch that had begun before
                    return state

    async def _run(self) -> None:
        while True:
            try:
                await self._until_due()
                if self.is_mine():
                    await self._attempt()
                else:
                    self._due = self._clock.monotonic() + SEALING_S
            except Exception as error:  # a bug must not end the task silently
                _LOG.error("a batch of views failed", group=self._group, exc_info=error)
                self._due = self._clock.monotonic() + IDLE_S

    def is_mine(self) -> bool:
        """Does this node do the next batch?"""
        catalog, leads = self._keeper.state.catalog, self._keeper.leads
        ready = self._ownership.ready()
        return ready and does_batch(self._group, catalog, self._member, leads=leads)

    async def _until_due(self) -> None:
        """Return when the next batch is to begin."""
        while (wait_s := self._due - self._clock.monotonic()) > 0:
            self._changed.clear()
            await first_of(self._changed.wait(), self._clock.sleep(wait_s))
        if self.is_mine():
            idle_s = IDLE_S if self._member is None else SEALING_S
            if any(view.timed for view in views_of(self._keeper.state.catalog, self._group)):
                idle_s = 0.0  # time is news
            news = self._commits.news(self._as_of)
            await first_of(self._changed.wait(), news, self._clock.sleep(idle_s))
        self._changed.clear()
        async with self._keeper.changing:  # while the schema changes, no batch begins
            pass

    async def _attempt(self) -> None:
        """Do the next batch, and decide when the one after it is due."""
        try:
            await self.do_batch()
        except Superseded:
            return
        except Left as left:
            await self._stop(Problem(str(left), CURE, left.reason))
        except (SqlError, LimitExceeded, SnapshotTooOld) as error:
            await self._stop(Problem(error.message, error.cure))
        except HornbeamError as error:
            _LOG.info("a batch is tried again", group=self._group, error=str(error))
            self._due = self._clock.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    async def _stop(self, problem: Problem) -> None:
        """Write down why the group stands still, until the schema changes or `IDLE_S` has
        passed."""
        _LOG.warning("a group of views stands still", group=self._group, error=problem.message)
        self._due = self._clock.monotonic() + IDLE_S
        self._as_of = 0
        await self._deferred.note(self._group, problem)
