"""MERGE: the actions of PostgreSQL, over one search."""

import pytest

from hornbeam_server.schema.errors import (
    ForeignKeyViolation,
    SqlError,
    TransactionAborted,
    UniqueViolation,
    UnknownName,
    Unsupported,
)
from hornbeam_server.txlayer.transactions.searches import Searches
from tests.txlayer.database_world import on_shop, run_all

STOCK = "SELECT p_id, p_name, p_stock FROM product ORDER BY p_id"
BEFORE = [(1, "a", 5), (2, "b", 2), (3, "c", 3)]
SOURCE = "(VALUES (1, 10), (2, 0), (4, 40)) AS s (id, n)"


async def affected(database, sql, parameters=()):
    done = await database.execute(sql, parameters)
    return done.statements[0].affected


async def on_products(database):
    for row in BEFORE:
        await database.execute("INSERT INTO product VALUES (?, ?, ?)", row)


@pytest.mark.parametrize(
    ("whens", "count", "wanted"),
    [
        (
            "WHEN MATCHED THEN UPDATE SET p_stock = p.p_stock + s.n, p_name = upper(p_name)"
            " WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'new', s.n)",
            3,
            [(1, "A", 15), (2, "B", 2), (3, "c", 3), (4, "new", 40)],
        ),
        (
            "WHEN MATCHED AND s.n > 5 THEN DELETE WHEN MATCHED THEN UPDATE SET p_name = 'kept'",
            2,
            [(2, "kept", 2), (3, "c", 3)],
        ),
        (
            "WHEN MATCHED AND n = p_stock - 2 THEN DELETE WHEN NOT MATCHED THEN DO NOTHING",
            1,
            [(1, "a", 5), (3, "c", 3)],
        ),
        (
            "WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED AND n < 0 THEN INSERT VALUES (9, '', 1)",
            0,
            BEFORE,
        ),
        (
            "WHEN MATCHED AND n > 5 THEN DO NOTHING WHEN MATCHED THEN DELETE",
            1,
            [(1, "a", 5), (3, "c", 3)],
        ),
        (
            "WHEN NOT MATCHED THEN INSERT (p_id, p_stock) VALUES (id * 10, DEFAULT)",
            1,
            [*BEFORE, (40, None, 0)],
        ),
        (
            "WHEN MATCHED THEN UPDATE SET (p_name, p_stock) = ROW(p_name || id, DEFAULT)",
            2,
            [(1, "a1", 0), (2, "b2", 0), (3, "c", 3)],
        ),
        (
            "WHEN MATCHED THEN UPDATE SET p_stock = (SELECT max(p_stock) FROM product) + n",
            2,
            [(1, "a", 15), (2, "b", 5), (3, "c", 3)],
        ),
        (
            "WHEN MATCHED AND EXISTS (SELECT 1 FROM product q WHERE q.p_stock = p.p_stock + 1)"
            " THEN DELETE",
            1,
            [(1, "a", 5), (3, "c", 3)],
        ),
        (
            "WHEN NOT MATCHED THEN INSERT (p_id, p_name) VALUES (id, (SELECT min(p_name)"
            " FROM product WHERE p_stock < n))",
            1,
            [*BEFORE, (4, "a", 0)],
        ),
        (  # a value is computed for the pairs of its action alone
            "WHEN MATCHED AND n > 0 THEN UPDATE SET p_stock = 100 / n WHEN MATCHED THEN DELETE",
            2,
            [(1, "a", 10), (3, "c", 3)],
        ),
    ],
)
async def test_the_first_when_that_holds_decides(tmp_path, whens, count, wanted):
    async with on_shop(tmp_path) as database:
        await on_products(database)
        sql = f"MERGE INTO product AS p USING {SOURCE} ON p.p_id = s.id {whens}"
        assert await affected(database, sql) == count
        assert await database.fetch(STOCK) == wanted


