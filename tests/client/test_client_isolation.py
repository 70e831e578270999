"""Statements that control transactions, and the isolation level of a connection."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

import hornbeam
from hornbeam.connection import Connection
from hornbeam.isolation import Action, Control, control_of, level_of
from tests.client.client_world import embedded

SERIALIZABLE, RR, RC = "SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    url = embedded(tmp_path_factory.mktemp("control") / "data")
    with hornbeam.connect(url, autocommit=True) as db:
        db.cursor().execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        yield url


@pytest.fixture
def db(url: str) -> Iterator[Connection]:
    """A connection in autocommit to a table with one row."""
    with hornbeam.connect(url, autocommit=True) as db:
        db.cursor().execute("TRUNCATE t")
        db.cursor().execute("INSERT INTO t VALUES (1, 1)")
        yield db
        db.rollback()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("BEGIN", Control(Action.BEGIN)),
        ("begin work;", Control(Action.BEGIN)),
        ("BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE", Control(Action.BEGIN, SERIALIZABLE)),
        ("START TRANSACTION READ ONLY", Control(Action.BEGIN, None, True)),
        (
            "START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE, NOT DEFERRABLE",
            Control(Action.BEGIN, RR, False, deferrable=False),
        ),
        ("BEGIN ISOLATION LEVEL READ UNCOMMITTED", Control(Action.BEGIN, RC)),
        ("SET TRANSACTION ISOLATION LEVEL read committed READ ONLY", Control(Action.SET, RC, True)),
        (
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            Control(Action.SET_SESSION, SERIALIZABLE),
        ),
        ("COMMIT", Control(Action.COMMIT)),
        ("END TRANSACTION", Control(Action.COMMIT)),
        ("COMMIT WORK AND NO CHAIN", Control(Action.COMMIT)),
        ("ABORT", Control(Action.ROLLBACK)),
        ("ROLLBACK -- all", Control(Action.ROLLBACK)),
        ('SAVEPOINT "A b"', Control(Action.SAVEPOINT, name="A b")),
        ("ROLLBACK TO SAVEPOINT Here", Control(Action.ROLLBACK_TO, name="here")),
        ("ROLLBACK TRANSACTION TO savepoint", Control(Action.ROLLBACK_TO, name="savepoint")),
        ("RELEASE SAVEPOINT x", Control(Action.RELEASE, name="x")),
    ],
)
def test_statements_about_transactions_are_read(sql: str, expected: Control) -> None:
    assert control_of(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "BEGIN ISOLATION LEVEL",
        "BEGIN ISOLATION LEVEL CHAOS",
        "BEGIN NOW",
        "SET TRANSACTION",
        "SET TRANSACTION SNAPSHOT '1'",
        "COMMIT AND CHAIN",
        "COMMIT PREPARED 'x'",
        "SAVEPOINT",
        "RELEASE a b",
    ],
)
def test_other_statements_are_refused(sql: str) -> None:
    with pytest.raises(hornbeam.Error):
        control_of(sql)


@pytest.mark.parametrize("name", ["serializable", "repeatable-read", "READ_COMMITTED"])
def test_levels_are_read_in_any_spelling(name: str) -> None:
    assert level_of(name) in {SERIALIZABLE, RR, RC}


def rows(db: Connection) -> list[tuple[int, int]]:
    return db.cursor().execute("SELECT id, n FROM t ORDER BY id").fetchall()


def run(db: Connection, *statements: str) -> None:
    for statement in statements:
        db.cursor().execute(statement)


def test_begin_opens_a_transaction_on_a_connection_in_autocommit(url: str, db: Connection) -> None:
    run(db, "BEGIN", "UPDATE t SET n = 2")
    assert rows(db) == [(1, 2)]
    with hornbeam.connect(url) as other:
        assert rows(other) == [(1, 1)]
    run(db, "ROLLBACK")
    assert rows(db) == [(1, 1)]
    run(db, "START TRANSACTION", "UPDATE t SET n = 3", "SAVEPOINT a", "UPDATE t SET n = 4")
    run(db, "ROLLBACK TO a", "COMMIT", "UPDATE t SET id = 5")
    with hornbeam.connect(url) as other:
        assert rows(other) == [(5, 3)]
    assert not db.in_transaction
    run(db, "COMMIT", "ROLLBACK")  # nothing to end


def test_the_level_of_a_transaction_ends_with_it(url: str, db: Connection) -> None:
    assert db.isolation == RR
    run(db, "BEGIN ISOLATION LEVEL SERIALIZABLE")
    assert db.isolation == SERIALIZABLE
    run(db, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    assert db.isolation == RC
    run(db, "COMMIT")
    assert db.isolation == RR
    run(db, "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    assert db.isolation == SERIALIZABLE
    with hornbeam.connect(f"{url}?isolation=serializable") as other:
        assert other.isolation == SERIALIZABLE
        other.isolation = "read committed"
        assert other.isolation == RC
        with pytest.raises(hornbeam.InterfaceError, match="no isolation level"):
            other.isolation = "chaos"


def test_modes_are_set_before_the_first_statement(db: Connection) -> None:
    run(db, "BEGIN")
    rows(db)
    for sql in ("SET TRANSACTION DEFERRABLE", "BEGIN ISOLATION LEVEL SERIALIZABLE"):
        with pytest.raises(hornbeam.InterfaceError, match="before its first statement"):
            run(db, sql)
    with pytest.raises(hornbeam.InterfaceError, match="before its first statement"):
        db.isolation = "serializable"
    run(db, "SET TRANSACTION READ ONLY")  # which may come later
    with pytest.raises(hornbeam.InterfaceError, match="before its first statement"):
        run(db, "SET TRANSACTION READ WRITE")
    run(db, "COMMIT")
    with pytest.raises(hornbeam.InterfaceError, match="BEGIN first"):
        run(db, "SET TRANSACTION READ ONLY")


def test_a_transaction_that_is_read_only_refuses_writes(db: Connection) -> None:
    for sql in ("DELETE FROM t", "CREATE TABLE other (a INTEGER)", "DROP TABLE t"):
        run(db, "BEGIN READ ONLY")
        with pytest.raises(hornbeam.ProgrammingError, match="READ ONLY"):
            run(db, sql)
        run(db, "ROLLBACK")
    run(db, "BEGIN READ ONLY")
    assert rows(db) == [(1, 1)]
    run(db, "COMMIT", "DELETE FROM t")
    assert rows(db) == []


def test_each_statement_of_a_script_in_a_block_is_in_one_transaction(
    url: str, db: Connection
) -> None:
    with hornbeam.connect(url) as plain:
        run(plain, "BEGIN ISOLATION LEVEL SERIALIZABLE", "INSERT INTO t VALUES (2, 2)", "COMMIT")
        assert not plain.in_transaction
        assert plain.isolation == RR
    assert rows(db) == [(1, 1), (2, 2)]


def test_a_pipeline_that_fails_in_a_block_leaves_the_writes_before_it(db: Connection) -> None:
    """As on a connection without autocommit: its own writes stay, too."""
    run(db, "BEGIN", "INSERT INTO t VALUES (2, 2)")
    with contextlib.suppress(ZeroDivisionError), db.pipeline():
        run(db, "INSERT INTO t VALUES (3, 3)")
        raise ZeroDivisionError
    run(db, "COMMIT")
    assert rows(db) == [(1, 1), (2, 2), (3, 3)]


def test_a_failed_statement_aborts_its_transaction(db: Connection) -> None:
    run(db, "BEGIN", "INSERT INTO t VALUES (2, 2)")
    with pytest.raises(hornbeam.ProgrammingError):
        run(db, "SELECT nothing FROM t")
    for sql in (
        *(
            "SELECT 1",
            "DELETE FROM t",
            "SAVEPOINT a",
            "RELEASE a",
            "BEGIN",
            "SET TRANSACTION READ ONLY",
        ),
        *("PREPARE p AS SELECT 1", "EXPLAIN SELECT 1", "DROP TABLE t", "SET search_path = public"),
        *("VACUUM", "DEALLOCATE ALL", "SHOW search_path"),
    ):
        with pytest.raises(hornbeam.InternalError, match="ignored until end of") as caught:
            run(db, sql)
        assert caught.value.code == "failed-transaction"
        assert "nothing" in caught.value.cure
    run(db, "ROLLBACK")
    assert rows(db) == [(1, 1)]


@pytest.mark.parametrize(
    "failing",
    [
        "INSERT INTO t VALUES (1, 9)",
        "SELECT 1 / (n - 1) FROM t",
        "CREATE TABLE t (a INTEGER)",
        "EXECUTE nothing",
        "ROLLBACK TO nothing",
        "SET timezone = 'Europe/Rome'",
    ],
)
def test_rollback_to_a_savepoint_continues_an_aborted_transaction(
    db: Connection, failing: str
) -> None:
    if not failing.startswith("CREATE"):
        run(db, "BEGIN", "INSERT INTO t VALUES (2, 2)", "SAVEPOINT a")
    else:  # a schema change follows no write
        run(db, "BEGIN", "SAVEPOINT a")
    for _ in range(2):
        with pytest.raises(hornbeam.Error):
            run(db, failing)
        with pytest.raises(hornbeam.InternalError, match="is aborted"):
            rows(db)
        run(db, "ROLLBACK TO a")
    run(db, "INSERT INTO t VALUES (3, 3)", "COMMIT", "DELETE FROM t WHERE id = 2")
    assert rows(db) == [(1, 1), (3, 3)]


def test_commit_of_an_aborted_transaction_rolls_back_and_says_so(url: str, db: Connection) -> None:
    run(db, "BEGIN", "INSERT INTO t VALUES (2, 2)")
    with pytest.raises(hornbeam.IntegrityError):
        run(db, "INSERT INTO t VALUES (1, 9)")
    cursor = db.cursor().execute("COMMIT")
    assert "rolled back" in cursor.notice
    assert not db.in_transaction
    assert db.cursor().execute("COMMIT").notice == ""
    with hornbeam.connect(url) as plain:
        run(plain, "INSERT INTO t VALUES (2, 2)")
        with pytest.raises(hornbeam.IntegrityError):
            run(plain, "INSERT INTO t VALUES (1, 9)")
        with pytest.raises(hornbeam.InternalError, match="commit has rolled it back"):
            plain.commit()
        assert rows(plain) == [(1, 1)]
        plain.commit()
    assert rows(db) == [(1, 1)]


def test_a_failed_statement_in_autocommit_and_a_failed_commit_abort_nothing(
    url: str, db: Connection
) -> None:
    with pytest.raises(hornbeam.IntegrityError):
        run(db, "INSERT INTO t VALUES (1, 9)")
    assert rows(db) == [(1, 1)]
    with hornbeam.connect(url) as plain:
        run(plain, "UPDATE t SET n = n + 1")
        rows(plain)
        run(db, "UPDATE t SET n = 5")
        with pytest.raises(hornbeam.OperationalError, match="changed"):
            plain.commit()
        assert rows(plain) == [(1, 5)]
        with pytest.raises(hornbeam.InterfaceError):  # a wrong use of the client
            plain.cursor().execute("SELECT ?", [object()])
        assert rows(plain) == [(1, 5)]
