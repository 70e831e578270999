"""Relations without a primary key: their rows have a hidden identity."""

import asyncio
import itertools
import tempfile
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.node.database import Database
from hornbeam_server.schema.ddl import load_ddl, render_ddl
from hornbeam_server.schema.errors import (
    HornbeamError,
    NotFound,
    SqlError,
    UniqueViolation,
    UnknownName,
)
from hornbeam_server.schema.row_identity import GROUP, LAST, of_loaded, spread
from hornbeam_server.txlayer.statements import identity_columns
from hornbeam_server.txlayer.statements.requests import InsertRows, Statement, TransactionRequest
from tests.depth import depth
from tests.txlayer.database_world import catalog_of, check, opened, run_all, settings
from tests.txlayer.nodes_world import nodes
from tests.txlayer.test_immediate_views import apply, require_right
from tests.virtual_time import in_virtual_time

DDL = """
CREATE TABLE a (a_id INTEGER PRIMARY KEY, a_name TEXT);
CREATE TABLE b (b_id INTEGER PRIMARY KEY);
CREATE TABLE a_b (
  x INTEGER NOT NULL REFERENCES a ON DELETE CASCADE, y INTEGER REFERENCES b ON DELETE SET NULL,
  note TEXT DEFAULT 'new');
CREATE INDEX a_b_note ON a_b (note);
CREATE TABLE log (x INTEGER, at TEXT UNIQUE);
"""
NUMBERS = st.integers(1, LAST)
ORIGINS = st.integers(0, (1 << 63) - 1)
FILL = (
    "INSERT INTO a VALUES (1, 'one'), (2, 'two')",
    "INSERT INTO b VALUES (5), (6)",
    "INSERT INTO a_b VALUES (1, 5, 'p'), (1, 5, 'p'), (1, 6, DEFAULT), (2, NULL, 'q')",
)


