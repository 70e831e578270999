"""Idempotency, preconditions, optimistic reads, dry runs, snapshots, limits, cancellation."""

import asyncio
from decimal import Decimal

import pytest

from hornbeam_server.node import housekeeping
from hornbeam_server.schema.errors import (
    IdempotencyMismatch,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    PreconditionFailed,
    ReadConflict,
    SnapshotTooOld,
    StatementTimeout,
    TypeMismatch,
    Unavailable,
    UniqueViolation,
)
from hornbeam_server.storage.local.system import SystemClock
from hornbeam_server.storage.snapshot import ReadItem
from hornbeam_server.txlayer.ddl import claim
from hornbeam_server.txlayer.locking.locks import LockOwner, Mode
from hornbeam_server.txlayer.statements.requests import (
    InsertRows,
    Precondition,
    Statement,
    TransactionRequest,
)
from hornbeam_server.txlayer.transactions.manager import TransactionLimits
from tests.txlayer.database_world import check, on_shop, opened, run_all, shop, until
from tests.txlayer.test_transactions_constraints import outcomes_of, race
from tests.txlayer.test_transactions_statements import FILL, on_full_shop, statements

ADD = "UPDATE product SET p_stock = p_stock + 1 WHERE p_id = 1"


async def stock(database, product=1, **options):
    found = await database.fetch(
        "SELECT p_stock FROM product WHERE p_id = ?", (product,), **options
    )
    return found[0][0] if found else None


async def test_parallel_requests_with_one_key_have_one_effect_and_one_answer(tmp_path):
    async with on_full_shop(tmp_path) as database:
        request = statements(f"{ADD} RETURNING p_stock", idempotency_key="k")
        results = await asyncio.gather(*(database.transact(request) for _ in range(10)))
        assert await stock(database) == 6
        assert {(r.transaction_id, r.commit_ts) for r in results} == {
            (results[0].transaction_id, results[0].commit_ts)
        }
        assert {r.statements[0].rows for r in results} == {((6,),)}
        with pytest.raises(IdempotencyMismatch):
            await database.transact(statements(ADD, idempotency_key="k"))


async def test_a_key_is_remembered_over_a_restart_but_not_after_a_failure(tmp_path):
    request = statements(ADD, idempotency_key="k")
    nothing = statements("DELETE FROM product WHERE p_id = 99", idempotency_key="none")
    failing = statements("INSERT INTO product VALUES (1, 'x', 1)", idempotency_key="later")
    async with opened(tmp_path, shop()) as database:
        await run_all(database, *FILL)
        first = [await database.transact(r) for r in (request, nothing)]
        with pytest.raises(UniqueViolation):
            await database.transact(failing)
    async with opened(tmp_path) as database:
        again = [await database.transact(r) for r in (request, nothing)]
        assert [r.commit_ts for r in again] == [r.commit_ts for r in first]
        assert await stock(database) == 6
        outcome = await database.outcome(first[0].transaction_id)
        assert outcome is not None
        assert outcome.commit_ts == first[0].commit_ts
        assert await database.outcome("0" * 32) is None
        await check(database)


async def test_preconditions(tmp_path):
    async with on_full_shop(tmp_path) as database:
        inserted = await database.execute("INSERT INTO product VALUES (7, 'x', 1)")

        def when(version, key=(7,), relation="product"):
            return statements(ADD, preconditions=(Precondition(relation, key, version),))

        await database.transact(when(inserted.commit_ts))
        await database.transact(when(inserted.commit_ts, ("7",)))
        with pytest.raises(PreconditionFailed):
            await database.transact(when(None))
        await database.execute("UPDATE product SET p_stock = 2 WHERE p_id = 7")
        with pytest.raises(PreconditionFailed):
            await database.transact(when(inserted.commit_ts))
        await database.execute("DELETE FROM product WHERE p_id = 7")
        await database.transact(when(None))
        assert await stock(database) == 8
        for wrong in (when(None, (7, 8)), when(None, ()), when(None, ("x",))):
            with pytest.raises((InvalidRequest, TypeMismatch)):
                await database.transact(wrong)
        with pytest.raises(NotFound):
            await database.transact(when(None, relation="nothing"))


