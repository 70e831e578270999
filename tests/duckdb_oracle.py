"""A DuckDB database with all our functions and macros, with which tests compare answers."""

from __future__ import annotations

from typing import Any

import duckdb

from hornbeam_server.query.dialect import duckdb_types
from hornbeam_server.query.dialect.definitions import Definitions


def connect(**options: Any) -> duckdb.DuckDBPyConnection:
    connection = duckdb_types.connect(**options)
    Definitions().create_all(connection)
    return connection
