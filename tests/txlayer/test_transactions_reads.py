"""Which rows a transaction reads from the store: once, in parallel, and again if they may have
changed."""

import asyncio
from collections import Counter
from itertools import product

import pytest

from hornbeam_server.schema.errors import UniqueViolation
from hornbeam_server.txlayer.transactions import outcomes
from tests.txlayer.database_world import check, until
from tests.txlayer.test_transactions_statements import on_full_shop, statements


class Reads:
    """Records reads of a store by key: `asked` has (table, number of keys) for each. `before_given`
    has work that runs once, after a table's first rows are found and before they are returned."""

    def __init__(self, database, monkeypatch):
        self.asked = []
        self.before_given = {}
        self._get = database.store.get
        monkeypatch.setattr(database.store, "get", self._noted)

    async def _noted(self, table, keys, at, *, room=None):
        kind, rest = table.split(".", 1)
        name = rest.rsplit(".", 1)[0] if kind == "r" else table
        self.asked.append((name, len(keys)))
        found = await self._get(table, keys, at, room=room)
        if work := self.before_given.pop(name, None):
            await work()
        return found


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        # The parent is looked up for the foreign key, and is part of the view's row.
        ("INSERT INTO orders VALUES (40, 1, 3)", ["orders", "customer"]),
        ("UPDATE product SET p_stock = 9 WHERE p_id = 1", ["product"]),
        # Its root is found through its line and its order.
        (
            "UPDATE gift SET g_text = 'red' WHERE g_id = 1",
            ["gift", "line", "orders"],
        ),
    ],
)
async def test_a_row_is_read_once_unless_its_lock_was_released_meanwhile(
    tmp_path, monkeypatch, sql, asked
):
    async with on_full_shop(tmp_path) as database:
        reads = Reads(database, monkeypatch)
        await database.execute(sql)
        names = Counter(name for name, _ in reads.asked)
        assert set(names.values()) == {1}
        of_relations = [name for name in names if not name.startswith("v.")]
        assert of_relations[: len(asked)] == asked


EITHER = {
    "the row": (
        "UPDATE product SET p_stock = p_stock * 10 WHERE p_id = 1",
        "UPDATE product SET p_stock = 7 WHERE p_id = 1",
        "product",
        "SELECT p_stock FROM product WHERE p_id = 1",
        [(70,)],
    ),
    "that the row is there": (
        "UPDATE gift SET g_text = 'red' WHERE g_id = 3",
        "DELETE FROM gift WHERE g_id = 3",
        "gift",
        "SELECT g_text FROM gift WHERE g_id = 3",
        [],
    ),
    "what it hangs on": (
        "UPDATE line SET l_quantity = 7 WHERE l_o_id = 10 AND l_no = 1",
        "UPDATE orders SET o_c_id = 2 WHERE o_id = 10",
        "orders",
        "SELECT c_name, l_quantity FROM customer, orders, line"
        " WHERE c_id = o_c_id AND o_id = l_o_id AND l_o_id = 10 AND l_no = 1",
        [("bob", 7)],
    ),
}
AHEAD = {
    "that no row is there": (
        "INSERT INTO product VALUES (9, 'cap', 1) ON CONFLICT (p_id)"
        " DO UPDATE SET p_stock = product.p_stock + 1",
        "INSERT INTO product VALUES (9, 'hat', 5)",
        "product",
        "SELECT p_name, p_stock FROM product WHERE p_id = 9",
        [("hat", 6)],
    ),
    "its parent, which the view shows": (
        "INSERT INTO orders VALUES (41, 3, 1)",
        "UPDATE customer SET c_name = 'eva' WHERE c_id = 3",
        "orders",
        "SELECT c_name FROM customer, orders WHERE c_id = o_c_id AND o_id = 41",
        [("eva",)],
    ),
}
"""With a local store these are read only under their locks, also the parent for an insert without
an idempotency key."""


@pytest.mark.parametrize(
    ("remote", "what"), [*product([False, True], EITHER), *product([True], AHEAD)]
)
async def test_a_row_changed_between_its_read_and_its_lock_is_read_again(
    tmp_path, monkeypatch, remote, what
):
    """The other transaction has finished before the lock is requested, so there is no wait for
    it."""
    mine, theirs, between, query, after = (EITHER | AHEAD)[what]
    async with on_full_shop(tmp_path) as database:
        monkeypatch.setattr(type(database.store), "remote", remote)
        reads = Reads(database, monkeypatch)
        reads.before_given[between] = lambda: database.execute(theirs)
        await database.execute(mine, idempotency_key="k")
        assert not reads.before_given
        for use_views in (True, False):
            assert await database.fetch(query, use_views=use_views) == after
        await check(database)


async def test_rows_of_a_remote_store_are_requested_in_parallel(tmp_path, monkeypatch):
    """Before any row arrives, these are requested: rows that statements name by key, the parents of
    inserted rows, and the recorded answer of the request."""
    async with on_full_shop(tmp_path) as database:
        monkeypatch.setattr(type(database.store), "remote", True)
        reads, come, get = Reads(database, monkeypatch), asyncio.Event(), database.store.get

        async def slow(table, keys, at, *, room=None):
            asked = asyncio.ensure_future(get(table, keys, at, room=room))
            await come.wait()
            return await asked

        monkeypatch.setattr(database.store, "get", slow)
        request = statements(
            "INSERT INTO orders VALUES (40, 1, 3)",
            "INSERT INTO line VALUES (40, 1, 1, 1), (40, 2, 2, 1)",
            "UPDATE product SET p_stock = 8 WHERE p_id = 1",
            "DELETE FROM customer WHERE c_id = NULL",
            idempotency_key="k",
        )
        writing = asyncio.ensure_future(database.transact(request))
        await until(lambda: len(reads.asked) == 5)
        rows = [("customer", 1), ("line", 2), ("orders", 1), ("product", 2)]
        assert sorted(reads.asked) == [*rows, (outcomes.TABLE, 1)]
        come.set()
        assert [one.affected for one in (await writing).statements] == [1, 2, 1, 0]
        await check(database)


async def test_errors_of_reading_ahead_are_raised_by_their_own_statement(tmp_path, monkeypatch):
    async with on_full_shop(tmp_path) as database:
        monkeypatch.setattr(type(database.store), "remote", True)
        taken = "INSERT INTO product VALUES (1, 'x', 1)"
        senseless = ("UPDATE product SET p_stock = 1 WHERE p_id = ?", ("x",))
        with pytest.raises(UniqueViolation):
            await database.transact(statements(taken, senseless))


async def test_a_search_depends_only_on_the_relations_that_it_reads(tmp_path, monkeypatch):
    """Changes to other relations are neither laid over its snapshot nor compared with it."""
    async with on_full_shop(tmp_path) as database:
        reads = Reads(database, monkeypatch)
        await database.transact(
            statements(
                "UPDATE event SET v_kind = 'none' WHERE v_id = 1",
                "INSERT INTO event (v_id) VALUES (1)",
                "UPDATE product SET p_stock = 9 WHERE p_name = 'pen'",
            )
        )
        assert reads.asked == [("event", 1), ("product", 1)]