async def test_one_of_many_requests_creates_a_row_that_must_be_absent(tmp_path):
    async with on_full_shop(tmp_path) as database:
        requests = [
            statements(
                f"INSERT INTO orders VALUES (70, {customer}, 1)",
                preconditions=(Precondition("orders", (70,), None),),
            )
            for customer in (1, 2, 3)
        ]
        found = outcomes_of(await race(database, *requests))
        assert found == ["PreconditionFailed", "PreconditionFailed", "done"]


async def traced(database, sql, parameters=(), **options):
    async with database.query(sql, parameters, trace=True, **options) as result:
        rows = await result.stream.all()
        return rows, tuple(result.reads)


@pytest.mark.parametrize(
    ("query", "spoiled_by"),
    [
        ("SELECT p_stock FROM product WHERE p_id = 1", ADD),
        (
            "SELECT p_stock FROM product WHERE p_id = 1",
            "UPDATE product SET p_id = 9 WHERE p_id = 1",
        ),
        ("SELECT * FROM product WHERE p_id = 77", "INSERT INTO product VALUES (77, 'x', 1)"),
        (
            "SELECT * FROM customer, orders WHERE c_id = o_c_id AND o_id = 10",
            "UPDATE customer SET c_name = 'x' WHERE c_id = 1",
        ),
        (
            "SELECT * FROM customer, orders WHERE c_id = o_c_id AND c_name = 'ann'",
            "UPDATE orders SET o_total = 100 WHERE o_id = 10",
        ),
        (
            "SELECT o_id FROM customer, orders WHERE c_id = o_c_id AND o_id = 30",
            "UPDATE orders SET o_c_id = 1 WHERE o_id = 30",
        ),
        (
            "SELECT c_id FROM customer WHERE c_email = 'a@x'",
            "UPDATE customer SET c_email = 'z' WHERE c_id = 1",
        ),
        ("SELECT sum(l_quantity) FROM line", "UPDATE line SET l_quantity = 0 WHERE l_no = 2"),
        ("SELECT * FROM line WHERE l_o_id = 10", "DELETE FROM line WHERE l_o_id = 10 AND l_no = 2"),
    ],
)
async def test_reads_are_validated_at_commit(tmp_path, query, spoiled_by):
    async with on_shop(tmp_path) as database:
        await run_all(database, *FILL[:-1])
        await run_all(database, "INSERT INTO product VALUES (50, 'unused', 0)")
        if "p_id = 9" in spoiled_by:
            await database.execute("UPDATE line SET l_p_id = NULL WHERE l_p_id = 1")
        write = Statement("INSERT INTO event (v_kind) VALUES ('decided')")
        _, reads = await traced(database, query)
        await database.transact(TransactionRequest((write,), reads=reads))
        _, reads = await traced(database, query)
        await database.execute("UPDATE customer SET c_name = 'other' WHERE c_id = 3")
        await database.transact(TransactionRequest((write,), reads=reads))
        await database.execute(spoiled_by)
        with pytest.raises(ReadConflict):
            await database.transact(TransactionRequest((write,), reads=reads))


async def test_own_writes_to_rows_read_are_no_conflict(tmp_path):
    async with on_full_shop(tmp_path) as database:
        rows, reads = await traced(database, "SELECT p_stock FROM product WHERE p_id = 1")
        write = statements(("UPDATE product SET p_stock = ? WHERE p_id = 1", (rows[0][0] + 10,)))
        await database.transact(TransactionRequest(write.statements, reads=reads))
        assert await stock(database) == 15


async def test_invalid_reads_are_refused(tmp_path):
    async with on_full_shop(tmp_path) as database:
        for item in (
            ReadItem("nothing", b"\x15\x01", 1),
            ReadItem("product", b"", 1),
            ReadItem("product", b"\xff\xff\x00", 1),
            ReadItem("product", b"\x15\x01\x15\x01", 1),
        ):
            with pytest.raises((InvalidRequest, ReadConflict)):
                await database.transact(statements(ADD, reads=(item,)))
        assert await stock(database) == 5


