"""Foreign keys and UNIQUE, alone and against concurrent transactions."""

import asyncio

import pytest

from hornbeam_server.schema.errors import ForeignKeyViolation, UniqueViolation
from tests.txlayer.database_world import check, counts, on_shop, run_all
from tests.txlayer.test_transactions_statements import FILL, on_full_shop, statements


async def test_restrict(tmp_path):
    async with on_full_shop(tmp_path) as database:
        for sql in (
            "DELETE FROM customer WHERE c_id = 1",
            "DELETE FROM product WHERE p_id = 1",
            "DELETE FROM customer",
        ):
            with pytest.raises(ForeignKeyViolation):
                await database.execute(sql)
        await database.execute("DELETE FROM customer WHERE c_id = 3")
        for sql in (
            "INSERT INTO orders VALUES (99, 99, 1)",
            "UPDATE line SET l_p_id = 77 WHERE l_no = 1",
            "INSERT INTO gift VALUES (9, 10, 77, 'x')",
        ):
            with pytest.raises(ForeignKeyViolation):
                await database.execute(sql)


async def test_cascade_and_set_null(tmp_path):
    async with on_full_shop(tmp_path) as database:
        result = await database.execute("DELETE FROM orders WHERE o_id = 10")
        assert counts(result.affected, "orders", "line", "gift") == (1, 2, 1)
        found = await database.fetch("SELECT * FROM gift WHERE g_id = 1")
        assert found == [(1, None, None, "bow")]


async def test_a_composite_key_with_a_null_references_nothing(tmp_path):
    async with on_full_shop(tmp_path) as database:
        await run_all(
            database,
            "INSERT INTO gift VALUES (7, 77, NULL, 'half'), (8, NULL, 77, 'half')",
            "UPDATE gift SET g_o_id = NULL WHERE g_id = 1",
        )
        await database.execute("DELETE FROM line WHERE l_o_id = 10 AND l_no = 1")
        assert await database.fetch("SELECT g_no FROM gift WHERE g_id = 1") == [(1,)]


async def test_self_references(tmp_path):
    async with on_shop(tmp_path) as database:
        await run_all(
            database,
            "INSERT INTO employee VALUES (3, 2, 'c'), (2, 1, 'b'), (1, NULL, 'a'), (9, 9, 'own')",
            "INSERT INTO employee VALUES (4, 3, 'd'), (5, 5, 'self')",
        )
        with pytest.raises(ForeignKeyViolation):
            await database.execute("UPDATE employee SET e_boss = 77 WHERE e_id = 3")
        await database.execute("UPDATE employee SET e_boss = 4 WHERE e_id = 1")  # a cycle
        result = await database.execute("DELETE FROM employee WHERE e_id = 2")
        assert result.affected["employee"] == 4
        await database.execute("DELETE FROM employee WHERE e_id = 9")
        assert await database.fetch("SELECT e_id FROM employee") == [(5,)]
        chain = [(n, n - 1 if n > 100 else None) for n in range(100, 1_100)]
        await database.load("employee", ["e_id", "e_boss"], chain)
        deep = await database.execute("DELETE FROM employee WHERE e_id = 100")
        assert deep.affected["employee"] == 1_000


async def test_foreign_keys_are_checked_at_the_end(tmp_path):
    async with on_full_shop(tmp_path) as database:
        result = await database.transact(
            statements(
                "INSERT INTO gift VALUES (9, 90, 1, 'child first')",
                "INSERT INTO line VALUES (90, 1, 90, 1)",
                "INSERT INTO orders VALUES (90, 90, 1)",
                "INSERT INTO customer (c_id, c_name) VALUES (90, 'parent last')",
                "INSERT INTO product (p_id) VALUES (90)",
            )
        )
        assert counts(result.affected, "customer__orders__line__gift") == (1,)
        await database.transact(
            statements(
                "DELETE FROM customer WHERE c_id = 90",
                "INSERT INTO customer (c_id, c_name) VALUES (90, 'again')",
            )
        )
        await database.transact(
            statements(
                "DELETE FROM customer WHERE c_id = 90",
                "UPDATE orders SET o_c_id = 1 WHERE o_c_id = 90",
            )
        )
        with pytest.raises(ForeignKeyViolation):
            await database.transact(
                statements(
                    "DELETE FROM customer WHERE c_id = 3", "INSERT INTO orders VALUES (91, 3, 1)"
                )
            )


async def test_unique(tmp_path):
    async with on_full_shop(tmp_path) as database:
        for sql in (
            "INSERT INTO customer VALUES (4, 'd', 0, 'a@x')",
            "UPDATE customer SET c_email = 'a@x' WHERE c_id = 2",
            "UPDATE customer SET c_email = 'same'",
        ):
            with pytest.raises(UniqueViolation):
                await database.execute(sql)
        await database.execute("INSERT INTO customer (c_id, c_name) VALUES (4, 'd'), (5, 'e')")
        swap = (
            "UPDATE customer SET c_email = CASE c_id WHEN 1 THEN 'b@x' ELSE 'a@x' END"
            " WHERE c_id IN (1, 2)"
        )
        await database.execute(swap)
        await database.transact(
            statements(
                "UPDATE customer SET c_email = NULL WHERE c_id = 1",
                "INSERT INTO customer VALUES (6, 'f', 0, 'b@x')",
                "UPDATE customer SET c_email = 'one' WHERE c_id = 1",
            )
        )
        found = await database.fetch("SELECT c_id, c_email FROM customer WHERE c_email IS NOT NULL")
        assert sorted(found) == [(1, "one"), (2, "a@x"), (6, "b@x")]


