"""The committer makes prepared transactions durable, applied and visible, in batches.

    commit() ─ encode ─▶ waiting ─ log stage ─▶ logged, answered ─ apply stage ─▶ applied

The log stage takes all waiting transactions and gives them one timestamp and one `Log.append`: the
commit point. If the store is remote it lays the rows of the batch over the store (`reader`), for
the reads of this process, and answers (decision 84). The apply stage takes all logged batches, puts
them into the store concurrently, and moves the watermark, in the order of the log; it answers the
transactions that have no answer. Later transactions are logged while earlier ones are applied. All
transactions in the committer at one time hold locks against one another, so those of one batch may
share a timestamp, and no two batches write the same row. Cells of immediate views are the exception
(lanes.py): what the transactions of a batch add is added up when the batch is made, and consecutive
batches write newer versions of the same cells.

A timestamp is *in flight* from its tick until its batch is applied, and the watermark stays below
it. It is *unreadable* from its tick until `reader` has its rows. A timestamp whose outcome is
unknown (the log failed) stays in flight until the process is restarted and the log is read again.

A timestamp is *reserved* when a batch or a checkpoint in the log has it or a higher one: the next
owner of the log begins above it, whatever its wall clock shows and whether or not this owner still
runs. The watermark never passes the reserved timestamps, so no commit falls into a snapshot that
was ever read.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence, Set

import structlog

from hornbeam_server.schema.errors import (
    DiskFull,
    HornbeamError,
    Overloaded,
    Unavailable,
)
from hornbeam_server.storage.codec.folds import LANES
from hornbeam_server.storage.log.files import NoRoom
from hornbeam_server.storage.log.records import (
    Checkpoint,
    encode,
    encode_batch,
)
from hornbeam_server.storage.logged import Layer, LoggedRows, LoggedStore
from hornbeam_server.storage.ports import (
    START,
    Clock,
    Log,
    Position,
    TableReader,
    TableStore,
)
from hornbeam_server.storage.tracing import current, within
from hornbeam_server.txlayer.commit import lanes, log_end
from hornbeam_server.txlayer.commit.batches import (
    Batch,
    Committed,
    Prepared,
    Queue,
    Waiting,
    refuse,
    unknown,
)
from hornbeam_server.txlayer.commit.change_ring import ChangeRing
from hornbeam_server.txlayer.commit.failpoints import Step, Steps, no_steps
from hornbeam_server.txlayer.commit.hlc import RESERVED_MS, HybridClock
from hornbeam_server.txlayer.commit.lanes import Lanes

MAX_WAITING = 10_000
"""Maximum number of transactions that wait for the log; more are refused as Overloaded."""
MAX_BATCH_BYTES = 16 << 20
"""A batch takes no further transaction once it is this large."""
MAX_LOGGED = 8
"""Maximum number of logged batches that wait for the store; then the log stage waits."""
MAX_LAID_ROWS, MAX_LAID_BYTES = 20_000, 16 << 20
"""Maximum rows, and bytes, of the batches that are laid over the store. Transactions of further
batches are answered when they are applied, so a store that is slow slows down its clients."""
PATIENCE_S = 5.0
"""After this long without the store's answer, a client gets "committed, not applied yet"."""
NOTE_S = 1.0
"""Minimum interval of notes of the log's end; a tenth of it for a store in this process."""
CHECKPOINT_INTERVAL_S = 1.0
RETRY_MIN_S, RETRY_MAX_S = 0.01, 1.0
CLOSE_TIMEOUT_S = 10.0
"""Maximum wait for the store on closing. Unapplied batches are in the log and are replayed."""

_LOG = structlog.get_logger(__name__)


