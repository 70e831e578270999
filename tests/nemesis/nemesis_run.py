"""A round: clients at work, one fault, healing, and the verdict."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from bench.served import client_url
from hornbeam.cli.csvtext import csv_line
from hornbeam.errors import Error, from_problem
from hornbeam.transport import Transport, open_transport, parse_url, persistently
from hornbeam_server.schema.errors import Unavailable
from tests.nemesis.nemesis_clients import Client, GivenUp, Journal, Refused, Statement
from tests.nemesis.nemesis_faults import FAULTS, Fault
from tests.nemesis.nemesis_kinds import KINDS, SHARES
from tests.nemesis.nemesis_workloads import Workload, seeded
from tests.nemesis.nemesis_world import START_S, Stuck, World

BEFORE_S, AFTER_S = 3.0, 4.0
THINK_S = 0.03
POLL_S = 0.2
PATIENCE_S = 300.0
"""Long enough for a schema of many tables."""
STUCK_S = 60.0
"""The maximum time after healing until locks are free, nodes settle and roots accept writes."""


@dataclass
class Verdict:
    """The findings of a round. Counted from the strike, `outage_s` is the longest time without an
    acknowledged write, and `recovery_s`, where nodes are taken away, the time until every root had
    an owner again. `live_lag_s` is the longest time until a subscriber of a live view had an
    acknowledged write."""

    fault: str
    seed: int
    acknowledged: int
    reads: int
    refused: int
    failed: int
    outage_s: float
    differences: int
    recovery_s: float | None = None
    live_lag_s: float | None = None
    lost: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Processes that ended by themselves; they are started again."""
    complaints: list[str] = field(default_factory=list)
    """The first errors of failed requests."""

    @property
    def sound(self) -> bool:
        return not (self.lost or self.torn or self.stuck or self.differences)


