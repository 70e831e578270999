"""The effects of INSERT, UPDATE and DELETE on base rows; views and indexes are checked after each
test."""

import asyncio
import datetime as dt
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest

from hornbeam_server.schema.errors import (
    ForeignKeyViolation,
    NotNullViolation,
    SqlError,
    StatementTimeout,
    TypeMismatch,
    UniqueViolation,
    UnknownName,
    Unsupported,
)
from hornbeam_server.txlayer.statements.requests import InsertRows, Statement, TransactionRequest
from tests.txlayer.database_world import check, counts, on_shop, opened, run_all, shop

PEOPLE = (
    "INSERT INTO customer VALUES (1, 'ann', 10, 'a@x'), (2, 'bob', 20, 'b@x'), (3, 'cy', 0, NULL)"
)
ORDERS = "INSERT INTO orders VALUES (10, 1, 5), (11, 1, 7), (20, 2, 9), (30, NULL, 1)"
PRODUCTS = "INSERT INTO product VALUES (1, 'pen', 5), (2, 'ink', 5)"
LINES = "INSERT INTO line VALUES (10, 1, 1, 5), (10, 2, 2, 6), (11, 1, 1, 7), (20, 1, NULL, 8)"
GIFTS = "INSERT INTO gift VALUES (1, 10, 1, 'bow'), (2, 20, 1, 'box'), (3, NULL, NULL, 'none')"
FILL = (PEOPLE, PRODUCTS, ORDERS, LINES, GIFTS)


@asynccontextmanager
async def on_full_shop(folder):
    async with on_shop(folder) as database:
        await run_all(database, *FILL)
        yield database


def statements(*items, **options):
    made = [Statement(item) if isinstance(item, str) else Statement(*item) for item in items]
    return TransactionRequest(tuple(made), **options)


async def test_several_statements_and_roots_are_one_transaction(tmp_path):
    async with on_full_shop(tmp_path) as database:
        result = await database.transact(
            statements(
                "UPDATE customer SET c_balance = c_balance - 5 WHERE c_id = 1",
                "UPDATE customer SET c_balance = c_balance + 5 WHERE c_id = 2",
                ("INSERT INTO orders VALUES (:o, :c, :t)", {"o": 12, "c": 1, "t": "5.00"}),
                ("INSERT INTO line VALUES (?, ?, ?, ?), (?, 2, ?, 1)", (12, 1, 1, 3, 12, 2)),
            )
        )
        assert [s.affected for s in result.statements] == [1, 1, 1, 2]
        assert counts(result.affected, "customer", "orders", "line") == (2, 1, 2)
        found = await database.fetch("SELECT c_id, c_balance FROM customer ORDER BY c_id")
        assert found == [(1, Decimal("5.00")), (2, Decimal("25.00")), (3, Decimal("0.00"))]


async def test_a_failing_statement_undoes_the_whole_transaction(tmp_path):
    async with on_full_shop(tmp_path) as database:
        before = await database.fetch("SELECT * FROM customer ORDER BY c_id")
        for bad, error in [
            ("INSERT INTO customer VALUES (2, 'dup', 0, NULL)", UniqueViolation),
            ("INSERT INTO customer VALUES (4, NULL, 0, NULL)", NotNullViolation),
            ("UPDATE orders SET o_c_id = 99 WHERE o_id = 10", ForeignKeyViolation),
            ("UPDATE customer SET c_balance = 'many' WHERE c_id = 2", TypeMismatch),
        ]:
            with pytest.raises(error):
                await database.transact(
                    statements("UPDATE customer SET c_name = 'x' WHERE c_id = 1", bad)
                )
        assert await database.fetch("SELECT * FROM customer ORDER BY c_id") == before


