"""CHECK and generated columns: what a schema may declare over a row, and what it says of rows."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from sqlglot import exp

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.query.expressions import compile_expression
from hornbeam_server.query.expressions.declared import (
    generated_columns,
    row_checks,
    with_generated,
)
from hornbeam_server.query.expressions.patterns import FITS, write_patterns
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import (
    CheckViolation,
    HornbeamError,
    SqlError,
    TypeMismatch,
    UnknownName,
    Unsupported,
)
from hornbeam_server.schema.model import Relation, Schema
from hornbeam_server.schema.types import Row
from tests.postgres.corpus import is_statement, recorded
from tests.postgres.differences import same_value
from tests.query.query_world import evaluated_all

COLUMNS = "a INT PRIMARY KEY, s TEXT, v VARCHAR(9), d DATE, n NUMERIC(9,2), b BOOLEAN"


class _NoNames:
    def resolve(self, column: exp.Column) -> Any:
        raise AssertionError(column)

    def parameter_type(self, name: int | str) -> None:
        return None


def relation(condition: str) -> Relation:
    return load_ddl(f"CREATE TABLE t ({COLUMNS}, CHECK ({condition}))").relation("t")


def row(a: int = 1, **values: object) -> Row:
    return (a, *(values.get(name) for name in ("s", "v", "d", "n", "b")))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("condition", "good", "bad"),
    [
        ("a > 0", row(1), row(0)),
        ("a BETWEEN 1 AND 3 AND t.a <> 2", row(3), row(2)),
        ("s IN ('x', 'y')", row(s="x"), row(s="z")),
        ("b", row(b=True), row(b=False)),
        ("b IS NOT NULL OR s IS NOT NULL", row(s=""), row()),
        ("length(s) >= 2 AND s LIKE 'a%'", row(s="ab"), row(s="a")),
        ("n * a < 10.5", row(2, n=5), row(3, n=5)),
        ("(v)::text = ANY (ARRAY[('M'::varchar)::text, ('F')::text])", row(v="M"), row(v="x")),
        ("NOT (s ILIKE 'x%')", row(s="a"), row(s="Xa")),
        ("CASE WHEN b THEN a > 5 ELSE a < 5 END", row(6, b=True), row(6, b=False)),
        ("coalesce(n, 0) >= 0", row(), row(n=-1)),
        ("(n > 1) IS TRUE", row(n=2), row()),
        ("position('@' IN s) > 1", row(s="a@b"), row(s="@b")),
        (r"s ~ '^\d{5}$'", row(s="12345"), row(s="12345\n")),
        (r"(s)::text ~* E'^[a-z]+@[a-z]+\\.org$'", row(s="A@b.Org"), row(s="a@b_org")),
        ("s !~ 'x|y' AND s !~* 'z'", row(s="X"), row(s="Z")),
        ("s ~ '^[[:digit:]]+$' OR s IS NULL", row(), row(s="")),
        ("s ~ similar_to_escape('(a|b)_'::text)", row(s="bx"), row(s="b")),
        (r"(NOT ((s)::text ~ '([\{,]:|:[,\}])'::text))", row(s="a:b"), row(s="{:")),
        ("s ~ '^(a+)+$'", row(s="aaa"), row(s="a" * 3000 + "b")),
        ("s SIMILAR TO '(a|b)%'", row(s="b\n"), row(s="cb")),
        ("s NOT SIMILAR TO 'a!%_' ESCAPE '!'", row(s="ab%"), row(s="a%b")),
    ],
)
def test_a_false_check_is_a_violation(condition: str, good: Row, bad: Row) -> None:
    (check,) = row_checks(relation(condition))
    check.require(good)
    with pytest.raises(CheckViolation) as caught:
        check.require(bad, 7)
    assert caught.value.details == {
        "relation": "t", "constraint": check.check.name, "key": [str(bad[0])], "row": 7,
    }  # fmt: skip
    assert f"t (a = {bad[0]})" in caught.value.message
    assert condition in caught.value.message
    assert caught.value.cure


@pytest.mark.parametrize("condition", ["n > 1", "s = 'x'", "n > 1 AND s = 'x'", "NULL", "NOT b"])
def test_a_check_that_is_null_is_met(condition: str) -> None:
    (check,) = row_checks(relation(condition))
    check.require(row())


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        ("a + 1", TypeMismatch, "not a condition, but a value of type INTEGER"),
        ("EXISTS (SELECT 1 FROM p)", Unsupported, "cannot have a subquery"),
        ("a IN (SELECT a FROM t)", Unsupported, "cannot have a subquery"),
        ("sum(a) > 1", Unsupported, "aggregate"),
        ("row_number() OVER () > 1", Unsupported, "window function"),
        ("d <= CURRENT_DATE", Unsupported, "current time"),
        ("now() > d", Unsupported, "current time"),
        ("a > ?", Unsupported, "parameter"),
        ("length(s) % 2", TypeMismatch, "not a condition, but a value of type BIGINT"),
        ("length(s) % 2 OR b", SqlError, "OR takes a condition, not BIGINT"),
        (r"s ~ '\w'", Unsupported, "A pattern here is constant, and has only"),
        ("s ~ v", Unsupported, "A pattern here is constant"),
        ("s SIMILAR TO 'a' ESCAPE v", Unsupported, "A pattern here is constant"),
        ("s ~ '('", TypeMismatch, "is no regular expression"),
        ("random() > 0.5", Unsupported, "only DuckDB"),
        ("zz > 1", UnknownName, "Column zz is unknown"),
        ("x.a > 1", UnknownName, "alias x is unknown"),
        ("s > 5", TypeMismatch, "not compared with TEXT"),
        ("a >", SqlError, "cannot be read"),
        ("a > 1, a > 2", SqlError, "CHECK"),
    ],
)
def test_other_expressions_are_refused(
    condition: str, error: type[HornbeamError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        row_checks(relation(condition))
    assert caught.value.message.startswith("CHECK t_")
    assert " of t" in caught.value.message
    assert "line 1" not in caught.value.message


def test_patterns_of_checks_match_as_in_postgresql() -> None:
    _, answers = recorded()
    compared, wrong = 0, []
    for case, wanted in answers.items():
        matches = "~" in case or "SIMILAR TO" in case
        if not matches or is_statement(case) or wanted.types != ("boolean",):
            continue
        try:
            tree = parse(f"SELECT {case}")
            write_patterns(tree)
            node = tree.expressions[0].unalias()
        except HornbeamError:
            continue
        compiled = compile_expression(node, _NoNames())
        if compiled is not None and macro(FITS) in node.sql().lower():
            compared += 1
            if not same_value("boolean", wanted.rows[0][0], compiled((), ())):
                wrong.append(case)
    assert not wrong
    assert compared > 40


DUMPED = (
    "((v)::text = ANY ((ARRAY['M'::character varying, 'F '::character varying])::text[]))",
    "((s)::text <> ALL ((ARRAY['a'::character varying, NULL])::text[]))",
    "(a <> ALL (ARRAY[1, 3]))",
    "((n >= (0)::numeric) AND (n <= 0.5::numeric) AND ((a)::numeric > n))",
    "(n = (a)::numeric)",
    "((s)::text = 'a '::bpchar)",
    "(char_length((s)::text) = character_length(v))",
    "(mod(a, 2) = 1)",
    "((s ~~ 'a%'::text) OR (v !~~ '%F'::text))",
    "(EXTRACT(year FROM d) >= (2000)::numeric)",
    "(d > '1999-12-31'::date)",
)
"""Conditions as pg_dump writes them."""
ROWS = [
    row(a, s=s, v=v, d=d, n=n)
    for a in (-3, 0, 1, 2)
    for s, v in ((None, None), ("a", "M"), ("a ", "F "), ("", "F"))
    for d, n in ((None, None), (dt.date(2000, 1, 1), Decimal("1.00")), (dt.date.min, Decimal(0)))
]


def test_conditions_of_a_dump_have_the_value_that_duckdb_gives_them() -> None:
    found = [relation(condition) for condition in DUMPED]
    checks = [check for each in found for check in row_checks(each)]
    catalogs = [Catalog(0, Schema((each,)), Forest(("t",))) for each in found]
    bound = [
        bind(f"SELECT {condition} FROM t", catalog).ast.expressions[0].unalias()
        for condition, catalog in zip(DUMPED, catalogs, strict=True)
    ]
    wanted = evaluated_all([(node, found[0].columns, ROWS) for node in bound])
    for check, values in zip(checks, wanted, strict=True):
        assert [check.expression(each) for each in ROWS] == values, check.check.sql
        assert {True, False} & {*values}


@pytest.mark.parametrize(
    ("type_", "expression", "wanted"),
    [
        ("INT", "a + 1", 6),
        ("INT", "n * 3", 7),
        ("NUMERIC(9,1)", "n * 3", Decimal("6.8")),
        ("TEXT", "s || 'x'", "qx"),
        ("TEXT", "a", "5"),
        ("VARCHAR(2)", "left(s || 'xyz', 2)", "qx"),
        ("TIMESTAMP", "d", dt.datetime(2024, 2, 29)),
        ("BOOLEAN", "a > 1 AND b", None),
        ("BIGINT", "length(s)", 1),
        ("DOUBLE", "a", 5.0),
        ("UUID", "NULL", None),
    ],
)
def test_generated_columns_have_the_cast_value(type_: str, expression: str, wanted: object) -> None:
    found = with_column(type_, expression)
    given = (*row(5, s="q", n=Decimal("2.25"), d=dt.date(2024, 2, 29)), None)
    value = with_generated(generated_columns(found), given)[-1]
    assert (type(value), value) == (type(wanted), wanted)


def with_column(type_: str, expression: str) -> Relation:
    column = f"g {type_} GENERATED ALWAYS AS ({expression}) STORED"
    return load_ddl(f"CREATE TABLE t ({COLUMNS}, {column})").relation("t")


@pytest.mark.parametrize(
    ("type_", "expression", "error", "message"),
    [
        ("INT", "s", TypeMismatch, "is INTEGER, but its expression has another type"),
        ("JSON", "s", TypeMismatch, "another type"),
        ("INT", "g + 1", Unsupported, "g is a generated column itself"),
        ("TIMESTAMPTZ", "now()", Unsupported, "current time"),
        ("DOUBLE", "random()", Unsupported, "only DuckDB"),
        ("INT", "(SELECT 1)", Unsupported, "subquery"),
        ("INT", "max(a)", Unsupported, "aggregate"),
        ("INT", "zz", UnknownName, "zz is unknown"),
    ],
)
def test_other_generated_columns_are_refused(
    type_: str, expression: str, error: type[HornbeamError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        generated_columns(with_column(type_, expression))
    assert caught.value.message.startswith("Generated column t.g")


def test_checks_are_evaluated_by_name_as_in_postgresql() -> None:
    declared = "CONSTRAINT b CHECK (a > 1), CONSTRAINT a CHECK (a > 2), CONSTRAINT c CHECK (a > 0)"
    found = load_ddl(f"CREATE TABLE t (a INT PRIMARY KEY, {declared})").relation("t")
    assert [check.check.name for check in row_checks(found)] == ["a", "b", "c"]
