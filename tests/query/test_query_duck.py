"""Types through Arrow and DuckDB and back, and statements that the connection refuses."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import parse_one

from hornbeam_server.query.dialect.duckdb_types import column_type, connect, from_record_batch
from hornbeam_server.schema.errors import SqlError, TypeMismatch, UnknownName, Unsupported
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.types import REAL, ColumnType, Kind, Row, Value
from hornbeam_server.storage.codec.arrow import arrow_schema, to_record_batch
from tests import strategies
from tests.query.query_world import evaluated

TYPES = (
    ColumnType(Kind.INTEGER),
    ColumnType(Kind.BIGINT),
    ColumnType(Kind.DECIMAL, 38, 10),
    ColumnType(Kind.DECIMAL, 9, 2),
    ColumnType(Kind.DOUBLE),
    ColumnType(Kind.BOOLEAN),
    ColumnType(Kind.TEXT),
    ColumnType(Kind.BYTES),
    ColumnType(Kind.DATE),
    ColumnType(Kind.TIME),
    ColumnType(Kind.TIMESTAMP),
    ColumnType(Kind.TIMESTAMPTZ),
    ColumnType(Kind.INTERVAL),
    ColumnType(Kind.UUID),
    ColumnType(Kind.JSON),
)
COLUMNS = tuple(Column(f"x{i}", type_) for i, type_ in enumerate(TYPES))
BIG = Decimal("9999999999999999999999999999.9999999999")

VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.INTEGER: st.integers(-(1 << 31), (1 << 31) - 1),
    Kind.BIGINT: st.integers(-(1 << 63), (1 << 63) - 1),
    Kind.DOUBLE: st.floats(allow_nan=False),
    Kind.BOOLEAN: st.booleans(),
    Kind.TEXT: st.text(),
    Kind.BYTES: st.binary(),
    Kind.DATE: st.dates(),
    Kind.TIME: st.times().map(lambda time: time.replace(fold=0)),
    Kind.TIMESTAMP: st.datetimes().map(lambda moment: moment.replace(fold=0)),
    Kind.TIMESTAMPTZ: st.datetimes().map(lambda moment: moment.replace(fold=0, tzinfo=dt.UTC)),
    Kind.INTERVAL: strategies.values(ColumnType(Kind.INTERVAL)),
    Kind.UUID: st.uuids(),
    Kind.JSON: st.sampled_from(['{"a": 1}', "[1,  2]", '"é"', "null"]),
}


def _of(type_: ColumnType) -> st.SearchStrategy[Any]:
    if type_.kind is Kind.DECIMAL:
        assert type_.scale is not None
        limit = 10 ** (type_.precision or 0) - 1
        scale = type_.scale
        return st.integers(-limit, limit).map(lambda i: Decimal((i < 0, _digits(i), -scale)))
    return VALUES[type_.kind]


def _digits(number: int) -> tuple[int, ...]:
    return tuple(int(digit) for digit in str(abs(number)))


rows_of_all_types = st.lists(st.tuples(*(st.none() | _of(type_) for type_ in TYPES)), max_size=20)


def _same(left: list[Row], right: list[Row]) -> bool:
    return left == right and repr(left) == repr(right)


@given(rows=rows_of_all_types)
def test_rows_survive_arrow(rows: list[Row]) -> None:
    assert _same(from_record_batch(to_record_batch(COLUMNS, rows)), rows)


CONNECTION = connect()


@given(rows=rows_of_all_types)
def test_rows_survive_duckdb(rows: list[Row]) -> None:
    with CONNECTION.cursor() as cursor:
        cursor.register("t", to_record_batch(COLUMNS, rows))
        relation = cursor.sql("SELECT * FROM t")
        types = [column_type(type_) for type_ in relation.types]
        batches = relation.to_arrow_table().to_batches()
    assert types == list(TYPES)
    assert _same([row for batch in batches for row in from_record_batch(batch, types)], rows)


def test_arrow_types_map_back() -> None:
    assert [column_type(field.type) for field in arrow_schema(COLUMNS)] == list(TYPES)


@pytest.mark.parametrize(
    ("sql", "type_", "value"),
    [
        ("1::TINYINT", ColumnType(Kind.INTEGER), 1),
        ("1::UINTEGER", ColumnType(Kind.BIGINT), 1),
        ("18446744073709551615::UBIGINT", ColumnType(Kind.DECIMAL, 20, 0), 2**64 - 1),
        ("sum(i)", ColumnType(Kind.DECIMAL, 38, 0), Decimal(1)),
        ("1.5::FLOAT", REAL, 1.5),
        ("NULL", ColumnType(Kind.TEXT), None),
        ("'a'::ENUM('a', 'b')", ColumnType(Kind.TEXT), "a"),
        ("TIMESTAMP_S '2020-01-01'", ColumnType(Kind.TIMESTAMP), dt.datetime(2020, 1, 1)),
    ],
)
def test_types_that_only_duckdb_has_are_converted(sql: str, type_: ColumnType, value: Any) -> None:
    relation = CONNECTION.sql(f"SELECT {sql} AS x FROM (SELECT 1 AS i)")
    assert column_type(relation.types[0]) == type_
    (batch,) = relation.to_arrow_table().to_batches()
    assert from_record_batch(batch) == [(value,)]


@pytest.mark.parametrize("sql", ["[[1, 2]]", "{'a': 1}"])
def test_types_without_a_python_value_are_refused(sql: str) -> None:
    relation = CONNECTION.sql(f"SELECT {sql}")
    with pytest.raises(Unsupported, match="CAST"):
        column_type(relation.types[0])
    with pytest.raises(Unsupported):
        from_record_batch(relation.to_arrow_table().to_batches()[0])


@pytest.mark.parametrize(
    "sql", ["DATE '12000-01-01'", "TIMESTAMP 'infinity'", "TIMESTAMPTZ '12000-01-01 00:00:00+00'"]
)
def test_timestamps_beyond_python_are_refused(sql: str) -> None:
    (batch,) = CONNECTION.sql(f"SELECT {sql}").to_arrow_table().to_batches()
    with pytest.raises(TypeMismatch, match="years 1 to 9999"):
        from_record_batch(batch)


def test_integers_beyond_signed_128_bits_are_refused() -> None:
    """Arrow would return them as signed integers: 2**127 as -2**127."""
    greatest = CONNECTION.sql("SELECT $x", params={"x": 2**127 - 1})
    assert column_type(greatest.types[0]).kind is Kind.DECIMAL
    assert from_record_batch(greatest.to_arrow_table().to_batches()[0]) == [(2**127 - 1,)]
    for number in (2**127, 2**128 - 1):
        with pytest.raises(Unsupported, match="UHUGEINT"):
            column_type(CONNECTION.sql("SELECT $x", params={"x": number}).types[0])
    with pytest.raises(Unsupported, match="UHUGEINT"):
        evaluated(parse_one("?", read="duckdb"), PEOPLE, [(1, "a")], [2**127])


def test_a_batch_without_columns_keeps_its_rows() -> None:
    assert from_record_batch(pa.RecordBatch.from_arrays([], names=[])) == []


secret = pa.table({"x": [1]})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/hostname')",
        "SELECT * FROM 'data.parquet'",
        "COPY (SELECT 1) TO '/dev/null'",
        "ATTACH '/dev/null' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET threads = 9",
        "SET TimeZone = 'Asia/Tokyo'",
        "SELECT * FROM secret",
    ],
)
def test_the_connection_has_no_external_access(sql: str) -> None:
    with connect() as connection, pytest.raises(duckdb.Error):
        connection.sql(sql).fetchall()


def test_a_large_sort_spills(tmp_path: Any) -> None:
    with connect(memory_limit_mb=32, spill_folder=tmp_path / "spill") as connection:
        count = connection.execute(
            "SELECT count(*) FROM (SELECT hash(i) AS h, repeat('x', 100) AS s"
            " FROM range(600000) t(i)"
            " ORDER BY h OFFSET 1)"
        ).fetchone()
    assert count == (599_999,)


# --- evaluation ------------------------------------------------------------------------------

PEOPLE = (Column("id", ColumnType(Kind.INTEGER)), Column("name", ColumnType(Kind.TEXT)))


def test_evaluate_keeps_the_order_of_rows() -> None:
    rows: list[Row] = [(i, f"n{i}") for i in range(5000)]
    node = parse_one("repeat(name, 1) || ? || md5('x')[1:0]", read="duckdb")
    assert evaluated(node, PEOPLE, rows, ("!",)) == [f"n{i}!" for i in range(5000)]


def test_evaluate_finds_qualified_names_and_coerces_parameters() -> None:
    columns = (*PEOPLE, *(Column(f"excluded.{c.name}", c.type) for c in PEOPLE))
    node = parse_one("people.id * 100 + excluded.id + :more", read="duckdb")
    rows: list[Row] = [(1, "a", 2, "b")]
    types = {"more": ColumnType(Kind.INTEGER)}
    assert evaluated(node, columns, rows, {"more": "7"}, types) == [109]
    assert evaluated(node, columns, [], {"more": "7"}) == []


def test_evaluate_compares_decimals_exactly_or_not_at_all() -> None:
    columns = (Column("price", ColumnType(Kind.DECIMAL, 10, 2)),)
    node = parse_one("price = ? AND md5('x') <> ''", read="duckdb")
    types = {0: columns[0].type}

    def equal(value: Any) -> Value:
        (found,) = evaluated(node, columns, [(Decimal("1.00"),)], [value], types)
        return found

    assert equal(Decimal("1.00")) is True
    assert equal(Decimal("1.004")) is False
    assert equal(Decimal("1." + 29 * "0" + "1")) is False
    assert equal(None) is None
    with pytest.raises(TypeMismatch, match="too many digits"):
        equal(Decimal("1." + 30 * "0" + "1"))


def test_evaluate_returns_python_values() -> None:
    node = parse_one("md5(name)::UUID", read="duckdb")
    assert evaluated(node, PEOPLE, [(1, "a"), (2, None)]) == [
        uuid.UUID("0cc175b9c0f1b6a831c399e269772661"),
        None,
    ]
    (value,) = evaluated(parse_one("sqrt(-0.0)", read="duckdb"), PEOPLE, [(1, "a")])
    assert math.copysign(1, value) in (-1.0, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("id + 2147483647", TypeMismatch),
        ("name::INTEGER", TypeMismatch),
        ("no_such_function(id)", SqlError),
        ("other", UnknownName),
        ("id + ?", SqlError),
        ("unlist([1, 2])", SqlError),
        ("unlist([])", SqlError),
    ],
)
def test_evaluate_reports_errors(sql: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        evaluated(parse_one(sql, read="duckdb"), PEOPLE, [(1, "a")])
