"""Writes that take values from other rows: UPDATE … FROM, DELETE … USING, and subqueries."""

from decimal import Decimal

import pytest

from hornbeam_server.query.optimizer.access_paths import Reach
from hornbeam_server.schema.errors import SqlError, TypeMismatch, UniqueViolation
from hornbeam_server.txlayer.transactions.searches import Searches
from tests.txlayer.database_world import on_shop, run_all
from tests.txlayer.test_transactions_statements import on_full_shop, statements


async def written(database, sql, parameters=()):
    """The rows that RETURNING gives, in order."""
    done = await database.execute(sql, parameters)
    return sorted(done.statements[0].rows, key=repr)


def numbers(rows):
    """Rows with decimals as floats, which compare with the numbers of a test."""
    return [tuple(float(v) if isinstance(v, Decimal) else v for v in row) for row in rows]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (
            "UPDATE customer SET c_balance = c_balance + o_total FROM orders o"
            " WHERE o.o_c_id = c_id AND o_id > 10 RETURNING c_id, c_balance, o.o_id",
            [(1, 17, 11), (2, 29, 20)],
        ),
        (
            "UPDATE customer AS c SET c_balance = q.n, c_email = upper(c.c_email) FROM (SELECT"
            " o_c_id, count(*) AS n FROM orders GROUP BY o_c_id) q WHERE q.o_c_id = c.c_id"
            " RETURNING c.c_id, c_balance, c_email, q.n * 2",
            [(1, 2, "A@X", 4), (2, 1, "B@X", 2)],
        ),
        (
            "UPDATE orders SET o_total = l_quantity FROM line JOIN product ON p_id = l_p_id"
            " WHERE l_o_id = o_id AND p_name = 'ink' RETURNING orders.*, p_name",
            [(10, 1, 6, "ink")],
        ),
        (
            "UPDATE orders SET o_total = coalesce(l_quantity, -1) FROM customer LEFT JOIN line"
            " ON l_no = c_id WHERE c_id = o_c_id AND o_id < 11 RETURNING o_id, o_total, l_no",
            [(10, 5, 1)],
        ),
        (
            "UPDATE customer c SET c_name = d.c_name FROM customer d WHERE d.c_id = c.c_id + 1"
            " RETURNING c.c_id, c.c_name, d.c_id",
            [(1, "bob", 2), (2, "cy", 3)],
        ),
        (
            "UPDATE customer SET c_balance = v.b FROM (VALUES (1, 100), (3, 300)) AS v(k, b)"
            " WHERE v.k = c_id RETURNING c_id, c_balance + v.b",
            [(1, 200), (3, 600)],
        ),
        (
            "WITH rich AS (SELECT c_id AS k FROM customer WHERE c_balance > 15) UPDATE orders"
            " SET o_total = (SELECT count(*) FROM rich) FROM rich WHERE o_c_id = k"
            " RETURNING o_id, o_total, k",
            [(20, 1, 2)],
        ),
        (
            "UPDATE orders SET o_id = o_id + v.n FROM (VALUES (1000)) AS v(n) WHERE o_id = 30"
            " RETURNING o_id, n",
            [(1030, 1000)],
        ),
        (
            "DELETE FROM gift USING line, orders o WHERE g_o_id = l_o_id AND g_no = l_no AND"
            " l_o_id = o.o_id AND o_total > 6 RETURNING g_id, o.o_total, l_quantity",
            [(2, 9, 8)],
        ),
        (
            "DELETE FROM gift g USING gift h WHERE h.g_id = g.g_id + 1 RETURNING g.g_id, h.g_text",
            [(1, "box"), (2, "none")],
        ),
        (
            "DELETE FROM gift USING line RETURNING g_id",
            [(1,), (2,), (3,)],
        ),
        (
            "DELETE FROM gift USING (SELECT k + 1 AS k FROM (VALUES (1)) AS v(k)) AS v"
            " WHERE g_id = v.k RETURNING g_id",
            [(2,)],
        ),
    ],
)
async def test_rows_of_from(tmp_path, sql, wanted):
    async with on_full_shop(tmp_path) as database:
        assert numbers(await written(database, sql)) == wanted


