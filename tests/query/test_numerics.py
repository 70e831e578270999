"""NUMERIC has PostgreSQL's meaning in our own loops and in DuckDB."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.dialect.duckdb_types import connect
from hornbeam_server.query.expressions.compiler import compile_expression
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from tests.query.query_world import ask

SCHEMA = load_ddl("CREATE TABLE t (k INTEGER PRIMARY KEY)")
CATALOG = Catalog(1, SCHEMA, Forest(SCHEMA.names))


@pytest.fixture(scope="module")
def duckdb():
    connection = connect()
    yield connection
    connection.close()


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e3", Decimal(1000)),
        ("1.5e-3", Decimal("0.0015")),
        ("1E2 * 3", Decimal(300)),
        ("2e1 - 0.5", Decimal("19.5")),
        ("12e36", Decimal("12e36")),
        ("1e38", 1e38),
        ("1e-38", 1e-38),
        ("1e300", 1e300),
    ],
)
def test_a_number_with_an_exponent_is_numeric_if_a_decimal_holds_it(written, value, duckdb):
    bound = bind(f"SELECT {written}", CATALOG)
    ((found,),) = ask(duckdb, duckdb_sql(bound.ast))
    compiled = compile_expression(bound.ast.expressions[0], None)
    assert compiled is not None
    assert (found, type(found)) == (value, type(value))
    assert (compiled(()), type(compiled(()))) == (value, type(value))
    assert [column.name for column in bound.columns] == [written]
