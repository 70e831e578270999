"""The committer: from prepared transactions to durable, applied, visible ones, in batches.

    commit() ─ encode ─▶ waiting ─ log stage ─▶ logged ─ apply stage ─▶ applied, answered

The log stage takes all that wait, gives them one timestamp and one `Log.append`: the commit
point. The apply stage takes all batches that are logged, puts them into the store side by side,
moves the watermark and answers, in the order of the log. What comes meanwhile is logged meanwhile.
All transactions that are in here at one time hold locks against one another: those of one batch may
share a timestamp, and no two batches write the same row.

A timestamp is *in flight* from its tick until its batch is applied, and the watermark stays below
it. One whose outcome is unknown (the log failed) stays in flight until the process is restarted
and the log is read again.

A timestamp is *reserved* when the log says so (a batch or a checkpoint has it or a higher one): the
next owner of the log begins above it, whatever its wall clock shows and whether or not this owner
still runs. The watermark never passes what is reserved, so no snapshot that was ever read can be
written into.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import structlog

from maintain.changes import Change, Mutation
from schema.errors import DiskFull, HornbeamError, OutcomeUnknown, Overloaded, Unavailable
from schema.types import Row
from storage.codec.rows import Codecs
from storage.limits import require_storable
from storage.log.records import Batch, Checkpoint, Commit, encode, merged_writes
from storage.ports import START, TOMBSTONE, Clock, Log, Position, Put, TableStore
from txlayer.hlc import RESERVED_MS, HybridClock
from txlayer.steps import Step, Steps, no_steps

MAX_WAITING = 10_000
"""Transactions that may wait for the log; more are refused as Overloaded."""
MAX_BATCH_BYTES = 16 << 20
"""A batch takes no further transaction once it is this large."""
MAX_LOGGED = 8
"""Batches that may be logged and wait to be applied; then the log waits for the store."""
PATIENCE_S = 5.0
"""After this long without the store's answer, a client is told "committed, not applied yet"."""
CHECKPOINT_INTERVAL_S = 1.0
RETRY_MIN_S, RETRY_MAX_S = 0.01, 1.0
CLOSE_TIMEOUT_S = 10.0
"""Closing waits so long for the store. What it leaves is in the log and is replayed."""

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A transaction that has passed every check and holds its locks.

    `mutations` are all stored rows that change, `changes` the base rows among them, `extra_puts`
    encoded system rows by physical table; `codecs` are those of the catalog's version.
    `not_before` is a timestamp that the commit must be later than (the client's bookmark).
    """

    transaction_id: str
    mutations: Sequence[Mutation]
    changes: Sequence[Change]
    extra_puts: Mapping[str, Sequence[Put]]
    catalog_version: int
    codecs: Codecs
    not_before: int = 0


@dataclass(frozen=True, slots=True)
class Committed:
    """`log_ms` includes the wait for the batch. When `applied` is False, `applied_future` is done
    once the puts are in the store; until then the transaction's locks must be kept."""

    ts: int
    log_ms: float
    apply_ms: float
    applied: bool
    applied_future: asyncio.Future[None] | None = None


@dataclass(eq=False, slots=True)
class _Waiting:
    """One transaction on its way through."""

    transaction_id: str
    catalog_version: int
    writes: Mapping[str, Sequence[Put]]
    payload: bytes
    since: float
    answer: asyncio.Future[Committed]
    applied: asyncio.Future[None] | None = None


@dataclass(eq=False, slots=True)
class _Batch:
    ts: int
    members: list[_Waiting]
    logged_at: float | None = None
    end: Position = START


class Committer:
    """One slave's way to commit. `start` it before the first `commit`."""

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
    ) -> None:
        self._store = store
        self._log = log
        self._clock = clock
        self._hlc = hlc
        self._alive = alive
        self._steps = steps
        self._checkpoint_interval_s = checkpoint_interval_s
        self._waiting: asyncio.Queue[_Waiting] = asyncio.Queue(max_waiting)
        self._logged: asyncio.Queue[_Batch] = asyncio.Queue(MAX_LOGGED)
        self._open_batches: deque[_Batch] = deque()
        self._in_flight: set[int] = set()
        self.begun = self.finished = 0
        """Commits that were accepted, and those of them that are applied."""
        self._logged_upto = START
        self._sealed_upto: Position | None = None
        self.acknowledged = 0
        """The latest commit that anybody was told of."""
        self._progress = asyncio.Event()
        self._checkpointing = asyncio.Lock()
        self._accepting = False
        self._stages: list[asyncio.Task[None]] = []
        self._timers: list[asyncio.Task[None]] = []
        self._applied_upto = checkpointed
        self._catalog_version = 0
        self._reserved = reserved
        self.checkpointed = checkpointed
        """All of the log before this is applied and durable in the store."""
        self.replays_above = 0
        """Recovery of the log puts nothing again that was committed at or below this."""
        self.failed: HornbeamError | None = None
        """Why nothing more is accepted, for good."""
        self._refused: set[int] = set()
        """Timestamps of the batches that the store has refused, and is asked again to take."""

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Begin to accept. The log must have been recovered before."""
        self._stages = [self._stage(self._log_batches()), self._stage(self._apply_batches())]
        self._timers = [
            self._stage(self._every(self._checkpoint_interval_s, self._checkpoint)),
            self._stage(self._every(PATIENCE_S / 10, self._answer_early)),
        ]
        self._accepting = True

    async def close(self) -> None:
        """Refuse new commits, finish those begun, write a checkpoint. Idempotent.

        A store that does not answer is not waited for longer than 10 s.
        """
        if not self._stages:
            return
        self._accepting = False
        await self._finish_or_give_up()
        async with self._checkpointing:  # a timer is stopped between checkpoints, not inside one
            stop = (*self._timers, *self._stages)
            for task in stop:
                task.cancel()
        await asyncio.wait(stop)
        self._stages, self._timers = [], []
        await self._checkpoint()

    async def _finish_or_give_up(self) -> None:
        """Drain; if the store keeps us from it, leave the rest to recovery."""
        drained = asyncio.ensure_future(self._drained())
        too_long = asyncio.ensure_future(self._clock.sleep(CLOSE_TIMEOUT_S))
        await asyncio.wait((drained, too_long), return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            await self._answer_early(0.0)
            self._fail(Unavailable("The committer was closed before the store answered."))
            await drained
        too_long.cancel()

    async def _drained(self) -> bool:
        """Wait until everything begun is applied; False if the committer fails before."""
        target = self.begun
        while self.finished < target and self.failed is None:
            await self._progress.wait()
        return self.finished >= target

    async def drain(self) -> None:
        """Return when every commit begun before the call is applied.

        Raises Unavailable if the committer fails before that.
        """
        if not await self._drained():
            raise self._refusal()

    # ------------------------------------------------------------ commits

    def commit(self, prepared: Prepared) -> asyncio.Future[Committed]:
        """Hand a transaction over, to be made durable and applied. The caller holds its locks and
        keeps them until it is applied; whether or not anybody waits for the answer, it goes on.

        Raises LimitExceeded, Overloaded and Unavailable: nothing happened. The answer may be
        OutcomeUnknown, or Unavailable: nothing happened then, either.
        """
        self.require_working()
        if not self._accepting:
            raise Unavailable("The committer is closed.", cure="Try again after the restart.")
        if prepared.not_before:
            self._hlc.merge(prepared.not_before)
        since = self._clock.monotonic()
        waiting = _encoded(prepared, since)
        self._steps(Step.QUEUED)
        try:
            self._waiting.put_nowait(waiting)
        except asyncio.QueueFull:
            raise Overloaded(
                f"More than {self._waiting.maxsize} transactions wait for the log.",
                cure="Try again a little later; commit less at a time.",
            ) from None
        self.begun += 1
        return waiting.answer

    def watermark(self) -> int:
        """The newest timestamp at which everything is applied; later commits are all above it,
        those of later owners too."""
        newest = min(self._in_flight) - 1 if self._in_flight else self._hlc.observe()
        return min(newest, self._reserved)

    @property
    def degraded(self) -> bool:
        """Does the store refuse puts that are already committed? They are being retried."""
        return bool(self._refused)

    @property
    def idle(self) -> bool:
        """Is everything applied that was accepted?"""
        return self.finished == self.begun

    async def reserve(self) -> int:
        """A timestamp of now, which no commit from now on falls on or below.

        For writes that do not go through the log. Raises Unavailable, when this process has been
        replaced too.
        """
        self.require_working()
        async with self._checkpointing:  # the newest in the log must not be behind the one before
            now = self._hlc.observe()
            if now > self._reserved:
                await self._append_checkpoint(self.checkpointed)
        return now

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[int]:
        """A timestamp later than every commit and every snapshot so far. The watermark stays below
        it until the context ends: nobody reads there before.

        Raises Unavailable, as `reserve`.
        """
        self.require_working()
        at = self._hlc.tick()
        self._in_flight.add(at)
        try:
            async with self._checkpointing:
                if at > self._reserved:
                    await self._append_checkpoint(self.checkpointed)
            yield at
        finally:
            self._in_flight.discard(at)

    async def seal(self) -> Position:
        """Every commit at or below the watermark stands before this position, in segments to which
        nobody appends any more. Of segments without a commit none is sealed but the first.

        Raises Unavailable.
        """
        if self._sealed_upto is None or self._logged_upto > self._sealed_upto:
            self._sealed_upto = await self._log.roll()
        return self._sealed_upto

    # ------------------------------------------------------------ stages

    async def _log_batches(self) -> None:
        while True:
            batch = self._new_batch(self._take(await self._waiting.get()))
            self._steps(Step.TICKED)
            record = Batch(batch.ts, [msgspec.Raw(w.payload) for w in batch.members])
            try:
                batch.end = await self._log.append([encode(record)])
            except Unavailable as error:
                self._fail(error)
                return
            batch.logged_at = self._clock.monotonic()
            self._logged_upto = batch.end
            self._reserved = max(self._reserved, batch.ts)
            self._steps(Step.LOGGED)
            await self._logged.put(batch)

    def _take(self, first: _Waiting) -> list[_Waiting]:
        """All that wait now, as far as one batch may hold them."""
        members, size = [first], len(first.payload)
        while size < MAX_BATCH_BYTES and not self._waiting.empty():
            members.append(self._waiting.get_nowait())
            size += len(members[-1].payload)
        return members

    def _new_batch(self, members: list[_Waiting]) -> _Batch:
        batch = _Batch(self._hlc.tick(), members)
        self._in_flight.add(batch.ts)
        self._open_batches.append(batch)
        return batch

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

    async def _put(self, batch: _Batch) -> None:
        """Put what is committed: there is no way but forward, so it is tried for ever, or until
        another process has taken over, which puts it from the log."""
        writes, ts = merged_writes(w.writes for w in batch.members), batch.ts
        pause_s = RETRY_MIN_S
        while True:
            if not self._alive():
                raise Unavailable("Another process may have taken over.", cure="Restart.")
            try:
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

    def _finish(self, batch: _Batch) -> None:
        oldest = self._open_batches.popleft()
        assert oldest is batch, "batches are applied in the order of the log"
        self._in_flight.discard(batch.ts)
        self._applied_upto = batch.end
        self._catalog_version = batch.members[-1].catalog_version
        self.finished += len(batch.members)
        for waiting in batch.members:
            self._answer(waiting, batch, applied=True)
            if waiting.applied is not None and not waiting.applied.done():
                waiting.applied.set_result(None)
        self._notify()

    def _answer(self, waiting: _Waiting, batch: _Batch, *, applied: bool) -> None:
        if waiting.answer.done():
            return
        if not applied:
            waiting.applied = asyncio.get_running_loop().create_future()
        logged_at = batch.logged_at or waiting.since
        log_ms = (logged_at - waiting.since) * 1000
        apply_ms = (self._clock.monotonic() - logged_at) * 1000
        self.acknowledged = max(self.acknowledged, batch.ts)
        waiting.answer.set_result(Committed(batch.ts, log_ms, apply_ms, applied, waiting.applied))

    # ------------------------------------------------------------ timers

    async def _every(self, seconds: float, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._clock.sleep(seconds)
            await action()

    async def _answer_early(self, patience_s: float = PATIENCE_S) -> None:
        """Tell clients whose batch is logged, but not applied for long, that it is committed."""
        now = self._clock.monotonic()
        for batch in self._open_batches:
            if batch.logged_at is not None and now - batch.logged_at >= patience_s:
                for waiting in batch.members:
                    self._answer(waiting, batch, applied=False)

    async def _checkpoint(self) -> None:
        """Make what is applied durable in the store, and note it in the log."""
        async with self._checkpointing:
            if self.failed is not None:
                return
            # What comes behind `upto` in the log is in flight, or is not begun and will be later.
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
        """Note in the log what is applied and durable, and what is reserved."""
        reserved = self._hlc.ahead(RESERVED_MS)
        try:
            await self._log.append([encode(Checkpoint(upto, reserved, self._catalog_version))])
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
        """A stage that dies of anything unforeseen takes the committer down with it."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        _LOG.error("a stage of the committer died", exc_info=error)
        self._fail(Unavailable(f"The committer has stopped: {error!r}."))

    def _fail(self, error: HornbeamError) -> None:
        """Accept nothing more. Logged or half-logged transactions have an unknown outcome; those
        that still wait have none."""
        if self.failed is not None:
            return
        self.failed = error
        _LOG.error("the committer accepts nothing more", error=str(error))
        for batch in self._open_batches:
            if batch.logged_at is None:
                for waiting in batch.members:
                    _refuse(waiting, _unknown(waiting))
        while not self._waiting.empty():
            _refuse(self._waiting.get_nowait(), self._refusal())
        self._notify()

    def require_working(self) -> None:
        """Raises why nothing more is accepted."""
        if self.failed is not None:
            raise self._refusal()

    def _refusal(self) -> Unavailable:
        why = self.failed.message if self.failed is not None else ""
        if isinstance(self.failed, DiskFull):
            cure = "Free space on the log's disk, then restart; reads go on meanwhile."
            return DiskFull(f"Nothing can be committed: {why}", cure=cure)
        return Unavailable(f"Nothing can be committed: {why}", cure="Restart, or ask another node.")

    def _notify(self) -> None:
        """Wake everybody who waits for progress now."""
        self._progress.set()
        self._progress.clear()


