"""Live views under the oracles of `workload_deferred`, kept by the nodes themselves.

The nodes crash, freeze and are replaced in the middle of their batches. Sometimes a process outside
of the nodes does a batch at the same time, as `hornbeam refresh` does, or a view is rebuilt.

At every snapshot that the group has shown, each view has the rows that its SELECT gives there;
snapshots only grow, and what is begun is finished. In the end the nodes have applied every commit,
and everything is stored as a build would store it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import Refresh
from tests.sim.simulation import Client, Journal
from tests.sim.workload_deferred import RETENTION_S, SELECTS, Deferred
from tests.sim.workload_totals import Totals

PATIENCE_S, LOOK_S = 300.0, 0.5
"""After the last fault, the nodes have applied everything within this simulated time."""


class Live(Deferred):
    settings: Mapping[str, Any] = {"snapshot_retention_s": RETENTION_S, "resident_refresh": True}

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.change_rate = 0.0  # that of immediate views
        self.outside_rate = rng.choice([0.0, 0.0, 0.02])
        self.interval_s = rng.choice([0.05, 0.25])

    def catalog(self) -> Catalog:
        catalog = super().catalog()
        live = [
            replace(view.declared, refresh=Refresh.LIVE, interval_s=self.interval_s)
            for view in catalog.deferred
        ]
        views = zip(catalog.deferred, live, strict=True)
        return replace(catalog, deferred=tuple(replace(v, declared=d) for v, d in views))

    async def step(self, client: Client) -> None:
        refresher, draw = self._refresher(client), client.random
        if client.name == "c0" and draw.random() < self.rebuild_rate / 5:
            await client.change(refresher.rebuild(draw.choice(list(SELECTS))))
        elif client.name == "c1" and draw.random() < self.outside_rate:
            await refresher.refresh(draw)
        else:
            await Totals.step(self, client)

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
        whole = all(catalog.readable(n) and state.holds(catalog, n) for n in SELECTS)
        return whole and state.batch is None and state.as_of >= journal.newest
