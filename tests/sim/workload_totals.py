"""Totals: immediate views under CloudTPS's sum and divisibility oracles.

After P. Nikolov, "Aggregate Queries in NoSQL Cloud Data Stores" (2011), section 6.2. Clients
insert, change and delete sales, each of a multiple of `divisor`. They move shops to other regions
and products to other kinds, and kinds to other classes, which moves the sales below from group to
group: below a shop under its root, below products and kinds across roots. Four views count and add
up the sales: all of them, by shop, by region and by class. There are few groups, so that all
writers add to the same ones. One view also has the minimum, the maximum and the number of values.
Of two further views, one has HAVING and an expression, and one has a row for each sale. Two views
have an index.

Readers check at every snapshot: each total is divisible, and each view equals the sums over the
sales of the snapshot, read whole and by key. Some runs drop views and add them again, so that
builds run beside writers during faults.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from hornbeam_server.maintain.immediate.projected import define_any
from hornbeam_server.maintain.immediate.view_indexes import view_index
from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import ConstraintViolation, StalePlan
from hornbeam_server.schema.views import ImmediateView, ProjectedView
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.txlayer.statements.requests import Statement
from tests.sim.builds import require_built
from tests.sim.simulation import Client, Journal
from tests.txlayer.database_world import catalog_of

REGIONS, KINDS, CLASSES = 3, 3, 2
LIVE_SALES = 6
TABLES = """
CREATE TABLE shop (s_id INTEGER PRIMARY KEY, s_region INTEGER);
CREATE TABLE kind (k_id INTEGER PRIMARY KEY, k_class INTEGER NOT NULL);
CREATE TABLE product (p_id INTEGER PRIMARY KEY, p_k_id INTEGER REFERENCES kind (k_id));
CREATE TABLE sale (
  e_s_id INTEGER REFERENCES shop (s_id), e_by TEXT, e_no INTEGER,
  e_p_id INTEGER REFERENCES product (p_id), e_value INTEGER, PRIMARY KEY (e_s_id, e_by, e_no));
