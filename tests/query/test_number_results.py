"""Results of functions and operators of numbers are those of PostgreSQL, in DuckDB and in our own
loops alike, and in the text that a declared view has of them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.expressions.compiler import compile_expression
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import DivisionByZero, TypeMismatch
from tests.duckdb_oracle import connect

SCHEMA = load_ddl(
    "CREATE TABLE t (k INTEGER PRIMARY KEY, s SMALLINT, b BIGINT, d DECIMAL(10,2), w DECIMAL(38,0))"
)
CATALOG = Catalog(1, SCHEMA, Forest(SCHEMA.names))
ROW = {
    "k": 7,
    "s": 20000,
    "b": 9_000_000_001,
    "d": Decimal("10.25"),
    "w": Decimal(12345678901234567890),
}


class _Row:
    def resolve(self, column):
        relation = SCHEMA.relation("t")
        return relation.positions[column.name], relation.column(column.name).type.stored()

    def parameter_type(self, name):
        return None


@pytest.fixture(scope="module")
def duckdb():
    with connect(threads=1) as connection:
        types = ("INTEGER", "INTEGER", "BIGINT", "DECIMAL(10,2)", "DECIMAL(38,0)")
        columns = ", ".join(f"{name} {type_}" for name, type_ in zip(ROW, types, strict=True))
        connection.execute(f"CREATE TABLE t ({columns})")
        connection.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [*ROW.values()])
        yield connection


def _in_loops(tree):
    compiled = compile_expression(tree.expressions[0].unalias(), _Row())
    assert compiled is not None
    return compiled(tuple(ROW.values()))


CASES = [
    ("round(k)", 7.0),
    ("round(b)", 9_000_000_001.0),
    ("ceil(k) / 2", 3.5),
    ("floor(s)", 20000.0),
    ("trunc(b)", 9_000_000_001.0),
    ("round(k, 1)", Decimal(7)),
    ("round(k, 0) / 2", Decimal("3.5")),
    ("nullif(k, 2.5)", Decimal(7)),
    ("nullif(k, d)", Decimal(7)),
    ("nullif(b, d)", Decimal(9_000_000_001)),
    ("nullif(d, 2.5e0::DOUBLE)", 10.25),
    ("nullif(k, 7)", None),
    ("nullif('4', k)", 4),
    ("d % 3", Decimal("1.25")),
    ("-d % 3.125", Decimal("-0.875")),
    ("mod(d, k)", Decimal("3.25")),
    ("(d / 3) % w", Decimal("3.4166666666666667")),
    ("w % (d / 4)", Decimal("1.1250")),
    ("mod(w, d / 4)", Decimal("1.1250")),
    ("s + 20000", 40000),
    ("s + s::INTEGER", 40000),
    ("s - 1::SMALLINT", 19999),
    ("k::SMALLINT * 2::SMALLINT", 14),
]


@pytest.mark.parametrize(("written", "value"), CASES)
def test_the_value_and_its_type_are_postgresqls(written, value, duckdb):
    bound = bind(f"SELECT {written} FROM t", CATALOG)
    (found,) = duckdb.execute(duckdb_sql(bound.ast)).fetchone()
    assert found == value
    assert type(found) is type(value)
    found = _in_loops(bound.ast)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(("written", "value"), CASES)
def test_the_text_for_duckdb_means_the_same_in_our_loops(written, value):
    text = duckdb_sql(bind(f"SELECT {written} FROM t", CATALOG).ast)
    again = bind(text, CATALOG).ast
    assert _in_loops(again) == value


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ("s + s", TypeMismatch),
        ("s * k::SMALLINT", TypeMismatch),
        ("-((-32768)::SMALLINT)", TypeMismatch),
        ("abs((-12768 - s::INTEGER)::SMALLINT)", TypeMismatch),
        ("b::SMALLINT", TypeMismatch),
        ("d % 0.0", DivisionByZero),
        ("(d / 3) % (w - w)", DivisionByZero),
    ],
)
def test_what_is_out_of_range_is_refused(written, error, duckdb):
    bound = bind(f"SELECT {written} FROM t", CATALOG)
    with pytest.raises(error):
        _in_loops(bound.ast)
    with pytest.raises(Exception, match=r"range|zero"):
        duckdb.execute(duckdb_sql(bound.ast)).fetchone()


@pytest.mark.parametrize("written", ["1e400::FLOAT8", "-1e400::DOUBLE PRECISION", "(-1e309)::REAL"])
def test_a_number_that_no_double_is_near_is_refused(written):
    with pytest.raises(TypeMismatch, match="out of range for type double precision"):
        bind(f"SELECT {written} FROM t", CATALOG)