@pytest.mark.parametrize(
    ("assigned", "returned", "wanted"),
    [
        ("o_total", "o_id", (5, 10)),
        ("-o_total", "o_id", (-5, 10)),
        ("o_id", "o_total", (8, None)),
        ("coalesce(o_total, -1)", "o_id", (5, 10)),
        ("1", "o_total", (1, 5)),
    ],
)
async def test_a_row_that_several_rows_of_from_match_is_written_once(
    tmp_path, assigned, returned, wanted
):
    """The columns of FROM that are used decide, in their order: the smallest counts, NULL is after
    all others."""
    async with on_full_shop(tmp_path) as database:
        await run_all(database, "INSERT INTO orders VALUES (8, 1, NULL), (9, 1, 6)")
        sql = (
            f"UPDATE customer SET c_balance = {assigned} FROM orders WHERE o_c_id = c_id"
            f" AND c_id = 1 RETURNING c_balance, {returned}"
        )
        assert numbers(await written(database, sql)) == [wanted]


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("UPDATE product SET p_stock = l_quantity FROM line WHERE p_id = l_p_id AND {}", None),
        ("DELETE FROM product USING line WHERE p_id = l_p_id AND {}", None),
        ("UPDATE orders SET o_total = l_quantity FROM line WHERE l_o_id = o_id AND {}", 1),
        (
            "UPDATE customer SET c_balance = b FROM (VALUES (1, 100), (?, ?)) AS v(k, b)"
            " WHERE v.k = c_id",
            1,
        ),
        (
            "DELETE FROM gift USING (VALUES (1, 'a'), (2, 'b')) AS v(k, b)"
            " WHERE g_text <> b AND g_id = k",
            1,
        ),
    ],
)
async def test_rows_of_from_give_the_keys_of_look_ups(tmp_path, sql, read):
    """A few rows of FROM do not read the whole target."""
    async with on_full_shop(tmp_path) as database:
        plan = database.manager.state.plan(sql.format("l_o_id = 10 AND l_no = 1"))
        accesses = plan.find.query.prepared.plan.accesses
        assert len(accesses) == (read or 2)
        assert all(access.reach is Reach.POINT for access in accesses), accesses


