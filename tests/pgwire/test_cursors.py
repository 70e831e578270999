"""Cursors of SQL over the wire: DECLARE, FETCH, MOVE and CLOSE."""

import psycopg
import pytest
import sqlalchemy
from psycopg import errors

SERIES = "SELECT g FROM generate_series(1, 5000) t (g)"


@pytest.fixture
def connection(wire):
    with wire.connect() as found:
        yield found


@pytest.fixture
def cursor(connection):
    """A function that runs a statement in a transaction with the cursor c over `SERIES`: its rows
    and its command tag."""

    def run(sql):
        found = connection.execute(sql)
        rows = [row[0] for row in found.fetchall()] if found.description else []
        return rows, found.statusmessage

    connection.execute("BEGIN")
    assert run(f"DECLARE c CURSOR FOR {SERIES}") == ([], "DECLARE CURSOR")
    yield run
    connection.execute("ROLLBACK")


def test_rows_are_fetched_and_passed_over_forwards(cursor):
    assert cursor("FETCH c") == ([1], "FETCH 1")
    assert cursor("FETCH NEXT FROM c") == ([2], "FETCH 1")
    assert cursor("FETCH 2 IN c") == ([3, 4], "FETCH 2")
    assert cursor("MOVE FORWARD 10 c") == ([], "MOVE 10")
    assert cursor("FETCH RELATIVE 3 FROM c") == ([17], "FETCH 1")
    assert cursor("FETCH ABSOLUTE 20 c") == ([20], "FETCH 1")
    assert cursor("MOVE ABSOLUTE 4990 c") == ([], "MOVE 1")
    assert cursor("FETCH FORWARD ALL FROM c") == ([*range(4_991, 5_001)], "FETCH 10")
    assert cursor("FETCH c") == ([], "FETCH 0")
    assert cursor("MOVE ALL IN c") == ([], "MOVE 0")
    assert cursor("CLOSE c") == ([], "CLOSE CURSOR")


@pytest.mark.parametrize(
    "direction",
    [
        *("PRIOR", "BACKWARD", "BACKWARD 2", "BACKWARD ALL", "-1", "FORWARD -1", "LAST", "FIRST"),
        *("ABSOLUTE 1", "ABSOLUTE -1", "RELATIVE -1", "RELATIVE 0", "0"),
    ],
)
@pytest.mark.parametrize("verb", ["FETCH", "MOVE"])
def test_no_row_is_read_again(connection, cursor, verb, direction):
    cursor("FETCH 2 FROM c")
    connection.execute("SAVEPOINT here")
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="only scan forward"):
        cursor(f"{verb} {direction} FROM c")
    connection.execute("ROLLBACK TO here")
    assert cursor("FETCH c") == ([3], "FETCH 1")


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("FETCH nothing", errors.InvalidCursorName),
        ("CLOSE nothing", errors.InvalidCursorName),
        (f"DECLARE c CURSOR FOR {SERIES}", errors.DuplicateCursor),
        (f"DECLARE d SCROLL CURSOR FOR {SERIES}", errors.FeatureNotSupported),
        ("DECLARE d CURSOR FOR DELETE FROM item", errors.SyntaxError),
        ("DECLARE d CURSOR FOR", errors.SyntaxError),
        ("DECLARE d CURSOR WITH FOR SELECT 1", errors.SyntaxError),
        ("DECLARE d CURSOR FOR SELECT nothing FROM item", errors.UndefinedColumn),
        ("FETCH 1 2 FROM c", errors.SyntaxError),
        ("FETCH ABSOLUTE FROM c", errors.SyntaxError),
        ("FETCH FORWARD FROM c c", errors.SyntaxError),
        ("CLOSE", errors.SyntaxError),
    ],
)
def test_wrong_statements_have_the_sqlstates_of_postgresql(cursor, sql, error):
    with pytest.raises(error):
        cursor(sql)


def test_the_place_of_an_error_is_that_in_the_whole_statement(cursor):
    text = "DECLARE d CURSOR\n FOR SELECT\n nothing FROM item"
    with pytest.raises(errors.UndefinedColumn) as caught:
        cursor(text)
    assert int(caught.value.diag.statement_position) == text.index("nothing") + 1


def test_a_cursor_needs_a_transaction_and_ends_with_it(wire, connection):
    with pytest.raises(errors.NoActiveSqlTransaction):
        connection.execute(f"DECLARE c CURSOR FOR {SERIES}")
    found = connection.execute(f"DECLARE c CURSOR FOR {SERIES}; FETCH 2 FROM c")
    assert found.nextset()
    assert found.fetchall() == [(1,), (2,)]
    for end in ("COMMIT", "ROLLBACK"):
        connection.execute("BEGIN")
        connection.execute(f"DECLARE c CURSOR FOR {SERIES}")
        connection.execute(end)
        assert set(wire.leaks().values()) == {0}
        with pytest.raises(errors.InvalidCursorName):
            connection.execute("FETCH c")