async def test_a_dry_run_reports_everything_and_changes_nothing(tmp_path):
    async with on_full_shop(tmp_path) as database:
        result = await database.transact(
            statements(
                "UPDATE customer SET c_name = 'Ann' WHERE c_id = 1 RETURNING c_name", dry_run=True
            )
        )
        assert result.commit_ts == 0
        assert result.statements[0].rows == (("Ann",),)
        by_layout = {m.layout for m in result.mutations}
        assert {"customer", "customer__orders", "customer__orders__line"} <= by_layout
        with pytest.raises(UniqueViolation):
            await database.transact(
                statements("INSERT INTO product VALUES (1, 'x', 1)", dry_run=True)
            )
        assert await database.fetch("SELECT c_name FROM customer WHERE c_id = 1") == [("ann",)]


@pytest.mark.parametrize("use_views", [True, False])
async def test_queries_read_pending_writes(tmp_path, use_views):
    async with on_shop(tmp_path) as database:
        await run_all(database, *FILL)
        await database.execute("DELETE FROM line WHERE l_o_id = 11")
        pending = [
            Statement("INSERT INTO customer VALUES (9, 'new', 1, 'n@x')"),
            Statement("UPDATE customer SET c_name = 'ANN' WHERE c_id = 1"),
            Statement("INSERT INTO orders VALUES (90, 9, 3), (91, 1, 4)"),
            Statement("DELETE FROM orders WHERE o_id = 11"),
            Statement("UPDATE orders SET o_c_id = 9 WHERE o_id = 20"),
        ]
        options = {"pending": pending, "use_views": use_views}
        join = "SELECT c_name, o_id FROM customer, orders WHERE c_id = o_c_id"
        assert sorted(await database.fetch(join, **options)) == [
            ("ANN", 10),
            ("ANN", 91),
            ("new", 20),
            ("new", 90),
        ]
        assert sorted(await database.fetch(f"{join} AND c_name = 'ANN'", **options)) == [
            ("ANN", 10),
            ("ANN", 91),
        ]
        assert await database.fetch(f"{join} AND c_name = 'ann'", **options) == []
        assert await database.fetch(f"{join} AND o_id = 20", **options) == [("new", 20)]
        three = f"{join.replace(' WHERE', ', line WHERE')} AND o_id = l_o_id AND c_id = 9"
        assert await database.fetch(three, **options) == [("new", 20)]
        assert sorted(await database.fetch(join))[0] == ("ann", 10)


async def test_bookmarks_and_snapshots(tmp_path):
    async with on_full_shop(tmp_path) as database:
        seen = []
        for expected in range(6, 20):
            result = await database.execute(ADD)
            assert await stock(database, bookmark=result.commit_ts) == expected
            seen.append((result.commit_ts, expected))
        for ts, expected in seen:
            assert await stock(database, snapshot=ts) == expected
            assert await stock(database, snapshot=ts - 1) == expected - 1
        later = await database.execute(ADD, bookmark=seen[-1][0] + 50)
        assert later.commit_ts > seen[-1][0] + 50
        with pytest.raises(InvalidRequest):
            await stock(database, snapshot=database.watermark() + 60_000)


async def test_a_long_read_is_not_disturbed_by_writes(tmp_path):
    async with on_full_shop(tmp_path) as database:
        await database.load(
            "orders", ["o_id", "o_c_id", "o_total"], [(n, 1, 1) for n in range(1_000, 3_000)]
        )
        async with database.query("SELECT o_total FROM orders WHERE o_id >= 1000") as result:
            batches = result.stream.batches()
            total = sum(row[0] for row in await anext(batches))
            await run_all(
                database,
                "UPDATE orders SET o_total = 5 WHERE o_id >= 1000",
                "DELETE FROM orders WHERE o_id > 2000",
            )
            async for batch in batches:
                total += sum(row[0] for row in batch)
        assert total == 2_000


class LaterClock(SystemClock):
    later_ms = 0

    def wall_ms(self):
        return super().wall_ms() + self.later_ms


