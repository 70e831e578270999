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
    run_all(db, "BEGIN READ ONLY", "SET LOCAL application_name = 'it'")
    found = {name: value for name, value, _ in rows(db, "SHOW ALL")}
    assert found["DateStyle"] == "ISO, MDY"
    assert (found["transaction_read_only"], found["application_name"]) == ("on", "it")
    assert all(rows(db, f"SHOW {name}") == [(value,)] for name, value in found.items())
    asked = ", ".join(f"current_setting('{name}')" for name in found)
    assert rows(db, f"SELECT {asked}") == [tuple(found.values())]
    run_all(db, "ROLLBACK")


def test_a_session_keeps_settings_without_effect(db):
    cursor = run(db, "SET application_name TO 'report''s'")
    assert "no effect" in cursor.notice
    assert mode(db, "application_name") == "report's"
    run_all(db, "BEGIN", "SELECT set_config('application_name', 'other', false)")
    assert rows(db, "SELECT current_setting('application_name', true)") == [("other",)]
    run_all(db, "ROLLBACK")
    assert mode(db, "application_name") == "report's"
    run_all(db, "RESET ALL")
    assert mode(db, "application_name") == ""


def test_set_constraints_is_taken_and_changes_nothing(db):
    run_all(db, "CREATE TABLE above (a INTEGER PRIMARY KEY)")
    run_all(db, "CREATE TABLE below (b INTEGER PRIMARY KEY CONSTRAINT up REFERENCES above)")
    run_all(db, "BEGIN", "SET CONSTRAINTS ALL DEFERRED", 'SET CONSTRAINTS "up", other IMMEDIATE;')
    with pytest.raises(hornbeam.IntegrityError):
        run_all(db, "INSERT INTO below VALUES (1)")
    run_all(db, "ROLLBACK")
    with pytest.raises(NotSupportedError):
        run_all(db, "SET CONSTRAINTS ALL LATER")


def test_the_time_limit_of_statements_is_a_setting(db):
    run_all(db, "SET statement_timeout = 90000")
    assert mode(db, "statement_timeout") == "90s"
    run_all(db, "SET statement_timeout = '1ms'")
    with pytest.raises(hornbeam.OperationalError) as caught:
        rows(db, "SELECT count(*) FROM range(100000) a, range(100000) b WHERE a.range < b.range")
    assert caught.value.code == "statement-timeout"
    with pytest.raises(hornbeam.InterfaceError, match="has a unit"):
        run_all(db, "SET statement_timeout = 'soon'")
    run_all(db, "SET statement_timeout TO DEFAULT")
    assert mode(db, "statement_timeout") == "0"


def test_objects_of_statements_without_work_exist(db):
    run_all(
        db, "CREATE SCHEMA kept", "CREATE TABLE kept.u (a INTEGER)", "CREATE INDEX ua ON kept.u (a)"
    )
    for sql, said in (
        ("COMMENT ON FUNCTION f(INTEGER) IS 'x'", "no objects of this kind"),
        ("COMMENT ON ROLE r IS 'x'", "no objects of this kind"),
        ("REINDEX (VERBOSE) TABLE CONCURRENTLY kept.u", "keeps the indexes"),
        ("ANALYZE kept.u (a), kept.u", "by themselves"),
    ):
        assert said in run(db, sql).notice
    run_all(db, "SET search_path TO kept", "VACUUM u", "REINDEX INDEX ua", "RESET search_path")
    for sql in ("REINDEX TABLE u", "VACUUM u", "ANALYZE kept.v"):
        with pytest.raises(hornbeam.ProgrammingError, match="is unknown"):
            run(db, sql)


def test_parts_of_objects_of_statements_without_work_exist(db):
    run_all(
        db,
        "CREATE SCHEMA parts",
        "CREATE TABLE parts.t (a INT CONSTRAINT pk PRIMARY KEY, b INT CONSTRAINT once UNIQUE)",
        "CREATE TABLE parts.u (a INTEGER PRIMARY KEY, b INTEGER CONSTRAINT r REFERENCES parts.t)",
        "SET search_path TO parts",
    )
    for sql in (
        "REINDEX {} | INDEX pk | TABLE t | SCHEMA parts | DATABASE kept | t | pk | INDEX t_pkey",
        "REINDEX {} | INDEX once | SCHEMA others",
        "REINDEX {} | SYSTEM x | nothing",
        "ANALYZE {} | t (a, b) | t, u (b) | t (a, c)",
        "VACUUM {} | (FULL, ANALYZE) t (a) | FULL t | t (c)",
    ):
        form, *known, unknown = sql.split(" | ")
        for each in known:
            assert run(db, form.format(each)).notice
        with pytest.raises(hornbeam.ProgrammingError, match="is unknown"):
            run(db, form.format(unknown))
    run_all(db, "RESET search_path", "REINDEX")


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


def run_all(db, *statements):
    for statement in statements:
        run(db, statement)


