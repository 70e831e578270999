"""Types and text literals mean the same as in PostgreSQL, over every interface for writes."""

import base64
import itertools

import pyarrow as pa
import pytest

from tests.api.api_world import world

DDL = """
CREATE TABLE v (k INTEGER PRIMARY KEY, i INTEGER, n DECIMAL(12,2), f DOUBLE, b BOOLEAN, d DATE,
  t TIMESTAMP, z TIMESTAMP WITH TIME ZONE, c TIME, m TIMESTAMP(3), u UUID, x TEXT, y BYTEA);
CREATE TABLE w (k INTEGER PRIMARY KEY, s SMALLINT, n NUMERIC, big BIGINT, r REAL,
  y BYTEA DEFAULT '\\x00ff');
CREATE TABLE by_bytes (y BYTEA PRIMARY KEY, n INTEGER);
CREATE INDEX v_y ON v (y);
"""
NAMES = {
    "i": "INTEGER",
    "n": "DECIMAL(12,2)",
    "f": "DOUBLE PRECISION",
    "b": "BOOLEAN",
    "d": "DATE",
    "t": "TIMESTAMP",
    "z": "TIMESTAMPTZ",
    "c": "TIME",
    "m": "TIMESTAMP(3)",
    "u": "UUID",
}
UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
NOON = "2024-01-05T12:00:00"
GOOD = [
    ("i", "12", 12), ("i", " 12\t", 12), ("i", "+5", 5), ("i", "-0", 0), ("i", "007", 7),
    ("n", "1e1", "10.00"), ("n", ".5", "0.50"), ("n", "5.", "5.00"), ("n", "+1.005 ", "1.01"),
    ("n", "-1.005", "-1.01"),
    ("f", "1e3", 1000.0), ("f", ".5", 0.5), ("f", " 5. ", 5.0), ("f", "1E-2", 0.01),
    ("b", "t", True), ("b", "YES", True), ("b", "on", True), ("b", "1", True), ("b", " tr ", True),
    ("b", "f", False), ("b", "n", False), ("b", "of", False), ("b", "0", False),
    ("d", "2024-01-05", "2024-01-05"), ("d", "2024-1-5", "2024-01-05"),
    ("d", "20240105", "2024-01-05"), ("d", "2024/01/05", "2024-01-05"),
    ("d", " 2024-01-05 00:00", "2024-01-05"),
    ("t", "2024-01-05 12:00", NOON), ("t", "2024-1-5T12:00:00.000000", NOON),
    ("t", "2024-01-04 24:00", "2024-01-05T00:00:00"), ("t", "20240105", "2024-01-05T00:00:00"),
    ("z", "2024-01-05 14:00+02", NOON + "+00:00"), ("z", "2024-01-05 12:00", NOON + "+00:00"),
    ("z", "2024-01-05 12:00:00Z", NOON + "+00:00"), ("z", "2024-01-05 09:30-0230", NOON + "+00:00"),
    ("d", "epoch", "1970-01-01"), ("t", " EPOCH ", "1970-01-01T00:00:00"),
    ("z", "Epoch", "1970-01-01T00:00:00+00:00"),
    ("c", "12:00", "12:00:00"), ("c", " 1:02:03.5 ", "01:02:03.500000"),
    ("m", "2024-01-05 12:00:00.1235", NOON + ".124000"), ("m", "2024-01-05", "2024-01-05T00:00:00"),
    ("u", UUID, UUID), ("u", UUID.upper(), UUID), ("u", "{" + UUID + "}", UUID),
    ("u", UUID.replace("-", ""), UUID),
]  # fmt: skip
BAD = [
    ("i", "1_000"), ("i", "0x10"), ("i", "1e3"), ("i", "1.0"), ("i", "5."), ("i", "12abc"),
    ("i", "1 2"), ("i", "nan"), ("i", "inf"), ("i", "١"), ("i", "+ 5"), ("i", "--5"),
    ("i", "2147483648"), ("i", "true"),
    ("n", "1_000"), ("n", "0x10"), ("n", "nan"), ("n", "Infinity"), ("n", "1,5"), ("n", "."),
    ("n", "1e"), ("n", "1e10"), ("n", "١"),
    ("f", "1_0.5"), ("f", "0x1p3"), ("f", "1e400"), ("f", "infinite"), ("f", "1d"), ("f", "1e 3"),
    ("b", "2"), ("b", "o"), ("b", "truth"), ("b", "ja"), ("b", "1.0"),
    ("d", "2024-02-30"), ("d", "05.01.2024"), ("d", "2024-W05-1"), ("d", "today"),
    ("d", "2024-01-05 12:00"), ("d", "infinity"), ("d", "24-01-05"), ("d", "2024-01-05x"),
    ("t", "2024-01-05 12:00+02"), ("t", "2024-01-05 25:00"), ("t", "2024-01-05 12:60"),
    ("t", "now"), ("t", "2024-01-05 12:00:00.1234567"), ("t", "2024-01-05 12"),
    ("c", "24:00"), ("c", "12"), ("c", "12:60"), ("c", "12:00 PM"), ("c", "12:00+02"),
    ("z", "2024-01-05 12:00 Europe/Berlin"), ("z", "2024-01-05 12:00+99"), ("z", "epochs"),
    ("u", " " + UUID), ("u", UUID[:-1]), ("u", "urn:uuid:" + UUID), ("u", "{" + UUID),
]  # fmt: skip
WHOLE_NUMBERS = {("i", "1.0"): [1], ("i", "5."): [5]}
"""Refused as in PostgreSQL, but files have them: programs write integers with NULLs as `1.0`."""
ROUNDED = {("n", "+1.005"), ("n", "-1.005"), ("m", "2024-01-05 12:00:00.1235")}
"""What an assignment rounds. A comparison does not."""
KEYS = itertools.count(1)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with world(tmp_path_factory.mktemp("types")) as served:
        assert served.apply(ddl=DDL, workload="", roots=None).status_code == 200
        yield served


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def found(shop, column, key):
    rows = shop.rows(f"SELECT {column} FROM v WHERE k = ?", key)
    return [str(value).replace(" ", "T") if column in "tz" else value for (value,) in rows]


