"""Builds outside the nodes: each range is built at its own snapshot while writers go on, whatever
happens to the builder and to the catalog keeper."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from hornbeam_server.maintain.recompute import build_batches, scanned_relation
from hornbeam_server.maintain.spans import Span, cut
from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.errors import InvalidRequest, NotFound
from hornbeam_server.storage.ports import Put
from hornbeam_server.storage.snapshot import Snapshot
from tests.txlayer.database_world import opened, run_all, settings, shop
from tests.txlayer.test_transactions_schema import JOIN, bare, check, fill, next_version, write

VIEW = "customer__orders__line"


async def left(database, catalog=None):
    """Put `catalog` (default: a shop) into force, its views and indexes left to others to build."""

    async def made(current):
        return next_version(database, catalog or shop())

    await database.keeper.change(made, external=True)


async def build(database, names, span, *, mark=True):
    """Build a range as an executor does; with `mark`, report it as the driver does."""
    async with database.reads.at(strong=True) as (state, at):
        codecs = state.codecs
        codec = codecs(scanned_relation(state.catalog, names[0]))
        reader = Snapshot(database.store, codecs, at)

        async def scanned():
            async for cells in database.store.scan(codec.layout.table, *span, at):
                yield [codec.decode(cell.value) for cell in cells]

        rows = dict.fromkeys([codecs(name).layout.table for name in names], 0)
        async for batch in build_batches(state.catalog, codecs, names, reader, scanned()):
            for name, found in batch.rows.items():
                made = codecs(name)
                puts = [Put(key, made.encode(row)) for key, row in found]
                rows[made.layout.table] += len(puts)
                await database.put({made.layout.table: puts}, at)
    if mark:
        await database.keeper.finish(rows, span, sum(rows.values()))


async def keys_of(database, relation, every):
    table = database.catalog.layout(relation).table
    at = database.watermark()
    found = [c.key async for cells in database.store.scan(table, b"", None, at) for c in cells]
    return found[every::every]


def sources(database):
    """The names of the builds left to others, grouped by source."""
    found = {}
    for name in database.keeper.external_builds():
        found.setdefault(database.catalog.layout(name).source, []).append(name)
    return list(found.values())


async def build_all(database, *, every=300, between=None):
    """Build everything left, in ranges, in random order, each at its own snapshot."""
    await build_ranges(database, every, between)
    await database.keeper.wait_built()


async def build_ranges(database, every=300, between=None):
    random = Random(7)
    for names in sources(database):
        relation = scanned_relation(database.catalog, names[0])
        spans = list(
            cut(database.keeper.missing(names[0]), await keys_of(database, relation, every))
        )
        random.shuffle(spans)
        for span in spans:
            await build(database, names, span)
            if between is not None:
                await between()


def all_readable(database):
    return set(database.catalog.state.values()) == {State.READABLE}


async def test_ranges_are_built_at_their_own_snapshots_while_writers_go_on(tmp_path):
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        await left(database)
        await database.keeper.wait_built()
        assert database.catalog.state[VIEW] is State.BUILDING
        assert database.prepare(JOIN).served_by == ("customer", "orders")
        rounds = iter(range(1_000))
        await build_all(database, between=lambda: write(database, next(rounds) % 30, 2))
        assert all_readable(database)
        assert database.prepare(JOIN).served_by[0].startswith("customer__orders")
        await check(database)


async def test_late_and_abandoned_puts_of_executors_stay_hidden(tmp_path):
    """One executor dies half way, and its range is built again at a later snapshot. Another
    executor does not report, and puts its rows after all objects are readable."""

    async def rows_of(database, names):
        async with database.reads.at(strong=True) as (state, at):
            codec = state.codecs(scanned_relation(state.catalog, names[0]))
            reader = Snapshot(database.store, state.codecs, at)
            writes = {}
            scanned = reader.scan(codec.layout.name)
            async for batch in build_batches(state.catalog, state.codecs, names, reader, scanned):
                for name, rows in batch.rows.items():
                    made = state.codecs(name)
                    puts = [Put(key, made.encode(row)) for key, row in rows]
                    writes.setdefault(made.layout.table, []).extend(puts)
            return at, writes

    async with opened(tmp_path, bare()) as database:
        await fill(database)
        await left(database)
        for names in sources(database):
            await build(database, names, Span(b"", None), mark=False)
        zombie = dict(database.store._tables)
        held = [(names, await rows_of(database, names)) for names in sources(database)]
        await write(database, 1, 8)
        await build_all(database)
        assert all_readable(database)
        for _, (at, writes) in held:
            await database.store.put(writes, at)
        assert zombie.keys() <= database.store._tables.keys()
        await check(database)


async def test_a_restart_keeps_finished_ranges(tmp_path):
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        await left(database)
        names = next(found for found in sources(database) if VIEW in found)
        first, *rest = cut([Span(b"", None)], await keys_of(database, "line", 300))
        await build(database, names, first)
        await write(database, 1, 5)
    async with await Database.open(settings(tmp_path)) as database:
        await database.keeper.wait_built()
        assert database.catalog.state[VIEW] is State.BUILDING
        assert database.keeper.missing(VIEW) == (Span(rest[0].start, None),)
        assert database.keeper.builds[VIEW].rows > 0
        await write(database, 2, 5)
        await build_all(database)
        assert all_readable(database)
        await check(database)


async def test_a_build_finished_before_a_restart_is_readable_after_it(tmp_path, monkeypatch):
    """The node dies between the last range and the catalog that makes the view readable."""
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        await left(database)
        with monkeypatch.context() as patched:
            patched.setattr(database.keeper, "_complete", lambda names: None)
            await build_all(database)
            assert database.catalog.state[VIEW] is State.BUILDING
    async with await Database.open(settings(tmp_path)) as database:
        await database.keeper.wait_built()
        assert all_readable(database)
        await check(database)


async def test_a_schema_change_keeps_finished_ranges(tmp_path):
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        await left(database)
        names = next(found for found in sources(database) if VIEW in found)
        first, *rest = cut([Span(b"", None)], await keys_of(database, "line", 300))
        await build(database, names, first)
        without = replace(shop(), workload=())
        await database.keeper.apply(next_version(database, without))
        assert database.keeper.missing(VIEW) == (Span(rest[0].start, None),)
        await write(database, 1, 5)
        await build_all(database)
        assert all_readable(database)
        await check(database)


async def test_a_dropped_view_accepts_no_more_ranges(tmp_path):
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        await left(database)
        table = database.catalog.layout(VIEW).table
        await database.keeper.apply(next_version(database, bare()))
        with pytest.raises(NotFound):
            await database.keeper.finish({table: 1}, Span(b"", None), 1)
        assert database.keeper.external_builds() == []
        await database.keeper.wait_built()
        assert table not in await database.store.tables()
        await check(database)


async def test_a_cancelled_build_leaves_nothing_behind(tmp_path):
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        await left(database)
        names = next(found for found in sources(database) if VIEW in found)
        await build(database, names, Span(b"", None), mark=False)
        tables = {database.catalog.layout(name).table for name in names}
        assert set(await database.keeper.cancel([VIEW])) == set(names)
        await database.keeper.wait_built()
        assert not tables & set(await database.store.tables())
        assert VIEW not in database.catalog
        assert not {*names} & database.keeper.builds.keys()
        await build_all(database)
        assert all_readable(database)
        await check(database)
        with pytest.raises(InvalidRequest, match="not being built"):
            await database.keeper.cancel(["customer__orders"])
        with pytest.raises(NotFound):
            await database.keeper.cancel([VIEW])


async def test_an_index_of_the_schema_cannot_be_cancelled(tmp_path):
    async with opened(tmp_path, bare()) as database:
        await left(database)
        with pytest.raises(InvalidRequest, match="belongs to the schema"):
            await database.keeper.cancel(["orders.by.o_c_id"])


async def test_a_readable_view_is_rebuilt_in_another_table(tmp_path):
    async with opened(tmp_path, shop()) as database:
        await fill(database)
        before = database.catalog.layout(VIEW).table
        assert VIEW in await database.keeper.leave_to_external([VIEW])
        assert database.catalog.layout(VIEW).table == before
        await database.keeper.leave_to_external([VIEW], rebuild=True)
        assert database.catalog.state[VIEW] is State.BUILDING
        assert database.catalog.state["customer__orders"] is State.READABLE
        await write(database, 1, 5)
        await build_all(database)
        assert all_readable(database)
        assert database.catalog.layout(VIEW).table != before
        assert before not in await database.store.tables()
        await check(database)


async def test_a_build_can_be_taken_over_from_the_node(tmp_path, monkeypatch):
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        stopped = asyncio.Event()

        async def never(*_):
            await stopped.wait()

        monkeypatch.setattr(database.keeper, "_build_one", never)
        await database.keeper.apply(next_version(database, shop()))
        assert database.keeper.external_builds() == []
        names = [*database.catalog.view, "orders", "line", "gift"]
        await database.keeper.leave_to_external(names)
        assert {VIEW, "line.by.l_p_id"} <= set(database.keeper.external_builds())
        await build_ranges(database)
        monkeypatch.undo()
        stopped.set()
        await database.keeper.wait_built()
        assert all_readable(database)
        await check(database)


async def test_two_builders_of_the_same_ranges_do_no_harm(tmp_path):
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        await left(database)
        for n, names in enumerate(sources(database)):
            relation = scanned_relation(database.catalog, names[0])
            keys = await keys_of(database, relation, 400)
            spans = list(cut([Span(b"", None)], keys))
            await asyncio.gather(
                *(build(database, names, span) for span in spans[:-1]),
                *(build(database, names, span) for span in spans[:-1]),
                write(database, n, 4),
            )
            await build(database, names, spans[-1])
        await database.keeper.wait_built()
        assert all_readable(database)
        await check(database)


async def test_a_paused_build_holds_back_no_purge(tmp_path, monkeypatch):
    """Each range has its own snapshot, so a purge need not wait for the build. Ranges that are
    built afterwards are right, although the tombstones of rows deleted before are gone."""
    async with opened(tmp_path, bare()) as database:
        await fill(database)
        await left(database)
        for names in sources(database):
            await build(database, names, Span(b"", b"\x20"))
        await write(database, 1, 8)
        await run_all(database, "DELETE FROM line WHERE l_o_id > 2400")
        with monkeypatch.context() as patched:
            short = database.settings.model_copy(update={"snapshot_retention_s": 0.000_001})
            patched.setattr(database.ownership, "_settings", short)
            assert await database.purge() > 0
        await build_all(database)
        assert all_readable(database)
        await check(database)
