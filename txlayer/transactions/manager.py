"""The transaction manager runs write transactions to their end (docs/protocols/commit.md).

    plan → lock → re-check → read → validate → compute → log → apply → finish

`Transaction` does one attempt up to "compute", `Committer` does "log" and "apply". This module
repeats attempts that lost a lock, shields all steps after the commit point from cancellation, and
returns the recorded answer to a client that repeats a request.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.counters import Counter
from hornbeam_server.schema.errors import (
    HornbeamError,
    InvalidRequest,
    LimitExceeded,
    OutcomeUnknown,
    Overloaded,
    ReadConflict,
    StatementTimeout,
    TransactionAborted,
    Unavailable,
    UniqueViolation,
)
from hornbeam_server.schema.turns import selected
from hornbeam_server.storage.ports import Clock, Ids, TableStore
from hornbeam_server.storage.read_ranges import ReadRange
from hornbeam_server.storage.snapshot import Overlay
from hornbeam_server.storage.together import read_together, settled
from hornbeam_server.storage.tracing import part
from hornbeam_server.txlayer.commit.batches import Committed, Prepared
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.commit.encoding import encoded
from hornbeam_server.txlayer.commit.hlc import HybridClock
from hornbeam_server.txlayer.commit.lanes import LaneAddition
from hornbeam_server.txlayer.commit.read_holds import Readers
from hornbeam_server.txlayer.commit.snapshots import Snapshots
from hornbeam_server.txlayer.locking.guards import Guarded, Ranges
from hornbeam_server.txlayer.locking.locks import LockOwner, Locks, Mode, take_all
from hornbeam_server.txlayer.locking.read_checks import (
    noting_store,
    require_current,
    require_unchanged,
)
from hornbeam_server.txlayer.locking.schema_gate import Gate
from hornbeam_server.txlayer.statements.identity_columns import IdentityBlocks, Numbers
from hornbeam_server.txlayer.statements.requests import (
    RepeatedStatement,
    Replay,
    SqlWork,
    Statement,
    StatementResult,
    TransactionRequest,
    TransactionResult,
    Work,
    require_admitted,
)
from hornbeam_server.txlayer.statements.write_plans import WritePlan
from hornbeam_server.txlayer.transactions.attempt import Transaction
from hornbeam_server.txlayer.transactions.attempt_results import Attempt, outcome_of
from hornbeam_server.txlayer.transactions.compiled_catalog import CatalogState
from hornbeam_server.txlayer.transactions.new_rows import NewRows
from hornbeam_server.txlayer.transactions.outcomes import (
    TABLE as OUTCOMES,
)
from hornbeam_server.txlayer.transactions.outcomes import (
    Outcome,
    find_outcome,
    transaction_id_for,
)
from hornbeam_server.txlayer.transactions.random_uuids import RandomUuids
from hornbeam_server.txlayer.transactions.row_count_deltas import Growth
from hornbeam_server.txlayer.transactions.short_inserts import Held
from hornbeam_server.txlayer.transactions.short_transactions import ShortTransaction, short_path
from hornbeam_server.txlayer.transactions.statement_runs import (
    count_by_layout,
    digest_of,
    limited,
    plans_of,
    run_all,
    traced,
)

LOG_PATIENCE_S = 5.0
"""After the time limit of a transaction, its client waits this much longer for the log."""
ATTEMPTS_IN_PARALLEL = 2
"""After this many attempts that lost their locks, a transaction continues in the slow lane, one
transaction at a time. So transactions that contend for the same roots take turns, and do not abort
one another without end."""
_SLOW_LANE = ("slow lane",)
_WITHOUT_ROWS = (TransactionAborted, Unavailable, Overloaded, StatementTimeout)
"""Errors that rest on no rows."""


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """Limits of one transaction. The defaults are safe; settings may change them."""

    statements: int = 10_000
    parameter_sets: int = 200_000
    reads: int = 100_000
    attempts: int = 1_000
    timeout_s: float = 30.0


class TransactionManager:
    """All write transactions of one slave."""

    def __init__(
        self,
        *,
        store: TableStore,
        committer: Committer,
        hlc: HybridClock,
        clock: Clock,
        ids: Ids,
        engine: QueryEngine,
        catalog: Catalog,
        locks: Locks,
        snapshots: Snapshots,
        name: str = "",
        limits: TransactionLimits | None = None,
    ) -> None:
        """`name`: this slave's name, which distinguishes the ages of its transactions from those of
        other slaves."""
        self._store = committer.reader
        self._committer = committer
        self._clock = clock
        self._ids = ids
        self._engine = engine
        self._limits = limits or TransactionLimits()
        self._identity = IdentityBlocks(store, hlc.tick)
        self._locks = locks
        self._snapshots = snapshots
        self._name = name
        self._begun = 0
        self._finishing: set[asyncio.Future[Committed]] = set()
        self.unfinished: dict[str, str] = {}
        """The owners of transactions that have reached the log and are not applied yet, by
        transaction id."""
        self.under_way: dict[int, Attempt] = {}
        """The attempts of transactions that are under way, by the transaction's number."""
        self.gate = Gate()
        self.readers = Readers()
        self.state = CatalogState(catalog, engine)
        self.on_catalog: Callable[[], None] = lambda: None
        """Called whenever another version of the catalog is in use."""
        self.growth = Growth()
        self.committed = 0
        self.aborted = 0
        self.retried = 0

    # ------------------------------------------------------------ requests

    async def execute(self, request: TransactionRequest) -> TransactionResult:
        """Run one write transaction to its end, and return its result.

        A request whose idempotency key was committed before gets the recorded answer. Raises
        HornbeamError; its `outcome` says whether the transaction may have committed.
        """
        self._check_limits(request)
        if request.bookmark:
            await self._snapshots.admit(request.bookmark)
        if request.dry_run:
            return await self._dry_run(request)
        key = request.idempotency_key
        if key is not None:
            transaction_id = transaction_id_for(key, request.owner)
        else:
            transaction_id = self._ids.new()
        self._begun += 1
        begun = self._begun
        try:
            return await self._tried_until_done(request, transaction_id, begun)
        finally:
            self.under_way.pop(begun, None)

    async def _tried_until_done(
        self, request: TransactionRequest, transaction_id: str, begun: int
    ) -> TransactionResult:
        """Run attempts of transaction number `begun` until one succeeds. Raises the error of the
        last one."""
        age = (self._clock.wall_ms(), begun, self._name)
        timeout_s = request.timeout_s or self._limits.timeout_s
        deadline = self._clock.monotonic() + timeout_s
        searched: list[ReadRange] = []
        for number in range(self._limits.attempts):
            owner = LockOwner(age)
            attempt = Attempt(request, transaction_id, owner, deadline, searched, number + 1)
            self.under_way[begun] = attempt
            try:
                return await self._guarded(attempt, alone=number >= ATTEMPTS_IN_PARALLEL)
            except ReadConflict:
                self.aborted += 1
                raise
            except TransactionAborted:
                self.aborted += 1
                if self._clock.monotonic() >= deadline:
                    raise
                self.retried += 1
                searched = attempt.ranges
                await self._clock.sleep(min(0.001 * 2**number, 0.05))
        raise TransactionAborted(
            "The transaction was begun again too often because of others.",
            cure="Try again when there is less contention on the rows that it reads and writes.",
        )

    async def _guarded(self, attempt: Attempt, *, alone: bool) -> TransactionResult:
        """Run one attempt inside the gate, and in the slow lane if it runs `alone`. Every end of an
        attempt before the commit releases its locks, also an end during the grant of a lock."""
        owner, deadline = attempt.owner, attempt.deadline
        transaction_id = attempt.transaction_id
        try:
            if alone:
                await take_all(self._locks, owner, [_SLOW_LANE], Mode.EXCLUSIVE, deadline)
            await self.gate.enter(deadline)
        except BaseException:
            self._locks.release_all(owner)
            raise
        try:
            if alone and attempt.searched:
                # Others would go on to change what it searches, and it would have to start again.
                await self._guard(attempt, attempt.searched)
            prepared = await self._prepared(attempt)
        except BaseException:
            self._release(owner)
            raise
        if isinstance(prepared, TransactionResult):
            self._release(owner)
            return prepared
        # From here on the log decides the outcome, whether or not the caller waits for it.
        ended = asyncio.get_running_loop().create_future()
        answer = self._commit(attempt, prepared, ended)
        await settled(ended, max(deadline - self._clock.monotonic(), 0.0) + LOG_PATIENCE_S)
        if not answer.done():
            raise OutcomeUnknown(
                f"The log has not answered in time; transaction {transaction_id} may commit.",
                cure=f"Ask for transaction {transaction_id}.",
                transaction_id=transaction_id,
            )
        committed = answer.result()
        return attempt.result(committed.ts, committed)

    async def _prepared(self, attempt: Attempt) -> Prepared | TransactionResult:
        """Call `_prepare`. An answer without a commit, also an error, relies on the locks: they
        must still be in force. Raises TransactionAborted if they are not, or if a retry would
        get other identity numbers, and the errors of `_prepare`."""
        try:
            with ExitStack() as held:
                prepared = await self._prepare(attempt, held)
        except HornbeamError as error:
            self._locks.require_in_force(attempt.owner)
            if isinstance(error, UniqueViolation) and await attempt.numbers.give_up():
                raise TransactionAborted(
                    "Identity numbers were taken by rows that were loaded.", cure="Try again."
                ) from error
            if not isinstance(error, _WITHOUT_ROWS):
                await self._require_justified(attempt)
            raise
        if isinstance(prepared, TransactionResult):
            self._locks.require_in_force(attempt.owner)
        return prepared

    async def _prepare(self, attempt: Attempt, held: ExitStack) -> Prepared | TransactionResult:
        """Do all steps before the commit point. Returns the transaction for the committer, or the
        finished result when nothing is to be committed. `held` keeps the snapshot of its searches
        from being purged."""
        request, began = attempt.request, self._clock.monotonic()
        state = self.state
        require_admitted(request.admitted_under, state.catalog.version)
        replayed = request.replay.numbers if request.replay else ()
        attempt.numbers = Numbers(self._identity, replayed)
        plans = await plans_of(state, request.statements, attempt.deadline - began)
        path = short_path(state, request, plans)
        if path is not None:
            planned = self._clock.monotonic()
            attempt.plan_ms = (planned - began) * 1000
            short = self._short_transaction(attempt, state)
            with traced(request.statements[0]):
                prepared = await limited(attempt.deadline - planned, short.prepared(path, plans[0]))
            if prepared is not None:
                attempt.lock_ms = self._ms_since(began) - attempt.plan_ms
                return prepared
        transaction = Transaction(
            state,
            self._store,
            attempt.numbers,
            self._uuids(request.replay),
            self._now(request.replay),
            partial(self._searched, held, max(request.bookmark, state.catalog.since)),
            self._locks,
            attempt.owner,
            attempt.deadline,
            ranges=attempt.ranges if request.serializable else None,
        )
        attempt.plan_ms = self._ms_since(began)
        left_s = attempt.deadline - self._clock.monotonic()
        computed = await limited(left_s, self._computed(attempt, transaction, plans, began))
        if isinstance(computed, TransactionResult):
            return computed
        mutations, additions = computed
        shown = await _shown(mutations, state.catalog)
        attempt.affected, attempt.growth = await count_by_layout(shown)
        attempt.compute_ms = self._ms_since(began) - attempt.plan_ms - attempt.lock_ms
        if not mutations and not additions and request.idempotency_key is None:
            return self._unchanged(attempt)
        return await encoded(
            attempt.transaction_id,
            state.catalog.version,
            mutations,
            await transaction.net_changes(),
            {OUTCOMES: [await outcome_of(attempt)]},
            state.codecs,
            request.bookmark,
            additions,
            request.idempotency_key,
        )

    def _short_transaction(self, attempt: Attempt, state: CatalogState) -> ShortTransaction:
        held = Held(self._store, self._locks, attempt.owner, attempt.deadline, attempt.numbers)
        now = self._now(None)
        return ShortTransaction(attempt, state, held, now, self._uuids, self._unchanged)

    def _unchanged(self, attempt: Attempt) -> TransactionResult:
        """The result of an attempt that has nothing to commit."""
        seen = self._locks.clock(attempt.owner)
        return attempt.result(max(self._committer.readable(), seen))

    async def _computed(
        self,
        attempt: Attempt,
        transaction: Transaction,
        plans: Sequence[WritePlan | None],
        began: float,
    ) -> TransactionResult | _Computed:
        """Run the statements, and compute all that they change. Returns the recorded answer if the
        request was committed before."""
        request, state = attempt.request, transaction.state
        recorded = await self._begin(attempt, transaction, plans)
        if recorded is not None:
            return recorded.answer_to(request)
        if request.reads or request.preconditions:
            await transaction.stored.validate(request.reads, request.preconditions)
        digests = request.replay.results if request.replay is not None else ()
        attempt.laps = [self._clock.monotonic()]
        attempt.results = await run_all(
            transaction,
            request.statements,
            plans,
            digests,
            lambda: attempt.laps.append(self._clock.monotonic()),
        )
        await transaction.check()
        joined = await transaction.lock_joined()
        attempt.lock_ms = self._ms_since(began) - attempt.plan_ms
        mutations = await transaction.mutations()
        additions: Sequence[LaneAddition] = ()
        if joined:
            added = await transaction.additions(joined)
            additions = await self._committer.lanes.prepared(added, state.codecs)
        if request.ranges or attempt.ranges:
            await self._require_unchanged(attempt, state.catalog)
        await transaction.move_numbers()
        return mutations, additions

    async def _begin(
        self, attempt: Attempt, transaction: Transaction, plans: Sequence[WritePlan | None]
    ) -> Outcome | None:
        """Lock a request with an idempotency key, and read ahead. Returns the outcome of an earlier
        commit of the request, if there is one."""
        if attempt.request.idempotency_key is None:
            await transaction.read_ahead(attempt.request.statements, plans)
            return None
        work = attempt.request.statements
        reads: list[Callable[[], Awaitable[Outcome | None]]] = [
            partial(transaction.read_ahead, work, plans),
            partial(find_outcome, self._store, attempt.transaction_id),
        ]
        await transaction.lock([("request", attempt.transaction_id)])
        return (await read_together(self._store, reads))[-1]

    async def _searched(self, held: ExitStack, least: int, waited_for: int) -> int:
        """Return the snapshot for a transaction's searches, at or above both timestamps. `held`
        keeps it."""
        at = await self._snapshots.read_point(max(least, waited_for), logged=True)
        held.enter_context(self.readers.holding(at))
        return at

    async def _require_justified(self, attempt: Attempt) -> None:
        """Check, for an error of a serializable transaction, that what it rests on is unchanged.
        Raises ReadConflict, TransactionAborted, StatementTimeout."""
        if attempt.request.ranges or attempt.ranges:
            left_s = attempt.deadline - self._clock.monotonic()
            await limited(left_s, self._require_unchanged(attempt, self.state.catalog))

    async def _guard(self, attempt: Attempt, ranges: Sequence[ReadRange]) -> Guarded:
        locks, found = self._locks, Ranges.of(ranges)
        with part("guard"):
            return await locks.guard(attempt.owner, found, self._committer, attempt.deadline)

    async def _require_unchanged(self, attempt: Attempt, catalog: Catalog) -> None:
        """Check that what a serializable transaction has read is unchanged, and let it stay
        unchanged until the transaction is applied. Raises ReadConflict, TransactionAborted."""
        by_client, by_statements = attempt.request.ranges, attempt.ranges
        require_current(catalog, by_client)
        guarded = await self._guard(attempt, [*by_client, *by_statements])
        await require_unchanged(self._store, guarded, by_client, by_statements)

    def _commit(
        self, attempt: Attempt, prepared: Prepared, ended: asyncio.Future[None]
    ) -> asyncio.Future[Committed]:
        """Hand the transaction over to the committer. The answer decides whether its locks are
        released; `ended` is done afterwards. Cancelling `ended` has no effect on the answer."""
        try:
            # Nothing may suspend between these checks and the call of the committer.
            self._locks.require_in_force(attempt.owner)
            if self._locks.is_guarded(attempt.owner, prepared):
                raise TransactionAborted(
                    "Another transaction relies on rows that this one changes.",
                    cure="Try again.",
                    reason="guarded",
                )
            answer = self._committer.commit(prepared)
            attempt.owner.committing = True
        except BaseException:
            self._release(attempt.owner)
            raise
        # Not earlier: a request that is sent twice has one transaction id. Two copies may both
        # assume that they hold its lock; the copy that does may be in the log already.
        self.unfinished[attempt.transaction_id] = attempt.request.owner
        self._finishing.add(answer)
        answer.add_done_callback(partial(self._answered, attempt, ended))
        return answer

    def _answered(
        self, attempt: Attempt, ended: asyncio.Future[None], answer: asyncio.Future[Committed]
    ) -> None:
        try:
            self._finished(attempt, answer)
        finally:
            if not ended.done():
                ended.set_result(None)

    def _finished(self, attempt: Attempt, answer: asyncio.Future[Committed]) -> None:
        self._finishing.discard(answer)
        error = answer.exception()  # retrieved here, because the caller may be gone
        if isinstance(error, OutcomeUnknown):
            # Only recovery of the log finds out whether it holds the transaction. Until then the
            # transaction is unfinished and keeps its locks: others wait until this process is
            # replaced.
            self.gate.leave()
            return
        if error is not None:
            self._applied(attempt)
            return
        committed = answer.result()
        self.committed += 1
        for name, rows in attempt.growth.items():
            self.growth.own[name] += rows
        if committed.applied_future is None:
            self._applied(attempt, committed.ts)
        else:
            # Only this node reads what is not applied, and others may be the next with its locks.
            committed.applied_future.add_done_callback(
                lambda _: self._applied(attempt, committed.ts)
            )

    def _applied(self, attempt: Attempt, commit_ts: int = 0) -> None:
        """End a transaction that the store has, or that was not committed."""
        del self.unfinished[attempt.transaction_id]
        self._release(attempt.owner, commit_ts)

    def _release(self, owner: LockOwner, commit_ts: int = 0) -> None:
        self._locks.release_all(owner, commit_ts)
        self.gate.leave()

    def _check_limits(self, request: TransactionRequest) -> None:
        limits = self._limits
        if not (request.statements or request.preconditions or request.reads or request.ranges):
            raise InvalidRequest(
                "The transaction is empty.",
                cure="Send at least one statement, precondition, read or range.",
            )
        self._require_few(request.statements)
        if len(request.reads) + len(request.ranges) > limits.reads:
            raise LimitExceeded(
                f"The transaction has read more than {limits.reads} rows or ranges.",
                cure="Read less inside the transaction, or read outside of it.",
            )

    def _require_few(self, work: Sequence[Work]) -> None:
        most = self._limits.statements
        if len(work) > most:
            raise LimitExceeded(
                f"The transaction has more than {most} statements.",
                cure="Send one statement with many sets of parameters (executemany), several"
                " transactions, or rows to /v1/load.",
            )
        if len(work) == 1 and isinstance(work[0], Statement):
            return
        sets = sum(len(each.parameter_sets) for each in work if isinstance(each, RepeatedStatement))
        if sets > self._limits.parameter_sets:
            raise LimitExceeded(
                f"The statements of the transaction have {sets} sets of parameters, more than"
                f" {self._limits.parameter_sets}.",
                cure="Send them in several transactions, or use hornbeam load.",
            )

    def _ms_since(self, began: float) -> float:
        return (self._clock.monotonic() - began) * 1000

    def numbers(self, session: Mapping[str, int]) -> Numbers:
        """Numbers for a query. `session`: the last numbers of the client, by sequence."""
        return Numbers(self._identity, last=session)

    def _now(self, replay: Replay | None) -> dt.datetime:
        now = self._clock.wall_ms() if replay is None else replay.now
        return dt.datetime.fromtimestamp(now / 1000, dt.UTC)

    def _uuids(self, replay: Replay | None = None) -> RandomUuids:
        return RandomUuids(self._ids.new, replay.seed if replay is not None else "")

    def new_rows(self) -> NewRows:
        """Values of rows that no transaction writes: those of the copy of a relation."""
        return NewRows(self.state, Numbers(self._identity), self._uuids(), self._now(None))

    # ------------------------------------------------------------ dry runs

    async def _dry_run(self, request: TransactionRequest) -> TransactionResult:
        while True:
            numbers = Numbers(self._identity, request.replay.numbers if request.replay else ())
            try:
                return await self._trial(request, numbers)
            except UniqueViolation:
                if not await numbers.give_up():
                    raise

    async def _trial(self, request: TransactionRequest, numbers: Numbers) -> TransactionResult:
        limit_s = request.timeout_s or self._limits.timeout_s
        await self.gate.enter(self._clock.monotonic() + limit_s)
        try:
            state = self.state
            require_admitted(request.admitted_under, state.catalog.version)
            now = request.replay.now if request.replay else self._clock.wall_ms()
            replay = replace(request.replay or Replay(now), now=now)
            least = max(request.bookmark, state.catalog.since)
            at = await self._snapshots.read_point(least, logged=True)
            with self.readers.holding(at):
                uuids = self._uuids(replay)
                transaction = self._unlocked(state, at, numbers, uuids, replay)
                plans = await plans_of(state, request.statements, limit_s)
                results, mutations = await limited(limit_s, _tried(transaction, request, plans))
        finally:
            self.gate.leave()
        affected, _ = await count_by_layout(mutations)
        return TransactionResult(
            "",
            0,
            results,
            affected,
            mutations=tuple(mutations),
            replay=Replay(now, tuple(numbers.taken), tuple(map(digest_of, results)), uuids.seed),
            drawn=numbers.drawn,
        )

    async def pending(
        self,
        statements: Sequence[SqlWork],
        state: CatalogState,
        at: int,
        replay: Replay | None = None,
        timeout_s: float | None = None,
        ranges: list[ReadRange] | None = None,
    ) -> Overlay:
        """Return the changes that uncommitted `statements` would make under the catalog `state` at
        snapshot `at`, as an overlay for a query. `ranges` collects what they read. Raises
        LimitExceeded, StatementTimeout, and the errors of the statements."""
        self._require_few(statements)
        numbers = Numbers(self._identity, replay.numbers if replay else ())
        transaction = self._unlocked(state, at, numbers, self._uuids(replay), replay, ranges)
        limit_s = self._limits.timeout_s if timeout_s is None else timeout_s
        return await limited(limit_s, _overlay(transaction, statements, limit_s))

    def _unlocked(
        self,
        state: CatalogState,
        at: int,
        numbers: Numbers,
        uuids: RandomUuids,
        replay: Replay | None,
        ranges: list[ReadRange] | None = None,
    ) -> Transaction:
        async def here(_: int) -> int:
            return at

        now, owner = self._now(replay), LockOwner(0)
        store = noting_store(self._store, state.catalog, ranges)
        return Transaction(state, store, numbers, uuids, now, here, None, owner, at=at)

    # ------------------------------------------------------------ schema

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """Keep all transactions out while the context lasts. All earlier transactions are applied
        then. Raises Unavailable if the committer fails."""
        async with self.gate.closed():
            await self._committer.drain()
            yield

    async def require_bounds(self, before: Counter, after: Counter) -> None:
        """Require that the new bounds of a counter leave out neither its last number at this node
        nor its next one. Raises InvalidRequest."""
        await self._identity.require_bounds(before, after)

    async def turned(self, before: Counter, after: Counter) -> int:
        """The first number of a counter that counts in the other direction from now on. Raises
        InvalidRequest."""
        return await self._identity.turned(before, after)

    async def move_to(self, counter: Counter, number: int) -> None:
        """Make `number` the next number of an identity column, unless the column is past it."""
        await self._identity.move_to(counter, number)

    async def move_past(self, counter: Counter, number: int, rows: int) -> None:
        """Continue an identity column behind `number`: `rows` rows with numbers up to it were
        loaded outside of transactions."""
        await self._identity.move_past(counter, number, rows)

    def use(self, catalog: Catalog) -> None:
        """Plan transactions that begin from now on under `catalog`."""
        self.state = CatalogState(catalog, self._engine)
        self.on_catalog()

    async def close(self) -> None:
        """Admit no more transactions, and wait for commits under way."""
        self.gate.end()
        if self._finishing:
            await asyncio.wait(self._finishing)


_Computed = tuple[Sequence[Mutation], Sequence[LaneAddition]]
"""The changes of all stored rows, and what is added to immediate views."""


async def _tried(
    transaction: Transaction, request: TransactionRequest, plans: Sequence[WritePlan | None]
) -> tuple[tuple[StatementResult, ...], Sequence[Mutation]]:
    """The results and the changes of a dry run."""
    await transaction.read_ahead(request.statements, plans)
    await transaction.stored.validate(request.reads, request.preconditions)
    results = await run_all(transaction, request.statements, plans)
    await transaction.check(circles=False)  # a later statement may add the row
    return results, await _shown(await transaction.mutations(), transaction.state.catalog)


async def _shown(mutations: Sequence[Mutation], catalog: Catalog) -> Sequence[Mutation]:
    """The mutations without those of copies of relations, which no client knows."""
    if not catalog.copy:
        return mutations
    return await selected(mutations, lambda m: m.layout not in catalog.copy)


async def _overlay(
    transaction: Transaction, statements: Sequence[SqlWork], limit_s: float
) -> Overlay:
    plans = await plans_of(transaction.state, statements, limit_s)
    await transaction.read_ahead(statements, plans)
    await run_all(transaction, statements, plans)
    return Overlay(await transaction.overlay())
