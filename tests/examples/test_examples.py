"""The examples in `examples/`, run as their first lines say, against the demo's database."""

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest
import yaml
from rich.console import Console

import hornbeam
from hornbeam_server.cluster.ports import free_ports
from hornbeam_server.demo.run import load
from hornbeam_server.demo.serving import server
from hornbeam_server.demo.tpcw import PAPER_ROOTS, SCHEMA, WORKLOAD
from hornbeam_server.demo.tpcw.data import Size, user_name
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.node.settings import Settings

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZE = Size(30, 40)
LONGEST, WAIT_S = 60, 60.0


async def filled(folder):
    request = PlanRequest(SCHEMA.read_text(), WORKLOAD.read_text(), roots=PAPER_ROOTS)
    async with await Database.open(Settings(data=folder)) as database:
        await database.apply_schema(request, database.plan_schema(request).plan_id)
        await load(database, SIZE, Console(quiet=True))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Yields the ports of a server of the demo's database: HTTP, and clients of PostgreSQL."""
    folder = tmp_path_factory.mktemp("shop")
    asyncio.run(filled(folder))
    (wire,) = free_ports(1)
    with server(folder, postgresql_port=str(wire)) as (port, _):
        yield port, wire


def environment(ports):
    port, wire = ports
    return os.environ | {"HORNBEAM_URL": f"hornbeam://127.0.0.1:{port}", "PGPORT": str(wire)}


@contextmanager
def running(ports, *command):
    """Run an application that listens at a port; yields a function that requests a path from it."""
    (port,) = free_ports(1)
    given = [str(part).replace("PORT", str(port)) for part in command]
    process = subprocess.Popen(
        [sys.executable, *given], cwd=EXAMPLES.parent, env=environment(ports)
    )

    def asked(path, method="GET"):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
        give_up = time.monotonic() + WAIT_S
        while True:
            try:
                with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, json.load(error)
            except urllib.error.URLError:  # it does not listen yet
                assert process.poll() is None
                assert time.monotonic() < give_up
                time.sleep(0.05)

    try:
        yield asked
    finally:
        process.terminate()
        process.wait()


def test_every_example_is_short_and_tested():
    files = [file for file in EXAMPLES.iterdir() if file.is_file()]
    tested = Path(__file__).read_text()
    assert {file.name for file in files if file.stem not in tested} == set()
    assert {f.name for f in files if len(f.read_text().splitlines()) > LONGEST} == set()


def test_a_web_application_reads_and_writes(served):
    with running(served, "-m", "uvicorn", "--app-dir", EXAMPLES, "web:app", "--port=PORT") as asked:
        with hornbeam.connect(environment(served)["HORNBEAM_URL"]) as db:
            row = db.cursor().execute("SELECT i_subject, i_stock FROM item WHERE i_id = 7")
            ((subject, stock),) = row.fetchall()
        status, books = asked(f"/books?subject={subject}")
        assert status == 200
        assert 7 in [book["i_id"] for book in books]
        assert set(books[0]) == {"i_id", "i_title", "a_fname", "a_lname"}
        assert asked("/books/7/sales?quantity=2", "POST") == (201, {"left": stock - 2})
        assert asked("/books/7/sales?quantity=1000", "POST")[0] == 409
        assert asked("/books/999999/sales", "POST")[0] == 404


def test_results_go_to_duckdb_and_parquet(served, tmp_path):
    file = tmp_path / "orders.parquet"
    command = [sys.executable, EXAMPLES / "analysis.py", file]
    done = subprocess.run(
        command, env=environment(served), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    *countries, last = done.stdout.splitlines()
    assert last == f"{SIZE.orders} orders are in {file}"
    table = pq.read_table(file)
    assert table.num_rows == SIZE.orders
    totals = {}
    for row in table.to_pylist():
        totals[row["co_name"]] = totals.get(row["co_name"], 0) + row["o_total"]
    best = sorted(totals.items(), key=lambda one: (-one[1], one[0]))[:5]
    shown = [(line[:30].strip(), line.split()[-1].replace(",", "")) for line in countries]
    assert shown == [(name, str(total)) for name, total in best]


def test_an_application_of_django_reads_over_postgresqls_protocol(served):
    with hornbeam.connect(environment(served)["HORNBEAM_URL"]) as db:
        (customer, order, total), *_ = db.cursor().execute(
            "SELECT o_c_id, o_id, o_total FROM orders ORDER BY o_c_id, o_id DESC"
        )
    command = EXAMPLES / "django_shop.py", "runserver", "--noreload", "PORT"
    with running(served, *command) as asked:
        status, found = asked(f"/customers/{user_name(customer)}/orders")
        assert status == 200
        assert found["orders"][0] == {"o_id": order, "o_total": str(total)}
        assert asked("/customers/absent/orders") == (200, {"orders": []})


def test_the_data_source_of_grafana_answers_its_queries(served):
    """The queries that Grafana sends: the check of a data source, and those of its query builder
    and of a panel over time. Its plug-in is written in Go, with the protocol of psycopg."""
    (source,) = yaml.safe_load((EXAMPLES / "grafana-datasource.yaml").read_text())["datasources"]
    assert source["type"] == "grafana-postgresql-datasource"
    given = source["jsonData"]
    host, _, port = source["url"].partition(":")
    assert port == "5432"
    with psycopg.connect(
        host=host,
        port=served[1],
        user=source["user"],
        dbname=given["database"],
        sslmode=given["sslmode"],
        autocommit=True,
    ) as connection:
        assert connection.info.server_version // 10_000 == given["postgresVersion"] // 100
        assert connection.execute("SELECT 1").fetchone() == (1,)
        panel = connection.execute(
            "SELECT floor(extract(epoch FROM o_date)/86400)*86400 AS time, count(*) AS orders"
            " FROM orders WHERE o_date BETWEEN '2000-01-01T00:00:00Z' AND '2100-01-01T00:00:00Z'"
            " GROUP BY 1 ORDER BY 1"
        )
        assert sum(row[1] for row in panel) == SIZE.orders
