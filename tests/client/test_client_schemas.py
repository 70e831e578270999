"""Schemas as name spaces, through the client."""

from __future__ import annotations

import pytest

import hornbeam


@pytest.fixture
def db(tmp_path):
    with hornbeam.connect(f"hornbeam:///{tmp_path}/db", autocommit=True) as connection:
        yield connection


def run(connection, *statements):
    cursor = connection.cursor()
    for statement in statements:
        cursor.execute(statement)
    return cursor.fetchall()


SHOP = (
    "CREATE SCHEMA shop",
    "CREATE TABLE item (i_id INTEGER PRIMARY KEY, i_name TEXT)",
    "CREATE TABLE shop.item (i_id SERIAL PRIMARY KEY, i_item INTEGER UNIQUE REFERENCES item)",
    "CREATE MATERIALIZED VIEW shop.sums AS"
    " SELECT i_name, count(*) AS n FROM item JOIN shop.item s ON s.i_item = item.i_id"
    " GROUP BY i_name",
    "INSERT INTO item VALUES (1, 'pen'), (2, 'ink')",
)


def test_names_of_two_schemas_meet_in_statements_and_views(db):
    assert run(db, *SHOP, "INSERT INTO shop.item (i_item) VALUES (1), (2) RETURNING item.i_id") == [
        (1,),
        (2,),
    ]
    both = "SELECT public.item.i_name, shop.item.i_id FROM shop.item, item WHERE i_item = item.i_id"
    assert sorted(run(db, both)) == [("ink", 2), ("pen", 1)]
    assert run(
        db, "UPDATE shop.item SET i_item = NULL WHERE shop.item.i_id = 2 RETURNING i_item"
    ) == [(None,)]
    assert run(db, "SELECT * FROM shop.sums") == [("pen", 1)]
    with pytest.raises(hornbeam.IntegrityError, match="references item"):
        run(db, "INSERT INTO shop.item (i_item) VALUES (7)")
    with pytest.raises(hornbeam.ProgrammingError, match="in schema none, which does not exist"):
        run(db, "SELECT * FROM none.item")
    summed = (
        "SELECT i_name, count(*) FROM item JOIN shop.item s ON s.i_item = item.i_id GROUP BY i_name"
    )
    db.use_views = False
    assert run(db, summed) == [("pen", 1)]


def test_a_search_path_finds_names_and_places_new_ones(db):
    path = (*SHOP, "SET search_path TO shop, public", "INSERT INTO item (i_item) VALUES (1)")
    assert run(db, *path, "SELECT i_id, i_item FROM item") == [(1, 1)]
    assert run(db, "CREATE TABLE part (p_id INTEGER)", "SELECT current_schemas(true)") == [
        (["pg_catalog", "shop", "public"],)
    ]
    assert run(db, "SHOW search_path") == [("shop, public",)]
    where = "SELECT table_schema FROM information_schema.tables WHERE table_name = 'part'"
    assert run(db, where) == [("shop",)]
    assert run(db, "RESET search_path", "SELECT current_schema()") == [("public",)]
    with pytest.raises(hornbeam.ProgrammingError, match="part is unknown"):
        run(db, "SELECT * FROM part")


def test_an_empty_search_path_finds_full_names_only(db):
    run(db, *SHOP, "SET search_path TO ''", "SELECT 1")
    assert db.search_path == ()
    assert run(db, "SELECT count(*) FROM shop.item") == [(0,)]
    with pytest.raises(hornbeam.ProgrammingError, match="no schema of the search path exists"):
        run(db, "SELECT count(*) FROM item")


def test_a_rollback_withdraws_the_search_path_of_a_transaction(db):
    run(db, *SHOP, "SELECT 1")
    db.autocommit = False
    run(db, "SET search_path TO shop", "SELECT 1")
    db.rollback()
    assert db.search_path == ("public",)
    run(db, "SET LOCAL search_path TO shop", "SELECT 1")
    assert db.search_path == ("shop",)
    db.commit()
    assert db.search_path == ("public",)


def test_a_rollback_does_not_restore_a_search_path_from_before_discard_all(db):
    run(db, *SHOP, "SET search_path TO shop", "DISCARD ALL", "SELECT 1")
    assert db.search_path == ("public",)
    run(db, "BEGIN", "SELECT 1")
    db.rollback()
    assert db.search_path == ("public",)