@pytest.mark.parametrize(
    ("source", "condition"),
    [
        ("(SELECT ? AS id, ? AS n)", "p.p_id = s.id"),
        ("(VALUES (?, ?))", "s.id = p.p_id AND TRUE"),
        ("(SELECT v.a, v.b FROM (VALUES (?, ?)) AS v (a, b))", "p.p_id - s.id = 0"),
    ],
)
async def test_a_source_with_parameters(tmp_path, source, condition):
    async with on_shop(tmp_path) as database:
        await on_products(database)
        sql = (
            f"MERGE INTO product p USING {source} AS s (id, n) ON {condition}"
            " WHEN MATCHED THEN UPDATE SET p_stock = p_stock + s.n + ?"
            " WHEN NOT MATCHED THEN INSERT (p_id, p_stock) VALUES (s.id, s.n)"
        )
        assert await affected(database, sql, (3, 4, 100)) == 1
        assert await affected(database, sql, (7, 4, 100)) == 1
        assert await affected(database, sql, (7, 1, 0)) == 1
        assert await database.fetch(STOCK) == [*BEFORE[:2], (3, "c", 107), (7, None, 5)]


async def test_the_source_may_be_a_relation_a_view_or_a_cte_that_writes(tmp_path):
    async with on_shop(tmp_path) as database:
        await on_products(database)
        await run_all(
            database,
            "INSERT INTO customer (c_id, c_name) VALUES (1, 'ann'), (2, 'bob')",
            "INSERT INTO orders VALUES (10, 1, 5), (20, 2, 7)",
            "MERGE INTO product USING customer ON p_id = c_id WHEN MATCHED THEN UPDATE SET"
            " p_name = c_name",
            "MERGE INTO product USING customer__orders v ON p_id = v.o_id"
            " WHEN NOT MATCHED THEN INSERT (p_id, p_name) VALUES (o_id, c_name)",
        )
        await database.execute(
            "WITH gone AS (DELETE FROM orders WHERE o_id = 20 RETURNING o_id, o_total)"
            " MERGE INTO product USING gone ON p_id = o_id WHEN MATCHED THEN UPDATE SET"
            " p_stock = o_total"
        )
        assert await database.fetch(STOCK) == [
            (1, "ann", 5),
            (2, "bob", 2),
            (3, "c", 3),
            (10, "ann", 0),
            (20, "bob", 7),
        ]


async def test_a_row_may_be_written_once(tmp_path):
    async with on_shop(tmp_path) as database:
        await on_products(database)
        twice = "MERGE INTO product USING (VALUES (1, 1), (1, 2)) AS s (id, n) ON p_id = id"
        for whens in (
            "WHEN MATCHED THEN UPDATE SET p_stock = n",
            "WHEN MATCHED AND n = 1 THEN UPDATE SET p_stock = n WHEN MATCHED THEN DELETE",
        ):
            with pytest.raises(SqlError, match=r"a second time: \(p_id = 1\)"):
                await database.execute(f"{twice} {whens}")
        await database.execute(
            f"{twice} WHEN MATCHED AND n = 1 THEN DO NOTHING WHEN MATCHED THEN UPDATE"
            " SET p_stock = n * 50"
        )
        with pytest.raises(UniqueViolation, match="already"):
            await database.execute(
                "MERGE INTO product USING (VALUES (8), (8)) AS s (id) ON p_id = id"
                " WHEN NOT MATCHED THEN INSERT (p_id) VALUES (id)"
            )
        assert await database.fetch(STOCK) == [(1, "a", 100), *BEFORE[1:]]


async def test_actions_of_foreign_keys_follow(tmp_path):
    async with on_shop(tmp_path) as database:
        await run_all(
            database,
            "INSERT INTO employee VALUES (1, NULL, 'boss'), (2, 1, 'b'), (3, 2, 'c'), (4, 1, 'd')",
            "MERGE INTO employee USING (VALUES (2, 0), (3, 4), (4, 1)) AS s (id, boss)"
            " ON e_id = id WHEN MATCHED AND boss = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET"
            " e_boss = boss, e_name = e_name || '!'",
        )
        found = await database.fetch("SELECT e_id, e_boss, e_name FROM employee ORDER BY e_id")
        assert found == [(1, None, "boss"), (3, 4, "c!"), (4, 1, "d!")]
        with pytest.raises(ForeignKeyViolation):
            await database.execute(
                "MERGE INTO employee USING (SELECT 9 AS id) s ON e_id = id"
                " WHEN NOT MATCHED THEN INSERT VALUES (id, 77, '')"
            )


