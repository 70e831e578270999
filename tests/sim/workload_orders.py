"""TPC-W's order flow with stock: customers, their orders and lines as a tree, items beside it.

New customers compete for few e-mails, of which each may be taken once. An order takes from the
stock of its items if there is enough, cancelling it gives it back; an order moves with its lines
from customer to customer; a customer with orders cannot be deleted. Names, e-mails and prices
change under the views.

Readers check at every snapshot: an item's stock and the sold quantities add up to its opening
stock; an order's total is the sum of its lines; every line has its order and every order its
customer; e-mails are unique; the views are the joins.
"""

from __future__ import annotations

import random
from collections import Counter

from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import ConstraintViolation
from hornbeam_server.txlayer.statements.requests import Statement
from tests.sim.interactive import Interactive
from tests.sim.simulation import Client, Journal
from tests.txlayer.database_world import catalog_of

EMAILS = 8
ORDERS = 12
LINES = 3
SCHEMA = load_ddl(
    """
    CREATE TABLE customer (
      c_id INTEGER PRIMARY KEY, c_name TEXT NOT NULL, c_email TEXT NOT NULL UNIQUE);
    CREATE TABLE item (
      i_id INTEGER PRIMARY KEY, i_price INTEGER NOT NULL, i_stock INTEGER NOT NULL);
    CREATE TABLE orders (
      o_id INTEGER PRIMARY KEY, o_c_id INTEGER NOT NULL REFERENCES customer (c_id),
      o_total INTEGER NOT NULL);
    CREATE TABLE order_line (
      ol_o_id INTEGER REFERENCES orders (o_id) ON DELETE CASCADE, ol_no INTEGER,
      ol_i_id INTEGER NOT NULL REFERENCES item (i_id), ol_qty INTEGER NOT NULL,
      ol_cost INTEGER NOT NULL, PRIMARY KEY (ol_o_id, ol_no));
    """
)
_ALL = {
    "customer": "SELECT c_id, c_name, c_email FROM customer",
    "item": "SELECT i_id, i_price, i_stock FROM item",
    "orders": "SELECT o_id, o_c_id, o_total FROM orders",
    "order_line": "SELECT ol_o_id, ol_no, ol_i_id, ol_qty, ol_cost FROM order_line",
}
_ORDERS_OF = "SELECT c_id, c_name, o_id, o_total FROM customer, orders WHERE c_id = o_c_id"
_LINES_OF = (
    "SELECT c_id, c_name, o_id, o_total, ol_no, ol_i_id, ol_qty FROM customer, orders, order_line"
    " WHERE c_id = o_c_id AND o_id = ol_o_id"
)
_JOINED = (_ORDERS_OF, _LINES_OF)
_TAKE = "UPDATE item SET i_stock = i_stock - ? WHERE i_id = ? AND i_stock >= ? RETURNING i_price"
_GIVE_BACK = "UPDATE item SET i_stock = i_stock + ? WHERE i_id = ?"
_ORDER = "INSERT INTO orders VALUES (?, ?, ?) RETURNING 'orders', 1"
_LINE = "INSERT INTO order_line VALUES (?, ?, ?, ?, ?)"
_CANCEL = "DELETE FROM orders WHERE o_id = ? RETURNING 'orders', -1"
_GREET = "INSERT INTO customer VALUES (?, ?, ?) RETURNING 'customer', 1"
_PART = "DELETE FROM customer WHERE c_id = ? RETURNING 'customer', -1"


