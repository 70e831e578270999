"""Transactions that have read under a schema which another connection changes before they commit.

In PostgreSQL the change would wait for them. Here they are refused, and run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import hornbeam
from hornbeam.connection import Connection
from tests.client.client_world import embedded, served

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
SCHEMA = (
    "CREATE TABLE item (id INTEGER PRIMARY KEY, code INTEGER, size INTEGER)",
    "CREATE INDEX item_by ON item (code)",
    "CREATE VIEW small AS SELECT id FROM item WHERE size < 5",
    "CREATE TABLE log (n INTEGER PRIMARY KEY)",
    "CREATE SEQUENCE numbers",
    "INSERT INTO item VALUES (1, 10, 1), (2, 20, 2)",
)
OTHER_KEY = "CREATE TABLE item (code INTEGER PRIMARY KEY, id INTEGER, size INTEGER)"
CHANGES = {
    "renamed": (
        "SELECT size FROM item WHERE id = 7",
        "DROP VIEW small",
        "ALTER TABLE item RENAME TO former",
        OTHER_KEY,
        "INSERT INTO item VALUES (5, 7, 1)",
    ),
    "created again": (
        "SELECT size FROM item WHERE id = 7",
        "DROP TABLE item CASCADE",
        OTHER_KEY,
        "INSERT INTO item VALUES (5, 7, 1)",
    ),
    "empty": (
        "SELECT n FROM log",
        "DROP TABLE log",
        "CREATE TABLE log (n INTEGER PRIMARY KEY)",
        "INSERT INTO log VALUES (8)",
    ),
    "another index": (
        "SELECT id FROM item WHERE code = 30",
        "DROP INDEX item_by",
        "CREATE INDEX item_by ON item (size)",
        "INSERT INTO item VALUES (3, 30, 3)",
    ),
    "columns exchanged": (
        "SELECT code FROM item WHERE id = 1",
        "ALTER TABLE item RENAME COLUMN code TO former",
        "ALTER TABLE item RENAME COLUMN size TO code",
    ),
    "another default": (
        "SELECT code FROM item WHERE id = 1",
        "ALTER TABLE item ALTER COLUMN size SET DEFAULT 4",
    ),
    "values converted": (
        "SELECT code FROM item WHERE id = 7",
        "ALTER TABLE item ALTER COLUMN code TYPE TEXT",
    ),
    "another view": (
        "SELECT id FROM small",
        "CREATE OR REPLACE VIEW small AS SELECT id FROM item WHERE size < 2",
    ),
}
HARMLESS = ("SELECT setval('numbers', 40)", "SELECT nextval('numbers')")


@pytest.fixture(scope="module", params=["embedded", "served"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("changed") / "data"
    with ExitStack() as stack:
        url = embedded(folder)
        if request.param == "served":
            url = stack.enter_context(served(folder))
        # It holds an embedded database open for all tests.
        stack.enter_context(hornbeam.connect(url))
        yield url


@pytest.fixture
def run(url: str) -> Iterator[Callable[..., None]]:
    """Runs statements in autocommit, over the schema of these tests."""
    with hornbeam.connect(url, autocommit=True) as db:

        def run(*statements: str) -> None:
            for sql in statements:
                db.cursor().execute(sql)

        run("DROP TABLE IF EXISTS former, item, log CASCADE", "DROP SEQUENCE IF EXISTS numbers")
        run("CREATE TABLE IF NOT EXISTS decision (n INTEGER)", *SCHEMA)
        yield run


def began(url: str, level: str, query: str) -> Connection:
    """A transaction that has read, and that writes because of it."""
    db = hornbeam.connect(url, isolation=level)
    db.cursor().execute(query).fetchall()
    db.cursor().execute("INSERT INTO decision VALUES (1)")
    return db


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("change", CHANGES)
def test_what_was_read_under_another_schema_is_a_conflict(url, run, level, change):
    query, *statements = CHANGES[change]
    with began(url, level, query) as db:
        run(*statements)
        if level == "READ COMMITTED":  # its reads are not validated
            db.commit()
        else:
            with pytest.raises(hornbeam.OperationalError) as refused:
                db.commit()
            assert refused.value.code == "read-conflict"
            assert refused.value.retryable


@pytest.mark.parametrize("change", CHANGES)
def test_a_query_for_update_is_validated_at_every_level(url, run, change):
    query, *statements = CHANGES[change]
    with began(url, "READ COMMITTED", f"{query} FOR UPDATE") as db:
        run(*statements)
        with pytest.raises(hornbeam.OperationalError) as refused:
            db.commit()
        assert refused.value.code == "read-conflict"


def test_numbers_of_a_sequence_are_no_conflict(url, run):
    with began(url, "REPEATABLE READ", "SELECT code FROM item WHERE id = 7") as db:
        run(*HARMLESS)
        db.commit()
