"""Deferred views under CloudTPS's sum and divisibility oracles, kept by batches during faults.

The transactions are those of `workload_totals`. Eight views cover what a delta program has: sums
and extrema by group after deletes, a sum without GROUP BY, a join without one, an anti-join, a
condition on groups, a comparison with the value of a subquery, a join without an equality, and a
recursion over sales as edges from shops to products, whose numbers overlap, so there are cycles.
In half of the runs there are two timed views: rows of one leave seconds after their sale, those of
the other enter and leave, and the current time is that of the views' snapshot.

One client refreshes the views batch after batch, in processes that crash and freeze
(`refresher.py`); sometimes another client does so at the same time. In some runs views are rebuilt
during batches, or a batch is begun and left alone until nothing but the group itself keeps its
inputs.

Readers read views and base relations at the views' snapshot: it is one that a batch has finished,
it never goes back for a client, all totals are divisible, and all views are what the sales of the
snapshot give.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hornbeam_server.maintain.deltas.program import compile_view
from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.model import DeclaredView
from hornbeam_server.schema.types import Row
from hornbeam_server.schema.views import DeferredView
from hornbeam_server.storage.snapshot import ReadItem
from tests.sim.refresher import Refresher
from tests.sim.simulation import Client, Journal
from tests.sim.workload_totals import BASE as OF_TOTALS
from tests.sim.workload_totals import TABLES as TABLES_OF_TOTALS
from tests.sim.workload_totals import Totals, sums
from tests.txlayer.database_world import catalog_of

RETENTION_S = 90.0
"""Half of it is longer than a process may go on with its batch by a wrong clock."""
SELECTS = {
    "everything": "SELECT count(*) AS n, sum(e_value) AS total FROM sale",
    "by_region": "SELECT s_region, count(*) AS n, sum(e_value) AS total, min(e_value) AS low,"
    " max(e_value) AS high FROM sale JOIN shop ON e_s_id = s_id GROUP BY s_region",
    "dear": "SELECT e_s_id, e_by, e_no, e_value, s_region FROM sale JOIN shop ON e_s_id = s_id"
    " WHERE e_value > 0",
    "unsold": "SELECT p_id FROM product WHERE NOT EXISTS (SELECT 1 FROM sale WHERE e_p_id = p_id)",
    "busy": "SELECT e_s_id, sum(e_value) AS total FROM sale GROUP BY e_s_id HAVING count(*) > 3",
    "above": "SELECT e_s_id, e_by, e_no FROM sale WHERE e_value > (SELECT min(e_value) FROM sale)",
    "beyond": "SELECT s_id, count(*) AS n, sum(e_value) AS total FROM shop JOIN sale"
    " ON e_value > s_region GROUP BY s_id",
    "reached": "WITH RECURSIVE r (origin, n) AS (SELECT e_s_id, e_p_id FROM sale UNION"
    " SELECT origin, e_p_id FROM r JOIN sale ON e_s_id = n) SELECT origin, n FROM r",
}
TIMED = {
    "recent": "SELECT e_s_id, count(*) AS n, sum(e_value) AS total FROM sale"
    " WHERE e_at > now() - INTERVAL '2 seconds' GROUP BY e_s_id",
    "due": "SELECT e_s_id, e_by, e_no, s_region FROM sale JOIN shop ON e_s_id = s_id"
    " WHERE e_at BETWEEN now() - INTERVAL '6 seconds' AND now() - INTERVAL '1 second'",
}
"""Rows of these views enter and leave without a commit."""
TABLES = TABLES_OF_TOTALS.replace(
    "e_value INTEGER,", "e_value INTEGER, e_at TIMESTAMPTZ DEFAULT now(),"
)
_INDEXES = "CREATE INDEX sale_by_value ON sale (e_value); CREATE INDEX sale_by_time ON sale (e_at);"
BASE = (*OF_TOTALS[:3], "SELECT e_s_id, e_by, e_no, e_p_id, e_value, e_at FROM sale")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def with_deferred(catalog: Catalog, selects: Mapping[str, str], **options: Any) -> Catalog:
    """The catalog with deferred views, by name, which are to be built. `options` are those of
    `DeclaredView`."""
    compiled = replace(catalog, states=tuple((n, State.READABLE) for n, _ in catalog.states))
    views = []
    for name, sql in selects.items():
        declared = DeclaredView(name, sql, **options)
        program = compile_view(declared, compiled)
        stored = (program.relations, program.columns, program.hidden, program.key)
        views.append(DeferredView(declared, *stored, program.states))
    building = tuple((name, State.BUILDING) for name in selects)
    return replace(catalog, deferred=tuple(views), states=(*catalog.states, *building))


class Deferred(Totals):
    oracle = True
    settings: Mapping[str, Any] = {"snapshot_retention_s": RETENTION_S}
    options: Mapping[str, Any] = {}
    """Those of the views."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.pause_s = rng.choice([0.001, 0.05, 0.5])
        self.rebuild_rate = rng.choice([0.0, 0.0, 0.05, 0.3])
        self.left_alone = rng.random() < 0.15
        """Whether a batch is left alone, once, for longer than everything is kept."""
        self.selects = SELECTS | (TIMED if rng.random() < 0.5 else {})
        self.refresher: Refresher | None = None
        self._last: Counter[str] = Counter()
        """By client, the newest snapshot of the views that it has read."""

    def catalog(self) -> Catalog:
        relations = catalog_of(load_ddl(TABLES + _INDEXES), views=[])
        return with_deferred(relations, self.selects, **self.options)

    # ------------------------------------------------------------ batches

    async def step(self, client: Client) -> None:
        refresher = self._refresher(client)
        if client.name == "c0":
            await self._keep(client, refresher)
        elif client.name == "c1" and client.random.random() < 0.05:
            await refresher.refresh(client.random)
        else:
            await super().step(client)

    def _refresher(self, client: Client) -> Refresher:
        if self.refresher is None:
            counts = client.journal.counts
            self.refresher = Refresher(client._cluster, self._views, counts)
        return self.refresher

    async def _keep(self, client: Client, refresher: Refresher) -> None:
        draw = client.random
        await asyncio.sleep(draw.expovariate(1 / self.pause_s))
        if self.left_alone and client.journal.counts["batches"] > 3:
            self.left_alone = False
            await refresher.begin_only()
            await asyncio.sleep(1.5 * RETENTION_S)
        elif draw.random() < self.rebuild_rate:
            await client.change(refresher.rebuild(draw.choice(list(self.selects))))
        else:
            await refresher.refresh(draw)

    # ------------------------------------------------------------ invariants

    async def _read(self, client: Client) -> None:
        refresher = self._refresher(client)
        names = client.random.sample(list(self.selects), 2)
        answer = await client.ask_persistently("read", _Reading(names))
        if answer is None:
            return
        at, found, reads = answer
        refresher.look()
        assert at in refresher.oracle.shown, f"{at} is the end of no batch"
        assert at >= self._last[client.name], "the views' snapshot has gone back"
        self._last[client.name] = at
        client.journal.counts["reads"] += 1
        client.journal.seen.append((at, reads))
        views, base = found[: len(names)], found[len(names) :]
        self._verify(at, *base, dict(zip(names, views, strict=True)))

    async def _read_by_key(self, client: Client) -> None:
        await self._read(client)

    def _verify(
        self,
        at: int,
        shops: list[Row],
        kinds: list[Row],
        products: list[Row],
        sales: list[Row],
        views: Mapping[str, list[Row]],
    ) -> None:
        base = {"shop": shops, "kind": kinds, "product": products, "sale": sales}
        expected = self._views(at, base)
        for name, rows in views.items():
            assert Counter(rows) == Counter(expected[name]), (name, rows, expected[name])

    def _views(self, at: int, base: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
        """The rows of all views over the rows of the relations at snapshot `at`, from their
        definitions."""
        present = [sale[4] for sale in base["sale"] if sale[4] is not None]
        assert all(value % self.divisor == 0 for value in present)
        return _following_changes(base) | _following_time(at, base)

    async def check(self, database: Database, journal: Journal) -> None:
        assert self.refresher is not None
        await self.refresher.check(database, journal.newest)
        report = await database.verify()
        assert report.differences == 0, [item for item in report.checked if item.differences]


class _Reading:
    """A read of views, and of all base relations at the same snapshot."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    async def __call__(self, database: Database) -> tuple[int, list[list[Row]], list[ReadItem]]:
        at: int | None = None
        found: list[list[Row]] = []
        reads: list[ReadItem] = []
        for query in (*(f"SELECT * FROM {name}" for name in self._names), *BASE):
            async with database.query(query, snapshot=at, trace=True) as result:
                at = result.snapshot
                found.append(list(await result.stream.all()))
                reads += result.reads or ()
        assert at is not None
        return at, found, reads


def _extrema(values: list[int | None]) -> tuple[int | None, int | None]:
    present = [value for value in values if value is not None]
    return min(present, default=None), max(present, default=None)


def _following_changes(base: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
    """The rows of the views `SELECTS`."""
    region, sales = dict(base["shop"]), base["sale"]
    by_region: dict[Any, list[Any]] = defaultdict(list)
    by_shop: dict[Any, list[Any]] = defaultdict(list)
    for shop, _, _, _, value, _ in sales:
        by_region[region[shop]].append(value)
        by_shop[shop].append(value)
    present = [sale[4] for sale in sales if sale[4] is not None]
    sold = {sale[3] for sale in sales}
    return {
        "everything": [sums(sale[4] for sale in sales)],
        "by_region": [
            (name, *sums(values), *_extrema(values)) for name, values in by_region.items()
        ],
        "dear": [
            (shop, by, number, value, region[shop])
            for shop, by, number, _, value, _ in sales
            if value is not None and value > 0
        ],
        "unsold": [(product,) for product, _ in base["product"] if product not in sold],
        "busy": [(k, sums(values)[1]) for k, values in by_shop.items() if len(values) > 3],
        "above": [sale[:3] for sale in sales if sale[4] is not None and sale[4] > min(present)],
        "beyond": [
            (shop, *sums(values))
            for shop, name in base["shop"]
            if (values := [v for v in present if name is not None and v > name])
        ],
        "reached": [*_reached({(sale[0], sale[3]) for sale in sales})],
    }


def _reached(edges: set[Row]) -> set[Row]:
    """The pairs of numbers of which the second is reached from the first."""
    found, new = set(edges), set(edges)
    while new:
        new = {(a, d) for a, b in new for c, d in edges if b == c} - found
        found |= new
    return found


def _following_time(at: int, base: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
    """The rows of the views `TIMED`. Snapshot `at` counts milliseconds since 1970."""
    now, region = _EPOCH + dt.timedelta(milliseconds=at), dict(base["shop"])
    recent: dict[Any, list[Any]] = defaultdict(list)
    due: list[Row] = []
    for shop, by, number, _, value, sold_at in base["sale"]:
        age_s = (now - sold_at).total_seconds()
        if age_s < 2:
            recent[shop].append(value)
        if 1 <= age_s <= 6:
            due.append((shop, by, number, region[shop]))
    return {"recent": [(shop, *sums(values)) for shop, values in recent.items()], "due": due}
