"""PEP 249 compliance against a real database, modelled on the public dbapi20 test suite: one test
per rule, in the order of the specification."""

from __future__ import annotations

import datetime as dt
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

import hornbeam
from tests.client import client_world

DRINKS = ["Carlton Cold", "Carlton Draft", "Mountain Goat", "Redback", "Victoria Bitter", "XXXX"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database that stays open, so that the connections of the tests share it."""
    where = client_world.embedded(tmp_path_factory.mktemp("dbapi") / "db")
    with hornbeam.connect(where) as db:
        db.cursor().execute("CREATE TABLE booze (name VARCHAR(20) PRIMARY KEY)")
        db.cursor().execute(
            "CREATE TABLE every (id INTEGER PRIMARY KEY, a BIGINT, b DECIMAL(10,2), c DOUBLE,"
            " d BOOLEAN, e TEXT, f BLOB, g DATE, h TIMESTAMP, i TIMESTAMP WITH TIME ZONE, j UUID,"
            " k JSON)"
        )
        yield where


@pytest.fixture
def db(url: str) -> Iterator[hornbeam.Connection]:
    with hornbeam.connect(url, autocommit=True) as cleaner:
        cleaner.cursor().execute("DELETE FROM booze")
        cleaner.cursor().execute("DELETE FROM every")
    connection = hornbeam.connect(url)
    yield connection
    connection.close()


def fill(db: hornbeam.Connection) -> hornbeam.Cursor:
    cursor = db.cursor()
    return cursor.executemany("INSERT INTO booze VALUES (?)", [(name,) for name in DRINKS])


def test_the_module_has_the_globals_of_pep_249() -> None:
    assert hornbeam.apilevel == "2.0"
    assert hornbeam.threadsafety in {0, 1, 2, 3}
    assert hornbeam.paramstyle == "qmark"


def test_exceptions_form_a_tree_and_are_connection_attributes(db: hornbeam.Connection) -> None:
    assert issubclass(hornbeam.Warning, Exception)
    assert issubclass(hornbeam.InterfaceError, hornbeam.Error)
    for name in ["Data", "Operational", "Integrity", "Internal", "Programming", "NotSupported"]:
        kind = getattr(hornbeam, f"{name}Error")
        assert issubclass(kind, hornbeam.DatabaseError)
        assert getattr(db, f"{name}Error") is kind


def test_commit_keeps_and_rollback_discards_rows(db: hornbeam.Connection, url: str) -> None:
    fill(db)
    db.rollback()
    with hornbeam.connect(url) as other:
        assert other.cursor().execute("SELECT * FROM booze").fetchall() == []
        fill(db)
        db.commit()
        other.rollback()
        assert len(other.cursor().execute("SELECT * FROM booze").fetchall()) == len(DRINKS)


def test_cursors_of_a_connection_are_not_isolated(db: hornbeam.Connection) -> None:
    one, two = db.cursor(), db.cursor()
    one.execute("INSERT INTO booze VALUES ('Victoria Bitter')")
    assert two.execute("SELECT name FROM booze").fetchall() == [("Victoria Bitter",)]


def test_connections_are_isolated(db: hornbeam.Connection, url: str) -> None:
    with hornbeam.connect(url) as other:
        other.cursor().execute("SELECT * FROM booze")
        fill(db)
        db.commit()
        assert other.cursor().execute("SELECT * FROM booze").fetchall() == []


def test_a_cursor_describes_its_columns(db: hornbeam.Connection) -> None:
    cursor = db.cursor()
    assert cursor.description is None
    fill(db)
    cursor.execute("INSERT INTO booze VALUES ('Ale')")
    assert cursor.description is None
    cursor.execute("SELECT name FROM booze")
    assert cursor.description is not None
    ((name, type_code, *rest),) = cursor.description
    assert name.lower() == "name"
    assert type_code == hornbeam.STRING
    assert rest == [None] * 5


def test_rowcount_is_the_number_of_rows(db: hornbeam.Connection) -> None:
    cursor = db.cursor()
    assert cursor.rowcount == -1
    cursor.execute("INSERT INTO booze VALUES ('Ale')")
    assert cursor.rowcount == 1
    cursor.execute("SELECT name FROM booze")
    assert cursor.rowcount == 1
    assert fill(db).rowcount == len(DRINKS)
    cursor.execute("DELETE FROM booze WHERE name LIKE 'Carl%'")
    assert cursor.rowcount == 2


def test_a_cursor_is_an_iterator(db: hornbeam.Connection) -> None:
    cursor = fill(db).execute("SELECT name FROM booze ORDER BY name")
    assert iter(cursor) is cursor
    assert next(cursor) == (DRINKS[0],)
    assert [name for (name,) in cursor] == DRINKS[1:]
    with pytest.raises(StopIteration):
        next(cursor)


def test_closed_cursors_and_connections_refuse_calls(db: hornbeam.Connection) -> None:
    cursor = db.cursor()
    cursor.close()
    cursor.close()
    with pytest.raises(hornbeam.Error):
        cursor.execute("SELECT 1")
    with pytest.raises(hornbeam.Error):
        cursor.fetchone()
    db.close()
    db.close()
    for late in (db.commit, db.rollback, db.cursor):
        with pytest.raises(hornbeam.Error):
            late()


def test_parameters_are_positional_or_named(db: hornbeam.Connection) -> None:
    cursor = fill(db)
    cursor.execute("SELECT name FROM booze WHERE name = ?", ["Redback"])
    assert cursor.fetchall() == [("Redback",)]
    cursor.execute("SELECT name FROM booze WHERE name = :n", {"n": "XXXX"})
    assert cursor.fetchall() == [("XXXX",)]
    cursor.execute("INSERT INTO booze VALUES (?)", ("Cooper's ? :n",))
    cursor.execute("SELECT name FROM booze WHERE name LIKE 'Cooper''s ? :n'")
    assert cursor.fetchone() == ("Cooper's ? :n",)


def test_rows_are_fetched_in_order(db: hornbeam.Connection) -> None:
    cursor = fill(db)
    with pytest.raises(hornbeam.Error):
        cursor.fetchone()
    cursor.execute("SELECT name FROM booze ORDER BY name")
    assert cursor.arraysize == 1
    assert cursor.fetchone() == (DRINKS[0],)
    assert cursor.fetchmany() == [(DRINKS[1],)]
    assert cursor.fetchmany(2) == [(name,) for name in DRINKS[2:4]]
    assert cursor.rownumber == 4
    cursor.arraysize = 10
    assert cursor.fetchmany() == [(name,) for name in DRINKS[4:]]
    assert cursor.fetchmany() == []
    assert cursor.fetchall() == []
    assert cursor.fetchone() is None
    cursor.execute("SELECT name FROM booze ORDER BY name")
    assert list(cursor) == [(name,) for name in DRINKS]


def test_a_failed_statement_leaves_no_result(db: hornbeam.Connection) -> None:
    cursor = fill(db)
    cursor.execute("SELECT name FROM booze")
    with pytest.raises(hornbeam.ProgrammingError):
        cursor.execute("SELECT nothing FROM booze")
    assert cursor.description is None
    with pytest.raises(hornbeam.InterfaceError):
        cursor.fetchone()


def test_input_and_output_sizes_do_nothing(db: hornbeam.Connection) -> None:
    cursor = fill(db)
    cursor.setinputsizes([25])
    cursor.setoutputsize(1000, 0)
    assert cursor.execute("SELECT name FROM booze WHERE name = 'XXXX'").fetchall() == [("XXXX",)]


def test_every_type_survives_a_round_trip(db: hornbeam.Connection) -> None:
    row = (
        1, 2**62, Decimal("-12345678.25"), 0.1, True, "ä'\"\n", hornbeam.Binary(b"\x00\xff"),
        hornbeam.Date(2024, 2, 29), hornbeam.Timestamp(2024, 2, 29, 23, 59, 59, 999999),
        dt.datetime(2024, 2, 29, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))), uuid.uuid4(),
        '{"a": [1]}',
    )  # fmt: skip
    cursor = db.cursor()
    cursor.execute(f"INSERT INTO every VALUES ({', '.join('?' * len(row))})", row)
    cursor.execute("INSERT INTO every (id) VALUES (2)")
    db.commit()
    cursor.execute("SELECT * FROM every ORDER BY id")
    assert cursor.fetchall() == [row, (2, *[None] * (len(row) - 1))]
    assert cursor.description is not None
    kinds = [column[1] for column in cursor.description]
    groups = (hornbeam.NUMBER, hornbeam.STRING, hornbeam.BINARY, hornbeam.DATETIME)
    assert [[g == kind for g in groups].index(True) for kind in kinds] == [
        0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 1, 1,
    ]  # fmt: skip


UNTYPED = [
    b"\x00\xff", Decimal("1.50"), Decimal("-0.001"), Decimal(10), dt.date(2024, 2, 29),
    dt.datetime(2024, 2, 29, 1, 2, 3, 4), dt.datetime(2024, 2, 29, 1, tzinfo=dt.UTC),
    uuid.UUID(int=5), float("inf"), 0.5, "1.5", True, None, 2**62,
]  # fmt: skip


@pytest.mark.parametrize("value", UNTYPED)
def test_a_parameter_without_context_keeps_its_type(db: hornbeam.Connection, value: object) -> None:
    cursor = db.cursor()
    cursor.execute("SELECT ?, (SELECT coalesce(?, ?))", [value] * 3)
    assert cursor.fetchone() == (value, value)
    assert repr(cursor.execute("SELECT :a AS x", {"a": value}).fetchone()) == repr((value,))


def test_expressions_of_parameters_use_the_types_of_their_values(db: hornbeam.Connection) -> None:
    cursor = db.cursor()
    cursor.execute("INSERT INTO every (id, b, f, g) VALUES (1, 2.5, ?, ?)", [b"abc", dt.date.max])
    later = dt.timezone(dt.timedelta(hours=1))
    for sql, values, answer in (
        ("SELECT ? > ?", [Decimal(10), Decimal(9)], True),
        ("SELECT greatest(?, ?)", [Decimal(10), Decimal(9)], Decimal(10)),
        ("SELECT b * ? FROM every", [Decimal("1.1")], Decimal("2.75")),
        ("SELECT id FROM every WHERE f = (SELECT ?)", [b"abc"], 1),
        ("SELECT id FROM every WHERE f = coalesce(?, f)", [b"abc"], 1),
        ("SELECT extract(year FROM ?)", [dt.date(2023, 5, 6)], 2023),
        ("SELECT ? - ?", [dt.date(2023, 5, 6), dt.date(2023, 5, 1)], 5),
        ("SELECT ? = ?", [dt.datetime(2024, 1, 1, 3, tzinfo=dt.UTC),
                          dt.datetime(2024, 1, 1, 4, tzinfo=later)], True),
    ):  # fmt: skip
        assert cursor.execute(sql, values).fetchone() == (answer,), sql


def test_bytes_in_any_expression_are_stored_unchanged(db: hornbeam.Connection) -> None:
    cursor = db.cursor()
    cursor.execute("INSERT INTO every (id, f) VALUES (1, ?)", [b"old"])
    for number, assigned in enumerate(("coalesce(?, f)", "CASE WHEN id = 1 THEN ? ELSE f END")):
        new = b"new%d" % number
        cursor.execute(f"UPDATE every SET f = {assigned} RETURNING f", [new])
        assert cursor.fetchall() == [(new,)]
    cursor.execute("INSERT INTO every (id, f) SELECT 2, coalesce(?, f) FROM every", [b"copied"])
    assert cursor.execute("SELECT f FROM every WHERE id = 2").fetchall() == [(b"copied",)]
    cursor.execute("UPDATE every SET e = ? WHERE id = 1 RETURNING e", [b"ab"])
    assert cursor.fetchall() == [(r"\x6162",)]


def test_constructors_from_ticks_use_local_time() -> None:
    ticks = 1_700_000_000.0
    moment = dt.datetime.fromtimestamp(ticks)
    assert hornbeam.DateFromTicks(ticks) == moment.date()
    assert hornbeam.TimeFromTicks(ticks) == moment.time()
    assert hornbeam.TimestampFromTicks(ticks) == moment


# ---------------------------------------------------------------- beyond the specification


def test_a_lost_update_is_refused_and_run_repeats_it(db: hornbeam.Connection, url: str) -> None:
    db.cursor().execute("INSERT INTO every (id, a) VALUES (1, 10)")
    db.commit()
    rivals = [1]

    def add(connection: hornbeam.Connection) -> None:
        cursor = connection.cursor().execute("SELECT a FROM every WHERE id = 1")
        row = cursor.fetchone()
        assert row is not None
        if rivals:
            rivals.pop()
            with hornbeam.connect(url) as rival:
                rival.cursor().execute("UPDATE every SET a = a + 1 WHERE id = 1")
        cursor.execute("UPDATE every SET a = ? WHERE id = 1", [row[0] + 100])

    db.run(add)
    assert db.cursor().execute("SELECT a FROM every").fetchall() == [(111,)]


def test_a_later_statement_sees_the_bookmark(db: hornbeam.Connection, url: str) -> None:
    with hornbeam.connect(url, autocommit=True) as other:
        other.bookmark = db.bookmark
        fill(db)
        db.commit()
        other.bookmark = db.bookmark
        assert other.cursor().execute("SELECT count(*) FROM booze").fetchone() == (len(DRINKS),)


def test_errors_are_raised_at_the_call_and_a_savepoint_keeps_the_writes_before(
    db: hornbeam.Connection,
) -> None:
    cursor = fill(db)
    cursor.execute("SAVEPOINT filled")
    with pytest.raises(hornbeam.IntegrityError) as caught:
        cursor.execute("INSERT INTO booze VALUES ('XXXX')")
    assert caught.value.code == "unique-violation"
    cursor.execute("ROLLBACK TO filled")
    cursor.execute("COMMIT")
    assert cursor.execute("SELECT count(*) FROM booze").fetchone() == (len(DRINKS),)


def test_the_message_of_a_statement_is_its_command_tag(db: hornbeam.Connection) -> None:
    cursor = fill(db)
    assert db.cursor().statusmessage is None
    assert cursor.execute("UPDATE booze SET name = name").statusmessage == f"UPDATE {len(DRINKS)}"
    cursor.executemany("INSERT INTO booze VALUES (?)", [["a"], ["b"]])
    assert cursor.statusmessage == "INSERT 0 2"
    with db.pipeline():
        cursor.execute("DELETE FROM booze WHERE name = 'a'")
    assert cursor.statusmessage == "DELETE 1"
    with pytest.raises(hornbeam.Error):
        cursor.execute("SELECT nothing")
    assert cursor.statusmessage is None
    assert cursor.execute("COMMIT").statusmessage == "ROLLBACK"


def test_a_write_returns_rows(db: hornbeam.Connection) -> None:
    cursor = fill(db)
    cursor.execute("DELETE FROM booze WHERE name LIKE 'C%' RETURNING name")
    assert sorted(cursor.fetchall()) == [("Carlton Cold",), ("Carlton Draft",)]
    assert cursor.rowcount == 2


def test_a_transaction_reads_what_writes_from_other_rows_did(
    db: hornbeam.Connection, url: str
) -> None:
    fill(db)
    cursor = db.cursor()
    cursor.execute("INSERT INTO every (id, e) VALUES (1, 'Redback'), (2, 'XXXX'), (3, NULL)")
    cursor.execute(
        "UPDATE every SET a = length(name) FROM public.booze WHERE name = e RETURNING id, name, a"
    )
    assert sorted(cursor.fetchall()) == [(1, "Redback", 7), (2, "XXXX", 4)]
    cursor.execute("UPDATE every SET b = (SELECT count(*) FROM booze) WHERE id = ?", (3,))
    cursor.execute("DELETE FROM booze USING every WHERE name = e AND id = ?", (1,))
    assert cursor.rowcount == 1
    cursor.execute(
        "WITH gone AS (DELETE FROM booze WHERE name < ? RETURNING name) SELECT count(*) FROM gone",
        ("D",),
    )
    assert cursor.fetchone() == (2,)
    cursor.execute("REPLACE INTO every (id, e) VALUES (2, 'new')")
    db.commit()
    with hornbeam.connect(url) as other:
        found = other.cursor().execute("SELECT id, a, b, e FROM every ORDER BY id").fetchall()
        assert found == [(1, 7, None, "Redback"), (2, None, None, "new"), (3, None, 6, None)]
        truncated = other.cursor().execute("TRUNCATE booze")
        assert truncated.rowcount == 3
        assert other.cursor().execute("SELECT count(*) FROM booze").fetchone() == (0,)


def test_a_cursor_returns_arrow_tables_and_batches(db: hornbeam.Connection) -> None:
    fill(db)
    db.commit()
    cursor = db.cursor()
    assert cursor.arrow("SELECT name FROM booze ORDER BY name").to_pydict() == {"name": DRINKS}
    batches = cursor.arrow_batches("SELECT i FROM range(300000) r(i)")
    assert sum(batch.num_rows for batch in batches) == 300_000
    with pytest.raises(hornbeam.NotSupportedError, match="Arrow"):
        cursor.execute("DELETE FROM booze")


def test_an_iterator_of_batches_may_be_closed_early(db: hornbeam.Connection) -> None:
    batches = db.cursor().arrow_batches("SELECT i FROM range(1000000) r(i)")
    assert next(batches).num_rows > 0
    batches.close()
    assert db.cursor().execute("SELECT 1").fetchall() == [(1,)]


def test_large_answers_are_streamed_completely(db: hornbeam.Connection) -> None:
    rows = db.cursor().execute("SELECT i FROM range(50000) r(i)").fetchall()
    assert [row[0] for row in rows] == list(range(50_000))


def test_a_folder_opens_once_for_all_connections_of_a_process(
    db: hornbeam.Connection, url: str
) -> None:
    others = [hornbeam.connect(url) for _ in range(3)]
    assert len({id(o.transport._embedded) for o in (db, *others)}) == 1  # type: ignore[attr-defined]
    for other in others:
        other.close()


def test_a_folder_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((hornbeam.Error, OSError)):
        hornbeam.connect(client_world.embedded(tmp_path / "file"))


def test_an_interrupted_statement_ends_in_the_database_too(tmp_path: Path) -> None:
    db = hornbeam.connect(client_world.embedded(tmp_path / "db"))
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        db.cursor().execute(
            "SELECT count(*) FROM range(300000) a, range(300000) b WHERE a.range * b.range % 7 = 3"
        )
    began = time.monotonic()
    db.close()
    assert time.monotonic() - began < 10


def test_a_transaction_keeps_the_uuids_that_it_returned(tmp_path: Path) -> None:
    with hornbeam.connect(client_world.embedded(tmp_path / "db")) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), n INT)")
        given = []
        for n in range(3):
            cursor.execute("INSERT INTO t (n) VALUES (?) RETURNING id", [n])
            given += cursor.fetchall()
        cursor.execute("SELECT id FROM t ORDER BY n")
        assert cursor.fetchall() == given
        connection.commit()
        cursor.execute("SELECT id FROM t ORDER BY n")
        assert cursor.fetchall() == given
        assert len(set(given)) == 3
