"""Views and indexes built beside a node: with tasks in this process, then by Spark."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from hornbeam.cli import app
from hornbeam.errors import DatabaseError
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.build import driver as job
from hornbeam_server.pipeline.build.executor import Failed, attempt
from hornbeam_server.pipeline.build.leader import begun
from hornbeam_server.schema.errors import InvalidRequest, NotFound, Unavailable
from tests.api.api_world import DDL, WORKLOAD, world
from tests.pipeline.spark_here import QUICK_JAVA

CUSTOMERS, ORDERS = 300, 3_000
VIEW = "customer__orders"
BARE = {"ddl": DDL, "workload": "", "roots": None}
PLAN = {"ddl": DDL, "workload": WORKLOAD, "roots": None}


@pytest.fixture
def shop(tmp_path):
    """Rows, and a view with an index that are left for Spark to build."""
    with world(tmp_path) as opened:
        assert opened.apply(**BARE).status_code == 200
        load(opened, "customer", ["c_id,c_name", *(f"{n},name {n}" for n in range(CUSTOMERS))])
        lines = (f"{n},{n % CUSTOMERS},{n}.50" for n in range(ORDERS))
        load(opened, "orders", ["o_id,o_c_id,o_total", *lines])
        planned = opened.post("/v1/schema/plan", PLAN).json()["plan_id"]
        applied = opened.post("/v1/schema/apply", PLAN | {"plan_id": planned, "build": "spark"})
        assert applied.status_code == 200, applied.text
        assert state(opened) == "building"
        yield opened


def load(shop, relation, lines):
    headers = {"Content-Type": "text/csv"}
    loaded = shop.client.post(f"/v1/load/{relation}", content="\n".join(lines), headers=headers)
    assert loaded.is_success, loaded.text


def state(shop):
    return shop.client.get(f"/v1/views/{VIEW}?sizes=false").json()["state"]


def url_of(shop):
    return f"hornbeam://{shop.client.base_url.host}:{shop.client.base_url.port}"


@contextmanager
def node_of(shop):
    node = open_transport(parse_url(url_of(shop)), 10)
    try:
        yield node
    finally:
        node.close()


def drive(shop, run=attempt, names=(), workers=2, rate=None, progress=lambda *_: None, **options):
    with node_of(shop) as node:
        driver = job.Driver(node, url_of(shop), run, workers, rate)
        return driver.build(begun(node, names, **options), progress)


def served_by(shop):
    query = {"sql": "SELECT c_name, o_id FROM customer, orders WHERE c_id = o_c_id"}
    return shop.post("/v1/query", query).json()["served_by"]


@contextmanager
def writing(shop):
    """Run a writer that changes every kind of view row, in at least 20 transactions."""
    stop, failed = threading.Event(), []

    def write():
        for n in range(100_000):
            work = [
                ("UPDATE orders SET o_c_id = ? WHERE o_id = ?", n % 50, n * 7 % ORDERS),
                ("DELETE FROM orders WHERE o_id = ?", n * 11 % ORDERS),
                ("INSERT INTO orders VALUES (?, ?, 1)", 10_000 + n, n % 50),
                ("UPDATE customer SET c_name = ? WHERE c_id = ?", f"n{n}", n % CUSTOMERS),
                ("UPDATE orders SET o_c_id = NULL WHERE o_id = ?", n * 13 % ORDERS),
            ]
            statements = [{"sql": sql, "parameters": values} for sql, *values in work]
            answer = shop.client.post("/v1/transactions", json={"statements": statements})
            if answer.status_code != 200:
                failed.append(answer.text)
            if stop.is_set() and n > 20:
                return
            time.sleep(0.02)  # leave time for other processes

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failed, failed[0]


def test_a_view_is_built_while_a_writer_writes(shop, monkeypatch):
    monkeypatch.setattr(job, "SLICE_S", 0.0)
    assert VIEW not in served_by(shop)
    reported = []
    with writing(shop):
        report = drive(shop, progress=lambda *now: reported.append(now))
    assert {VIEW} < set(report.names)
    assert report.scanned >= 2_000
    assert report.rows >= 2 * 2_000
    assert len(reported) > 8
    assert [scanned for scanned, _ in reported] == sorted(scanned for scanned, _ in reported)
    assert reported[0] == (0, ORDERS)
    assert state(shop) == "readable"
    assert served_by(shop)[0].startswith(VIEW)
    assert shop.verify() == 0
    assert shop.client.get("/v1/builds").json() == []
    assert os.listdir(shop.database.settings.data / "exports") == []


def test_a_new_driver_resumes_where_the_last_one_ended(shop, monkeypatch):
    monkeypatch.setattr(job, "SLICE_S", 0.0)
    begun = []

    def dies(task):
        begun.append(task.start)
        if len(begun) == 5:
            raise KeyboardInterrupt
        return attempt(task)

    with pytest.raises(KeyboardInterrupt):
        drive(shop, dies, workers=1)
    for build in builds(shop):
        ((start, end),) = build["missing"]
        assert start == begun[-1].hex()
        assert end is not None, "behind the last row there is nothing to build"
    again = []

    def notes(task):
        again.append(task.start)
        return attempt(task)

    report = drive(shop, notes, workers=1)
    assert again[0] == begun[-1]
    assert report.scanned < ORDERS
    assert state(shop) == "readable"
    assert shop.verify() == 0


def builds(shop):
    return shop.client.get("/v1/builds").json()


def settled(shop):
    """Return `builds` after the node has executed the last requests of a killed driver."""
    before, now = None, builds(shop)
    while before != now:
        time.sleep(1.0)
        before, now = now, builds(shop)
    return now


def test_a_cancelled_build_ends_its_driver_and_leaves_no_table(shop, monkeypatch):
    monkeypatch.setattr(job, "SLICE_S", 0.0)
    tables = {build["table"] for build in builds(shop)}
    begun = []

    def cancels(task):
        begun.append(task)
        if len(begun) == 3:
            gone = shop.client.delete(f"/v1/builds/{VIEW}").json()["cancelled"]
            assert {VIEW} < set(gone)
        return attempt(task)

    with pytest.raises(NotFound, match="not to be built any more"):
        drive(shop, cancels, workers=1)
    shop.run(shop.database.keeper.wait_built())
    assert not tables & set(shop.run(shop.database.store.tables()))
    assert shop.client.get(f"/v1/views/{VIEW}").status_code == 404
    assert shop.verify() == 0
    assert shop.apply(**PLAN).status_code == 200
    assert state(shop) == "readable"
    assert shop.verify() == 0


def test_only_immediate_views_fail_as_a_whole(shop):
    table = shop.database.catalog.layout(VIEW).table
    for name, status in ((table, 422), ("a.nowhere.1", 404)):
        refused = shop.post("/v1/build_failures", {"table": name, "error": "none"})
        assert refused.status_code == status, refused.text
    assert state(shop) == "building"
    drive(shop)
    assert state(shop) == "readable"


def test_a_failed_task_is_retried_a_limited_number_of_times(shop):
    failures = []

    def fails(task):
        failures.append(task.start)
        return Failed("a disk is full") if len(failures) < job.ATTEMPTS else attempt(task)

    drive(shop, fails, workers=1)
    assert len(set(failures[: job.ATTEMPTS])) == 1
    assert shop.verify() == 0
    with pytest.raises(Unavailable, match="a disk is full"):
        drive(shop, lambda task: Failed("a disk is full"), names=[VIEW], rebuild=True)
    assert state(shop) == "building"
    drive(shop)
    assert state(shop) == "readable"
    assert shop.verify() == 0


def test_tasks_keep_the_rate(shop, monkeypatch):
    """A task reads as many rows as its share of the rate allows in SLICE_S, and then waits."""
    waited, read = [], []

    async def pause(seconds):
        waited.append(seconds)

    def notes(task):
        done = attempt(task)
        read.append(done.scanned)
        return done

    monkeypatch.setattr("hornbeam_server.pipeline.build.executor.pause", pause)
    monkeypatch.setattr(job, "SLICE_S", 5.0)
    drive(shop, notes, rate=200, workers=2)
    assert sum(read) == ORDERS
    assert max(read) == 500
    assert sum(seconds > 1 for seconds in waited) >= ORDERS // 500
    assert state(shop) == "readable"
    assert shop.verify() == 0


def test_a_small_relation_is_built_in_parallel_parts(shop):
    parts = []

    def notes(task):
        parts.append(done := attempt(task))
        return done

    drive(shop, notes, workers=3)
    assert sorted(part.scanned for part in parts) == [499, *[500] * 4, 501]
    assert shop.verify() == 0
    assert shop.transact("DELETE FROM orders").is_success
    drive(shop, notes, names=[VIEW], rebuild=True)
    assert len(parts) == 6, "of an empty relation nothing is built"
    assert state(shop) == "readable"


def test_two_drivers_may_build_the_same_view(shop, monkeypatch):
    """The second driver builds all ranges during the first task of the other."""
    monkeypatch.setattr(job, "SLICE_S", 0.0)
    overtaken = []

    def run(task):
        if not overtaken:
            overtaken.append(drive(shop))
        return attempt(task)

    slower = drive(shop, run, workers=1)
    assert overtaken[0].scanned == ORDERS
    assert slower.scanned == 0
    assert state(shop) == "readable"
    assert shop.verify() == 0


def test_a_readable_view_is_rebuilt_only_on_request(shop):
    drive(shop)
    table = shop.database.catalog.layout(VIEW).table
    assert {build.state for build in asked(shop)} == {"readable"}
    assert job.materialize(url_of(shop), [VIEW]).readable[0] == VIEW
    drive(shop, names=[VIEW], rebuild=True)
    assert shop.database.catalog.layout(VIEW).table != table
    assert shop.verify() == 0


def asked(shop):
    with node_of(shop) as node:
        return begun(node, [VIEW])


def test_an_embedded_folder_is_refused(tmp_path):
    with pytest.raises(InvalidRequest, match="beside a node"):
        job.materialize(f"hornbeam:///{tmp_path}", [])


def test_spark_builds_while_a_writer_writes(spark, shop):
    with writing(shop):
        report = drive(shop, job.on_spark(spark.sparkContext), workers=2)
    assert report.scanned > 0
    assert state(shop) == "readable"
    assert shop.verify() == 0


def test_a_second_driver_continues_the_build_of_a_killed_one(spark, shop):
    """A writer writes all the time. The second driver builds only the missing ranges."""
    script = (
        "import hornbeam_server.pipeline.build.driver as job; job.SLICE_S = 0.5;"
        "from hornbeam.cli import main; main()"
    )
    command = [sys.executable, "-c", script, "materialize", "--url", url_of(shop)]
    command += ["--master", "local[2]", "--rate", "800"]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "JAVA_TOOL_OPTIONS": QUICK_JAVA}
    with writing(shop):
        first = subprocess.Popen(command, env=environment, start_new_session=True)
        while not any(build["scanned"] for build in builds(shop)):
            assert first.poll() is None, "it ended by itself"
            time.sleep(0.1)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        left = settled(shop)
        missing = left[0]["missing"]  # the view and its indexes are built together
        assert all(build["missing"] == missing for build in left)
        assert missing != [["", None]]
        assert state(shop) == "building"
        began = []
        on_spark = job.on_spark(spark.sparkContext)

        def run(task):
            began.append(task.start.hex())
            return on_spark(task)

        drive(shop, run)
    assert {start for start, _ in missing} <= set(began)
    for start in began:
        assert any(a <= start and (b is None or start < b) for a, b in missing), start
    assert state(shop) == "readable"
    assert shop.verify() == 0


def test_the_command_line_builds_and_cancels(shop):
    def run(*arguments):
        return CliRunner().invoke(app, ["materialize", "--url", url_of(shop), *arguments])

    listed = shop.client.get("/v1/views?sizes=false").json()
    assert listed[0]["progress"]["elsewhere"]
    cancelled = run("--cancel", VIEW, "--json")
    assert VIEW in json.loads(cancelled.output)["cancelled"]
    assert "There is nothing to build" in run().output
    assert run("--cancel").exit_code != 0
    refused = run("nowhere")
    assert isinstance(refused.exception, DatabaseError)
    assert "no view" in str(refused.exception)
    assert shop.apply(**PLAN).status_code == 200
    assert json.loads(run(VIEW, "--json").output)["readable"][0] == VIEW
    assert "--rebuild" in run(VIEW).output
