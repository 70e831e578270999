"""SHOW and SET."""

import pytest

import hornbeam
from hornbeam.errors import NotSupportedError
from tests.client.client_world import embedded
from tests.client.test_client_views import rows, run


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    with hornbeam.connect(embedded(tmp_path_factory.mktemp("db")), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(
    ("sql", "name", "value"),
    [
        ("SHOW search_path", "search_path", "public"),
        ("show TIMEZONE;", "TimeZone", "UTC"),
        ("SHOW TIME ZONE", "TimeZone", "UTC"),
        (" SHOW  client_encoding ", "client_encoding", "UTF8"),
    ],
)
def test_show_gives_one_value_under_its_name(db, sql, name, value):
    cursor = run(db, sql)
    assert cursor.description[0][0] == name
    assert [tuple(row) for row in cursor.fetchall()] == [(value,)]


def test_show_all_lists_each_setting(db):
    found = {name: value for name, value, _ in rows(db, "SHOW ALL")}
    assert found["DateStyle"] == "ISO, MDY"
    assert all(rows(db, f"SHOW {name}") == [(value,)] for name, value in found.items())


@pytest.mark.parametrize(
    "sql",
    [
        "SET search_path TO public",
        "SET SESSION search_path = 'public';",
        "SET TIME ZONE 'UTC'",
        "SET LOCAL timezone TO DEFAULT",
        "SET NAMES 'utf8'",
        "SET datestyle = ISO, MDY",
    ],
)
def test_set_may_repeat_the_value(db, sql):
    assert run(db, sql).description is None


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SET TIME ZONE 'Europe/Berlin'", "timezone is UTC"),
        ("SET work_mem = '1GB'", "There is no setting work_mem"),
        ("SHOW work_mem", "SHOW ALL lists them"),
    ],
)
def test_other_values_and_settings_are_refused(db, sql, said):
    with pytest.raises(NotSupportedError, match=said):
        run(db, sql)