WHERES = [
    ("c_name = 'ann'", {1}),
    ("c_name LIKE '%b'", {2}),
    ("c_balance > 5 AND c_id < 3", {1, 2}),
    ("c_id IN (1, 3, 9)", {1, 3}),
    ("c_id BETWEEN 2 AND 3", {2, 3}),
    ("c_email IS NULL", {3}),
    ("c_id = 1 AND c_name = 'bob'", set()),
    ("c_id = 2 AND c_balance = 20", {2}),
    ("c_id = NULL", set()),
    ("c_id = 1.5", set()),
    ("c_id = 2.0", {2}),
    ("1 = c_id", {1}),
    ("c_id = 1 OR c_id = 2", {1, 2}),
    ("c_id = 1 AND c_id = 2", set()),
    ("length(c_name) = 2", {3}),
    ("c_id IN (SELECT o_c_id FROM orders WHERE o_total > 8)", {2}),
    ("EXISTS (SELECT 1 FROM orders WHERE o_c_id = c_id)", {1, 2}),
    ("NOT EXISTS (SELECT 1 FROM orders WHERE o_c_id = c_id)", {3}),
    ("c_id = (SELECT max(o_c_id) FROM orders)", {2}),
    ("TRUE", {1, 2, 3}),
    ("regexp_matches(c_name, '^[ab]')", {1, 2}),
]


async def test_update_and_delete_with_any_where(tmp_path):
    async with on_full_shop(tmp_path) as database:
        for where, found in WHERES:
            sql = f"UPDATE customer SET c_name = c_name || '!' WHERE {where} RETURNING c_id"
            dry = await database.execute(sql, dry_run=True)
            assert {row[0] for row in dry.statements[0].rows} == found, where
            done = await database.execute(sql)
            assert {row[0] for row in done.statements[0].rows} == found, where
            changed = await database.fetch("SELECT c_id FROM customer WHERE c_name LIKE '%!'")
            assert {row[0] for row in changed} == found, where
            await database.execute("UPDATE customer SET c_name = replace(c_name, '!', '')")
            gone = await database.execute(
                f"DELETE FROM gift WHERE EXISTS (SELECT 1 FROM customer WHERE {where})",
                dry_run=True,
            )
            assert gone.statements[0].affected == (3 if found else 0), where


async def test_update_uses_old_values(tmp_path):
    async with on_shop(tmp_path) as database:
        await run_all(database, *FILL[:-1])  # no gifts: they reference lines
        await database.execute(
            "UPDATE line SET l_no = l_no + 1, l_quantity = l_no * 100 + l_quantity"
        )
        found = await database.fetch("SELECT l_o_id, l_no, l_quantity FROM line ORDER BY 1, 2")
        assert found == [(10, 2, 105), (10, 3, 206), (11, 2, 107), (20, 2, 108)]


async def test_a_referenced_key_cannot_change(tmp_path):
    async with on_full_shop(tmp_path) as database:
        with pytest.raises(ForeignKeyViolation):
            await database.execute("UPDATE customer SET c_id = 9 WHERE c_id = 1")
        await database.execute("UPDATE customer SET c_id = 9 WHERE c_id = 3")
        result = await database.transact(
            statements(
                "UPDATE customer SET c_id = 8 WHERE c_id = 2",
                "UPDATE orders SET o_c_id = 8 WHERE o_c_id = 2",
            )
        )
        assert counts(result.affected, "customer", "orders") == (2, 1)
        assert await database.fetch("SELECT c_id FROM customer ORDER BY 1") == [(1,), (8,), (9,)]


async def test_rows_and_subtrees_move(tmp_path):
    async with on_full_shop(tmp_path) as database:
        of = "SELECT o_id, l_no FROM customer, orders, line WHERE c_id = o_c_id AND o_id = l_o_id"
        await database.execute("UPDATE orders SET o_c_id = 3 WHERE o_id = 10")
        assert sorted(await database.fetch(f"{of} AND c_id = 3")) == [(10, 1), (10, 2)]
        await database.execute("UPDATE orders SET o_c_id = NULL WHERE o_id = 10")
        assert await database.fetch(f"{of} AND c_id = 3") == []
        await database.execute("UPDATE orders SET o_c_id = 2 WHERE o_c_id IS NULL")
        assert sorted(await database.fetch(f"{of} AND c_id = 2")) == [(10, 1), (10, 2), (20, 1)]
        await database.execute("UPDATE gift SET g_o_id = 11, g_no = 1 WHERE g_id <> 2")
        assert await database.fetch(
            "SELECT count(*) FROM line, gift WHERE l_o_id = g_o_id AND l_no = g_no AND l_o_id = 11"
        ) == [(2,)]


