"""Isolation anomalies by name, after Hermitage (and Adya's thesis): which ones can happen.

Each history is written as SQL in the test's docstring; time runs downwards. There are two kinds of
transaction:

- *one request*: all statements are sent together and run under locks on the server;
- *session*: an interactive transaction. Its reads are at one snapshot and traced, its writes are
  kept by the client and laid over its reads, and the commit validates every row version read.

These do not happen: G0, G1a, G1b, G1c, OTV, lost update, read skew, write skew over rows read by
key, phantoms of keys. These happen: write skew over a predicate (snapshot isolation), and a WHERE
does not find rows that begin to match after its snapshot (PMP for writes).
"""

import asyncio
from contextlib import asynccontextmanager

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import ReadConflict, StatementTimeout
from hornbeam_server.txlayer.locking.locks import LockOwner, Mode
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest

SCHEMA = load_ddl("CREATE TABLE test (id INTEGER PRIMARY KEY, value INTEGER NOT NULL)")


class Session:
    """An interactive transaction as a client runs it."""

    def __init__(self, database):
        self.database, self.snapshot = database, database.watermark()
        self.writes, self.reads = [], []

    async def read(self, sql, *parameters):
        async with self.database.query(
            sql, parameters, snapshot=self.snapshot, pending=self.writes, trace=True
        ) as result:
            rows = await result.stream.all()
            self.reads += result.reads
            return rows

    async def value(self, key):
        rows = await self.read("SELECT value FROM test WHERE id = ?", key)
        return rows[0][0] if rows else None

    def write(self, sql, *parameters):
        self.writes.append(Statement(sql, parameters))

    def put(self, key, value):
        self.write("UPDATE test SET value = ? WHERE id = ?", value, key)

    async def commit(self):
        if self.writes:
            request = TransactionRequest(tuple(self.writes), reads=tuple(self.reads))
            await self.database.transact(request)


def put(key, value):
    return Statement("UPDATE test SET value = ? WHERE id = ?", (value, key))


async def values(database):
    return dict(await database.fetch("SELECT id, value FROM test"))


@asynccontextmanager
async def history(folder):
    """A database with the rows (1, 10) and (2, 20)."""
    async with await Database.open(Settings(data=folder / "data")) as database:
        await database.keeper.apply(Catalog(1, SCHEMA, Forest(("test",))))
        await database.execute("INSERT INTO test VALUES (1, 10), (2, 20)")
        yield database
        assert database.locks.held_count == 0


@asynccontextmanager
async def paused_before(database, key, *statements, **options):
    """Run one request that waits for the lock of the row `key` until the context ends."""
    # Younger than the request, which would otherwise start again instead of waiting.
    owner = LockOwner((1 << 62, 0, ""))
    name = database.manager.state.roots.name("test", (key,))
    await database.locks.acquire(owner, [name], Mode.EXCLUSIVE)
    request = TransactionRequest(tuple(statements), **options)
    task = asyncio.ensure_future(database.transact(request))
    for _ in range(1_000):
        if database.locks.waiting_count:
            break
        await asyncio.sleep(0.001)
    assert database.locks.waiting_count == 1
    try:
        yield task
    finally:
        database.locks.release_all(owner)


async def test_g0_write_cycles(tmp_path):
    """
    T1: UPDATE test SET value = 11 WHERE id = 1
    T2: UPDATE test SET value = 22 WHERE id = 2
    T1: UPDATE test SET value = 21 WHERE id = 2
    T2: UPDATE test SET value = 12 WHERE id = 1
    both commit: the result is never (11, 22) nor (12, 21)
    """
    async with history(tmp_path) as database:
        one = TransactionRequest((put(1, 11), put(2, 21)))
        two = TransactionRequest((put(2, 22), put(1, 12)))
        for pair in ((one, two), (two, one)) * 20:
            await asyncio.gather(*map(database.transact, pair))
            assert await values(database) in ({1: 11, 2: 21}, {1: 12, 2: 22})

        sessions = Session(database), Session(database)
        sessions[0].put(1, 11)
        sessions[1].put(2, 22)
        sessions[0].put(2, 21)
        sessions[1].put(1, 12)
        await asyncio.gather(*(session.commit() for session in sessions))
        assert await values(database) in ({1: 11, 2: 21}, {1: 12, 2: 22})


async def test_g1a_aborted_reads(tmp_path):
    """
    T1: UPDATE test SET value = 101 WHERE id = 1
    T2: SELECT * FROM test                        -- 10, 20
    T1: UPDATE test SET value = 201 WHERE id = 2  -- waits, then fails
    T2: SELECT * FROM test                        -- 10, 20
    """
    async with history(tmp_path) as database:
        async with paused_before(database, 2, put(1, 101), put(2, 201), timeout_s=0.1) as one:
            two = Session(database)
            assert await values(database) == {1: 10, 2: 20}
            assert await two.value(1) == 10
            with pytest.raises(StatementTimeout):
                await one
        assert await values(database) == {1: 10, 2: 20}
        two.put(2, 21)
        await two.commit()