async def test_snapshots_beyond_the_retention_are_refused(tmp_path):
    clock = LaterClock()
    async with on_shop(
        tmp_path, clock=clock, snapshot_retention_s=59, log_retention_s=0
    ) as database:
        before = database.watermark()
        await run_all(database, *FILL)
        assert await stock(database, snapshot=before) is None
        for _ in range(2):
            await database.execute(ADD)
        clock.later_ms = 60_000
        await database.execute(ADD)
        with pytest.raises(SnapshotTooOld):
            await stock(database, snapshot=before)
        assert await database.purge() > 0
        assert await stock(database) == 8
        await check(database)


async def test_a_table_that_cannot_be_purged_does_not_stop_the_purge_of_others(
    tmp_path, monkeypatch
):
    async with on_shop(tmp_path) as database:
        purged, purge = [], database.store.purge

        async def purge_one(table, horizon):
            purged.append(table)
            if len(purged) == 2:
                raise Unavailable(f"{table} is out of reach.")
            return await purge(table, horizon)

        monkeypatch.setattr(database.store, "purge", purge_one)
        with pytest.raises(Unavailable) as failed:
            await database.purge()
        assert failed.value.message == f"{purged[1]} is out of reach."
        assert {*purged} == {*await database.store.tables()} - {claim.TABLE}
        assert len(purged) > 2


async def test_a_failing_housekeeping_step_does_not_stop_the_others(tmp_path, monkeypatch):
    """Each step fails in turn; all the others run."""
    async with on_shop(tmp_path, housekeeping_interval_s=0.01) as database:
        steps = [
            (database.keeper, "refresh_counts"),
            (housekeeping, "drop_old_segments"),
            (database.store, "purge"),
            (database.housekeeping, "_forget_outcomes"),
            (database.exports, "end_old"),
        ]
        done = []
        for _, name in steps:
            for owner, its_name in steps:
                stand_in(monkeypatch, done, owner, its_name, fails=its_name == name)
            done.clear()
            await asyncio.sleep(0.05)
            assert {its_name for _, its_name in steps} <= {*done}, name


def stand_in(monkeypatch, done, owner, name, *, fails):
    async def step(*_, **__):
        done.append(name)
        if fails:
            raise Unavailable(f"{name} fails.")
        return 0

    monkeypatch.setattr(owner, name, step)


async def test_snapshots_outlive_the_process_back_to_the_last_schema_change(tmp_path):
    async with opened(tmp_path) as database:
        empty = database.watermark()
    async with opened(tmp_path, shop()) as database:
        await run_all(database, *FILL)
        before = database.watermark()
        expected = await stock(database)
        await database.execute(ADD)
    async with opened(tmp_path) as database:
        assert await stock(database, snapshot=before) == expected
        assert await stock(database) == expected + 1
        with pytest.raises(SnapshotTooOld):
            await stock(database, snapshot=empty)


async def test_a_wait_for_a_lock_ends_at_the_time_limit(tmp_path):
    async with on_full_shop(tmp_path) as database:
        owner, name = LockOwner(0), database.manager.state.roots.name("product", (1,))
        await database.locks.acquire(owner, [name], Mode.EXCLUSIVE)
        with pytest.raises(StatementTimeout):
            await database.execute(ADD, timeout_s=0.1)
        waiting = asyncio.ensure_future(database.execute(ADD))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert database.locks.waiting_count == 0
        database.locks.release_all(owner)
        await database.execute(ADD)
        assert await stock(database) == 6


async def test_a_cancelled_commit_has_its_full_effect_or_none(tmp_path):
    """A commit cancelled at any step of the loop has its full effect or none, and holds no lock."""
    async with on_full_shop(tmp_path) as database:
        for steps in range(40):
            request = statements(ADD, idempotency_key=f"c{steps}")
            task = asyncio.ensure_future(database.transact(request))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await database.transact(request)
        assert await stock(database) == 45


async def test_limits(tmp_path):
    async with on_full_shop(tmp_path) as database:
        database.manager._limits = TransactionLimits(statements=3, reads=2)
        with pytest.raises(LimitExceeded):
            await database.transact(statements(*[ADD] * 4))
        with pytest.raises(LimitExceeded):
            await database.transact(statements(ADD, reads=(ReadItem("product", b"", None),) * 3))
        with pytest.raises(InvalidRequest):
            await database.transact(TransactionRequest(()))
        with pytest.raises(InvalidRequest):
            await database.transact(
                TransactionRequest((InsertRows("product", ("p_id", "p_name"), [(1,)]),))
            )


