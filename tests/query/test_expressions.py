"""Compiled expressions: which ones compile, which are left to DuckDB, their errors and types.

test_expressions_oracle.py compares their values with DuckDB's.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest
from sqlglot import exp, parse_one

from hornbeam_server.query.expressions import (
    CompiledExpression,
    SortTerm,
    compile_expression,
    sort_rows,
)
from hornbeam_server.query.expressions.text import matcher
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.types import ColumnType, Kind, Row, Value
from tests.query.query_world import evaluated

INTEGER, BIGINT = ColumnType(Kind.INTEGER), ColumnType(Kind.BIGINT)
TEXT, DOUBLE, BOOLEAN = ColumnType(Kind.TEXT), ColumnType(Kind.DOUBLE), ColumnType(Kind.BOOLEAN)
COLUMNS = (
    Column("i", INTEGER),
    Column("b", BIGINT),
    Column("d", ColumnType(Kind.DECIMAL, 12, 2)),
    Column("w", ColumnType(Kind.DECIMAL, 38, 20)),
    Column("f", DOUBLE),
    Column("s", TEXT),
    Column("j", ColumnType(Kind.JSON)),
    Column("day", ColumnType(Kind.DATE)),
    Column("at", ColumnType(Kind.TIMESTAMPTZ)),
    Column("o", BOOLEAN),
)
ROW: Row = (
    7,
    2**40,
    Decimal("1.50"),
    Decimal("1.00000000000000000000"),
    0.5,
    "Straße",
    "{}",
    dt.date(2024, 2, 29),
    dt.datetime(2024, 2, 29, tzinfo=dt.UTC),
    None,
)


class Names:
    """Resolves the columns; the parameters 0, 1 and :n are INTEGER, the others have no type."""

    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        position = [c.name for c in COLUMNS].index(column.name)
        return position, COLUMNS[position].type

    def parameter_type(self, name: int | str) -> ColumnType | None:
        return INTEGER if name in (0, 1, "n") else None


def compiled(sql: str) -> CompiledExpression | None:
    return compile_expression(parse_one(sql, read="duckdb"), Names())


def value(sql: str, parameters: Any = ()) -> Value:
    found = compiled(sql)
    assert found is not None, sql
    return found(ROW, parameters)


@pytest.mark.parametrize(
    "sql",
    [
        "random()",
        "i IN (SELECT 1)",
        "EXISTS (SELECT 1)",
        "s LIKE ANY ('a', 'b')",
        "TRY_CAST(s AS INTEGER)",  # sqlglot's TryCast is a subclass of Cast
        "CAST(s AS INTEGER)",
        "CAST(f AS INTEGER)",
        "CAST(0.5::DECIMAL(2,2) AS VARCHAR)",
        "s = i",
        "j = '{}'",
        "at = DATE '2024-02-29'",
        "at = '2024-02-29 00:00:00'",  # depends on the session's time zone
        "day = '2024-2-29'",
        "day = '2024-02-30'",
        "i = '7.0'",
        "o = 1",
        "i AND o",
        "NOT i",
        "i IS TRUE",
        "i + NULL",
        "w = b",
        "i = 10000000000000000000",
        "GREATEST(f, 1e0)",
        "ROUND(i, -1)",
        "SUBSTRING(s, 0, 2)",
        "SUBSTRING(s, -2)",
        "SUBSTRING(s, i)",
        "s LIKE 'a' ESCAPE 'xx'",
        "s ILIKE 'a' ESCAPE '!'",
        "s || 1",
        "i BETWEEN SYMMETRIC 9 AND 1",
        "day + i * 1.5",
        "i = :unknown",
        "COALESCE(NULL, NULL)",
    ],
)
def test_expressions_that_may_differ_are_left_to_duckdb(sql: str) -> None:
    assert compiled(sql) is None


@pytest.mark.parametrize(
    ("sql", "type_"),
    [
        ("i + i", INTEGER),
        ("i + b", BIGINT),
        ("i + 3000000000", BIGINT),
        ("d + i", ColumnType(Kind.DECIMAL, 13, 2)),
        ("d * 2", ColumnType(Kind.DECIMAL, 18, 2)),
        ("b * 1.5", ColumnType(Kind.DECIMAL, 21, 1)),
        ("d * 1e0", DOUBLE),
        ("COALESCE(i, 1.5)", ColumnType(Kind.DECIMAL, 11, 1)),
        ("NULLIF(i, b)", INTEGER),
        ("day + 1", ColumnType(Kind.DATE)),
        ("day - day", BIGINT),
        ("ROUND(d, 1)", ColumnType(Kind.DECIMAL, 12, 1)),
        ("CAST(s AS VARCHAR(3))", TEXT),
        ("i = NULL", BOOLEAN),
        ("NULL", None),
    ],
)
def test_types_are_inferred(sql: str, type_: ColumnType | None) -> None:
    found = compiled(sql)
    assert found is not None
    assert found.type == type_


@pytest.mark.parametrize(
    "sql",
    [
        "i * 1000000000",
        "b * b",
        "-(b * 8388607) - b - b - b",
        "d * 99999999999.99 * 99999.0",
        "CAST(b AS INTEGER)",
        "CAST(99.99 AS DECIMAL(3,1))",
        "ABS(CAST(-9223372036854775807 - 1 AS BIGINT)) + b",
    ],
)
def test_overflows_are_errors(sql: str) -> None:
    with pytest.raises(TypeMismatch, match=r"Overflow|out of range"):
        value(sql)
    with pytest.raises(TypeMismatch):
        evaluated(parse_one(sql, read="duckdb"), COLUMNS, [ROW])


def test_a_failing_cast_is_no_error_until_it_is_evaluated() -> None:
    assert value("CASE WHEN i = 7 THEN 1 ELSE CAST(3000000000 AS INTEGER) END") == 1


def test_parameters_may_be_positional_named_or_numbered() -> None:
    assert value("i BETWEEN ? AND ?", (1, 6)) is False
    assert value("i + :n", {"n": 1}) == 8
    node = parse_one("i = ?", read="duckdb")
    node.expression.meta["index"] = 1
    found = compile_expression(node, Names())
    assert found is not None
    assert found(ROW, (99, 7)) is True


def test_null_is_neither_true_nor_false() -> None:
    assert value("o AND i = 7") is None
    assert value("o AND i = 8") is False
    assert value("o OR i = 7") is True
    assert value("NOT o") is None
    assert value("i IN (1, NULL)") is None
    assert value("i NOT IN (7, NULL)") is False
    assert value("o BETWEEN NULL AND FALSE") is None
    assert value("i BETWEEN NULL AND 1") is False
    assert value("o IS DISTINCT FROM NULL") is False


def test_nan_equals_itself_and_is_greater_than_numbers() -> None:
    nan = math.nan
    assert repr(value("f * ?", (nan,))) == "nan"
    assert value("f * ? = f * ?", (nan, nan)) is True
    assert value("f * ? > f", (nan,)) is True
    assert value("f * ? IN (1e0, f * ?)", (nan, nan)) is True


def test_a_pattern_with_many_wildcards_is_matched_quickly() -> None:
    """A backtracking matcher would not finish on this pattern."""
    matches = matcher("%a" * 30 + "%b_", None)
    assert matches is not None
    assert not matches("a" * 20_000)


def test_typed_parameters_keep_their_type_in_duckdb() -> None:
    """As INTEGER, the product of 7 and the parameter would overflow."""
    node = parse_one("i * ? * 0.5 || ''", read="duckdb")
    assert evaluated(node, COLUMNS, [ROW], (3_000_000_000,), {0: BIGINT}) == ["10500000000.0"]


# --- order -----------------------------------------------------------------------------------


def term(position: int, descending: bool = False, nulls_first: bool = False) -> SortTerm:
    return SortTerm(lambda row, _: row[position], descending, nulls_first)


UNSORTED: list[Row] = [(1, "b"), (None, "a"), (2, None), (1, "a"), (2, "c"), (None, None)]


def test_nulls_come_last_in_both_directions() -> None:
    assert sort_rows(list(UNSORTED), (term(0), term(1, descending=True))) == [
        (1, "b"),
        (1, "a"),
        (2, "c"),
        (2, None),
        (None, "a"),
        (None, None),
    ]
    assert [row[0] for row in sort_rows(list(UNSORTED), (term(0, descending=True),))] == [
        2,
        2,
        1,
        1,
        None,
        None,
    ]


def test_sorting_is_stable() -> None:
    rows: list[Row] = [(1, i) for i in range(5)] + [(None, i) for i in range(5)]
    for descending in (False, True):
        assert sort_rows(list(rows), (term(0, descending),)) == rows
