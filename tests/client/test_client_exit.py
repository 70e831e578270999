"""A process with an embedded database that ends without `close()`: silently, quickly, with its exit
code and everything that it has committed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import hornbeam
from tests.client import client_world
from tests.depth import depth

BEGIN = """
import asyncio, atexit, multiprocessing, os, sys, threading, time
import hornbeam
from hornbeam import aio
from hornbeam.pool import AsyncPool, Pool

url = sys.argv[1]
db = hornbeam.connect(url)
cursor = db.cursor()
cursor.execute("CREATE TABLE t (n BIGINT PRIMARY KEY)")

def insert(db, n):
    db.cursor().execute("INSERT INTO t VALUES (?)", (n,))
    db.commit()

insert(db, 1)
"""
STREAM = """
cursor.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(2, 301)])
db.commit()
large = "SELECT a.n, b.n AS m, repeat('x', 100) AS text FROM t a, t b"
batches = hornbeam.connect(url).cursor().arrow_batches(large)
next(batches)
cursor.execute("DELETE FROM t WHERE n > 1")
db.commit()
"""
POOL = """
pool = Pool(url)
with pool.connection() as lent:
    insert(lent, 2)
held = pool.connection().__enter__()
held.cursor().execute("INSERT INTO t VALUES (3)")
"""
AIO = """
async def main():
    held = await aio.connect(url).__aenter__()
    await held.cursor().execute("INSERT INTO t VALUES (2)")
    await held.commit()
    pool = AsyncPool(url)
    async with pool.connection() as lent:
        await lent.cursor().execute("INSERT INTO t VALUES (3)")
    await held.cursor().execute("INSERT INTO t VALUES (4)")

asyncio.run(main())
"""
DAEMON = """
def work(db):
    while True:
        db.cursor().execute("SELECT count(*) FROM t").fetchall()

for _ in range(3):
    threading.Thread(target=work, args=(hornbeam.connect(url),), daemon=True).start()
time.sleep(0.1)
"""
LATE = """
def use():
    threading.main_thread().join()
    hornbeam.connect(url)

def use_aio():
    threading.main_thread().join()
    asyncio.run(aio.connect(url).__aenter__())

async def held():
    async with aio.connect(url) as connection:
        threading.main_thread().join()
        time.sleep(0.5)  # the database is closed
        await connection.cursor().execute("SELECT 1")

for work in (use, use_aio, lambda: asyncio.run(held())):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
DELAYED = "atexit.register(time.sleep, 1.5)  # longer than the committer's CHECKPOINT_INTERVAL_S\n"
CLOSED_LATE = "atexit.register(db.close)\natexit.register(Pool(url).close)\n"
FORKED = """
cursor.execute("INSERT INTO t VALUES (2)")
pid = os.fork()
if pid == 0:
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
db.commit()
"""
CLOSED_IN_FORK = """
pid = os.fork()
if pid == 0:
    db.close()
    sys.exit()
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
insert(db, 2)
"""
CHILD = """
def child():
    try:
        db.cursor().execute("SELECT 1")
    except hornbeam.InterfaceError as error:
        assert "has forked this one" in str(error)
    else:
        raise AssertionError("A forked process has no database.")

process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
assert process.exitcode == 0
insert(db, 2)
"""


def ended(tmp_path: Path, script: str) -> tuple[int, str, list[int]]:
    """Exit code and error output of a process that runs `script`, and the numbers in its table."""
    url = client_world.embedded(tmp_path / "db")
    command = [sys.executable, "-c", BEGIN + script, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    with hornbeam.connect(url) as db:
        found = db.cursor().execute("SELECT n FROM t ORDER BY n").fetchall()
    return done.returncode, done.stderr, [n for (n,) in found]


@pytest.mark.parametrize(
    ("script", "code", "rows"),
    [
        ("", 0, [1]),
        ("cursor.execute('INSERT INTO t VALUES (2)')\nsys.exit(5)", 5, [1]),
        (DELAYED + STREAM, 0, [1]),
        (DELAYED + POOL, 0, [1, 2]),
        (DELAYED + AIO, 0, [1, 2, 3]),
        (DELAYED + DAEMON, 0, [1]),
        (DELAYED + LATE, 0, [1]),
        (CLOSED_LATE, 0, [1]),
        (FORKED, 0, [1, 2]),
        (CLOSED_IN_FORK, 0, [1, 2]),
        (CHILD, 0, [1, 2]),
    ],
    ids=[
        *("end", "sys.exit in a transaction", "stream", "pool", "aio"),
        *("daemon threads", "late daemon threads", "closed by atexit", "fork"),
        *("closed in a fork", "multiprocessing"),
    ],
)
def test_a_process_ends_silently_without_close(
    tmp_path: Path, script: str, code: int, rows: list[int]
) -> None:
    assert ended(tmp_path, script) == (code, "", rows)


def test_an_exception_in_a_transaction_is_all_that_is_written(tmp_path: Path) -> None:
    failing = "cursor.execute('INSERT INTO t VALUES (2)')\nraise ValueError('ours')"
    code, written, rows = ended(tmp_path, DELAYED + failing)
    assert (code, rows) == (1, [1])
    assert written.startswith("Traceback")
    assert written.endswith("ValueError: ours\n")
    assert written.count("Traceback") == 1
    assert "hornbeam" not in written


def test_many_ends_in_the_middle_of_writes_lose_nothing_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    script = """
def write(start):
    db = hornbeam.connect(url)
    for n in range(start, start + 100_000):
        insert(db, n)
        os.write(1, b'%d\\n' % n)  # one call, so that threads do not mix their lines

for number in range(1, 4):
    threading.Thread(target=write, args=(number * 100_000,), daemon=True).start()
time.sleep(0.15)
"""
    for attempt in range(depth(2, long=5)):
        url = client_world.embedded(tmp_path / f"db{attempt}")
        command = [sys.executable, "-c", BEGIN + script, url]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert time.monotonic() - began < 30
        with hornbeam.connect(url) as db:
            found = {n for (n,) in db.cursor().execute("SELECT n FROM t").fetchall()}
        assert {int(line) for line in done.stdout.split()} <= found


def test_a_thread_that_outlives_the_main_thread_is_told_how_to_go_on(tmp_path: Path) -> None:
    script = """
def write():
    threading.main_thread().join()
    time.sleep(0.3)
    for use in (lambda: insert(db, 2), lambda: hornbeam.connect(url)):
        try:
            use()
        except hornbeam.InterfaceError as error:
            assert "main thread has ended" in str(error), error
        else:
            os._exit(9)
    db.close()

    async def use_aio():
        try:
            async with aio.connect(url):
                os._exit(9)
        except hornbeam.InterfaceError as error:
            assert "main thread has ended" in str(error), error

    asyncio.run(use_aio())
    os._exit(7)

threading.Thread(target=write).start()
"""
    assert ended(tmp_path, script) == (7, "", [1])
