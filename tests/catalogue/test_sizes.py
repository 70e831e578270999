"""Bytes of relations and of the database."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.query.values.sizes import pretty
from hornbeam_server.schema.errors import TypeMismatch, UnknownName
from tests.txlayer.database_world import settings
from tests.txlayer.test_plain_views import applied

DDL = """
CREATE SEQUENCE tickets;
CREATE TABLE item (i_id INTEGER PRIMARY KEY, i_name TEXT);
CREATE TABLE other (o_id INTEGER PRIMARY KEY);
CREATE INDEX item_by_name ON item (i_name);
CREATE VIEW names AS SELECT i_name FROM item;
CREATE MATERIALIZED VIEW kept WITH (refresh = 'immediate') AS
  SELECT i_name, count(*) AS many FROM item GROUP BY i_name;
"""
ROWS = "INSERT INTO item SELECT i, 'name ' || i % 10 FROM generate_series(1, {}) AS g (i)"


async def test_sizes_are_the_bytes_that_the_server_counts(tmp_path: Path) -> None:
    async with await Database.open(settings(tmp_path)) as database:
        await applied(database, DDL)
        await database.execute(ROWS.format(100))
        counted = await database.sizes()
        assert min(counted["item"], counted["item_by_name"], counted["kept"]) > 100
        sql = (
            "SELECT pg_relation_size('item'), pg_table_size('item'), pg_indexes_size('item'),"
            " pg_total_relation_size('item'), pg_relation_size('item_by_name'),"
            " pg_relation_size('kept'), pg_relation_size('names'), pg_relation_size('item_pkey'),"
            " pg_relation_size('tickets'), pg_relation_size('other')"
        )
        item, index = counted["item"], counted["item_by_name"]
        sizes = (item, item, index, item + index, index, counted["kept"], 0, 0, 0, 0)
        assert await database.fetch(sql) == [sizes]
        sql = (
            "SELECT pg_database_size('hornbeam'), pg_database_size(5), pg_database_size(6),"
            " pg_relation_size('item', 'main'), pg_relation_size('item', 'fsm'),"
            " pg_relation_size(99), pg_size_pretty(pg_relation_size('item'))"
        )
        whole = sum(counted.values())
        assert await database.fetch(sql) == [(whole, whole, None, item, 0, None, f"{item} bytes")]
        await database.execute(ROWS.format(100).replace("i, '", "i + 100, '"))
        assert (await database.fetch("SELECT pg_relation_size('item')"))[0][0] > item
        of_rows = "SELECT relname FROM pg_class WHERE pg_total_relation_size(oid) > 100 ORDER BY 1"
        assert await database.fetch(of_rows) == [("item",), ("item_by_name",), ("kept",)]
        of_part = await database.fetch(
            "SELECT pg_database_size('hornbeam')", shown=frozenset({"other"})
        )
        assert of_part == [(0,)]
        with pytest.raises(TypeMismatch, match="Invalid fork"):
            await database.fetch("SELECT pg_relation_size('item', 'side')")
        with pytest.raises(UnknownName, match="no database other"):
            await database.fetch("SELECT pg_database_size('other')")


PRETTY = {
    "0": "0 bytes", "10239": "10239 bytes", "-10239": "-10239 bytes", "10240": "10 kB",
    "11263.5": "11 kB", "10484736": "10239 kB", "-123456789": "-118 MB",
    "10736893952": "10 GB", "1.5": "1.5 bytes", "9223372036854775807": "8192 PB",
}  # fmt: skip
"""As PostgreSQL 15 answers."""


@pytest.mark.parametrize("size", PRETTY)
def test_sizes_are_shown_with_a_unit(size: str) -> None:
    assert pretty(Decimal(size)) == PRETTY[size]
