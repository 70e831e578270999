"""A DuckDB database with all our functions and macros, with which tests compare answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import duckdb

from hornbeam_server.query.dialect import duckdb_types
from hornbeam_server.query.dialect.definitions import Definitions


def connect(**options: Any) -> duckdb.DuckDBPyConnection:
    """A database of its own. To create the definitions takes 0.2 s of processor time."""
    connection = duckdb_types.connect(**options)
    Definitions().create_all(connection)
    return connection


@contextmanager
def without_tables() -> Iterator[duckdb.DuckDBPyConnection]:
    """The database of this process, in a transaction that is rolled back in the end, so its tables
    vanish. After a failed statement it answers no more."""
    with _shared().cursor() as database:
        database.begin()
        yield database
        database.rollback()


@cache
def _shared() -> duckdb.DuckDBPyConnection:
    return connect()
