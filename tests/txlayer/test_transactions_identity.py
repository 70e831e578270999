"""The numbers of identity columns: their start, restarts, loads, and several nodes."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hornbeam_server.maintain.spans import Span
from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.codec import encode_catalog
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import (
    InvalidRequest,
    LimitExceeded,
    NotFound,
    SqlError,
    UniqueViolation,
)
from hornbeam_server.storage.ports import Put
from hornbeam_server.txlayer.ddl import catalog_keeper
from hornbeam_server.txlayer.statements import identity_columns
from tests.txlayer.database_world import catalog_of, opened, settings, stored_rows
from tests.txlayer.nodes_world import nodes
from tests.txlayer.test_transactions_schema import next_version
from tests.virtual_time import in_virtual_time

T = "CREATE TABLE t (id {type} GENERATED {when} AS IDENTITY {options} PRIMARY KEY, a INT);"
ADD = "INSERT INTO t (a) VALUES (1) RETURNING id"


def tables(options="", type_="BIGINT", when="BY DEFAULT"):
    return catalog_of(load_ddl(T.format(options=options, type=type_, when=when)))


NOTHING = catalog_of(load_ddl("CREATE TABLE other (o INT PRIMARY KEY);"))


async def add(database, sql=ADD):
    (statement,) = (await database.execute(sql)).statements
    return [row[0] for row in statement.rows]


async def change(database, catalog):
    await database.keeper.apply(next_version(database, catalog))
    await database.keeper.wait_built()


@asynccontextmanager
async def on(tmp_path, catalog=None):
    async with opened(tmp_path, catalog or tables()) as database:
        yield database


async def test_a_recreated_table_starts_its_numbers_again(tmp_path):
    async with on(tmp_path) as database:
        for _ in range(3):
            assert await add(database) == [1]
            assert await add(database) == [2]
            await change(database, NOTHING)
            await change(database, tables())


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ("(START WITH 42)", [42, 43, 44]),
        ("(START WITH 0 INCREMENT BY 10)", [0, 10, 20]),
        ("(INCREMENT BY -3 START WITH 7)", [7, 4, 1]),
        ("(MINVALUE 5)", [5, 6, 7]),
        ("", [1, 2, 3]),
    ],
)
async def test_numbers_are_given_as_declared(tmp_path, options, given):
    async with on(tmp_path, tables(options)) as database:
        assert [(await add(database))[0] for _ in given] == given


@pytest.mark.parametrize(
    ("options", "type_", "given"),
    [
        ("(MAXVALUE 2)", "BIGINT", [1, 2]),
        ("(START WITH -1 INCREMENT BY -1 MINVALUE -2)", "BIGINT", [-1, -2]),
        ("(START WITH 2147483646)", "INTEGER", [2147483646, 2147483647]),
        ("(START WITH 9223372036854775806)", "BIGINT", [9223372036854775806]),
    ],
)
async def test_after_the_last_number_inserts_are_refused(tmp_path, options, type_, given):
    async with on(tmp_path, tables(options, type_)) as database:
        assert [(await add(database))[0] for _ in given] == given
        for _ in range(3):
            with pytest.raises(LimitExceeded) as raised:
                await add(database)
            assert "RESTART WITH" in raised.value.cure


async def test_a_restart_sets_the_next_number(tmp_path):
    async with on(tmp_path) as database:
        assert await add(database) == [1]
        await database.keeper.restart("t", "id", 500)
        assert await add(database) == [500]
        assert await add(database) == [501]
        await database.keeper.restart("t", "id", None)
        with pytest.raises(UniqueViolation):
            await add(database)
        assert await add(database) == [2]
        await database.keeper.restart("t", "id", 500)
        await database.execute("DELETE FROM t WHERE id = 500")
        assert await add(database) == [500]
        for relation, column in (("t", "a"), ("u", "id")):
            with pytest.raises(NotFound):
                await database.keeper.restart(relation, column, 1)


async def test_a_restart_leaves_older_snapshots_readable(tmp_path):
    """Only a counter changes: the transactions of clients go on."""
    async with on(tmp_path) as database:
        await add(database)
        before = database.catalog
        async with database.query("SELECT count(*) FROM t") as result:
            snapshot = result.snapshot
            assert await result.stream.all() == [(1,)]
        await database.keeper.restart("t", "id", 500)
        await add(database)
        assert database.catalog.version > before.version
        assert database.catalog.since == before.since
        assert await database.fetch("SELECT count(*) FROM t", snapshot=snapshot) == [(1,)]
        assert await database.fetch("SELECT count(*) FROM t") == [(2,)]


async def test_a_restart_outlives_the_process_and_is_applied_once(tmp_path):
    async with opened(tmp_path, tables()) as database:
        assert await add(database) == [1]
        await database.keeper.restart("t", "id", 500)
        assert await add(database) == [500]
    async with await Database.open(settings(tmp_path)) as database:
        (number,) = await add(database)
        assert 500 < number <= 500 + identity_columns.BLOCK


async def test_a_restart_beyond_the_last_number_is_refused(tmp_path):
    async with on(tmp_path, tables("(MAXVALUE 9)")) as database:
        with pytest.raises(InvalidRequest, match="last number is 9"):
            await database.keeper.restart("t", "id", 10)
        assert await add(database) == [1]


async def test_explicit_keys_of_statements_do_not_advance_the_numbers(tmp_path):
    async with on(tmp_path) as database:
        await database.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
        for _ in range(2):
            with pytest.raises(UniqueViolation) as raised:
                await add(database)
            assert "ALTER TABLE t ALTER COLUMN id RESTART WITH" in raised.value.cure
        assert await add(database) == [3]
        with pytest.raises(UniqueViolation) as raised:
            await database.execute("INSERT INTO t VALUES (1, 1)")
        assert "RESTART" not in raised.value.cure


@pytest.mark.parametrize(
    ("options", "loaded", "after"),
    [
        ("", [1, 2, 3], 4),
        ("", [900, 7, 50_000], 50_001),
        ("(INCREMENT BY 5)", [1, 3], 8),
        ("(INCREMENT BY -1)", [-1, -2, -50], -51),
        ("(START WITH 100)", [1, 2], 100),
    ],
)
async def test_a_load_advances_the_numbers(tmp_path, options, loaded, after):
    async with on(tmp_path, tables(options)) as database:
        await database.load("t", ["a", "id"], [(n, n) for n in loaded])
        assert await add(database) == [after]
        step = database.catalog.counters["t", "id"].identity.increment
        await database.load("t", ["id"], [(after + 40 * step,)])
        assert await add(database) == [after + 41 * step]
        await database.load("t", ["id"], [(after + 3 * step,)])
        assert await add(database) == [after + 42 * step]
        await database.load("t", ["a"], [(1,), (2,)])
        assert await add(database) == [after + 45 * step]


async def test_a_refused_load_does_not_advance_the_numbers(tmp_path):
    async with on(tmp_path) as database:
        await database.execute("INSERT INTO t VALUES (70, 1)")
        with pytest.raises(UniqueViolation):
            await database.load("t", ["id"], [(10**15,), (70,)])
        assert await add(database) == [1]


async def test_a_load_makes_its_numbers_durable(tmp_path):
    """The test flushes nothing; only the load does."""
    async with opened(tmp_path, tables()) as database:
        await database.load("t", ["id"], [(n,) for n in range(1, 4)])
        (cell,) = await database.store.get(
            identity_columns.TABLE,
            [identity_columns._cell(database.catalog.counters["t", "id"])],
            1 << 62,
        )
        assert identity_columns._NUMBER.unpack(cell.value)[0] > 3


async def test_an_initial_load_advances_the_numbers(tmp_path):
    async with on(tmp_path) as database:
        await database.initial_loads.begin(["t"], "x", {})
        number = database.catalog.load.number
        await database.initial_loads.finish(number, "t", Span(b"", b"\x90"), 3, {"id": (4, 30)})
        await database.initial_loads.finish(number, "t", Span(b"\x90", None), 3, {"id": (40, 90)})
        await database.initial_loads.end(number)
        assert await add(database) == [91]


async def test_generated_always_refuses_values_unless_overridden(tmp_path):
    async with on(tmp_path, tables(when="ALWAYS")) as database:
        for sql in (
            "INSERT INTO t VALUES (5, 1)",
            "INSERT INTO t (a, id) VALUES (1, DEFAULT), (1, 2)",
            "INSERT INTO t (id) SELECT 7",
            "UPDATE t SET id = 8",
            "INSERT INTO t VALUES (DEFAULT, 1) ON CONFLICT (id) DO UPDATE SET id = 9",
        ):
            with pytest.raises(SqlError, match="GENERATED ALWAYS"):
                await database.execute(sql)
        assert await add(database, "INSERT INTO t VALUES (DEFAULT, 1) RETURNING id") == [1]
        system = "INSERT INTO t (id, a) OVERRIDING SYSTEM VALUE "
        assert await add(database, system + "VALUES (70, 1) RETURNING id") == [70]
        assert await add(database, system + "SELECT 71, 1 RETURNING id") == [71]
        user = "INSERT INTO t (id, a) OVERRIDING USER VALUE VALUES (99, 1) RETURNING id"
        assert await add(database, user) == [2]
        await database.load("t", ["id"], [(80,)])
        assert await add(database) == [81]


async def test_a_new_start_in_the_ddl_advances_the_numbers_and_never_sets_them_back(tmp_path):
    async with on(tmp_path) as database:
        assert await add(database) == [1]
        await change(database, tables("(START WITH 50)"))
        assert await add(database) == [50]
        await change(database, tables("(START WITH 3)"))
        (number,) = await add(database)
        assert number > 50
        await change(database, tables("(START WITH 3 INCREMENT BY 100)"))
        (first,), (second,) = await add(database), await add(database)
        assert second == first + 100 > number


async def test_a_database_of_an_older_format_goes_on(tmp_path):
    """The catalog has no beginnings and the counter no incarnation, as older versions wrote
    them."""
    async with opened(tmp_path, tables()) as database:
        catalog = replace(database.catalog, version=database.catalog.version + 1, beginnings=())
        assert b'"format":1,' in encode_catalog(catalog)
        await database.keeper._publish(lambda _: catalog_keeper._ready(catalog))
        old = Put(b"t\0id", (2001).to_bytes(8, "big", signed=True))
        await database.store.put(
            {identity_columns.TABLE: [old]}, await database.committer.reserve()
        )
    async with await Database.open(settings(tmp_path)) as database:
        assert await add(database) == [2001]
        await change(database, replace(tables(), incarnations=database.catalog.incarnations))
        assert await add(database) == [2002]
        await database.keeper.restart("t", "id", 7)
        assert await add(database) == [7]


# ---------------------------------------------------------------- several nodes


async def three():
    return await nodes(0, 0, 0, catalog=tables())


async def added(node, count=1):
    found = []
    for _ in range(count):
        found += [row[0] for row in (await node.transact(ADD)).statements[0].rows]
    return found


@in_virtual_time
async def test_after_a_restart_no_node_gives_numbers_of_an_older_block():
    world = await three()
    before = [await added(node, 3) for node in world.all]
    assert len({n // identity_columns.BLOCK for numbers in before for n in numbers}) == 3
    await world.leader.do(world.leader.database.keeper.restart("t", "id", 50_000))
    await world.settled()
    numbers = [n for _ in range(3) for node in world.all for n in await added(node)]
    assert min(numbers) == 50_000
    assert len(set(numbers)) == len(numbers)
    await world.end()


@in_virtual_time
async def test_a_restart_during_inserts_at_all_nodes():
    world = await three()
    inserts = [asyncio.ensure_future(added(node, 30)) for node in world.all]
    await asyncio.sleep(0.3)
    await world.leader.do(world.leader.database.keeper.restart("t", "id", 500_000))
    ended = [n for numbers in await asyncio.gather(*inserts) for n in numbers]
    assert len(set(ended)) == len(ended) == 90
    for node in world.all:
        assert min(await added(node)) >= 500_000
    await world.end()


@in_virtual_time
async def test_a_load_at_one_node_makes_no_insert_fail_at_another():
    world = await three()
    one, two, three_ = world.all
    reserved = [await added(node) for node in world.all]
    loaded = [n for n in range(1, 3 * identity_columns.BLOCK + 1) if [n] not in reserved]
    await one.do(one.database.load("t", ["id"], [(n,) for n in loaded]))
    for node in (one, two, three_):
        assert min(await added(node, 2)) > max(loaded)
        trial = await node.transact(ADD, dry_run=True)
        assert trial.statements[0].rows[0][0] > max(loaded)
    await world.end()


@in_virtual_time
async def test_dry_runs_skip_loaded_numbers_too():
    world = await three()
    one, two, _ = world.all
    ((first,), _) = await added(one), await added(two)
    await one.do(one.database.load("t", ["id"], [(first + 1,), (9_000,)]))
    await two.do(two.database.load("t", ["id"], [(10_000,)]))
    trial = await one.transact(ADD, dry_run=True)
    assert trial.statements[0].rows[0][0] > 9_000
    await world.end()


async def test_columns_with_a_common_name_prefix_count_separately(tmp_path):
    """Stores require that no key is a prefix of another."""
    two = "CREATE TABLE t (id SERIAL PRIMARY KEY, idx SERIAL, id2 SERIAL, a INT);"
    async with on(tmp_path, catalog_of(load_ddl(two))) as database:
        (statement,) = (await database.execute(f"{ADD}, idx, id2")).statements
        assert statement.rows == ((1, 1, 1),)
        await database.load("t", ["id", "idx", "id2"], [(2_000, 3_000, 4_000)])
        (statement,) = (await database.execute(f"{ADD}, idx, id2")).statements
        assert statement.rows == ((2_001, 3_001, 4_001),)


async def test_a_schema_change_without_restart_keeps_the_beginnings(tmp_path):
    async with on(tmp_path) as database:
        before = database.catalog.beginnings
        await change(database, tables())
        assert database.catalog.beginnings == before != ()
        assert isinstance(database.catalog, Catalog)
        assert await stored_rows(database, "t", database.watermark()) == []
