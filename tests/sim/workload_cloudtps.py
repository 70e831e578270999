"""CloudTPS's result verifier: load generators whose every sum is known to be divisible.

After P. Nikolov, "Aggregate Queries in NoSQL Cloud Data Stores" (2011), section 6.2. Each client is
a load generator with a value of its own, a multiple of `divisor`. It inserts and deletes sales of
that value at shops, each a root, and shifts capital, in multiples as well, among two to four shops.
Readers check at every snapshot: each number is divisible, the capital of all shops is constant, a
shop's income is the sum of its sales, and the view and its index show the sales. At the end the
income of all shops follows from the answers: (inserted − deleted) × value.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from itertools import chain

from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.txlayer.statements.requests import Statement
from tests.sim.simulation import Client, Journal
from tests.txlayer.database_world import catalog_of

UNITS = 100
"""The capital of a shop at first, in multiples of the divisor."""
LIVE_SALES = 5
SCHEMA = load_ddl(
    """
    CREATE TABLE shop (
      s_id INTEGER PRIMARY KEY, s_capital INTEGER NOT NULL, s_income INTEGER NOT NULL);
    CREATE TABLE sale (
      e_s_id INTEGER REFERENCES shop (s_id), e_by TEXT, e_no INTEGER, e_value INTEGER NOT NULL,
      PRIMARY KEY (e_s_id, e_by, e_no));
    """
)
_SHIFT = "UPDATE shop SET s_capital = s_capital + ? WHERE s_id = ?"
_EARN = "UPDATE shop SET s_income = s_income + ? WHERE s_id = ?"
_SELL = "INSERT INTO sale VALUES (?, ?, ?, ?) RETURNING e_value"
_TAKE_BACK = "DELETE FROM sale WHERE e_s_id = ? AND e_by = ? AND e_no = ? RETURNING -e_value"

_SHOPS = "SELECT s_id, s_capital, s_income FROM shop"
_SALES = "SELECT e_s_id, e_by, e_no, e_value FROM sale"
_JOINED = (
    "SELECT s_id, e_by, e_no, e_value, s_capital, s_income FROM shop, sale WHERE s_id = e_s_id"
)
_SHOP, _SALES_OF = f"{_SHOPS} WHERE s_id = ?", f"{_SALES} WHERE e_s_id = ?"
_VALUED = f"{_JOINED} AND e_value = ?"


class CloudTps:
    oracle = True

    def __init__(self, rng: random.Random) -> None:
        self.shops = rng.choice([2, 3, 5, 8])
        self.divisor = rng.choice([7, 10, 97])
        self._numbers: Counter[str] = Counter()
        # by generator, the sales that it knows to exist: (shop, number). The outcome of a request
        # that was given up is unknown; its sale is left alone.
        self._live: dict[str, list[tuple[int, int]]] = defaultdict(list)

    def catalog(self) -> Catalog:
        return catalog_of(SCHEMA, view_indexes=[("shop__sale", "e_value")])

    async def set_up(self, database: Database) -> None:
        shops = [(n, UNITS * self.divisor, 0) for n in range(self.shops)]
        await database.load("shop", ["s_id", "s_capital", "s_income"], shops)

    def _value(self, generator: str) -> int:
        return self.divisor * (1 + int(generator[1:]))

    # ------------------------------------------------------------ transactions

    async def step(self, client: Client) -> None:
        (work,) = client.random.choices(
            [self._insert, self._delete, self._shift, self._read, self._read_by_key],
            [20, 20, 30, 15, 15],
        )
        await work(client)

    async def _insert(self, client: Client) -> None:
        live, value = self._live[client.name], self._value(client.name)
        if len(live) >= LIVE_SALES:
            return await self._delete(client)
        shop, no = client.random.randrange(self.shops), self._numbers[client.name]
        self._numbers[client.name] += 1
        reported = await client.transact(
            Statement(_SELL, (shop, client.name, no, value)), Statement(_EARN, (value, shop))
        )
        if reported is not None:
            live.append((shop, no))
        return None

    async def _delete(self, client: Client) -> None:
        live, value = self._live[client.name], self._value(client.name)
        if not live:
            return await self._insert(client)
        shop, no = live.pop(client.random.randrange(len(live)))
        reported = await client.transact(
            Statement(_TAKE_BACK, (shop, client.name, no)), Statement(_EARN, (-value, shop))
        )
        assert reported is None or reported.statements[0].rows == ((-value,),), (
            "a sale was not there"
        )
        return None

    async def _shift(self, client: Client) -> None:
        """Shift capital among shops by shares that add up to zero."""
        count = client.random.randint(2, min(4, self.shops))
        among = client.random.sample(range(self.shops), count)
        units = [client.random.randint(-9, 9) for _ in among[1:]]
        shares = [self.divisor * unit for unit in (*units, -sum(units))]
        await client.transact(
            *(Statement(_SHIFT, (share, shop)) for share, shop in zip(shares, among, strict=True))
        )

    # ------------------------------------------------------------ invariants

    async def _read(self, client: Client) -> None:
        found = await client.read(_SHOPS, _SALES, _JOINED, (_VALUED, (self._value(client.name),)))
        if found is not None:
            self._verify(*found[:3])
            joined, valued = found[2:]
            mine = [row for row in joined if row[3] == self._value(client.name)]
            assert sorted(valued) == sorted(mine), "the view's index shows other sales"

    async def _read_by_key(self, client: Client) -> None:
        shops = client.random.sample(range(self.shops), self.shops)
        queries = [(sql, (shop,)) for shop in shops for sql in (_SHOP, _SALES_OF)]
        found = await client.read(*queries, _JOINED)
        if found is not None:
            self._verify([*chain(*found[0:-1:2])], [*chain(*found[1:-1:2])], found[-1])

    def _verify(self, shops: list[tuple], sales: list[tuple], joined: list[tuple]) -> None:
        numbers = chain(*(shop[1:] for shop in shops), (sale[3] for sale in sales))
        assert all(number % self.divisor == 0 for number in numbers), (shops, sales)
        capital = sum(capital for _, capital, _ in shops)
        assert capital == UNITS * self.divisor * self.shops, shops
        income: Counter[int] = Counter()
        for shop, generator, _, value in sales:
            assert value == self._value(generator), "a sale's value has changed"
            income[shop] += value
        assert all(income[shop] == stored for shop, _, stored in shops), (shops, income)
        shown = {shop: (capital, stored) for shop, capital, stored in shops}
        expected = [(*sale, *shown[sale[0]]) for sale in sales]
        assert sorted(joined) == sorted(expected), "the view is not the join"

    async def check(self, database: Database, journal: Journal) -> None:
        found = [await database.fetch(sql) for sql in (_SHOPS, _SALES, _JOINED)]
        self._verify(*found)
        assert sum(income for _, _, income in found[0]) == journal.returned, (
            "effects are not answers"
        )
