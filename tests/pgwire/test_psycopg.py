"""Sessions of psycopg: what a client of PostgreSQL sees."""

import datetime as dt
import threading
import uuid
from decimal import Decimal

import psycopg
import pytest
from psycopg import errors
from psycopg.pq import TransactionStatus

KINDS = {
    "k_small": 7,
    "k_decimal": Decimal("12345.6789000000"),
    "k_double": 0.1,
    "k_real": 0.5,
    "k_flag": True,
    "k_bytes": b"\x00\xff",
    "k_date": dt.date(1999, 12, 31),
    "k_time": dt.time(23, 59, 59, 123456),
    "k_at": dt.datetime(2024, 2, 29, 1, 2, 3, 4),
    "k_instant": dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC),
    "k_interval": dt.timedelta(days=3, seconds=4, microseconds=5),
    "k_uuid": uuid.UUID(int=7),
    "k_text": "a'b\n☃",
    "k_texts": ["a", None, 'c"d'],
    "k_numbers": [1, None, -3],
}


@pytest.fixture
def connection(wire):
    with wire.connect() as found:
        yield found


@pytest.mark.parametrize("binary", [False, True])
def test_all_types_come_back_as_they_were_given(connection, binary):
    key = 100 + binary
    names = ", ".join(KINDS)
    form = "%b" if binary else "%t"
    places = ", ".join([form] * len(KINDS))
    connection.execute(
        f"INSERT INTO kinds (k_id, {names}) VALUES ({key}, {places})", list(KINDS.values())
    )
    found = connection.cursor(binary=binary).execute(
        f"SELECT {names} FROM kinds WHERE k_id = %s", (key,)
    )
    assert dict(zip(KINDS, found.fetchone(), strict=True)) == KINDS
    again = connection.cursor(binary=binary).execute(
        f"UPDATE kinds SET k_flag = TRUE WHERE k_id = %s RETURNING {names}", (key,)
    )
    assert dict(zip(KINDS, again.fetchone(), strict=True)) == KINDS


@pytest.mark.parametrize("binary", [False, True])
def test_documents_are_json_and_jsonb(connection, binary):
    key = 110 + binary
    connection.execute(
        "INSERT INTO kinds (k_id, k_json, k_jsonb) VALUES (%s, %s, %s)",
        (key, psycopg.types.json.Json({"a": 1}), psycopg.types.json.Jsonb([1, "b"])),
    )
    found = connection.cursor(binary=binary).execute(
        "SELECT k_json, k_jsonb FROM kinds WHERE k_id = %s", (key,)
    )
    assert found.fetchone() == ({"a": 1}, [1, "b"])
    assert [column.type_display for column in found.description] == ["json", "jsonb"]


def test_columns_are_described_with_names_types_and_modifiers(connection):
    found = connection.execute(
        "SELECT i_id, i_name AS n, i_price, count(*) FROM item GROUP BY 1, 2, 3"
    )
    described = [(column.name, column.type_display) for column in found.description]
    assert described == [
        ("i_id", "int4"), ("n", "varchar(20)"), ("i_price", "numeric(10,2)"), ("count", "int8"),
    ]  # fmt: skip