def by_literal(shop, column, text):
    key = next(KEYS)
    shop.transact(f"INSERT INTO v (k, {column}) VALUES ({key}, {quoted(text)})")
    return found(shop, column, key)


def by_update(shop, column, text):
    key = next(KEYS)
    assert shop.transact("INSERT INTO v (k, x) VALUES (?, 'u')", key).is_success
    done = shop.transact(f"UPDATE v SET {column} = {quoted(text)} WHERE k = {key}")
    return found(shop, column, key) if done.is_success else []


def by_cast(shop, column, text):
    key = next(KEYS)
    sql = f"INSERT INTO v (k, {column}) VALUES ({key}, CAST({quoted(text)} AS {NAMES[column]}))"
    shop.transact(sql)
    return found(shop, column, key)


def by_cast_of_a_column(shop, column, text):
    key = next(KEYS)
    assert shop.transact("INSERT INTO v (k, x) VALUES (?, ?)", key, text).is_success
    done = shop.transact(f"UPDATE v SET {column} = x::{NAMES[column]} WHERE k = ?", key)
    return found(shop, column, key) if done.is_success else []


def by_query(shop, column, text):
    key, copy = next(KEYS), next(KEYS)
    assert shop.transact("INSERT INTO v (k, x) VALUES (?, ?)", key, text).is_success
    shop.transact(
        f"INSERT INTO v (k, {column}) SELECT {copy}, substr(x, 1)::{NAMES[column]} FROM v"
        f" WHERE k = {key} AND md5(x) <> ''"
    )
    return found(shop, column, copy)


def by_parameter(shop, column, text):
    key = next(KEYS)
    shop.transact(f"INSERT INTO v (k, {column}) VALUES (?, ?)", key, text)
    return found(shop, column, key)


def by_parameter_in_a_cast(shop, column, text):
    key = next(KEYS)
    sql = f"INSERT INTO v (k, {column}) VALUES (?, CAST(? AS {NAMES[column]}))"
    shop.transact(sql, key, text)
    return found(shop, column, key)


def by_csv(shop, column, text):
    key = next(KEYS)
    field = '"' + text.replace('"', '""') + '"'
    headers = {"Content-Type": "text/csv"}
    body = f"k,{column}\n{key},{field}\n".encode()
    shop.client.post("/v1/load/v", content=body, headers=headers)
    return found(shop, column, key)