async def test_g1b_intermediate_reads(tmp_path):
    """
    T1: UPDATE test SET value = 101 WHERE id = 1
    T2: SELECT value FROM test WHERE id = 1       -- 10
    T1: UPDATE test SET value = 11 WHERE id = 1
    T1: COMMIT
    T2: SELECT value FROM test WHERE id = 1       -- 10 in T2's snapshot, 11 outside, never 101
    """
    async with history(tmp_path) as database:
        two = Session(database)
        statements = (put(1, 101), put(2, 21), put(1, 11))
        async with paused_before(database, 2, *statements) as one:
            assert await two.value(1) == 10
            assert (await values(database))[1] == 10
        await one
        assert await two.value(1) == 10
        assert await values(database) == {1: 11, 2: 21}


async def test_g1c_circular_information_flow(tmp_path):
    """
    T1: UPDATE test SET value = 11 WHERE id = 1
    T2: UPDATE test SET value = 22 WHERE id = 2
    T1: SELECT value FROM test WHERE id = 2       -- 20
    T2: SELECT value FROM test WHERE id = 1       -- 10
    T1: COMMIT
    T2: COMMIT                                    -- read conflict: T2 must come before T1
    """
    async with history(tmp_path) as database:
        one, two = Session(database), Session(database)
        one.put(1, 11)
        two.put(2, 22)
        assert await one.value(2) == 20
        assert await two.value(1) == 10
        await one.commit()
        with pytest.raises(ReadConflict):
            await two.commit()
        assert await values(database) == {1: 11, 2: 20}


async def test_otv_observed_transaction_vanishes(tmp_path):
    """
    T1: UPDATE 1 → 11, 2 → 19; COMMIT
    T2: UPDATE 1 → 12, 2 → 18; COMMIT  meanwhile
    T3: SELECT id 1, later SELECT id 2            -- both of T1, or both of T2, or both old
    """
    async with history(tmp_path) as database:
        possible = {(10, 20), (11, 19), (12, 18)}

        async def write():
            for _ in range(20):
                await database.transact(TransactionRequest((put(1, 11), put(2, 19))))
                await database.transact(TransactionRequest((put(1, 12), put(2, 18))))

        async def watch():
            while not writer.done():
                three = Session(database)
                first = await three.value(1)
                await asyncio.sleep(0)
                assert (first, await three.value(2)) in possible
                found = await values(database)
                assert (found[1], found[2]) in possible

        writer = asyncio.ensure_future(write())
        await asyncio.gather(watch(), watch(), writer)


async def test_pmp_predicate_many_preceders_for_reads(tmp_path):
    """
    T1: SELECT * FROM test WHERE value = 30       -- nothing
    T2: INSERT INTO test VALUES (3, 30); COMMIT
    T1: SELECT * FROM test WHERE value % 3 = 0    -- still nothing
    """
    async with history(tmp_path) as database:
        one = Session(database)
        assert await one.read("SELECT * FROM test WHERE value = 30") == []
        await database.execute("INSERT INTO test VALUES (3, 30)")
        assert await one.read("SELECT * FROM test WHERE value % 3 = 0") == []
        await one.commit()


async def test_pmp_predicate_many_preceders_for_writes_happens(tmp_path):
    """
    T1: UPDATE test SET value = value + 10        -- 10 → 20, 20 → 30, not committed yet
    T2: DELETE FROM test WHERE value = 20         -- finds 2, waits
    T1: COMMIT
    T2: COMMIT                                    -- deletes nothing: 2 no longer matches, and the
                                                  -- search did not find 1; or 2, if T2 was first
    """
    async with history(tmp_path) as database:
        update = Statement("UPDATE test SET value = value + 10")
        async with paused_before(database, 1, update) as one:
            two = asyncio.ensure_future(database.execute("DELETE FROM test WHERE value = 20"))
            await asyncio.sleep(0.02)
        await one
        assert (await two).statements[0].affected in (0, 1)
        assert await values(database) in ({1: 20, 2: 30}, {1: 20})


async def test_p4_lost_update(tmp_path):
    """
    T1: SELECT value FROM test WHERE id = 1       -- 10
    T2: SELECT value FROM test WHERE id = 1       -- 10
    T1: UPDATE test SET value = 11 WHERE id = 1
    T2: UPDATE test SET value = 15 WHERE id = 1
    T1: COMMIT
    T2: COMMIT                                    -- read conflict
    """
    async with history(tmp_path) as database:
        one, two = Session(database), Session(database)
        one.put(1, await one.value(1) + 1)
        two.put(1, await two.value(1) + 5)
        await one.commit()
        with pytest.raises(ReadConflict):
            await two.commit()
        assert (await values(database))[1] == 11
        # In one request the expression is evaluated under the lock.
        add = "UPDATE test SET value = value + 1 WHERE id = 1"
        await asyncio.gather(*(database.execute(add) for _ in range(50)))
        assert (await values(database))[1] == 61


