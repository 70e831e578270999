"""`sqrt`, `exp`, `ln`, `log` and `power` of NUMERIC have PostgreSQL's digits, in all loops."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hornbeam_server.query.values.powers import (
    common_logarithm,
    exponential,
    logarithm,
    natural_logarithm,
    power,
    square_root,
)
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import TypeMismatch
from tests.txlayer.database_world import catalog_of, check, opened, run_all

TABLES = load_ddl("CREATE TABLE t (k INTEGER PRIMARY KEY, n DECIMAL(12,4), i INTEGER, d DOUBLE)")
FOUND = [  # PostgreSQL 15's answers
    (square_root, ("2.5",), "1.581138830084190"),
    (square_root, ("0.0001",), "0.01000000000000000"),
    (square_root, ("123456789.5",), "11111.11108305556"),
    (exponential, ("2.5",), "12.182493960703473"),
    (exponential, ("-2.5",), "0.08208499862389880"),
    (natural_logarithm, ("2.5",), "0.9162907318741551"),
    (natural_logarithm, ("1.001",), "0.0009995003330835332"),
    (common_logarithm, ("2.5",), "0.3979400086720376"),
    (logarithm, ("2.0", "64.0"), "6.0000000000000000"),
    (power, ("2.5", "2"), "6.2500000000000000"),
    (power, ("1.05", "10"), "1.6288946267774414"),
    (power, ("2", "0.5"), "1.4142135623730950"),
    (power, ("28.3", "-5"), "0.0000000550893721"),
    (power, ("1.083", "181"), "1852467.7209505913174371"),
    (power, ("2.5", "-3"), "0.0640000000000000"),
]


@pytest.mark.parametrize(("function", "arguments", "wanted"), FOUND)
def test_a_function_has_postgresqls_digits(function, arguments, wanted):
    assert function(*map(Decimal, arguments)) == Decimal(wanted)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (square_root, ("-1",)), (natural_logarithm, ("0",)), (common_logarithm, ("-1",)),
        (logarithm, ("1", "2")), (power, ("0", "-1")), (power, ("-2", "0.5")),
        (power, ("10", "18")), (power, ("10", "1000000000")), (exponential, ("1000000",)),
        (power, ("1.00000000000000000001", "1e30")),
    ],
)  # fmt: skip
def test_a_result_that_is_not_there_is_refused(function, arguments):
    with pytest.raises(TypeMismatch):
        function(*map(Decimal, arguments))


async def test_our_loops_and_duckdb_compute_the_same_numbers(tmp_path):
    async with opened(tmp_path, catalog_of(TABLES)) as database:
        await run_all(database, "INSERT INTO t VALUES (1, 2.5, 1, 2.5), (2, 0.0001, 7, 1)")
        calls = ["sqrt(n)", "exp(n)", "ln(n)", "log(n)", "log(2, i)", "power(n, 2)", "n ^ 0.5",
                 "sqrt(n) * sqrt(n)", "round(sqrt(n), 3)"]  # fmt: skip
        sql = f"SELECT {', '.join(calls)} FROM t ORDER BY k"
        own = await database.fetch(sql)
        some = "FROM (SELECT * FROM t QUALIFY row_number() OVER () > 0) AS t"
        assert own == await database.fetch(sql.replace("FROM t", some))
        assert own[0][:2] == (Decimal("1.58113883008419"), Decimal("12.182493960703473"))
        assert all(isinstance(value, Decimal) for row in own for value in row)
        floats = await database.fetch("SELECT sqrt(i), power(i, 2), exp(d), |/ n FROM t")
        assert all(isinstance(value, float) for value in floats[0])
        await check(database)
