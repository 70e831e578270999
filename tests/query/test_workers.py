"""Statements in worker processes: memory, time and crashes of one do not affect another."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import parse_one

from hornbeam_server.query.duckdb import scalar
from hornbeam_server.query.duckdb.session import DuckSession
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.workers import messages
from hornbeam_server.query.workers.control import Options
from hornbeam_server.query.workers.messages import Envelope, Failed, Query, Register, Reply, Rows
from hornbeam_server.query.workers.places import CLIENT
from hornbeam_server.query.workers.pool import ThreadWorkers, Workers
from hornbeam_server.query.workers.processes import (
    FORK_SERVER,
    InlineWorker,
    WorkerProcess,
    fork_worker,
)
from hornbeam_server.schema.errors import (
    Closing,
    LimitExceeded,
    MemoryExceeded,
    SqlError,
    StatementTimeout,
    TypeMismatch,
)
from hornbeam_server.schema.types import ColumnType, Kind
from tests.query.query_world import UNINTERRUPTIBLE, MemoryReader, make_catalog, sample

CATALOG = make_catalog()
BASE = sample()
SMALL = "SELECT count(*) FROM range(10)"
SLOW = f"SELECT {UNINTERRUPTIBLE}"
MEMORY = [
    "SELECT sum(length(repeat('x', 100000000 + x))) FROM range(1000) t(x)",
    "SELECT list_sort(range(1000000000))[1]",
    "SELECT length(lpad('x', 2000000000, 'y'))",
    "SELECT length(string_agg(repeat('x', 1000000), ',')) FROM range(100000)",
    "SELECT len(list(repeat('x', 100000))) FROM range(100000)",
    "SELECT length(repeat('x', 30000) || repeat(repeat('y', 100000), 20000))",
    "SELECT len(string_split(repeat('a,', 500000000), ','))",
    "SELECT count(*) FROM (SELECT unnest(range(1000000000)))"
    " WHERE length(repeat('x', 1000000000)) = 1",
    "SELECT len(map_keys(map_from_entries(list_transform(range(200000000), lambda x: (x, x)))))",
    "SELECT length(bitstring('0', 2000000000)::VARCHAR)",
]


@asynccontextmanager
async def with_engine(**options: Any):
    engine = QueryEngine(Options(), **options)
    try:
        yield engine
    finally:
        engine.close()


async def rows(engine: QueryEngine, sql: str, timeout_s: float = 60) -> list[Any]:
    deadline = asyncio.get_running_loop().time() + timeout_s
    query = engine.prepare(sql, CATALOG)
    return await (await query.run(MemoryReader(CATALOG, BASE), deadline=deadline)).all()


def alive(pid: int) -> bool:
    """Whether a thread of the process still runs. The first thread may end before the others, and
    the last thread closes the process's sockets."""
    threads: list[Path] = []
    with contextlib.suppress(OSError):
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    return any(map(running, threads))


def running(thread: Path) -> bool:
    with contextlib.suppress(OSError):
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def wait_until(condition: Callable[[], bool], within_s: float = 20) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def processes(engine: QueryEngine) -> list[WorkerProcess]:
    return [worker for worker in engine.workers._idle if isinstance(worker, WorkerProcess)]


@pytest.mark.parametrize("sql", MEMORY)
async def test_memory_of_scalar_functions_is_limited(sql):
    """Some statements reach their time limit before they need the memory."""
    async with with_engine() as engine:
        began = time.monotonic()
        with pytest.raises((MemoryExceeded, StatementTimeout)) as caught:
            await rows(engine, sql, timeout_s=5)
        assert caught.value.cure
        assert time.monotonic() - began < 20
        assert await rows(engine, SMALL) == [(10,)]


async def test_a_worker_that_exceeded_its_memory_is_not_used_again():
    async with with_engine() as engine:
        await rows(engine, SMALL)
        (first,) = processes(engine)
        with pytest.raises(MemoryExceeded):
            await rows(engine, MEMORY[0])
        await rows(engine, SMALL)
        assert all(worker.pid != first.pid for worker in processes(engine))