@asynccontextmanager
async def filled(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
        await run_all(database, *FILL)
        yield database
        await check(database)


@given(NUMBERS, NUMBERS)
def test_spread_gives_distinct_identities_from_zero(one, other):
    assert 0 <= spread(one) < 1 << 63
    assert (spread(one) == spread(other)) == (one == other)


def test_a_block_of_a_node_is_one_group():
    assert identity_columns.BLOCK == GROUP


def test_spread_keeps_a_group_together_and_groups_apart():
    first = GROUP + 1
    assert [spread(first + n) - spread(first) for n in range(GROUP)] == list(range(GROUP))
    begins = sorted(spread(group * GROUP + 1) for group in range(8))
    gaps = [after - before for before, after in itertools.pairwise(begins)]
    assert min(gaps) == 1 << 60


@given(ORIGINS, ORIGINS)
def test_loaded_rows_lie_below_zero_in_the_order_of_the_input(one, other):
    assert -(1 << 63) <= of_loaded(one) < 0
    assert (of_loaded(one) < of_loaded(other)) == (one < other)


def test_the_identity_is_no_part_of_the_ddl():
    schema = load_ddl(DDL)
    assert schema.relation("a_b").primary_key == ("rowid",)
    assert "rowid" not in render_ddl(schema)
    assert load_ddl(render_ddl(schema)) == schema


def test_a_declared_column_keeps_the_name():
    relation = load_ddl("CREATE TABLE t (rowid INT, a INT)").relation("t")
    assert relation.primary_key == ("rowid_1",)
    assert relation.visible_names == ("rowid", "a")


async def test_equal_rows_are_kept_and_the_identity_is_not_shown(tmp_path):
    async with filled(tmp_path) as database:
        every = await database.fetch("SELECT * FROM a_b")
        assert Counter(every) == Counter([(1, 5, "p"), (1, 5, "p"), (1, 6, "new"), (2, None, "q")])
        done = await database.execute("INSERT INTO a_b VALUES (2, 6, 'r') RETURNING *")
        assert done.statements[0].columns == ("x", "y", "note")
        assert done.statements[0].rows == ((2, 6, "r"),)


Q = (2, None, "q")
PAIRS = [(1, 5, "p", "now"), (1, 5, "p", "now"), (1, 6, "new", "now")]
QUERIES = [
    ("SELECT count(DISTINCT rowid) FROM a_b", [(4,)]),
    ("SELECT * FROM a_b AS t (p, q) WHERE p = 2", [Q]),
    (
        "SELECT * FROM a_b AS t (p, q) WHERE length(q::text || 'x') = 2 AND rowid IS NOT NULL",
        [
            (1, 5, "p"),
            (1, 5, "p"),
            (1, 6, "new"),
        ],
    ),
    ("SELECT * EXCLUDE (note) FROM a_b WHERE x = 2", [(2, None)]),
    (
        "SELECT * EXCLUDE (note) FROM a_b WHERE x = 2 AND regexp_matches(rowid::text, '.')",
        [(2, None)],
    ),
    ("SELECT *, rowid - rowid FROM a_b WHERE x = 2", [(*Q, 0)]),
    ("SELECT *, length(repeat(rowid::text, 0)) FROM a_b WHERE x = 2", [(*Q, 0)]),
    (
        "SELECT t.* FROM a_b AS t, (SELECT 1) WHERE x = 2 AND regexp_matches(t.rowid::text, '.')",
        [Q],
    ),
    ("SELECT a_name, a_b.* FROM a JOIN a_b ON a_id = x WHERE x = 2", [("two", *Q)]),
    ("SELECT * FROM a JOIN a_b ON a_id = x WHERE x = 2", [(2, "two", *Q)]),
    ("SELECT *, rowid - rowid FROM a JOIN a_b ON a_id = x WHERE x = 2", [(2, "two", *Q, 0)]),
    ("SELECT * FROM a_b NATURAL JOIN log", PAIRS),
    (
        "SELECT *, a_b.rowid > log.rowid OR TRUE FROM a_b NATURAL JOIN log",
        [(*row, True) for row in PAIRS],
    ),
    ("SELECT count(*) FROM a_b AS l JOIN a_b AS r ON l.rowid = r.rowid", [(4,)]),
    ("SELECT count(*) FROM a_b AS l JOIN a_b AS r USING (rowid)", [(4,)]),
    ("SELECT note, count(*) FROM a_b WHERE note = 'p' GROUP BY note", [("p", 2)]),
    ("SELECT x FROM a_b WHERE rowid = (SELECT rowid FROM a_b WHERE x = 2)", [(2,)]),
]


@pytest.mark.parametrize("use_views", [True, False])
async def test_queries_show_the_identity_only_by_its_name(tmp_path, use_views):
    async with filled(tmp_path) as database:
        await run_all(database, "INSERT INTO log VALUES (1, 'now')")
        for sql, answer in QUERIES:
            found = await database.fetch(sql, use_views=use_views)
            assert Counter(found) == Counter(answer), sql


async def test_rows_are_changed_and_deleted_by_any_condition(tmp_path):
    async with filled(tmp_path) as database:
        (first, second) = await database.fetch("SELECT rowid FROM a_b WHERE note = 'p' ORDER BY 1")
        done = await database.execute(
            f"UPDATE a_b SET note = 'one of two' WHERE rowid = {first[0]} RETURNING *"
        )
        assert done.statements[0].rows == ((1, 5, "one of two"),)
        await database.execute(f"DELETE FROM a_b WHERE rowid = {second[0]}")
        await database.execute("UPDATE a_b SET y = 5 WHERE y IS NULL")
        await database.execute("DELETE FROM b WHERE b_id = 5")  # ON DELETE SET NULL
        await database.execute("DELETE FROM a WHERE a_id = 2")  # ON DELETE CASCADE
        assert await database.fetch("SELECT * FROM a_b ORDER BY note") == [
            (1, 6, "new"),
            (1, None, "one of two"),
        ]


async def test_unique_holds_without_a_primary_key(tmp_path):
    async with filled(tmp_path) as database:
        await run_all(database, "INSERT INTO log VALUES (1, 't')")
        with pytest.raises(UniqueViolation):
            await database.execute("INSERT INTO log VALUES (2, 't')")
        await database.execute(
            "INSERT INTO log VALUES (2, 't') ON CONFLICT (at) DO UPDATE SET x = excluded.x"
        )
        await database.execute("INSERT INTO log VALUES (3, 't') ON CONFLICT DO NOTHING")
        assert await database.fetch("SELECT * FROM log") == [(2, "t")]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO a_b (rowid, x) VALUES (1, 1)",
        "INSERT INTO a_b (rowid, x) OVERRIDING SYSTEM VALUE VALUES (1, 1)",
        "UPDATE a_b SET rowid = 1",
        "UPDATE a_b SET rowid = DEFAULT",
        "INSERT INTO a_b (x) VALUES (1) ON CONFLICT (rowid) DO NOTHING",
    ],
)
async def test_the_identity_is_never_written(tmp_path, sql):
    async with filled(tmp_path) as database:
        with pytest.raises(SqlError, match=r"rowid") as refused:
            await database.execute(sql)
        assert refused.value.cure
        with pytest.raises(NotFound):
            await database.keeper.restart("a_b", "rowid", 1)


async def test_batches_are_numbered_and_cannot_give_the_identity(tmp_path):
    async with filled(tmp_path) as database:
        batch = InsertRows("a_b", ("x", "note"), [(1, "batch")] * 3)
        await database.transact(TransactionRequest((batch,)))
        assert (
            await database.fetch("SELECT * FROM a_b WHERE note = 'batch'")
            == [(1, None, "batch")] * 3
        )
        with pytest.raises(UnknownName):
            await database.transact(
                TransactionRequest((InsertRows("a_b", ("rowid", "x"), [(1, 1)]),))
            )


@in_virtual_time
async def test_nodes_number_rows_apart():
    world = await nodes(0, 0, 0, catalog=catalog_of(load_ddl(DDL)))
    for node in world.all:
        await node.transact("INSERT INTO log VALUES (1, NULL), (1, NULL)")
    await world.settled()
    found = await world.leader.do(
        world.leader.database.fetch("SELECT x, rowid FROM log", strong=True)
    )
    assert len(found) == len(set(found)) == 6
    assert len({identity >> 40 for _, identity in found}) == 3
    await world.end()