async def test_values_in_from_find_the_rows_that_equal_them(tmp_path):
    async with on_full_shop(tmp_path) as database:
        sql = (
            "UPDATE customer SET c_balance = b FROM (VALUES (:a, 100), (:b, 200), (3.5, 300)) AS"
            " v(k, b) WHERE c_id = v.k RETURNING c_id, c_balance"
        )
        for a, b, wanted in (
            (1, 2, [(1, 100), (2, 200)]),
            (1, None, [(1, 100)]),
            (1.5, 2, [(2, 200)]),
            (Decimal("2.0"), 10**12, [(2, 100)]),
        ):
            assert numbers(await written(database, sql, {"a": a, "b": b})) == wanted


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (
            "UPDATE customer SET c_balance = (SELECT sum(o_total) FROM orders WHERE o_c_id = c_id)"
            " RETURNING c_id, c_balance",
            [(1, 12), (2, 9), (3, None)],
        ),
        (
            "UPDATE customer SET c_balance = 1 + (SELECT max(o_total) FROM orders WHERE o_c_id ="
            " customer.c_id AND o_total > customer.c_balance - 10) WHERE c_id = 1"
            " RETURNING c_balance",
            [(8,)],
        ),
        (
            "UPDATE customer SET (c_balance, c_email) = (SELECT o_total, 'at ' || o_id FROM orders"
            " WHERE o_c_id = c_id ORDER BY o_id DESC LIMIT 1) RETURNING c_id, c_balance, c_email",
            [(1, 7, "at 11"), (2, 9, "at 20"), (3, None, None)],
        ),
        (
            "UPDATE customer SET (c_balance, c_name) = (1, upper(c_name)), (c_email) = ROW(DEFAULT)"
            " WHERE c_id < 3 RETURNING *",
            [(1, "ANN", 1, None), (2, "BOB", 1, None)],
        ),
        (
            "UPDATE customer SET c_name = CASE WHEN EXISTS (SELECT 1 FROM orders WHERE o_c_id ="
            " c_id) THEN 'buys' WHEN c_id = ANY (SELECT 3) THEN 'any' END RETURNING c_id, c_name",
            [(1, "buys"), (2, "buys"), (3, "any")],
        ),
        (
            "INSERT INTO orders VALUES ((SELECT max(o_id) + 1 FROM orders), (SELECT c_id FROM"
            " customer WHERE c_email = 'b@x'), 3), (40, (SELECT c_id FROM customer WHERE c_id = 9),"
            " 1) RETURNING o_id, (SELECT c_name FROM customer WHERE c_id = o_c_id), EXISTS (SELECT"
            " 1 FROM line WHERE l_o_id = o_id), o_c_id IN (SELECT c_id FROM customer), (SELECT"
            " count(*) FROM orders)",
            [(31, "bob", False, True, 4), (40, None, False, None, 4)],
        ),
        (
            "INSERT INTO customer (c_id, c_name) VALUES (1, 'new'), (2, 'new'), (3, 'new')"
            " ON CONFLICT (c_id) DO UPDATE SET c_balance = customer.c_balance + (SELECT count(*)"
            " FROM orders WHERE o_c_id = excluded.c_id) WHERE EXISTS (SELECT 1 FROM orders WHERE"
            " o_c_id = customer.c_id) RETURNING c_id, c_name, c_balance",
            [(1, "ann", 12), (2, "bob", 21)],
        ),
        (
            "DELETE FROM gift RETURNING g_id, (SELECT count(*) FROM gift h WHERE h.g_id <"
            " gift.g_id) + (SELECT count(*) FROM gift)",
            [(1, 3), (2, 4), (3, 5)],
        ),
        (
            "UPDATE customer SET c_balance = ((SELECT o_id FROM orders ORDER BY o_id DESC) LIMIT 1)"
            " WHERE c_id = 1 RETURNING c_balance, ((SELECT 1 UNION SELECT 2) ORDER BY 1 LIMIT 1)",
            [(30, 1)],
        ),
        (
            "UPDATE customer SET c_name = 'z' WHERE c_id = 2 RETURNING c_name,"
            " (SELECT c_name FROM customer d WHERE d.c_id = customer.c_id)",
            [("z", "bob")],
        ),
    ],
)
async def test_subqueries_as_values(tmp_path, sql, wanted):
    """They read the state before the statement, also those of RETURNING, as in PostgreSQL."""
    async with on_full_shop(tmp_path) as database:
        assert numbers(await written(database, sql)) == wanted


async def test_parameters_in_values_from_other_rows(tmp_path):
    async with on_full_shop(tmp_path) as database:
        sql = (
            "UPDATE customer SET c_balance = (SELECT sum(o_total) FROM orders WHERE o_c_id = c_id"
            " AND o_total < ?) + ? WHERE {} c_id = ? RETURNING c_balance,"
            " (SELECT count(*) FROM orders WHERE o_total > ?)"
        )
        for where in ("", "c_name = c_name AND"):
            found = await written(database, sql.format(where), (6, 100, 1, Decimal("6.5")))
            assert numbers(found) == [(105, 2)]
        named = (
            "UPDATE customer SET c_balance = o_total + :n FROM orders WHERE o_c_id = c_id"
            " AND o_id = :o RETURNING c_balance - :n, o_id"
        )
        assert numbers(await written(database, named, {"n": 1, "o": 20})) == [(9, 20)]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE customer SET c_balance = (SELECT o_total FROM orders)",
        "UPDATE customer SET c_balance = (SELECT o_total FROM orders WHERE o_c_id = c_id)"
        " WHERE c_id = 1",
        "UPDATE customer SET (c_balance, c_id) = (SELECT o_total, o_id FROM orders)",
        "INSERT INTO customer (c_id, c_name) VALUES ((SELECT o_id FROM orders), 'x')",
        "DELETE FROM gift RETURNING (SELECT o_id FROM orders)",
    ],
)
async def test_a_value_of_several_rows_is_an_error(tmp_path, sql):
    async with on_full_shop(tmp_path) as database:
        with pytest.raises(SqlError, match=r"[Mm]ore than one row"):
            await database.execute(sql)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("UPDATE customer SET c_email = 'x' FROM orders WHERE o_c_id = c_id", UniqueViolation),
        ("UPDATE line SET l_quantity = p_name FROM product WHERE p_id = l_p_id", TypeMismatch),
        ("UPDATE line SET l_quantity = (SELECT 'x') WHERE l_no = 1", TypeMismatch),
    ],
)
async def test_values_from_other_rows_are_checked_like_others(tmp_path, sql, error):
    async with on_full_shop(tmp_path) as database:
        with pytest.raises(error):
            await database.execute(sql)