async def test_insert_select(tmp_path):
    async with on_full_shop(tmp_path) as database:
        result = await database.execute(
            "INSERT INTO orders (o_id, o_c_id) SELECT c_id + ?, c_id FROM customer WHERE c_id > ?"
            " RETURNING o_id",
            (100, 1),
        )
        assert sorted(result.statements[0].rows) == [(102,), (103,)]
        await database.execute(
            "WITH big AS (SELECT o_id FROM orders WHERE o_total >= :t)"
            " INSERT INTO line SELECT o_id, 9, NULL, 1 FROM big",
            {"t": 7},
        )
        assert await database.fetch("SELECT count(*) FROM line WHERE l_no = 9") == [(2,)]
        own = await database.transact(
            statements(
                "INSERT INTO customer (c_id, c_name) VALUES (50, 'new')",
                "INSERT INTO orders SELECT 500, c_id, 0 FROM customer WHERE c_name = 'new'",
            )
        )
        assert own.statements[1].affected == 1


async def test_statements_find_rows_that_their_transaction_wrote(tmp_path):
    async with on_full_shop(tmp_path) as database:
        result = await database.transact(
            statements(
                "INSERT INTO customer (c_id, c_name) VALUES (5, 'eve')",
                "UPDATE customer SET c_name = 'Eve' WHERE c_name = 'eve'",
                "INSERT INTO orders VALUES (50, 5, 1)",
                "UPDATE orders SET o_total = 2 WHERE o_c_id IN"
                " (SELECT c_id FROM customer WHERE c_name = 'Eve')",
                "DELETE FROM orders WHERE o_id IN (SELECT o_id FROM orders WHERE o_total = 2)",
                "DELETE FROM customer WHERE c_name = 'Eve'",
            )
        )
        assert [s.affected for s in result.statements] == [1, 1, 1, 1, 1, 1]
        assert result.affected == {}


async def test_on_conflict_on_the_primary_key(tmp_path):
    async with on_full_shop(tmp_path) as database:
        await database.execute(
            "INSERT INTO customer VALUES (1, 'no', 1, NULL) ON CONFLICT DO NOTHING"
        )
        result = await database.execute(
            "INSERT INTO customer VALUES (1, 'no', 1, 'z'), (4, 'dan', 2, 'd@x')"
            " ON CONFLICT (c_id) DO NOTHING RETURNING c_id"
        )
        assert result.statements[0].rows == ((4,),)
        up = "INSERT INTO customer VALUES (1, 'new', 1, 'z'), (5, 'fay', 2, 'f@x')"
        up += " ON CONFLICT (c_id)"
        result = await database.execute(
            f"{up} DO UPDATE SET c_name = excluded.c_name, c_balance = customer.c_balance"
            " + excluded.c_balance RETURNING c_id, c_name, c_balance"
        )
        assert result.statements[0].rows == (
            (1, "new", Decimal("11.00")),
            (5, "fay", Decimal("2.00")),
        )
        result = await database.execute(
            f"{up} DO UPDATE SET c_name = 'never' WHERE customer.c_balance > 100"
        )
        assert result.statements[0].affected == 0


async def test_on_conflict_on_a_unique_index(tmp_path):
    async with on_full_shop(tmp_path) as database:
        upsert = "INSERT INTO customer VALUES (?, 'new', 1, ?) ON CONFLICT (c_email)"
        result = await database.execute(
            f"{upsert} DO UPDATE SET c_name = 'old' RETURNING c_id", (7, "a@x")
        )
        assert result.statements[0].rows == ((1,),)
        result = await database.execute(f"{upsert} DO NOTHING", (7, "b@x"))
        assert result.statements[0].affected == 0
        # The target is checked first, also when the key conflicts with the same row.
        result = await database.execute(f"{upsert} DO UPDATE SET c_balance = 99", (1, "a@x"))
        assert result.statements[0].affected == 1
        with pytest.raises(UniqueViolation):
            await database.execute(f"{upsert} DO NOTHING", (1, "other@x"))
        with pytest.raises(UniqueViolation):
            await database.execute(
                "INSERT INTO customer VALUES (7, 'x', 1, 'a@x') ON CONFLICT (c_id) DO NOTHING"
            )
        result = await database.execute(
            "INSERT INTO customer VALUES (7, 'x', 1, 'a@x') ON CONFLICT DO NOTHING"
        )
        assert result.statements[0].affected == 0
        # NULL conflicts with nothing.
        assert (await database.execute(f"{upsert} DO NOTHING", (8, None))).statements[
            0
        ].affected == 1


