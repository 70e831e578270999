"""Deferred views that Spark refreshes equal the answers of their queries at their snapshot."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.refresh import driver as job
from hornbeam_server.pipeline.refresh.driver import refresh
from hornbeam_server.pipeline.sources.reader import register
from tests.api.api_world import DDL, WORKLOAD, world

VIEWS = """
CREATE MATERIALIZED VIEW by_name WITH (refresh = 'deferred') AS
  SELECT c_name, count(*) AS orders, sum(o_total) AS total, min(o_total) AS least,
    avg(o_total) AS mean
  FROM customer JOIN orders ON c_id = o_c_id GROUP BY c_name;
CREATE MATERIALIZED VIEW everybody WITH (refresh = 'deferred') AS
  SELECT c_id, c_email, count(o_id) AS orders FROM customer LEFT JOIN orders ON c_id = o_c_id
  GROUP BY c_id, c_email;
CREATE MATERIALIZED VIEW in_all WITH (refresh = 'deferred') AS
  SELECT count(*) AS n, max(o_total) AS most FROM orders WHERE o_total > 10;
CREATE MATERIALIZED VIEW names WITH (refresh = 'deferred') AS
  SELECT c_name, o_total FROM customer, orders WHERE c_id = o_c_id;
CREATE MATERIALIZED VIEW idle WITH (refresh = 'deferred') AS
  SELECT c_name FROM customer WHERE NOT EXISTS (SELECT 1 FROM orders WHERE o_c_id = c_id);
CREATE MATERIALIZED VIEW types WITH (refresh = 'deferred') AS SELECT * FROM kinds;
CREATE MATERIALIZED VIEW reachable WITH (refresh = 'deferred') AS
  WITH RECURSIVE r (origin, node) AS (
    SELECT o_c_id, o_id FROM orders WHERE o_c_id IS NOT NULL
    UNION SELECT origin, o_id FROM r JOIN orders ON o_c_id = node)
  SELECT origin, node FROM r;
"""
NAMES = ("by_name", "everybody", "in_all", "names", "idle", "types", "reachable")
"""Each name stands for `SELECT * FROM name` and for its SELECT above."""


def select_of(name):
    text = VIEWS[VIEWS.index(f"VIEW {name} ") :].partition(" AS")[2]
    return text.partition(";")[0]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with world(tmp_path_factory.mktemp("refreshed")) as opened:
        assert opened.apply(ddl=DDL + VIEWS, workload=WORKLOAD, roots=None).status_code == 200
        yield opened


def url_of(shop):
    return f"hornbeam://{shop.client.base_url.host}:{shop.client.base_url.port}"


@pytest.fixture
def node(shop):
    transport = open_transport(parse_url(url_of(shop)), 60.0)
    yield transport
    transport.close()


class Writer:
    """Writes random orders and customers, and changes and deletes them again."""

    def __init__(self, shop, seed):
        self.shop = shop
        self.random = random.Random(seed)
        self.next = seed * 1_000_000

    def write(self, count):
        for _ in range(count):
            answer = self.shop.transact(*self._statement())
            assert answer.is_success or answer.status_code == 409, answer.text

    def _statement(self):
        draw, self.next = self.random, self.next + 1
        total = f"{draw.randint(0, 20)}.50"
        customer, order = draw.randint(1, 8), draw.randint(1, 40)
        return draw.choice(
            [
                ("INSERT INTO orders VALUES (?, ?, ?)", order, customer, total),
                ("INSERT INTO customer (c_id, c_name) VALUES (?, ?)", customer, f"n{customer % 3}"),
                ("UPDATE orders SET o_total = ? WHERE o_id = ?", total, order),
                ("UPDATE orders SET o_c_id = NULL WHERE o_id = ?", order),
                ("UPDATE customer SET c_name = ? WHERE c_id = ?", f"n{order % 3}", customer),
                ("UPDATE customer SET c_email = ? WHERE c_id = ?", f"{self.next}@x", customer),
                ("DELETE FROM orders WHERE o_id = ?", order),
                ("DELETE FROM customer WHERE c_id = ?", customer),
                (
                    "INSERT INTO kinds (k_id, k_uuid, k_json, k_instant, k_text) VALUES (?, "
                    "'12345678-1234-5678-1234-567812345678', '{}', '2026-01-01T01:00+01:00', 'é')",
                    self.next,
                ),
            ]
        )


def asked(shop, sql, **options):
    answer = shop.post("/v1/query", {"sql": sql, "parameters": [], **options})
    assert answer.status_code == 200, answer.text
    return sorted(map(repr, answer.json()["rows"])), answer.json()["snapshot"]


def framed(spark, shop, name, **options):
    register(spark)
    reading = spark.read.format("hornbeam").options(url=url_of(shop), view=name, **options)
    return reading.load()


def check(shop, upto):
    """Compare every view with its query as of its snapshot."""
    for name in NAMES:
        rows, at = asked(shop, f"SELECT * FROM {name}")
        assert at == upto, name
        again, _ = asked(shop, select_of(name), snapshot=upto)
        assert rows == again, name


def test_views_follow_their_relations(spark, shop, node, monkeypatch):
    writer = Writer(shop, 1)
    writer.write(60)
    first = refresh(spark.sparkContext, node, url_of(shop), "default")
    assert set(first.views) == set(NAMES)
    check(shop, first.upto)
    for in_the_driver in (job.HERE_BYTES, 0, job.HERE_BYTES):
        monkeypatch.setattr(job, "HERE_BYTES", in_the_driver)
        writer.write(40)
        done = refresh(spark.sparkContext, node, url_of(shop), "default")
        assert done.counts.changes
        check(shop, done.upto)
    idle = refresh(spark.sparkContext, node, url_of(shop), "default")
    assert idle.counts == job.Counts()
    check(shop, idle.upto)
    writer.write(5)  # these changes are not in the views, nor in the rows compared with them
    for name in ("names", "everybody"):
        frame, (rows, _) = framed(spark, shop, name), asked(shop, f"SELECT * FROM {name}")
        plain = [[str(v) if isinstance(v, Decimal) else v for v in row] for row in frame.collect()]
        assert frame.columns == {"names": ["c_name", "o_total"]}.get(name, frame.columns)
        assert sorted(map(repr, plain)) == rows
    assert framed(spark, shop, "names", columns="o_total", asOf=idle.upto).columns == ["o_total"]
    with pytest.raises(AnalysisException, match="cannot be read as of snapshot"):
        framed(spark, shop, "names", asOf=first.upto)
    assert verified(shop) == dict.fromkeys(NAMES, (0, 0))
    assert verified(shop, "types", "names") == {"types": (0, 0), "names": (0, 0)}


EVENTS = """
CREATE TABLE event (id INTEGER PRIMARY KEY, at TIMESTAMPTZ);
CREATE INDEX event_at ON event (at);
CREATE MATERIALIZED VIEW begun WITH (refresh = 'deferred') AS
  SELECT count(*) AS n FROM event WHERE at <= now();
