"""Sessions as other sessions see and end them: pg_stat_activity, pg_cancel_backend and
pg_terminate_backend."""

import subprocess
import threading
import time
from decimal import Decimal

import psycopg
import pytest
from psycopg import errors

from hornbeam_server.api.security import api_keys
from hornbeam_server.query.values.sizes import pretty
from tests.pgwire.test_security import DDL, Keyed
from tests.pgwire.wire_world import wire_world

SLOW = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    folder, root = tmp_path_factory.mktemp("backends"), api_keys.fresh()
    bootstrap = api_keys.bootstrap_line(root)
    with wire_world(
        folder, authentication="keys", key_refresh_s=0.05, bootstrap_key=bootstrap
    ) as world:
        found = Keyed(world, root, None)
        with found.connect("bootstrap", root.text) as connection:
            connection.execute(DDL)
        yield found


@pytest.fixture(scope="module")
def keys(keyed):
    return {name: keyed.made(name, "reader")["key"] for name in ("ann", "bob")}


def warnings_of(connection):
    found = []
    connection.add_notice_handler(
        lambda note: found.append((note.severity, note.sqlstate, note.message_primary))
    )
    return found


def running(connection, sql=SLOW):
    """Run a statement in a thread; returns the thread and the list that gets its error."""
    failed = []

    def run():
        try:
            connection.execute(sql)
        except psycopg.Error as error:
            failed.append(error.sqlstate)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, failed


def until_active(observer, pid):
    sql = "SELECT state FROM pg_stat_activity WHERE pid = %s"
    deadline = time.monotonic() + 20
    while observer.execute(sql, (pid,)).fetchone() != ("active",):
        assert time.monotonic() < deadline


def test_the_number_of_a_session_is_that_of_its_key_data(wire):
    with wire.connect() as one, wire.connect() as other:
        sql = "SELECT pg_backend_pid(), inet_client_addr(), inet_client_port() > 0"
        for prepare in (False, True):
            rows = [each.execute(sql, prepare=prepare).fetchone() for each in (one, other)]
            assert rows == [(each.info.backend_pid, "127.0.0.1", True) for each in (one, other)]
        assert one.info.backend_pid != other.info.backend_pid
        with one.transaction():
            one.execute("INSERT INTO item VALUES (900, 'x', 1)")
            assert one.execute("SELECT pg_backend_pid()").fetchone() == (one.info.backend_pid,)


def test_a_statement_is_cancelled_and_its_session_goes_on(wire):
    with wire.connect() as one, wire.connect() as other:
        pid = one.info.backend_pid
        thread, failed = running(one)
        until_active(other, pid)
        sql = "SELECT pid, pg_cancel_backend(pid) AS done FROM pg_stat_activity WHERE pid = %s"
        assert other.execute(sql, (pid,)).fetchall() == [(pid, True)]
        thread.join()
        assert failed == ["57014"]
        assert one.execute("SELECT 1").fetchone() == (1,)
        assert other.execute("SELECT pg_cancel_backend(%s)", (pid,)).fetchone() == (True,)
        assert one.execute("SELECT 2").fetchone() == (2,)  # it was idle


def test_all_other_sessions_are_ended(wire):
    """As tools do before they drop a database."""
    with wire.connect() as one, wire.connect() as other:
        waiting = one.execute("SELECT 1")
        sql = (
            "SELECT pg_terminate_backend(pg_stat_activity.pid) FROM pg_stat_activity"
            " WHERE pg_stat_activity.datname = 'hornbeam' AND pid <> pg_backend_pid()"
        )
        cursor = other.execute(sql)
        assert cursor.fetchall() == [(True,)]
        assert [(c.name, c.type_code) for c in cursor.description] == [("pg_terminate_backend", 16)]
        assert waiting.fetchone() == (1,)
        with pytest.raises(errors.AdminShutdown):
            one.execute("SELECT 1")
        assert one.closed


def test_a_running_session_is_ended(wire):
    with wire.connect() as one, wire.connect() as other:
        pid = one.info.backend_pid
        thread, failed = running(one)
        until_active(other, pid)
        sql = "SELECT pg_terminate_backend(%s, 20000)"
        assert other.execute(sql, (pid,)).fetchone() == (True,)
        assert other.execute("SELECT count(*) FROM pg_stat_activity").fetchone() == (1,)
        thread.join()
        assert failed == ["57P01"]


