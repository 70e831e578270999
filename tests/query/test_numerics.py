"""NUMERIC has PostgreSQL's meaning in our own loops and in DuckDB."""

from __future__ import annotations

from decimal import Decimal

import duckdb as duckdb_module
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.execution.loops import NativePlan
from hornbeam_server.query.expressions.compiler import compile_expression
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import DivisionByZero, SqlError, TypeMismatch, Unsupported
from hornbeam_server.schema.quotients import QUOTIENT, product, quotient, quotient_of_texts
from tests.depth import depth
from tests.duckdb_oracle import connect
from tests.query.aggregate_world import World
from tests.query.query_world import ask

SCHEMA = load_ddl(
    "CREATE TABLE t (k INTEGER PRIMARY KEY, d DECIMAL(10,2), b BIGINT, f DOUBLE PRECISION)"
)
CATALOG = Catalog(1, SCHEMA, Forest(SCHEMA.names))
ORACLE = connect()


@pytest.fixture(scope="module")
def engine():
    engine = QueryEngine()
    yield engine
    engine.close()


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
    compiled = compile_expression(bound.ast.expressions[0].unalias(), None)
    assert compiled is not None
    assert (found, type(found)) == (value, type(value))
    assert (compiled(()), type(compiled(()))) == (value, type(value))


@pytest.mark.parametrize(
    ("dividend", "divisor", "wanted"),
    [
        ("1", "3", "0.33333333333333333333"),
        ("10.0", "3", "3.3333333333333333"),
        ("3.5", "3.1", "1.12903225806451612903"),
        ("100000", "7.0", "14285.714285714286"),
        ("-2", "3", "-0.66666666666666666667"),
        ("7", "30000.00", "0.00023333333333333333"),
        ("0.00", "-3", "0"),
        ("999999999999999999", "0.9999999999", None),
        ("1", "0.0", None),
    ],
)
def test_a_quotient_is_rounded_as_in_postgresql(dividend, divisor, wanted):
    if wanted is None:
        with pytest.raises(TypeMismatch):
            quotient(Decimal(dividend), Decimal(divisor))
        return
    found = quotient(Decimal(dividend), Decimal(divisor))
    assert found == Decimal(wanted)
    assert found.as_tuple().exponent == -QUOTIENT.scale
    assert not (found == 0 and found.is_signed())


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (f"2.5 / 1{'0' * 40}.5", "0"),
        (f"(1.0 / 3) * 0.{'0' * 42}1", "0"),
    ],
)
def test_a_number_with_more_digits_than_a_decimal_is_divided_and_multiplied(
    written, wanted, duckdb
):
    bound = bind(f"SELECT {written}", CATALOG)
    assert ask(duckdb, duckdb_sql(bound.ast)) == [(Decimal(wanted),)]


_NUMBERS = st.decimals(-(10**9), 10**9, places=2)


@settings(max_examples=depth(15, long=40))
@given(a=_NUMBERS, b=_NUMBERS)
def test_duckdb_divides_and_multiplies_by_the_same_functions(a, b, duckdb):
    assume(abs(a * b) < 10**18)
    given_ = ", ".join(f"CAST('{value}' AS DECIMAL(12,2))" for value in (a, b))
    assert ask(duckdb, f"SELECT hornbeam_product({given_})") == [(product(a, b),)]
    if b:
        assert ask(duckdb, f"SELECT hornbeam_quotient({given_})") == [(quotient(a, b),)]


@pytest.mark.parametrize(
    ("sql", "type_", "value"),
    [
        ("SELECT d / k FROM t", QUOTIENT, "2.1"),
        ("SELECT k / 2 FROM t", "INTEGER", 2),
        ("SELECT d / f FROM t", "DOUBLE", 4.2),
        ("SELECT d / '2' FROM t", QUOTIENT, "5.25"),
        ("SELECT d / k * (d / 7) FROM t", QUOTIENT, "3.15"),
        ("SELECT d / k * 1.123456 FROM t", QUOTIENT, "2.3592576"),
        ("SELECT d / k * 1.5 FROM t", "DECIMAL(38,21)", "3.15"),
        ("SELECT sum(d) / count(*) FROM t", QUOTIENT, "10.5"),
        ("SELECT sum(d * 2) / sum(k + 1) FROM t", QUOTIENT, "3.5"),
        ("SELECT sum(b) / 2 FROM t", QUOTIENT, "3.5"),
        ("SELECT x.y / 4 FROM (SELECT d * 2 AS y FROM t) AS x", QUOTIENT, "5.25"),
        ("WITH x AS (SELECT d * 2 AS y FROM t) SELECT y / z FROM x AS w (z), x", QUOTIENT, "1"),
        ("SELECT y / 2 FROM (SELECT b * 1.0 AS y FROM t UNION SELECT d FROM t) x WHERE y < 8",
         QUOTIENT, "3.5"),
        ("SELECT (SELECT d + 1 FROM t) / 2", QUOTIENT, "5.75"),
        ("SELECT CASE WHEN k = 5 THEN d ELSE 0 END / 2 FROM t", QUOTIENT, "5.25"),
        ("SELECT sum(d) OVER () / 2 FROM t", QUOTIENT, "5.25"),
        ("SELECT round(d / 3, 2) FROM t", "DECIMAL(38,2)", "3.5"),
        ("SELECT f * 2 / 4 FROM t", "DOUBLE", 1.25),
        ("SELECT list_sum([d]) / 4 FROM t", "DOUBLE", 2.625),
    ],
)  # fmt: skip
def test_the_kind_of_a_quotient_follows_from_the_syntax(sql, type_, value, duckdb):
    duckdb.execute(
        "CREATE OR REPLACE TABLE t AS SELECT 5 AS k, 10.5::DECIMAL(10,2) AS d, 7::BIGINT AS b,"
        " 2.5::DOUBLE AS f"
    )
    written = duckdb_sql(bind(sql, CATALOG).ast)
    wanted = type_ if isinstance(type_, str) else type_.sql()
    assert str(duckdb.sql(written).types[0]) == wanted
    assert ask(duckdb, written) == [(Decimal(value) if isinstance(value, str) else value,)]