"""
SELECTS = {
    "everything": "SELECT count(*) AS n, sum(e_value) AS total, count(e_value) AS valued FROM sale",
    "by_shop": "SELECT e_s_id, count(*) AS n, sum(e_value) AS total FROM sale GROUP BY e_s_id",
    "by_region": "SELECT s_region, count(*) AS n, sum(e_value) AS total, min(e_value) AS low,"
    " max(e_value) AS high, count(DISTINCT e_value) AS different FROM sale"
    " JOIN shop ON e_s_id = s_id GROUP BY s_region",
    "by_class": "SELECT k_class, count(*) AS n, sum(e_value) AS total FROM sale"
    " JOIN product ON e_p_id = p_id JOIN kind ON p_k_id = k_id WHERE e_value > 0 GROUP BY k_class",
    "balance": "SELECT e_p_id, sum(e_value) * 2 - count(*) AS balance FROM sale GROUP BY e_p_id"
    " HAVING count(*) > 1",
    "placed": "SELECT e_by, e_no, s_region FROM sale JOIN shop ON e_s_id = s_id WHERE e_value > 0",
}
TOTALLED = ("everything", "by_shop", "by_region", "by_class")
"""The views with a sum that the divisor divides."""
INDEXES = (
    "CREATE INDEX back ON by_region (s_region DESC); CREATE INDEX placed_in ON placed (s_region);"
)
SCHEMA = load_ddl(
    TABLES
    + "".join(
        f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'immediate') AS {sql};"
        for name, sql in SELECTS.items()
    )
    + INDEXES
)
_SHOPS, _KINDS = "SELECT s_id, s_region FROM shop", "SELECT k_id, k_class FROM kind"
_PRODUCTS = "SELECT p_id, p_k_id FROM product"
_SALES = "SELECT e_s_id, e_by, e_no, e_p_id, e_value FROM sale"
_SELL = "INSERT INTO sale VALUES (?, ?, ?, ?, ?)"
_TAKE_BACK = "DELETE FROM sale WHERE e_s_id = ? AND e_by = ? AND e_no = ?"
_REPRICE = "UPDATE sale SET e_value = ? WHERE e_s_id = ? AND e_by = ? AND e_no = ?"
_REPLACE = "UPDATE sale SET e_p_id = ? WHERE e_s_id = ? AND e_by = ? AND e_no = ?"
_MOVE_SHOP = "UPDATE shop SET s_region = ? WHERE s_id = ?"
_MOVE_PRODUCT = "UPDATE product SET p_k_id = ? WHERE p_id = ?"
_MOVE_KIND = "UPDATE kind SET k_class = ? WHERE k_id = ?"
BASE = (_SHOPS, _KINDS, _PRODUCTS, _SALES)

Rows = list[tuple]


class Totals:
    oracle = False
    """The log does not contain the rows that builds write."""

    def __init__(self, rng: random.Random) -> None:
        self.shops, self.products = rng.choice([1, 2, 5]), rng.choice([1, 2, 4])
        self.divisor = rng.choice([7, 10, 97])
        self.change_rate = rng.choice([0.0, 0.0, 0.05, 0.5])
        self.first = rng.choice([0, 200]) if self.change_rate else 0
        """Sales that are there from the beginning, so that builds take long."""
        self._numbers: Counter[str] = Counter()
        self._live: dict[str, list[tuple[int, int]]] = defaultdict(list)
        """By client, the sales that it knows to exist: (shop, number)."""

    def catalog(self) -> Catalog:
        return _with_views(catalog_of(SCHEMA, views=[]), SELECTS)

    async def set_up(self, database: Database) -> None:
        shops = [(n, n % REGIONS) for n in range(self.shops)]
        kinds = [(n, n % CLASSES) for n in range(KINDS)]
        products = [(n, n % KINDS) for n in range(self.products)]
        await database.load("shop", ["s_id", "s_region"], shops)
        await database.load("kind", ["k_id", "k_class"], kinds)
        await database.load("product", ["p_id", "p_k_id"], products)
        sales = [
            (n % self.shops, "first", n, n % self.products, n % 5 * self.divisor)
            for n in range(self.first)
        ]
        if sales:
            columns = ["e_s_id", "e_by", "e_no", "e_p_id", "e_value"]
            await database.load("sale", columns, sales)

    # ------------------------------------------------------------ transactions

    async def step(self, client: Client) -> None:
        if client.name == "c0" and client.random.random() < self.change_rate:
            await client.change(self._changed(client))
            return
        (work,) = client.random.choices(
            [self._insert, self._delete, self._update, self._move, self._read, self._read_by_key],
            [30, 15, 15, 15, 15, 10],
        )
        try:
            await work(client)
        except ConstraintViolation as error:
            client.journal.counts[type(error).__name__] += 1

    def _value(self, client: Client) -> int | None:
        value = self.divisor * client.random.randint(-3, 9)
        return None if client.random.random() < 0.1 else value

    async def _insert(self, client: Client) -> None:
        live = self._live[client.name]
        if len(live) >= LIVE_SALES:
            return await self._delete(client)
        sales = [self._new_sale(client) for _ in range(client.random.choice([1, 1, 2]))]
        if await client.transact(*(Statement(_SELL, sale) for sale in sales)) is not None:
            live += [(sale[0], sale[2]) for sale in sales]
        return None

    def _new_sale(self, client: Client) -> tuple:
        shop, number = client.random.randrange(self.shops), self._numbers[client.name]
        self._numbers[client.name] += 1
        product = client.random.choice([None, *range(self.products)])
        return (shop, client.name, number, product, self._value(client))

    async def _delete(self, client: Client) -> None:
        live = self._live[client.name]
        if not live:
            return await self._insert(client)
        shop, number = live.pop(client.random.randrange(len(live)))
        await client.transact(Statement(_TAKE_BACK, (shop, client.name, number)))
        return None

    async def _update(self, client: Client) -> None:
        live = self._live[client.name]
        if not live:
            return await self._insert(client)
        shop, number = client.random.choice(live)
        key = (shop, client.name, number)
        if client.random.random() < 0.5:
            await client.transact(Statement(_REPRICE, (self._value(client), *key)))
        else:
            product = client.random.choice([None, *range(self.products)])
            await client.transact(Statement(_REPLACE, (product, *key)))
        return None

    async def _move(self, client: Client) -> None:
        """Move a shop, a product or a kind, and with it its sales, to another group."""
        rng = client.random
        region, kind = rng.choice([None, *range(REGIONS)]), rng.choice([None, *range(KINDS)])
        moves = [
            Statement(_MOVE_SHOP, (region, rng.randrange(self.shops))),
            Statement(_MOVE_PRODUCT, (kind, rng.randrange(self.products))),
            Statement(_MOVE_KIND, (rng.randrange(CLASSES), rng.randrange(KINDS))),
        ]
        await client.transact(rng.choice(moves))

    # ------------------------------------------------------------ views that come and go

    async def _changed(self, client: Client) -> None:
        seen = await client._cluster.ask(_catalog)
        name = client.random.choice(list(SELECTS))
        wanted = set(seen.transactional_view) ^ {name}
        await client._cluster.ask_leader(_changing(seen.version, wanted))

    # ------------------------------------------------------------ invariants

    async def _read(self, client: Client) -> None:
        shown = await self._readable(client)
        views = [f"SELECT * FROM {name}" for name in shown]
        found = await client.read(*BASE, *views)
        if found is not None:
            self._verify(*found[:4], dict(zip(shown, found[4:], strict=True)))

    async def _readable(self, client: Client) -> list[str]:
        """The views that can be read, unless they are dropped before they are read."""
        catalog = await client.ask_persistently("look", _catalog)
        if catalog is None:
            return []
        return [name for name in catalog.transactional_view if catalog.readable(name)]

    async def _read_by_key(self, client: Client) -> None:
        if "by_shop" not in await self._readable(client):
            return
        shop = client.random.randrange(self.shops)
        found = await client.read(
            ("SELECT e_value FROM sale WHERE e_s_id = ?", (shop,)),
            ("SELECT * FROM by_shop WHERE e_s_id = ?", (shop,)),
        )
        if found is not None:
            values = [value for (value,) in found[0]]
            assert found[1] == ([(shop, *sums(values))] if values else []), "a group by its key"

    def _verify(
        self, shops: Rows, kinds: Rows, products: Rows, sales: Rows, views: dict[str, Rows]
    ) -> None:
        expected = _expected(shops, kinds, products, sales)
        for name, rows in views.items():
            totals = [row[1 if name == "everything" else 2] for row in rows if name in TOTALLED]
            assert all(total is None or total % self.divisor == 0 for total in totals), rows
            assert Counter(rows) == Counter(expected[name]), (name, rows, expected[name])

    async def check(self, database: Database, journal: Journal) -> None:
        await require_built(database)
        views = {name: f"SELECT * FROM {name}" for name in database.catalog.transactional_view}
        found = [await database.fetch(sql) for sql in BASE]
        rows = {n: await database.fetch(sql) for n, sql in views.items()}
        self._verify(*found, rows)
        snapshot = database.watermark()
        for index in database.catalog.indexes:
            if index.on in rows:
                reader = Snapshot(database.store, database.manager.state.codecs, snapshot)
                indexed = [row async for batch in reader.scan(index.name) for row in batch]
                places = database.catalog.layout(index.name).positions
                shown = [places[c.name] for c in database.catalog.visible(index.on)]
                stored = Counter(tuple(row[place] for place in shown) for row in indexed)
                assert stored == Counter(rows[index.on]), index.name


def sums(values: Iterable[int | None]) -> tuple[int, int | None]:
    """COUNT(*) and SUM of the values."""
    values = list(values)
    present = [value for value in values if value is not None]
    return len(values), sum(present) if present else None


def _expected(shops: Rows, kinds: Rows, products: Rows, sales: Rows) -> dict[str, Rows]:
    """The rows of all views over rows of the relations."""
    region, class_of = dict(shops), dict(kinds)
    group = {product: class_of.get(kind) for product, kind in products}
    values = [sale[4] for sale in sales]
    groups: dict[str, dict[int | None, list[int | None]]] = {
        name: defaultdict(list) for name in ("by_shop", "by_region", "by_class")
    }
    for shop, _, _, product, value in sales:
        groups["by_shop"][shop].append(value)
        groups["by_region"][region[shop]].append(value)
        if group.get(product) is not None and value is not None and value > 0:
            groups["by_class"][group[product]].append(value)
    found = {
        name: [(key, *sums(of_group)) for key, of_group in by_key.items()]
        for name, by_key in groups.items()
    }
    valued = sum(value is not None for value in values)
    products_of: dict[int | None, list[int | None]] = defaultdict(list)
    for *_, product, value in sales:
        products_of[product].append(value)
    found["balance"] = [
        (product, None if total is None else total * 2 - count)
        for product, of_product in products_of.items()
        for count, total in (sums(of_product),)
        if count > 1
    ]
    found["placed"] = [
        (by, number, region[shop])
        for shop, by, number, _, value in sales
        if value is not None and value > 0
    ]
    found["by_region"] = [
        (*row, *_values(groups["by_region"][row[0]])) for row in found["by_region"]
    ]
    return found | {"everything": [(*sums(values), valued)]}


def _values(values: Iterable[int | None]) -> tuple[int | None, int | None, int]:
    """MIN, MAX and COUNT(DISTINCT) of the values."""
    present = {value for value in values if value is not None}
    return min(present, default=None), max(present, default=None), len(present)


def _with_views(catalog: Catalog, names: Iterable[str]) -> Catalog:
    """`catalog` with the immediate views `names` and their indexes; new ones are to be built."""
    kept = [view for view in SCHEMA.views if view.name in set(names)]
    relations = replace(catalog, schema=replace(catalog.schema, views=tuple(kept)))
    made = {view.name: define_any(view, relations).view for view in kept}
    indexes = [view_index(i, made[i.relation]) for i in SCHEMA.indexes if i.relation in made]
    others = tuple(index for index in catalog.indexes if index.on not in SELECTS)
    states, before = dict(catalog.states), dict(catalog.states)
    for name in (*SELECTS, *(index.name for index in SCHEMA.indexes)):
        states.pop(name, None)
    names = (*made, *(index.name for index in indexes))
    states |= {name: before.get(name, State.BUILDING) for name in names}
    return replace(
        relations,
        indexes=(*others, *indexes),
        immediate=tuple(view for view in made.values() if isinstance(view, ImmediateView)),
        projected=tuple(view for view in made.values() if isinstance(view, ProjectedView)),
        states=tuple(states.items()),
    )


async def _catalog(database: Database) -> Catalog:
    return database.catalog


def _changing(version: int, names: Iterable[str]) -> Callable[[Database], Awaitable[None]]:
    """Put the immediate views `names` into force, if `version` is still in force."""

    async def other(current: Catalog) -> Catalog:
        if current.version != version:
            raise StalePlan("The catalog has changed.")
        return replace(_with_views(current, names), version=current.version + 1)

    async def work(database: Database) -> None:
        await database.keeper.change(other)

    return work