def outcomes_of(results):
    return sorted(r if isinstance(r, str) else type(r).__name__ for r in results)


async def race(database, *requests):
    """Run all at the same time; for each "done" or its error."""
    found = await asyncio.gather(*map(database.transact, requests), return_exceptions=True)
    for result in found:
        if isinstance(result, BaseException) and not hasattr(result, "code"):
            raise result
    return [r if isinstance(r, BaseException) else "done" for r in found]


async def test_a_child_is_inserted_while_its_parent_is_deleted(tmp_path):
    """Exactly one of the two commits, whether or not they share a root."""
    async with on_shop(tmp_path) as database:
        for n in range(100, 130):
            await run_all(
                database,
                f"INSERT INTO customer (c_id, c_name) VALUES ({n}, 'x')",
                f"INSERT INTO product (p_id) VALUES ({n})",
                f"INSERT INTO orders VALUES ({n}, NULL, 1)",
            )
            pairs = [
                (
                    f"INSERT INTO orders VALUES ({n}000, {n}, 1)",
                    f"DELETE FROM customer WHERE c_id = {n}",
                ),
                (
                    f"INSERT INTO line VALUES ({n}, 1, {n}, 1)",
                    f"DELETE FROM product WHERE p_id = {n}",
                ),
            ]
            for pair in pairs:
                found = await race(database, *map(statements, pair if n % 2 else pair[::-1]))
                assert outcomes_of(found) == ["ForeignKeyViolation", "done"]


async def test_a_child_that_moves_away_survives_its_parent_s_cascade(tmp_path):
    async with on_shop(tmp_path) as database:
        for n in range(100, 130):
            await run_all(
                database,
                f"INSERT INTO employee VALUES ({n}, NULL, 'boss'), ({n}0, {n}, 'child')",
            )
            orders = [
                f"UPDATE employee SET e_boss = NULL WHERE e_id = {n}0",
                f"DELETE FROM employee WHERE e_id = {n}",
            ]
            assert outcomes_of(
                await race(database, *map(statements, orders[:: 1 - 2 * (n % 2)]))
            ) == ["done", "done"]
            left = await database.fetch("SELECT e_boss FROM employee WHERE e_id = ?", (n * 10,))
            assert left in ([], [(None,)])


async def test_unique_values_and_keys_under_concurrency(tmp_path):
    async with on_full_shop(tmp_path) as database:
        same_email = [
            statements((f"INSERT INTO customer VALUES ({n}, 'x', 0, ?)", ("only@one",)))
            for n in range(100, 120)
        ]
        assert outcomes_of(await race(database, *same_email)).count("done") == 1
        same_key = [statements(f"INSERT INTO orders VALUES (900, {n}, 1)") for n in (1, 2, 3)]
        assert outcomes_of(await race(database, *same_key)).count("done") == 1
        upsert = "INSERT INTO product VALUES (50, 'x', 1) ON CONFLICT (p_id)"
        upsert += " DO UPDATE SET p_stock = product.p_stock + 1"
        assert set(outcomes_of(await race(database, *[statements(upsert)] * 30))) == {"done"}
        assert await database.fetch("SELECT p_stock FROM product WHERE p_id = 50") == [(30,)]


async def test_concurrent_swaps_keep_values_unique(tmp_path):
    """Each row holds one value of a unique column at any time, however they are swapped."""
    async with on_shop(tmp_path) as database:
        await database.load(
            "customer", ["c_id", "c_name", "c_email"], [(n, "x", f"e{n}") for n in range(6)]
        )
        swaps = [
            statements(
                (
                    "UPDATE customer SET c_email = CASE c_id WHEN :a THEN :to_a ELSE :to_b END"
                    " WHERE c_id IN (:a, :b)",
                    {"a": a, "b": b, "to_a": f"e{b}", "to_b": f"e{a}"},
                )
            )
            for a in range(6)
            for b in range(a)
        ]
        await race(database, *swaps * 2)
        rows = await database.fetch("SELECT c_email FROM customer")
        assert len({email for (email,) in rows}) == 6


async def test_opposite_lock_orders_cause_no_deadlock(tmp_path):
    async with on_shop(tmp_path) as database:
        await run_all(database, *FILL)
        there = "UPDATE customer SET c_balance = c_balance - 1 WHERE c_id = 1"
        back = "UPDATE customer SET c_balance = c_balance + 1 WHERE c_id = 2"
        both = [statements(there, back), statements(back, there)] * 40
        assert set(outcomes_of(await race(database, *both))) == {"done"}
        found = await database.fetch(
            "SELECT c_id, CAST(c_balance AS INT) FROM customer WHERE c_id < 3"
        )
        assert sorted(found) == [(1, -70), (2, 100)]
        await check(database)