async def test_rows_found_at_the_snapshot_are_checked_again_under_their_locks(tmp_path):
    """A writer commits between the search and the lock: a row that no longer matches is not
    changed, the expression reads the new value, and a subquery is evaluated again."""
    async with on_shop(tmp_path) as database:
        root = database.manager.state.roots.name("product", (1,))
        for sql, expected in (
            ("UPDATE product SET p_stock = p_stock * 10 WHERE p_stock = 5", 7),
            ("UPDATE product SET p_stock = p_stock * 10 WHERE p_stock < 100", 70),
            # Rows that begin to match after the snapshot are not found.
            ("UPDATE product SET p_stock = p_stock * 10 WHERE p_stock = 7", 7),
            (
                "UPDATE product SET p_stock = p_stock * 10"
                " WHERE p_id IN (SELECT p_id FROM product WHERE p_stock = 5)",
                7,
            ),
            (
                "UPDATE product SET p_stock = p_stock * 10"
                " WHERE p_id IN (SELECT p_id FROM product WHERE p_stock < 100)",
                70,
            ),
            ("DELETE FROM product WHERE p_id = 2 OR p_stock IN (SELECT 5)", 7),
        ):
            await database.execute(
                "INSERT INTO product VALUES (1, 'pen', 5), (2, 'ink', 5)"
                " ON CONFLICT (p_id) DO UPDATE SET p_stock = 5"
            )
            owner = LockOwner((0, 0))
            await database.locks.acquire(owner, [root], Mode.EXCLUSIVE)
            writer = asyncio.ensure_future(
                database.execute("UPDATE product SET p_stock = 7 WHERE p_id = 1")
            )
            await until(lambda: database.locks.waiting_count == 1)
            late = asyncio.ensure_future(database.execute(sql))
            await until(lambda: database.locks.waiting_count == 2 or late.done())  # noqa: B023
            database.locks.release_all(owner)
            await asyncio.gather(writer, late)
            assert await stock(database) == expected, sql


async def test_concurrent_transfers_keep_the_sum(tmp_path):
    async with on_shop(tmp_path) as database:
        await run_all(database, *FILL)

        async def transfer(n):
            a, b = 1 + n % 3, 1 + (n + 1 + n // 3 % 2) % 3
            await database.transact(
                statements(
                    ("UPDATE customer SET c_balance = c_balance - ? WHERE c_id = ?", (n, a)),
                    ("UPDATE customer SET c_balance = c_balance + ? WHERE c_id = ?", (n, b)),
                )
            )

        async def audit():
            for _ in range(20):
                found = await database.fetch("SELECT sum(c_balance) FROM customer")
                assert found == [(Decimal("30.00"),)]

        await asyncio.gather(*(transfer(n) for n in range(200)), audit())


async def test_a_table_dropped_during_a_purge_is_no_failure(tmp_path, monkeypatch):
    async with on_shop(tmp_path) as database:
        store, tables = database.store, database.store.tables
        await store.create_table("gone")
        known = [["gone", *await tables()]]

        async def tables_then():
            return known.pop() if known else await tables()

        await store.drop_table("gone")
        monkeypatch.setattr(store, "tables", tables_then)
        await database.purge()
        assert not known


async def test_a_query_that_outlasts_the_retention_keeps_its_snapshot(tmp_path):
    clock = LaterClock()
    async with on_shop(tmp_path, clock=clock, log_retention_s=0) as database:
        await run_all(database, *FILL)
        before = await database.fetch("SELECT p_id, p_stock FROM product ORDER BY p_id")
        query = "SELECT p_id, p_stock FROM product ORDER BY p_id"
        async with database.query(query, snapshot=database.watermark()) as result:
            await database.execute(ADD)
            clock.later_ms = 7_200_000
            await database.execute(ADD)
            await database.purge()
            assert await result.stream.all() == before
        assert await database.purge() > 0