async def test_the_target_of_an_insert_may_have_an_alias(tmp_path):
    async with on_full_shop(tmp_path) as database:
        upsert = """INSERT INTO customer AS x (c_id, c_name, c_email) VALUES (7, 'new', 'a@x')
                    ON CONFLICT (c_email) DO UPDATE SET c_balance = x.c_balance + 1
                    WHERE x.c_name <> excluded.c_name RETURNING x.c_id, x.c_balance"""
        result = await database.execute(upsert)
        assert result.statements[0].rows == ((1, Decimal("11.00")),)
        copied = await database.execute(
            "WITH y AS (SELECT * FROM product) INSERT INTO product AS x (p_id)"
            " SELECT p_id + 10 FROM y RETURNING x.p_id"
        )
        assert sorted(copied.statements[0].rows) == [(11,), (12,)]


async def test_one_statement_inserts_the_same_key_twice(tmp_path):
    async with on_full_shop(tmp_path) as database:
        result = await database.execute(
            "INSERT INTO customer (c_id, c_name) VALUES (9, 'a'), (9, 'b') ON CONFLICT DO NOTHING"
        )
        assert result.statements[0].affected == 1
        with pytest.raises(UniqueViolation):
            await database.execute("INSERT INTO customer (c_id, c_name) VALUES (8, 'a'), (8, 'b')")


@pytest.mark.parametrize(
    "proposed",
    [
        "VALUES (9, 'a', 1, 'n@x'), (9, 'b', 1, 'm@x') ON CONFLICT (c_id)",
        "VALUES (1, 'a', 1, 'n@x'), (1, 'b', 1, 'm@x') ON CONFLICT (c_id)",
        "VALUES (8, 'a', 1, 'a@x'), (9, 'b', 1, 'a@x') ON CONFLICT (c_email)",
        "VALUES (8, 'a', 1, 'n@x'), (9, 'b', 1, 'n@x') ON CONFLICT (c_email)",
        "SELECT 1, p_name, 1, p_name FROM product ON CONFLICT (c_id)",
    ],
)
async def test_an_upsert_writes_no_row_twice(tmp_path, proposed):
    """The result would depend on the order of the proposed rows, and a SELECT has none."""
    async with on_full_shop(tmp_path) as database:
        before = await database.fetch("SELECT * FROM customer ORDER BY c_id")
        upsert = f"INSERT INTO customer {proposed} DO UPDATE SET c_name = excluded.c_name"
        with pytest.raises(SqlError, match="second time"):
            await database.execute(upsert)
        assert await database.fetch("SELECT * FROM customer ORDER BY c_id") == before


async def test_an_upsert_may_write_a_row_of_another_statement(tmp_path):
    async with on_full_shop(tmp_path) as database:
        upsert = "INSERT INTO customer (c_id, c_name) VALUES (9, 'a') ON CONFLICT (c_id)"
        upsert += " DO UPDATE SET c_name = customer.c_name || excluded.c_name"
        done = await database.transact(statements(upsert, upsert, upsert))
        assert [statement.affected for statement in done.statements] == [1, 1, 1]
        left_out = await database.execute(
            "INSERT INTO customer (c_id, c_name) VALUES (9, 'b'), (9, 'c') ON CONFLICT (c_id)"
            " DO UPDATE SET c_name = 'd' WHERE excluded.c_name = 'c' RETURNING c_name"
        )
        assert left_out.statements[0].rows == (("d",),)