def mode(db, name):
    ((value,),) = rows(db, f"SHOW {name}")
    return value


def test_show_gives_the_modes_of_transactions(db):
    assert mode(db, "TRANSACTION ISOLATION LEVEL") == "repeatable read"
    run_all(db, "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    run_all(db, "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY")
    assert mode(db, "transaction_isolation") == "read committed"
    assert mode(db, "transaction_read_only") == "on"
    db.rollback()
    assert mode(db, "transaction_isolation") == "serializable"
    assert mode(db, "default_transaction_isolation") == "serializable"
    run_all(db, "SET default_transaction_isolation TO 'read committed'")
    assert mode(db, "transaction_isolation") == "read committed"
    run_all(db, "RESET default_transaction_isolation", "SET default_transaction_read_only = on")
    assert mode(db, "transaction_isolation") == "repeatable read"
    assert mode(db, "transaction_read_only") == "on"
    run_all(db, "SET default_transaction_read_only = off")


def test_a_savepoint_keeps_whether_a_transaction_only_reads(db):
    run_all(db, "BEGIN", "SAVEPOINT x", "SET TRANSACTION READ ONLY")
    assert mode(db, "transaction_read_only") == "on"
    run_all(db, "ROLLBACK TO x")
    assert mode(db, "transaction_read_only") == "off"
    run_all(db, "SAVEPOINT y", "SET TRANSACTION READ ONLY", "SAVEPOINT z", "RELEASE y")
    assert mode(db, "transaction_read_only") == "off"
    with pytest.raises(hornbeam.ProgrammingError, match="no savepoint y"):
        run_all(db, "ROLLBACK TO y")
    run_all(db, "ROLLBACK", "BEGIN", "SET TRANSACTION READ ONLY")
    assert mode(db, "transaction_read_only") == "on"
    with pytest.raises(hornbeam.InterfaceError, match="before its first statement"):
        run_all(db, "SET TRANSACTION READ WRITE")
    run_all(db, "ROLLBACK")


def test_show_gives_deferrable_as_it_is_set(db):
    run_all(db, "BEGIN ISOLATION LEVEL SERIALIZABLE, DEFERRABLE")
    assert mode(db, "transaction_deferrable") == "on"
    run_all(db, "COMMIT")
    assert mode(db, "transaction_deferrable") == "off"
    run_all(db, "SET default_transaction_deferrable = on", "BEGIN")
    assert mode(db, "transaction_deferrable") == "on"
    run_all(db, "ROLLBACK", "BEGIN", "SET transaction_deferrable = off")
    assert mode(db, "transaction_deferrable") == "off"
    run_all(db, "ROLLBACK", "RESET default_transaction_deferrable")
    assert mode(db, "default_transaction_deferrable") == "off"


def test_discard_all_returns_to_what_the_connection_was_opened_with(tmp_path):
    url = embedded(tmp_path)
    with hornbeam.connect(
        url, autocommit=True, isolation="SERIALIZABLE", search_path=["shop", "public"]
    ) as db:
        run_all(db, "CREATE TABLE t (a INTEGER PRIMARY KEY)", "SET search_path TO public")
        run_all(db, "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
        run_all(db, "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        with pytest.raises(hornbeam.ProgrammingError, match="READ ONLY"):
            run_all(db, "INSERT INTO t VALUES (1)")
        run_all(db, "DISCARD ALL", "INSERT INTO t VALUES (1)")
        assert db.isolation == "SERIALIZABLE"
        assert db.search_path == ("shop", "public")
        run_all(db, "SET search_path TO public", "RESET search_path")
        assert db.search_path == ("shop", "public")


def test_a_transaction_that_only_reads_takes_no_number_of_a_sequence(db):
    run_all(db, "CREATE SEQUENCE numbers", "SELECT nextval('numbers')")
    for sql in ("SELECT nextval('numbers')", "SELECT 1 WHERE NextVal ('numbers') > 0"):
        run_all(db, "BEGIN READ ONLY")
        with pytest.raises(hornbeam.ProgrammingError, match="READ ONLY, and nextval"):
            run_all(db, sql)
        run_all(db, "ROLLBACK")
    run_all(db, "BEGIN READ ONLY", "SELECT currval('numbers'), 'nextval (' AS nextval", "COMMIT")
    assert db.cursor().execute("SELECT nextval('numbers')").fetchall() == [(2,)]


def test_setval_leaves_lastval_at_the_sequence_of_the_last_nextval(db):
    run_all(db, "CREATE SEQUENCE a", "CREATE SEQUENCE b", "CREATE SEQUENCE c")
    run_all(db, "SELECT nextval('a')", "SELECT nextval('b')", "SELECT setval('b', 10)")
    assert db.cursor().execute("SELECT lastval()").fetchall() == [(10,)]
    run_all(db, "SELECT setval('a', 20)", "SELECT setval('c', 30)")
    assert db.cursor().execute("SELECT lastval(), currval('a')").fetchall() == [(10, 20)]
