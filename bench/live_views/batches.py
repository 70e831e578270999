"""Processor time of batches of a live view, by the kind of the view, the number of its groups, and
the skew of its keys: the evaluation of VMS, in one process over the embedded store.

All views are over one relation of facts, and each is a group of its own. In each round transactions
insert, update and delete facts. Then each view is brought up to date by one batch, one after the
other. After the last round each view is compared with its SELECT.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.measure import Figure
from bench.peers.contention import Zipf
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.types import Row
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest

GROUPS = (2, 100, 10_000, 100_000)
SKEWED = {"z6": 0.6, "z12": 1.2}
"""The skews of the keys in these columns."""
SKEWED_KEYS = 10_000
PLACES, REGIONS = 2_000, 50
STATEMENTS = 200
"""Of a transaction."""
COLUMNS = ("id", "place", "v", *(f"g{count}" for count in GROUPS), *SKEWED)
SCHEMA = f"""
CREATE TABLE place (p_id INTEGER PRIMARY KEY, region INTEGER NOT NULL);
CREATE TABLE fact (id INTEGER PRIMARY KEY, place INTEGER NOT NULL REFERENCES place (p_id),
  {", ".join(f"{name} INTEGER NOT NULL" for name in COLUMNS[2:])});
"""
JOIN = "fact JOIN place ON p_id = place"
KINDS = {
    "selection of a half": "SELECT id, v FROM fact WHERE v < 500",
    "join": f"SELECT id, v, region FROM {JOIN}",
    "count, 100 groups": "SELECT g100, count(*) AS n FROM fact GROUP BY g100",
    "sum, 100 groups": "SELECT g100, sum(v) AS total FROM fact GROUP BY g100",
    "min, 100 groups": "SELECT g100, min(v) AS low FROM fact GROUP BY g100",
    "sum over a join": f"SELECT region, sum(v) AS total FROM {JOIN} GROUP BY region",
    **{
        f"sum, {count:,} groups": f"SELECT g{count}, sum(v) AS total FROM fact GROUP BY g{count}"
        for count in GROUPS
        if count != 100
    },
    **{
        f"{kind}, {SKEWED_KEYS:,} groups, skew {skew:g}": (
            f"SELECT {column}, {kind}(v) AS x FROM fact GROUP BY {column}"
        )
        for kind in ("sum", "min")
        for column, skew in SKEWED.items()
    },
}
"""The SELECT of each view, by its title."""
VIEWS = {title: f"v{number}" for number, title in enumerate(KINDS)}
GOALS = {"sum over a join": 20_000}
"""Changed rows a second, of one core."""


class Wrong(AssertionError):
    """A view differs from its SELECT."""


@dataclass
class Facts:
    """The facts that are stored, and random changes of them."""

    random: random.Random
    next: int = 0
    ids: list[int] = field(default_factory=list)
    skewed: list[Zipf] = field(
        default_factory=lambda: [Zipf(SKEWED_KEYS, skew) for skew in SKEWED.values()]
    )

    def new(self) -> Row:
        self.next += 1
        self.ids.append(self.next)
        draw = self.random.randrange
        skewed = (keys.draw(self.random) for keys in self.skewed)
        return (self.next, draw(PLACES), draw(1_000), *map(draw, GROUPS), *skewed)

    def changes(self, count: int) -> Iterator[Statement]:
        """Half of them insert; a quarter updates, and a quarter deletes."""
        insert = f"INSERT INTO fact VALUES ({', '.join('?' * len(COLUMNS))})"
        for number in range(count):
            if number % 2 == 0:
                yield Statement(insert, self.new())
                continue
            place = self.random.randrange(len(self.ids))
            if number % 4 == 1:
                value = self.random.randrange(1_000)
                yield Statement("UPDATE fact SET v = ? WHERE id = ?", (value, self.ids[place]))
                continue
            self.ids[place], last = self.ids[-1], self.ids[place]
            self.ids.pop()
            yield Statement("DELETE FROM fact WHERE id = ?", (last,))


def ddl() -> str:
    return SCHEMA + "".join(
        f"CREATE MATERIALIZED VIEW {VIEWS[title]}"
        f" WITH (refresh = 'live', interval = '1 h', \"group\" = '{VIEWS[title]}') AS {select};\n"
        for title, select in KINDS.items()
    )


async def batches(folder: Path, facts: int, changes: int, rounds: int) -> list[Figure]:
    """Changed rows a second of one core, by view. `facts`: rows at the beginning. `changes`: rows
    that are changed in a round. Raises Wrong."""
    settings = Settings(data=folder, resident_refresh=True, resident_rows=1 << 40)
    async with await Database.open(settings) as database:
        await database.keeper.apply(database.plan_schema(PlanRequest(ddl())).catalog)
        await database.keeper.wait_built()
        stored = Facts(random.Random(1))
        await database.load("place", ("p_id", "region"), [(n, n % REGIONS) for n in range(PLACES)])
        await database.load("fact", COLUMNS, [stored.new() for _ in range(facts)])
        rates: dict[str, list[float]] = {title: [] for title in KINDS}
        await _refreshed(database)
        for _ in range(rounds):
            await _write(database, stored, changes)
            for title, seconds in (await _refreshed(database)).items():
                rates[title].append(changes / seconds)
        await _require_right(database)
    return [
        Figure("batches", title, "rows/s", tuple(found), at_least=GOALS.get(title))
        for title, found in rates.items()
    ]


async def _write(database: Database, stored: Facts, count: int) -> None:
    statements = list(stored.changes(count))
    for start in range(0, count, STATEMENTS):
        await database.transact(TransactionRequest(tuple(statements[start : start + STATEMENTS])))


async def _refreshed(database: Database) -> dict[str, float]:
    """The seconds of processor time of each view's batch."""
    taken = {}
    for title, name in VIEWS.items():
        began = time.process_time()
        await database.live.refresh(name)
        taken[title] = time.process_time() - began
    return taken


async def _require_right(database: Database) -> None:
    for title, select in KINDS.items():
        kept = Counter(await database.fetch(f"SELECT * FROM {VIEWS[title]}"))
        if kept != Counter(await database.fetch(select, use_views=False)):
            raise Wrong(f"The view of a {title} differs from its SELECT.")
