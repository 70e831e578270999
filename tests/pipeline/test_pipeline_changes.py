"""The sum of the changes in Spark is the difference between two snapshots."""

import random
from collections import Counter
from contextlib import closing
from decimal import Decimal
from threading import Thread

import pytest
from pyspark.errors import AnalysisException, PySparkException

from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.sources.changes import ChangesSource, between, layout_of, read
from hornbeam_server.schema.codec import decode_catalog
from hornbeam_server.storage.log.format import segment_name
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.storage.source import LocalLogSource
from tests.api.api_world import DDL, WORKLOAD, world

KINDS = (
    "INSERT INTO kinds VALUES (1, '12345.0000000001', 1.5, TRUE, '\\x0001ff', '2026-02-28',"
    " '2026-01-01T00:00:00.000001', '2026-01-01T01:00:00+01:00',"
    " '12345678-1234-5678-1234-567812345678', '{\"a\": [1]}', 'é')"
)


@pytest.fixture
def shop(tmp_path):
    with world(tmp_path) as opened:
        assert opened.apply(ddl=DDL, workload=WORKLOAD, roots=None).status_code == 200
        yield opened


def url_of(shop):
    return f"hornbeam://{shop.client.base_url.host}:{shop.client.base_url.port}"


def changes_of(shop, after=None, upto=None):
    with closing(open_transport(parse_url(url_of(shop)), 60)) as transport:
        return between(transport, after, upto)


def now(shop):
    return changes_of(shop).upto


def write(shop, chosen, count):
    """Execute random inserts, updates and deletes, some of which are refused."""
    for _ in range(count):
        key, value = chosen.randrange(15), chosen.randrange(100)
        shop.transact(
            chosen.choice(
                [
                    f"INSERT INTO customer (c_id, c_name) VALUES ({key}, 'n{value}')",
                    f"INSERT INTO orders VALUES ({value}, {key}, {value}.50)",
                    f"UPDATE customer SET c_balance = {value} WHERE c_id = {key}",
                    f"UPDATE orders SET o_total = {value} WHERE o_c_id = {key}",
                    f"DELETE FROM orders WHERE o_c_id = {key}",
                    f"DELETE FROM customer WHERE c_id = {key}",
                    f"INSERT INTO kinds (k_id, k_text) VALUES ({value}, 'a')",
                ]
            )
        )


def added(rows, changes, width):
    """Return the rows with their counts after the changes are added."""
    sums = Counter(rows)
    for change in changes:
        sums[tuple(change[:width])] += change[width]
    return {row: n for row, n in sums.items() if n}


def rows_at(shop, relation, at):
    database = shop.database
    reader = Snapshot(database.store, database.manager.state.codecs, at)

    async def rows():
        return [row async for batch in reader.scan(relation) for row in batch]

    return shop.run(rows())


def direct(found, relation):
    """Read the rows of changes, as executors do."""
    layout = layout_of(decode_catalog(found.catalog.encode()), relation)
    parts = found.parts(layout, range(len(layout.columns)))
    return [tuple(row.values()) for p in parts for b in read(p) for row in b.to_pylist()]


# ---------------------------------------------------------------- without Spark


def test_an_update_removes_one_row_and_adds_another(shop):
    began = now(shop)
    done = [
        shop.transact(sql).json()
        for sql in (
            "INSERT INTO customer (c_id, c_name) VALUES (1, 'ann')",
            "UPDATE customer SET c_name = 'eve' WHERE c_id = 1",
            "DELETE FROM customer WHERE c_id = 1",
        )
    ]
    found = direct(changes_of(shop, began), "customer")
    assert [(row[1], row[4]) for row in found] == [("ann", 1), ("ann", -1), ("eve", 1), ("eve", -1)]
    stamps, names = [d["commit_ts"] for d in done], [d["transaction_id"] for d in done]
    assert [row[5] for row in found] == [stamps[0], stamps[1], stamps[1], stamps[2]]
    assert [row[6] for row in found] == [names[0], names[1], names[1], names[2]]
    between_them = changes_of(shop, stamps[0], stamps[1])
    assert [row[4] for row in direct(between_them, "customer")] == [-1, 1]
    assert direct(between_them, "orders") == []