async def test_returning(tmp_path):
    async with on_full_shop(tmp_path) as database:
        result = await database.execute(
            "UPDATE customer AS c SET c_balance = c.c_balance * 2 WHERE c.c_id <= 2"
            " RETURNING *, c_balance / 2 AS half, upper(c_name)"
        )
        (statement,) = result.statements
        assert statement.columns[:5] == ("c_id", "c_name", "c_balance", "c_email", "half")
        assert sorted(row[0] for row in statement.rows) == [1, 2]
        deleted = await database.execute("DELETE FROM customer WHERE c_id = 3 RETURNING c_name")
        assert deleted.statements[0].rows == (("cy",),)


async def test_defaults_identity_and_the_time_of_the_transaction(tmp_path):
    async def fill(database):
        result = await database.transact(
            statements(
                "INSERT INTO event DEFAULT VALUES RETURNING *",
                "INSERT INTO event (v_kind) VALUES ('a'), (DEFAULT), (NULL)"
                " RETURNING v_id, v_kind, v_at",
            )
        )
        first, rest = result.statements[0].rows[0], result.statements[1].rows
        assert [row[1] for row in rest] == ["a", "none", None]
        assert {row[2] for row in rest} == {first[2]}, "one moment per transaction"
        assert first[3] == first[2].date()
        assert abs(dt.datetime.now(dt.UTC).replace(tzinfo=None) - first[2]) < dt.timedelta(
            minutes=1
        )
        return [first[0], *[row[0] for row in rest]]

    async with opened(tmp_path, shop()) as database:
        numbers = await fill(database)
        many = await asyncio.gather(
            *(
                database.execute("INSERT INTO event (v_kind) VALUES ('x') RETURNING v_id")
                for _ in range(50)
            )
        )
        numbers += [result.statements[0].rows[0][0] for result in many]
    async with opened(tmp_path) as database:
        numbers += await fill(database)
        assert len(set(numbers)) == len(numbers), "no number twice, not even after a restart"
        await check(database)


async def test_set_default(tmp_path):
    async with on_shop(tmp_path) as database:
        inserted, updated, upserted = (
            await database.transact(
                statements(
                    "INSERT INTO event VALUES (7, 'a', NULL, NULL), (8, 'b', NULL, NULL)"
                    " RETURNING v_id",
                    "UPDATE event SET v_id = DEFAULT, v_kind = default, v_at = DEFAULT"
                    " WHERE v_id = 7 RETURNING v_id, v_kind, v_at, v_day",
                    "INSERT INTO event VALUES (8, 'c', NULL, NULL) ON CONFLICT (v_id) DO UPDATE"
                    " SET v_kind = excluded.v_kind, v_at = NULL, v_day = DEFAULT"
                    " RETURNING v_kind, v_at, v_day",
                )
            )
        ).statements
        assert inserted.rows == ((7,), (8,))
        ((number, kind, at, day),) = updated.rows
        assert (kind, day) == ("none", None)
        assert upserted.rows == (("c", None, at.date()),)
        (after,) = (
            (await database.execute("INSERT INTO event DEFAULT VALUES RETURNING v_id"))
            .statements[0]
            .rows
        )
        assert after[0] not in (7, 8, number)
        await run_all(
            database,
            "INSERT INTO customer VALUES (1, 'ann', 10, 'a@x')",
            "UPDATE customer SET c_balance = DEFAULT, c_email = DEFAULT",
        )
        found = await database.fetch("SELECT c_balance, c_email FROM customer")
        assert found == [(Decimal("0.00"), None)]
        with pytest.raises(NotNullViolation):
            await database.execute("UPDATE customer SET c_name = DEFAULT")
        with pytest.raises(UnknownName):
            await database.execute('UPDATE customer SET c_email = "default"')