def test_each_write_of_a_transaction_keeps_its_search_path(db):
    run(db, *SHOP, "SELECT 1")
    db.autocommit = False
    cursor = db.cursor()
    cursor.execute("SET search_path TO shop")
    cursor.execute("INSERT INTO item (i_item) VALUES (1)")
    cursor.execute("SET search_path TO public")
    cursor.execute("INSERT INTO item VALUES (3, 'cap')")
    db.commit()
    assert run(db, "SELECT (SELECT count(*) FROM item), (SELECT count(*) FROM shop.item)") == [
        (3, 1)
    ]


def test_a_schema_is_dropped_when_it_is_empty_or_with_cascade(db):
    run(db, *SHOP, "SELECT 1")
    cursor = db.cursor()
    with pytest.raises(
        hornbeam.ProgrammingError, match=r"(?s)not empty.*table shop.item, view shop.sums"
    ):
        cursor.execute("DROP SCHEMA shop")
    cursor.execute("DROP SCHEMA shop CASCADE")
    assert run(db, "SELECT schema_name FROM information_schema.schemata") == [
        ("public",),
        ("information_schema",),
    ]
    assert run(db, "SELECT count(*) FROM item") == [(2,)]


@pytest.mark.parametrize(
    ("column", "alone"),
    [
        ("SERIAL", "ALTER TABLE shop.ticket ALTER COLUMN t_id RESTART"),
        ("INTEGER DEFAULT nextval('shop.number')", "ALTER SEQUENCE shop.number RESTART"),
    ],
)
def test_truncate_restarts_numbers_in_a_schema(db, column, alone):
    for sql in (
        "CREATE SCHEMA shop",
        "CREATE SEQUENCE shop.number",
        f"CREATE TABLE shop.ticket (t_id {column} PRIMARY KEY)",
        "ALTER SEQUENCE shop.number OWNED BY shop.ticket.t_id",
    ):
        db.cursor().execute(sql)
    inserted = "INSERT INTO shop.ticket DEFAULT VALUES RETURNING t_id"
    assert [run(db, inserted) for _ in range(2)] == [[(1,)], [(2,)]]
    db.cursor().execute("TRUNCATE shop.ticket RESTART IDENTITY")
    assert run(db, inserted) == [(1,)]
    db.cursor().execute("TRUNCATE shop.ticket")
    assert run(db, inserted) == [(2,)]
    db.cursor().execute("TRUNCATE shop.ticket")
    db.cursor().execute(alone)
    assert run(db, inserted) == [(1,)]


def test_cures_name_the_schema_of_an_identity_column(db):
    run(
        db,
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, x INT)",
        "CREATE TABLE shop.few (id INT PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY (MAXVALUE 1))",
        "INSERT INTO shop.t VALUES (1, 1)",
        "INSERT INTO shop.few DEFAULT VALUES RETURNING id",
    )
    with pytest.raises(
        hornbeam.DatabaseError, match=r"ALTER TABLE shop\.t ALTER COLUMN id RESTART"
    ):
        run(db, "INSERT INTO shop.t (x) VALUES (2)")
    with pytest.raises(
        hornbeam.DatabaseError, match=r"ALTER TABLE shop\.few ALTER COLUMN id RESTART"
    ):
        run(db, "INSERT INTO shop.few DEFAULT VALUES")


def test_a_schema_gets_another_name_and_a_table_moves(db):
    rows = run(
        db,
        "CREATE SCHEMA old",
        "CREATE TABLE old.t (a INTEGER PRIMARY KEY, b TEXT UNIQUE)",
        "CREATE VIEW old.v AS SELECT b FROM old.t",
        "INSERT INTO old.t VALUES (1, 'x')",
        "ALTER SCHEMA old RENAME TO new",
        "ALTER TABLE new.t SET SCHEMA public",
        "INSERT INTO t VALUES (2, 'y')",
        "SELECT b FROM new.v ORDER BY b",
    )
    assert rows == [("x",), ("y",)]
    with pytest.raises(hornbeam.IntegrityError):
        run(db, "INSERT INTO t VALUES (3, 'y')")
