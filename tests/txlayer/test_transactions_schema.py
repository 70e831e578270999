"""Schema changes under load: online builds, drops under readers, restarts in the middle."""

import asyncio
from dataclasses import replace

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.schema.errors import NotFound, SnapshotTooOld, StalePlan, Unavailable
from hornbeam_server.txlayer.ddl.barrier import OwnBarrier
from hornbeam_server.txlayer.ddl.catalog_keeper import CatalogKeeper
from tests.txlayer.database_world import building, check, opened, run_all, settings, shop, until
from tests.txlayer.test_transactions_statements import FILL

JOIN = "SELECT c_name, o_id FROM customer, orders WHERE c_id = o_c_id"


def bare() -> Catalog:
    """The shop with only the indexes of its constraints."""
    catalog = shop()
    unique = tuple(index for index in catalog.indexes if index.unique)
    states = tuple((index.name, State.BUILDING) for index in unique)
    return replace(catalog, views=(), indexes=unique, states=states)


def next_version(database, catalog):
    """`catalog` as the version after the one in force; what is built already stays so."""
    known = database.catalog.state
    states = tuple((name, known.get(name, state)) for name, state in catalog.states)
    return replace(catalog, version=database.catalog.version + 1, states=states)


async def fill(database, orders=1_500):
    await run_all(database, *FILL)
    await database.load(
        "orders",
        ["o_id", "o_c_id", "o_total"],
        [(n, 1 + n % 3, n) for n in range(1_000, 1_000 + orders)],
    )
    lines = [(n, no, 1, n) for n in range(1_000, 1_000 + orders, 3) for no in (1, 2)]
    await database.load("line", ["l_o_id", "l_no", "l_p_id", "l_quantity"], lines)


async def write(database, n, rounds):
    """A writer whose changes affect every kind of view row."""
    for i in range(rounds):
        order = 1_000 + (n * 97 + i * 31) % 1_500
        await run_all(
            database,
            f"UPDATE orders SET o_c_id = {1 + i % 3} WHERE o_id = {order}",
            f"UPDATE customer SET c_name = 'n{n}.{i}' WHERE c_id = {1 + n % 3}",
            f"DELETE FROM orders WHERE o_id = {order + 1}",
            f"INSERT INTO orders VALUES ({10_000 + n * 1_000 + i}, {1 + n % 3}, 1)",
            f"UPDATE orders SET o_c_id = NULL WHERE o_id = {order + 2}",
        )


class HeldClock:
    """The database's clock, but builds sleep until they are let go."""

    def __init__(self, clock):
        self._clock, self.go, self.waiting = clock, asyncio.Event(), 0
        self.wall_ms, self.monotonic = clock.wall_ms, clock.monotonic

    async def sleep(self, seconds):
        self.waiting += 1
        await self.go.wait()


def hold_builds(database):
    database.keeper._clock = held = HeldClock(database.clock)
    return held


async def test_views_and_indexes_are_built_while_writers_go_on(tmp_path):
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        held = hold_builds(database)
        await database.keeper.apply(next_version(database, shop()))
        assert database.catalog.state["customer__orders"] is State.BUILDING
        assert database.prepare(JOIN).served_by == ("customer", "orders")
        await until(lambda: held.waiting)
        writers = [asyncio.ensure_future(write(database, n, 8)) for n in range(3)]
        await asyncio.gather(*writers[:2])
        held.go.set()
        await asyncio.gather(database.keeper.wait_built(), *writers)
        assert set(database.catalog.state.values()) == {State.READABLE}
        assert database.prepare(JOIN).served_by[0].startswith("customer__orders")
        await check(database)


async def test_a_snapshot_from_the_time_of_a_build_can_be_read_after_it(tmp_path):
    """A transaction that begins while an index is built goes on when the build has ended."""
    async with opened(tmp_path, bare()) as database:
        await fill(database, 300)
        earlier = database.watermark()
        held = hold_builds(database)
        await database.keeper.apply(next_version(database, shop()))
        await until(lambda: held.waiting > 0)
        at, rows = database.watermark(), sorted(await database.fetch(JOIN))
        await write(database, 1, 3)
        held.go.set()
        await database.keeper.wait_built()
        assert database.prepare(JOIN).served_by[0].startswith("customer__orders")
        assert sorted(await database.fetch(JOIN, snapshot=at)) == rows
        assert sorted(await database.fetch(JOIN)) != rows
        with pytest.raises(SnapshotTooOld):
            await database.fetch(JOIN, snapshot=earlier)
        await check(database)


async def test_a_restart_in_the_middle_of_a_build(tmp_path):
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        held = hold_builds(database)
        await database.keeper.apply(next_version(database, shop()))
        await until(lambda: held.waiting)
        await write(database, 1, 5)
    async with await Database.open(settings(tmp_path)) as database:
        await write(database, 2, 5)
        await database.keeper.wait_built()
        assert set(database.catalog.state.values()) == {State.READABLE}
        await check(database)


async def tables_of(database, name):
    tables = await database.store.tables()
    return {table for table in tables if table.rpartition(".")[0] == name}


async def test_a_new_plan_during_a_build_rebuilds_the_view(tmp_path):
    """The view is dropped and created again, in another table, during its first build."""
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        held = hold_builds(database)
        await database.keeper.apply(next_version(database, shop()))
        await until(lambda: held.waiting)
        first = database.catalog.layout("customer__orders").table
        rebuilt = tuple((name, 1_000) for name, _ in shop().states if name.startswith("customer__"))
        again = replace(
            building(shop()), incarnations=rebuilt, version=database.catalog.version + 1
        )
        await database.keeper.apply(next_version(database, again))
        await write(database, 1, 5)
        held.go.set()
        await database.keeper.wait_built()
        assert set(database.catalog.state.values()) == {State.READABLE}
        table = database.catalog.layout("customer__orders").table
        assert await tables_of(database, "v.customer__orders") == {table} != {first}
        await check(database)


