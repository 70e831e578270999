"""Initial loads: rows put beside the transactions into tables that no query reads yet, visible at
once."""

from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hornbeam_server.maintain.spans import Span
from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.errors import BeingLoaded, InvalidRequest, NotFound, StalePlan
from hornbeam_server.storage.ports import Put
from hornbeam_server.txlayer.ddl import load_records
from tests.txlayer.database_world import check, fill_load, opened, run_all, settings, shop
from tests.txlayer.test_transactions_schema import next_version

ALL = Span(b"", None)
CUSTOMERS = "INSERT INTO customer VALUES (1, 'ann', 5, 'ann@x'), (2, 'bob', 0, NULL)"
PRODUCTS = "INSERT INTO product VALUES (7, 'tea', 3)"
LOADED = {
    "orders": [(10, 1, None), (11, 2, None), (12, None, None)],
    "line": [(10, 1, 7, 2), (10, 2, None, 1), (11, 1, 7, 9)],
}
IDENTITY = "these files"


async def begin(database, relations=("orders", "line"), identity=IDENTITY, **options):
    await database.initial_loads.begin(relations, identity, options.get("splits", {}))


def number(database):
    return database.catalog.load.number if database.catalog.load is not None else 1


async def finish(database, rows):
    for name in database.catalog.load.relations:
        await database.initial_loads.finish(number(database), name, ALL, len(rows[name]))


async def load(database, rows=None):
    rows = rows or LOADED
    await begin(database, tuple(rows))
    await fill_load(database, rows)
    await finish(database, rows)
    await database.initial_loads.end(number(database))


async def rows_of(database, sql):
    async with database.query(sql) as result:
        return sorted(await result.stream.all())


@asynccontextmanager
async def on_shop(tmp_path, **options):
    async with opened(tmp_path, shop(), **options) as database:
        await run_all(database, CUSTOMERS, PRODUCTS)
        yield database
        await database.keeper.wait_built()
        await check(database)


async def test_loaded_rows_become_visible_together_with_their_views_and_indexes(tmp_path):
    join = "SELECT c_name, l_no FROM customer, orders, line WHERE c_id = o_c_id AND o_id = l_o_id"
    async with on_shop(tmp_path) as database:
        old = {
            database.catalog.layout(name).table for name in ("orders", "line", "customer__orders")
        }
        await begin(database)
        await fill_load(database, LOADED)
        assert await rows_of(database, "SELECT * FROM orders") == []
        assert await rows_of(database, join) == []
        await finish(database, LOADED)
        await database.initial_loads.end(number(database))
        assert database.prepare(join).served_by == ("customer__orders__line",)
        assert await rows_of(database, join) == [("ann", 1), ("ann", 2), ("bob", 1)]
        assert Counter(await rows_of(database, "SELECT o_id FROM orders")) == {
            (10,): 1, (11,): 1, (12,): 1,
        }  # fmt: skip
        assert database.catalog.load is None
        assert database.catalog.row_count["orders"] == 3
        await database.keeper.wait_built()
        assert not old & set(await database.store.tables())
        await run_all(
            database,
            "UPDATE customer SET c_name = 'anna' WHERE c_id = 1",
            "INSERT INTO line VALUES (11, 2, 7, 1)",
            "DELETE FROM orders WHERE o_id = 10",
        )
        assert await rows_of(database, join) == [("bob", 1), ("bob", 2)]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO orders VALUES (1, 1, 1)",
        "INSERT INTO line VALUES (1, 1, NULL, 1)",
        "UPDATE customer SET c_name = 'x' WHERE c_id = 1",
        "DELETE FROM customer WHERE c_id = 2",
        "UPDATE product SET p_stock = 1",
        "INSERT INTO gift VALUES (1, NULL, NULL, 'x')",
    ],
)
async def test_relations_that_a_load_relies_on_cannot_be_written(tmp_path, sql):
    async with on_shop(tmp_path) as database:
        await begin(database)
        with pytest.raises(BeingLoaded, match="initial load"):
            await database.execute(sql)
        await run_all(database, "INSERT INTO employee VALUES (1, NULL, 'eve')")
        await database.initial_loads.cancel()
        if "line" not in sql:
            await database.execute(sql)


async def test_bulk_inserts_are_refused_too(tmp_path):
    async with on_shop(tmp_path) as database:
        await begin(database, ("gift",))
        with pytest.raises(BeingLoaded):
            await database.load("orders", ["o_id"], [(1,)])
        await database.load("employee", ["e_id"], [(1,)])


async def test_one_load_at_a_time_of_existing_empty_relations(tmp_path):
    async with on_shop(tmp_path) as database:
        with pytest.raises(StalePlan, match="customer has rows"):
            await begin(database, ("orders", "customer"))
        assert database.catalog.load is None
        with pytest.raises(NotFound, match="no relation nowhere"):
            await begin(database, ("nowhere",))
        for wrong in ((), ("gift", "gift")):
            with pytest.raises(InvalidRequest):
                await begin(database, wrong)
        await begin(database)
        begun = database.catalog
        await begin(database)
        assert database.catalog is begun
        for other in ({"relations": ("gift",)}, {"identity": "others"}):
            with pytest.raises(BeingLoaded, match="under way"):
                await begin(database, **other)
        tables = await database.store.tables()
        assert {*load_records.tables(begun).values()} <= {*tables}


async def test_a_relation_whose_views_are_being_built_is_not_loaded(tmp_path):
    async with on_shop(tmp_path) as database:
        await database.keeper.leave_to_external(["customer__orders"], rebuild=True)
        with pytest.raises(StalePlan, match="customer__orders is building"):
            await begin(database)