async def test_an_uninterruptible_statement_ends_at_its_limit():
    async with with_engine() as engine:
        await rows(engine, SMALL)
        (worker,) = processes(engine)
        began = time.monotonic()
        with pytest.raises(StatementTimeout):
            await rows(engine, SLOW, timeout_s=0.3)
        assert time.monotonic() - began < 5
        wait_until(lambda: not alive(worker.pid))
        assert await rows(engine, SMALL) == [(10,)]


async def test_small_statements_run_beside_long_ones_of_the_same_client():
    """Each long statement occupies a place for longer than the test takes."""
    async with with_engine(places=2) as engine:
        slow = [asyncio.ensure_future(rows(engine, SLOW, timeout_s=40)) for _ in range(6)]
        await asyncio.sleep(1)
        for _ in range(3):
            assert await rows(engine, SMALL, timeout_s=20) == [(10,)]
        assert not any(task.done() for task in slow)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


async def test_a_client_does_not_wait_behind_the_queue_of_another():
    async with with_engine(places=2) as engine:
        slow = [asyncio.ensure_future(rows(engine, SLOW, timeout_s=2)) for _ in range(40)]
        await asyncio.sleep(0.5)
        CLIENT.set("another")
        began = time.monotonic()
        assert await rows(engine, SMALL, timeout_s=30) == [(10,)]
        assert time.monotonic() - began < 10
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


async def test_slow_readers_block_no_other_statement():
    async with with_engine(places=2, processes=8) as engine:
        query = engine.prepare("SELECT x FROM range(1000000) t(x)", CATALOG)
        streams = [await query.run(MemoryReader(CATALOG, BASE)) for _ in range(6)]
        assert await rows(engine, SMALL, timeout_s=20) == [(10,)]
        for stream in streams:
            assert sum([len(part) async for part in stream.batches()]) == 1_000_000


async def test_closing_an_unfinished_stream_frees_its_worker():
    async with with_engine(places=2, processes=2) as engine:
        for _ in range(5):
            query = engine.prepare("SELECT x FROM range(1000000) t(x)", CATALOG)
            stream = await query.run(MemoryReader(CATALOG, BASE))
            await stream.close()
            assert await rows(engine, SMALL) == [(10,)]


async def test_a_worker_that_is_killed_fails_one_statement():
    async with with_engine() as engine:
        await rows(engine, SMALL)
        (worker,) = processes(engine)
        task = asyncio.ensure_future(rows(engine, SLOW))
        await asyncio.sleep(0.3)
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(MemoryExceeded, match="has ended"):
            await task
        assert await rows(engine, SMALL) == [(10,)]


async def test_an_idle_worker_that_is_killed_fails_no_statement():
    async with with_engine() as engine:
        await rows(engine, SMALL)
        (worker,) = processes(engine)
        os.kill(worker.pid, signal.SIGKILL)
        wait_until(lambda: not alive(worker.pid))
        assert await rows(engine, SMALL) == [(10,)]


async def test_a_worker_killed_during_its_reply_is_not_used_again():
    async with with_engine() as engine:
        await rows(engine, SMALL)
        (worker,) = processes(engine)
        reply = worker._reply

        def killed(envelope: Envelope) -> Reply:
            worker.kill()
            return reply(envelope)

        worker._reply = killed  # type: ignore[method-assign]
        await worker.ask([Query("SELECT 1", {})])
        assert worker.spent
        for _ in range(3):
            assert await rows(engine, SMALL) == [(10,)]


async def test_a_fork_server_that_is_killed_is_replaced():
    async with with_engine() as engine:
        await rows(engine, SMALL)
        (worker,) = processes(engine)
        assert FORK_SERVER._process is not None
        FORK_SERVER._process.kill()
        wait_until(lambda: not alive(worker.pid))  # workers do not outlive the fork server
        assert await rows(engine, SMALL) == [(10,)]  # a new worker answers


def test_all_pools_of_an_engine_have_its_threads():
    made: list[int] = []

    def new_threads(number: int) -> Executor:
        made.append(number)
        return ThreadPoolExecutor(number)

    engine = QueryEngine(places=3, new_threads=new_threads)
    for pool in (engine.workers, engine.checking, engine._expressions):
        assert isinstance(pool.threads, ThreadPoolExecutor)
    engine.close()
    assert made == [3, 1, 3]