async def test_a_view_can_be_dropped_during_its_build(tmp_path):
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        held = hold_builds(database)
        await database.keeper.apply(next_version(database, shop()))
        await until(lambda: held.waiting)
        await database.keeper.apply(next_version(database, bare()))
        held.go.set()
        await database.keeper.wait_built()
        assert database.catalog.view == {}
        assert [t for t in await database.store.tables() if t.startswith("v.")] == []
        await check(database)


def out_of_reach(monkeypatch, store, call, prefix):
    """Let `call` fail for tables with this prefix, until the returned function is called."""
    really = getattr(store, call)

    async def refused(given, *rest):
        tables = [given] if isinstance(given, str) else given
        if any(table.startswith(prefix) for table in tables):
            raise Unavailable(f"{prefix} is out of reach.")
        return await really(given, *rest)

    monkeypatch.setattr(store, call, refused)
    return lambda: monkeypatch.setattr(store, call, really)


async def test_a_build_that_waits_for_a_service_does_not_delay_the_others(tmp_path, monkeypatch):
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        answers = out_of_reach(monkeypatch, database.store, "put", "v.customer__orders.")
        await database.keeper.apply(next_version(database, shop()))
        others = {*database.catalog.state} - {"customer__orders"}
        await until(lambda: all(map(database.catalog.readable, others)))
        assert database.catalog.state["customer__orders"] is State.BUILDING
        answers()
        await database.keeper.wait_built()
        assert set(database.catalog.state.values()) == {State.READABLE}
        await check(database)


async def test_a_table_that_cannot_be_dropped_does_not_delay_the_others(tmp_path, monkeypatch):
    async with opened(tmp_path, shop()) as database:
        names = {*shop().stored} - {*bare().stored}
        gone = {database.catalog.layout(name).table for name in names}
        answers = out_of_reach(monkeypatch, database.store, "drop_table", min(gone))
        await database.keeper.apply(next_version(database, bare()))
        await until(lambda: gone & {*database.store._tables} == {min(gone)})
        answers()
        await database.keeper.wait_built()
        assert not gone & {*await database.store.tables()}


async def test_a_view_is_dropped_only_after_its_readers_end(tmp_path):
    async with opened(tmp_path, shop()) as database:
        await fill(database)
        async with database.query(JOIN) as result:
            assert result.served_by[0].startswith("customer__orders")
            batches = result.stream.batches()
            seen = len(await anext(batches))
            await database.keeper.apply(next_version(database, bare()))
            assert await database.fetch("SELECT count(*) FROM orders") == [(1_504,)]
            seen += sum([len(batch) async for batch in batches])
            assert seen == 1_503
            assert await tables_of(database, "v.customer__orders")
        await database.keeper.wait_built()
        assert not await tables_of(database, "v.customer__orders")
        assert database.prepare(JOIN).served_by == ("customer", "orders")
        await check(database)


async def test_a_plan_for_another_version_is_refused(tmp_path):
    async with opened(tmp_path, bare()) as database:
        for version in (database.catalog.version, database.catalog.version + 2):
            with pytest.raises(StalePlan):
                await database.keeper.apply(replace(shop(), version=version))
        assert database.catalog.view == {}


async def test_verify_refuses_unknown_names(tmp_path):
    async with opened(tmp_path, shop()) as database:
        with pytest.raises(NotFound):
            await database.verify(["nothing"])
        report = await database.verify(["customer__orders"])
        assert [item.name for item in report.checked] == ["customer__orders"]


async def test_no_schema_change_before_the_leader_knows_its_build_timestamp(tmp_path):
    """An earlier change would be built as of a timestamp before it: rows deleted in between would
    stay in the index for good."""

    class Waiting(OwnBarrier):
        reached = asyncio.Event()

        async def current_timestamp(self):
            await self.reached.wait()
            return await super().current_timestamp()

    async with opened(tmp_path, bare()) as database:
        manager, committer = database.manager, database.committer
        claim, _ = database.keeper.led()
        keeper = CatalogKeeper(database.store, manager, database.engine, committer, database.clock)
        barrier = Waiting(manager, keeper.readers, committer)
        leading = asyncio.ensure_future(keeper.lead(claim, barrier))
        await asyncio.sleep(0)
        assert not keeper.leads
        with pytest.raises(Unavailable):
            await keeper.apply(next_version(database, shop()))
        barrier.reached.set()
        await leading
        await keeper.apply(next_version(database, shop()))
        await keeper.wait_built()
        await keeper.close()
        await check(database)


async def test_an_empty_build_does_not_count_as_a_small_view(tmp_path):
    """The rows come after the views: until they are counted, a plan must not assume that there are
    none, and scan the view."""
    sql = (
        "SELECT e_name, c_name, o_total FROM employee, customer, orders"
        " WHERE c_id = o_c_id AND o_id = e_id AND e_boss = 5"
    )
    async with opened(tmp_path, shop()) as database:
        assert database.catalog.row_count == {}
        employee, orders = database.explain(sql).steps
        assert (employee.layout, orders.layout) == ("employee.by.e_boss", "customer__orders")
        assert orders.access == "row by key of"