"""


def test_rows_enter_by_time_in_batches_without_changes(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "HERE_BYTES", 0)  # executors do all batches
    with world(tmp_path) as opened, closing(open_transport(parse_url(url_of(opened)), 60.0)) as to:
        assert opened.apply(ddl=EVENTS, workload="", roots=None).status_code == 200
        opened.transact("INSERT INTO event VALUES (1, now() - INTERVAL '1 hour'), (2, NULL)")
        opened.transact("INSERT INTO event VALUES (3, now() + INTERVAL '1 hour')")
        refresh(spark.sparkContext, to, url_of(opened), "default")
        assert asked(opened, "SELECT n FROM begun")[0] == ["[1]"]
        opened.transact("UPDATE event SET at = now() + INTERVAL '1 second' WHERE id = 3")
        refresh(spark.sparkContext, to, url_of(opened), "default")
        time.sleep(1.0)
        done = refresh(spark.sparkContext, to, url_of(opened), "default")
        assert done.counts.changes == 0
        rows, at = asked(opened, "SELECT n FROM begun")
        assert (rows, at) == (["[2]"], done.upto)
        assert verified(opened) == {"begun": (0, 0)}


def verified(shop, *names):
    """Return how many missing and extra rows `hornbeam verify` finds in deferred views."""
    answer = shop.post("/v1/verify", {"names": list(names) or None})
    report = json.loads(answer.text.splitlines()[-1])["report"]
    return {
        item["name"]: (item["missing"], item["extra"])
        for item in report["checked"]
        if item["kind"] == "deferred view"
    }


def command(shop, *arguments):
    return subprocess.Popen(
        [
            str(Path(sys.executable).with_name("hornbeam")),
            "refresh",
            "--url",
            url_of(shop),
            *arguments,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_the_batch_of_a_killed_driver_is_repeated(shop):
    Writer(shop, 2).write(40)
    job = command(shop, "--once")
    try:
        deadline = time.monotonic() + 180
        while shop.client.get("/v1/groups").json()[0]["under_way"] is None:
            assert job.poll() is None, job.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)  # else this process takes the processor from the driver
        begun = shop.client.get("/v1/groups").json()[0]
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
    (group,) = shop.client.get("/v1/groups").json()
    assert (group["as_of"], group["under_way"]) == (begun["as_of"], begun["under_way"])
    if begun["as_of"] is not None:
        check(shop, begun["as_of"])
    Writer(shop, 3).write(20)

    job = command(shop, "--once", "--json", "default")
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    done = json.loads(out)
    assert done["as_of"] == begun["under_way"]
    assert set(done["views"]) == set(NAMES)
    check(shop, done["as_of"])


def test_an_unknown_group_is_an_error(shop):
    job = command(shop, "--once", "fast")
    _, err = job.communicate(timeout=60)
    assert job.returncode == 2
    assert "There is no group fast" in err
    assert "There are: default." in err