def test_a_rollback_to_a_savepoint_closes_the_cursors_behind_it(connection, cursor):
    cursor("FETCH 3 FROM c")
    connection.execute("SAVEPOINT one")
    connection.execute(f"DECLARE d CURSOR FOR {SERIES}")
    connection.execute("SAVEPOINT two")
    with pytest.raises(errors.DivisionByZero):
        connection.execute("SELECT 1 / 0")
    connection.execute("ROLLBACK TO two")
    assert cursor("FETCH d") == ([1], "FETCH 1")
    connection.execute("ROLLBACK TO one")
    assert cursor("FETCH c") == ([4], "FETCH 1")
    with pytest.raises(errors.InvalidCursorName):
        cursor("FETCH d")


def test_a_released_savepoint_leaves_its_cursors_to_the_transaction(connection, cursor):
    connection.execute("SAVEPOINT one")
    connection.execute(f"DECLARE d CURSOR FOR {SERIES}")
    connection.execute("RELEASE one")
    connection.execute("SAVEPOINT two")
    connection.execute("ROLLBACK TO two")
    assert cursor("FETCH d") == ([1], "FETCH 1")


def test_a_cursor_with_hold_outlives_its_transaction(connection):
    connection.execute("BEGIN")
    connection.execute("INSERT INTO item VALUES (7000, 'a', 1)")
    connection.execute("DECLARE h CURSOR WITH HOLD FOR SELECT i_name FROM item WHERE i_id = 7000")
    connection.execute(f"DECLARE i CURSOR WITH HOLD FOR {SERIES}")
    assert connection.execute("FETCH i").fetchall() == [(1,)]
    connection.execute("COMMIT")
    connection.execute("DELETE FROM item WHERE i_id = 7000")
    assert connection.execute("FETCH h").fetchall() == [("a",)]
    assert connection.execute("FETCH 2 FROM i").fetchall() == [(2,), (3,)]
    connection.execute("BEGIN")
    connection.execute(f"DECLARE j CURSOR WITH HOLD FOR {SERIES}")
    connection.execute("ROLLBACK")
    assert len(connection.execute("FETCH ALL FROM i").fetchall()) == 4_997
    with pytest.raises(errors.InvalidCursorName):
        connection.execute("FETCH j")
    assert connection.execute("CLOSE ALL").statusmessage == "CLOSE CURSOR ALL"
    with pytest.raises(errors.InvalidCursorName):
        connection.execute("FETCH i")


def test_rows_with_hold_are_limited(connection, monkeypatch):
    monkeypatch.setattr("hornbeam_server.pgwire.session.portals.MAX_HELD", 6_000)
    connection.execute(f"DECLARE h CURSOR WITH HOLD FOR {SERIES}")
    connection.execute("BEGIN")
    connection.execute(f"DECLARE i CURSOR WITH HOLD FOR {SERIES}")
    with pytest.raises(errors.ProgramLimitExceeded):
        connection.execute("COMMIT")
    assert connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
    assert len(connection.execute("FETCH ALL FROM h").fetchall()) == 5_000
    connection.execute("DISCARD ALL")
    with pytest.raises(errors.InvalidCursorName):
        connection.execute("FETCH h")


def test_what_a_cursor_has_read_is_checked_at_the_commit(wire, connection):
    connection.execute("INSERT INTO item VALUES (7100, 'a', 1)")
    connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
    connection.execute("DECLARE c CURSOR FOR SELECT i_price FROM item WHERE i_id = 7100")
    connection.execute("FETCH c")
    with wire.connect() as other:
        other.execute("UPDATE item SET i_price = 2 WHERE i_id = 7100")
    connection.execute("INSERT INTO item VALUES (7101, 'b', 1)")
    with pytest.raises(errors.SerializationFailure):
        connection.execute("COMMIT")


def test_a_binary_cursor_is_binary_in_the_simple_protocol(connection, cursor):
    connection.execute("DECLARE b BINARY CURSOR FOR SELECT 258::INTEGER")
    found = connection.pgconn.exec_(b"FETCH b")
    assert (found.fformat(0), found.get_value(0, 0)) == (1, b"\0\0\1\2")


@pytest.mark.parametrize("binary", [False, True])
def test_named_cursors_of_psycopg(connection, binary):
    with connection.transaction(), connection.cursor("of psycopg", binary=binary) as named:
        named.execute("SELECT g, g * %s AS d FROM generate_series(1, 1000) t (g)", (2,))
        assert [column.name for column in named.description] == ["g", "d"]
        assert named.fetchone() == (1, 2)
        assert named.fetchmany(2) == [(2, 4), (3, 6)]
        named.scroll(10)
        assert named.fetchone() == (14, 28)
        assert sum(1 for _ in named) == 986
    with connection.cursor("held", withhold=True) as named:
        named.execute(SERIES)
        assert (named.fetchone(), len(named.fetchall())) == ((1,), 4_999)


def test_streamed_results_of_sqlalchemy(wire):
    engine = sqlalchemy.create_engine(
        f"postgresql+psycopg://ann@127.0.0.1:{wire.port}/hornbeam", pool_size=1
    )
    with engine.connect() as connection:
        streaming = connection.execution_options(stream_results=True, max_row_buffer=100)
        found = streaming.execute(sqlalchemy.text(SERIES))
        assert [row.g for row in found] == [*range(1, 5_001)]
        assert streaming.execute(sqlalchemy.text("SELECT 7")).scalar() == 7
    engine.dispose()
