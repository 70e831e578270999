"""Anomalies by name at each isolation level, for clients of an embedded and of a served database.

The histories are Hermitage's (github.com/ept/hermitage), the names Adya's. `LEVELS` is the table of
docs/transactions.md. Time runs downwards in each docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import hornbeam
from hornbeam.connection import Connection
from tests.client.client_world import embedded, served

RC, RR, SERIALIZABLE = LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
World = Callable[[], Connection]
"""Opens a connection of the level under test."""


@pytest.fixture(scope="module", params=["embedded", "served"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("levels") / "data"
    with ExitStack() as stack:
        url = embedded(folder)
        if request.param == "served":
            url = stack.enter_context(served(folder))
        with hornbeam.connect(url, autocommit=True) as db:
            create = "CREATE TABLE test (id INTEGER PRIMARY KEY, value INTEGER NOT NULL)"
            db.cursor().execute(create)
            yield url


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def world(url: str, level: str) -> Iterator[World]:
    """A table with the rows (1, 10) and (2, 20)."""
    with ExitStack() as stack:

        def connect() -> Connection:
            db = hornbeam.connect(url, isolation=level)
            stack.callback(db.close)
            return db

        with hornbeam.connect(url, autocommit=True) as db:
            db.cursor().execute("TRUNCATE test")
            db.cursor().execute("INSERT INTO test VALUES (1, 10), (2, 20)")
        yield connect


def read(db: Connection, condition: str = "TRUE") -> dict[int, int]:
    return dict(db.cursor().execute(f"SELECT id, value FROM test WHERE {condition}").fetchall())


def put(db: Connection, key: int, value: int) -> None:
    db.cursor().execute("UPDATE test SET value = ? WHERE id = ?", (value, key))


def insert(db: Connection, key: int, value: int) -> None:
    db.cursor().execute("INSERT INTO test VALUES (?, ?)", (key, value))


def commits(db: Connection) -> bool:
    """Commit. False if the transaction is refused because of others."""
    try:
        db.commit()
    except hornbeam.OperationalError as error:
        if error.code != "read-conflict" or not error.retryable:
            raise
        return False
    return True


def test_g0_write_cycles(world: World) -> None:
    """T1: 1 → 11; T2: 1 → 12; T1: 2 → 21, COMMIT; T2: 2 → 22, COMMIT"""
    one, two = world(), world()
    put(one, 1, 11)
    put(two, 1, 12)
    put(one, 2, 21)
    assert commits(one)
    put(two, 2, 22)
    assert commits(two)
    assert read(world()) == {1: 12, 2: 22}


def test_g1a_aborted_reads(world: World) -> None:
    """T1: 1 → 101; T2 reads; T1: ROLLBACK; T2 reads"""
    one, two = world(), world()
    put(one, 1, 101)
    assert read(two) == {1: 10, 2: 20}
    one.rollback()
    assert read(two) == {1: 10, 2: 20}


def test_g1b_intermediate_reads(world: World, level: str) -> None:
    """T1: 1 → 101; T2 reads; T1: 1 → 11, COMMIT; T2 reads"""
    one, two = world(), world()
    put(one, 1, 101)
    assert read(two)[1] == 10
    put(one, 1, 11)
    assert commits(one)
    assert read(two)[1] == (11 if level == RC else 10)


def test_g1c_circular_information_flow(world: World, level: str) -> None:
    """T1: 1 → 11; T2: 2 → 22; T1 reads 2; T2 reads 1; both COMMIT"""
    one, two = world(), world()
    put(one, 1, 11)
    put(two, 2, 22)
    assert read(one, "id = 2") == {2: 20}
    assert read(two, "id = 1") == {1: 10}
    assert commits(one)
    assert commits(two) == (level == RC)


def test_otv_observed_transaction_vanishes(world: World, level: str) -> None:
    """T1: 1 → 11, 2 → 19, COMMIT; T3 reads; T2: 1 → 12, 2 → 18, COMMIT; T3 reads"""
    one, two, three = world(), world(), world()
    put(one, 1, 11)
    put(two, 1, 12)
    put(one, 2, 19)
    assert commits(one)
    assert read(three, "id = 1") == {1: 11}
    put(two, 2, 18)
    assert read(three) == {1: 11, 2: 19}
    assert commits(two)
    assert read(three) == ({1: 12, 2: 18} if level == RC else {1: 11, 2: 19})


def test_pmp_predicate_many_preceders(world: World, level: str) -> None:
    """T1 reads value = 30; T2 inserts it, COMMIT; T1 reads value % 3 = 0"""
    one, two = world(), world()
    assert read(one, "value = 30") == {}
    insert(two, 3, 30)
    assert commits(two)
    assert read(one, "value % 3 = 0") == ({3: 30} if level == RC else {})


def test_pmp_predicates_of_writes(world: World) -> None:
    """T1: every value + 10; T2 deletes value = 20; both COMMIT: as if one after the other"""
    one, two = world(), world()
    one.cursor().execute("UPDATE test SET value = value + 10")
    two.cursor().execute("DELETE FROM test WHERE value = 20")
    assert commits(one)
    assert commits(two)
    assert read(world()) == {2: 30}


def test_p4_lost_update(world: World, level: str) -> None:
    """T1, T2 read 1; T1: 1 → 11, COMMIT; T2: 1 → 15, COMMIT"""
    one, two = world(), world()
    assert read(one, "id = 1") == read(two, "id = 1") == {1: 10}
    put(one, 1, 11)
    put(two, 1, 15)
    assert commits(one)
    assert commits(two) == (level == RC)


def test_g_single_read_skew(world: World, level: str) -> None:
    """T1 reads 1; T2: 1 → 12, 2 → 18, COMMIT; T1 reads 2"""
    one, two = world(), world()
    assert read(one, "id = 1") == {1: 10}
    put(two, 1, 12)
    put(two, 2, 18)
    assert commits(two)
    assert read(one, "id = 2") == {2: 18 if level == RC else 20}


def test_g2_item_write_skew(world: World, level: str) -> None:
    """T1, T2 read 1 and 2; T1: 1 → 11; T2: 2 → 21; both COMMIT"""
    one, two = world(), world()
    for db in (one, two):
        assert read(db, "id IN (1, 2)") == {1: 10, 2: 20}
    put(one, 1, 11)
    put(two, 2, 21)
    assert commits(one)
    assert commits(two) == (level == RC)


def test_g2_write_skew_of_predicates(world: World, level: str) -> None:
    """T1, T2 read value % 3 = 0; T1 inserts (3, 30), T2 inserts (4, 42); both COMMIT"""
    one, two = world(), world()
    for db in (one, two):
        assert read(db, "value % 3 = 0") == {}
    insert(one, 3, 30)
    insert(two, 4, 42)
    assert commits(one)
    assert commits(two) == (level != SERIALIZABLE)


def test_g2_with_a_transaction_that_only_reads(world: World, level: str) -> None:
    """T1 reads all; T2: 2 → 25, COMMIT; T3 reads all, COMMIT; T1: 1 → 0, COMMIT (Fekete, O'Neil)"""
    one, two, three = world(), world(), world()
    assert read(one) == {1: 10, 2: 20}
    put(two, 2, 25)
    assert commits(two)
    assert read(three) == {1: 10, 2: 25}
    assert commits(three)
    put(one, 1, 0)
    assert commits(one) == (level == RC)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM test",
        "SELECT max(value) FROM test",
        "SELECT value FROM test ORDER BY id DESC LIMIT 1",
        "SELECT DISTINCT ON (value) value FROM test ORDER BY value DESC",
        "SELECT id FROM test WHERE id BETWEEN 3 AND 4",
        "SELECT * FROM test a LEFT JOIN test b ON b.id = a.id + 1",
        "SELECT 1 WHERE EXISTS (SELECT * FROM test WHERE id > 2)",
    ],
)
def test_rows_that_begin_to_match_any_query_are_seen(world: World, level: str, query: str) -> None:
    one, two = world(), world()
    one.cursor().execute(query)
    insert(one, 5, 50)
    insert(two, 3, 30)
    assert commits(two)
    assert commits(one) == (level != SERIALIZABLE)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT value FROM test WHERE id = 1",
        "SELECT value FROM test WHERE id < 2",
        "SELECT a.value FROM test a, test b WHERE a.id = 1 AND b.id = a.id",
        "SELECT value FROM test WHERE id IN (1, 2)",
    ],
)
def test_rows_outside_what_was_read_are_no_conflict(world: World, query: str) -> None:
    one, two = world(), world()
    one.cursor().execute(query)
    insert(one, 5, 50)
    insert(two, 3, 30)
    assert commits(two)
    assert commits(one)


