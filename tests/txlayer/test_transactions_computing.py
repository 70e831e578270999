"""Expressions of writes that DuckDB evaluates: however long they take, the event loop goes on, and
the transaction ends at its time limit."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from hornbeam_server.query.duckdb.session import DuckSession
from hornbeam_server.query.workers.places import Preempted
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import LimitExceeded, StatementTimeout, Unsupported
from hornbeam_server.txlayer.statements.requests import (
    RepeatedStatement,
    Statement,
    TransactionRequest,
)
from tests.txlayer.database_world import catalog_of, opened

DDL = "CREATE TABLE big (b_id INTEGER PRIMARY KEY, b_n BIGINT, b_t TEXT);"
ENDLESS = (
    "list_sum(list_transform(range(3000000), lambda x:"
    " list_sum(list_transform(range(1000), lambda y: x * y % 7))))"
)
PATIENCE_S = 5
"""The expression takes much longer; a busy machine may take this long to stop it."""


@asynccontextmanager
async def on_big(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
        await database.execute("INSERT INTO big VALUES (1, 1, 'x')")
        yield database


@pytest.mark.parametrize(
    "sql",
    [
        f"UPDATE big SET b_n = {ENDLESS} WHERE b_id = 1",
        f"UPDATE big SET b_t = 'y' WHERE b_id = CAST({ENDLESS} AS INTEGER)",
        f"UPDATE big SET b_t = 'y' WHERE b_id = 1 AND b_n < {ENDLESS}",
        f"INSERT INTO big VALUES (2, {ENDLESS}, 'x')",
        f"INSERT INTO big VALUES (1, 1, 'x') ON CONFLICT (b_id) DO UPDATE SET b_n = {ENDLESS}",
        f"DELETE FROM big WHERE b_id = 1 RETURNING {ENDLESS}",
    ],
)
async def test_a_long_expression_is_stopped_and_others_do_not_wait(tmp_path, sql):
    async with on_big(tmp_path) as database:
        turns = 0

        async def others():
            nonlocal turns
            while True:
                await asyncio.sleep(0.01)
                turns += 1

        going = asyncio.create_task(others())
        began = time.monotonic()
        with pytest.raises(StatementTimeout):
            await database.execute(sql, timeout_s=0.5)
        assert time.monotonic() - began < PATIENCE_S
        going.cancel()
        assert turns > 5
        assert database.locks.held_count == 0
        assert await database.fetch("SELECT b_id, b_n, b_t FROM big") == [(1, 1, "x")]


async def test_cancelling_a_transaction_stops_its_evaluation(tmp_path):
    async with on_big(tmp_path) as database:
        task = asyncio.create_task(database.execute(f"UPDATE big SET b_n = {ENDLESS}"))
        await asyncio.sleep(0.1)
        task.cancel()
        began = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < PATIENCE_S
        await database.execute("UPDATE big SET b_t = repeat(b_t, 3)")
        assert await database.fetch("SELECT b_t FROM big") == [("xxx",)]


async def test_memory_is_limited(tmp_path):
    async with on_big(tmp_path) as database:
        with pytest.raises(LimitExceeded, match="more memory"):
            await database.execute("UPDATE big SET b_t = repeat(b_t, 1000000000)")


@pytest.mark.parametrize("call", ["pg_sleep(6)", "sleep_ms(6)"])
async def test_sleeping_is_refused(tmp_path, call):
    async with on_big(tmp_path) as database:
        with pytest.raises(Unsupported, match="only waits"):
            await database.execute(f"UPDATE big SET b_t = CAST({call} AS TEXT)")
        with pytest.raises(Unsupported, match="only waits"):
            await database.fetch(f"SELECT {call}")


async def test_a_repeated_statement_reads_again(tmp_path):
    """Rows that it read the first time are not inserted again."""
    async with on_big(tmp_path) as database:
        copy = Statement("INSERT INTO big SELECT b_id + 10, b_n, b_t FROM big WHERE b_id = 1")
        away = Statement("DELETE FROM big WHERE b_id > 1")
        done = await database.transact(TransactionRequest((copy, away, copy)))
        assert [result.affected for result in done.statements] == [1, 1, 1]


async def test_values_are_complete_if_duckdb_has_to_begin_again(tmp_path, monkeypatch):
    evaluated = DuckSession._evaluate
    begun = []

    async def preempted_once(session, work):
        begun.append(work)
        found = await evaluated(session, work)
        if len(begun) % 2:
            raise Preempted
        return found

    monkeypatch.setattr(DuckSession, "_evaluate", preempted_once)
    sums = "list_sum(range({}))"
    inserted = f"INSERT INTO big VALUES (2, {sums.format(3)}, 'x'), (3, {sums.format(4)}, 'y')"
    repeated = f"INSERT INTO big VALUES (?, {sums.format('?')}, 'z')"
    updated = f"UPDATE big SET b_n = {sums.format('b_id')} RETURNING b_n, {sums.format(9)}"
    async with on_big(tmp_path) as database:
        for work in (
            Statement(inserted),
            RepeatedStatement(repeated, [(4, 5), (5, 6)]),
            Statement(updated),
        ):
            result = await database.transact(TransactionRequest((work,)))
        assert result.statements[0].rows == tuple((n * (n - 1) // 2, 36) for n in range(1, 6))
        assert await database.fetch("SELECT count(*) FROM big") == [(5,)]
    assert len(begun) >= 6