class Database:
    """Requests to the database beside the clients' work."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._transport: Transport = open_transport(parse_url(client_url(addresses)), PATIENCE_S)
        self._each = [
            open_transport(parse_url(client_url([each])), PATIENCE_S) for each in addresses
        ]

    def prepare(self, kinds: Sequence[str]) -> None:
        """Create the schema, the views and the first rows. The views that the workloads use must be
        planned."""
        classes = [KINDS[kind] for kind in kinds]
        body = {
            "ddl": "\n".join(each.ddl for each in classes),
            "workload": "\n".join(each.queries for each in classes),
            "roots": [root for each in classes for root in each.roots],
        }
        plan = persistently(lambda: self._transport.json("POST", "/v1/schema/plan", body))
        chosen = body | {"plan_id": plan["plan_id"]}
        persistently(lambda: self._transport.json("POST", "/v1/schema/apply", chosen))
        self._await_built()
        views = self._transport.json("GET", "/v1/schema")["views"]
        missing = {"account__page", "list__tag", "node__cursor"} - {v["name"] for v in views}
        assert not missing, f"the plan has no view {missing}"
        for each in classes:
            for relation, rows in each.rows().items():
                self._load(relation, rows)

    def _await_built(self) -> None:
        give_up = time.monotonic() + START_S
        while not self._is_built():
            assert time.monotonic() < give_up, "views are not built"
            time.sleep(POLL_S)

    def _is_built(self) -> bool:
        builds = [build for each in self._statuses() for build in each["builds"]]
        groups = persistently(lambda: self._transport.json("GET", "/v1/groups"))
        return all(build["finished"] for build in builds) and all(
            len(group["readable"]) == len(group["views"]) for group in groups
        )

    def _load(self, relation: str, rows: Sequence[Sequence[Any]]) -> None:
        relations = self._transport.json("GET", "/v1/schema")["relations"]
        (columns,) = [each["columns"] for each in relations if each["name"] == relation]
        text = csv_line([column["name"] for column in columns]) + "".join(map(csv_line, rows))
        headers = {"Content-Type": "text/csv", "Idempotency-Key": f"load {relation}"}
        persistently(lambda: self._transport.post(f"/v1/load/{relation}", text.encode(), headers))

    def _statuses(self) -> list[dict[str, Any]]:
        """The status of every node."""
        return [persistently(partial(node.json, "GET", "/v1/status")) for node in self._each]

    def differences(self) -> int:
        def verify() -> int:
            with self._transport.stream("/v1/verify", {}) as response:
                *_, last = map(json.loads, response.lines())
            if "error" in last:
                raise from_problem(last["error"])
            return int(last["report"]["differences"])

        return persistently(verify)

    def stuck(self, touched: Sequence[Statement], healed: float) -> list[str]:
        """The locks, roots and nodes that have not recovered within STUCK_S."""
        try:
            held = self._held(healed + STUCK_S)
            newest, found = self._touch(touched)
            return held + found + self._behind(newest)
        except Error as error:
            return [f"a node does not answer: {error.code}: {error}"]

    def _held(self, deadline: float) -> list[str]:
        def held() -> list[str]:
            return [str(each["locks"]) for each in self._statuses() if each["locks"]["held"]]

        return [f"locks are held: {held()}"] if not _before(deadline, lambda: not held()) else []

    def _touch(self, touched: Sequence[Statement]) -> tuple[int, list[str]]:
        """Write to every root, through all nodes in turn. Returns the last commit, and the
        failures."""
        newest, found = 0, []
        for (sql, parameters), node in zip(touched, itertools.cycle(self._each)):
            statement = {"sql": sql, "parameters": list(parameters)}
            body = {"statements": [statement], "timeout_ms": 10_000}
            try:
                reported = persistently(partial(node.json, "POST", "/v1/transactions", body))
            except Error as error:
                found.append(f"{sql} {parameters}: {error.code}")
            else:
                # A transaction without changes is no commit: its timestamp is above all commits
                # that it read.
                newest = max(newest, reported["commit_ts"] if reported["affected"] else 0)
        return newest, found

    def _behind(self, newest: int) -> list[str]:
        """Nodes whose strong reads do not include this acknowledged commit."""
        body = {"sql": "SELECT COUNT(*) FROM account", "consistency": "strong"}
        found = []
        for number, node in enumerate(self._each, 1):
            at = persistently(partial(node.json, "POST", "/v1/query", body))["snapshot"]
            if at < newest:
                found.append(f"node {number} reads at {at}, before {newest}")
        return found

    def close(self) -> None:
        for transport in (self._transport, *self._each):
            transport.close()


def _before(deadline: float, holds: Any) -> bool:
    while True:
        if holds():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)


class Round:
    """One fault under load. `number` is unique in a world; `seed` determines all that is drawn."""

    def __init__(
        self, world: World, database: Database, kinds: Sequence[str], number: int, seed: int
    ) -> None:
        self._world = world
        self._database = database
        self._seed = seed
        self._workloads: dict[str, Workload] = {kind: KINDS[kind](number) for kind in kinds}
        self._journals = {kind: Journal() for kind in kinds}
        self._pool = ThreadPoolExecutor(sum(SHARES.values()) + 4)
        self._over = asyncio.Event()
        self._working: list[asyncio.Future[None]] = []
        self._clients = {
            kind: [
                Client(
                    f"{kind}-{number}-{n}",
                    client_url(world.addresses, n),
                    self._journals[kind],
                    seeded((seed, kind, n)),
                    self._pool,
                )
                for n in range(SHARES[kind])
            ]
            for kind in kinds
        }

    async def run(self, fault: str) -> Verdict:
        try:
            return await self._run(fault)
        finally:
            self._over.set()
            await asyncio.gather(*self._working, return_exceptions=True)
            for clients in self._clients.values():
                for client in clients:
                    client.close()
            self._pool.shutdown(wait=False)

    async def _run(self, name: str) -> Verdict:
        fault, rng = FAULTS[name](), random.Random(f"{self._seed}/{name}")
        for kind, workload in self._workloads.items():
            await workload.begin(self._clients[kind][0])
        self._working = [
            asyncio.ensure_future(self._work(self._workloads[kind], client))
            for kind, clients in self._clients.items()
            for client in clients
        ]
        await asyncio.sleep(BEFORE_S)
        struck = time.monotonic()
        stuck = await self._struck_and_healed(fault, rng)
        healed = time.monotonic()
        late, ended = await self._await_settled(healed)
        late += await self._await_writes(healed)
        await asyncio.sleep(AFTER_S)
        self._over.set()
        over = time.monotonic()
        await asyncio.gather(*self._working)
        verdict = self._verdict(name, self._outage(struck, over))
        if fault.taken_over is not None:
            verdict.recovery_s = round(fault.taken_over - struck, 2)
        verdict.stuck = stuck + late
        verdict.ended = ended + await asyncio.to_thread(self._world.revive)
        if fault.silent and verdict.failed:
            verdict.stuck.append(f"{verdict.failed} requests failed: {verdict.complaints[:3]}")
        await self._judge(verdict, healed)
        return verdict

    async def _struck_and_healed(self, fault: Fault, rng: random.Random) -> list[str]:
        """Strike and heal; return the parts of the fault that failed."""
        stuck = []
        try:
            await asyncio.to_thread(fault.strike, self._world, rng)
            await asyncio.sleep(fault.hold_s)
        except (Stuck, subprocess.TimeoutExpired) as error:
            stuck.append(f"while it struck: {error}")
        try:
            await asyncio.to_thread(fault.heal, self._world)
        except (Stuck, Unavailable, subprocess.TimeoutExpired) as error:
            stuck.append(f"while it healed: {error}")
        return stuck

    async def _work(self, workload: Workload, client: Client) -> None:
        while not self._over.is_set():
            try:
                await workload.step(client)
            except Refused:
                client.journal.counts["refused"] += 1
            except AssertionError as error:
                client.journal.torn.append(f"{client.name}: {error}")
            await asyncio.sleep(client.random.uniform(0, 2 * THINK_S))

    def _written_at(self) -> list[float]:
        return sorted(t for journal in self._journals.values() for t in journal.written_at)

    async def _await_settled(self, healed: float) -> tuple[list[str], list[str]]:
        """Wait until all nodes serve and own all slots. Returns the failures, and the processes
        that had ended."""
        ended: list[str] = []
        while not await asyncio.to_thread(self._world.is_settled):
            ended += await asyncio.to_thread(self._world.revive)
            if time.monotonic() > healed + STUCK_S:
                return [f"the nodes do not settle in {STUCK_S:g} s"], ended
            await asyncio.sleep(POLL_S)
        return [], ended

    async def _await_writes(self, healed: float) -> list[str]:
        """Wait until each workload writes again. Returns the workloads that do not."""
        late: list[str] = []
        for kind, journal in self._journals.items():
            while not (journal.written_at and journal.written_at[-1] > healed):
                if time.monotonic() > healed + STUCK_S:
                    late.append(f"no write of {kind} in {STUCK_S:g} s")
                    break
                await asyncio.sleep(POLL_S)
        return late

    def _outage(self, struck: float, over: float) -> float:
        moments = [struck, *(t for t in self._written_at() if struck < t < over), over]
        return max(later - earlier for earlier, later in pairwise(moments))

    def _verdict(self, fault: str, outage_s: float) -> Verdict:
        journals = self._journals.values()
        complaints = [words for journal in journals for words in journal.failed]
        return Verdict(
            fault,
            self._seed,
            acknowledged=sum(len(journal.acknowledged) for journal in journals),
            reads=sum(journal.counts["reads"] for journal in journals),
            refused=sum(journal.counts["refused"] for journal in journals),
            failed=len(complaints),
            outage_s=round(outage_s, 2),
            differences=0,
            torn=[words for journal in journals for words in journal.torn],
            complaints=complaints[:5],
        )

    async def _judge(self, verdict: Verdict, healed: float) -> None:
        for kind, workload in self._workloads.items():
            client = self._clients[kind][0]
            try:
                await client.resolve(healed + 2 * STUCK_S)
                findings = await workload.judge(client)
            except GivenUp as error:
                verdict.stuck.append(f"{kind}: {error}")
            except AssertionError as error:
                verdict.torn.append(f"{kind} in the end: {error}")
            else:
                if findings.live_lag_s is not None:
                    verdict.live_lag_s = findings.live_lag_s
                verdict.lost += findings.lost
                verdict.torn += findings.torn
        touched = [s for workload in self._workloads.values() for s in workload.touch()]
        verdict.stuck += await asyncio.to_thread(self._database.stuck, touched, healed)
        verdict.differences = await asyncio.to_thread(self._database.differences)


def as_line(verdict: Verdict) -> str:
    return json.dumps(asdict(verdict))


def from_line(line: str) -> Verdict:
    return Verdict(**json.loads(line))
