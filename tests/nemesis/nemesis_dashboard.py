"""The Dashboard of an online shop under faults, with its totals as immediate views.

After P. Nikolov, "Aggregate Queries in NoSQL Cloud Data Stores" (2011): the schema of section 2.1,
transactions of section 6.3 that insert some events each, and the two rules of section 6.2. Every
event costs the same, so each client's insertions and deletions decide the total in the end; and
every total that is read is a multiple of that cost, however transactions interleave.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from tests.nemesis.nemesis_clients import Client, Rows, Statement
from tests.nemesis.nemesis_workloads import ROUND, Findings, fetched

COST = 7
_EVENTS = "SELECT ev_id, ev_m_id, ev_pr_id, ev_type, ev_cost FROM event"
_PRODUCTS = "SELECT pr_id, pr_cat_id FROM product"
_CATEGORIES = "SELECT cat_id, cat_name FROM category"
_VIEWS = ("dashboard", "by_merchant", "by_category")


class Dashboard:
    """Clicks and views of products, and what they cost each merchant.

    Clients insert and delete events, move products to other categories and rename categories, which
    moves the events below them to other groups. They read views and base relations at one snapshot.
    """

    ddl = """
    CREATE TABLE merchant (m_id INTEGER PRIMARY KEY, m_name TEXT NOT NULL);
    CREATE TABLE merchant_address (
      ma_m_id INTEGER PRIMARY KEY REFERENCES merchant (m_id), ma_street TEXT, ma_city TEXT,
      ma_province TEXT, ma_code TEXT, ma_country TEXT NOT NULL);
    CREATE TABLE category (
      cat_id INTEGER PRIMARY KEY, cat_name TEXT NOT NULL,
      cat_parent INTEGER REFERENCES category (cat_id));
    CREATE TABLE product (
      pr_id INTEGER PRIMARY KEY, pr_m_id INTEGER NOT NULL REFERENCES merchant (m_id),
      pr_cat_id INTEGER NOT NULL REFERENCES category (cat_id), pr_name TEXT);
    CREATE TABLE event (
      ev_id INTEGER PRIMARY KEY, ev_pr_id INTEGER NOT NULL REFERENCES product (pr_id),
      ev_m_id INTEGER NOT NULL REFERENCES merchant (m_id), ev_type TEXT NOT NULL,
      ev_cost INTEGER NOT NULL, ev_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
    CREATE MATERIALIZED VIEW dashboard WITH (refresh = 'immediate') AS
      SELECT count(*) AS n, sum(ev_cost) AS cost FROM event;
    CREATE MATERIALIZED VIEW by_merchant WITH (refresh = 'immediate') AS
      SELECT ev_m_id, pr_cat_id, ev_type, count(*) AS n, sum(ev_cost) AS cost
      FROM event JOIN product ON ev_pr_id = pr_id GROUP BY ev_m_id, pr_cat_id, ev_type;
    CREATE MATERIALIZED VIEW by_category WITH (refresh = 'immediate') AS
      SELECT cat_name, count(*) AS n, sum(ev_cost) AS cost, max(ev_id) AS latest
      FROM event JOIN product ON ev_pr_id = pr_id JOIN category ON pr_cat_id = cat_id
      GROUP BY cat_name;
    """
    queries = """
    -- name: dashboard_of_merchant
    SELECT pr_id, pr_name, m_name FROM merchant, product WHERE m_id = pr_m_id AND m_id = ?;
    """
    roots = ("merchant",)
    MERCHANTS, PRODUCTS, CATEGORIES, LIVE = 4, 12, 3, 30
    _INSERT = (
        "INSERT INTO event (ev_id, ev_pr_id, ev_m_id, ev_type, ev_cost) VALUES (?, ?, ?, ?, ?)"
    )
    _DELETE = "DELETE FROM event WHERE ev_id = ? RETURNING ev_id"
    _MOVE = "UPDATE product SET pr_cat_id = ? WHERE pr_id = ?"
    _RENAME = "UPDATE category SET cat_name = ? WHERE cat_id = ?"
    _TYPES: ClassVar = ("view", "click")

    def __init__(self, number: int) -> None:
        self._numbers = itertools.count(number * ROUND)
        self._inserted: dict[str, list[int]] = {}
        self._deleted: dict[str, list[int]] = {}
        self._live: dict[str, list[int]] = {}
        """Events by the client that knows them to be there."""

    @classmethod
    def rows(cls) -> Mapping[str, Rows]:
        merchants = range(cls.MERCHANTS)
        return {
            "merchant": [(n, f"merchant {n}") for n in merchants],
            "merchant_address": [(n, "", "", "", "", "NL") for n in merchants],
            "category": [(n, f"name {n % 2}", None) for n in range(cls.CATEGORIES)],
            "product": [
                (n, n % cls.MERCHANTS, n % cls.CATEGORIES, f"product {n}")
                for n in range(cls.PRODUCTS)
            ],
        }

    async def begin(self, client: Client) -> None:
        """Delete the events of earlier rounds, so that all groups become empty."""
        assert await client.transact(("DELETE FROM event", ())) is not None, "no answer"

    async def step(self, client: Client) -> None:
        steps = [self._insert, self._delete, self._move, self._rename, self._read]
        (chosen,) = client.random.choices(steps, [40, 20, 8, 4, 25])
        await chosen(client)

    async def _insert(self, client: Client) -> None:
        live = self._live.setdefault(client.name, [])
        if len(live) > self.LIVE:
            return await self._delete(client)
        draw = client.random
        numbers = [next(self._numbers) for _ in range(draw.choice([1, 1, 3, 10]))]
        events = [
            (n, draw.randrange(self.PRODUCTS), draw.randrange(self.MERCHANTS),
             draw.choice(self._TYPES), COST)
            for n in numbers
        ]  # fmt: skip
        self._inserted[client.next_key()] = numbers
        if await client.transact(*((self._INSERT, event) for event in events)) is not None:
            live += numbers
        return None

    async def _delete(self, client: Client) -> None:
        live = self._live.setdefault(client.name, [])
        numbers, live[:] = live[:5], live[5:]
        if numbers:
            self._deleted[client.next_key()] = numbers
            await client.transact(*((self._DELETE, (n,)) for n in numbers))

    async def _move(self, client: Client) -> None:
        category = client.random.randrange(self.CATEGORIES)
        await client.transact((self._MOVE, (category, client.random.randrange(self.PRODUCTS))))

    async def _rename(self, client: Client) -> None:
        name = f"name {client.random.randrange(3)}"
        await client.transact((self._RENAME, (name, client.random.randrange(self.CATEGORIES))))

    async def _read(self, client: Client) -> None:
        views = [f"SELECT * FROM {name}" for name in _VIEWS]
        found = await client.read(*views, _EVENTS, _PRODUCTS, _CATEGORIES)
        if found is not None:
            _require_totals(*found.rows)

    async def judge(self, client: Client) -> Findings:
        views = [f"SELECT * FROM {name}" for name in _VIEWS]
        rows = await fetched(client, *views, _EVENTS, _PRODUCTS, _CATEGORIES)
        _require_totals(*rows)
        done = client.journal.acknowledged
        inserted = {n for key, numbers in self._inserted.items() if key in done for n in numbers}
        deleted = {n for key, numbers in self._deleted.items() if key in done for n in numbers}
        there = {event[0] for event in rows[3]}
        gone_before = {
            number
            for key, numbers in self._deleted.items()
            if key in done
            for number, returned in zip(numbers, done[key].rows, strict=True)
            if not returned
        }
        missing = sorted(inserted - deleted - there | gone_before)
        findings = Findings([f"event {number}" for number in missing])
        surplus = sorted(there - (inserted - deleted))
        findings.require(not surplus, f"events are there that were refused or deleted: {surplus}")
        ((count, cost),) = rows[0]
        expected = len(inserted - deleted) * COST
        findings.require((cost or 0) == expected, f"{count} events cost {cost}, not {expected}")
        return findings

    def touch(self) -> list[Statement]:
        return [
            *(("UPDATE merchant SET m_name = m_name WHERE m_id = ?", (n,))
              for n in range(self.MERCHANTS)),
            *(("UPDATE category SET cat_parent = NULL WHERE cat_id = ?", (n,))
              for n in range(self.CATEGORIES)),
        ]  # fmt: skip


def _require_totals(
    everything: Rows,
    by_merchant: Rows,
    by_category: Rows,
    events: Rows,
    products: Rows,
    categories: Rows,
) -> None:
    """The views are the sums over the events of their snapshot. Raises AssertionError."""
    category, name = dict(products), dict(categories)
    expected = [(len(events), sum(event[4] for event in events) if events else None)]
    assert everything == expected, f"all events are {expected}, and the view has {everything}"
    merchants: Counter[tuple[int, int, str]] = Counter()
    names: dict[str, list[int]] = {}
    for number, merchant, product, kind, cost in events:
        assert cost == COST, f"event {number} costs {cost}"
        merchants[merchant, category[product], kind] += 1
        names.setdefault(name[category[product]], []).append(number)
    assert all(row[-1] % COST == 0 for row in by_merchant), f"divided by {COST}: {by_merchant}"
    wanted = sorted((*key, count, count * COST) for key, count in merchants.items())
    assert sorted(by_merchant) == wanted, f"merchants have {wanted}, the view {by_merchant}"
    of_names = sorted((n, len(rows), len(rows) * COST, max(rows)) for n, rows in names.items())
    assert sorted(by_category) == of_names, f"names have {of_names}, the view {by_category}"
