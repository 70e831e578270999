"""One simulated run: a workload and a fault workload, from a seed to a verdict.

    clients send transactions and reads while faults happen
    → faults end, the cluster heals
    → nothing is stuck, no acknowledged commit is lost, every view equals its definition at every
      commit, every snapshot that was read agrees with the log, and the workload's own invariants
      hold

All arguments of `simulate` together determine a run; its `trace_hash` shows it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar
from unittest import mock

import structlog

from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import (
    ConstraintViolation,
    Corruption,
    HornbeamError,
    InvalidRequest,
    OutcomeUnknown,
    Unavailable,
)
from hornbeam_server.storage.simulated.chaos import Chaos, Fault, Profile
from hornbeam_server.storage.simulated.loop import SimulatedLoop, run_simulated
from hornbeam_server.storage.snapshot import ReadItem
from hornbeam_server.txlayer.commit import change_ring
from hornbeam_server.txlayer.statements.requests import (
    Statement,
    TransactionRequest,
    TransactionResult,
)
from hornbeam_server.txlayer.transactions.outcomes import transaction_id_for
from tests.sim.follower import Follower
from tests.sim.oracle import check_every_commit, check_every_snapshot
from tests.sim.shared_work import shared_work
from tests.sim.simulated_cluster import Cluster, NoAnswer, drawn_options
from tests.sim.simulated_members import MembersCluster

T = TypeVar("T")
CLIENTS = 8
PAUSE_S, MAX_PAUSE_S = 0.01, 1.0
TRIES, READ_TRIES = 25, 8
SETTLED_S, STUCK_AFTER_S = 15.0, 60.0
"""After the last fault: when the cluster must be quiet, and when it counts as stuck if it is
not."""
RINGS = (change_ring.RING_BYTES, 600)
"""The bytes of the newest commits that nodes keep in memory: all of a run, or those of some
transactions."""
LIES = (Corruption, InvalidRequest)
"""Errors that no client may get: nothing is damaged for good, and every request is valid."""


class Workload(Protocol):
    """The requests of clients, and the invariants, which hold whatever fails. A workload may have
    `settings` of nodes, which replace those that a run draws."""

    oracle: bool
    """Whether the log holds everything stored. It does not where views are built over rows."""

    def catalog(self) -> Catalog:
        """The schema, views and indexes at the start."""

    async def set_up(self, database: Database) -> None:
        """Insert the first rows, before any fault."""

    async def step(self, client: Client) -> None:
        """One transaction or read of one client. Raises AssertionError when an answer is wrong."""

    async def check(self, database: Database, journal: Journal) -> None:
        """Check the invariants over the final state."""


@dataclass
class Journal:
    """The answers that clients got. `acknowledged` holds results by idempotency key, `unresolved`
    the requests whose outcome no client knows yet."""

    acknowledged: dict[str, TransactionResult] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    unresolved: dict[str, TransactionRequest] = field(default_factory=dict)
    seen: list[tuple[int, list[ReadItem]]] = field(default_factory=list)
    """Snapshots, and the versions of rows that were read in them."""
    newest: int = 0
    """The latest commit that a client knows to be applied: strong reads must include it."""
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def returned(self) -> int:
        """The sum of all numbers that acknowledged statements returned, where each row is one
        number."""
        return sum(
            number
            for answer in self.acknowledged.values()
            for statement in answer.statements
            for (number,) in statement.rows
        )


class Client:
    """One client: a session that keeps a bookmark and repeats a request until it knows its
    outcome."""

    def __init__(self, name: str, cluster: Cluster, journal: Journal, rng: random.Random) -> None:
        self.name = name
        self.random = rng
        self.journal = journal
        self.bookmark = 0
        self._cluster = cluster
        self._requests = 0

    @property
    def is_strong(self) -> bool:
        """Whether the next read is strong. With one node every read is; with several it is drawn. A
        weak read is cheaper, and must include what this client knows of."""
        return not self._cluster.several or self.random.random() < 0.5

    async def change(self, change: Awaitable[T]) -> T | None:
        """Await a change of the schema and return its result; None when it was not acknowledged."""
        try:
            result = await change
        except LIES:
            raise
        except (NoAnswer, HornbeamError) as error:
            self.journal.counts[f"change: {type(error).__name__}"] += 1
            return None
        self.journal.counts["changes"] += 1
        return result

    async def transact(self, *statements: Statement, **options: Any) -> TransactionResult | None:
        """A write transaction, retried under one key until its outcome is known; None when it was
        refused or aborted for good. Raises ConstraintViolation."""
        self._requests += 1
        key = f"{self.name}/{self._requests}"
        request = TransactionRequest(tuple(statements), idempotency_key=key, **options)
        self.journal.unresolved[key] = request
        maybe_done = False
        for attempt in range(TRIES):
            try:
                result = await self._cluster.ask(lambda db: db.transact(self._marked(request)))
            except (NoAnswer, OutcomeUnknown):
                maybe_done = True
                self.journal.counts["unknown"] += 1
                await self._pause(attempt)
            except ConstraintViolation:
                self._settle(key, None)
                raise
            except Unavailable:
                await self._pause(attempt)
            except LIES:
                raise
            except HornbeamError as error:
                if not maybe_done:
                    self._settle(key, None)
                self.journal.counts[type(error).__name__] += 1
                return None
            else:
                self._settle(key, result)
                self.bookmark = max(self.bookmark, result.commit_ts)
                return result
        self.journal.counts["gave up"] += 1
        return None

    async def _pause(self, attempt: int) -> None:
        """Wait before a retry, longer after each attempt."""
        most_s = min(PAUSE_S * 2**attempt, MAX_PAUSE_S)
        await asyncio.sleep(most_s * self.random.uniform(0.5, 1))

    def _marked(self, request: TransactionRequest) -> TransactionRequest:
        return replace(request, bookmark=self.bookmark)

    def _settle(self, key: str, result: TransactionResult | None) -> None:
        del self.journal.unresolved[key]
        if result is None:
            self.journal.refused.add(key)
        else:
            self.journal.acknowledged[key] = result
            if result.applied:
                self.journal.newest = max(self.journal.newest, result.commit_ts)

    async def read(
        self, *queries: str | tuple[str, Sequence[Any]], strong: bool | None = None
    ) -> list[list[tuple]] | None:
        """Run queries at one snapshot. It includes what this client knows of and, if the read is
        `strong`, what any client knows of; None when refused. By default `is_strong` decides, and
        some strong reads begin without a bookmark, as those of new clients do."""
        bookmark = self.bookmark
        if strong is None:
            strong = self.is_strong
            if strong and self._cluster.several and self.random.random() < 0.3:
                bookmark = 0

        async def work(database: Database) -> tuple[int, int, list[list[tuple]], list[ReadItem]]:
            found, at, reported = [], None, self.journal.newest if strong else 0
            seen: list[ReadItem] = []
            for query in queries:
                sql, parameters = query if isinstance(query, tuple) else (query, ())
                async with database.query(
                    sql,
                    parameters,
                    bookmark=bookmark,
                    snapshot=at,
                    strong=strong and at is None,
                    trace=True,
                ) as result:
                    at = result.snapshot
                    found.append(list(await result.stream.all()))
                    seen += result.reads
            return reported, at, found, seen

        answer = await self.ask_persistently("read", work)
        if answer is None:
            return None
        reported, at, found, seen = answer
        assert at >= bookmark, f"snapshot {at} is before the bookmark {bookmark}"
        assert at >= reported, f"snapshot {at} is before commit {reported}, which was acknowledged"
        self.bookmark = max(self.bookmark, at)
        self.journal.counts["reads"] += 1
        self.journal.seen.append((at, seen))
        return found

    async def ask_persistently(self, what: str, work: Callable[[Database], Awaitable[Any]]) -> Any:
        """The answer to a request without effects, repeated while no node serves; None when the
        request is refused, or no answer comes."""
        for attempt in range(READ_TRIES):
            try:
                return await self._cluster.ask(work)
            except LIES:
                raise
            except Unavailable:
                await self._pause(attempt)
            except (NoAnswer, HornbeamError) as error:
                self.journal.counts[f"{what}: {type(error).__name__}"] += 1
                await asyncio.sleep(PAUSE_S)
                return None
        self.journal.counts[f"{what}: Unavailable"] += 1
        return None


@dataclass(frozen=True)
class Report:
    """The result of a run."""

    seed: int
    committed: int
    refused: int
    reads: int
    fired: Counter[Fault]
    processes: int
    stopped: int
    """The number of nodes that were stopped in order."""
    simulated_s: float
    cpu_s: float
    trace_hash: str
    counts: Counter[str]


def simulate(
    seed: int,
    workload: Callable[[random.Random], Workload],
    profile: Profile,
    transactions: int = 500,
    nodes: int = 1,
    clients: int = CLIENTS,
    follow: bool = False,
    **options: Any,
) -> Report:
    """Run the simulation with `nodes` nodes that serve at the same time, and with a follower of
    their logs if `follow` is set. Raises AssertionError, and any error that the cluster could not
    handle."""
    gc.collect()
    gc.disable()  # its time depends on earlier runs, and it runs finalizers
    began = time.process_time()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    ring = mock.patch.object(change_ring, "RING_BYTES", random.Random(f"ring {seed}").choice(RINGS))
    try:
        with shared_work(), ring:
            report = run_simulated(
                _run(seed, workload, profile, transactions, nodes, clients, follow, options)
            )
    finally:
        gc.enable()
    return replace(report, cpu_s=time.process_time() - began)


async def _run(
    seed: int,
    new_workload: Callable[[random.Random], Workload],
    profile: Profile,
    transactions: int,
    nodes: int,
    clients: int,
    follow: bool,
    options: dict[str, Any],
) -> Report:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    chaos, journal = Chaos(seed, profile), Journal()
    rng = random.Random(f"workload {seed}")
    workload = new_workload(rng)
    settings = getattr(workload, "settings", {})
    cluster = _new_cluster(loop, chaos, seed, nodes, settings | options)
    try:
        await _prepare(cluster, workload)
        cluster.unleash()
        left = iter(range(transactions))
        follower = Follower(cluster, journal.counts)
        following = asyncio.ensure_future(follower.run()) if follow else None

        async def run_client(client: Client) -> None:
            for _ in left:
                await workload.step(client)

        await _all(
            run_client(Client(f"c{n}", cluster, journal, random.Random(f"{seed} {n}")))
            for n in range(clients)
        )
        database = await cluster.heal()
        if following is not None:
            following.cancel()
            await follower.catch_up()
            follower.check(journal.acknowledged)
        await _resolve(cluster, journal)
        await require_nothing_stuck(cluster)
        assert profile.faults or not journal.counts["unknown"], "no answer, and nothing went wrong"
        if workload.oracle:
            at = {
                transaction_id_for(key): answer.commit_ts
                for key, answer in journal.acknowledged.items()
            }
            await check_every_commit(cluster, database, at)
            check_every_snapshot(cluster, database, journal.seen)
        await workload.check(database, journal)
    finally:
        await cluster.stop()
    assert not loop.uncaught, loop.uncaught
    return Report(
        seed,
        len(journal.acknowledged),
        len(journal.refused),
        journal.counts["reads"],
        chaos.fired,
        len(cluster.nodes),
        cluster.stopped,
        loop.time(),
        0.0,
        chaos.trace_hash,
        journal.counts,
    )


def _new_cluster(
    loop: SimulatedLoop, chaos: Chaos, seed: int, nodes: int, options: dict[str, Any]
) -> Cluster:
    rng = random.Random(f"cluster {seed}")
    drawn = drawn_options(rng) | options
    if nodes == 1:
        return Cluster(loop, chaos, **drawn)
    stops_s, calm = rng.choice([None, 2.0, 6.0]), rng.choice([1.0, 4.0])
    stops_s = chaos.profile.stops_s or stops_s
    return MembersCluster(
        loop, chaos, **{"places": nodes, "stops_s": stops_s, "calm": calm} | drawn
    )


async def _prepare(cluster: Cluster, workload: Workload) -> None:
    await cluster.start()
    leader = await cluster.leader()
    database = leader.database

    async def set_up() -> None:
        await database.keeper.apply(workload.catalog())
        await database.keeper.wait_built()
        await workload.set_up(database)
        await database.committer.drain()  # a weak read at another node does not wait for it

    await leader.process.start(set_up())


async def _all(work: Any) -> None:
    """Wait until all are done; the first failure cancels the others."""
    async with asyncio.TaskGroup() as group:
        for coroutine in work:
            group.create_task(coroutine)


async def _resolve(cluster: Cluster, journal: Journal) -> None:
    """Repeat every request of unknown outcome: now the database must report the outcome."""
    for key, request in list(journal.unresolved.items()):
        try:
            result = await cluster.ask(lambda db, request=request: db.transact(request))
        except (Unavailable, OutcomeUnknown):
            raise
        except HornbeamError:  # it has no effect, and can have none any more
            journal.refused.add(key)
        else:
            journal.acknowledged[key] = result
        del journal.unresolved[key]
    if cluster.chaos.fired[Fault.REQUEST_TWICE] or journal.counts["unknown"]:
        await _find_late_copies(cluster, journal)


async def _find_late_copies(cluster: Cluster, journal: Journal) -> None:
    """Find late commits of refused requests: another copy of a request, from the network or from a
    client's retry, may commit after a refusal."""
    for key in sorted(journal.refused):
        done = await cluster.ask(lambda db, key=key: db.outcome(transaction_id_for(key)))
        if done is not None:
            journal.refused.remove(key)
            journal.acknowledged[key] = done.answer


