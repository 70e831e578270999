"""A large transaction is processed in parts and so does not keep others waiting; nor do many reads.

For large transactions the tests measure the processor time of the event loop's thread in one step
of the loop, so other processes do not disturb the measurement.
"""

import asyncio
import gc
import shutil
import time
from asyncio import events
from contextlib import asynccontextmanager, contextmanager

import pytest

from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.txlayer.statements.requests import InsertRows, Statement
from hornbeam_server.txlayer.transactions.manager import TransactionRequest
from tests.txlayer.database_world import opened

ROWS, WRITES = 20_000, 20
LONGEST_S = 0.12
"""In one piece each of these transactions takes from 0.7 to 3 s."""

DDL = """
CREATE TABLE par (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE kid (
  par INTEGER NOT NULL REFERENCES par (id) ON DELETE CASCADE, no INTEGER, t TEXT,
  PRIMARY KEY (par, no));
CREATE TABLE tag (
  id INTEGER PRIMARY KEY, code INTEGER UNIQUE, par INTEGER REFERENCES par (id) ON DELETE SET NULL);
CREATE TABLE free (id INTEGER PRIMARY KEY, t TEXT);
CREATE INDEX tag_by_par ON tag (par);
"""
WORKLOAD = "SELECT * FROM par, kid WHERE par.id = kid.par AND par.id = ?"

FILL = {
    "par": f"INSERT INTO par SELECT x, 'p' || x FROM range({ROWS}) r(x)",
    "kid": f"INSERT INTO kid SELECT x % 10, x, 'k' FROM range({ROWS}) r(x)",
    "tag": f"INSERT INTO tag SELECT x, x, x % 10 FROM range({ROWS}) r(x)",
    "free": f"INSERT INTO free SELECT x, 'f' FROM range({ROWS}) r(x)",
}
LARGE = {
    "a batch of a load": (
        [],
        [InsertRows("free", ("id", "t"), tuple((x, "a") for x in range(ROWS)))],
    ),
    "insert of a query": ([], [FILL["free"]]),
    "insert of many rows": (
        [],
        ["INSERT INTO free VALUES " + ", ".join(f"({x}, 'a')" for x in range(15_000))],
    ),
    "insert with RETURNING": ([], [FILL["free"] + " RETURNING id, t"]),
    "insert below ten roots": (["par"], [FILL["kid"]]),
    "insert under UNIQUE": (["par"], [FILL["tag"]]),
    "insert ON CONFLICT of a key": (
        ["free"],
        [FILL["free"] + " ON CONFLICT (id) DO UPDATE SET t = excluded.t || free.t"],
    ),
    "insert ON CONFLICT of UNIQUE": (
        ["par"],
        [FILL["tag"] + " ON CONFLICT (code) DO UPDATE SET par = excluded.par"],
    ),
    "update of all rows": (["free"], ["UPDATE free SET t = t || 'x'"]),
    "update of all keys": (["free"], [f"UPDATE free SET id = id + {ROWS}"]),
    "update above many rows of a view": (["par", "kid"], ["UPDATE par SET name = 'n'"]),
    "update of roots": (["par", "kid"], ["UPDATE kid SET par = par + 10"]),
    "delete of all rows": (["free"], ["DELETE FROM free"]),
    "delete by a predicate": (["free"], ["DELETE FROM free WHERE t = 'f' AND id >= 5"]),
    "delete of roots and what is below": (["par", "kid"], ["DELETE FROM par WHERE id < 10"]),
    "delete that sets NULL": (["par", "tag"], ["DELETE FROM par WHERE id < 10"]),
    "search over own changes": (
        [],
        [FILL["free"], "UPDATE free SET t = 'b' WHERE t = 'f'"],
    ),
    "a row of its own again and again": (
        ["free"],
        [f"UPDATE free SET t = 'b' WHERE id = {x}" for x in range(1_000)],
    ),
}


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory):
    """A function that makes a folder of a database with some relations filled. Each is filled once,
    and copied for each test."""
    folders = {}

    async def make(folder, filled):
        if filled not in folders:
            folders[filled] = tmp_path_factory.mktemp("filled")
            await fill(folders[filled], filled)
        shutil.copytree(folders[filled], folder, dirs_exist_ok=True)

    return make


async def fill(folder, filled):
    async with opened(folder) as database:
        request = PlanRequest(DDL, WORKLOAD)
        await database.apply_schema(request, database.plan_schema(request).plan_id)
        await database.keeper.wait_built()
        for relation in filled:
            await database.execute(FILL[relation])


@pytest.fixture
def prepared(tmp_path, filled_once):
    @asynccontextmanager
    async def prepared(*filled):
        await filled_once(tmp_path, filled)
        async with opened(tmp_path) as database:
            yield database

    return prepared


def _work(statement):
    return Statement(statement) if isinstance(statement, str) else statement


async def test_reads_that_keep_the_event_loop_busy_do_not_delay_writes(prepared):
    """The log is synced in a thread, which needs the interpreter a few times for each write. The
    test counts reads: with Python's default switch interval there are thousands per write."""
    reads = 0
    async with prepared("free") as database:

        async def read():
            nonlocal reads
            while True:
                await database.fetch("SELECT t FROM free WHERE id = 5")
                reads += 1
                await asyncio.sleep(0)

        reader = asyncio.ensure_future(read())
        for _ in range(WRITES):
            await database.execute("UPDATE free SET t = t || 'x' WHERE id = 7")
        reader.cancel()
    assert 0 < reads < 1_000 * WRITES


@contextmanager
def longest_step(monkeypatch):
    """The processor time, in seconds, of the longest step of the event loop."""
    longest = [0.0]
    run = events.Handle._run

    def timed(handle):
        began = time.thread_time()
        run(handle)
        longest[0] = max(longest[0], time.thread_time() - began)

    gc.collect()
    gc.disable()  # it would walk the objects of all other tests
    try:
        with monkeypatch.context() as patch:
            patch.setattr(events.Handle, "_run", timed)
            yield longest
    finally:
        gc.enable()


@pytest.mark.parametrize("case", LARGE)
async def test_a_large_transaction_runs_in_short_steps(prepared, monkeypatch, case):
    filled, statements = LARGE[case]
    async with prepared(*filled) as database:
        began = time.thread_time()
        with longest_step(monkeypatch) as longest:
            await database.transact(
                TransactionRequest(tuple(map(_work, statements)), timeout_s=120)
            )
        assert longest[0] < LONGEST_S
        assert time.thread_time() - began > 2 * LONGEST_S
