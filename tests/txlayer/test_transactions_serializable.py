"""Serializable transactions in one process: what their statements search for is still so when they
commit, while others go on."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import (
    InvalidRequest,
    ReadConflict,
    TransactionAborted,
    UniqueViolation,
)
from hornbeam_server.storage.read_ranges import ReadRange
from hornbeam_server.txlayer.locking.guards import Ranges
from hornbeam_server.txlayer.locking.locks import LockOwner, Mode
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from tests.txlayer.database_world import catalog_of, opened, until
from tests.txlayer.test_immediate_views import opened as opened_with_view

SCHEMA = load_ddl(
    """
    CREATE TABLE doctor (d_id INTEGER PRIMARY KEY, d_ward INTEGER, d_on_call BOOLEAN NOT NULL);
    CREATE INDEX by_ward ON doctor (d_ward);
    """
)
LEAVE = """
UPDATE doctor SET d_on_call = FALSE WHERE d_id = ?
  AND (SELECT count(*) FROM doctor WHERE d_ward = ? AND d_on_call) > 1
"""
ON_CALL = "SELECT d_ward, count(*) FROM doctor WHERE d_on_call GROUP BY d_ward ORDER BY d_ward"


@asynccontextmanager
async def hospital(folder, doctors=4, wards=2):
    async with opened(folder, catalog_of(SCHEMA)) as database:
        rows = ", ".join(f"({n}, {n % wards}, TRUE)" for n in range(doctors))
        await database.execute(f"INSERT INTO doctor VALUES {rows}")
        yield database
        assert database.locks.held_count == 0
        assert database.locks.guard_count == 0


def serializable(*statements, **options):
    return TransactionRequest(tuple(statements), serializable=True, **options)


async def leave(database, doctor, ward, *, is_serializable=True):
    request = TransactionRequest((Statement(LEAVE, (doctor, ward)),), serializable=is_serializable)
    return (await database.transact(request)).statements[0].affected


@asynccontextmanager
async def guarding(database, *ranges):
    """Let another transaction guard these ranges of `doctor`."""
    owner = LockOwner((1 << 62, 0, ""))
    table = database.manager.state.codecs("doctor").layout.table
    await database.locks.guard(owner, Ranges({table: ranges}), database.committer)
    try:
        yield
    finally:
        database.locks.release_all(owner)


async def test_a_condition_over_other_rows_holds_at_the_commit(tmp_path):
    """All but one doctor of each ward leave, however many try at once."""
    async with hospital(tmp_path, doctors=12, wards=3) as database:
        left = await asyncio.gather(*(leave(database, n, n % 3) for n in range(12)))
        assert await database.fetch(ON_CALL) == [(0, 1), (1, 1), (2, 1)]
        assert sum(left) == 9
        assert database.manager.retried > 0


async def test_without_serializability_such_a_condition_may_break(tmp_path):
    async with hospital(tmp_path, doctors=2, wards=1) as database:
        left = await asyncio.gather(*(leave(database, n, 0, is_serializable=False) for n in (0, 1)))
        assert left == [1, 1]
        assert await database.fetch(ON_CALL) == []


async def test_a_where_finds_rows_that_begin_to_match_while_it_waits(tmp_path):
    """The search finds doctor 0 and waits for its lock. Doctor 1 begins to match then."""
    async with hospital(tmp_path) as database:
        owner = LockOwner((1 << 62, 0, ""))
        name = database.manager.state.roots.name("doctor", (0,))
        await database.locks.acquire(owner, [name], Mode.EXCLUSIVE)
        delete = Statement("DELETE FROM doctor WHERE d_ward = 0")
        deleting = asyncio.ensure_future(database.transact(serializable(delete)))
        await until(lambda: database.locks.waiting_count)
        await database.execute("UPDATE doctor SET d_ward = 0 WHERE d_id = 1")
        database.locks.release_all(owner)
        assert (await deleting).statements[0].affected == 3
        assert await database.fetch("SELECT d_id FROM doctor") == [(3,)]


async def test_an_error_that_rests_on_old_rows_is_no_error(tmp_path):
    """Numbers that are one above the maximum: each INSERT sees the one before it."""
    async with hospital(tmp_path) as database:
        insert = Statement("INSERT INTO doctor SELECT max(d_id) + 1, 0, TRUE FROM doctor")
        adding = (database.transact(serializable(insert)) for _ in range(20))
        await asyncio.gather(*adding)
        assert await database.fetch("SELECT count(*), max(d_id) FROM doctor") == [(24, 23)]
        plain = Statement("INSERT INTO doctor VALUES (0, 0, TRUE)")
        with pytest.raises(UniqueViolation):
            await database.transact(serializable(plain))


async def test_a_writer_waits_for_a_guard_of_its_rows_and_for_no_other(tmp_path):
    async with hospital(tmp_path) as database:
        key = database.manager.state.codecs("doctor").key_of
        async with guarding(database, (key((2,)), key((3,)))):
            await database.execute("UPDATE doctor SET d_ward = 7 WHERE d_id = 1")
            await database.execute("INSERT INTO doctor VALUES (9, 0, TRUE)")
            for sql in (
                "UPDATE doctor SET d_ward = 7 WHERE d_id = 2",
                "DELETE FROM doctor WHERE d_id = 2",
            ):
                with pytest.raises(TransactionAborted):
                    await database.transact(TransactionRequest((Statement(sql),), timeout_s=0.1))
            waits = asyncio.ensure_future(
                database.execute("UPDATE doctor SET d_ward = 8 WHERE d_id = 2")
            )
            await asyncio.sleep(0.02)
            assert not waits.done()
        await waits
        assert await database.fetch("SELECT d_ward FROM doctor WHERE d_id IN (1, 2)") == [
            (7,),
            (8,),
        ]


async def test_a_guard_waits_until_earlier_commits_are_applied(tmp_path, monkeypatch):
    async with hospital(tmp_path) as database:
        released = asyncio.Event()
        put = database.committer._put

        async def late(batch):
            await released.wait()
            await put(batch)

        monkeypatch.setattr(database.committer, "_put", late)
        committing = asyncio.ensure_future(
            database.execute("UPDATE doctor SET d_on_call = FALSE WHERE d_id = 0")
        )
        await until(database.committer.unapplied)
        leaving = asyncio.ensure_future(leave(database, 2, 0))
        unrelated = asyncio.ensure_future(
            database.execute("UPDATE doctor SET d_ward = 5 WHERE d_id = 3")
        )
        await asyncio.sleep(0.02)
        assert not leaving.done()
        released.set()
        await asyncio.gather(committing, unrelated)
        assert await leaving == 0


async def test_reads_by_an_index_conflict_with_rows_that_come_into_their_range(tmp_path):
    async with hospital(tmp_path) as database:
        sql = "SELECT d_id FROM doctor WHERE d_ward = 0"
        for change, conflicts in (
            ("INSERT INTO doctor VALUES (8, 1, TRUE)", False),
            ("UPDATE doctor SET d_on_call = FALSE WHERE d_id = 1", False),
            ("INSERT INTO doctor VALUES (10, 0, TRUE)", True),
            ("UPDATE doctor SET d_ward = 0 WHERE d_id = 1", True),
            ("UPDATE doctor SET d_ward = 9 WHERE d_id = 0", True),
            ("DELETE FROM doctor WHERE d_id = 2", True),
        ):
            async with database.query(sql, serializable=True) as result:
                await result.stream.all()
            assert {read.table for read in result.ranges} == {
                database.manager.state.codecs("by_ward").layout.table
            }
            await database.execute(change)
            noted = Statement("UPDATE doctor SET d_on_call = TRUE WHERE d_id = 3")
            request = serializable(noted, ranges=tuple(result.ranges))
            if conflicts:
                with pytest.raises(ReadConflict):
                    await database.transact(request)
            else:
                await database.transact(request)


async def test_groups_of_an_immediate_view_are_validated(tmp_path):
    async with opened_with_view(tmp_path) as database:
        await database.execute("INSERT INTO customer VALUES (1, 'Oslo', 1), (2, 'Rome', 1)")
        sql = "SELECT n FROM v WHERE city = 'Oslo'"
        for customer, conflicts in ((2, False), (1, True)):
            async with database.query(sql, serializable=True) as result:
                await result.stream.all()
            order = f"INSERT INTO orders VALUES ({customer}, {customer}, NULL, 5)"
            await database.execute(order)
            noted = Statement("UPDATE customer SET tier = 2 WHERE c_id = 2")
            request = serializable(noted, ranges=tuple(result.ranges))
            if conflicts:
                with pytest.raises(ReadConflict):
                    await database.transact(request)
            else:
                await database.transact(request)


async def test_totals_of_an_immediate_view_never_pass_a_limit(tmp_path):
    """Each order is inserted only if the group has fewer than ten; groups are changed without a
    lock."""
    async with opened_with_view(tmp_path) as database:
        await database.execute("INSERT INTO customer VALUES (1, 'Oslo', 1)")
        await database.execute("INSERT INTO orders VALUES (0, 1, NULL, 1)")
        sql = "INSERT INTO orders SELECT ?, 1, NULL, 1 FROM v WHERE city = 'Oslo' AND n < 10"
        adding = (database.transact(serializable(Statement(sql, (n,)))) for n in range(1, 31))
        await asyncio.gather(*adding)
        assert await database.fetch("SELECT n FROM v") == [(10,)]


async def test_a_changed_schema_is_a_conflict(tmp_path):
    async with hospital(tmp_path) as database:
        async with database.query("SELECT * FROM doctor", serializable=True) as result:
            await result.stream.all()
        more = load_ddl("CREATE TABLE other (o_id INTEGER PRIMARY KEY);")
        catalog = database.manager.state.catalog
        relations = (*catalog.schema.relations, *more.relations)
        schema = type(catalog.schema)(relations, indexes=catalog.schema.indexes)
        await database.keeper.apply(catalog_of(schema, base=catalog))
        noted = Statement("UPDATE doctor SET d_ward = 1 WHERE d_id = 0")
        with pytest.raises(ReadConflict, match="schema"):
            await database.transact(serializable(noted, ranges=tuple(result.ranges)))


async def test_ranges_of_unknown_tables_and_backward_ranges_are_refused(tmp_path):
    async with hospital(tmp_path) as database:
        now, table = database.watermark(), database.manager.state.codecs("doctor").layout.table
        noted = Statement("UPDATE doctor SET d_ward = 1 WHERE d_id = 0")
        for read, error in (
            (ReadRange("nowhere", b"", None, 0, now), ReadConflict),
            (ReadRange(table, b"b", b"a", 0, now), InvalidRequest),
        ):
            with pytest.raises(error):
                await database.transact(serializable(noted, ranges=(read,)))


async def test_a_retry_gets_the_answer_of_the_serializable_commit(tmp_path):
    async with hospital(tmp_path) as database:
        request = serializable(Statement(LEAVE, (0, 0)), idempotency_key="k")
        first = await database.transact(request)
        again = await database.transact(request)
        assert again.transaction_id == first.transaction_id
        assert [one.affected for one in again.statements] == [1]