def test_a_session_ends_itself(wire):
    with wire.connect() as one:
        with pytest.raises(errors.QueryCanceled):
            one.execute("SELECT pg_cancel_backend(pg_backend_pid())")
        assert one.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(errors.AdminShutdown):
            one.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        assert one.closed


def test_a_number_of_no_session_is_a_warning(wire):
    with wire.connect() as one:
        warnings = warnings_of(one)
        warning = ("WARNING", "01000", "PID 5 is not a PostgreSQL backend process.")
        for call in ("pg_cancel_backend(5)", "pg_terminate_backend(5)", "pg_cancel_backend('5')"):
            assert one.execute(f"SELECT {call}").fetchone() == (False,)
        assert warnings == [warning] * 3
        nothing = "SELECT pg_cancel_backend(NULL), pg_terminate_backend(NULL, 5)"
        assert one.execute(nothing).fetchone() == (None, None)
        with pytest.raises(errors.NumericValueOutOfRange):
            one.execute("SELECT pg_terminate_backend(5, -1)")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(pg_cancel_backend(5))",
        "SELECT DISTINCT pg_cancel_backend(5)",
        "SELECT 1 WHERE pg_cancel_backend(5)",
        "SELECT * FROM (SELECT pg_terminate_backend(5) AS done) AS t",
        "SELECT pg_terminate_backend(5) UNION ALL SELECT TRUE",
        "SELECT * FROM pg_cancel_backend(5)",
        "INSERT INTO item SELECT 901, pg_cancel_backend(5)::text, 1",
        "CREATE VIEW ends AS SELECT pg_cancel_backend(5) AS done",
        "CREATE MATERIALIZED VIEW ends WITH (refresh = 'immediate') AS"
        " SELECT i_id, pg_cancel_backend(5) AS done FROM item",
    ],
)
def test_other_places_for_the_functions_are_refused(wire, sql):
    with wire.connect() as one, pytest.raises(errors.FeatureNotSupported):
        one.execute(sql)


def test_a_session_is_listed_with_what_it_does(wire):
    sql = (
        "SELECT usename, application_name, client_addr, client_port > 0, state, wait_event, query,"
        " xact_start = query_start, backend_start <= query_start, query_start <= state_change,"
        " xact_start IS NULL FROM pg_stat_activity WHERE pid = %s"
    )
    with wire.connect("eve", application_name="tests") as one, wire.connect() as other:

        def listed():
            return other.execute(sql, (one.info.backend_pid,)).fetchone()

        one.execute("SELECT 1")
        common = ("eve", "tests", "127.0.0.1", True)
        idle = ("idle", "ClientRead", "SELECT 1", None, True, True, True)
        assert listed() == common + idle
        one.execute("SET application_name TO 'more'")
        one.execute("BEGIN")
        one.execute("SELECT 2")
        found = listed()
        assert found[1] == "more"
        assert found[4:7] == ("idle in transaction", "ClientRead", "SELECT 2")
        assert found[-1] is False
        with pytest.raises(psycopg.Error):
            one.execute("SELECT nothing")
        assert listed()[4] == "idle in transaction (aborted)"
        one.execute("ROLLBACK")
        assert listed()[4:7] == ("idle", "ClientRead", "ROLLBACK")
        active = other.execute(sql, (other.info.backend_pid,)).fetchone()
        assert active[4:6] == ("active", None)
        assert active[7] is True


def test_keys_end_their_own_sessions_and_administrators_all(keyed, keys):
    with (
        keyed.connect("ann", keys["ann"]) as ann,
        keyed.connect("ann", keys["ann"]) as again,
        keyed.connect("bob", keys["bob"]) as bob,
        keyed.connect("bootstrap", keyed.root.text) as root,
    ):
        for function in ("pg_cancel_backend", "pg_terminate_backend"):
            call = f"SELECT {function}(%s)"
            for target in (bob, root):
                with pytest.raises(errors.InsufficientPrivilege):
                    ann.execute(call, (target.info.backend_pid,))
            assert ann.execute(call, (again.info.backend_pid,)).fetchone() == (True,)
        assert root.execute(call, (bob.info.backend_pid,)).fetchone() == (True,)
        for ended in (again, bob):
            with pytest.raises(errors.AdminShutdown):
                ended.execute("SELECT 1")
        assert ann.execute("SELECT 1").fetchone() == (1,)


