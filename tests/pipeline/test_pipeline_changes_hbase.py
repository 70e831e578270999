"""Changes from the logs of several nodes on HDFS. One of the nodes dies."""

from collections import Counter
from contextlib import closing

import pytest

import hornbeam
from bench.nodes import NodeProcesses
from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.sources.changes import between, layout_of, read
from hornbeam_server.schema.codec import decode_catalog

pytestmark = pytest.mark.timeout(300)
DDL = """
CREATE TABLE customer (c_id INTEGER PRIMARY KEY, c_name TEXT NOT NULL);
CREATE TABLE orders (
  o_id INTEGER PRIMARY KEY, o_c_id INTEGER REFERENCES customer (c_id), o_total INTEGER);
"""


def apply(db):
    plan = {"ddl": DDL, "workload": "", "roots": None}
    planned = db.transport.json("POST", "/v1/schema/plan", plan)
    db.transport.json("POST", "/v1/schema/apply", plan | {"plan_id": planned["plan_id"]})


def asked(url, after=None):
    with closing(open_transport(parse_url(url), 60)) as transport:
        return between(transport, after)


def rows(db, relation):
    return db.cursor().execute(f"SELECT * FROM {relation}").fetchall()


def added(before, found, relation):
    layout = layout_of(decode_catalog(found.catalog.encode()), relation)
    width, sums = len(layout.columns), Counter(before)
    for part in found.parts(layout, range(width)):
        for batch in read(part):
            for row in map(tuple, (row.values() for row in batch.to_pylist())):
                sums[row[:width]] += row[width]
    return {row: n for row, n in sums.items() if n}


def write(url, first):
    """Insert, update and delete rows through one node."""
    with hornbeam.connect(url, autocommit=True) as db:
        cursor = db.cursor()
        for n in range(first, first + 10):
            cursor.execute("INSERT INTO customer VALUES (?, ?)", (n, f"name {n}"))
            cursor.execute("INSERT INTO orders VALUES (?, ?, ?)", (n, n, 1))
        cursor.execute("UPDATE orders SET o_total = o_total + 1 WHERE o_id >= ?", (first - 5,))
        cursor.execute("DELETE FROM orders WHERE o_id = ?", (first,))


def test_the_logs_of_all_nodes_are_read_including_a_killed_one(real_cluster, tmp_path):
    with NodeProcesses(real_cluster, tmp_path, 2, database="follow") as nodes:
        one, two = (f"hornbeam://{node.address}" for node in nodes.nodes)
        with hornbeam.connect(nodes.client_url, autocommit=True) as db:
            apply(db)
            write(one, 100)
            began = asked(one).upto
            before = {relation: rows(db, relation) for relation in ("customer", "orders")}
            write(one, 200)
            write(two, 300)
            found = asked(one, began)
            assert len({segment.log for segment in found.segments}) == 2
            for relation, known in before.items():
                assert added(known, found, relation) == Counter(rows(db, relation))
            write(two, 400)
            nodes.nodes[1].kill()
            asked(one, began)  # waits until its log is recovered
            nodes.settled()
            write(one, 500)
        with hornbeam.connect(one, autocommit=True) as db:
            found = asked(one, began)
            assert len({segment.log for segment in found.segments}) == 2
            for relation, known in before.items():
                assert added(known, found, relation) == Counter(rows(db, relation))
