"""OIDs, casts to types such as regclass, and look-ups in the system catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.system import oids as oids_module
from hornbeam_server.query.system.oids import FIRST, oids
from hornbeam_server.query.system.relations import known, table
from hornbeam_server.schema.errors import SqlError, UnknownName, Unsupported
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG
from hornbeam_server.schema.renames import Rename
from tests.txlayer.database_world import opened, settings, shop
from tests.txlayer.test_plain_views import applied

ANSWERS = {
    "SELECT 'customer'::regclass, 'customer'::regclass = '\"customer\"'::regclass": (
        "customer",
        True,
    ),
    "SELECT c.oid = 'public.customer'::regclass, c.oid::regclass::text FROM pg_class c"
    " WHERE relname = 'customer'": (True, "customer"),
    "SELECT to_regclass('nothing'), to_regclass('pg_class'), 1259::regclass": (
        None,
        "pg_class",
        "pg_class",
    ),
    "SELECT to_regclass(quote_ident('customer')), '\"public\".' || '\"customer\"'::text::regclass,"
    " to_regclass('\"a b\"'), to_regclass(lower('PG_CATALOG.') || 'pg_class')": (
        "customer",
        '"public".customer',
        None,
        "pg_class",
    ),
    "SELECT 23::regtype, 'timestamp with time zone'::regtype::oid, 'int[]'::regtype": (
        "integer",
        1184,
        "integer[]",
    ),
    "SELECT 'public'::regnamespace, 2200::regnamespace::text, 10::regrole": (
        "public",
        "public",
        "hornbeam",
    ),
    "SELECT indkey[0], indkey[1], indnatts FROM pg_index"
    " WHERE indexrelid = 'line_pkey'::regclass": (1, 2, 2),
    "SELECT indkey[1] FROM (VALUES (ARRAY[7, 8])) AS own (indkey)": (7,),
    "SELECT DISTINCT format_type(atttypid, atttypmod), format_type(1700, NULL), format_type(0, -1)"
    " FROM pg_attribute WHERE attname = 'c_balance'": (
        "numeric(15,2)",
        "numeric",
        None,
    ),
    "SELECT count(*) FROM pg_class WHERE relname OPERATOR(pg_catalog.~) '^(line)$'"
    ' COLLATE pg_catalog."default"': (1,),
    "SELECT has_table_privilege('customer', 'SELECT'), pg_relation_size('customer')": (True, 0),
    "SELECT pg_get_serial_sequence(a.attrelid::regclass::text, a.attname) FROM pg_attribute a"
    " WHERE attidentity = 'd'": ("public.event_v_id_seq",),
}


async def test_objects_are_looked_up_by_names_and_by_oids(tmp_path: Path) -> None:
    async with opened(tmp_path, shop()) as database:
        for sql, row in ANSWERS.items():
            assert await database.fetch(sql) == [row], sql
        with pytest.raises(UnknownName, match="nothing"):
            await database.fetch("SELECT 'nothing'::regclass")
        with pytest.raises(SqlError):
            await database.execute("DELETE FROM pg_class")


def test_every_relation_of_the_catalog_has_rows_of_its_columns() -> None:
    sizes = {name: table(name, shop()).num_rows for name in known(SYSTEM_CATALOG)}
    assert sizes["pg_catalog.pg_trigger"] == 0
    assert sizes["pg_catalog.pg_tables"] == len(shop().schema.relations)
    assert len(sizes) > 100


async def test_the_oid_of_a_relation_stays_when_it_is_renamed(tmp_path: Path) -> None:
    async with await Database.open(settings(tmp_path)) as database:
        await applied(database, "CREATE TABLE a (k INTEGER PRIMARY KEY)")
        before = await database.fetch("SELECT oid FROM pg_class WHERE relname = 'a'")
        await applied(
            database, "CREATE TABLE b (k INTEGER PRIMARY KEY)", renames=(Rename("a", "", "b"),)
        )
        assert await database.fetch("SELECT oid FROM pg_class WHERE relname = 'b'") == before


def test_objects_with_the_same_hash_get_different_oids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oids_module, "_hashed", lambda _: FIRST)
    assert oids([("b",), ("a",), ("a",)]) == {("a",): FIRST, ("b",): FIRST + 1}


def test_columns_know_their_types_of_postgresql() -> None:
    bound = bind("SELECT c.relkind, oid AS number, c.relname || 'x' FROM pg_class c", shop())
    assert [column.system for column in bound.columns] == ["char", "oid", ""]


async def test_a_plain_view_reads_the_system_catalog_and_a_stored_view_does_not(
    tmp_path: Path,
) -> None:
    tables = "CREATE TABLE t (k INTEGER PRIMARY KEY);"
    plain = "CREATE VIEW v AS SELECT relname, 't'::regclass AS t FROM pg_class WHERE relkind = 'r'"
    async with await Database.open(settings(tmp_path)) as database:
        await applied(database, f"{tables} {plain} AND relnamespace = 2200")
        assert await database.fetch("SELECT * FROM v") == [("t", "t")]
        for refresh in ("immediate", "deferred", "live", "recompute"):
            for read in ("relname FROM pg_class", "k, 't'::regclass::oid AS o FROM t"):
                view = f"CREATE MATERIALIZED VIEW m WITH (refresh = '{refresh}') AS SELECT {read}"
                with pytest.raises(Unsupported, match=r"cannot read pg_catalog\.pg_class"):
                    database.plan_schema(PlanRequest(f"{tables} {view}"))


async def test_parameters_that_an_answer_does_not_need_stay_parameters(tmp_path: Path) -> None:
    """SQLAlchemy and JDBC give such arguments as parameters."""
    defined = "SELECT pg_get_constraintdef(oid, ?) FROM pg_constraint WHERE contype = ?"
    granted = "SELECT has_table_privilege(:u, oid, :p) FROM pg_class WHERE relname = :t"
    described = "SELECT obj_description(oid, ?), format_type(23, ?) FROM pg_class WHERE relname = ?"
    async with await Database.open(settings(tmp_path)) as database:
        await applied(database, "CREATE TABLE t (k INTEGER PRIMARY KEY);")
        for pretty in (True, False, None):
            assert await database.fetch(defined, (pretty, "p")) == [("PRIMARY KEY (k)",)]
        assert await database.fetch(granted, {"u": "hornbeam", "p": "SELECT", "t": "t"}) == [
            (True,)
        ]
        assert await database.fetch(described, ("pg_class", -1, "t")) == [(None, "integer")]