async def test_workers_end_with_their_engine():
    async with with_engine() as engine:
        await rows(engine, SMALL)
        slow = asyncio.ensure_future(rows(engine, SLOW))
        await asyncio.sleep(0.5)
        pids = [w.pid for w in (*processes(engine), *engine.workers._used)]
        engine.close()
        with pytest.raises(Closing):
            await slow

    assert pids
    wait_until(lambda: not any(map(alive, pids)))


_CHILD = """
import asyncio, sys
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.duckdb.session import DuckSession
async def main():
    engine = QueryEngine()
    async with DuckSession(engine.workers) as session:
        await session.run("SELECT 1")
        print(session._worker.pid, flush=True)
        await session.run(sys.argv[1])
    engine.close()
asyncio.run(main())
"""


@pytest.mark.parametrize("sql", ["SELECT 1", SLOW])
def test_workers_end_when_the_server_process_is_killed(sql):
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, sql], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    assert child.stdout is not None
    with child, child.stdout:
        pid = int(child.stdout.readline())
        assert alive(pid) or sql != SLOW
        child.kill()
        wait_until(lambda: not alive(pid))


async def test_a_session_leaves_no_tables_to_the_next():
    workers = Workers(Options())
    table = pa.table({"x": [1]})
    async with DuckSession(workers) as first:
        first.register("seen", table)
        await first.append("made", table, first=True)
        await first.run("CREATE TEMP TABLE other AS SELECT 1")
    for name in ("seen", "made", "other"):
        async with DuckSession(workers) as second:
            with pytest.raises(SqlError, match="does not exist"):
                await second.run(f"SELECT * FROM {name}")
    workers.close()


async def test_spilled_files_are_removed_with_the_worker(tmp_path):
    workers = Workers(Options(memory_mb=32, spill_folder=tmp_path / "spill"))
    async with DuckSession(workers) as session:
        await session.run(
            "CREATE TEMP TABLE t AS SELECT hash(x) h, repeat('x', 100) s FROM range(2000000) t(x)"
        )
        spilled = [p for p in (tmp_path / "spill").rglob("*") if p.is_file()]
        assert sum(p.stat().st_size for p in spilled) > 1 << 20
        assert session._worker is not None
        session._worker.kill()
    await asyncio.to_thread(wait_until, lambda: not list((tmp_path / "spill").iterdir()))
    workers.close()


def evaluated(engine: QueryEngine, sql: str) -> Coroutine[Any, Any, list[Any]]:
    node = parse_one(sql, dialect="duckdb")
    return engine.evaluate(lambda: scalar.evaluate(node, (), [()]))


async def test_expressions_of_writes_have_the_same_limits():
    async with with_engine() as engine:
        assert await evaluated(engine, "1 + 1") == [2]
        with pytest.raises(MemoryExceeded):
            await evaluated(engine, "length(repeat('x', 2000000000))")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await evaluated(engine, UNINTERRUPTIBLE)
        assert await evaluated(engine, "1 + 1") == [2]


async def test_expressions_that_are_preempted_start_again():
    async with with_engine(places=2) as engine:
        slow = [asyncio.ensure_future(evaluated(engine, UNINTERRUPTIBLE)) for _ in range(4)]
        await asyncio.sleep(1)
        assert await evaluated(engine, "1 + 1") == [2]
        assert not any(task.done() for task in slow)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


def test_a_worker_is_discarded_that_is_forked_after_its_caller_and_event_loop_ended(monkeypatch):
    begun, go, discarded = threading.Event(), threading.Event(), threading.Event()

    class Forked:
        def discard(self) -> None:
            discarded.set()

    def fork(_: Options) -> Forked:
        begun.set()
        assert go.wait(20)
        return Forked()

    async def cancelled() -> None:
        asked = asyncio.ensure_future(fork_worker(Options()))
        await asyncio.to_thread(begun.wait)
        asked.cancel()
        await asyncio.wait([asked])

    monkeypatch.setattr(FORK_SERVER, "fork", fork)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(cancelled())
    loop.close()
    go.set()
    assert discarded.wait(20)