DIVISIONS = {
    "DuckDB": "SELECT d / {} FROM t AS x QUALIFY row_number() OVER () = 1",
    "our loops": "SELECT d / {} FROM t",
}


@pytest.mark.parametrize("sql", DIVISIONS.values(), ids=DIVISIONS)
def test_both_executors_divide_and_report_a_division_by_zero(sql, engine):
    world = World(engine, CATALOG, {"t": [(4, Decimal("10.50"), 1, 1.0)]}, ORACLE)
    answer = world.ask(sql.format("k"))
    assert (answer.rows, answer.types) == ([(Decimal("2.625"),)], [QUOTIENT])
    for zero in ("(k - k)", "0.00"):
        with pytest.raises(DivisionByZero, match=r"\(10.50 / 0"):
            world.ask(sql.format(zero))


@pytest.mark.parametrize("sql", DIVISIONS.values(), ids=DIVISIONS)
def test_a_division_of_integers_by_zero_is_shown_as_it_was_written(sql, engine):
    """DuckDB's operator is //."""
    world = World(engine, CATALOG, {"t": [(4, Decimal("10.50"), 1, 1.0)]}, ORACLE)
    with pytest.raises(DivisionByZero) as caught:
        world.ask(sql.format("k").replace("d /", "7 / (k - 4) /"))
    assert "//" not in str(caught.value)
    assert " / " in str(caught.value)


def test_the_executors_differ(engine):
    native = {
        name: isinstance(engine.prepare(sql.format("k"), CATALOG).plan, NativePlan)
        for name, sql in DIVISIONS.items()
    }
    assert native == {"DuckDB": False, "our loops": True}


@pytest.mark.parametrize(
    "sql", ["d * (1 - d) * (1 + d)", "(d + 1) * (d * (d - 2))", "sum(d * -d * d)"]
)
def test_a_product_without_a_quotient_is_duckdbs(sql):
    assert "hornbeam_product" not in duckdb_sql(bind(f"SELECT {sql} FROM t", CATALOG).ast).lower()


@pytest.mark.parametrize(
    "sql", ["(d / 3) * (d / 7)", "(d / 3) * (1 + d / 7)", "(1 - d / 3) * -(d / 7)"]
)
def test_a_product_of_quotients_is_rounded(sql):
    assert "hornbeam_product" in duckdb_sql(bind(f"SELECT {sql} FROM t", CATALOG).ast).lower()


