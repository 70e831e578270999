"""TRUNCATE, INSERT OR …, REPLACE INTO, DEFAULT VALUES, aliases, and names with a schema."""

from decimal import Decimal

import pytest

from hornbeam_server.schema.errors import LimitExceeded, SqlError, UniqueViolation
from hornbeam_server.txlayer.transactions import workspace
from tests.txlayer.database_world import on_shop, run_all
from tests.txlayer.test_transactions_statements import on_full_shop, statements


async def count(database, *relations):
    selected = ", ".join(f"(SELECT count(*) FROM {name})" for name in relations)
    (found,) = await database.fetch(f"SELECT {selected}")
    return found


async def test_truncate(tmp_path):
    async with on_full_shop(tmp_path) as database:
        for sql in ("TRUNCATE line", "TRUNCATE TABLE orders, line RESTRICT"):
            with pytest.raises(SqlError, match=r"(gift|line) references it") as raised:
                await database.execute(sql)
            assert "CASCADE" in raised.value.cure
        result = await database.execute("TRUNCATE TABLE public.gift, line CONTINUE IDENTITY")
        assert result.statements[0].affected == 7
        assert await count(database, "gift", "line", "orders") == (0, 0, 4)
        await database.execute("TRUNCATE gift RESTART IDENTITY")
        await database.execute("TRUNCATE customer CASCADE")
        assert await count(database, "customer", "orders", "product") == (0, 0, 2)


async def test_truncate_cascade_deletes_rows_that_on_delete_would_keep(tmp_path):
    """As in PostgreSQL, CASCADE empties all relations that reference the relation."""
    async with on_full_shop(tmp_path) as database:
        await database.execute("TRUNCATE line CASCADE")
        assert await count(database, "gift", "line", "orders") == (0, 0, 4)


async def test_truncate_is_a_part_of_its_transaction(tmp_path):
    async with on_full_shop(tmp_path) as database:
        work = ("INSERT INTO gift VALUES (9, NULL, NULL, 'x')", "TRUNCATE gift")
        result = await database.transact(
            statements(*work, "INSERT INTO gift VALUES (9, NULL, NULL, 'y')")
        )
        assert [s.affected for s in result.statements] == [1, 4, 1]
        assert await database.fetch("SELECT g_id, g_text FROM gift") == [(9, "y")]
        work = statements("TRUNCATE gift", "INSERT INTO product VALUES (1, 'a', 1)")
        with pytest.raises(UniqueViolation):
            await database.transact(work)
        assert await count(database, "gift") == (1,)


async def test_truncate_of_a_large_relation_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "MAX_CHANGES", 2)
    async with on_shop(tmp_path) as database:
        rows = ("INSERT INTO product VALUES (1, 'a', 1), (2, 'b', 2)",)
        await run_all(database, *rows, "INSERT INTO product VALUES (3, 'c', 3)")
        with pytest.raises(LimitExceeded, match="too many rows for TRUNCATE") as raised:
            await database.execute("TRUNCATE product CASCADE")
        assert "in parts" in raised.value.cure


async def test_insert_or_ignore(tmp_path):
    async with on_full_shop(tmp_path) as database:
        result = await database.execute(
            "INSERT OR IGNORE INTO customer VALUES (1, 'q', 1, 'q'), (7, 'n', 1, 'a@x'),"
            " (8, 'm', 1, NULL) RETURNING c_id"
        )
        assert result.statements[0].rows == ((8,),)


@pytest.mark.parametrize("words", ["INSERT OR REPLACE", "REPLACE", "replace", "insert or replace"])
async def test_insert_or_replace(tmp_path, words):
    """Columns that are left out take their defaults. A row that only another key refuses is an
    error."""
    async with on_full_shop(tmp_path) as database:
        result = await database.execute(
            f"{words} INTO customer (c_id, c_name) VALUES (1, ?), (9, 'nine') RETURNING *", ["new"]
        )
        zero = Decimal("0.00")
        assert result.statements[0].rows == ((1, "new", zero, None), (9, "nine", zero, None))
        result = await database.execute(
            f"{words} INTO customer SELECT c_id, c_name || '!', 5, c_email FROM customer"
            " WHERE c_id = 2"
        )
        assert result.statements[0].affected == 1
        assert await database.fetch("SELECT c_name FROM customer WHERE c_id = 2") == [("bob!",)]
        with pytest.raises(UniqueViolation):
            await database.execute(f"{words} INTO customer VALUES (3, 'x', 0, 'b@x')")


async def test_default_values_and_aliases(tmp_path):
    async with on_full_shop(tmp_path) as database:
        result = await database.execute("INSERT INTO event DEFAULT VALUES RETURNING v_id, v_kind")
        assert result.statements[0].rows == ((1, "none"),)
        for sql, affected in (
            ("UPDATE gift AS x SET g_text = x.g_text || x.g_id WHERE x.g_id = 1", 1),
            ("UPDATE gift x SET g_text = 'b' WHERE x.g_text LIKE 'bo%'", 2),
            ("DELETE FROM gift AS x WHERE x.g_id = 1", 1),
            ("DELETE FROM gift x WHERE x.g_id = 2 AND x.g_text = 'b'", 1),
        ):
            assert (await database.execute(sql)).statements[0].affected == affected, sql
        assert await database.fetch("TABLE gift") == [(3, None, None, "none")]


async def test_names_in_the_schema_public(tmp_path):
    async with on_full_shop(tmp_path) as database:
        for sql in (
            "UPDATE public.gift SET g_text = 'x' WHERE public.gift.g_id = 1",
            'INSERT INTO "public".product (p_id) SELECT max(p_id) + 1 FROM public.product',
            "INSERT INTO public.product VALUES (1, 'pen', 0) ON CONFLICT (p_id) DO NOTHING",
            "DELETE FROM public.gift AS x USING PUBLIC.line y WHERE x.g_no = y.l_no",
        ):
            await database.execute(sql)
        found = await database.fetch(
            "SELECT public.product.p_id, p.p_name FROM public.product JOIN public.product AS p"
            " ON p.p_id = public.product.p_id + 1 ORDER BY 1"
        )
        assert found == [(1, "ink"), (2, None)]
        assert await database.fetch("SELECT count(*) FROM hornbeam.public.product") == [(3,)]
        for sql, wrong, cure in (
            ("SELECT * FROM shop.gift", "which does not exist", "Write gift, or one of: public."),
            ("SELECT * FROM a.public.gift", "another database", "Leave out the first part"),
        ):
            with pytest.raises(SqlError, match=wrong) as raised:
                await database.fetch(sql)
            assert raised.value.cure.startswith(cure)