def test_a_statement_says_what_it_has_done(connection):
    def tag(sql):
        return connection.execute(sql).statusmessage

    assert tag("INSERT INTO item VALUES (1, 'a', 1), (2, 'b', 2)") == "INSERT 0 2"
    assert tag("UPDATE item SET i_price = 3 WHERE i_id IN (1, 2)") == "UPDATE 2"
    assert tag("SELECT * FROM item WHERE i_id IN (1, 2)") == "SELECT 2"
    assert tag("DELETE FROM item WHERE i_id = 2") == "DELETE 1"
    assert tag("BEGIN") == "BEGIN"
    assert tag("COMMIT") == "COMMIT"
    assert tag("SET application_name = 'x'") == "SET"
    assert tag("CREATE TABLE tagged (t_id INTEGER PRIMARY KEY)") == "CREATE TABLE"
    assert tag("-- nothing") is None


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELECT nothing FROM item", errors.UndefinedColumn),
        ("SELECT 1 FROM nothing", errors.UndefinedTable),
        ("SELECT (1", errors.SyntaxError),
        ("SELECT 1 / 0", errors.DivisionByZero),
        ("INSERT INTO item VALUES (10, NULL, 1)", errors.NotNullViolation),
        ("INSERT INTO item VALUES (10, 'x', -1)", errors.CheckViolation),
        ("INSERT INTO item VALUES (10, 'x', 1), (10, 'y', 1)", errors.UniqueViolation),
        ("SELECT 'x'::INTEGER", errors.DataException),
        ("SELECT * FROM item TABLESAMPLE SYSTEM (1)", errors.FeatureNotSupported),
    ],
)
def test_errors_have_postgresqls_sqlstates(connection, sql, error):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(sql)
    assert caught.value.sqlstate.startswith(error.sqlstate[:2])
    assert isinstance(caught.value, error) or error is errors.DataException
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_place_of_an_error_is_that_in_the_clients_text(connection):
    with pytest.raises(errors.UndefinedColumn) as caught:
        connection.execute("SELECT %s::INTEGER,\n nothing FROM item", (1,))
    sent = "SELECT $1::INTEGER,\n nothing FROM item"
    assert int(caught.value.diag.statement_position) == sent.index("nothing") + 1


def test_a_block_is_one_transaction_that_others_see_at_its_end(wire, connection):
    with wire.connect() as other:
        with connection.transaction():
            connection.execute("INSERT INTO item VALUES (20, 'a', 1)")
            assert connection.info.transaction_status is TransactionStatus.INTRANS
            assert connection.execute("SELECT i_name FROM item WHERE i_id = 20").fetchone() == (
                "a",
            )
            assert other.execute("SELECT 1 FROM item WHERE i_id = 20").fetchone() is None
        assert other.execute("SELECT i_name FROM item WHERE i_id = 20").fetchone() == ("a",)


def test_a_failed_statement_aborts_the_block(connection):
    connection.execute("BEGIN")
    with pytest.raises(errors.DivisionByZero):
        connection.execute("SELECT 1 / 0")
    assert connection.info.transaction_status is TransactionStatus.INERROR
    with pytest.raises(errors.InFailedSqlTransaction):
        connection.execute("SELECT 1")
    assert connection.execute("COMMIT").statusmessage == "ROLLBACK"
    assert connection.info.transaction_status is TransactionStatus.IDLE


def test_savepoints_undo_a_part(connection):
    with connection.transaction():
        connection.execute("INSERT INTO item VALUES (30, 'a', 1)")
        connection.execute("SAVEPOINT here")
        connection.execute("INSERT INTO item VALUES (31, 'b', 1)")
        with pytest.raises(errors.NotNullViolation):
            connection.execute("INSERT INTO item VALUES (32, NULL, 1)")
        connection.execute("ROLLBACK TO here")
    found = connection.execute("SELECT i_id FROM item WHERE i_id IN (30, 31, 32)").fetchall()
    assert found == [(30,)]


def test_of_two_transactions_that_change_what_they_have_read_one_fails_with_40001(wire, connection):
    connection.execute("INSERT INTO item VALUES (40, 'a', 1)")
    with wire.connect() as other:
        for each in (connection, other):
            each.execute("BEGIN")
            each.execute("SELECT i_price FROM item WHERE i_id = 40").fetchone()
            each.execute("UPDATE item SET i_price = i_price + 1 WHERE i_id = 40")
        connection.execute("COMMIT")
        with pytest.raises(errors.SerializationFailure):
            other.execute("COMMIT")
        assert other.info.transaction_status is TransactionStatus.IDLE
    found = connection.execute("SELECT i_price FROM item WHERE i_id = 40").fetchone()
    assert found == (Decimal(2),)