async def test_rows_are_inserted_without_sql(tmp_path):
    async with on_full_shop(tmp_path) as database:
        result = await database.load("orders", ["o_id", "o_c_id"], [(40, 1), ("41", None)])
        assert counts(result.affected, "orders", "customer__orders") == (2, 1)
        mixed = TransactionRequest(
            (
                InsertRows("product", ("p_id",), [(9,)]),
                Statement("INSERT INTO line VALUES (41, 1, 9, 1)"),
            )
        )
        await database.transact(mixed)
        with pytest.raises(UniqueViolation):
            await database.load("orders", ["o_id"], [(42,), (42,)])
        with pytest.raises(UnknownName):
            await database.load("orders", ["nothing"], [(1,)])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "INSERT OR ABORT INTO customer VALUES (1, 'x', 1, 'y')",
        "INSERT OR IGNORE INTO customer (c_id, c_name) VALUES (1, 'x') ON CONFLICT DO NOTHING",
        "TRUNCATE IF EXISTS gift",
        "SELECT * FROM information_schema.tables",
        "UPDATE other.customer SET c_balance = 1",
        "UPDATE customer__orders SET c_name = 'x'",
        "UPDATE customer SET c_balance = row_number() OVER ()",
        "UPDATE customer SET c_balance = unnest([1, 2])",
        "UPDATE customer SET c_balance = 1 + sum(c_balance)",
        "UPDATE customer SET c_balance = count(*) FILTER (WHERE true)",
        "INSERT INTO customer (c_id) VALUES (unnest([1, 2]))",
        "DELETE FROM customer WHERE c_id = CAST(unnest([1]) AS INTEGER)",
        "DELETE FROM customer RETURNING max(c_id)",
    ],
)
async def test_unsupported_statements_raise_an_error(tmp_path, sql):
    async with on_shop(tmp_path) as database:
        with pytest.raises(SqlError) as raised:
            await database.execute(sql)
        assert isinstance(raised.value, Unsupported | UnknownName), raised.value


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("INSERT INTO customer (c_id) VALUES (1, 2)", ()),
        ("INSERT INTO customer (c_id, c_id) VALUES (1, 2)", ()),
        ("INSERT INTO customer (c_id, nothing) VALUES (1, 2)", ()),
        ("UPDATE customer SET c_id = 1, c_id = 2", ()),
        ("UPDATE customer SET (c_name, c_email) = (1, 2, 3)", ()),
        ("UPDATE customer SET (c_name, c_email) = (SELECT 'x')", ()),
        ("UPDATE customer SET (c_name, c_name) = ('x', 'y')", ()),
        ("UPDATE customer SET c_name = (SELECT 'x', 'y') WHERE c_id = 1", ()),
        ("UPDATE customer SET c_balance = 1 FROM orders JOIN line ON l_o_id = c_id", ()),
        ("UPDATE customer SET c_balance = 1 FROM customer", ()),
        ("TRUNCATE customer", ()),
        ("TRUNCATE nothing", ()),
        ("UPDATE customer SET c_name = ?", ()),
        ("UPDATE customer SET c_name = :a", {"b": 1}),
        ("UPDATE customer SET c_name = :a", {"a": 1, "b": 1}),
        ("INSERT INTO customer VALUES (1, c_name, 1, NULL)", ()),
        ("INSERT INTO customer (c_id, c_name) VALUES (1, 'x') ON CONFLICT (c_name) DO NOTHING", ()),
    ],
)
async def test_wrong_statements_are_refused(tmp_path, sql, parameters):
    async with on_shop(tmp_path) as database:
        with pytest.raises(SqlError):
            await database.execute(sql, parameters)


async def test_a_statement_beyond_its_time_limit_has_no_effect(tmp_path):
    async with on_full_shop(tmp_path) as database:
        with pytest.raises(StatementTimeout):
            await database.execute(
                "DELETE FROM line WHERE l_quantity IN"
                " (SELECT range FROM range(100000000) ORDER BY hash(range))",
                timeout_s=0.2,
            )
        assert await database.fetch("SELECT count(*) FROM line") == [(4,)]