def test_reads_of_pending_writes_rest_on_what_these_have_read(world: World, level: str) -> None:
    """T1: 1 → the number of rows, then reads 1; T2 inserts a row, COMMIT; T1: COMMIT"""
    one, two = world(), world()
    one.cursor().execute("UPDATE test SET value = (SELECT count(*) FROM test) WHERE id = 1")
    assert read(one, "id = 1") == {1: 2}
    insert(two, 3, 30)
    assert commits(two)
    assert commits(one) == (level != SERIALIZABLE)


@pytest.mark.parametrize("strength", ["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE OF test"])
def test_rows_that_are_selected_for_update_are_validated_at_every_level(
    world: World, strength: str
) -> None:
    one, two = world(), world()
    sql = f"SELECT value FROM test WHERE id = 1 FOR {strength}"
    assert one.cursor().execute(sql).fetchall() == [(10,)]
    read(one, "id = 2")
    put(one, 1, 11)
    put(two, 1, 15)
    assert commits(two)
    assert not commits(one)


def test_other_rows_than_those_selected_for_update_are_as_at_the_level(
    world: World, level: str
) -> None:
    one, two = world(), world()
    one.cursor().execute("SELECT value FROM test WHERE id = 1 FOR UPDATE")
    read(one, "id = 2")
    put(one, 1, 11)
    put(two, 2, 15)
    assert commits(two)
    assert commits(one) == (level == RC)
