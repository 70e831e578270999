"""Live views under the oracles of `workload_deferred`, kept by the nodes themselves.

The nodes crash, freeze and are replaced in the middle of their batches. Sometimes a process outside
of the nodes does a batch at the same time, as `hornbeam refresh` does, or a view is rebuilt.

At every snapshot that the group has shown, each view has the rows that its SELECT gives there;
snapshots only grow, and what is begun is finished. In the end the nodes have applied every commit,
and everything is stored as a build would store it.

Half of the readers read tentatively. Their views have the rows of their SELECTs at a snapshot that
holds every commit of which the reader knows; it is not before the group's, which a batch has ended.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from hornbeam_server.node.database import Database
from hornbeam_server.node.live.ahead import Tentative
from hornbeam_server.schema.model import Refresh
from hornbeam_server.schema.types import Row
from tests.sim.simulation import Client, Journal
from tests.sim.workload_deferred import BASE, RETENTION_S, Deferred
from tests.sim.workload_totals import Totals

PATIENCE_S, LOOK_S = 300.0, 0.53
"""After the last fault, the nodes have applied everything within this simulated time. Looks are no
multiple of an interval apart: timed views have a batch in each, and each look would find it."""


class Live(Deferred):
    settings: Mapping[str, Any] = {
        "snapshot_retention_s": RETENTION_S,
        "resident_refresh": True,
        "resident_share_s": 0.0,  # several nodes divide every batch
    }

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.change_rate = 0.0  # that of immediate views
        self.outside_rate = rng.choice([0.0, 0.0, 0.02])
        timed = "recent" in self.selects  # then each interval has a batch
        interval_s = rng.choice([0.25, 1.0] if timed else [0.05, 0.25])
        self.options = {"refresh": Refresh.LIVE, "interval_s": interval_s}

    async def step(self, client: Client) -> None:
        refresher, draw = self._refresher(client), client.random
        if client.name == "c0" and draw.random() < self.rebuild_rate / 5:
            await client.change(refresher.rebuild(draw.choice(list(self.selects))))
        elif client.name == "c1" and draw.random() < self.outside_rate:
            await refresher.refresh(draw)
        else:
            await Totals.step(self, client)

    async def _read(self, client: Client) -> None:
        if client.random.random() < 0.5:
            await super()._read(client)
        else:
            await self._read_tentatively(client)

    async def _read_tentatively(self, client: Client) -> None:
        refresher, bookmark = self._refresher(client), client.bookmark
        names = client.random.sample(list(self.selects), 2)
        reading = _Tentatively(names, bookmark)
        answer = await client.ask_persistently("tentative", reading)
        if answer is None:
            return
        at, label, found = answer
        refresher.look()
        assert label.as_of in refresher.oracle.shown, f"{label.as_of} is the end of no batch"
        if label.reason:
            assert at == label.as_of, f"{at} is not stored: {label}"
            client.journal.counts["answered as stored"] += 1
        else:
            assert at >= max(bookmark, label.as_of), f"{at} is before {bookmark} or {label}"
            client.bookmark = max(client.bookmark, at)
            client.journal.counts["tentative reads"] += 1
            client.journal.counts["reads ahead of batches"] += at > label.as_of
        views, base = found[: len(names)], found[len(names) :]
        self._verify(at, *base, dict(zip(names, views, strict=True)))

    async def check(self, database: Database, journal: Journal) -> None:
        refresher = self.refresher
        assert refresher is not None
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while not await self._is_done(database, journal):
            assert asyncio.get_running_loop().time() < end, refresher.oracle.state
            await asyncio.sleep(LOOK_S)
            refresher.look()
        journal.counts["batches of nodes"] += len(refresher.oracle.shown)
        await refresher.oracle.check_stored(database.catalog)
        report = await database.verify()
        assert report.differences == 0, [item for item in report.checked if item.differences]

    async def _is_done(self, database: Database, journal: Journal) -> bool:
        assert self.refresher is not None
        state, catalog = self.refresher.oracle.state, database.catalog
        whole = all(catalog.readable(n) and state.holds(catalog, n) for n in self.selects)
        return whole and state.batch is None and state.as_of >= journal.newest


class _Tentatively:
    """A tentative read of views, and of all base relations at the same snapshot."""

    def __init__(self, names: list[str], bookmark: int) -> None:
        self._names = names
        self._bookmark = bookmark

    async def __call__(self, database: Database) -> tuple[int, Tentative, list[list[Row]]]:
        at: int | None = None
        label: Tentative | None = None
        found: list[list[Row]] = []
        for query in (*(f"SELECT * FROM {name}" for name in self._names), *BASE):
            bookmark = self._bookmark if at is None else 0
            async with database.query(
                query, bookmark=bookmark, snapshot=at, tentative=True
            ) as result:
                at, label = result.snapshot, label or result.tentative
                found.append(list(await result.stream.all()))
        assert at is not None
        assert label is not None
        return at, label, found