def by_arrow(shop, column, text):
    """Load the text as an Arrow column, as the client does with lines of JSON."""
    key = next(KEYS)
    table = pa.table({"k": [key], column: [text]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    shop.client.post("/v1/load/v", content=sink.getvalue().to_pybytes(), headers=headers)
    return found(shop, column, key)


WAYS = [
    by_literal, by_update, by_cast, by_cast_of_a_column, by_query, by_parameter,
    by_parameter_in_a_cast, by_csv, by_arrow,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_text_is_converted_alike_by_every_interface(shop, way):
    read = {(column, text): way(shop, column, text) for column, text, _ in GOOD}
    assert read == {(column, text): [value] for column, text, value in GOOD}
    refused = {(column, text): way(shop, column, text) for column, text in BAD}
    taken = {case: values for case, values in refused.items() if values not in ([], [None])}
    assert taken == (WHOLE_NUMBERS if way in (by_csv, by_arrow) else {})


def test_text_compared_with_a_column_is_converted_alike(shop):
    for column, text, value in GOOD:
        key = next(KEYS)
        assert shop.transact(f"INSERT INTO v (k, {column}) VALUES (?, ?)", key, value).is_success
        if (column, text.strip()) in ROUNDED:
            continue
        for condition in (f"{column} = {quoted(text)}", f"{column} IN ({quoted(text)})"):
            sql = f"SELECT count(*) FROM v WHERE k = {key} AND {condition}"
            assert shop.rows(sql) == [[1]], condition
            done = shop.transact(f"UPDATE v SET x = 'm' WHERE k = {key} AND {condition}")
            assert done.json()["statements"][0]["affected"] == 1, condition
    for column, text in BAD:
        if (column, text) in {("i", "2147483648"), ("n", "1e10")}:
            continue  # valid numbers that equal no value
        status = 200 if (column, text) in COMPARED else 422
        for sql in (
            f"SELECT k FROM v WHERE {column} = {quoted(text)}",
            f"SELECT k FROM v WHERE k > 0 AND {column} BETWEEN {quoted(text)} AND {quoted(text)}",
        ):
            assert shop.post("/v1/query", {"sql": sql}).status_code == status, sql


COMPARED = {
    *(("n", "nan"), ("n", "Infinity"), ("d", "2024-01-05 12:00"), ("d", "infinity")),
    *(("t", "2024-01-05 12:00+02"), ("t", "2024-01-05 12:00:00.1234567")),
}
"""Texts that are refused as values but allowed in comparisons (decision 44)."""


BYTES = [
    (r"'\xdeadbeef'", b"\xde\xad\xbe\xef"),
    (r"'\x'", b""),
    (r"'\xDE ad'", b"\xde\xad"),
    (r"'abcd'", b"abcd"),
    (r"'ä'", "ä".encode()),
    (r"'a\\b'", b"a\\b"),
    (r"'\000\377x'", b"\x00\xffx"),
    (r"E'\\xdead'", b"\xde\xad"),
    (r"'\xdead'::bytea", b"\xde\xad"),
    (r"CAST('abcd' AS BYTEA)", b"abcd"),
    (r"decode('dead', 'hex')", b"\xde\xad"),
    (r"decode('3q0=', 'base64')", b"\xde\xad"),
]


@pytest.mark.parametrize(("sql", "value"), BYTES)
def test_bytes_literals_are_those_of_postgresql(shop, sql, value):
    key, other, third = next(KEYS), next(KEYS), next(KEYS)
    wire = base64.b64encode(value).decode()
    assert shop.transact(f"INSERT INTO v (k, y) VALUES ({key}, {sql})").is_success
    assert shop.transact(f"INSERT INTO v (k, y) SELECT {other}, {sql}").is_success
    assert shop.transact("INSERT INTO v (k) VALUES (?)", third).is_success
    assert shop.transact(f"UPDATE v SET y = {sql} WHERE k = ?", third).is_success
    assert shop.rows("SELECT y FROM v WHERE k IN (?, ?, ?)", key, other, third) == [[wire]] * 3
    assert [key] in shop.rows(f"SELECT k FROM v WHERE y = {sql}")
    assert [key] in shop.rows(f"SELECT k FROM v WHERE y IN ({sql}, {sql})")
    assert [key] in shop.rows("SELECT k FROM v WHERE y = ?", wire)
    assert [key] in shop.rows(f"SELECT k FROM v WHERE y = {sql} AND md5(x) IS NULL")
    shop.transact("DELETE FROM by_bytes WHERE n >= 0")
    assert shop.transact(f"INSERT INTO by_bytes VALUES ({sql}, 1)").is_success
    assert shop.rows(f"SELECT n FROM by_bytes WHERE y = {sql}") == [[1]]
    done = shop.transact(f"UPDATE by_bytes SET n = 2 WHERE y = {sql}")
    assert done.json()["statements"][0]["affected"] == 1
    done = shop.transact(f"DELETE FROM by_bytes WHERE y = {sql}")
    assert done.json()["statements"][0]["affected"] == 1


def test_bytes_as_text_are_hexadecimal(shop):
    key = next(KEYS)
    assert shop.transact(r"INSERT INTO v (k, y) VALUES (?, '\xdead')", key).is_success
    sql = "SELECT y::text, encode(y, 'hex'), encode(y, 'base64') FROM v WHERE k = ?"
    assert shop.rows(sql, key) == [[r"\xdead", "dead", "3q0="]]


@pytest.mark.parametrize("sql", [r"'\xd'", r"'\xzz'", r"'a\b'", r"'\9'", r"'\xDE\xAD'"])
def test_invalid_text_for_bytes_is_refused(shop, sql):
    for statement in (
        f"INSERT INTO v (k, y) VALUES (0, {sql})",
        f"INSERT INTO v (k, y) VALUES (0, {sql}::bytea)",
        f"DELETE FROM v WHERE y = {sql}",
    ):
        refused = shop.transact(statement)
        assert refused.status_code == 422, statement
        assert "backslash" in refused.text or "hexadecimal" in refused.text


def test_text_is_not_assigned_to_bytes(shop):
    assert shop.transact("INSERT INTO v (k, x) VALUES (?, 'm')", next(KEYS)).is_success
    for value in ("x || 'aGk='", "upper(x)"):
        refused = shop.transact(f"UPDATE v SET x = 'q', y = {value} WHERE k > 0 AND x IS NOT NULL")
        assert refused.status_code == 422
        assert "decode" in refused.json()["cure"]
    refused = shop.transact("INSERT INTO v (k, y) SELECT -1, x || 'aGk=' FROM v WHERE x = 'm'")
    assert refused.status_code == 422


def test_a_default_of_bytes_is_stored(shop):
    key = next(KEYS)
    assert shop.transact("INSERT INTO w (k) VALUES (?)", key).is_success
    assert shop.rows("SELECT y FROM w WHERE k = ?", key) == [["AP8="]]


def test_numeric_keeps_all_digits_or_refuses(shop):
    key = next(KEYS)
    assert shop.transact("INSERT INTO w (k, n) VALUES (?, 0.00012345)", key).is_success
    assert shop.rows("SELECT n = 0.00012345 FROM w WHERE k = ?", key) == [[True]]
    for lost in ("0.0000000001", "'0.0000000001'", "1.00000000005", "1e-10"):
        refused = shop.transact(f"INSERT INTO w (k, n) VALUES (-1, {lost})")
        assert refused.status_code == 422, lost
        assert "NUMERIC" in refused.text
    assert shop.transact("INSERT INTO w (k, n) VALUES (-1, ?)", "0.0000000001").status_code == 422
    kept = shop.rows(
        "SELECT 1.0000001::numeric::text, CAST('1.10' AS DECIMAL)::text, (n * n)::text,"
        " n::numeric::text, (-0.5)::numeric::text, round(1.005::float8::numeric, 2)::text,"
        " (1.0::float8 / 3)::numeric::text, k::numeric::text"
        " FROM w WHERE k = ?",
        key,
    )
    wanted = "1.0000001 1.10 0.000000015239902500 0.000123450 -0.5 1.01 0.333333333333333000"
    assert kept == [[*wanted.split(), str(key)]]


def test_a_parameter_cast_to_numeric_keeps_its_digits(shop):
    for value in ("1.0000001", 1.0000001, {"type": "DECIMAL", "value": "1.0000001"}):
        assert shop.rows("SELECT ?::numeric = 1.0000001", value) == [[True]]
    assert shop.post("/v1/query", {"sql": "SELECT ?::numeric", "parameters": ["1e-10"]}).is_error


def test_smallint_values_are_limited_to_16_bits(shop):
    key = next(KEYS)
    assert shop.transact("INSERT INTO w (k, s) VALUES (?, 32767)", key).is_success
    for statement in (
        "INSERT INTO w (k, s) VALUES (-1, 300000)",
        f"UPDATE w SET s = s + 1 WHERE k = {key}",
        f"UPDATE w SET s = '300000' WHERE k = {key}",
    ):
        refused = shop.transact(statement)
        assert refused.status_code == 422
        assert "SMALLINT" in refused.text
    assert shop.rows("SELECT count(*) FROM w WHERE s < ?", 300000) == [[1]]
    assert shop.rows("SELECT count(*) FROM w WHERE s < 300000") == [[1]]


def test_lengths_in_casts_truncate(shop):
    sql = "SELECT 'abcd'::varchar(3), 'ab  '::char(3), 'abc'::char, CAST(? AS VARCHAR(2))"
    assert shop.rows(sql, "xyz") == [["abc", "ab", "a", "xy"]]


def test_types_in_casts_are_those_of_postgresql(shop):
    assert shop.rows("SELECT 0.1::float = 0.1::float8") == [[True]]
    assert shop.rows("""SELECT '{"b":1,"a":[ ]}'::jsonb""") == [['{"a": [], "b": 1}']]
    assert shop.post("/v1/query", {"sql": "SELECT 'x'::citext"}).status_code == 422


_JSON_TYPES = {"BIGINT": int, "DOUBLE": float, "REAL": float}
SUMS = [
    ("sum(k)", "BIGINT"),
    ("sum(s)", "BIGINT"),
    ("sum(k * 2 + 1)", "BIGINT"),
    ("sum(CASE WHEN k > 0 THEN 1 ELSE 0 END)", "BIGINT"),
    ("sum(ascii(k::text))", "BIGINT"),
    ("sum(DISTINCT k)", "BIGINT"),
    ("sum(k) FILTER (WHERE k > 0)", "BIGINT"),
    ("sum(big)", "DECIMAL(38,0)"),
    ("sum(k + big)", "DECIMAL(38,0)"),
    ("sum(n)", "DECIMAL(38,9)"),
    ("sum(r)", "REAL"),
    ("count(*)", "BIGINT"),
    ("avg(k)", "DECIMAL(38,20)"),
]


@pytest.mark.parametrize(("aggregate", "type_"), SUMS)
@pytest.mark.parametrize("tail", ["FROM w", "FROM w WHERE md5(k::text) <> ''", "FROM w GROUP BY s"])
def test_aggregates_have_the_expected_types(shop, aggregate, type_, tail):
    shop.transact("INSERT INTO w (k, s, big, n, r) VALUES (1000000, 1, 1, 1, 1)")
    answer = shop.post("/v1/query", {"sql": f"SELECT {aggregate} AS a {tail}"}).json()
    assert answer["columns"] == [{"name": "a", "type": type_}]
    for (value,) in answer["rows"]:
        assert value is None or isinstance(value, _JSON_TYPES.get(type_, str))


def test_sums_in_windows_and_subqueries_are_bigint(shop):
    sql = "SELECT sum(k) OVER () FROM w"
    assert shop.post("/v1/query", {"sql": sql}).json()["columns"][0]["type"] == "BIGINT"
    sql = "SELECT sum(q.a) FROM (SELECT k AS a FROM w) AS q"
    assert shop.post("/v1/query", {"sql": sql}).json()["columns"][0]["type"] == "BIGINT"
    sql = "SELECT sum(k), k FROM w GROUP BY k HAVING sum(k) > 0 ORDER BY sum(k) LIMIT 1"
    assert shop.post("/v1/query", {"sql": sql}).json()["columns"][0]["type"] == "BIGINT"


@pytest.mark.parametrize(
    "source",
    [
        "(VALUES (99999999999999999999999999999999999999::numeric(38,0)), (1)) AS s(n)",
        "(SELECT n::numeric(38,9) AS n FROM w, range(40000) WHERE k = 77) AS s",
    ],
)
def test_a_sum_beyond_all_digits_is_refused(shop, source):
    shop.transact("INSERT INTO w (k, n) VALUES (77, 99999999999999999999999999999.0)")
    answer = shop.post("/v1/query", {"sql": f"SELECT sum(n) FROM {source}"})
    shop.transact("DELETE FROM w WHERE k = 77")
    assert answer.status_code == 422, answer.text


def test_an_overflowing_sum_is_refused(shop):
    sql = "SELECT sum(9223372036854775807::numeric(19,0))::bigint FROM w, (VALUES (1), (2)) AS two"
    assert shop.post("/v1/query", {"sql": sql}).status_code == 422