def test_threads_wait_for_their_worker_up_to_their_limit():
    workers = ThreadWorkers(Options())
    with workers.worker() as worker:
        with pytest.raises(StatementTimeout):
            worker.ask_in_thread([Query(SLOW, {})], 0.3)
        assert worker.spent
    with workers.worker() as worker:
        found = worker.ask_in_thread([Query("SELECT 42", {})], 30)
        assert isinstance(found, Rows)
        worker.kill()  # no worker is left running


def test_large_rows_are_refused_before_they_reach_the_server():
    worker = InlineWorker(Options(memory_mb=1_024))
    with pytest.raises(LimitExceeded, match="A row of the result has 80000"):
        worker.ask_in_thread([Query("SELECT repeat('x', 80000000)", {})])
    worker.discard()


async def test_batches_are_bounded_by_bytes():
    async with with_engine() as engine:
        query = engine.prepare("SELECT repeat('x', 1000000) FROM range(20)", CATALOG)
        stream = await query.run(MemoryReader(CATALOG, BASE))
        parts = [part async for part in stream.arrow()]
        assert sum(part.num_rows for part in parts) == 20
        assert max(part.nbytes for part in parts) <= 6_000_000  # 4 MiB plus one row


def test_messages_survive_a_round_trip():
    table = pa.table({"x": [1, None], "s": ["a", "b"]})
    for request in (Register("t", table), Query("SELECT 1", {"p": Decimal("1.50"), "q": 2**70})):
        frame = memoryview(b"".join(messages.encode_request(request)))
        head_bytes, body_bytes = messages.HEADER.unpack(frame[: messages.HEADER.size])
        content = frame[messages.HEADER.size :]
        assert len(content) == head_bytes + body_bytes
        assert messages.decode_request(content[:head_bytes], content[head_bytes:]) == request
    (batch,) = table.to_batches()
    types = [ColumnType(Kind.DECIMAL, 10, 2), ColumnType(Kind.TEXT, length=3)]
    for reply in (
        Rows(["x", "s"], types, last=True, batch=batch),
        Rows([], [], last=True),
        messages.Described(["x"], ["HUGEINT"], [ColumnType(Kind.DECIMAL, 38, 0)]),
        messages.Done(),
        Failed("sql-invalid", "No.", "Yes.", {"at": 3}),
    ):
        frame = memoryview(b"".join(messages.encode_reply(reply, 7)))
        head_bytes, _ = messages.HEADER.unpack(frame[: messages.HEADER.size])
        content = frame[messages.HEADER.size :]
        found = messages.decode_reply(content[:head_bytes], content[head_bytes:])
        assert found == messages.Envelope(reply, 7)


@pytest.mark.parametrize("kind", [SqlError, TypeMismatch, LimitExceeded, MemoryExceeded])
def test_errors_keep_their_type_between_processes(kind):
    error = messages.raised(messages.failed(kind("No.", cure="Yes.", at=3)))
    assert type(error) is kind
    assert isinstance(error, kind)
    assert (error.message, error.cure, error.details) == ("No.", "Yes.", {"at": 3})


def test_a_worker_cannot_send_the_server_an_unbounded_message():
    ours, theirs = socket.socketpair()
    with theirs:
        worker = WorkerProcess(FORK_SERVER, 0, ours)
        theirs.sendall(messages.HEADER.pack(10, messages.MAX_BODY_BYTES + 1))
        with pytest.raises(MemoryExceeded):
            worker.ask_in_thread([Query("SELECT 1", {})])


def test_a_normal_exit_prints_no_errors():
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, "SELECT 2"], capture_output=True, text=True, check=True
    )
    assert child.stdout.strip().isdigit()
    assert not child.stderr


def test_the_server_process_does_not_load_duckdb():
    program = (
        "import sys; from hornbeam_server.api.rest import app; "
        "from hornbeam_server.node import database; "
        "sys.exit('duckdb' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
