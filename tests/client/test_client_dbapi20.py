"""Stuart Bishop's compliance suite for PEP 249 (the package dbapi-compliance).

Its tests pass in autocommit. Three of them create a table in a transaction that has written, which
the client refuses outside of autocommit: a schema change takes effect at once, so the transaction
could neither roll it back nor keep its snapshot.
"""

from __future__ import annotations

import dbapi20
import pytest

import hornbeam
from tests.client.client_world import embedded


class TestComplianceInAutocommit(dbapi20.DatabaseAPI20Test):
    driver = hornbeam
    connect_kw_args = {"autocommit": True}  # noqa: RUF012
    # The suite drops its tables in one transaction, in which no statement may fail.
    xddl1 = "drop table if exists dbapi20test_booze"
    xddl2 = "drop table if exists dbapi20test_barflys"

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _database(cls, tmp_path_factory):
        """A database that stays open during all tests, so that each of them opens it quickly."""
        cls.connect_args = (embedded(tmp_path_factory.mktemp("dbapi20") / "db"),)
        with hornbeam.connect(*cls.connect_args):
            yield

    def test_non_idempotent_close(self):
        """The suite wants an error of a second close; the client's close is idempotent."""
        connection = self._connect()
        connection.close()
        connection.close()

    def test_nextset(self):
        """PEP 249 makes nextset optional; a statement has one result."""
        assert not hasattr(hornbeam.connection.Cursor, "nextset")

    def test_setoutputsize(self):
        """PEP 249 allows it to do nothing."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.setoutputsize(1)
            assert cursor.execute("SELECT 'abc'").fetchall() == [("abc",)]


class TestCompliance(TestComplianceInAutocommit):
    connect_kw_args = {}  # noqa: RUF012

    def test_fetchall(self):
        with pytest.raises(hornbeam.ProgrammingError, match="before changing the schema"):
            super().test_fetchall()

    def test_fetchmany(self):
        with pytest.raises(hornbeam.ProgrammingError, match="before changing the schema"):
            super().test_fetchmany()

    def test_rowcount(self):
        with pytest.raises(hornbeam.ProgrammingError, match="before changing the schema"):
            super().test_rowcount()
