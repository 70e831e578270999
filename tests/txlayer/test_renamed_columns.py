"""Columns and indexes that get other names: views, keys and statements follow, rows stay."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hornbeam_server.node.alterations import altered
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.node.settings import load_settings
from hornbeam_server.query.binding.renaming import renamed
from hornbeam_server.schema.catalog import Catalog, Forest, State, WorkloadStatement
from hornbeam_server.schema.codec import decode_catalog, encode_catalog
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import InvalidRequest, SchemaError, UnknownName
from hornbeam_server.schema.renames import Rename
from tests.txlayer.test_altered_relations import (
    TABLES,
    apply,
    edited,
    opened,
    require_right,
    tables,
)
from tests.txlayer.test_immediate_views import run


async def alter(database, sql):
    """Carry out a statement as the client does."""
    change = altered(database.catalog, sql)
    request = PlanRequest(change.ddl, None, ("customer",), renames=change.renames)
    plan = database.plan_schema(request)
    await database.apply_schema(request, plan.plan_id, allow_drop=True)
    await database.keeper.wait_built()
    return plan


def stored(database):
    """The physical tables, without the names that they have in the catalog."""
    return set(tables(database).values())


async def test_a_renamed_column_is_renamed_everywhere_and_nothing_is_built(tmp_path):
    async with opened(tmp_path) as database:
        before = stored(database)
        for sql in (
            "ALTER TABLE customer RENAME COLUMN c_city TO town",
            "ALTER TABLE customer RENAME c_id TO id",
            "ALTER TABLE orders RENAME o_c_id TO customer",
            "ALTER TABLE orders RENAME o_total TO amount",
        ):
            await alter(database, sql)
            assert stored(database) == before, sql
            assert all(state is State.READABLE for _, state in database.catalog.states)
            await require_right(database)
        await run(
            database,
            "UPDATE orders SET amount = 5 WHERE o_id = 10",
            "INSERT INTO customer (id, town) VALUES (4, 'Bern')",
            "INSERT INTO orders (o_id, customer, amount) VALUES (13, 4, 7)",
        )
        await require_right(database)
        assert await database.fetch("SELECT c_city, total FROM city_totals ORDER BY total") == [
            ("Thun", Decimal("2.00")),
            ("Bern", Decimal("12.00")),
        ]
        found = database.catalog.workload
        assert (
            found[1].sql == "SELECT o_id FROM customer JOIN orders ON customer = id WHERE town = ?"
        )
        assert database.prepare(found[0].sql).served_by
        with pytest.raises(UnknownName):
            await database.fetch("SELECT c_city FROM customer")
        assert decode_catalog(encode_catalog(database.catalog)) == database.catalog
    async with await Database.open(load_settings(data=tmp_path)) as database:
        await require_right(database)
        assert await database.fetch("SELECT town FROM customer WHERE id = 4") == [("Bern",)]


async def test_a_changed_file_with_renames_drops_nothing(tmp_path):
    async with opened(tmp_path) as database:
        before = stored(database)
        ddl = TABLES.replace("c_tier", "tier")
        with pytest.raises(InvalidRequest, match=r"columns customer\.c_tier"):
            await apply(database, ddl, allow_drop=False)
        request = PlanRequest(
            ddl, None, ("customer",), renames=(Rename("customer", "c_tier", "tier"),)
        )
        plan = database.plan_schema(request)
        assert next((r.action, r.name, r.detail) for r in plan.changes.rows()) == (
            "rename",
            "customer.c_tier",
            "tier",
        )
        await database.apply_schema(request, plan.plan_id)
        await database.keeper.wait_built()
        assert await database.fetch("SELECT tier FROM customer WHERE c_id = 2") == [(2,)]
        assert tables(database)["customer"] in before
        await require_right(database)


async def test_renamed_indexes_and_constraints_keep_their_tables(tmp_path):
    async with opened(tmp_path) as database:
        await apply(database, edited(TABLES, {"c_old TEXT": "c_old TEXT UNIQUE"}))
        before = stored(database)
        await alter(database, "ALTER INDEX by_city RENAME TO of_city")
        await alter(database, "ALTER TABLE customer RENAME CONSTRAINT customer_c_old_key TO once")
        await alter(database, "ALTER TABLE orders RENAME CONSTRAINT orders_o_c_id_fkey TO buyer")
        assert stored(database) == before
        await alter(database, "ALTER TABLE customer ADD CONSTRAINT by_city CHECK (c_id > 0)")
        ddl = altered(database.catalog, "ALTER TABLE IF EXISTS x DROP y").ddl
        await apply(database, f"{ddl}CREATE INDEX by_city ON customer (c_city) INCLUDE (c_tier);")
        assert len(stored(database)) == len(before) + 1
        await require_right(database)
    async with await Database.open(load_settings(data=tmp_path)) as database:
        await require_right(database)


async def test_a_renamed_identity_column_goes_on_with_its_numbers(tmp_path):
    async with await Database.open(load_settings(data=tmp_path)) as database:
        await apply(
            database,
            "CREATE TABLE t (k BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, n INT)",
            roots=None,
            workload="",
        )
        await run(database, "INSERT INTO t (n) VALUES (1), (2)")
        await alter_alone(database, "ALTER TABLE t RENAME k TO id")
        await run(database, "INSERT INTO t (n) VALUES (3)")
        await alter_alone(database, "ALTER TABLE t RENAME id TO k")
        await run(database, "INSERT INTO t (n) VALUES (4)")
        found = [k for (k,) in await database.fetch("SELECT k FROM t")]
        assert len(set(found)) == 4


async def alter_alone(database, sql):
    change = altered(database.catalog, sql)
    request = PlanRequest(change.ddl, None, renames=change.renames)
    await database.apply_schema(request, database.plan_schema(request).plan_id)


SCHEMA = load_ddl("""
CREATE TABLE t (
  k INT PRIMARY KEY, a INT, b INT GENERATED ALWAYS AS (a + 1) STORED, CONSTRAINT p CHECK (a > 0));
