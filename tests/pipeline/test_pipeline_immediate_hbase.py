"""Spark builds and reconciles an immediate view on a real HBase with three nodes, while a writer
writes at all of them."""

import asyncio
import json
import threading
from contextlib import closing

import pytest

import hornbeam
from bench.nodes import NodeProcesses
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.build.driver import build_all
from hornbeam_server.pipeline.build.leader import begun
from hornbeam_server.pipeline.reconcile import job
from hornbeam_server.pipeline.spark import export as exports
from hornbeam_server.storage.codec.folds import BASE_LANE
from hornbeam_server.storage.ports import TOMBSTONE, Put
from tests.pipeline.immediate_world import BY_CITY, TABLES

pytestmark = pytest.mark.timeout(600)
SHOPS, SALES = 20, 600
VIEW = "by_city"


def apply(db, ddl, build):
    plan = {"ddl": ddl, "workload": "", "roots": None}
    planned = db.transport.json("POST", "/v1/schema/plan", plan)
    applied = plan | {"plan_id": planned["plan_id"], "build": build}
    db.transport.json("POST", "/v1/schema/apply", applied)


def write(url, own, stop, failed):
    """Change sales and shops whose number is `own` modulo 3."""
    try:
        with hornbeam.connect(url, autocommit=True) as db:
            cursor = db.cursor()
            for n in range(own, 30_000, 3):
                cursor.execute(
                    "UPDATE sale SET s_id = ?, price = price + 1 WHERE id = ?", (n % 18, n % SALES)
                )
                cursor.execute("DELETE FROM sale WHERE id = ?", (n * 7 % SALES,))
                cursor.execute("INSERT INTO sale VALUES (?, ?, NULL, 2)", (10_000 + n, n % SHOPS))
                if n % 5 == 0:
                    city = f"c{n % 4}"
                    cursor.execute("UPDATE shop SET city = ? WHERE s_id = ?", (city, n % SHOPS))
                if stop.is_set():
                    return
    except Exception as error:
        failed.append(error)


def differences(db):
    with db.transport.stream("/v1/verify", {}) as answer:
        *_, last = [json.loads(line) for line in answer.lines() if line.strip()]
    return last["report"]["differences"]


async def damage(export):
    """Remove a cell of the build, past the nodes. Returns the lanes of all cells."""
    store, codec = export.open(), export.codecs()("by_city.cells")
    try:
        found = store.scan(codec.layout.table, b"", None, export.snapshot)
        rows = [codec.decode(cell.value) async for cells in found for cell in cells]
        lane = codec.layout.key_positions[-1]
        gone = next(row for row in rows if row[lane] == BASE_LANE)
        await store.put({codec.layout.table: [Put(codec.key(gone), TOMBSTONE)]}, export.snapshot)
        return {row[lane] for row in rows}
    finally:
        await store.close()


def test_a_view_is_built_compared_and_repaired_while_three_nodes_write(
    spark, real_cluster, tmp_path
):
    with (
        NodeProcesses(real_cluster, tmp_path, 3, database="immediate") as nodes,
        hornbeam.connect(nodes.client_url, autocommit=True, timeout_s=120) as db,
        closing(open_transport(parse_url(nodes.client_url), 60)) as node,
    ):
        apply(db, TABLES, "node")
        cursor = db.cursor()
        cursor.executemany(
            "INSERT INTO shop VALUES (?, ?, ?)", [(n, f"c{n % 4}", n % 3) for n in range(SHOPS)]
        )
        cursor.executemany(
            "INSERT INTO sale VALUES (?, ?, NULL, ?)", [(n, n % SHOPS, n) for n in range(SALES)]
        )
        apply(db, TABLES + BY_CITY, "spark")
        stop, failed = threading.Event(), []
        writers = [
            threading.Thread(target=write, args=(f"hornbeam://{one.address}", own, stop, failed))
            for own, one in enumerate(nodes.nodes)
        ]
        for writer in writers:
            writer.start()
        try:
            context, builds = spark.sparkContext, begun(node, [VIEW])
            report = build_all(context, node, nodes.client_url, builds, None, lambda *_: None)
            assert report.names == (VIEW,)
            compared, _ = job.reconcile(context, node, nodes.client_url, [VIEW])
            assert compared.differences == 0
            lanes = asyncio.run(damage(exports.begin(node)))
            assert len(lanes - {BASE_LANE}) == 3, "all nodes write"
            damaged, _ = job.reconcile(context, node, nodes.client_url, [VIEW])
            assert damaged.differences == 1
            mended, _ = job.reconcile(context, node, nodes.client_url, [VIEW], repair=True)
            assert mended.differences == 0
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        assert not failed, failed[0]
        assert db.transport.json("GET", f"/v1/views/{VIEW}")["state"] == "readable"
        assert differences(db) == 0
