"""Reconciliation of a live HBase: while a writer writes, it finds exactly the planted damage and
repairs it."""

import asyncio
import threading
from contextlib import closing, contextmanager

import msgspec
import pytest

import hornbeam
from bench.nodes import NodeProcesses
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.reconcile import job
from hornbeam_server.pipeline.reconcile.report import Fault
from hornbeam_server.pipeline.spark import export as exports
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Put
from tests.pipeline.test_pipeline_hbase import DDL, WORKLOAD

pytestmark = pytest.mark.timeout(300)
CUSTOMERS, ORDERS = 40, 400
VIEW, ORDER_INDEX = "customer__orders", "orders__by_o_c_id"
DAMAGED = {
    VIEW: {"missing": 2, "extra": 1, "different": 1, "misplaced": 1, "undecodable": 1},
    ORDER_INDEX: {"missing": 1, "extra": 1, "different": 0, "misplaced": 0, "undecodable": 0},
}


def fill(db):
    plan = {"ddl": DDL, "workload": WORKLOAD, "roots": None}
    planned = db.transport.json("POST", "/v1/schema/plan", plan)
    db.transport.json("POST", "/v1/schema/apply", plan | {"plan_id": planned["plan_id"]})
    cursor = db.cursor()
    cursor.executemany(
        "INSERT INTO customer VALUES (?, ?)", [(n, f"name {n}") for n in range(CUSTOMERS)]
    )
    cursor.executemany(
        "INSERT INTO orders VALUES (?, ?, ?)",
        [(n, n % CUSTOMERS, f"{n}.50") for n in range(ORDERS)],
    )


@contextmanager
def writing(url):
    """Run a writer that changes rows of undamaged customers all the time. It completes a round
    before the body, and another before the end."""
    committed, stop = threading.Semaphore(0), threading.Event()
    failed = []

    def write():
        try:
            with hornbeam.connect(url, autocommit=True) as db:
                cursor, n = db.cursor(), 0
                while not stop.is_set():
                    n += 1
                    customer, order = 20 + n % 10, ORDERS // 2 + n % (ORDERS // 2)
                    cursor.execute("UPDATE orders SET o_c_id = ? WHERE o_id = ?", (customer, order))
                    cursor.execute("INSERT INTO orders VALUES (?, ?, 1)", (10_000 + n, customer))
                    cursor.execute(
                        "UPDATE customer SET c_name = ? WHERE c_id = ?", (f"n {n}", customer)
                    )
                    committed.release()
        except Exception as error:
            failed.append(error)
            committed.release(1_000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        committed.acquire()
        yield
        committed.acquire()
    finally:
        stop.set()
        writer.join()
    assert not failed, failed


async def damage(export):
    """Write damaged cells directly into HBase, past the nodes."""
    store = export.open()
    codecs = export.codecs()

    async def plant(name, cells):
        await store.put({codecs(name).layout.table: cells}, export.snapshot)

    async def stored(name, key):
        encoded = codecs(name).key_of(key)
        (cell,) = await store.get(codecs(name).layout.table, [encoded], NEWEST)
        return encoded, cell.value

    try:
        view, index = codecs(VIEW), codecs(ORDER_INDEX)
        missing, _ = await stored(VIEW, (3,))
        extra = view.decode((await stored(VIEW, (4,)))[1])
        moved, value = await stored(VIEW, (5,))
        other, changed = await stored(VIEW, (6,))
        unreadable, _ = await stored(VIEW, (7,))
        stranger = (*extra[:-3], 5_000, *extra[-2:])
        row = view.decode(changed)
        await plant(
            VIEW,
            [
                Put(missing, TOMBSTONE),
                Put(view.key(stranger), view.encode(stranger)),
                Put(moved, TOMBSTONE),
                Put(view.key_of((6_000,)), value),
                Put(other, view.encode((*row[:1], "?", *row[2:]))),
                Put(unreadable, b"\x01\xc1"),
            ],
        )
        gone = index.key_of((8, 8))
        await plant(
            ORDER_INDEX,
            [Put(gone, TOMBSTONE), Put(index.key_of((9, 7_000)), index.encode((9, 7_000)))],
        )
    finally:
        await store.close()


def differing(report):
    return {
        item.name: {str(fault): item.count(fault) for fault in Fault}
        for item in report.checked
        if item.differences
    }


def test_damage_of_a_live_cluster_is_found_and_repaired(spark, real_cluster, tmp_path):
    with (
        NodeProcesses(real_cluster, tmp_path, 2, database="reconcile") as nodes,
        hornbeam.connect(nodes.client_url, autocommit=True) as db,
        closing(open_transport(parse_url(nodes.client_url), 60)) as transport,
    ):
        fill(db)
        with writing(nodes.client_url):
            asyncio.run(damage(exports.begin(transport)))
            # A commit after the damage: a later export has it, and with it the damage.
            db.cursor().execute("INSERT INTO orders VALUES (1000, 30, 1)")
            report, _ = job.reconcile(spark.sparkContext, transport, nodes.client_url)
            assert differing(report) == DAMAGED
            report, _ = job.reconcile(spark.sparkContext, transport, nodes.client_url, repair=True)
            assert differing(report) == {}
            repaired = {item.name: item.repaired for item in report.checked if item.repaired}
            assert repaired == {name: sum(found.values()) for name, found in DAMAGED.items()}
        with db.transport.stream("/v1/verify", {}) as answer:
            last = msgspec.json.decode(list(answer.lines())[-1])
        assert last["report"]["differences"] == 0