def test_the_statements_of_a_script_are_one_transaction(connection):
    with pytest.raises(errors.NotNullViolation):
        connection.execute(
            "INSERT INTO item VALUES (50, 'a', 1); INSERT INTO item VALUES (51, NULL, 1)"
        )
    assert connection.execute("SELECT 1 FROM item WHERE i_id = 50").fetchone() is None
    found = connection.execute(
        "INSERT INTO item VALUES (50, 'a', 1); SELECT i_name FROM item WHERE i_id = 50; COMMIT;"
        "INSERT INTO item VALUES (51, 'b', 1) RETURNING i_id; ROLLBACK"
    )
    assert found.statusmessage == "INSERT 0 1"
    assert found.nextset()
    assert found.fetchall() == [("a",)]
    kept = connection.execute("SELECT i_id FROM item WHERE i_id IN (50, 51)").fetchall()
    assert kept == [(50,)]


def test_what_follows_a_failed_pipeline_is_run(connection):
    insert = "INSERT INTO item VALUES (%s, 'pipeline', %s)"

    def write(*rows):
        with connection.pipeline():
            for row in rows:
                connection.execute(insert, row)

    for number in (810, 811):
        with pytest.raises(errors.CheckViolation):
            write((number, 1), (number + 10, -1))
        with connection.cursor().copy("COPY item FROM STDIN") as copy:
            copy.write_row((number, "pipeline", 2))
        write((number + 10, 3), (number + 20, 4))
    sql = "SELECT i_id FROM item WHERE i_name = 'pipeline' ORDER BY i_id"
    assert connection.execute(sql).fetchall() == [(810,), (811,), (820,), (821,), (830,), (831,)]


def test_the_statements_of_a_pipeline_are_one_transaction(connection):
    def write(second):
        with connection.pipeline():
            connection.execute("INSERT INTO item VALUES (60, 'a', 1)")
            connection.execute("INSERT INTO item VALUES (61, %s, 1)", (second,))

    with pytest.raises(errors.NotNullViolation):
        write(None)
    assert connection.execute("SELECT 1 FROM item WHERE i_id = 60").fetchone() is None
    with connection.pipeline():
        first = connection.execute("INSERT INTO item VALUES (60, 'a', 1) RETURNING i_name")
        read = connection.execute("SELECT i_name FROM item WHERE i_id = 60")
    assert (first.fetchone(), read.fetchone()) == (("a",), ("a",))


def test_an_error_names_the_object_that_a_row_breaks(connection):
    connection.execute("CREATE DOMAIN digit AS INTEGER CHECK (VALUE < 10)")
    connection.execute("CREATE SCHEMA IF NOT EXISTS apart")
    connection.execute(
        "CREATE TABLE apart.odd (o_id INTEGER PRIMARY KEY, o_item INTEGER REFERENCES item,"
        " o_digit digit)"
    )
    connection.execute("INSERT INTO item VALUES (900, 'a', 1)")
    for sql, named in {
        "INSERT INTO item VALUES (900, 'a', 1)": ("public", "item", None, "item_pkey"),
        "INSERT INTO item VALUES (901, NULL, 1)": ("public", "item", "i_name", None),
        "INSERT INTO item VALUES (901, 'a', -1)": ("public", "item", None, "item_i_price_check"),
        "INSERT INTO apart.odd VALUES (1, 902)": ("apart", "odd", None, "odd_o_item_fkey"),
        "INSERT INTO apart.odd VALUES (1, 900, 10)": ("public", None, None, "digit_check"),
    }.items():
        with pytest.raises(errors.IntegrityError) as caught:
            connection.execute(sql)
        said = caught.value.diag
        found = (said.schema_name, said.table_name, said.column_name, said.constraint_name)
        assert found == named, sql
    assert said.datatype_name == "digit"


@pytest.mark.parametrize("in_block", [False, True])
def test_executemany_is_one_request_and_gives_all_results(wire, connection, in_block):
    first = 1_000 + 1_000 * in_block
    before = wire.database.manager.committed
    with connection.transaction() if in_block else connection.cursor() as _:
        cursor = connection.cursor()
        rows = [(first + number, f"n{number}") for number in range(100)]
        cursor.executemany(
            "INSERT INTO item VALUES (%s, %s, 1) RETURNING i_id", rows, returning=True
        )
        found = []
        while True:
            found += cursor.fetchall()
            if not cursor.nextset():
                break
    assert found == [(row[0],) for row in rows]
    assert wire.database.manager.committed - before == 1