@pytest.mark.parametrize(
    ("condition", "changed"),
    [
        ("'true'", 2),
        ("p_id = 2 AND 'yes'", 1),
        ("p_id = 1 AND NULL", 0),
        ("gcd(p_id, 4) - 2", 1),  # binding does not know the type of this function
        ("NULL", 0),
    ],
)
async def test_a_condition_of_another_type_is_cast_to_boolean(tmp_path, condition, changed):
    """An UPDATE changes as many rows as a SELECT under the same condition finds."""
    async with on_shop(tmp_path) as database:
        await run_all(database, "INSERT INTO product VALUES (1, 'a', 0), (2, 'bb', 5)")
        found = await database.fetch(f"SELECT p_id FROM product WHERE {condition}")
        done = await database.execute(f"UPDATE product SET p_name = 'x' WHERE {condition}")
        assert (len(found), done.statements[0].affected) == (changed, changed)


@pytest.mark.parametrize("condition", ["p_stock", "1", "p_id = 2 AND p_stock"])
async def test_a_number_is_no_condition(tmp_path, condition):
    async with on_shop(tmp_path) as database:
        with pytest.raises(SqlError, match="takes a condition, not INTEGER"):
            await database.fetch(f"SELECT p_id FROM product WHERE {condition}")
        with pytest.raises(SqlError, match="takes a condition, not INTEGER"):
            await database.execute(f"UPDATE product SET p_name = 'x' WHERE {condition}")


async def test_functions_in_writes_get_all_their_arguments(tmp_path):
    async with on_full_shop(tmp_path) as database:
        await database.transact(
            statements(
                "INSERT INTO product VALUES (8, to_char(date '2024-05-06', 'YYYY-MM'), 1)",
                "INSERT INTO product"
                """ SELECT 9, json_extract_path_text('{"a":{"b":2}}', 'a', 'b'), 1""",
                """UPDATE product SET p_name = '{"a.b":1,"a":{"b":2}}'::JSON ->> 'a.b'"""
                " WHERE p_id = 2",
                ('UPDATE product SET p_name = \'{"*":"x"}\'::JSON ->> ? WHERE p_id = 1', ("*",)),
            )
        )
        found = await database.fetch("SELECT p_id, p_name FROM product ORDER BY p_id")
        assert found == [(1, "x"), (2, "1"), (8, "2024-05"), (9, "2")]
        for bad, error, text in [
            ("UPDATE product SET p_name = regexp_replace('a-b')", SqlError, "regexp_replace"),
            ("UPDATE product SET p_name = to_char(true, '999')", TypeMismatch, "to_char"),
            ("UPDATE product SET p_id = kurtosis(p_id)", Unsupported, "Aggregates"),
            ("UPDATE product SET p_id = geomean(p_id)", Unsupported, "Aggregates"),
            ("UPDATE product SET p_id = unnest([1])", Unsupported, "unnest"),
        ]:  # fmt: skip
            with pytest.raises(error, match=text):
                await database.transact(statements(bad))


async def test_rows_of_table_functions_are_inserted(tmp_path):
    async with on_full_shop(tmp_path) as database:
        await database.transact(
            statements(
                "INSERT INTO customer (c_id, c_name, c_balance)"
                " SELECT *, 'n', 0 FROM range(10, 12)",
                "INSERT INTO customer (c_id, c_name, c_balance)"
                " SELECT g.*, 'n', 0 FROM generate_series(12, 13) g",
                "INSERT INTO orders SELECT * FROM (VALUES (40, 1, 5), (41, 1, 6)) v",
                "INSERT INTO orders WITH r AS (SELECT * FROM unnest([42, 43]) u)"
                " SELECT *, NULL, u FROM r",
            )
        )
        found = await database.fetch("SELECT c_id FROM customer WHERE c_id > 3 ORDER BY c_id")
        assert found == [(10,), (11,), (12,), (13,)]
        found = await database.fetch("SELECT o_id FROM orders WHERE o_id > 30 ORDER BY o_id")
        assert found == [(40,), (41,), (42,), (43,)]
        for bad in (
            "INSERT INTO customer (c_id) SELECT *, 1 FROM generate_series(1, 2)",
            "INSERT INTO customer (c_id) SELECT unnest({'a': 1, 'b': 2})",
        ):
            with pytest.raises(SqlError, match="2"):
                await database.transact(statements(bad))