async def test_statements_see_other_rows_as_their_transaction_has_left_them(tmp_path):
    async with on_full_shop(tmp_path) as database:
        result = await database.transact(
            statements(
                "UPDATE orders SET o_total = o_total + 100 WHERE o_id = 20",
                "UPDATE customer SET c_balance = o_total FROM orders WHERE o_c_id = c_id AND"
                " o_id = 20 RETURNING c_balance",
                "INSERT INTO orders VALUES (50, 3, (SELECT max(c_balance) FROM customer))"
                " RETURNING o_total",
                "DELETE FROM orders USING customer WHERE o_c_id = c_id AND c_balance > 100"
                " RETURNING o_id",
            )
        )
        rows = [numbers(statement.rows) for statement in result.statements]
        assert rows == [[], [(109,)], [(109,)], [(20,)]]


_STOCK = "(SELECT p_stock FROM product WHERE p_id = 1)"


@pytest.mark.parametrize(
    ("sql", "locks_first"),
    [
        (
            "UPDATE customer SET c_balance = c_balance + p_stock FROM product WHERE p_id = 1"
            " AND c_id = 2",
            False,
        ),
        (f"UPDATE customer SET c_balance = c_balance + {_STOCK} WHERE c_id = 2", True),
        (f"UPDATE customer SET c_balance = c_balance + {_STOCK} WHERE c_name = 'bob'", False),
        (
            "INSERT INTO customer (c_id, c_name) VALUES (2, '') ON CONFLICT (c_id) DO UPDATE"
            f" SET c_balance = customer.c_balance + {_STOCK}",
            False,
        ),
    ],
)
async def test_a_written_row_is_not_newer_than_the_rows_that_were_read(tmp_path, sql, locks_first):
    """Another transaction changes both while the statement searches. Without a check of the
    written row, the statement would see one of the two changes (read skew)."""
    changes = ["UPDATE product SET p_stock = 1000 WHERE p_id = 1"]
    if not locks_first:
        changes.append("UPDATE customer SET c_balance = 500 WHERE c_id = 2")
    async with on_full_shop(tmp_path) as database:
        plain, first = Searches.reader, []

        async def search(self, sources):
            found = await plain(self, sources)
            if not first:
                first.append(self)
                await database.transact(statements(*changes))
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Searches, "reader", search)
            await database.execute(sql)
        (balance,) = await database.fetch("SELECT c_balance FROM customer WHERE c_id = 2")
        assert float(balance[0]) == (25 if locks_first else 1500)


async def test_a_statement_runs_after_one_of_the_same_rows(tmp_path):
    async with on_shop(tmp_path) as database:
        await run_all(
            database,
            "INSERT INTO employee VALUES (1, NULL, 'a'), (2, 1, 'b'), (3, 2, 'c')",
            "UPDATE employee e SET e_boss = b.e_boss FROM employee b WHERE b.e_id = e.e_boss",
        )
        found = await database.fetch("SELECT e_id, e_boss FROM employee ORDER BY e_id")
        assert found == [(1, None), (2, None), (3, 1)]
