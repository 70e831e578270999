"""SQL that takes long to read: others go on meanwhile, and what is too long is refused."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from database_world import catalog_of, opened

from schema.ddl import load_ddl
from schema.errors import LimitExceeded, SqlError, StatementTimeout
from txlayer.model import Statement, TransactionRequest

DDL = "CREATE TABLE big (b_id INTEGER PRIMARY KEY, b_n BIGINT);"


@asynccontextmanager
async def loop_goes_on():
    """The longest time that nobody else had a turn is far below what is done meanwhile takes."""
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
    assert longest < took / 2, f"{longest} s of {took} s"


def on_big(tmp_path, scenario):
    async def run():
        async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
            await database.execute("INSERT INTO big VALUES (1, 1)")
            await scenario(database)

    asyncio.run(run())


def test_a_long_list_is_read_beside_the_loop(tmp_path):
    values = ",".join(map(str, range(15_000)))

    async def scenario(database):
        async with loop_goes_on():
            assert await database.fetch(f"SELECT b_n FROM big WHERE b_id IN ({values})") == [(1,)]
        async with loop_goes_on():
            await database.execute(f"UPDATE big SET b_n = 2 WHERE b_id IN ({values})")
        with pytest.raises(StatementTimeout):
            await database.fetch(f"SELECT 1 FROM big WHERE b_id IN ({values})", timeout_s=0.01)
        with pytest.raises(SqlError, match="too deeply"):
            await database.fetch("SELECT " + "(" * 20_000 + "1" + ")" * 20_000)

    on_big(tmp_path, scenario)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + ",".join(["1"] * 1_665),
        "SELECT " + ",".join(["1"] * 400_000),
        f"SELECT 1 FROM big WHERE b_id IN ({','.join(['1'] * 50_000)})",
    ],
    ids=["columns", "many columns", "tokens"],
)
def test_what_is_too_long_is_refused(tmp_path, sql):
    async def scenario(database):
        async with loop_goes_on():
            with pytest.raises(LimitExceeded, match="more than"):
                await database.fetch(sql)

    on_big(tmp_path, scenario)


def test_many_statements_let_others_go_on_until_their_time_is_over(tmp_path):
    def some(number):
        return tuple(Statement(f"UPDATE big SET b_n = b_n + {i}") for i in range(number))

    async def scenario(database):
        async with loop_goes_on():
            await database.fetch("SELECT b_n FROM big", pending=some(1_000))
        async with loop_goes_on():
            await database.transact(TransactionRequest(some(1_000)))
        with pytest.raises(StatementTimeout):
            await database.fetch("SELECT b_n FROM big", pending=some(9_000), timeout_s=0.1)
        with pytest.raises(LimitExceeded):
            await database.fetch("SELECT b_n FROM big", pending=some(10_001))

    on_big(tmp_path, scenario)