async def _all_in(queue: asyncio.Queue[_Batch]) -> list[_Batch]:
    """Everything that is in the queue now, or comes first."""
    found = [await queue.get()]
    while not queue.empty():
        found.append(queue.get_nowait())
    return found


def _encoded(prepared: Prepared, since: float) -> _Waiting:
    """Encode a transaction for the log and for the store, each row once. Raises LimitExceeded."""
    writes: dict[str, list[Put]] = {}
    layouts: dict[str, tuple[Callable[[Row], bytes], list[Put], dict[int, bytes]]] = {}

    def opened(name: str) -> tuple[Callable[[Row], bytes], list[Put], dict[int, bytes]]:
        """Encoder, puts, and encoded rows by identity: a changed row and the mutation of its
        relation are the same object."""
        found = layouts.get(name)
        if found is None:
            codec = prepared.codecs(name)
            found = layouts[name] = (codec.encode, writes.setdefault(codec.layout.table, []), {})
        return found

    for mutation in prepared.mutations:
        encode_row, puts, known = opened(mutation.layout)
        new = mutation.new
        value = TOMBSTONE
        if new is not None:
            value = known[id(new)] = encode_row(new)
        puts.append(Put(mutation.key, value))
    for table, extra in prepared.extra_puts.items():
        writes.setdefault(table, []).extend(extra)
    require_storable(writes)
    changes: list[tuple[str, bytes | None, bytes | None]] = []
    for change in prepared.changes:
        encode_row, _, known = opened(change.relation)
        before, after = (
            None if row is None else known.get(id(row)) or encode_row(row)
            for row in (change.old, change.new)
        )
        changes.append((change.relation, before, after))
    commit = Commit(
        bytes.fromhex(prepared.transaction_id), prepared.catalog_version, writes, changes
    )
    answer: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
    return _Waiting(
        prepared.transaction_id, prepared.catalog_version, writes, encode(commit), since, answer
    )


def _refuse(waiting: _Waiting, error: HornbeamError) -> None:
    if not waiting.answer.done():
        waiting.answer.set_exception(error)


def _unknown(waiting: _Waiting) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"The log failed while transaction {waiting.transaction_id} was written to it.",
        cure="Ask for the transaction by its id after the restart.",
        transaction_id=waiting.transaction_id,
    )
