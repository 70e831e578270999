"""Columns and results of type INTERVAL, from DDL to views, in all loops."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.maintain.immediate.projected import define_any
from hornbeam_server.schema.ddl import load_ddl, render_ddl
from hornbeam_server.schema.errors import SchemaError, TypeMismatch, Unsupported
from hornbeam_server.schema.intervals import Interval, identical, interval, of_length
from hornbeam_server.schema.types import ColumnType, Kind
from hornbeam_server.storage.codec.keys import part_encoder
from tests import strategies
from tests.txlayer.database_world import catalog_of, opened, run_all

DDL = """
CREATE TABLE plan (p_id INTEGER PRIMARY KEY, p_term INTERVAL DEFAULT '1 month' UNIQUE);
CREATE TABLE lease (
  l_id INTEGER PRIMARY KEY, l_p_id INTEGER REFERENCES plan (p_id), l_from TIMESTAMP,
  l_until TIMESTAMP, l_rest INTERVAL, CHECK (l_rest >= '0'));
CREATE INDEX by_rest ON lease (l_rest) INCLUDE (l_p_id);
"""
MONTH, THIRTY, DAY = Interval(1), Interval(0, 30), Interval(0, 1)


async def stocked(database):
    await run_all(
        database,
        "INSERT INTO plan VALUES (1, DEFAULT), (2, '1 year'), (3, NULL)",
        "INSERT INTO lease VALUES"
        " (1, 1, '2024-01-31', '2024-03-01 12:00', '1 day'), (2, 1, NULL, NULL, '30 days'),"
        " (3, 2, '2024-02-01', '2024-02-01', INTERVAL '1 mon'), (4, 2, NULL, NULL, NULL)",
    )


QUERIES = [
    ("SELECT p_term FROM plan WHERE p_id = 1", [(MONTH,)]),
    ("SELECT l_until - l_from FROM lease WHERE l_id = 1", [(Interval(0, 30, 43_200_000_000),)]),
    ("SELECT l_id FROM lease WHERE l_rest = '1 month' ORDER BY l_id", [(2,), (3,)]),
    ("SELECT l_id FROM lease WHERE l_rest < INTERVAL '2 days'", [(1,)]),
    ("SELECT p_id FROM plan WHERE p_term = '30 days'", [(1,)]),
    ("SELECT l_id FROM lease ORDER BY l_rest DESC, l_id LIMIT 3", [(4,), (2,), (3,)]),
    ("SELECT sum(l_rest), min(l_rest), count(DISTINCT l_rest) FROM lease",
     [(Interval(1, 31), DAY, 2)]),
    ("SELECT l_p_id, sum(l_rest) FILTER (WHERE l_id < 3) FROM lease GROUP BY l_p_id ORDER BY 1",
     [(1, Interval(0, 31)), (2, None)]),
    ("SELECT l_from + p_term FROM lease JOIN plan ON l_p_id = p_id WHERE l_id = 1", None),
    ("SELECT l_rest::TEXT FROM lease WHERE l_id = 3", [("1 mon",)]),
    ("SELECT justify_days(l_rest + INTERVAL '3 days') FROM lease WHERE l_id = 2",
     [(Interval(1, 3),)]),
    ("SELECT extract(day FROM l_rest) FROM lease WHERE l_id = 2", [(30,)]),
]  # fmt: skip


async def test_intervals_are_stored_indexed_and_compared(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
        await stocked(database)
        for sql, rows in QUERIES:
            found = await database.fetch(sql)
            slow = f"SELECT * FROM ({sql}) AS q, (SELECT 1) AS one"  # DuckDB answers it
            assert [row[:-1] for row in await database.fetch(slow)] == found, slow
            assert rows is None or found == rows, sql


async def test_an_update_to_an_equal_interval_of_other_parts_is_stored(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
        await stocked(database)
        await database.execute("UPDATE lease SET l_rest = '1 mon' WHERE l_id = 2")
        for sql in (
            "SELECT l_rest::TEXT FROM lease WHERE l_id = 2",
            "SELECT l_rest::TEXT FROM lease WHERE l_rest = '30 days' AND l_p_id = 1",
            "SELECT l_rest::TEXT FROM plan__lease WHERE l_id = 2",
        ):
            assert await database.fetch(sql) == [("1 mon",)]


async def test_parameters_are_intervals(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
        await stocked(database)
        for given_ in (dt.timedelta(1), "24 hours", DAY):
            sql = "SELECT l_id FROM lease WHERE l_rest = ?"
            assert await database.fetch(sql, [given_]) == [(1,)]
        assert await database.fetch("SELECT ? - l_rest FROM lease WHERE l_id = 1", [MONTH]) == [
            (Interval(1, -1),)
        ]
        await database.execute("UPDATE lease SET l_rest = ? WHERE l_id = 1", [dt.timedelta(2)])
        found = await database.fetch("SELECT l_rest FROM lease WHERE l_id = 1")
        assert found == [(Interval(0, 2),)]


def test_immediate_views_do_not_group_by_intervals():
    sql = "SELECT l_rest, count(*) AS n FROM lease GROUP BY l_rest"
    schema = load_ddl(f"{DDL} CREATE MATERIALIZED VIEW v WITH (refresh = 'immediate') AS {sql};")
    (view,) = schema.views
    with pytest.raises(Unsupported, match="l_rest"):
        define_any(view, catalog_of(schema, views=[]))


@pytest.mark.parametrize("type_", ["INTERVAL DAY TO SECOND", "INTERVAL YEAR", "INTERVAL(3)"])
def test_intervals_of_some_parts_are_refused(type_):
    with pytest.raises(SchemaError, match="INTERVAL"):
        load_ddl(f"CREATE TABLE t (a INTEGER PRIMARY KEY, b {type_})")


def test_the_ddl_is_rendered():
    schema = load_ddl(DDL)
    assert load_ddl(render_ddl(schema)) == schema


INTERVALS = strategies.values(ColumnType(Kind.INTERVAL))


@given(INTERVALS)
def test_text_is_read_back_with_its_parts(value):
    assert interval(str(value)).parts == value.parts
    assert interval(value.plain()).parts == value.parts


@given(INTERVALS, INTERVALS)
def test_keys_have_the_order_of_lengths(left, right):
    encode = part_encoder(Kind.INTERVAL)
    assert (encode(left) < encode(right)) == (left < right)
    assert (encode(left) == encode(right)) == (left == right) == (hash(left) == hash(right))


@given(st.integers(-(10**18), 10**18))
def test_a_length_is_kept_and_its_parts_have_one_sign(length):
    found = of_length(length)
    assert found.length == length
    assert all(part * length >= 0 for part in found.parts)


def test_equal_intervals_of_other_parts_are_not_identical():
    assert MONTH == THIRTY
    assert not identical((1, MONTH), (1, THIRTY))
    assert identical((1, MONTH), (1, Interval(1)))
    assert identical(None, None)
    assert not identical(None, (1,))


@pytest.mark.parametrize("text", ["1 fortnight", "", "3000000000 months", "3000000 hours"])
def test_what_is_no_interval_is_refused(text):
    with pytest.raises(TypeMismatch, match="INTERVAL"):
        ColumnType(Kind.INTERVAL).coerce(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:02.5", Interval(microseconds=62_500_000)),
        ("-1:02.5", Interval(microseconds=-62_500_000)),
        ("1-2 3 years", Interval(months=50)),
        ("1-2 5 4:05:06", Interval(14, 5, 14_706_000_000)),
        ("3 4 hours", Interval(days=3, microseconds=14_400_000_000)),
        ("1 sec 2 ms 3 us", Interval(microseconds=1_002_003)),
    ],
)
def test_text_of_several_parts_is_read_as_by_postgresql(text: str, value: Interval) -> None:
    assert interval(text).parts == value.parts


@pytest.mark.parametrize(
    "text",
    [
        *("123 11", "3 1-2", "3 4 minutes", "123 2:03 -2:04", "1 hour 2:03", "2 mons 1-2"),
        *("1 day 2 d", "1 ms 2 milliseconds", "1 year 2 decades 3 years", "1:2 3", "70:02.5"),
    ],
)
def test_text_that_has_a_field_twice_or_a_number_without_unit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"twice|no unit of time|no such time"):
        interval(text)