def test_the_statements_of_other_keys_are_hidden(keyed, keys):
    sql = (
        "SELECT usename, query, state IS NULL, client_addr IS NULL, backend_start IS NULL"
        " FROM pg_stat_activity WHERE pid IN (%s, %s) ORDER BY usename"
    )
    with (
        keyed.connect("ann", keys["ann"]) as ann,
        keyed.connect("bob", keys["bob"]) as bob,
        keyed.connect("bootstrap", keyed.root.text) as root,
    ):
        pids = ann.info.backend_pid, bob.info.backend_pid
        ann.execute("SELECT 'a secret of ann'")
        bob.execute("SELECT 'a secret of bob'")
        seen = bob.execute(sql, pids).fetchall()
        assert seen[0] == ("ann", "<insufficient privilege>", True, True, True)
        assert seen[1][2:] == (False, False, False)
        seen = root.execute(sql, pids).fetchall()
        assert seen[0] == ("ann", "SELECT 'a secret of ann'", False, False, False)


def test_privileges_are_those_of_the_key(keyed, keys):
    sql = (
        "SELECT has_table_privilege('open', 'SELECT'), has_table_privilege('open', 'INSERT'),"
        " has_schema_privilege('public', 'CREATE'), has_table_privilege('{}', 'open', 'SELECT')"
    )
    granted = keyed.made("granted", "writer", {"open": "write"})["key"]
    for name, key, row in (
        ("ann", keys["ann"], (True, False, False, True)),
        ("granted", granted, (True, True, False, True)),
        ("bootstrap", keyed.root.text, (True, True, True, True)),
    ):
        with keyed.connect(name, key) as connection:
            for prepare in (False, True):
                assert connection.execute(sql.format(name), prepare=prepare).fetchone() == row
            for call, sqlstate in (
                ("has_table_privilege('nothing', 'SELECT')", "42P01"),
                ("has_table_privilege('nothing', 'open', 'SELECT')", "42704"),
                ("has_table_privilege('open', 'RUN')", "22023"),
                ("has_column_privilege('open', 'x', 'SELECT')", "42703"),
                ("has_sequence_privilege('open', 'USAGE')", "42809"),
                ("has_schema_privilege('nothing', 'USAGE')", "3F000"),
                ("has_database_privilege('nothing', 'CONNECT')", "3D000"),
                ("pg_relation_size('open', 'side')", "22023"),
            ):
                with pytest.raises(psycopg.Error) as caught:
                    connection.execute(f"SELECT {call}")
                assert caught.value.sqlstate == sqlstate, call


def test_sessions_are_not_ended_over_rest(keyed):
    for sql in ("SELECT pg_cancel_backend(5)", "SELECT pg_terminate_backend(5, 6)"):
        answer = keyed.request("POST", "/v1/query", json={"sql": sql})
        assert answer.json()["code"] == "sql-unsupported"
    rows = {"sql": "SELECT pg_backend_pid(), count(*) FROM pg_stat_activity"}
    assert keyed.request("POST", "/v1/query", json=rows).json()["rows"] == [[0, 0]]


def test_psql_shows_sizes_and_ends_sessions(wire):
    with wire.connect() as one:
        pid = one.info.backend_pid
        one.execute(
            "CREATE TABLE sized (s_id INTEGER PRIMARY KEY, s_text TEXT);"
            " INSERT INTO sized SELECT i, repeat('x', 100) FROM generate_series(1, 200) AS g (i)"
        )
        script = (
            f"\\dt+ sized\n\\di+ sized_pkey\n\\l+\nSELECT pg_terminate_backend({pid});\n"
            f"SELECT pg_cancel_backend({pid}, 1);\n"
        )
        done = subprocess.run(
            ["psql", "-X", "-w", "-A", wire.dsn()],
            input=script, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    out = done.stdout.splitlines()
    sizes = wire.run(wire.database.sizes())
    assert sizes["sized"] > 200 * 100
    size = pretty(Decimal(sizes["sized"]))
    assert f"public|sized|table|hornbeam|permanent|heap|{size}|" in out
    assert "public|sized_pkey|index|hornbeam|sized|permanent|btree|0 bytes|" in out
    whole = pretty(Decimal(sum(sizes.values())))
    assert f"hornbeam|hornbeam|UTF8|C|C.UTF-8||libc||{whole}|pg_default|" in out
    assert out[-3:] == ["pg_terminate_backend", "t", "(1 row)"]
    assert "takes the number of a session" in done.stderr
