"""Functions that ask for the server, the user, the database and the schema."""

from __future__ import annotations

from pathlib import Path

import pytest

import hornbeam
from hornbeam_server import __version__
from tests.client.client_world import embedded


@pytest.fixture(scope="module")
def cursor(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("session")
    with hornbeam.connect(embedded(folder / "db"), autocommit=True) as db:
        yield db.cursor()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT current_user",
        "SELECT session_user",
        "SELECT user",
        "SELECT USER",
        "SELECT current_role",
        "SELECT current_database()",
        "SELECT pg_catalog.current_database()",
        "SELECT current_catalog",
        "SELECT max(u) FROM (VALUES (user), (session_user)) v(u)",
        "SELECT (SELECT user)",
        "SELECT lower(upper(user))",
        "WITH c AS (SELECT current_user AS u) SELECT u FROM c WHERE u = user ORDER BY user",
    ],
)
def test_the_user_and_the_database_are_hornbeam(cursor, sql):
    assert cursor.execute(sql).fetchall() == [("hornbeam",)]


def test_the_version_is_that_of_the_server_and_names_postgresql(cursor):
    ((found,),) = cursor.execute("SELECT version()").fetchall()
    assert found.startswith(f"Hornbeam {__version__} ")
    assert "PostgreSQL 15" in found
    ((number,),) = cursor.execute("SHOW server_version_num").fetchall()
    ((version,),) = cursor.execute("SHOW server_version").fetchall()
    major, minor = map(int, version.split("."))
    assert int(number) == 10_000 * major + minor


@pytest.mark.parametrize("sql", ["SELECT current_schema", "SELECT current_schema()"])
def test_the_schema_is_public(cursor, sql):
    assert cursor.execute(sql).fetchall() == [("public",)]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("1", "integer"),
        ("CAST(1 AS DECIMAL(38, 0))", "numeric"),
        ("1.5", "numeric"),
        ("CAST(1 AS DOUBLE)", "double precision"),
        ("'a'", "text"),
        ("TRUE", "boolean"),
        ("now()", "timestamp with time zone"),
        ("localtimestamp", "timestamp without time zone"),
        ("'x'::BYTEA", "bytea"),
        ("NULL", "unknown"),
    ],
)
def test_types_have_names_of_postgresql(cursor, value, name):
    assert cursor.execute(f"SELECT pg_typeof({value})").fetchall() == [(name,)]


def test_a_column_comes_before_a_word_of_the_same_name(cursor):
    cursor.execute('CREATE TABLE account (id INTEGER PRIMARY KEY, "user" TEXT, maker TEXT)')
    cursor.execute("INSERT INTO account VALUES (1, 'ann', user)")
    cursor.execute("UPDATE account SET maker = maker || current_role WHERE user <> current_user")
    assert cursor.execute("SELECT user, maker FROM account").fetchall() == [
        ("ann", "hornbeamhornbeam")
    ]
    with pytest.raises(hornbeam.ProgrammingError, match="Column user is unknown"):
        cursor.execute('SELECT "user"')
    with pytest.raises(hornbeam.ProgrammingError, match="user is unknown"):
        cursor.execute("SELECT user.id FROM account")


def test_a_default_may_be_the_user(cursor):
    cursor.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, who TEXT DEFAULT current_user)")
    cursor.execute("INSERT INTO log (id) VALUES (1)")
    assert cursor.execute("SELECT who FROM log").fetchall() == [("hornbeam",)]


@pytest.mark.parametrize("sql", ["SELECT version(1)", "SELECT pg_catalog.current_setting('a')"])
def test_other_calls_are_errors(cursor, sql):
    with pytest.raises(hornbeam.DatabaseError):
        cursor.execute(sql)
