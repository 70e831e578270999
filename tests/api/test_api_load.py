"""Bulk loads: CSV and Arrow, exact values, and errors in files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from hornbeam_server.api.rest.load_bodies import read_rows
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import InvalidRequest

ARROW = "application/vnd.apache.arrow.stream"


def load(shop, relation, content, media_type="text/csv", **headers):
    headers = {"Content-Type": media_type, **headers}
    return shop.client.post(f"/v1/load/{relation}", content=content, headers=headers)


def arrow(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_csv_keeps_values_and_distinguishes_null_from_empty(shop):
    text = (
        "k_id,k_decimal,k_text,k_at,k_flag\n"
        '1,1234567890123456789012345678.0123456789,"",2024-02-29T01:02:03.000004,true\n'
        '2,,,,\n3,-0.5,"a\nb",,f\n'
    )
    assert load(shop, "kinds", text).json()["rows"] == 3
    rows = shop.rows("SELECT k_id, k_decimal, k_text, k_at, k_flag FROM kinds ORDER BY k_id")
    assert rows == [
        [1, "1234567890123456789012345678.0123456789", "", "2024-02-29T01:02:03.000004", True],
        [2, None, None, None, None],
        [3, "-0.5000000000", "a\nb", None, False],
    ]


def test_arrow_is_exact(shop):
    values = {
        "k_id": pa.array([11, 12], pa.int64()),
        "k_decimal": pa.array([Decimal("0.1"), None], pa.decimal128(20, 10)),
        "k_bytes": pa.array([b"\0\xff", b""], pa.binary()),
        "k_date": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        "k_text": pa.array(["", "x"]),
    }
    assert load(shop, "kinds", arrow(pa.table(values)), ARROW).json()["rows"] == 2
    names = ", ".join(values)
    assert shop.rows(f"SELECT {names} FROM kinds WHERE k_id > 10 ORDER BY k_id") == [
        [11, "0.1000000000", "AP8=", "0001-01-01", ""],
        [12, None, "", "9999-12-31", "x"],
    ]
    none = pa.table(values).slice(0, 0)
    assert load(shop, "kinds", arrow(none), ARROW).json()["rows"] == 0


def test_a_load_runs_once_per_idempotency_key(shop):
    headers = {"Idempotency-Key": "load-1"}
    first = load(shop, "customer", "c_id,c_name\n500,a\n", **headers)
    again = load(shop, "customer", "c_id,c_name\n500,a\n", **headers)
    assert first.json() == again.json()


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        ("c_id,c_name\n600,a\nx,b\n", 422, "Row 2, column c_id"),
        ("c_id,c_name,c_balance\n600,a,1\n601,b,1e99\n", 422, "Row 2, column c_balance"),
        ("c_id,c_name\n600,a\n601\n", 422, "Row #3"),
        ("c_id,c_nome\n600,a\n", 422, "no column 'c_nome'"),
        ("c_id,c_id\n600,1\n", 422, "given twice"),
        ("", 422, "cannot be read"),
        ("c_id,c_name\n600,\n", 409, "must not be NULL"),
        ("c_id,c_name\n600,a\n600,b\n", 409, "customer"),
        (b"c_id,c_name\n600,\xff\n", 422, "cannot be read"),
        ('c_id,c_name\n600,"a\n', 422, "ends inside a quoted field"),
        ('c_id,c_name\n601,"b"\n600,"a""', 422, "ends inside a quoted field"),
        ('c_id,c_name\n601,5" b\n600,"', 422, "ends inside a quoted field"),
    ],
)
def test_bad_csv_is_refused(shop, content, status, words):
    response = load(shop, "customer", content)
    assert (response.status_code, words in response.json()["detail"]) == (status, True), (
        response.text
    )
    assert shop.rows("SELECT * FROM customer WHERE c_id = 600") == []


@pytest.mark.parametrize(
    ("field", "value"),
    [('"a"', "a"), ('"a""', None), ('"a"""', 'a"'), ('5" pipe', '5" pipe'), ('"\n"', "\n")],
)
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_csv_may_end_in_a_closed_quoted_field(field, value, end):
    relation = load_ddl("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)").relation("t")
    body = f"a,b\n1,{field}{end}".encode()
    if value is None:
        with pytest.raises(InvalidRequest, match="ends inside"):
            read_rows(body, "text/csv", relation, 10)
    else:
        assert read_rows(body, "text/csv", relation, 10) == (["a", "b"], [("1", value)])


def test_a_not_null_error_names_row_and_column(shop):
    problem = load(shop, "customer", "c_id,c_name\n600,a\n601,\n").json()
    assert (problem["code"], problem["column"], problem["row"]) == (
        "not-null-violation",
        "c_name",
        2,
    )
    one = shop.transact("INSERT INTO customer (c_id) VALUES (600)").json()
    assert (one["code"], "row" in one) == ("not-null-violation", False)


def test_a_foreign_key_error_names_the_row(shop):
    assert load(shop, "customer", "c_id,c_name\n610,a\n").is_success
    text = "o_total,o_id,o_c_id\n1,610,610\n1,611,\n1,612, 611\n1,613,611\n"
    problem = load(shop, "orders", text).json()
    assert (problem["code"], problem["row"]) == ("foreign-key-violation", 3)
    values = {"o_id": [1, 2], "o_c_id": [610, 611]}
    problem = load(shop, "orders", arrow(pa.table(values)), ARROW).json()
    assert (problem["code"], problem["row"]) == ("foreign-key-violation", 2)


@pytest.mark.parametrize("cut", [0, 1, 8, 100, 300])
def test_broken_arrow_is_refused(shop, cut):
    whole = arrow(pa.table({"c_id": [700, 701], "c_name": ["a", "b"]}))
    broken = whole[:cut] + b"\x7f" * 40 + whole[cut + 40 :]
    response = load(shop, "customer", broken, ARROW)
    assert response.status_code == 422, response.text


def test_wrong_loads_are_refused(shop):
    assert load(shop, "nowhere", "a\n1\n").status_code == 404
    assert load(shop, "customer", "{}", "application/json").status_code == 415
    assert load(shop, "customer", "x" * 400_000).status_code == 413


def test_a_compressed_bomb_is_refused(shop):
    table = pa.table({"c_id": pa.array([0] * 4_000_000, pa.int32())})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    response = load(shop, "customer", sink.getvalue().to_pybytes(), ARROW)
    assert response.status_code == 413, response.text


def test_a_very_long_name_of_a_column_is_refused():
    relation = load_ddl("CREATE TABLE t (a INTEGER PRIMARY KEY)").relation("t")
    with pytest.raises(InvalidRequest, match="cannot be read as text/csv"):
        read_rows(b"x" * 200_000 + b"\n1\n", "text/csv", relation, 10)