async def test_numbers_and_defaults_of_inserted_rows(tmp_path):
    async with on_shop(tmp_path) as database:
        await run_all(
            database,
            "MERGE INTO event USING (VALUES (1), (2)) AS s (n) ON v_id = -n"
            " WHEN NOT MATCHED AND n = 1 THEN INSERT DEFAULT VALUES"
            " WHEN NOT MATCHED THEN INSERT (v_id, v_kind) VALUES (DEFAULT, 'k' || n)",
        )
        assert await database.fetch("SELECT v_kind FROM event ORDER BY 1") == [("k2",), ("none",)]


async def test_a_row_that_appears_after_the_search_is_matched_in_the_next_attempt(
    tmp_path, monkeypatch
):
    async with on_shop(tmp_path) as database:
        unchanged, tries = Searches.require_unchanged, []

        async def raced(self, relation, keys):
            tries.append(keys)
            if len(tries) == 2:  # the first is that of the matched rows
                raise TransactionAborted("A row of product changed after this snapshot.")
            await unchanged(self, relation, keys)

        monkeypatch.setattr(Searches, "require_unchanged", raced)
        await database.execute(
            "MERGE INTO product USING (SELECT 1 AS id) s ON p_id = id"
            " WHEN NOT MATCHED THEN INSERT (p_id) VALUES (id)"
        )
        assert tries == [[], [(1,)], [], [(1,)]]


@pytest.mark.parametrize(
    ("sql", "error", "said"),
    [
        ("MERGE INTO product USING s ON p_id = 1 WHEN MATCHED THEN DELETE", UnknownName, "s is"),
        (
            "MERGE INTO product p USING (SELECT 1 AS n WHERE p.p_id = 1) s ON p_id = n"
            " WHEN MATCHED THEN DELETE",
            UnknownName,
            "p",
        ),
        (
            f"MERGE INTO product USING {SOURCE} ON p_id = id WHEN NOT MATCHED THEN INSERT (p_id)"
            " VALUES (p_stock)",
            UnknownName,
            "p_stock",
        ),
        (
            f"MERGE INTO product USING {SOURCE} ON p_id = id WHEN NOT MATCHED THEN UPDATE SET"
            " p_stock = 1",
            SqlError,
            "WHEN NOT MATCHED takes INSERT",
        ),
        (
            f"MERGE INTO product USING {SOURCE} ON p_id = id WHEN MATCHED THEN INSERT (p_id)"
            " VALUES (1)",
            SqlError,
            "WHEN MATCHED takes UPDATE",
        ),
        (
            f"MERGE INTO product USING {SOURCE} ON p_id = id WHEN NOT MATCHED BY SOURCE THEN"
            " DELETE",
            Unsupported,
            "BY SOURCE",
        ),
        (
            f"MERGE INTO product USING {SOURCE} ON p_id = id WHEN MATCHED THEN DELETE RETURNING *",
            Unsupported,
            "RETURNING",
        ),
        (
            f"MERGE INTO product USING {SOURCE} ON p_id = id WHEN NOT MATCHED THEN INSERT (p_id)"
            " VALUES (1, 2)",
            SqlError,
            "2 values for 1 columns",
        ),
        (
            f"MERGE INTO product USING {SOURCE} ON p_id = id WHEN MATCHED THEN UPDATE SET"
            " p_stock = 1 WHERE n = 1",
            Unsupported,
            "not supported",
        ),
        (
            f"MERGE INTO customer__orders USING {SOURCE} ON o_id = id WHEN MATCHED THEN DELETE",
            Unsupported,
            "is a view",
        ),
    ],
)
async def test_refusals(tmp_path, sql, error, said):
    async with on_shop(tmp_path) as database:
        await on_products(database)
        with pytest.raises(error, match=said):
            await database.execute(sql)
        assert await database.fetch(STOCK) == BEFORE