WIDE = load_ddl(
    "CREATE TABLE w (k INTEGER PRIMARY KEY, b BIGINT, d DECIMAL(9,2), n DECIMAL(38,0),"
    " z DECIMAL(38,20))"
)
WIDE_CATALOG = Catalog(1, WIDE, Forest(WIDE.names))
WIDE_ROWS = [
    (1, 1, Decimal("0.25"), Decimal(5), Decimal("0.123456789")),
    (2, 4, Decimal("7.75"), Decimal(7), Decimal("9.5")),
]


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT sum(b) FROM w UNION ALL SELECT avg(b) FROM w", "5 2.5"),
        ("SELECT avg(b) FROM w UNION ALL SELECT sum(b) FROM w", "2.5 5"),
        ("SELECT * FROM (SELECT avg(b) AS a FROM w) x UNION SELECT sum(b) FROM w", "2.5 5"),
        ("SELECT avg(b) FROM w EXCEPT SELECT n - 4.0 FROM w", "2.5"),
        ("SELECT n FROM w INTERSECT SELECT d - 0.75 FROM w", "7"),
        ("SELECT sum(b) FROM w UNION ALL SELECT avg(b) FROM w UNION ALL SELECT 1.25", "5 2.5 1.25"),
        ("SELECT max(x) FROM (SELECT n + 0.5 AS x FROM w UNION ALL SELECT z FROM w) v", "9.5"),
        ("SELECT CASE WHEN k = 1 THEN n ELSE z END FROM w", "5 9.5"),
        ("SELECT coalesce(NULLIF(d, 0.25), n) FROM w", "5 7.75"),
        ("SELECT coalesce(z, n) + coalesce(d, n) FROM w", "0.373456789 17.25"),
        ("SELECT greatest(n, d) FROM w", "5 7.75"),
        ("SELECT least(n, d, z) FROM w", "0.123456789 7"),
        ("SELECT x FROM (VALUES (CAST(3 AS DECIMAL(38,0))), (1.25)) v(x)", "3 1.25"),
        ("SELECT unnest(ARRAY[sum(b), avg(b)]) FROM w", "5 2.5"),
        ("SELECT lag(n, 1, 2.5) OVER (ORDER BY k) FROM w", "2.5 5"),
        ("SELECT lag(b, 1, 2.5) OVER (ORDER BY k) FROM w", "2.5 1"),
        ("SELECT lead(d, 1, 0.125) OVER (ORDER BY k) FROM w", "7.75 0.125"),
        ("SELECT coalesce(NULLIF(n, n), '1.5') FROM w", "1.5 1.5"),
        ("SELECT coalesce(NULLIF(d, d), '1.555') FROM w", "1.555 1.555"),
        (
            "WITH RECURSIVE r (x, i) AS (SELECT 1.0, 1 UNION ALL SELECT x / 4, i + 1 FROM r"
            " WHERE i < 3) SELECT x FROM r",
            "1 0.25 0.0625",
        ),
        (
            "WITH RECURSIVE r (x, i) AS (SELECT 1.00, 1 UNION ALL SELECT x + 0.05, i + 1 FROM r"
            " WHERE i < 3) SELECT x FROM r",
            "1 1.05 1.1",
        ),
    ],
)
def test_decimals_that_meet_keep_all_places(sql, values, duckdb):
    assert sorted(_wide(sql, duckdb)) == sorted(map(Decimal, values.split()))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CAST(1e30 AS DECIMAL(38,0)) UNION ALL SELECT avg(b) FROM w",
        "SELECT coalesce(CAST(1e30 AS DECIMAL(38,0)) + n, z) FROM w",
    ],
)
def test_a_number_without_room_beside_a_decimal_is_refused(sql, duckdb):
    with pytest.raises(duckdb_module.ConversionException, match="out of range"):
        _wide(sql, duckdb)


def test_decimals_whose_common_type_has_room_are_not_cast():
    bound = bind("SELECT coalesce(d, 1.5), coalesce(sum(b), 0) FROM w GROUP BY d", WIDE_CATALOG)
    assert "CAST" not in duckdb_sql(bound.ast).replace("CAST(SUM(b) AS DECIMAL(38, 0))", "")


def test_a_recursive_cte_does_not_round_to_the_kind_of_its_first_part():
    with pytest.raises(SqlError, match="x of a recursive CTE is INTEGER"):
        bind(
            "WITH RECURSIVE r (x) AS (SELECT 1 UNION ALL SELECT x + 0.5 FROM r WHERE x < 3)"
            " SELECT x FROM r",
            WIDE_CATALOG,
        )


def test_a_merged_column_of_decimals_without_a_common_type_is_refused():
    with pytest.raises(Unsupported, match="FULL JOIN of decimals x"):
        bind(
            "SELECT x FROM (SELECT n AS x FROM w) a FULL JOIN (SELECT z AS x FROM w) b USING (x)",
            WIDE_CATALOG,
        )


def _wide(sql, duckdb):
    duckdb.execute(
        "CREATE OR REPLACE TABLE w (k INTEGER, b BIGINT, d DECIMAL(9,2), n DECIMAL(38,0),"
        " z DECIMAL(38,20))"
    )
    duckdb.executemany("INSERT INTO w VALUES (?, ?, ?, ?, ?)", WIDE_ROWS)
    return [value for (value,) in ask(duckdb, duckdb_sql(bind(sql, WIDE_CATALOG).ast))]


@given(
    st.one_of(st.integers(-(10**6), 10**6), st.integers(-(10**18), 10**18)),
    st.integers(0, 18),
    st.one_of(st.integers(1, 2_000), st.integers(1, 10**17)),
)
def test_quotients_of_texts_have_the_digits_of_quotients(units, places, count):
    """Most averages take a shorter way over the texts."""
    total = Decimal(units).scaleb(-places)
    assert quotient_of_texts(f"{total:f}", str(count)) == f"{quotient(total, count):f}"
