"""WITH whose parts write: `WITH moved AS (DELETE … RETURNING *) INSERT INTO … FROM moved`."""

import pytest

from hornbeam_server.schema.errors import (
    ForeignKeyViolation,
    SqlError,
    UniqueViolation,
    Unsupported,
)
from tests.txlayer.test_transactions_other_rows import numbers, written
from tests.txlayer.test_transactions_statements import on_full_shop, statements


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (
            "WITH moved AS (DELETE FROM gift WHERE g_id < 3 RETURNING *) INSERT INTO gift"
            " SELECT g_id + 100, g_o_id, g_no, g_text || '!' FROM moved RETURNING *",
            [(101, 10, 1, "bow!"), (102, 20, 1, "box!")],
        ),
        (
            "WITH gone (a, b) AS (DELETE FROM gift RETURNING g_id, g_text) UPDATE customer"
            " SET c_name = b FROM gone WHERE c_id = a RETURNING c_id, c_name, a + 1",
            [(1, "bow", 2), (2, "box", 3), (3, "none", 4)],
        ),
        (
            "WITH gone AS (DELETE FROM gift RETURNING g_o_id) DELETE FROM orders USING gone"
            " WHERE o_id = g_o_id AND o_id = 20 RETURNING o_id, g_o_id",
            [(20, 20)],
        ),
        (
            "WITH a AS (UPDATE customer SET c_balance = c_balance + 1 RETURNING c_id, c_balance),"
            " b AS (SELECT c_id FROM a WHERE c_balance > 15),"
            " c AS (INSERT INTO orders SELECT c_id + 500, c_id, 1 FROM b RETURNING o_id, o_total)"
            " SELECT o_id, o_total, (SELECT count(*) FROM a), (SELECT count(*) FROM orders) FROM c",
            [(502, 1, 3, 4)],
        ),
        (
            "WITH x AS (INSERT INTO product VALUES (7, 'p', 1) RETURNING CAST(md5(p_name) AS TEXT)"
            " AS m, p_id AS m2, p_id AS m3) SELECT length(m), m2 + m3, now() IS NOT NULL FROM x",
            [(32, 14, True)],
        ),
        (
            "WITH x AS (DELETE FROM gift) SELECT count(*) FROM gift",
            [(3,)],
        ),
        (
            "WITH product AS (DELETE FROM gift WHERE g_id = 1 RETURNING g_id AS p_id) SELECT p_id"
            " FROM product",
            [(1,)],
        ),
    ],
)
async def test_parts_that_write(tmp_path, sql, wanted):
    """All read the state before the statement; RETURNING alone gives rows to the other parts."""
    async with on_full_shop(tmp_path) as database:
        assert numbers(await written(database, sql)) == wanted


async def test_parts_have_their_parameters(tmp_path):
    async with on_full_shop(tmp_path) as database:
        sql = (
            "WITH gone AS (DELETE FROM gift WHERE g_id = ? RETURNING g_id, g_text) INSERT INTO"
            " product SELECT g_id + ?, g_text, ? FROM gone WHERE g_id < ? RETURNING *"
        )
        assert await written(database, sql, (1, 10, 5, 1.5)) == [(11, "bow", 5)]
        named = (
            "WITH gone AS (DELETE FROM gift WHERE g_id = :g RETURNING g_id) SELECT :x || g_id, :g"
            " FROM gone"
        )
        assert await written(database, named, {"g": 2, "x": "n"}) == [("n2", 2)]
        for parameters in ((1, 2, 3), (1, 2, 3, 4, 5)):
            with pytest.raises(SqlError, match="4 parameters"):
                await database.execute(sql, parameters)


async def test_a_statement_of_parts_is_one_change(tmp_path):
    """It sees what its transaction has done; if one part fails, none has an effect."""
    async with on_full_shop(tmp_path) as database:
        move = (
            "WITH moved AS (DELETE FROM gift RETURNING *) INSERT INTO product SELECT g_id, g_text,"
            " 1 FROM moved RETURNING p_id"
        )
        with pytest.raises(UniqueViolation):
            await database.execute(move)
        assert await database.fetch("SELECT count(*) FROM gift") == [(3,)]
        result = await database.transact(
            statements(
                "DELETE FROM gift WHERE g_id < 3",
                move,
                "WITH x AS (UPDATE product SET p_stock = 9 WHERE p_id = 3 RETURNING *)"
                " SELECT p_name, p_stock, (SELECT p_stock FROM product WHERE p_id = 3) FROM x",
            )
        )
        assert [s.rows for s in result.statements[1:]] == [((3,),), (("none", 9, 1),)]
        with pytest.raises(ForeignKeyViolation):
            await database.execute("WITH x AS (DELETE FROM customer RETURNING *) SELECT 1")


async def test_many_rows_go_from_part_to_part(tmp_path):
    async with on_full_shop(tmp_path) as database:
        await database.execute(
            "INSERT INTO product SELECT n, 'n' || n, n FROM range(10, 3010) r(n)"
        )
        done = await database.execute(
            "WITH gone AS (DELETE FROM product WHERE p_id >= 10 RETURNING *) INSERT INTO product"
            " SELECT p_id + 10000, p_name, p_stock FROM gone"
        )
        assert done.statements[0].affected == 3000
        found = await database.fetch("SELECT count(*), sum(p_stock), min(p_id) FROM product")
        assert found == [(3002, 10 + sum(range(10, 3010)), 1)]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("WITH x AS (DELETE FROM gift) SELECT * FROM x", "has no RETURNING"),
        ("WITH x AS (DELETE FROM gift RETURNING url_encode(g_text) AS m) SELECT 1", "type of m"),
        ("WITH RECURSIVE x AS (DELETE FROM gift RETURNING *) SELECT 1", "RECURSIVE"),
        ("SELECT * FROM (WITH x AS (DELETE FROM gift RETURNING *) SELECT 1)", "CTE must be"),
        ("WITH x AS (DELETE FROM gift RETURNING nothing) SELECT 1", "nothing is unknown"),
        ("WITH x AS (DELETE FROM customer__orders RETURNING *) SELECT 1", "is a view"),
    ],
)
async def test_refused_parts(tmp_path, sql, message):
    async with on_full_shop(tmp_path) as database:
        with pytest.raises((SqlError, Unsupported), match=message):
            await database.execute(sql)
