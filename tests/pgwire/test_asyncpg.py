"""Sessions of asyncpg, which wants types before it sends values, and sends all of them in the
binary format."""

import asyncio
import datetime as dt
from decimal import Decimal

import asyncpg
import pytest


def with_connection(wire, work):
    async def run():
        connection = await asyncpg.connect(
            host="127.0.0.1", port=wire.port, user="ann", database="hornbeam"
        )
        try:
            return await work(connection)
        finally:
            await connection.close()

    return asyncio.run(run())


def described(statement):
    columns = [(column.name, column.type.name) for column in statement.get_attributes()]
    return [type_.name for type_ in statement.get_parameters()], columns


def test_types_are_known_before_a_statement_runs(wire):
    async def work(connection):
        read = await connection.prepare(
            "SELECT i_name, i_price * $2 AS p FROM item WHERE i_id = $1"
        )
        write = await connection.prepare(
            "INSERT INTO item VALUES ($1, $2, $3) RETURNING i_price, i_name"
        )
        without = await connection.prepare("DELETE FROM item WHERE i_id = $1")
        return [described(each) for each in (read, write, without)]

    before = wire.database.manager.committed
    read, write, without = with_connection(wire, work)
    assert read[0][0] == "int4"
    assert read[1][0] == ("i_name", "varchar")
    assert write == (
        ["int4", "varchar", "numeric"],
        [("i_price", "numeric"), ("i_name", "varchar")],
    )
    assert without == (["int4"], [])
    assert wire.database.manager.committed == before


def test_values_go_and_come_in_binary(wire):
    values = [
        -5, Decimal("1.5000000000"), 2.5, False, b"ab", dt.date(2024, 1, 2), dt.time(1, 2),
        dt.datetime(2024, 1, 2, 3), dt.datetime(2024, 1, 2, tzinfo=dt.UTC), dt.timedelta(days=40),
        "text", ["x", None],
    ]  # fmt: skip
    names = "k_small, k_decimal, k_double, k_flag, k_bytes, k_date, k_time, k_at, k_instant, k_interval, k_text, k_texts"  # noqa: E501

    async def work(connection):
        places = ", ".join(f"${n}" for n in range(1, len(values) + 1))
        await connection.execute(
            f"INSERT INTO kinds (k_id, {names}) VALUES (200, {places})", *values
        )
        return await connection.fetchrow(f"SELECT {names} FROM kinds WHERE k_id = $1", 200)

    assert list(with_connection(wire, work)) == values


def test_executemany_is_one_transaction(wire):
    rows = [(number, f"n{number}", Decimal(number)) for number in range(300, 350)]

    async def work(connection):
        insert = "INSERT INTO item VALUES ($1, $2, $3)"
        await connection.executemany(insert, rows)
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.executemany(insert, [(351, "new", 1), (300, "again", 1)])
        return await connection.fetchval("SELECT count(*) FROM item WHERE i_id BETWEEN 300 AND 400")

    before = wire.database.manager.committed
    assert with_connection(wire, work) == 50
    assert wire.database.manager.committed - before == 1


def test_a_cursor_takes_rows_in_parts(wire):
    async def work(connection):
        async with connection.transaction():
            cursor = await connection.cursor("SELECT g FROM generate_series(1, 5000) t (g)")
            first = await cursor.fetch(3)
            other = await connection.fetchval("SELECT 7")
            return [*[row["g"] for row in first], *[r["g"] for r in await cursor.fetch(2)], other]

    assert with_connection(wire, work) == [1, 2, 3, 4, 5, 7]


def test_a_transaction_that_fails_is_rolled_back(wire):
    async def work(connection):
        async def both():
            async with connection.transaction():
                await connection.execute("INSERT INTO item VALUES (400, 'a', 1)")
                await connection.execute("INSERT INTO item VALUES (401, 'b', -1)")

        with pytest.raises(asyncpg.CheckViolationError):
            await both()
        return await connection.fetchval("SELECT count(*) FROM item WHERE i_id IN (400, 401)")

    assert with_connection(wire, work) == 0
