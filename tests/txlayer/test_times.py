"""Columns of type TIME, TIME(n) and TIMESTAMP(n), from DDL to views, in all loops."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema import seconds
from hornbeam_server.schema.ddl import load_ddl, render_ddl
from hornbeam_server.schema.errors import CheckViolation, TypeMismatch
from hornbeam_server.schema.types import ColumnType, Kind
from hornbeam_server.storage.codec.keys import part_encoder
from tests.txlayer.database_world import catalog_of, opened, run_all

DDL = """
CREATE TABLE shop (s_id INTEGER PRIMARY KEY, s_opens TIME DEFAULT '09:00', s_closes TIME(0));
CREATE TABLE visit (
  v_at TIME, v_s_id INTEGER REFERENCES shop (s_id), v_seen TIMESTAMP(3), v_zoned TIMESTAMPTZ(1),
  v_hour BIGINT GENERATED ALWAYS AS (extract(hour FROM v_at)) STORED,
  CHECK (v_at < '23:00'), PRIMARY KEY (v_at, v_s_id));
CREATE INDEX by_opening ON shop (s_opens DESC);
"""
NINE, NOON = dt.time(9), dt.time(12, 0, 0, 250_000)


async def stocked(database):
    await run_all(
        database,
        "INSERT INTO shop VALUES (1, DEFAULT, '18:30:00.5'), (2, '08:30', NULL)",
        "INSERT INTO shop VALUES (3, NULL, '20:00')",
        "INSERT INTO visit (v_at, v_s_id, v_seen, v_zoned) VALUES"
        " ('12:00:00.25', 1, '2024-02-29 12:00:00.0005', '1999-02-28 12:00:00.05Z'),"
        " ('09:15', 1, TIMESTAMP '2024-02-29 09:15:00.1234', NULL), ('9:15', 2, NULL, NULL)",
    )


QUERIES = [
    ("SELECT s_opens, s_closes FROM shop WHERE s_id = 1", [(NINE, dt.time(18, 30, 1))]),
    ("SELECT s_id FROM shop WHERE s_opens = '09:00'", [(1,)]),
    ("SELECT s_id FROM shop WHERE s_opens < TIME '08:45' ORDER BY s_id", [(2,)]),
    ("SELECT s_id FROM shop ORDER BY s_opens DESC LIMIT 2", [(3,), (1,)]),
    ("SELECT v_at FROM visit WHERE v_at > '10:00'", [(NOON,)]),
    ("SELECT v_at, v_hour FROM visit WHERE v_at = '09:15' AND v_s_id = 2", [(dt.time(9, 15), 9)]),
    ("SELECT v_seen FROM visit WHERE v_s_id = 1 AND v_at = '09:15'",
     [(dt.datetime(2024, 2, 29, 9, 15, 0, 123_000),)]),
    ("SELECT v_at FROM visit WHERE v_seen = '2024-02-29 12:00:00.001'", [(NOON,)]),
    ("SELECT v_at FROM visit WHERE v_seen = '2024-02-29 12:00:00.0005'", []),
    ("SELECT v_zoned FROM visit WHERE v_zoned IS NOT NULL",
     [(dt.datetime(1999, 2, 28, 12, tzinfo=dt.UTC),)]),
    ("SELECT min(v_at), max(v_at), count(DISTINCT v_at) FROM visit", [(dt.time(9, 15), NOON, 2)]),
    ("SELECT extract(minute FROM s_closes), s_closes::TEXT FROM shop WHERE s_id = 1",
     [(30, "18:30:01")]),
    ("SELECT v_seen::TIME(0), v_seen::TIMESTAMP(0) FROM visit WHERE v_at = '12:00:00.25'",
     [(dt.time(12), dt.datetime(2024, 2, 29, 12))]),
]  # fmt: skip


async def test_times_are_stored_indexed_and_compared(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
        await stocked(database)
        for sql, rows in QUERIES:
            assert await database.fetch(sql) == rows, sql
            slow = f"SELECT * FROM ({sql}) AS q, (SELECT 1) AS one"  # DuckDB answers it
            assert [row[:-1] for row in await database.fetch(slow)] == rows, slow


async def test_a_time_column_takes_the_time_of_a_timestamp(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
        await database.execute(
            "INSERT INTO shop VALUES (1, TIMESTAMP '2024-02-29 10:11:12', '23:59:59.4')"
        )
        assert await database.fetch("SELECT s_opens, s_closes FROM shop") == [
            (dt.time(10, 11, 12), dt.time(23, 59, 59))
        ]
        with pytest.raises(TypeMismatch, match="there is no 24:00:00"):
            await database.execute("UPDATE shop SET s_closes = '23:59:59.5'")
        with pytest.raises(CheckViolation, match="visit_v_at_check"):
            await database.execute("INSERT INTO visit (v_at, v_s_id) VALUES ('23:30', 1)")


def test_the_declared_precision_is_in_the_ddl():
    schema = load_ddl(DDL)
    types = [column.type.ddl() for column in schema.relation("visit").columns]
    assert [types[0], *types[2:4]] == ["TIME", "TIMESTAMP(3)", "TIMESTAMP(1) WITH TIME ZONE"]
    assert load_ddl(render_ddl(schema)) == schema


@given(st.datetimes(), st.integers(0, 5))
def test_a_rounded_timestamp_is_the_nearest_with_these_decimals(value, digits):
    value = value.replace(fold=0)
    try:
        found = seconds.rounded(value, digits)
    except ValueError:
        assert value.year == dt.MAXYEAR
        return
    unit = dt.timedelta(microseconds=10 ** (6 - digits))
    assert abs(found - value) * 2 <= unit
    assert found.microsecond % (unit // dt.timedelta(microseconds=1)) == 0
    assert seconds.rounded(found, digits) == found


@given(st.times(), st.times())
def test_keys_of_times_have_the_order_of_times(left, right):
    encode = part_encoder(Kind.TIME)
    assert (encode(left) < encode(right)) == (left < right)
    assert ColumnType(Kind.TIME).coerce(left.isoformat()) == left
