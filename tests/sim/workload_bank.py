"""Bank: money moves between accounts under different roots; the sum never changes.

Each transfer changes two accounts and a page of the account book below each, in one transaction. A
view joins accounts with their pages, an index sorts it by balance. Readers check at every snapshot:
the sum of balances is constant, and each balance is the opening balance plus the amounts of its
pages in the view. Pages count their entries, so a transfer that is executed twice shows.
"""

from __future__ import annotations

import random
from collections import Counter

from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.txlayer.statements.requests import Statement
from tests.sim.simulation import Client, Journal
from tests.txlayer.database_world import catalog_of

OPENING = 1_000
PAGES = 3
SCHEMA = load_ddl(
    """
    CREATE TABLE account (a_id INTEGER PRIMARY KEY, a_balance INTEGER NOT NULL);
    CREATE TABLE page (
      p_a_id INTEGER REFERENCES account (a_id), p_no INTEGER,
      p_amount INTEGER NOT NULL, p_entries INTEGER NOT NULL, PRIMARY KEY (p_a_id, p_no));
    """
)
_MOVE = "UPDATE account SET a_balance = a_balance + ? WHERE a_id = ?"
_ENTER = (
    "UPDATE page SET p_amount = p_amount + ?, p_entries = p_entries + 1"
    " WHERE p_a_id = ? AND p_no = ?"
)
_BALANCES = "SELECT a_id, a_balance FROM account"
_JOINED = "SELECT a_id, a_balance, p_amount FROM account, page WHERE a_id = p_a_id"


class Bank:
    oracle = True

    def __init__(self, rng: random.Random) -> None:
        self.accounts = rng.choice([2, 3, 5, 8, 16])

    def catalog(self) -> Catalog:
        return catalog_of(SCHEMA, view_indexes=[("account__page", "a_balance")])

    async def set_up(self, database: Database) -> None:
        accounts = [(n, OPENING) for n in range(self.accounts)]
        pages = [(n, no, 0, 0) for n in range(self.accounts) for no in range(PAGES)]
        await database.load("account", ["a_id", "a_balance"], accounts)
        await database.load("page", ["p_a_id", "p_no", "p_amount", "p_entries"], pages)

    async def step(self, client: Client) -> None:
        if client.random.random() < 0.3:
            await self._read(client)
        else:
            await self._transfer(client)

    async def _transfer(self, client: Client) -> None:
        a, b = client.random.sample(range(self.accounts), 2)
        amount, no = client.random.randint(1, 50), client.random.randrange(PAGES)
        await client.transact(
            Statement(_MOVE, (-amount, a)),
            Statement(_ENTER, (-amount, a, no)),
            Statement(_MOVE, (amount, b)),
            Statement(_ENTER, (amount, b, no)),
        )

    async def _read(self, client: Client) -> None:
        found = await client.read(_BALANCES, _JOINED)
        if found is not None:
            self._require_balanced(*found)

    def _require_balanced(self, balances: list[tuple], joined: list[tuple]) -> None:
        assert sum(balance for _, balance in balances) == OPENING * self.accounts, balances
        sums, shown = Counter({a: OPENING for a, _ in balances}), dict(balances)
        for a, balance, amount in joined:
            assert balance == shown[a], "the view shows another balance"
            sums[a] += amount
        assert dict(sums) == shown, "the pages do not add up to the balance"

    async def check(self, database: Database, journal: Journal) -> None:
        self._require_balanced(await database.fetch(_BALANCES), await database.fetch(_JOINED))
        entries = await database.fetch("SELECT p_entries FROM page")
        assert sum(n for (n,) in entries) == 2 * len(journal.acknowledged), (
            "effects are not answers"
        )