VIEWS = (
    DDL
    + """
CREATE MATERIALIZED VIEW counted WITH (refresh = 'immediate') AS
  SELECT a_name, count(*) AS n, max(note) AS last FROM a_b JOIN a ON x = a_id GROUP BY a_name;
CREATE MATERIALIZED VIEW named WITH (refresh = 'immediate') AS
  SELECT note, a_name FROM a_b JOIN a ON x = a_id WHERE y > 4;
CREATE MATERIALIZED VIEW every WITH (refresh = 'deferred') AS SELECT * FROM a_b;
CREATE MATERIALIZED VIEW ranked WITH (refresh = 'recompute') AS
  SELECT *, row_number() OVER (ORDER BY note) AS r FROM a_b;
"""
)


async def test_views_over_relations_without_a_primary_key(tmp_path):
    async with await Database.open(settings(tmp_path)) as database:
        await apply(database, VIEWS)
        await run_all(database, *FILL)
        await require_right(database)
        await run_all(
            database,
            "DELETE FROM a_b WHERE rowid = (SELECT min(rowid) FROM a_b WHERE note = 'p')",
            "UPDATE a_b SET y = 5, note = 'p' WHERE y IS NULL",
            "UPDATE a SET a_name = 'uno' WHERE a_id = 1",
        )
        await require_right(database)
        assert await database.fetch("SELECT * FROM counted ORDER BY n") == [
            ("two", 1, "p"),
            ("uno", 2, "p"),
        ]
        assert Counter(await database.fetch("SELECT * FROM named")) == Counter(
            [("p", "uno"), ("new", "uno"), ("p", "two")]
        )
        visible = database.catalog.visible
        assert [column.name for column in visible("every")] == ["x", "y", "note"]
        assert [column.name for column in visible("ranked")] == ["x", "y", "note", "r"]


@pytest.mark.parametrize("refresh", ["immediate", "deferred", "recompute"])
async def test_a_declared_view_cannot_name_the_identity(tmp_path, refresh):
    view = f"CREATE MATERIALIZED VIEW v WITH (refresh = '{refresh}') AS SELECT rowid AS r FROM a_b;"
    async with await Database.open(settings(tmp_path)) as database:
        with pytest.raises(HornbeamError, match="cannot name rowid"):
            await apply(database, DDL + view)


async def test_the_schema_changes_around_stored_rows(tmp_path):
    later = DDL.replace("'new');", "'new', more INTEGER DEFAULT 3);")
    later += "CREATE UNIQUE INDEX a_b_once ON a_b (x, y, more) INCLUDE (note);"
    async with await Database.open(settings(tmp_path)) as database:
        await apply(database, DDL)
        await run_all(database, *FILL)
        with pytest.raises(UniqueViolation):
            await apply(database, later)
        await run_all(database, "DELETE FROM a_b WHERE note = 'p'")
        await apply(database, later)
        await run_all(database, "INSERT INTO a_b VALUES (1, 5, 'later', 4)")
        assert await database.fetch("SELECT * FROM a_b ORDER BY note") == [
            (1, 5, "later", 4),
            (1, 6, "new", 3),
            (2, None, "q", 3),
        ]
        await check(database)


COUNTS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "update", "delete"]), st.integers(0, 2), st.integers(0, 2)
    ),
    max_size=12,
)


@hypothesis.settings(max_examples=depth(5, long=12), deadline=None)
@given(st.lists(COUNTS, min_size=1, max_size=3))
def test_a_relation_without_a_key_is_a_bag(transactions):
    """Statements over values change every copy of a row, in one transaction and over several."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare_with_a_bag(Path(folder), transactions))


BAG = "CREATE TABLE bag (v INTEGER); CREATE INDEX by_v ON bag (v);"
SQL = {
    "insert": "INSERT INTO bag VALUES ({0}), ({1})",
    "update": "UPDATE bag SET v = {1} WHERE v = {0}",
    "delete": "DELETE FROM bag WHERE v = {0} AND {1} = {1}",
}


async def compare_with_a_bag(folder, transactions):
    async with opened(folder, catalog_of(load_ddl(BAG))) as database:
        bag = Counter()
        for work in filter(None, transactions):
            for operation, one, other in work:
                change(bag, operation, (one,), (other,))
            texts = [SQL[operation].format(one, other) for operation, one, other in work]
            await database.transact(TransactionRequest(tuple(map(Statement, texts))))
            assert Counter(await database.fetch("SELECT * FROM bag")) == +bag
        await check(database)


def change(bag, operation, one, other):
    match operation:
        case "insert":
            bag.update([one, other])
        case "update":
            moved = bag.pop(one, 0)
            bag[other] += moved
        case _:
            bag.pop(one, None)


async def test_truncate_has_no_identity_to_restart(tmp_path):
    """The hidden numbers are no identity column: RESTART IDENTITY is not refused for them."""
    async with filled(tmp_path) as database:
        done = await database.execute("TRUNCATE a_b RESTART IDENTITY")
        assert done.statements[0].affected == 4