class Orders:
    oracle = True

    def __init__(self, rng: random.Random) -> None:
        self.customers = rng.choice([3, 5, 8])
        self.items = rng.choice([2, 4, 6])
        self.opening = rng.choice([5, 12, 30])

    def catalog(self) -> Catalog:
        lines = "customer__orders__order_line"
        return catalog_of(SCHEMA, view_indexes=[("customer__orders", "c_name"), (lines, "ol_i_id")])

    async def set_up(self, database: Database) -> None:
        items = [(n, 10 + n, self.opening) for n in range(self.items)]
        await database.load("item", ["i_id", "i_price", "i_stock"], items)

    # ------------------------------------------------------------ transactions

    async def step(self, client: Client) -> None:
        work = {
            self._greet: 12,
            self._part: 6,
            self._rename: 8,
            self._change_email: 14,
            self._order: 24,
            self._cancel: 16,
            self._hand_over: 8,
            self._price: 2,
            self._read: 26,
        }
        (chosen,) = client.random.choices(list(work), list(work.values()))
        try:
            await chosen(client)
        except ConstraintViolation as error:
            client.journal.counts[type(error).__name__] += 1

    async def _greet(self, client: Client) -> None:
        values = (self._customer(client), client.name, self._email(client))
        await client.transact(Statement(_GREET, values))

    async def _part(self, client: Client) -> None:
        await client.transact(Statement(_PART, (self._customer(client),)))

    async def _rename(self, client: Client) -> None:
        name = f"{client.name}'s {client.random.randrange(9)}"
        sql = "UPDATE customer SET c_name = ? WHERE c_id = ?"
        await client.transact(Statement(sql, (name, self._customer(client))))

    async def _change_email(self, client: Client) -> None:
        sql = "UPDATE customer SET c_email = ? WHERE c_id = ?"
        await client.transact(Statement(sql, (self._email(client), self._customer(client))))

    async def _price(self, client: Client) -> None:
        sql = "UPDATE item SET i_price = i_price + 1 WHERE i_id = ?"
        await client.transact(Statement(sql, (client.random.randrange(self.items),)))

    async def _hand_over(self, client: Client) -> None:
        sql = "UPDATE orders SET o_c_id = ? WHERE o_id = ?"
        order = client.random.randrange(ORDERS)
        await client.transact(Statement(sql, (self._customer(client), order)))

    def _customer(self, client: Client) -> int:
        return client.random.randrange(self.customers)

    def _email(self, client: Client) -> str:
        return f"{client.random.randrange(EMAILS)}@example.org"

    async def _order(self, client: Client) -> None:
        """Take the items if there are enough, read their prices, and order them."""
        order, look = client.random.randrange(ORDERS), Interactive(client)
        chosen = client.random.sample(range(self.items), client.random.randint(1, 2))
        wanted = [(item, client.random.randint(1, 5)) for item in chosen]
        take = [Statement(_TAKE, (quantity, item, quantity)) for item, quantity in wanted]
        if client.random.random() < 0.5:
            taken = await look.attempt(*take)
            prices = [[row[0] for row in result.rows] for result in taken or ()]
        else:
            prices = [await self._price_if_enough(look, *asked) for asked in wanted]
        if not prices or not all(prices):
            client.journal.counts["sold out"] += 1
            return
        lines = [
            (order, number, item, quantity, quantity * price)
            for number, ((item, quantity), (price,)) in enumerate(zip(wanted, prices, strict=True))
        ]
        total = sum(cost for *_, cost in lines)
        await look.commit(
            *take,
            Statement(_ORDER, (order, self._customer(client), total)),
            *(Statement(_LINE, line) for line in lines),
        )

    async def _price_if_enough(self, look: Interactive, item: int, quantity: int) -> list[int]:
        rows = await look.look("SELECT i_price, i_stock FROM item WHERE i_id = ?", (item,))
        return [price for price, stock in rows or () if stock >= quantity]

    async def _cancel(self, client: Client) -> None:
        order, look = client.random.randrange(ORDERS), Interactive(client)
        sql = "SELECT ol_i_id, ol_qty FROM order_line WHERE ol_o_id = ?"
        if lines := await look.look(sql, (order,)):
            back = [Statement(_GIVE_BACK, (quantity, item)) for item, quantity in lines]
            await look.commit(Statement(_CANCEL, (order,)), *back)

    # ------------------------------------------------------------ invariants

    async def _read(self, client: Client) -> None:
        item = client.random.randrange(self.items)
        of_item = (f"{_LINES_OF} AND ol_i_id = ?", (item,))
        found = await client.read(*_ALL.values(), *_JOINED, of_item)
        if found is not None:
            self._verify(*found[:-1])
            expected = [row for row in found[-2] if row[5] == item]
            assert sorted(found[-1]) == sorted(expected), "the view's index shows other lines"

    def _verify(
        self,
        customers: list[tuple],
        items: list[tuple],
        orders: list[tuple],
        lines: list[tuple],
        orders_of: list[tuple],
        lines_of: list[tuple],
    ) -> None:
        name = {c: name for c, name, _ in customers}
        of, totals = {o: c for o, c, _ in orders}, {o: total for o, _, total in orders}
        emails = [email for *_, email in customers]
        assert len(set(emails)) == len(emails), f"an e-mail is there twice: {customers}"
        assert of.keys() == {line[0] for line in lines}, "a line without order, or the reverse"
        assert set(of.values()) <= name.keys(), "an order without customer"
        sold, costs = Counter(), Counter()
        for order, _, item, quantity, cost in lines:
            sold[item] += quantity
            costs[order] += cost
        assert all(stock >= 0 for *_, stock in items), items
        assert {i: stock + sold[i] for i, _, stock in items} == dict.fromkeys(
            range(self.items), self.opening
        ), (items, lines)
        assert costs == totals, "an order's total is not the sum of its lines"
        assert sorted(orders_of) == sorted((c, name[c], o, t) for o, c, t in orders)
        assert sorted(lines_of) == sorted(
            (of[o], name[of[o]], o, totals[o], *line) for o, *line, _ in lines
        )

    async def check(self, database: Database, journal: Journal) -> None:
        for use_views in (True, False):
            queries = (*_ALL.values(), *_JOINED)
            self._verify(*[await database.fetch(sql, use_views=use_views) for sql in queries])
        reported = Counter()
        for answer in journal.acknowledged.values():
            for result in answer.statements:
                reported.update({row[0]: row[1] for row in result.rows if len(row) == 2})
        for relation in ("customer", "orders"):
            rows = await database.fetch(_ALL[relation])
            assert len(rows) == reported[relation], "effects are not answers"
