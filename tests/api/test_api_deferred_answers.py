"""Deferred views that answer aggregates of statements that do not name them, for readers that allow
staleness. The tests write the batches: the rows of a view's SELECT at the snapshot of the batch."""

import asyncio
from dataclasses import replace

import pytest

import hornbeam
from hornbeam_server.maintain.deltas.program import compile_view
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.model import DeclaredView
from hornbeam_server.schema.views import DeferredView
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.ports import Put
from hornbeam_server.txlayer.statements.requests import Statement
from hornbeam_server.txlayer.views.refresh_groups import Finished
from tests.api.api_world import DDL, world
from tests.api.test_api_deferred import JumpingClock
from tests.api.test_api_deferred_schema import refreshed, url_of
from tests.txlayer.database_world import on_shop

BY_CUSTOMER = (
    "SELECT o_c_id, c_name, count(*) AS n, sum(o_total) AS total, count(o_total) AS counted"
    " FROM orders JOIN customer ON o_c_id = c_id GROUP BY o_c_id, c_name"
)
SUM = (
    "SELECT c_name, sum(o_total), avg(o_total) FROM orders, customer WHERE o_c_id = c_id"
    " GROUP BY c_name"
)
NAMES = "SELECT c_name, count(*) AS k FROM customer GROUP BY c_name"
DONE = Finished(1, 1, 0.1)


async def declare(db, name, sql, group="default"):
    declared = DeclaredView(name, sql, group=group)
    program = compile_view(declared, db.catalog)
    made = DeferredView(
        declared, program.relations, program.columns, program.hidden, program.key, program.states
    )

    async def added(current):
        return replace(
            current,
            version=current.version + 1,
            schema=replace(current.schema, views=(*current.schema.views, declared)),
            deferred=(*current.deferred, made),
            states=(*current.states, (name, State.BUILDING)),
        )

    await db.keeper.change(added)
    await db.keeper.wait_built()


async def refresh(db, group="default"):
    """A batch that puts all rows of the group's views. Returns its snapshot."""
    work = await db.deferred.begin(group, db.snapshot_after)
    for name in (*work.refreshed, *work.built):
        view = db.catalog.deferred_view[name]
        assert not view.hidden
        rows = await db.fetch(view.declared.sql, snapshot=work.upto, use_views=False)
        codec = Codecs(db.catalog)(name)
        puts = [Put(codec.key(row), codec.encode(row)) for row in rows]
        await db.put({codec.layout.table: puts}, work.upto)
    await db.deferred.finish(group, work.upto, DONE)
    return work.upto


async def order(db, number, customer, total):
    await db.execute("INSERT INTO orders (o_id, o_c_id, o_total) VALUES (?, ?, ?)",
                     (number, customer, total))  # fmt: skip
    await asyncio.sleep(0.002)  # the next batch has a later snapshot


async def filled(db):
    """Two customers with three orders, and the view as of then. Returns the view's snapshot."""
    for number, name in ((1, "ann"), (2, "bob")):
        await db.execute("INSERT INTO customer (c_id, c_name) VALUES (?, ?)", (number, name))
    for number, (customer, total) in enumerate([(1, 5), (1, 6), (2, 7)]):
        await order(db, number, customer, total)
    await declare(db, "by_customer", BY_CUSTOMER)
    return await refresh(db)


async def read(db, sql=SUM, **options):
    """(sorted rows, what served them, snapshot) of a query."""
    async with db.query(sql, **options) as result:
        return sorted(await result.stream.all()), result.served_by, result.snapshot


def plain(rows):
    return [tuple(str(value) for value in row) for row in rows]


THEN = [("ann", "11.00", f"5.5{0:019d}"), ("bob", "7.00", f"7.{0:020d}")]
NOW = [("ann", "111.00", f"37.{0:020d}"), ("bob", "7.00", f"7.{0:020d}")]


async def test_a_view_answers_readers_that_allow_its_age_and_only_those(tmp_path):
    clock = JumpingClock()
    async with on_shop(tmp_path, clock=clock) as db:
        as_of = await filled(db)
        await order(db, 9, 1, 100)
        rows, served_by, at = await read(db, max_staleness_s=60)
        assert (plain(rows), served_by, at) == (THEN, ("by_customer",), as_of)
        for options in (
            {},
            {"max_staleness_s": 60, "strong": True},
            {"max_staleness_s": 60, "trace": True},
            {"max_staleness_s": 60, "use_views": False},
            {"max_staleness_s": 60, "bookmark": db.watermark()},
        ):
            rows, served_by, at = await read(db, **options)
            assert plain(rows) == NOW, options
            assert "by_customer" not in served_by, options
            assert at > as_of
        clock.ahead_s = 61
        assert plain((await read(db, max_staleness_s=60))[0]) == NOW
        assert plain((await read(db, max_staleness_s=90))[0]) == THEN
        later = await refresh(db)
        rows, _, at = await read(db, max_staleness_s=60)
        assert (plain(rows), at) == (NOW, later)


async def test_pending_writes_and_a_named_snapshot_turn_stale_answers_off(tmp_path):
    async with on_shop(tmp_path) as db:
        as_of = await filled(db)
        await order(db, 9, 1, 100)
        pending = [Statement("INSERT INTO orders (o_id, o_c_id, o_total) VALUES (10, 2, 1)", ())]
        rows, _, _ = await read(db, pending=pending, max_staleness_s=60)
        assert plain(rows) == [NOW[0], ("bob", "8.00", f"4.{0:020d}")]
        rows, served_by, _ = await read(db, snapshot=as_of + 1, max_staleness_s=60)
        assert (plain(rows), "by_customer" in served_by) == (THEN, False)