async def test_p4_lost_update_of_a_value_read_through_own_writes(tmp_path):
    """
    T1: UPDATE test SET value = value + 1 WHERE id = 1
    T1: SELECT value FROM test WHERE id = 1       -- 11
    T2: UPDATE test SET value = 50 WHERE id = 1; COMMIT
    T1: UPDATE test SET value = 11 * 2 WHERE id = 1
    T1: COMMIT                                    -- read conflict: its 11 no longer holds
    """
    async with history(tmp_path) as database:
        one = Session(database)
        one.write("UPDATE test SET value = value + 1 WHERE id = 1")
        seen = await one.value(1)
        assert seen == 11
        await database.transact(TransactionRequest((put(1, 50),)))
        one.put(1, seen * 2)
        with pytest.raises(ReadConflict):
            await one.commit()
        assert (await values(database))[1] == 50


async def test_g_single_read_skew(tmp_path):
    """
    T1: SELECT value FROM test WHERE id = 1       -- 10
    T2: UPDATE 1 → 12, 2 → 18; COMMIT
    T1: SELECT value FROM test WHERE id = 2       -- 20
    T1: DELETE FROM test WHERE id = 2; COMMIT     -- read conflict
    """
    async with history(tmp_path) as database:
        one, reader = Session(database), Session(database)
        assert await one.value(1) == await reader.value(1) == 10
        await database.transact(TransactionRequest((put(1, 12), put(2, 18))))
        assert await one.value(2) == await reader.value(2) == 20
        assert await reader.read("SELECT value FROM test WHERE value = 18") == []
        await reader.commit()
        one.write("DELETE FROM test WHERE id = 2")
        with pytest.raises(ReadConflict):
            await one.commit()


async def test_g2_item_write_skew_over_rows_read(tmp_path):
    """
    T1: SELECT * FROM test WHERE id IN (1, 2)     -- 10, 20
    T2: SELECT * FROM test WHERE id IN (1, 2)     -- 10, 20
    T1: UPDATE test SET value = 11 WHERE id = 1
    T2: UPDATE test SET value = 21 WHERE id = 2
    T1: COMMIT
    T2: COMMIT                                    -- read conflict
    """
    async with history(tmp_path) as database:
        for together in (0, 100):
            one, two = Session(database), Session(database)
            for session in (one, two):
                await session.read("SELECT * FROM test WHERE id IN (1, 2)")
            one.put(1, 11 + together)
            two.put(2, 21 + together)
            if together:
                found = await asyncio.gather(one.commit(), two.commit(), return_exceptions=True)
                assert [type(r) for r in found].count(ReadConflict) == 1
            else:
                await one.commit()
                with pytest.raises(ReadConflict):
                    await two.commit()


async def test_g2_phantoms_of_keys(tmp_path):
    """
    T1: SELECT * FROM test WHERE id = 3           -- nothing
    T2: SELECT * FROM test WHERE id = 4           -- nothing
    T1: INSERT INTO test VALUES (4, 1)
    T2: INSERT INTO test VALUES (3, 1)
    both COMMIT                                   -- exactly one has a read conflict
    """
    async with history(tmp_path) as database:
        one, two = Session(database), Session(database)
        assert await one.value(3) is None
        assert await two.value(4) is None
        one.write("INSERT INTO test VALUES (4, 1)")
        two.write("INSERT INTO test VALUES (3, 1)")
        found = await asyncio.gather(one.commit(), two.commit(), return_exceptions=True)
        assert [type(r) for r in found].count(ReadConflict) == 1


async def test_g2_predicate_write_skew_happens(tmp_path):
    """
    T1: SELECT * FROM test WHERE value % 3 = 0    -- nothing
    T2: SELECT * FROM test WHERE value % 3 = 0    -- nothing
    T1: INSERT INTO test VALUES (3, 30)
    T2: INSERT INTO test VALUES (4, 42)
    both commit: snapshot isolation for predicates
    """
    async with history(tmp_path) as database:
        one, two = Session(database), Session(database)
        for session in (one, two):
            assert await session.read("SELECT * FROM test WHERE value % 3 = 0 AND id > 2") == []
        one.write("INSERT INTO test VALUES (3, 30)")
        two.write("INSERT INTO test VALUES (4, 42)")
        await one.commit()
        await two.commit()
        assert await values(database) == {1: 10, 2: 20, 3: 30, 4: 42}