def test_rows_older_than_a_column_have_its_default(shop):
    began = now(shop)
    shop.transact("INSERT INTO orders (o_id) VALUES (1)")
    longer = DDL.replace("o_total DECIMAL(15,2)", "o_total DECIMAL(15,2), o_new TEXT DEFAULT 'x'")
    assert shop.apply(ddl=longer, workload=WORKLOAD, roots=None).is_success
    shop.transact("INSERT INTO orders (o_id, o_new) VALUES (2, 'y')")
    found = direct(changes_of(shop, began), "orders")
    assert [(row[0], row[3], row[4]) for row in found] == [(1, "x", 1), (2, "y", 1)]


def stream_of(shop, relation):
    source = ChangesSource({"url": url_of(shop), "relation": relation})
    return source.streamReader(source.schema())


def test_a_stream_has_new_columns_only_after_a_restart(shop):
    stream = stream_of(shop, "orders")
    start = stream.initialOffset()
    assert stream.latestOffset(start, None) == start
    shop.transact("INSERT INTO orders (o_id) VALUES (1)")
    middle = stream.latestOffset(start, None)
    longer = DDL.replace("o_total DECIMAL(15,2)", "o_total DECIMAL(15,2), o_new TEXT DEFAULT 'x'")
    assert shop.apply(ddl=longer, workload=WORKLOAD, roots=None).is_success
    shop.transact("INSERT INTO orders (o_id, o_new) VALUES (2, 'y')")
    end = stream.latestOffset(middle, None)
    assert start["snapshot"] < middle["snapshot"] < end["snapshot"]

    def rows(of, first, last):
        parts = of.partitions(first, last)
        return [tuple(r.values())[:-2] for p in parts for b in of.read(p) for r in b.to_pylist()]

    assert rows(stream, middle, end) == [(2, None, None, 1)]
    again = stream_of(shop, "orders")
    assert rows(again, start, middle) == [(1, None, None, "x", 1)]
    assert rows(again, start, end) == [(1, None, None, "x", 1), (2, None, None, "y", 1)]


def test_a_relation_created_again_is_a_different_one(shop):
    began = now(shop)
    shop.transact("INSERT INTO kinds (k_id) VALUES (1)")
    shorter = DDL[: DDL.index("CREATE TABLE kinds")]
    stream = stream_of(shop, "kinds")
    start = stream.initialOffset()
    plan = {"ddl": shorter, "workload": WORKLOAD, "roots": None}
    planned = shop.post("/v1/schema/plan", plan).json()["plan_id"]
    dropped = shop.post("/v1/schema/apply", plan | {"plan_id": planned, "allow_drop": True})
    assert dropped.is_success, dropped.text
    assert shop.apply(ddl=DDL, workload=WORKLOAD, roots=None).is_success
    shop.transact("INSERT INTO kinds (k_id) VALUES (2)")
    assert [row[0] for row in direct(changes_of(shop, began), "kinds")] == [2]
    with pytest.raises(Exception, match="created again"):
        stream.latestOffset(start, None)