CREATE TABLE u (k INT PRIMARY KEY, t INT REFERENCES t, a INT);
CREATE INDEX part ON t (k) WHERE a > 5;
""")


def followed(sql, new="z"):
    """A statement of the workload after t.a is renamed."""
    catalog = Catalog(1, SCHEMA, Forest(SCHEMA.names), workload=(WorkloadStatement("s", sql),))
    return renamed(catalog, [Rename("t", "a", new)]).workload[0].sql


@pytest.mark.parametrize(
    ("sql", "after"),
    [
        ("SELECT a FROM t", "SELECT z AS a FROM t"),
        ("SELECT u.a, x.a AS y FROM t x, u", "SELECT u.a, x.z AS y FROM t x, u"),
        ("SELECT a + 1 FROM t ORDER BY a", "SELECT z + 1 FROM t ORDER BY z"),
        ("SELECT a AS b FROM t GROUP BY a", "SELECT z AS b FROM t GROUP BY z"),
        ("SELECT q.a FROM (SELECT a FROM t) q", "SELECT q.a FROM (SELECT z AS a FROM t) q"),
        ("SELECT 1 FROM u WHERE a IN (SELECT t.a FROM t)",
         "SELECT 1 FROM u WHERE a IN (SELECT t.z AS a FROM t)"),
        ("INSERT INTO t (k, a) VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET a = excluded.a",
         "INSERT INTO t (k, z) VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET z = excluded.z"),
        ("UPDATE t SET a = a + 1 WHERE a > ?", "UPDATE t SET z = z + 1 WHERE z > ?"),
        ("DELETE FROM t USING u WHERE t.a = u.a", "DELETE FROM t USING u WHERE t.z = u.a"),
        ("INSERT INTO u (k, a) VALUES (1, 2)", "INSERT INTO u (k, a) VALUES (1, 2)"),
    ],
)  # fmt: skip
def test_statements_follow_a_renamed_column(sql, after):
    assert followed(sql) == after


def test_expressions_and_keys_follow_a_renamed_column():
    catalog = renamed(Catalog(1, SCHEMA, Forest(SCHEMA.names)), [Rename("t", "a", "A z")])
    relation = catalog.schema.relation("t")
    assert relation.checks[0].sql == '"A z" > 0'
    assert relation.column("b").default.sql == '"A z" + 1'
    assert catalog.schema.indexes[0].where == '"A z" > 5'
    keyed = renamed(catalog, [Rename("t", "k", "id"), Rename("u", "t", "of")])
    assert keyed.schema.relation("t").primary_key == ("id",)
    (key,) = keyed.schema.relation("u").foreign_keys
    assert (key.columns, key.parent_columns) == (("of",), ("id",))


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        (Rename("x", "a", "z"), "x, which is not a relation in force"),
        (Rename("t", "x", "z"), "t has no column x"),
        (Rename("t", "a", "b"), "t has a column b already"),
    ],
)
def test_impossible_renames_are_refused(rename, message):
    with pytest.raises(InvalidRequest, match=message):
        renamed(Catalog(1, SCHEMA, Forest(SCHEMA.names)), [rename])


@pytest.mark.parametrize(
    ("select", "rename"),
    [
        ("SELECT * FROM t", Rename("t", "a", "z")),
        ("SELECT t.k FROM t JOIN u USING (k, a)", Rename("t", "a", "z")),
        ("SELECT q.b FROM (SELECT * FROM t) q", Rename("t", "b", "z")),
        (
            "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND a = b)",
            Rename("t", "b", "v"),  # v means u.v there
        ),
    ],
)
def test_a_view_whose_meaning_would_change_refuses_the_rename(select, rename):
    schema = load_ddl(
        "CREATE TABLE t (k INT PRIMARY KEY, a INT, b INT);"
        "CREATE TABLE u (k INT PRIMARY KEY, a INT, v INT);"
        f"CREATE MATERIALIZED VIEW w WITH (refresh = 'recompute') AS {select}"
    )
    with pytest.raises(SchemaError, match="View w cannot follow"):
        renamed(Catalog(1, schema, Forest(schema.names)), [rename])


PLAIN = """
CREATE VIEW first AS SELECT c_id, c_city FROM customer WHERE c_tier > 1;
CREATE VIEW second AS SELECT f.c_city FROM first f;
"""


async def test_plain_views_follow_a_renamed_column_and_are_listed_as_its_users(tmp_path):
    async with opened(tmp_path) as database:
        await apply(database, TABLES + PLAIN)
        with pytest.raises(SchemaError, match="view tiers, view first, view second"):
            altered(database.catalog, "ALTER TABLE customer DROP COLUMN c_tier")
        await alter(database, "ALTER TABLE customer RENAME c_city TO town")
        assert await database.fetch("SELECT c_city FROM second WHERE c_city = 'Thun'") == [
            ("Thun",)
        ]
        await alter(database, "ALTER TABLE customer DROP COLUMN c_tier CASCADE")
        assert database.catalog.plain == ()
        await require_right(database)
