"""SQL that takes long to parse: other tasks go on meanwhile, and SQL that is too long is
refused."""

import asyncio
import gc
import time
from contextlib import asynccontextmanager

import pytest

from hornbeam_server.query.parsing.nesting import WIDTH
from hornbeam_server.schema.collector import spare_present
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import LimitExceeded, SqlError, StatementTimeout
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from tests.txlayer.database_world import catalog_of, opened

DDL = "CREATE TABLE big (b_id INTEGER PRIMARY KEY, b_n BIGINT);"
PATIENT_S = 120
"""Enough time on a busy machine."""
TERMS = WIDTH * WIDTH + 3
"""A tree of groups of groups."""


@asynccontextmanager
async def loop_goes_on():
    """Check that other tasks never wait for as much as half of the time that the block takes.

    The collector does not walk the objects that earlier tests left, as it does not in a server
    (`spare_present`): walking them all would take longer than a short block.
    """
    spare_present()
    longest, began = 0.0, time.monotonic()

    async def others():
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.005)
            longest = max(longest, time.monotonic() - before)

    going = asyncio.create_task(others())
    yield
    took = time.monotonic() - began
    going.cancel()
    gc.unfreeze()
    assert longest < took / 2, f"{longest} s of {took} s"


@asynccontextmanager
async def on_big(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
        await database.execute("INSERT INTO big VALUES (1, 1)")
        yield database


async def test_a_long_list_is_parsed_beside_the_loop(tmp_path):
    values = ",".join(map(str, range(15_000)))
    async with on_big(tmp_path) as database:
        async with loop_goes_on():
            assert await database.fetch(f"SELECT b_n FROM big WHERE b_id IN ({values})") == [(1,)]
        async with loop_goes_on():
            await database.execute(f"UPDATE big SET b_n = 2 WHERE b_id IN ({values})")
        with pytest.raises(StatementTimeout):
            await database.fetch(f"SELECT 1 FROM big WHERE b_id IN ({values})", timeout_s=0.01)
        with pytest.raises(SqlError, match="too deeply"):
            await database.fetch("SELECT " + "(" * 20_000 + "1" + ")" * 20_000)


async def test_the_time_of_a_list_grows_with_its_length(tmp_path):
    async with on_big(tmp_path) as database:
        await database.execute("INSERT INTO big SELECT n, n FROM generate_series(2, 3000) AS g(n)")

        async def seconds(length):
            values = ",".join(str(n) for n in range(length))
            sql = f"SELECT count(*) FROM big WHERE b_id IN ({values})"
            took = []
            for attempt in range(2):
                began = time.process_time()
                asked = f"{sql} AND b_n > -{attempt}"
                assert await database.fetch(asked, timeout_s=PATIENT_S) == [(3_000,)]
                took.append(time.process_time() - began)
            return min(took)

        assert await seconds(20_000) < 8 * await seconds(5_000)


@pytest.mark.parametrize(
    ("operator", "term", "value"),
    [(" OR ", "b_n = 5", False), (" AND ", "b_n = 1", True), (" + ", "b_n", TERMS),
     (" || ", "'x'", "x" * TERMS)],
)  # fmt: skip
async def test_a_chain_of_thousands_of_terms_is_answered(tmp_path, operator, term, value):
    async with on_big(tmp_path) as database:
        chain = operator.join([term] * TERMS)
        sql = f"SELECT {chain} FROM big"
        assert await database.fetch(sql, timeout_s=PATIENT_S) == [(value,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + ",".join(["1"] * 1_665),
        "SELECT " + ",".join(["1"] * 200_000),
        f"SELECT 1 FROM big WHERE b_id IN ({','.join(['1'] * 50_000)})",
    ],
    ids=["columns", "many columns", "tokens"],
)
async def test_too_long_sql_is_refused(tmp_path, sql):
    async with on_big(tmp_path) as database, loop_goes_on():
        with pytest.raises(LimitExceeded, match="more than"):
            await database.fetch(sql)


async def test_many_statements_let_others_run_until_the_time_limit(tmp_path):
    def some(number):
        return tuple(Statement(f"UPDATE big SET b_n = b_n + {i}") for i in range(number))

    async with on_big(tmp_path) as database:
        async with loop_goes_on():
            await database.fetch("SELECT b_n FROM big", pending=some(1_000))
        async with loop_goes_on():
            await database.transact(TransactionRequest(some(1_000)))
        with pytest.raises(StatementTimeout):
            await database.fetch("SELECT b_n FROM big", pending=some(9_000), timeout_s=0.1)
        with pytest.raises(LimitExceeded):
            await database.fetch("SELECT b_n FROM big", pending=some(10_001))


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM big LIMIT 1",
        "DELETE FROM big ORDER BY b_id LIMIT 1",
        "DELETE FROM big FETCH FIRST 1 ROW ONLY",
        "UPDATE big SET b_n = 7 LIMIT 1",
        "UPDATE big SET b_n = 7 ORDER BY b_id LIMIT 1",
        "UPDATE big AS x (b_n, b_id) SET b_n = 7",
        "INSERT OVERWRITE big VALUES (9, 9)",
        "INSERT OR FAIL INTO big VALUES (1, 9)",
        "INSERT INTO big VALUES (1, 9) ON CONFLICT ON CONSTRAINT any_name DO NOTHING",
        "INSERT INTO big VALUES (1, 9) ON CONFLICT ON CONSTRAINT any_name DO UPDATE SET b_n = 9",
        "INSERT INTO big VALUES (1, 9) ON CONFLICT (b_n) WHERE b_n > 5 DO UPDATE SET b_n = 9",
        "INSERT INTO big VALUES (1, 9) ON CONFLICT (b_id) WHERE nosuch > 5 DO UPDATE SET b_n = 9",
        "INSERT INTO big VALUES (1, 9) ON CONFLICT (abs(b_id)) DO UPDATE SET b_n = 9",
        "INSERT INTO big VALUES (1, 9) ON CONFLICT (b_id DESC) DO UPDATE SET b_n = 9",
        "INSERT INTO big VALUES (1, 9) ON DUPLICATE KEY UPDATE b_n = 9",
        "DELETE FROM big TABLESAMPLE 1 PERCENT",
        "UPDATE big JOIN big x ON TRUE SET b_n = 9",
    ],
)
async def test_an_unsupported_clause_of_a_write_is_refused(tmp_path, sql):
    """An ignored clause would change all rows."""
    async with on_big(tmp_path) as database:
        with pytest.raises(SqlError):
            await database.execute(sql)
        assert await database.fetch("SELECT b_id, b_n FROM big") == [(1, 1)]