def _stuck(database: Database) -> str:
    """Locks and transactions that are left although no client sends requests."""
    locks, manager = database.locks, database.manager
    found = {
        "locks are held": locks.held_count,
        "a transaction waits for a lock": locks.waiting_count,
        "ranges are guarded": locks.guard_count,
        "transactions are in doubt": manager.unfinished,
        "a transaction has not ended": manager.gate.inside,
    }
    return ", ".join(what for what, there in found.items() if there)


async def require_nothing_stuck(cluster: Cluster) -> None:
    """Check that soon after the last fault no node that serves holds a lock or has an unfinished
    transaction, and that no watermark falls or stands still.

    An idle node reserves no timestamps, so its watermark moves only when a read asks for a later
    one. A clock that was set back is waited for: a read may not ask for a time far ahead of it.
    """
    await asyncio.sleep(SETTLED_S)
    databases = [node.database for node in cluster.serving]
    if any(map(_stuck, databases)):
        await asyncio.sleep(STUCK_AFTER_S - SETTLED_S)
    assert not any(map(_stuck, databases)), [_stuck(database) for database in databases]
    before = [database.watermark() for database in databases]
    await asyncio.sleep(1)
    assert all(
        database.watermark() >= ts for database, ts in zip(databases, before, strict=True)
    ), "a watermark has fallen"
    later = max(before, default=0) + 1
    ahead_ms = max((later - node.clock.wall_ms() for node in cluster.serving), default=0)
    await asyncio.sleep(max(ahead_ms, 0) / 1000)
    for node in cluster.serving:
        reached = await node.process.start(node.database.snapshots.read_point(later))
        assert reached >= later, "a watermark stands still"