def test_a_prepared_statement_serves_other_values_and_is_forgotten(connection):
    connection.execute("INSERT INTO item VALUES (70, 'a', 1), (71, 'b', 1)")
    for key, name in [(70, "a"), (71, "b")] * 3:
        found = connection.execute("SELECT i_name FROM item WHERE i_id = %s", (key,), prepare=True)
        assert found.fetchone() == (name,)
    connection.execute("PREPARE one AS SELECT i_name FROM item WHERE i_id = $1")
    assert connection.execute("EXECUTE one (70)").fetchone() == ("a",)
    connection.execute("DEALLOCATE one")
    connection.execute("DEALLOCATE ALL")


def test_a_large_result_comes_in_parts(connection):
    cursor = connection.cursor()
    seen = sum(1 for _ in cursor.stream("SELECT * FROM generate_series(1, 30000)"))
    assert seen == 30_000


def test_settings_are_set_shown_and_reset(connection):
    def show(name):
        return connection.execute(f"SHOW {name}").fetchone()[0]

    connection.execute("SET statement_timeout = '5s'")
    assert show("statement_timeout") == "5s"
    connection.execute("RESET statement_timeout")
    assert show("statement_timeout") == "0"
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        assert show("transaction_isolation") == "serializable"
    assert show("transaction_isolation") == "repeatable read"
    with pytest.raises(errors.FeatureNotSupported):
        connection.execute("SET no_such_setting = 1")


def test_a_transaction_that_may_only_read_does_not_write(connection):
    connection.read_only = True
    with pytest.raises(errors.ReadOnlySqlTransaction), connection.transaction():
        connection.execute("INSERT INTO item VALUES (80, 'a', 1)")


def test_notices_reach_the_client(connection):
    heard = []
    connection.add_notice_handler(lambda diag: heard.append(diag.message_primary))
    connection.execute("VACUUM item")
    assert heard == ["VACUUM has nothing to do: nodes purge old versions by themselves."]


def test_the_start_sets_settings(wire):
    options = "-c statement_timeout=7s -c search_path=public"
    with wire.connect(options=options, application_name="a test") as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("7s",)
        assert connection.execute("SHOW application_name").fetchone() == ("a test",)
        assert connection.info.parameter_status("application_name") == "a test"
        assert connection.info.server_version >= 150_000
    with pytest.raises(psycopg.OperationalError, match="nothing"):
        wire.connect(options="-c nothing=1")


def test_another_database_does_not_exist(wire):
    with pytest.raises(psycopg.OperationalError, match='"other" does not exist'):
        psycopg.connect(wire.dsn(dbname="other"))


def test_a_cancelled_query_ends_and_the_session_goes_on(wire, connection):
    slow = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b"
    timer = threading.Timer(0.3, connection.cancel_safe)
    timer.start()
    with pytest.raises(errors.QueryCanceled):
        connection.execute(slow)
    timer.join()
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_parameter_names_a_setting(wire):
    """As SQLAlchemy's reflection does. The value is that of the session."""
    named = "SELECT pg_catalog.current_setting(%s::VARCHAR), %s::INT, current_setting('TimeZone')"
    with wire.connect() as connection:
        connection.execute("SET statement_timeout = '7s'")
        row = connection.execute(named, ("statement_timeout", 5)).fetchone()
        assert row == ("7s", 5, "UTC")
        with pytest.raises(psycopg.Error, match="There is no setting that's"):
            connection.execute("SELECT current_setting(%s)", ("that's",))
        with pytest.raises(psycopg.Error, match="The arguments of current_setting"):
            connection.execute("SELECT current_setting(lower(%s))", ("timezone",))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'infinity'::DATE",
        "SELECT CAST(word AS TIMESTAMP) FROM (VALUES ('-infinity')) AS v (word)",
        "SELECT TIMESTAMPTZ 'infinity'",
        "INSERT INTO kinds (k_id, k_date) VALUES (990, 'infinity')",
        "INSERT INTO kinds (k_id, k_at) SELECT 990, CAST('-' || 'infinity' AS TIMESTAMP)",
    ],
)
def test_infinity_is_no_date_and_no_timestamp(wire, sql):
    with wire.connect() as connection, pytest.raises(errors.DataError, match="is infinite, since"):
        connection.execute(sql)