async def test_the_whole_statement_is_read_at_the_snapshot_of_the_view(tmp_path):
    both = (
        "SELECT (SELECT max(o_id) FROM orders), n FROM"
        " (SELECT o_c_id, count(*) AS n FROM orders JOIN customer ON o_c_id = c_id"
        " GROUP BY o_c_id) AS t WHERE o_c_id = 1"
    )
    async with on_shop(tmp_path) as db:
        as_of = await filled(db)
        await order(db, 9, 1, 100)
        rows, served_by, at = await read(db, both, max_staleness_s=60)
        assert (rows, at) == ([(2, 2)], as_of)
        assert "by_customer" in served_by
        assert any(name.startswith("orders") for name in served_by)
        assert (await read(db, both))[0] == [(9, 3)]


async def test_views_of_two_groups_do_not_answer_one_statement(tmp_path):
    both = (
        f"SELECT t.c_name, k FROM ({SUM}) AS t (c_name, s, a), ({NAMES}) AS u"
        " WHERE u.c_name = t.c_name"
    )
    async with on_shop(tmp_path) as db:
        await filled(db)
        await declare(db, "by_name", NAMES, group="slow")
        await asyncio.sleep(0.002)
        later = await refresh(db, "slow")
        rows, served_by, at = await read(db, both, max_staleness_s=60)
        assert (rows, at) == ([("ann", 1), ("bob", 1)], later)  # the group with the later snapshot
        assert "by_name" in served_by
        assert "by_customer" not in served_by


async def test_explain_says_which_view_answers_how_old_it_is_or_why_none_does(tmp_path):
    clock = JumpingClock()
    async with on_shop(tmp_path, clock=clock) as db:
        as_of = await filled(db)
        clock.ahead_s = 30
        found = await db.explained(SUM, max_staleness_s=60)
        assert found.views == ("by_customer",)
        note = found.notes[-1]
        assert note.startswith("deferred view by_customer (30.")
        assert note.endswith(f"answers the aggregates; everything is read at its snapshot, {as_of}")

        async def refusal(**options):
            found = await db.explained(SUM, **options)
            assert "by_customer" not in found.views
            return found.notes[-1]

        assert "does not answer the aggregates: the reader allows no staleness" in await refusal()
        assert "the reader allows 10 s" in await refusal(max_staleness_s=10)
        later = {"max_staleness_s": 60, "bookmark": as_of + 1}
        assert "the reader's bookmark is later" in await refusal(**later)
        other = await db.explained("SELECT count(*) FROM product", max_staleness_s=60)
        assert other.notes == ()


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT o_c_id, sum(o_total) AS t FROM orders GROUP BY o_c_id HAVING sum(o_total) > 5",
         "HAVING leaves out some of its groups"),
        ("SELECT o_c_id, count(*) AS n FROM orders LEFT JOIN customer ON o_c_id = c_id"
         " WHERE o_total > 1 OR c_name = 'ann' GROUP BY o_c_id",
         "its SELECT has outer, semi or anti joins"),
        ("SELECT c_name, count(*) AS n FROM (SELECT o_c_id AS k FROM orders) AS t JOIN customer"
         " ON k = c_id GROUP BY c_name", "its SELECT is not one block with aggregates"),
        ("SELECT o_c_id, sum(o_total) AS t FROM orders WHERE o_total > 5 GROUP BY o_c_id",
         "its condition orders.o_total > 5 does not follow from the statement's"),
        ("SELECT DISTINCT ON (o_c_id) o_c_id, sum(o_total) AS t FROM orders GROUP BY o_c_id",
         "its SELECT has DISTINCT"),
    ],
)  # fmt: skip
async def test_a_view_that_cannot_answer_is_named_with_the_reason(tmp_path, sql, reason):
    asked = "SELECT o_c_id, sum(o_total) FROM orders GROUP BY o_c_id"
    async with on_shop(tmp_path) as db:
        await declare(db, "v", sql)
        await refresh(db)
        found = db.engine.prepare(asked, db.catalog, stale=frozenset({"v"}))
        assert not found.deferred
        assert f"view v: {reason}" in found.explain().notes


def test_a_connection_that_allows_staleness_sees_its_own_writes(tmp_path):
    with world(tmp_path) as shop:
        ddl = DDL + f"CREATE MATERIALIZED VIEW v WITH (refresh = 'deferred') AS {NAMES};"
        assert shop.apply(ddl=ddl, workload="", roots=None).is_success
        assert refreshed(shop)["built"] == ["v"]  # over no rows
        url = url_of(shop)
        with (
            hornbeam.connect(url, autocommit=True) as writer,
            hornbeam.connect(url, autocommit=True, max_staleness_s=600) as reader,
            hornbeam.connect(url, autocommit=True, max_staleness_s=600) as mixed,
        ):
            writer.cursor().execute("INSERT INTO customer (c_id, c_name) VALUES (1, 'ann')")
            for _ in range(2):
                assert fetched(writer, NAMES) == [("ann", 1)]
                assert fetched(reader, "SELECT c_name FROM customer") == [("ann",)]
                assert fetched(reader, NAMES) == []  # also after a later snapshot was read
            assert "answers the aggregates" in reader.explain(NAMES, ())["text"]
            mixed.cursor().execute("INSERT INTO customer (c_id, c_name) VALUES (2, 'bob')")
            assert sorted(fetched(mixed, NAMES)) == [("ann", 1), ("bob", 1)]
            assert "bookmark is later" in mixed.explain(NAMES, ())["text"]


def fetched(connection, sql):
    cursor = connection.cursor()
    cursor.execute(sql)
    return cursor.fetchall()