async def test_no_row_is_visible_before_every_range_is_finished(tmp_path):
    async with on_shop(tmp_path) as database:
        await begin(database)
        await fill_load(database, LOADED)
        await database.initial_loads.finish(number(database), "orders", ALL, 3)
        await database.initial_loads.finish(number(database), "line", Span(b"", b"\x15"), 1)
        with pytest.raises(StalePlan, match="line"):
            await database.initial_loads.end(number(database))
        with pytest.raises(NotFound):
            await database.initial_loads.end(1 << 40)
        with pytest.raises(NotFound):
            await database.initial_loads.finish(number(database), "customer", ALL, 1)
        assert database.initial_loads.finished()["line"].missing == (Span(b"\x15", None),)
        await database.initial_loads.finish(number(database), "line", Span(b"\x15", None), 2)
        await database.initial_loads.end(number(database))
        assert len(await rows_of(database, "SELECT * FROM line")) == 3
        with pytest.raises(NotFound):
            await database.initial_loads.finish(number(database), "line", ALL, 3)


async def test_a_cancelled_load_leaves_nothing(tmp_path):
    async with on_shop(tmp_path) as database:
        await begin(database)
        await fill_load(database, LOADED)
        tables = set(load_records.tables(database.catalog).values())
        assert await database.initial_loads.cancel() == ("orders", "line")
        await database.keeper.wait_built()
        assert not tables & set(await database.store.tables())
        with pytest.raises(NotFound, match="No load"):
            await database.initial_loads.cancel()
        with pytest.raises(NotFound):
            await database.put({next(iter(tables)): [Put(b"k", b"v")]}, database.watermark())
        await run_all(database, "INSERT INTO employee VALUES (1, NULL, 'eve')")
        await load(database, {"line": [], "orders": LOADED["orders"][:1]})
        assert not tables & set(load_records.tables(database.catalog).values())
        assert await rows_of(database, "SELECT o_id FROM orders") == [(10,)]


async def test_a_restart_keeps_a_load(tmp_path):
    async with opened(tmp_path, shop()) as database:
        await run_all(database, CUSTOMERS, PRODUCTS)
        await begin(database)
        await fill_load(database, LOADED)
        await database.initial_loads.finish(number(database), "orders", ALL, 3)
    async with await Database.open(settings(tmp_path)) as database:
        await database.keeper.wait_built()
        with pytest.raises(BeingLoaded):
            await database.execute("INSERT INTO orders VALUES (1, 1, 1)")
        finished = database.initial_loads.finished()
        assert {name for name, known in finished.items() if known.missing} == {"line"}
        await database.initial_loads.finish(number(database), "line", ALL, 3)
        await database.initial_loads.end(number(database))
        assert len(await rows_of(database, "SELECT * FROM line")) == 3
    async with await Database.open(settings(tmp_path)) as database:
        await database.keeper.wait_built()
        await check(database)
        assert len(await rows_of(database, "SELECT * FROM orders")) == 3


async def test_the_schema_changes_during_a_load_only_beside_it(tmp_path):
    async with on_shop(tmp_path) as database:
        await begin(database)
        loading = database.catalog.load
        fewer = replace(next_version(database, shop()), load=loading)
        without = tuple(view for view in fewer.views if view.name != "orders__line")
        with pytest.raises(BeingLoaded, match="concerns"):
            await database.keeper.apply(replace(fewer, views=without))
        kept = replace(database.catalog, version=fewer.version, workload=())
        await database.keeper.apply(kept)
        assert database.catalog.load == loading
        await fill_load(database, LOADED)
        await finish(database, LOADED)
        await database.initial_loads.end(number(database))


async def test_rows_put_twice_at_different_snapshots_are_stored_once(tmp_path):
    async with on_shop(tmp_path) as database:
        await begin(database)
        await fill_load(database, LOADED)
        await run_all(database, "INSERT INTO employee VALUES (1, NULL, 'eve')")
        await fill_load(database, LOADED, only=("orders", "customer__orders"))
        await finish(database, LOADED)
        await database.initial_loads.end(number(database))


async def test_a_follower_of_changes_learns_of_a_load(tmp_path):
    async with on_shop(tmp_path) as database:
        before = database.watermark()
        await load(database)
        changes = await database.changes(before)
        assert changes.loaded == dict.fromkeys(LOADED, database.catalog.since)
        await run_all(database, "INSERT INTO employee VALUES (1, NULL, 'eve')")
        assert (await database.changes(database.catalog.since)).loaded == {}


def test_a_relation_and_its_views_share_their_splits():
    catalog = load_records.begun(shop_readable(), ("orders", "line"), IDENTITY)
    made = load_records.tables(catalog)
    assert load_records.splits(catalog, {"line": [b"k"]}) == {
        made[name]: [b"k"] for name in ("line", "orders__line", "customer__orders__line")
    }


def shop_readable():
    catalog = shop()
    return replace(catalog, states=tuple((name, State.READABLE) for name, _ in catalog.states))


async def test_ranges_finished_for_a_cancelled_load_do_not_count_for_the_next(tmp_path):
    """Even when the next load has the same relations: a driver that was replaced reports late."""
    async with on_shop(tmp_path) as database:
        await begin(database)
        late = number(database)
        await database.initial_loads.cancel()
        await begin(database)
        with pytest.raises(NotFound):
            await database.initial_loads.finish(late, "orders", ALL, 3)
        assert all(known.missing for known in database.initial_loads.finished().values())
        await database.initial_loads.cancel()
