"""Subscribers of relations and views, while nodes crash, freeze and are replaced.

The transactions are those of `workload_totals`, and views come and go as there, or are live views
as in `workload_live`. Each client follows some names. It subscribes at any node, takes the changes
of some time, and goes on later at another node after its last moment. At its last moment it has
exactly the rows that a query reads there: no change is missing, and none came twice.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from hornbeam_server.node.database import Database
from hornbeam_server.node.subscriptions.subscriptions import Subscription
from hornbeam_server.schema.errors import (
    Corruption,
    HornbeamError,
    NotFound,
    SnapshotTooOld,
    Unavailable,
)
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.simulated.chaos import Fault
from tests.sim.simulation import Client, Journal
from tests.sim.workload_deferred import SELECTS as LIVE
from tests.sim.workload_deferred import TIMED
from tests.sim.workload_live import Live
from tests.sim.workload_totals import SELECTS, Totals

RATE = 0.2
"""The share of steps in which a client follows."""
RELATIONS = ("sale", "shop", "product")
LASTS_S = 3.0
CHECK_S = 12.0
"""Longer than a tail waits until it advances without changes."""
TRIES = 10


@dataclass
class Followed:
    """A subscriber's rows at its last moment; None: it begins with all rows."""

    moment: int | None = None
    rows: Counter[Row] = field(default_factory=Counter)


class _Work:
    """Follows one name at a node for some time. Its result is what the subscriber then has."""

    def __init__(self, name: str, before: Followed, lasts_s: float) -> None:
        self._name = name
        self._before = before
        self._lasts_s = lasts_s

    async def __call__(self, database: Database) -> tuple[Followed, list[Row] | None]:
        name, found = self._name, Followed(self._before.moment, Counter(self._before.rows))
        async with database.subscriptions.open(name, moment=found.moment) as subscription:
            if found.moment is None:
                async with aclosing(subscription.rows()) as batches:
                    async for batch in batches:
                        found.rows.update(map(subscription.shown, batch))
            found.moment = subscription.moment
            await _take(subscription, found, self._lasts_s)
        try:
            rows = await database.fetch(f"SELECT * FROM {name}", snapshot=found.moment)
        except HornbeamError:
            rows = None  # the moment cannot be read any more, or not here
        return found, rows


async def _take(subscription: Subscription, found: Followed, lasts_s: float) -> None:
    """Take the changes of some time."""
    end = asyncio.get_running_loop().time() + lasts_s
    while (left_s := end - asyncio.get_running_loop().time()) > 0:
        try:
            async with asyncio.timeout(left_s):
                step = await subscription.next()
        except TimeoutError:
            found.moment = subscription.reached
            return
        assert step.moment > found.moment, "moments rise"
        found.moment = step.moment
        for change in step.changes:
            for row, weight in ((change.before, -1), (change.after, 1)):
                if row is not None:
                    found.rows[subscription.shown(row)] += weight
                    assert found.rows[subscription.shown(row)] >= 0, "a deleted row was there"


class _Following:
    """Clients follow `names`. It is mixed into a workload."""

    names: tuple[str, ...]

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._followed: dict[tuple[str, str], Followed] = {}
        self._may_be_damaged = False
        """Do bits flip in this run? A log that is damaged ends subscriptions with an error."""

    async def step(self, client: Client) -> None:
        if client.name != "c0" and client.random.random() < RATE:
            await self._follow(client)
        else:
            await super().step(client)

    async def _follow(self, client: Client) -> None:
        self._may_be_damaged = Fault.BIT_FLIP in client._cluster.chaos.profile.every_s
        key = client.name, client.random.choice(self.names)
        before, lasts_s = self._followed.get(key, Followed()), client.random.uniform(0, LASTS_S)
        try:
            work = _Work(key[1], before, lasts_s)
            answer = await client.ask_persistently("follow", self._or_lost(work))
        except (SnapshotTooOld, NotFound):
            answer = None
        if answer is None:
            return
        found, rows = answer
        if found is None:
            self._followed.pop(key, None)
            client.journal.counts["followed from the beginning"] += 1
            return
        self._followed[key] = found
        client.journal.counts["followed"] += 1
        client.journal.counts["followed on"] += before.moment is not None
        require_equal(key[1], found, rows)

    async def check(self, database: Database, journal: Journal) -> None:
        await super().check(database, journal)
        for (_, name), before in self._followed.items():
            found, rows = await self._followed_on(database, name, before)
            if found is not None:
                assert rows is not None, f"{name} cannot be read at {found.moment}"
                require_equal(name, found, rows)
                assert found.moment >= journal.newest or name in LIVE or name in TIMED, name

    async def _followed_on(self, database: Database, name: str, before: Followed):
        """The result of `_or_lost`. A log may be cut while it is read, also without faults."""
        for _ in range(TRIES):
            with suppress(Unavailable):
                return await self._or_lost(_Work(name, before, CHECK_S))(database)
        raise AssertionError(f"{name} cannot be followed")

    def _or_lost(self, work: _Work):
        """`work`; (None, None) if the subscriber must begin with all rows."""

        async def result(database: Database) -> tuple[Followed | None, list[Row] | None]:
            try:
                return await work(database)
            except (SnapshotTooOld, NotFound):
                return None, None
            except Corruption:
                if not self._may_be_damaged:
                    raise
                return None, None

        return result


class FollowedTotals(_Following, Totals):
    names = (*RELATIONS, *SELECTS)


class FollowedLive(_Following, Live):
    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.names = ("sale", *self.selects)


def require_equal(name: str, found: Followed, rows: list[Row] | None) -> None:
    if rows is not None:
        assert +found.rows == Counter(rows), (name, found.moment, +found.rows, rows)