def test_a_missing_or_damaged_segment_is_an_error(shop, monkeypatch):
    began = now(shop)
    shop.transact("INSERT INTO kinds (k_id) VALUES (1)")
    found = changes_of(shop, began)
    (segment,) = found.segments
    assert isinstance(found.source, LocalLogSource)
    name = segment_name(segment.epoch, segment.sequence)
    (path,) = shop.database.settings.data.glob(f"log/*/{name}")
    whole = path.read_bytes()
    for damaged, said in (
        (whole[:50] + bytes([whole[50] ^ 1]) + whole[51:], "damaged"),
        (whole[:-1], "it had"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(Exception, match=said):
            direct(found, "kinds")
    path.unlink()
    with pytest.raises(Exception, match="not kept any more"):
        direct(found, "kinds")


def test_unavailable_changes_are_refused_before_the_read(shop):
    began = now(shop)
    assert shop.post("/v1/changes", {"after": began, "upto": began - 1}).status_code == 422
    assert shop.post("/v1/changes", {"after": began + 10**9}).status_code == 422
    assert shop.post("/v1/changes", {"after": -1}).status_code == 422
    shop.transact("INSERT INTO kinds (k_id) VALUES (1)")
    last = shop.transact("INSERT INTO kinds (k_id) VALUES (2)").json()["commit_ts"]
    shop.run(shop.database.low_water.raise_to(last - 1))
    gone = shop.post("/v1/changes", {"after": began})
    assert (gone.status_code, gone.json()["code"]) == (410, "snapshot-too-old")
    assert gone.json()["kept_from"] == last - 1
    assert shop.post("/v1/changes", {"after": last - 1}).status_code == 200


# ---------------------------------------------------------------- with Spark


def batch(spark, shop, **options):
    return spark.read.format("hornbeam.changes").options(url=url_of(shop), **options).load()


def test_changes_between_two_snapshots_add_up_to_their_difference(spark, shop):
    chosen = random.Random(1)
    write(shop, chosen, 60)
    began = now(shop)
    write(shop, chosen, 60)
    middle = now(shop)
    write(shop, chosen, 30)
    found = changes_of(shop, began)
    for relation, width in (("customer", 4), ("orders", 3)):
        changes = [tuple(row) for row in found.frame(spark, relation).collect()]
        after = rows_at(shop, relation, found.upto)
        assert added(rows_at(shop, relation, began), changes, width) == dict(Counter(after))
        assert {change[width] for change in changes} == {1, -1}
    part = batch(spark, shop, relation="orders", after=str(began), upto=str(middle))
    there = added(rows_at(shop, "orders", began), map(tuple, part.collect()), 3)
    assert there == dict(Counter(rows_at(shop, "orders", middle)))


def test_columns_have_the_types_of_the_relation(spark, shop):
    began = now(shop)
    assert shop.transact(KINDS).is_success
    frame = changes_of(shop, began).frame(spark, "kinds")
    kinds = spark.read.format("hornbeam").options(url=url_of(shop), relation="kinds").load()
    assert frame.schema.fields[:-3] == kinds.schema.fields
    assert [field.simpleString() for field in frame.schema.fields[-3:]] == [
        "_w:tinyint", "_ts:bigint", "_tx:string",
    ]  # fmt: skip
    ((*row, weight, _, _),) = frame.collect()
    assert (weight, [tuple(row)]) == (1, list(map(tuple, kinds.collect())))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"relation": "orders"}, "option after"),
        ({"relation": "nowhere", "after": "0"}, "no relation nowhere"),
        ({"relation": "orders", "after": "x"}, "is a snapshot"),
        ({"relation": "orders", "asof": "1"}, "no option asof"),
        ({"after": "1"}, "option relation"),
    ],
)
def test_wrong_options_are_refused(shop, options, said):
    """The driver finds these errors."""

    def plan():
        source = ChangesSource({"url": url_of(shop), **options})
        source.reader(source.schema())

    with pytest.raises(Exception, match=said):
        plan()


def test_only_the_requested_columns_are_read(shop):
    began = now(shop)
    shop.transact("INSERT INTO orders (o_id, o_total) VALUES (1, 2.5)")
    options = {"relation": "orders", "after": str(began), "columns": "o_total, o_id"}
    source = ChangesSource({"url": url_of(shop), **options})
    assert source.schema().names == ["o_total", "o_id", "_w", "_ts", "_tx"]
    (part,) = source.reader(source.schema()).partitions()
    (batch,) = read(part)
    assert [column[0].as_py() for column in batch.columns[:3]] == [Decimal("2.50"), 1, 1]


class Sink:
    """Adds up the changes of all batches, each batch once."""

    def __init__(self, rows):
        self.rows = Counter(rows)
        self.batches = {}

    def take(self, frame, number):
        self.batches[number] = [tuple(row) for row in frame.collect()]

    def there(self, width):
        changes = [change for batch in self.batches.values() for change in batch]
        return added(self.rows, changes, width)


def run(spark, shop, folder, sink, relation, after):
    stream = spark.readStream.format("hornbeam.changes")
    frame = stream.options(url=url_of(shop), relation=relation, after=str(after)).load()
    query = (
        frame.writeStream.foreachBatch(sink.take)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_stream_beside_a_writer_resumes_at_its_offset(spark, shop, tmp_path):
    chosen = random.Random(2)
    write(shop, chosen, 40)
    began = now(shop)
    sink = Sink(rows_at(shop, "orders", began))
    writing = Thread(target=write, args=(shop, chosen, 300))
    writing.start()
    run(spark, shop, tmp_path / "checkpoint", sink, "orders", began)
    writing.join()
    write(shop, chosen, 20)
    run(spark, shop, tmp_path / "checkpoint", sink, "orders", began)
    assert len(sink.batches) >= 2
    assert sink.there(3) == dict(Counter(rows_at(shop, "orders", now(shop))))
    shop.transact("INSERT INTO kinds (k_id) VALUES (1000)")
    late = shop.transact("INSERT INTO kinds (k_id) VALUES (1001)").json()["commit_ts"]
    shop.run(shop.database.low_water.raise_to(late))
    with pytest.raises((AnalysisException, PySparkException), match="not all in the logs"):
        run(spark, shop, tmp_path / "checkpoint", sink, "orders", began)
