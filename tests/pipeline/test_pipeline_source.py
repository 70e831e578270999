"""Relations and views in Spark equal the answers of the database at that snapshot."""

import datetime as dt
import decimal

import pytest
from pyspark.errors import AnalysisException, PySparkException

import hornbeam
from hornbeam_server.storage.rocks import store as rocks
from tests.api.api_world import DDL, WORKLOAD, world

KINDS = (
    "INSERT INTO kinds VALUES (1, '12345.0000000001', 1.5, TRUE, '\\x0001ff', '2026-02-28',"
    " '2026-01-01T00:00:00.000001', '2026-01-01T01:00:00+01:00',"
    " '12345678-1234-5678-1234-567812345678', '{\"a\": [1]}', 'é')"
)


PER_CUSTOMER = """
CREATE MATERIALIZED VIEW per_customer WITH (refresh = 'immediate') AS
SELECT o_c_id, count(*) AS n, sum(o_total) AS total, max(o_id) AS last FROM orders GROUP BY o_c_id;
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with world(tmp_path_factory.mktemp("spark-shop")) as opened:
        assert (
            opened.apply(ddl=DDL + PER_CUSTOMER, workload=WORKLOAD, roots=None).status_code == 200
        )
        customers = "c_id,c_name\n" + "".join(f"{n},name {n}\n" for n in range(1, 301))
        orders = "o_id,o_c_id,o_total\n" + "".join(
            f"{n},{n % 300 + 1},{n}.50\n" for n in range(1, 3001)
        )
        for relation, rows in (("customer", customers), ("orders", orders)):
            loaded = opened.client.post(
                f"/v1/load/{relation}", content=rows, headers={"Content-Type": "text/csv"}
            )
            assert loaded.is_success, loaded.text
        yield opened


def load(shop, relation, lines):
    headers = {"Content-Type": "text/csv"}
    loaded = shop.client.post(f"/v1/load/{relation}", content="\n".join(lines), headers=headers)
    assert loaded.is_success, loaded.text


def url_of(shop):
    return f"hornbeam://{shop.client.base_url.host}:{shop.client.base_url.port}"


def frame(spark, shop, **options):
    return spark.read.format("hornbeam").options(url=url_of(shop), **options).load()


def rows_of(frame):
    return sorted(tuple(row) for row in frame.collect())


def asked(shop, text):
    with hornbeam.connect(url_of(shop), autocommit=True) as db:
        return sorted(db.cursor().execute(text).fetchall())


def test_a_relation_and_a_view_equal_the_answers_of_queries(spark, shop):
    assert rows_of(frame(spark, shop, relation="orders")) == asked(shop, "SELECT * FROM orders")
    view = frame(spark, shop, view="customer__orders")
    joined = asked(
        shop, f"SELECT {', '.join(view.columns)} FROM customer, orders WHERE c_id = o_c_id"
    )
    assert len(joined) == 3000
    assert rows_of(view) == joined


def test_types_are_kept_exactly(spark, shop):
    shop.transact("DELETE FROM kinds WHERE k_id = 1")
    assert shop.transact(KINDS).is_success
    assert shop.transact("INSERT INTO kinds (k_id) VALUES (2)").is_success
    kinds = frame(spark, shop, relation="kinds")
    assert kinds.schema.simpleString() == (
        "struct<k_id:bigint,k_decimal:decimal(38,10),k_double:double,k_flag:boolean,"
        "k_bytes:binary,k_date:date,k_at:timestamp_ntz,k_instant:timestamp,k_uuid:string,"
        "k_json:string,k_text:string>"
    )
    full, empty = kinds.orderBy("k_id").collect()
    exact = kinds.selectExpr("CAST(k_instant AS STRING)").first()[0]
    assert exact == "2026-01-01 00:00:00"
    assert (full.k_decimal, full.k_double, full.k_flag, bytes(full.k_bytes), full.k_date) == (
        decimal.Decimal("12345.0000000001"), 1.5, True, b"\x00\x01\xff", dt.date(2026, 2, 28),
    )  # fmt: skip
    assert full.k_at == dt.datetime(2026, 1, 1, microsecond=1)
    assert (full.k_uuid, full.k_text) == ("12345678-1234-5678-1234-567812345678", "é")
    assert full.k_json == '{"a": [1]}'
    assert set(empty[1:]) == {None}


def test_a_frame_stays_at_its_snapshot(spark, shop):
    before = frame(spark, shop, relation="customer", columns="c_id")
    count = before.count()
    answer = shop.transact("INSERT INTO customer (c_id, c_name) VALUES (9001, 'late')").json()
    assert before.count() == count
    assert frame(spark, shop, relation="customer").count() == count + 1
    old = frame(spark, shop, relation="customer", asOf=str(answer["commit_ts"] - 1))
    assert old.count() == count
    shop.transact("DELETE FROM customer WHERE c_id = 9001")


def test_columns_are_read_in_the_requested_order(spark, shop):
    some = frame(spark, shop, relation="orders", columns="o_total, o_id")
    assert some.columns == ["o_total", "o_id"]
    assert some.orderBy("o_id").first() == (decimal.Decimal("1.50"), 1)


@pytest.mark.parametrize(
    "condition",
    ["o_id = 7", "o_id > 2990", "o_id >= 10 AND o_id < 20 AND o_total > 15", "o_id IN (1, 2)",
     "o_id = 7 AND o_id = 8", "o_total = 5.50", "o_id < 0", "o_id IS NULL"],
)  # fmt: skip
def test_filtered_frames_equal_filtered_queries(spark, shop, condition):
    found = frame(spark, shop, relation="orders").where(condition)
    assert rows_of(found) == asked(shop, f"SELECT * FROM orders WHERE {condition}")


def test_a_large_table_is_read_in_several_parts(spark, shop, monkeypatch):
    """The parts are read in this process, because executors do not have the smaller size."""
    from hornbeam_server.pipeline.sources.reader import Hornbeam

    monkeypatch.setattr(rocks, "SPLIT_BYTES", 4_000)
    source = Hornbeam({"url": url_of(shop), "relation": "orders"})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    assert len(parts) > 3
    read = [batch.num_rows for part in parts for batch in reader.read(part)]
    assert sum(read) == 3000


def test_groups_of_an_immediate_view_are_read_whole(spark, shop, monkeypatch):
    from hornbeam_server.pipeline.sources.reader import Hornbeam

    expected = asked(shop, "SELECT * FROM per_customer")
    assert len(expected) == 300
    assert rows_of(frame(spark, shop, view="per_customer")) == expected
    some = frame(spark, shop, view="per_customer").where("o_c_id >= 10 AND o_c_id < 13")
    assert rows_of(some) == [row for row in expected if 10 <= row[0] < 13]
    monkeypatch.setattr(rocks, "SPLIT_BYTES", 400)
    source = Hornbeam({"url": url_of(shop), "view": "per_customer"})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    assert len(parts) > 3
    read = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert sorted(tuple(row.values()) for row in read) == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"relation": "nowhere"}, "no relation nowhere"),
        ({"view": "nowhere"}, "no view nowhere"),
        ({"relation": "orders", "view": "v"}, "One of the options"),
        ({}, "One of the options"),
        ({"relation": "orders", "columns": "o_id,x"}, "no column x"),
        ({"relation": "orders", "asof": "1"}, "older than what is kept"),
        ({"relation": "orders", "as_of": "1"}, "no option as_of"),
    ],
)
def test_wrong_options_are_refused(spark, shop, options, said):
    with pytest.raises((AnalysisException, PySparkException), match=said):
        frame(spark, shop, **options).collect()


def test_rows_that_may_be_purged_are_not_returned(spark, shop):
    import msgspec

    from hornbeam_server.pipeline.sources.reader import Hornbeam

    source = Hornbeam({"url": url_of(shop), "relation": "orders"})
    reader = source.reader(source.schema())
    reader._export = msgspec.structs.replace(reader._export, until_ms=1)
    with pytest.raises(Exception, match="older than what is kept"):
        list(reader.read(reader.partitions()[0]))
