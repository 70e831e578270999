"""The information schema: ordinary queries over the schema in force."""

from __future__ import annotations

from pathlib import Path

import pytest

from hornbeam_server.query.system.relations import known
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import SqlError, UnknownName
from hornbeam_server.schema.model import INFORMATION_SCHEMA
from tests.txlayer.database_world import catalog_of, opened, shop

QUERIES = {
    "SELECT table_name FROM information_schema.tables WHERE table_type = 'VIEW'"
    " ORDER BY 1 LIMIT 2": [
        ("customer__orders",),
        ("customer__orders__line",),
    ],
    "SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale,"
    " is_nullable, column_default FROM information_schema.columns c"
    " WHERE table_name = 'customer' ORDER BY ordinal_position": [
        ("c_id", "integer", None, 32, 0, "NO", None),
        ("c_name", "text", None, None, None, "NO", None),
        ("c_balance", "numeric", None, 15, 2, "YES", "0.00"),
        ("c_email", "text", None, None, None, "YES", None),
    ],
    "SELECT is_identity, identity_generation FROM information_schema.columns"
    " WHERE table_name = 'event' AND column_name = 'v_id'": [("YES", "BY DEFAULT")],
    "SELECT c.constraint_type, k.column_name FROM information_schema.table_constraints c"
    " JOIN information_schema.key_column_usage k USING (constraint_name)"
    " WHERE c.table_name = 'gift' ORDER BY 1, k.ordinal_position": [
        ("FOREIGN KEY", "g_o_id"),
        ("FOREIGN KEY", "g_no"),
        ("PRIMARY KEY", "g_id"),
    ],
    "SELECT delete_rule, unique_constraint_name FROM information_schema.referential_constraints"
    " WHERE constraint_name LIKE 'gift%'": [("SET NULL", "line_pkey")],
    "SELECT table_name, column_name FROM information_schema.constraint_column_usage"
    " WHERE constraint_name LIKE 'employee%' ORDER BY constraint_name": [
        ("employee", "e_id"),
        ("employee", "e_id"),
    ],
    "SELECT sequence_name, data_type, increment FROM information_schema.sequences": [
        ("event_v_id_seq", "bigint", "1")
    ],
    "SELECT schema_name FROM information_schema.schemata ORDER BY 1": [
        ("information_schema",),
        ("public",),
    ],
    "SELECT count(*) FROM customer JOIN (information_schema.tables t"
    " JOIN information_schema.views v ON v.table_name = t.table_name) ON true": [(0,)],
}


async def test_queries_read_the_schema_in_force(tmp_path: Path) -> None:
    async with opened(tmp_path, shop()) as database:
        for sql, rows in QUERIES.items():
            assert await database.fetch(sql) == rows, sql


async def test_every_relation_can_be_read_and_none_written(tmp_path: Path) -> None:
    async with opened(tmp_path, shop()) as database:
        for name in known(INFORMATION_SCHEMA):
            assert await database.fetch(f"SELECT * FROM {name} WHERE 1 = 0") == []
            with pytest.raises(SqlError):
                await database.execute(f"DELETE FROM {name}")
        with pytest.raises(UnknownName, match=r"information_schema\.nothing"):
            await database.fetch("SELECT * FROM information_schema.nothing")


async def test_checks_defaults_and_generated_columns_are_described(tmp_path: Path) -> None:
    ddl = """CREATE TABLE t (k INTEGER PRIMARY KEY CHECK (k > 0), at TIMESTAMP DEFAULT now(),
      u UUID DEFAULT gen_random_uuid(), e INTEGER DEFAULT (2 + 3),
      g INTEGER GENERATED ALWAYS AS (k * 2) STORED)"""
    columns = "SELECT column_name, column_default, is_generated, generation_expression"
    async with opened(tmp_path, catalog_of(load_ddl(ddl))) as database:
        described = await database.fetch(
            f"{columns} FROM information_schema.columns ORDER BY ordinal_position"
        )
        assert described == [
            ("k", None, "NEVER", None),
            ("at", "CURRENT_TIMESTAMP", "NEVER", None),
            ("u", "gen_random_uuid()", "NEVER", None),
            ("e", "2 + 3", "NEVER", None),
            ("g", None, "ALWAYS", "k * 2"),
        ]
        checks = await database.fetch(
            "SELECT constraint_name, constraint_type, check_clause"
            " FROM information_schema.table_constraints"
            " LEFT JOIN information_schema.check_constraints USING (constraint_name) ORDER BY 1"
        )
        assert checks == [("t_k_check", "CHECK", "k > 0"), ("t_pkey", "PRIMARY KEY", None)]
