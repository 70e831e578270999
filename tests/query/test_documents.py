"""JSONB in our own loops and in DuckDB: the same values and the same errors."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.dialect.grammar import read_expression
from hornbeam_server.query.dialect.jsonb import FUNCTIONS, JSONB, concatenated_type, function_of
from hornbeam_server.query.expressions import compile_expression
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import SqlError, TypeMismatch, Unsupported
from hornbeam_server.schema.types import JSONB as JSONB_TYPE
from hornbeam_server.schema.types import ColumnType
from hornbeam_server.storage.codec.arrow import to_record_batch
from tests.depth import depth
from tests.duckdb_oracle import connect

CATALOG = Catalog(
    0,
    load_ddl("CREATE TABLE t (k INT PRIMARY KEY, j JSONB, m JSONB, s TEXT, n INT, d DECIMAL(5,2))"),
    Forest(("t",)),
)
RELATION = CATALOG.schema.relation("t")
KEYS = st.sampled_from(["a", "b", "0", "1", "x y"])
SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(-2, 2).map(lambda x: round(x, 2))
)
DOCUMENTS = st.recursive(
    SCALARS | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
EXPRESSIONS = (
    "j -> 'a'", "j -> 0", "j -> n", "j -> s", "j ->> 'a'", "j ->> -1", "j ->> n", "j -> 'a' -> 'b'",
    "j #> '{a,b}'", "j #> '{}'", "j #>> '{0,a}'", "j #>> ARRAY['a', '0']", "j @> m", "j <@ m",
    "j @> '{\"a\": 1}'", "'[1]' <@ j", "j ? 'a'", "j ? s", "j ?| '{a,b}'", "j ?& ARRAY['a', 'b']",
    "j || m", "j || '[1]'", "j - 'a'", "j - s", "j - n", "j - 0", "j - ARRAY['a', '0']",
    "j #- '{a,b}'", "j #- '{0}'", "j #- '{a,-1}'", "jsonb_set(j, '{a,b}', m)",
    "jsonb_set(j, '{1}', '\"x\"', false)",
    "jsonb_insert(j, '{a,0}', m)", "jsonb_insert(j, '{0}', m, true)", "jsonb_strip_nulls(j)",
    "jsonb_typeof(j)", "jsonb_array_length(j)", "jsonb_pretty(j)", "to_jsonb(d)", "to_jsonb(s)",
    "to_jsonb(n > 0)", "jsonb_build_object('k', k, s, j, 'd', d)",
    "jsonb_build_array(s, n, d, j, NULL)",
    "jsonb_extract_path(j, 'a', '0')", "jsonb_extract_path_text(j, 'b')", "j = m", "j <> m",
    "j = '{\"b\": 1, \"a\": 2.0}'", "j IN ('1', 'null')", "j IS DISTINCT FROM m", "CAST(j AS TEXT)",
    "CAST(j AS INTEGER)", "CAST(j -> 'a' AS BIGINT)", "CAST(j AS BOOLEAN)", "CAST(s AS JSONB)",
    "coalesce(j, m)", "CASE WHEN j ? 'a' THEN j -> 'a' ELSE m END",
    "j -> '@' ? 'a'",
)  # fmt: skip


class _Scope:
    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        position = RELATION.positions[column.name]
        return position, RELATION.columns[position].type

    def parameter_type(self, _: int | str) -> None:
        return None


@pytest.fixture(scope="module")
def database() -> Any:
    with connect(threads=1) as found:
        yield found


BOUND = {sql: bind(f"SELECT {sql} AS value FROM t", CATALOG) for sql in EXPRESSIONS}
COMPILED = {
    sql: compile_expression(bound.ast.expressions[0].this, _Scope()) for sql, bound in BOUND.items()
}
WRITTEN = {sql: duckdb_sql(bound.ast) for sql, bound in BOUND.items()}


def test_our_own_loops_evaluate_them() -> None:
    assert [sql for sql, found in COMPILED.items() if found is None] == []


def test_the_expressions_call_nearly_all_functions() -> None:
    marks = {node.meta.get(JSONB) for bound in BOUND.values() for node in bound.ast.walk()}
    several = {name for name, function in FUNCTIONS.items() if function.several}
    of_rows = {"object_of_pairs", "json_array", "texts", "object_of_texts", "object_of_two"}
    rest = {"of_text_or_null", "number", "whole"}  # TRY_CAST, and within casts
    assert set(FUNCTIONS) - marks <= several | of_rows | rest


@settings(max_examples=depth(20, long=60), deadline=None)
@given(st.lists(st.tuples(DOCUMENTS, DOCUMENTS, KEYS, st.integers(-2, 2)), min_size=1, max_size=4))
def test_our_loops_and_duckdb_agree(
    database: duckdb.DuckDBPyConnection, given_: list[tuple[Any, Any, str, int]]
) -> None:
    types = [column.type for column in RELATION.columns]
    rows = [
        tuple(
            type_.coerce(value)
            for type_, value in zip(
                types,
                (i, json.dumps(j), None if n == 2 else json.dumps(m), s, n, f"{n}.5"),
                strict=True,
            )
        )
        for i, (j, m, s, n) in enumerate(given_)
    ]
    for row in rows:
        database.register("t", to_record_batch(RELATION.columns, [row]))
        for sql, compiled in COMPILED.items():
            assert compiled is not None
            try:
                ours = compiled(row)
            except TypeMismatch:
                with pytest.raises(duckdb.Error):
                    database.sql(WRITTEN[sql]).fetchall()
            else:
                assert database.sql(WRITTEN[sql]).fetchall() == [(ours,)], sql


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT j < m FROM t", "not ordered"),
        ("SELECT k FROM t ORDER BY j", "not ordered"),
        ("SELECT j AS x FROM t ORDER BY x", "not ordered"),
        ("SELECT j FROM t ORDER BY 1", "not ordered"),
        ("SELECT max(j) FROM t", "not ordered"),
        ("SELECT greatest(j, m) FROM t", "not ordered"),
        ("SELECT jsonb_agg(k ORDER BY j) FROM t", "not ordered"),
        ("SELECT s ? 'a' FROM t", "for JSONB"),
        ("SELECT n::JSONB FROM t", "to_jsonb"),
        ("SELECT jsonb_each(j) FROM t", "FROM jsonb_each"),
        ("SELECT '{}'::JSON #> ?", "constant array"),
        ("SELECT '{}'::JSON #>> '{a,-1}'", "'-1'"),
    ],
)
def test_other_uses_are_refused_with_a_cure(sql: str, reason: str) -> None:
    with pytest.raises(Unsupported) as raised:
        bind(sql, CATALOG)
    assert reason in f"{raised.value.message} {raised.value.cure}"
    assert raised.value.cure


@pytest.mark.parametrize("sql", ["jsonb_set(j, '{a}')", "jsonb_typeof(j, j)", "j #> 'a'"])
def test_wrong_arguments_are_reported(sql: str) -> None:
    with pytest.raises(SqlError) as raised:
        duckdb_sql(bind(f"SELECT {sql} FROM t", CATALOG).ast)
    assert raised.value.cure


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT j ? ? FROM t", 1),
        ("SELECT j ?| ? FROM t WHERE n = ? AND j ? 'a'", 2),
        ("SELECT j ? 'a' OR k IN (?, ?) FROM t LIMIT ?", 3),
        ("SELECT ? FROM t WHERE (j -> 'a') ? s AND n BETWEEN ? AND ?", 3),
    ],
)
def test_a_question_mark_between_operands_is_an_operator(sql: str, parameters: int) -> None:
    assert len(bind(sql, CATALOG).parameter_types) == parameters


@pytest.mark.parametrize("chain", ["s || ", "j || ", "j -> 'a' -> ", "CAST(j || j AS JSONB) || "])
def test_long_chains_are_bound_in_time_that_grows_little(chain: str) -> None:
    """The type of each operand is asked for once."""
    asked = 0

    def type_of(node: exp.Expr) -> ColumnType | None:
        nonlocal asked
        asked += 1
        if isinstance(node, exp.DPipe):
            return concatenated_type(node, type_of)
        name = function_of(node, type_of)
        return JSONB_TYPE if name is not None or node.name == "j" else None

    tree = read_expression(chain * 40 + ("'a'" if "->" in chain else "s"))
    for node in list(tree.walk()):
        function_of(node, type_of)
    assert asked < 40 * 40 * 10
