"""The Dashboard of an online shop under faults, with its totals as immediate and live views.

After P. Nikolov, "Aggregate Queries in NoSQL Cloud Data Stores" (2011): the schema of section 2.1,
transactions of section 6.3 that insert some events each, and the two rules of section 6.2. Every
event costs the same, so each client's insertions and deletions decide the total in the end; and
every total that is read is a multiple of that cost, however transactions interleave.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import ClassVar

from tests.nemesis import nemesis_live
from tests.nemesis.nemesis_clients import Client, Rows, Statement
from tests.nemesis.nemesis_totals import BASE, COST, SELECTS, require_totals
from tests.nemesis.nemesis_workloads import ROUND, Findings, fetched

_VIEWS = ("everything", "by_merchant", "by_category")
_QUERIES = (*(f"SELECT * FROM {view}" for view in _VIEWS), *BASE.values())
_IMMEDIATE = "".join(
    f"CREATE MATERIALIZED VIEW {view} WITH (refresh = 'immediate') AS {SELECTS[view]};\n"
    for view in _VIEWS
)


class Dashboard:
    """Clicks and views of products, and what they cost each merchant.

    Clients insert and delete events, move products to other categories and rename categories, which
    moves the events below them to other groups. They read views and base relations at one snapshot.
    """

    ddl = f"""
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
    {_IMMEDIATE} {nemesis_live.DDL}
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
        self._live_reads = nemesis_live.LiveReads()

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
        self._live_reads.begin(client)

    async def step(self, client: Client) -> None:
        steps = [
            self._insert, self._delete, self._move, self._rename, self._read, self._live_reads.step
        ]  # fmt: skip
        (chosen,) = client.random.choices(steps, [40, 20, 8, 4, 20, 25])
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
        found = await client.read(*_QUERIES)
        if found is not None:
            require_totals(_VIEWS, found.rows)

    async def judge(self, client: Client) -> Findings:
        done = client.journal.acknowledged
        rows = await fetched(client, *_QUERIES)
        require_totals(_VIEWS, rows)
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
        live = self._live_reads
        await live.judge(client, max(answer.commit_ts for answer in done.values()))
        findings.live_lag_s = live.lag_s([done[key] for key in self._inserted.keys() & done.keys()])
        return findings

    def touch(self) -> list[Statement]:
        return [
            *(("UPDATE merchant SET m_name = m_name WHERE m_id = ?", (n,))
              for n in range(self.MERCHANTS)),
            *(("UPDATE category SET cat_parent = NULL WHERE cat_id = ?", (n,))
              for n in range(self.CATEGORIES)),
        ]  # fmt: skip
