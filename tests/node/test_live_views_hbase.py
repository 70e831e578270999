"""A live view on HBase, while the node that keeps it is killed in the middle of a batch."""

import signal
import threading
import time
from contextlib import contextmanager, suppress

import pytest

import hornbeam
from bench.nodes import NodeProcesses
from hornbeam.transport import persistently

pytestmark = pytest.mark.timeout(300)
SELECT = (
    "SELECT c_name, count(*) AS n, sum(o_total) AS total FROM orders JOIN customer ON o_c_id = c_id"
    " GROUP BY c_name"
)
DDL = f"""
CREATE TABLE customer (c_id INTEGER PRIMARY KEY, c_name TEXT NOT NULL);
CREATE TABLE orders (
  o_id INTEGER PRIMARY KEY, o_c_id INTEGER REFERENCES customer (c_id), o_total INTEGER);
CREATE MATERIALIZED VIEW totals WITH (refresh = 'live', interval = '50 ms') AS {SELECT};
"""
CUSTOMERS = 5
WITHIN_S = 120.0


def apply(db):
    plan = {"ddl": DDL, "workload": "", "roots": None}
    planned = db.transport.json("POST", "/v1/schema/plan", plan)
    db.transport.json("POST", "/v1/schema/apply", plan | {"plan_id": planned["plan_id"]})


def group(db):
    (found,) = persistently(lambda: db.transport.json("GET", "/v1/groups"))
    return found


def until(condition):
    end = time.monotonic() + WITHIN_S
    while not (found := condition()):
        assert time.monotonic() < end, "it has not happened in time"
        time.sleep(0.01)
    return found


def require_equal(db):
    """The view has the rows of its SELECT at the snapshot that it shows. Returns the orders."""

    def answer(sql, at):
        body = {"sql": sql, "parameters": []} | ({"snapshot": at} if at else {})
        document = persistently(lambda: db.transport.json("POST", "/v1/query", body))
        return sorted(document["rows"]), document["snapshot"]

    shown, at = answer("SELECT * FROM totals", None)
    assert shown == answer(SELECT, at)[0], at
    return sum(row[1] for row in shown)


@contextmanager
def ordering(url):
    """One order after the other while the context lasts. Gives those that were answered."""
    ended, done = threading.Event(), []

    def run():
        with hornbeam.connect(url, autocommit=True) as db:
            for number in range(1 << 20):
                if ended.is_set():
                    return
                row = (number, number % CUSTOMERS, number)
                with suppress(hornbeam.OperationalError):  # the keeper's locks are being freed
                    db.cursor().execute("INSERT INTO orders VALUES (?, ?, ?)", row)
                    done.append(number)

    writer = threading.Thread(target=run)
    writer.start()
    try:
        yield done
    finally:
        ended.set()
        writer.join(WITHIN_S)


def stopped_in_mid_batch(keeper, db):
    """Freeze a node while a batch is under way, which it therefore has not finished. Returns the
    batch's end."""

    def stopped():
        upto = group(db)["under_way"]
        if upto is None:
            return None
        keeper.process.send_signal(signal.SIGSTOP)
        if group(db)["under_way"] == upto:
            return upto
        keeper.process.send_signal(signal.SIGCONT)
        return None

    return until(stopped)


def test_a_live_view_goes_on_after_its_keeper_is_killed_in_mid_batch(real_cluster, tmp_path):
    settings = {"resident_refresh": "true"}
    with NodeProcesses(real_cluster, tmp_path, 2, "live", settings) as nodes:
        with hornbeam.connect(nodes.client_url, autocommit=True) as db:
            apply(db)
            rows = [(number, f"name {number}") for number in range(CUSTOMERS)]
            db.cursor().executemany("INSERT INTO customer VALUES (?, ?)", rows)
            until(lambda: group(db)["readable"] == ["totals"])
            keeping = group(db)["node"]
        keeper = next(node for node in nodes.nodes if node.url == keeping)
        (other,) = [node for node in nodes.nodes if node is not keeper]
        url = f"hornbeam://{other.address}"
        with hornbeam.connect(url, autocommit=True) as db, ordering(url) as done:
            until(lambda: len(done) > 20)
            upto = stopped_in_mid_batch(keeper, db)
            keeper.kill()
            until(lambda: group(db)["as_of"] >= upto)
            for _ in range(3):
                before = group(db)["as_of"]
                require_equal(db)
                until(lambda before=before: group(db)["as_of"] > before)
            assert group(db)["node"] == other.url
        with hornbeam.connect(url, autocommit=True) as db:
            until(lambda: require_equal(db) >= len(done))