class Committer:
    """Commits the transactions of one slave. Call `start` before the first `commit`."""

    ring: ChangeRing | None = None
    """The newest changes, while this node has followers of them."""

    def __init__(
        self,
        *,
        store: TableStore,
        log: Log,
        clock: Clock,
        hlc: HybridClock,
        checkpointed: Position = START,
        reserved: int = 0,
        alive: Callable[[], bool] = lambda: True,
        steps: Steps = no_steps,
        max_waiting: int = MAX_WAITING,
        checkpoint_interval_s: float = CHECKPOINT_INTERVAL_S,
        log_name: str = "",
        lane: Callable[[], int | None] = lambda: LANES[0],
    ) -> None:
        """`log_name`: the name of `log` in the store's notes of logs' ends; empty: no notes.
        `lane` returns the lane of this process; None: it has none."""
        self.lanes = Lanes(store, lane)
        self._store = store
        self._log = log
        self._clock = clock
        self._hlc = hlc
        self._alive = alive
        self._steps = steps
        self._checkpoint_interval_s = checkpoint_interval_s
        self._waiting = Queue(max_waiting)
        self._logged: asyncio.Queue[Batch] = asyncio.Queue(MAX_LOGGED)
        self._open_batches: deque[Batch] = deque()
        self._in_flight: set[int] = set()
        self._unreadable: set[int] = set()
        self._laid_over, self.reader = _with_logged_rows(store)
        """`reader`: the store, with the logged rows of this process that it may not have yet."""
        self.begun = self.finished = 0
        """Accepted commits, and those of them that are applied or did not fit into the log."""
        self.without_room = False
        """Did the last batch not fit into the log?"""
        self._logged_upto = START
        self._sealed_upto: Position | None = None
        self.acknowledged = 0
        """The timestamp of the latest commit reported to a client."""
        self._progress = asyncio.Event()
        self._checkpointing = asyncio.Lock()
        self._accepting = False
        self._stages: list[asyncio.Task[None]] = []
        self._timers: list[asyncio.Task[None]] = []
        self._applied_upto = checkpointed
        self._catalog_version = 0
        self._reserved = reserved
        self.checkpointed = checkpointed
        """The position in the log before which all is applied and durable in the store."""
        self.replays_above = 0
        """Recovery of the log puts no commit at or below this timestamp again."""
        self.failed: HornbeamError | None = None
        """The reason why the committer accepts no more commits, for good."""
        self._log_name = log_name
        self._note_s = NOTE_S if store.remote else NOTE_S / 10
        self._noted_at = -math.inf
        self._refused: set[int] = set()
        """Timestamps of the batches that the store has refused; their puts are retried."""
        self._taken: Sequence[Waiting] = ()
        """The transactions of which a batch is being made."""
        self.since = hlc.last
        """No commit before this process began has a later timestamp."""
        self.newest: dict[str, int] = {}
        """The newest applied commit of this process by physical table."""
        self._followers: set[str] = set()

    # ------------------------------------------------------------ followers

    def follow(self, follower: str) -> None:
        """Keep the newest changes in `ring` until the last follower leaves."""
        self._followers.add(follower)
        if self.ring is None:
            self.ring = ChangeRing(self._hlc.last)

    def unfollow(self, follower: str) -> None:
        self._followers.discard(follower)
        if not self._followers:
            self.ring = None

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Begin to accept commits. The log must have been recovered before."""
        self._stages = [self._stage(self._log_batches()), self._stage(self._apply_batches())]
        self._timers = [
            self._stage(self._every(self._checkpoint_interval_s, self._checkpoint)),
            self._stage(self._every(PATIENCE_S / 10, self._answer_early)),
        ]
        self._accepting = True

    async def close(self) -> None:
        """Refuse new commits, finish the accepted ones, write a checkpoint. Idempotent.

        Waits at most 10 s for a store that does not answer.
        """
        if not self._stages:
            return
        self._accepting = False
        await self._finish_or_give_up()
        async with self._checkpointing:  # so that no timer stops inside a checkpoint
            stop = (*self._timers, *self._stages)
            for task in stop:
                task.cancel()
        await asyncio.wait(stop)
        self._stages, self._timers = [], []
        await self._checkpoint()

    async def _finish_or_give_up(self) -> None:
        """Drain; if the store does not answer in time, leave the rest to recovery."""
        drained = asyncio.ensure_future(self._drained())
        too_long = asyncio.ensure_future(self._clock.sleep(CLOSE_TIMEOUT_S))
        await asyncio.wait((drained, too_long), return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            await self._answer_early(0.0)
            self._fail(Unavailable("The committer was closed before the store answered."))
            await drained
        too_long.cancel()

    async def _drained(self) -> bool:
        """Wait until all accepted commits are applied; False if the committer fails before."""
        target = self.begun
        while self.finished < target and self.failed is None:
            await self._progress.wait()
        return self.finished >= target

    def unapplied(self) -> list[Prepared]:
        """The accepted transactions that are not applied yet."""
        batches = (waiting for batch in self._open_batches for waiting in batch.members)
        return [waiting.prepared for waiting in (*batches, *self._taken, *self._waiting)]

    async def drain(self) -> None:
        """Return when every commit accepted before the call is applied.

        Raises Unavailable if the committer fails before that.
        """
        if not await self._drained():
            raise self._refusal()

    # ------------------------------------------------------------ commits

    def commit(self, prepared: Prepared) -> asyncio.Future[Committed]:
        """Hand a transaction over, to be made durable and applied. The caller holds its locks and
        keeps them until it is applied. The commit proceeds even if no caller awaits the answer.

        Raises Overloaded and Unavailable: nothing was committed. The answer may be OutcomeUnknown,
        or Unavailable: then nothing was committed, either.
        """
        self.require_working()
        if not self._accepting:
            raise Unavailable("The committer is closed.", cure="Try again after the restart.")
        if prepared.not_before:
            self._hlc.merge(prepared.not_before)
        answer: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        waiting = Waiting(prepared, self._clock.monotonic(), answer, trace=current())
        self._steps(Step.QUEUED)
        try:
            self._waiting.put_nowait(waiting)
        except asyncio.QueueFull:
            raise Overloaded(
                f"More than {self._waiting.maxsize} transactions wait for the log.",
                cure="Try again a little later; commit less at a time.",
            ) from None
        waiting.begin("log")
        self.begun += 1
        return answer

    def watermark(self) -> int:
        """The newest timestamp up to which everything is applied. All later commits, also those of
        later owners of the log, are above it."""
        return self._below(self._in_flight)

    def readable(self) -> int:
        """The newest timestamp up to which `reader` has everything. All later commits, also those
        of later owners of the log, are above it."""
        return self._below(self._unreadable)

    def _below(self, excluded: Set[int]) -> int:
        newest = min(excluded) - 1 if excluded else self._hlc.observe()
        return min(newest, self._reserved)

    async def until_readable(self, ts: int) -> None:
        """Return when `reader` has every commit of this process at or below `ts`, a timestamp that
        its clock has reached. Raises Unavailable if the committer fails before that."""
        while min(self._unreadable, default=ts + 1) <= ts:
            self.require_working()
            await self._progress.wait()

    @property
    def degraded(self) -> bool:
        """Does the store refuse puts that are already committed? They are being retried."""
        return bool(self._refused)

    @property
    def idle(self) -> bool:
        """Are all accepted commits applied?"""
        return self.finished == self.begun

    async def reserve(self) -> int:
        """A current timestamp; all commits from now on are above it.

        For writes that do not go through the log. Raises Unavailable, also when this process has
        been replaced.
        """
        self.require_working()
        async with self._checkpointing:  # positions of checkpoints must not go back
            now = self._hlc.observe()
            if now > self._reserved:
                await self._append_checkpoint(self.checkpointed)
        return now

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[int]:
        """A timestamp later than every commit and every snapshot so far. The watermark stays below
        it until the context ends: no query reads at it before.

        Raises Unavailable, as `reserve`.
        """
        self.require_working()
        at = self._hlc.tick()
        self._begin(at)
        try:
            async with self._checkpointing:
                if at > self._reserved:
                    await self._append_checkpoint(self.checkpointed)
            yield at
        finally:
            self._end(at)
            self._notify()

    def _begin(self, ts: int) -> None:
        self._in_flight.add(ts)
        self._unreadable.add(ts)

    def _end(self, ts: int) -> None:
        self._in_flight.discard(ts)
        self._unreadable.discard(ts)

    async def seal(self) -> Position:
        """Seal the log. Every commit at or below the watermark is before the returned position, in
        segments that are final. While nothing is committed, further calls seal no segment.

        Raises Unavailable.
        """
        if self._sealed_upto is None or self._logged_upto > self._sealed_upto:
            self._sealed_upto = await self._log.roll()
        return self._sealed_upto

    # ------------------------------------------------------------ stages

    async def _log_batches(self) -> None:
        while True:
            batch = await self._new_batch(self._take(await self._waiting.get()))
            if batch is None:
                continue
            self._steps(Step.TICKED)
            payloads = [w.prepared.payload for w in batch.members]
            record = encode_batch(batch.ts, payloads, batch.cells)
            try:
                batch.end = await self._log.append([record])
            except NoRoom as error:
                self._give_back(batch, error)
                continue
            except Unavailable as error:
                self._fail(error)
                return
            if self.without_room:
                _LOG.warning("the log has room again; writes go on")
                self.without_room = False
            batch.logged_at = self._clock.monotonic()
            self._logged_upto = batch.end
            self._reserved = max(self._reserved, batch.ts)
            self._steps(Step.LOGGED)
            for waiting in batch.members:
                waiting.begin("apply")
            self._lay_over(batch)
            await self._logged.put(batch)

    def _lay_over(self, batch: Batch) -> None:
        """Let reads of this process have the rows of a logged batch, and answer its transactions.

        Not if the store is in this process, where a put takes less time than a sync of the log; nor
        while an earlier timestamp is unreadable, or if the rows would be too many. Then the batch
        is answered when it is applied.
        """
        laid = self._laid_over
        if laid is None or min(self._unreadable) != batch.ts:
            return
        layer = Layer(batch.ts, batch.writes)
        if laid.rows + layer.rows > MAX_LAID_ROWS or laid.bytes + layer.bytes > MAX_LAID_BYTES:
            return
        laid.add(layer)
        batch.layer = layer
        self._unreadable.discard(batch.ts)
        for waiting in batch.members:
            self._answer(waiting, batch, readable=True)
        self._notify()
        self._steps(Step.ANSWERED)

    def _give_back(self, batch: Batch, error: NoRoom) -> None:
        """Refuse `batch`, the newest: none of it is in the log, its transactions have no effect."""
        newest = self._open_batches.pop()
        assert newest is batch, "batches are logged in their order"
        self._end(batch.ts)
        lanes.restore(batch.before)
        self.finished += len(batch.members)
        if not self.without_room:
            _LOG.warning("the log has no room; writes are refused", error=str(error))
        self.without_room = True
        for waiting in batch.members:
            refuse(waiting, NoRoom(f"Nothing was committed: {error.message}", cure=error.cure))
        self._notify()

    def _take(self, first: Waiting) -> list[Waiting]:
        """The transactions that wait now, up to the maximum size of a batch."""
        members, size = [first], first.prepared.logged_bytes
        while size < MAX_BATCH_BYTES and not self._waiting.empty():
            members.append(self._waiting.get_nowait())
            size += members[-1].prepared.logged_bytes
        return members

    async def _new_batch(self, taken: Sequence[Waiting]) -> Batch | None:
        """A batch of transactions at the next timestamp, with the cells of immediate views to which
        they add; None if all of them are refused. Many cells are worked off in turns. No other
        batch is made in the meantime, and the values of these cells stay known."""
        self._taken = taken
        before = await lanes.values(a for waiting in taken for a in waiting.prepared.additions)
        members = [waiting for waiting in taken if await self._added(waiting)]
        cells = await lanes.puts(before)
        self._taken = ()
        if self.failed is not None or not members:  # `_fail` has refused them
            return None
        batch = Batch(self._hlc.tick(), members, before=before, cells=cells)
        self._begin(batch.ts)
        self._open_batches.append(batch)
        return batch

    async def _added(self, waiting: Waiting) -> bool:
        """Add what a transaction adds to immediate views. If a sum is out of range, refuse the
        transaction, which has no effect."""
        try:
            await lanes.add_all(waiting.prepared.additions)
        except HornbeamError as error:
            self.finished += 1
            refuse(waiting, error)
            self._notify()
            return False
        return True

    async def _apply_batches(self) -> None:
        while True:
            batches = await _all_in(self._logged)
            self._steps(Step.APPLYING)
            puts = [asyncio.ensure_future(self._put(batch)) for batch in batches]
            try:
                await asyncio.gather(*puts)
            except Unavailable as error:
                await self._answer_early(0.0)
                self._fail(error)
                return
            finally:
                for put in puts:
                    put.cancel()
            self._steps(Step.APPLIED)
            for batch in batches:
                self._finish(batch)
            self._steps(Step.FINISHED)

    async def _put(self, batch: Batch) -> None:
        """Put a committed batch. A commit cannot be undone, so the put is retried until it succeeds
        or another process has taken over, which puts the batch from the log."""
        writes = batch.writes
        ts = batch.ts
        if self._log_name and self._clock.monotonic() - self._noted_at >= self._note_s:
            self._noted_at = self._clock.monotonic()
            note = log_end.note_of(self._log_name, batch.end)
            writes = {**writes, log_end.TABLE: [note]}
        pause_s = RETRY_MIN_S
        while True:
            if not self._alive():
                raise Unavailable("Another process may have taken over.", cure="Restart.")
            try:
                with within(batch.step):
                    await self._store.put(writes, ts)
            except Unavailable as error:
                if not self.degraded:
                    _LOG.warning("store refuses committed rows; retrying", ts=ts, error=str(error))
                self._refused.add(ts)
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_MAX_S)
            else:
                self._refused.discard(ts)
                return

    def _finish(self, batch: Batch) -> None:
        oldest = self._open_batches.popleft()
        assert oldest is batch, "batches are applied in the order of the log"
        self._end(batch.ts)
        if self._laid_over is not None and batch.layer is not None:
            self._laid_over.drop(batch.layer)
        self._applied_upto = batch.end
        self._catalog_version = batch.members[-1].prepared.catalog_version
        self.finished += len(batch.members)
        if self.ring is not None:
            commits = [waiting.prepared.payload for waiting in batch.members]
            self.ring.add(batch.ts, commits, batch.cells)
        self.newest.update(dict.fromkeys(batch.cells, batch.ts))
        for waiting in batch.members:
            self.newest.update(dict.fromkeys(waiting.prepared.writes, batch.ts))
            waiting.end()
            self._answer(waiting, batch, readable=True, applied=True)
            if waiting.applied is not None and not waiting.applied.done():
                waiting.applied.set_result(None)
        self._notify()

    def _answer(
        self, waiting: Waiting, batch: Batch, *, readable: bool, applied: bool = False
    ) -> None:
        if waiting.answer.done():
            return
        if not applied:
            waiting.applied = asyncio.get_running_loop().create_future()
        logged_at = batch.logged_at or waiting.since
        log_ms = (logged_at - waiting.since) * 1000
        apply_ms = (self._clock.monotonic() - logged_at) * 1000
        self.acknowledged = max(self.acknowledged, batch.ts)
        waiting.answer.set_result(Committed(batch.ts, log_ms, apply_ms, readable, waiting.applied))

    # ------------------------------------------------------------ timers

    async def _every(self, seconds: float, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._clock.sleep(seconds)
            await action()

    async def _answer_early(self, patience_s: float = PATIENCE_S) -> None:
        """Answer the clients whose batch was logged `patience_s` ago and is not applied yet."""
        now = self._clock.monotonic()
        for batch in self._open_batches:
            if batch.logged_at is not None and now - batch.logged_at >= patience_s:
                for waiting in batch.members:
                    self._answer(waiting, batch, readable=False)

    async def _checkpoint(self) -> None:
        """Make the applied batches durable in the store, and append a checkpoint to the log."""
        async with self._checkpointing:
            if self.failed is not None:
                return
            # All batches after `upto` in the log are in flight, or will get later timestamps.
            applied = min(self._in_flight) - 1 if self._in_flight else self._hlc.last
            upto = self._applied_upto
            if upto == self.checkpointed:
                self.replays_above = applied
                return
            try:
                await self._store.flush()
            except Unavailable as error:
                _LOG.warning("no checkpoint: the store does not flush", error=str(error))
                return
            self._steps(Step.CHECKPOINT_FLUSHED)
            with contextlib.suppress(Unavailable):  # the committer has failed, and says why
                await self._append_checkpoint(upto)
                self.replays_above = applied
                self._steps(Step.CHECKPOINTED)

    async def _append_checkpoint(self, upto: Position) -> None:
        """Record in the log the applied and durable position, and the reserved timestamp."""
        reserved = self._hlc.ahead(RESERVED_MS)
        try:
            await self._log.append([encode(Checkpoint(upto, reserved, self._catalog_version))])
        except NoRoom:
            raise
        except Unavailable as error:
            self._fail(error)
            raise
        self.checkpointed = max(self.checkpointed, upto)
        self._reserved = max(self._reserved, reserved)

    # ------------------------------------------------------------ failure

    def _stage(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Fail the committer when a stage dies of an unexpected error."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        _LOG.error("a stage of the committer died", exc_info=error)
        self._fail(Unavailable(f"The committer has stopped: {error!r}."))

    def _fail(self, error: HornbeamError) -> None:
        """Accept no more commits. Transactions in an append have an unknown outcome; those that
        still wait are refused, without an effect."""
        if self.failed is not None:
            return
        self.failed = error
        _LOG.error("the committer accepts nothing more", error=str(error))
        for batch in self._open_batches:
            if batch.logged_at is None:
                for waiting in batch.members:
                    refuse(waiting, unknown(waiting))
        for waiting in self._taken:
            refuse(waiting, self._refusal())
        while not self._waiting.empty():
            refuse(self._waiting.get_nowait(), self._refusal())
        self._notify()

    def require_working(self) -> None:
        """Raises Unavailable or DiskFull, with the reason, when the committer has failed."""
        if self.failed is not None:
            raise self._refusal()

    def _refusal(self) -> Unavailable:
        why = self.failed.message if self.failed is not None else ""
        if isinstance(self.failed, DiskFull):
            cure = "Free space on the log's disk, then restart; reads still work."
            return DiskFull(f"Nothing can be committed: {why}", cure=cure)
        return Unavailable(f"Nothing can be committed: {why}", cure="Restart, or ask another node.")

    def _notify(self) -> None:
        """Wake all tasks that wait for progress now."""
        self._progress.set()
        self._progress.clear()


def _with_logged_rows(store: TableStore) -> tuple[LoggedRows | None, TableReader]:
    """The rows that are laid over `store`, and reads of both. A local store has none."""
    if not store.remote:
        return None, store
    rows = LoggedRows()
    return rows, LoggedStore(store, rows)


async def _all_in(queue: asyncio.Queue[Batch]) -> list[Batch]:
    """All batches in the queue now; waits for the first one if the queue is empty."""
    found = [await queue.get()]
    while not queue.empty():
        found.append(queue.get_nowait())
    return found
