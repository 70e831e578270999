"""Sequences through the client: nextval, currval, lastval and setval, and their DDL."""

import pytest

import hornbeam
from hornbeam.errors import (
    DatabaseError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from tests.client.client_world import apply, embedded, served


@pytest.fixture
def url(tmp_path):
    return embedded(tmp_path)


@pytest.fixture
def db(url):
    with hornbeam.connect(url, autocommit=True) as connection:
        yield connection


def rows(connection, sql, parameters=()):
    cursor = connection.cursor()
    return cursor.execute(sql, parameters).fetchall()


def run(connection, *statements):
    for sql in statements:
        connection.cursor().execute(sql)


def value(connection, sql, parameters=()):
    ((found,),) = rows(connection, sql, parameters)
    return found


def test_several_tables_share_a_sequence(db):
    run(
        db,
        "CREATE SEQUENCE s START 10 INCREMENT 5",
        "CREATE TABLE a (id INT PRIMARY KEY DEFAULT nextval('s'), x TEXT)",
        "CREATE TABLE b (id BIGINT PRIMARY KEY DEFAULT nextval('public.s'::regclass), x TEXT)",
    )
    assert rows(db, "INSERT INTO a (x) VALUES ('p'), ('q') RETURNING id") == [(10,), (15,)]
    assert rows(db, "INSERT INTO b (x) VALUES ('r') RETURNING id") == [(20,)]
    assert value(db, "SELECT nextval('s')") == 25
    assert rows(db, "INSERT INTO a (x) SELECT x FROM b RETURNING id") == [(30,)]
    db.cursor().executemany("INSERT INTO b (x) VALUES (?)", [("s",), ("t",)])
    assert rows(db, "SELECT id FROM b ORDER BY id") == [(20,), (35,), (40,)]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("INSERT INTO t VALUES (nextval('s'), 'v') RETURNING id", [(1,)]),
        ("INSERT INTO t VALUES ((SELECT nextval('s')), 'v') RETURNING id", [(1,)]),
        ("INSERT INTO t VALUES (0, 'n' || nextval('s') || currval('s')) RETURNING x", [("n11",)]),
        ("UPDATE old SET n = nextval('s') * 10 WHERE id < 3 RETURNING n", [(10,), (20,)]),
        ("UPDATE old SET n = DEFAULT WHERE id = 2 RETURNING n", [(1,)]),
        (
            "INSERT INTO t VALUES (1, lpad(nextval('s')::text, 3, '0') || nextval('s'))"
            " RETURNING x",
            [("0012",)],
        ),
        ("DELETE FROM old WHERE id = 1 RETURNING nextval('s'), id", [(1, 1)]),
        (
            "INSERT INTO old VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET n = nextval('s')"
            " RETURNING n",
            [(1,)],
        ),
        (
            "INSERT INTO t SELECT nextval('s'), 'o' || id FROM old ORDER BY id DESC RETURNING *",
            [(1, "o3"), (2, "o2"), (3, "o1")],
        ),
        ("INSERT INTO t (x, id) SELECT DISTINCT 'd', 7 FROM old RETURNING *", [(7, "d")]),
        ("SELECT nextval('s'), id FROM old ORDER BY id DESC LIMIT 2", [(1, 3), (2, 2)]),
        ("SELECT * , nextval('s') + id AS sum FROM old WHERE id = 3", [(3, 0, 4)]),
        ("SELECT coalesce(NULL, nextval('s')), lastval()", [(1, 1)]),
        ("SELECT count(*), nextval('s') FROM old", [(3, 1)]),
        (
            "SELECT 'A' || lpad(nextval('s')::text, 4, '0') AS code FROM old LIMIT 2",
            [("A0001",), ("A0002",)],
        ),
    ],
)  # fmt: skip
def test_nextval_stands_in_values_set_returning_and_select(db, sql, wanted):
    run(
        db,
        "CREATE SEQUENCE s",
        "CREATE TABLE t (id INT PRIMARY KEY, x TEXT)",
        "CREATE TABLE old (id INT PRIMARY KEY, n INT DEFAULT nextval('s'))",
        "INSERT INTO old VALUES (1, 0), (2, 0), (3, 0)",
    )
    assert rows(db, sql) == wanted


def test_a_merge_takes_numbers(db):
    run(
        db,
        "CREATE SEQUENCE s",
        "CREATE TABLE t (id INT PRIMARY KEY, n INT)",
        "INSERT INTO t VALUES (1, 0)",
        "MERGE INTO t USING (VALUES (1), (2)) AS v(i) ON t.id = v.i"
        " WHEN MATCHED THEN UPDATE SET n = nextval('s')"
        " WHEN NOT MATCHED THEN INSERT VALUES (v.i, nextval('s') * 100)",
    )
    assert rows(db, "SELECT * FROM t ORDER BY id") == [(1, 1), (2, 200)]


@pytest.mark.parametrize(
    ("sql", "wanted", "last"),
    [
        ("SELECT id FROM t WHERE id = nextval('s') ORDER BY id", [(1,), (2,), (3,)], 3),
        ("SELECT id FROM t AS u WHERE nextval('s') % 2 = 0 AND u.x <> 'z'", [(2,)], 3),
        ("SELECT * FROM t WHERE nextval('s') > 2", [(3, "c")], 3),
        ("SELECT sum(nextval('s')) FROM t", [(6,)], 3),
        ("SELECT sum(nextval('s')) FROM t WHERE id > 1", [(3,)], 2),
        ("SELECT max(nextval('s') * 10), count(*) FROM t", [(30, 3)], 3),
        ("SELECT string_agg(nextval('s')::text, ',' ORDER BY t.id) FROM t", [("1,2,3",)], 3),
        ("SELECT sum(id) FILTER (WHERE nextval('s') > 1) FROM t", [(5,)], 3),
        ("SELECT id, nextval('s') FROM t ORDER BY 2 DESC LIMIT 2", [(3, 3), (2, 2)], 3),
        ("SELECT id, nextval('s') AS n FROM t ORDER BY n DESC", [(3, 3), (2, 2), (1, 1)], 3),
        ("SELECT id, nextval('s') + 1 AS n FROM t ORDER BY n, id", [(1, 2), (2, 3), (3, 4)], 3),
        ("SELECT t.*, nextval('s') AS n FROM t ORDER BY -t.id, n",
         [(3, "c", 3), (2, "b", 2), (1, "a", 1)], 3),
        ("SELECT id FROM t ORDER BY nextval('s') DESC", [(3,), (2,), (1,)], 3),
        ("SELECT nextval('s') % 2 AS n, count(*) FROM t GROUP BY n ORDER BY 1", [(0, 1), (1, 2)],
         3),
        ("SELECT count(*) FROM t GROUP BY nextval('s') % 2 ORDER BY 1", [(1,), (2,)], 3),
        ("SELECT nextval('s') + 1 FROM t ORDER BY nextval('s') + 1 DESC", [(4,), (3,), (2,)], 3),
        ("SELECT id, sum(nextval('s')) OVER (ORDER BY id) FROM t", [(1, 1), (2, 3), (3, 6)], 3),
        ("SELECT n FROM (SELECT nextval('s') AS n, x FROM t ORDER BY n DESC) q WHERE n < 3",
         [(2,), (1,)], 3),
        ("SELECT sum(nextval('s') - nextval('s')) FROM t", [(-3,)], 6),
    ],
)  # fmt: skip
def test_a_query_uses_numbers_in_its_clauses(db, sql, wanted, last):
    """As in PostgreSQL 15, where each row of FROM takes its numbers in the order of the keys."""
    run(
        db,
        "CREATE SEQUENCE s",
        "CREATE TABLE t (id INT PRIMARY KEY, x TEXT)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    assert rows(db, sql) == wanted
    assert value(db, "SELECT lastval()") == last


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM t UNION SELECT 1 LIMIT nextval('s')",
        "SELECT t.id FROM t LEFT JOIN t AS u ON t.id = nextval('s')",
        "INSERT INTO t SELECT (SELECT nextval('s') + u.id) FROM t AS u",
        "INSERT INTO t SELECT id FROM t GROUP BY id HAVING nextval('s') > 0",
        "SELECT id FROM t GROUP BY id HAVING nextval('s') > 0",
        "SELECT DISTINCT ON (id) id, nextval('s') FROM t",
        "SELECT (SELECT nextval('s') FROM t AS u WHERE u.id = t.id) FROM t",
        "WITH RECURSIVE r AS (SELECT nextval('s') AS n UNION ALL SELECT n FROM r) SELECT n FROM r",
        "UPDATE t SET id = 2 WHERE id = nextval('s')",
        "CREATE VIEW v AS SELECT nextval('s') AS n",
        "CREATE TABLE u (id INT PRIMARY KEY CHECK (id < nextval('s')))",
        "SELECT setval('s', 4), 5",
        "INSERT INTO t VALUES (setval('s', 4))",
    ],
)
def test_a_call_elsewhere_is_refused_with_a_cure(db, sql):
    run(db, "CREATE SEQUENCE s", "CREATE TABLE t (id INT PRIMARY KEY)")
    with pytest.raises(DatabaseError, match=r"\n  \w"):
        rows(db, sql)


def test_currval_and_lastval_belong_to_the_session(db, url):
    run(
        db,
        "CREATE SEQUENCE s",
        "CREATE TABLE t (id SERIAL PRIMARY KEY, x TEXT)",
        "CREATE TABLE child (id SERIAL PRIMARY KEY, t_id INT REFERENCES t)",
    )
    for call in ("currval('s')", "currval('t_id_seq')", "lastval()"):
        with pytest.raises(ProgrammingError, match="not defined yet in this session"):
            value(db, f"SELECT {call}")
    run(db, "INSERT INTO t (x) VALUES ('a'), ('b')")
    assert value(db, "SELECT lastval()") == 2
    assert rows(db, "SELECT x FROM t WHERE id = currval('t_id_seq')") == [("b",)]
    insert = "INSERT INTO child (t_id) VALUES (currval('t_id_seq')) RETURNING t_id, lastval()"
    assert rows(db, insert) == [(2, 1)]
    of_column = "SELECT currval(pg_get_serial_sequence('t', 'id'))"
    assert value(db, of_column) == 2
    with hornbeam.connect(url, autocommit=True) as other:
        run(other, "INSERT INTO t (x) VALUES ('c')")
        assert value(other, of_column) == 3
    assert value(db, of_column) == 2


def test_a_transaction_keeps_the_numbers_that_the_client_has_read(db, url):
    run(
        db,
        "CREATE SEQUENCE s",
        "CREATE TABLE t (id INT PRIMARY KEY DEFAULT nextval('s'), x TEXT)",
    )
    with hornbeam.connect(url) as connection:
        first = value(connection, "INSERT INTO t (x) VALUES ('a') RETURNING id")
        run(connection, "INSERT INTO t VALUES (nextval('s'), 'b')")
        assert value(connection, "SELECT currval('s')") == first + 1
        read = value(connection, "SELECT nextval('s')")
        run(connection, "INSERT INTO t VALUES (currval('s'), 'c')")
        after = value(connection, "SELECT nextval('s')")
        run(connection, "INSERT INTO t VALUES (currval('s'), 'd')")
        connection.commit()
    found = rows(db, "SELECT x, id FROM t ORDER BY x")
    assert found == [("a", first), ("b", first + 1), ("c", read), ("d", after)]


def test_a_rollback_does_not_give_numbers_back(url, db):
    run(db, "CREATE SEQUENCE s", "CREATE TABLE t (id INT PRIMARY KEY)")
    with hornbeam.connect(url) as connection:
        taken = value(connection, "INSERT INTO t VALUES (nextval('s')) RETURNING id")
        connection.rollback()
        assert value(connection, "SELECT nextval('s')") > taken
        assert value(connection, "SELECT count(*) FROM t") == 0


@pytest.mark.parametrize(
    ("sql", "parameters", "given", "follows"),
    [
        ("SELECT setval('s', 42)", (), 42, 43),
        ("SELECT setval('public.s'::regclass, 42, false)", (), 42, 42),
        ("SELECT pg_catalog.setval('s', 42, true)", (), 42, 43),
        ("SELECT setval('s', ?)", (7,), 7, 8),
        ("SELECT setval('s', (SELECT max(id) FROM t))", (), 9, 10),
        ("SELECT setval('s', COALESCE((SELECT max(id) + 1 FROM t), 1), false)", (), 10, 10),
        ("SELECT setval('s', max(id)) AS m FROM t WHERE id < 9;", (), 4, 5),
        ("SELECT setval('s', max(id)) FROM t WHERE id > 9", (), None, 2),
    ],
)
def test_setval(db, sql, parameters, given, follows):
    run(
        db,
        "CREATE SEQUENCE s",
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (4), (9)",
        "SELECT nextval('s')",
    )
    assert value(db, sql, parameters) == given
    assert value(db, "SELECT nextval('s')") == follows


def test_setval_moves_the_sequence_of_a_serial_column(db):
    run(db, "CREATE TABLE t (id SERIAL PRIMARY KEY, x TEXT)", "INSERT INTO t VALUES (7, 'a')")
    sql = "SELECT setval(pg_get_serial_sequence('t', 'id'), (SELECT max(id) FROM t))"
    assert value(db, sql) == 7
    assert value(db, "SELECT currval('t_id_seq')") == 7
    assert value(db, "INSERT INTO t (x) VALUES ('b') RETURNING id") == 8


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT setval('nosuch', 1)", "nosuch"),
        ("SELECT setval('s', 11)", "1 to 10"),
        ("SELECT nextval('nosuch')", "There is no sequence nosuch"),
        ("SELECT nextval('other.s')", "There is no sequence other.s"),
        ("ALTER SEQUENCE nosuch INCREMENT 2", "does not exist"),
        ("ALTER SEQUENCE s MAXVALUE 0", "MAXVALUE 0"),
        ("DROP SEQUENCE s", "default n of t"),
        ("DROP SEQUENCE t_id_seq", "does not exist"),
        ("CREATE SEQUENCE t", "name of a relation"),
        ("CREATE SEQUENCE s", "exists already"),
        ("CREATE TABLE u (id INT PRIMARY KEY DEFAULT nextval('nosuch'))", "does not exist"),
    ],
)
def test_errors_name_the_sequence(db, sql, message):
    run(
        db,
        "CREATE SEQUENCE s MAXVALUE 10",
        "CREATE TABLE t (id SERIAL PRIMARY KEY, n INT DEFAULT nextval('s'))",
    )
    with pytest.raises(DatabaseError, match=message):
        rows(db, sql)


def test_a_sequence_ends_or_begins_again(db):
    run(db, "CREATE SEQUENCE ends MAXVALUE 2", "CREATE SEQUENCE cycles MINVALUE 5 MAXVALUE 6 CYCLE")
    assert [value(db, "SELECT nextval('cycles')") for _ in range(5)] == [5, 6, 5, 6, 5]
    assert [value(db, "SELECT nextval('ends')") for _ in range(2)] == [1, 2]
    with pytest.raises(OperationalError, match="no number behind 2"):
        value(db, "SELECT nextval('ends')")
    run(db, "ALTER SEQUENCE ends MAXVALUE 3")
    assert value(db, "SELECT nextval('ends')") == 3
    run(db, "ALTER SEQUENCE ends RESTART")
    assert value(db, "SELECT nextval('ends')") == 1


def test_a_descending_sequence(db):
    run(db, "CREATE SEQUENCE down INCREMENT -1 MAXVALUE 2 MINVALUE 1 CYCLE")
    assert [value(db, "SELECT nextval('down')") for _ in range(4)] == [2, 1, 2, 1]


def test_alter_sequence_changes_what_follows(db):
    run(db, "CREATE SEQUENCE s")
    assert [value(db, "SELECT nextval('s')") for _ in range(2)] == [1, 2]
    run(db, "ALTER SEQUENCE s INCREMENT BY 10 START WITH 100")
    assert value(db, "SELECT nextval('s')") == 12
    run(db, "ALTER SEQUENCE s RENAME TO t")
    assert value(db, "SELECT nextval('t')") == 22
    run(db, "ALTER SEQUENCE t RESTART")
    assert value(db, "SELECT nextval('t')") == 100
    run(db, "ALTER SEQUENCE IF EXISTS nosuch INCREMENT 2", "DROP SEQUENCE IF EXISTS nosuch")


def test_a_renamed_sequence_keeps_its_defaults(db):
    run(
        db,
        "CREATE SEQUENCE s",
        "CREATE TABLE t (id INT PRIMARY KEY DEFAULT nextval('s'),"
        " x TEXT DEFAULT lpad('n' || nextval('s'), 2, ' '))",
        'ALTER SEQUENCE s RENAME TO "New S"',
    )
    assert rows(db, "INSERT INTO t DEFAULT VALUES RETURNING *") == [(1, "n2")]


def test_an_owned_sequence_ends_with_its_column(db):
    run(
        db,
        "CREATE SEQUENCE s",
        "CREATE TABLE t (id INT PRIMARY KEY DEFAULT nextval('s'), n INT)",
        "CREATE TABLE u (id INT PRIMARY KEY DEFAULT nextval('s'), n INT)",
        "ALTER SEQUENCE s OWNED BY t.id",
    )
    with pytest.raises(ProgrammingError, match="default id of u"):
        run(db, "DROP TABLE t")
    run(db, "DROP TABLE t CASCADE")
    with pytest.raises(ProgrammingError, match="There is no sequence s"):
        value(db, "SELECT nextval('s')")
    with pytest.raises(DatabaseError, match="NULL"):
        run(db, "INSERT INTO u (n) VALUES (1)")


def test_a_column_that_leaves_its_identity_for_a_sequence_gets_no_number_again(db, url):
    run(
        db,
        "CREATE TABLE t (id SERIAL PRIMARY KEY, x TEXT)",
        "INSERT INTO t (x) VALUES ('a'), ('b')",
    )
    ddl = db.schema_document()["ddl"].replace(
        "INTEGER NOT NULL GENERATED BY DEFAULT AS IDENTITY",
        "INTEGER NOT NULL DEFAULT nextval('numbers')",
    )
    apply(url, f"CREATE SEQUENCE numbers;\n{ddl}", "")
    assert value(db, "INSERT INTO t (x) VALUES ('c') RETURNING id") == 3


def test_numbers_continue_behind_a_gap_after_a_restart(tmp_path):
    given = []
    for _ in range(3):
        with served(tmp_path) as url, hornbeam.connect(url, autocommit=True) as connection:
            run(connection, "CREATE SEQUENCE IF NOT EXISTS s")
            given += [value(connection, "SELECT nextval('s')") for _ in range(3)]
    assert given == sorted(set(given))


def test_reading_numbers_needs_no_transaction_and_arrow_works(db):
    pa = pytest.importorskip("pyarrow")
    run(db, "CREATE SEQUENCE s")
    table = db.cursor().arrow("SELECT nextval('s') AS n FROM generate_series(1, 3)")
    assert table.to_pydict() == {"n": [1, 2, 3]}
    assert table.schema.field("n").type == pa.int64()


def test_nextval_in_with_takes_each_number_once(db):
    run(db, "CREATE SEQUENCE s")
    asked = "WITH n AS (SELECT nextval('s') AS id FROM generate_series(1, 2))"
    assert rows(db, f"{asked} SELECT a.id, b.id FROM n a JOIN n b ON a.id = b.id") == [
        (1, 1),
        (2, 2),
    ]
    assert rows(db, "SELECT nextval('s')") == [(3,)]


def test_writes_of_a_pipeline_know_the_numbers_of_the_session(tmp_path):
    with hornbeam.connect(embedded(tmp_path), autocommit=True) as db:
        run(db, "CREATE SEQUENCE s")
        run(db, "CREATE TABLE t (i BIGINT PRIMARY KEY, j BIGINT)")
        ((first,),) = rows(db, "SELECT nextval('s')")
        with db.pipeline():
            run(db, "INSERT INTO t VALUES (1, 0)")
            run(db, "INSERT INTO t VALUES (2, currval('s'))")
            run(db, "INSERT INTO t VALUES (3, nextval('s'))")
            run(db, "INSERT INTO t VALUES (4, currval('s'))")
        found = [(1, 0), (2, first), (3, first + 1), (4, first + 1)]
        assert rows(db, "SELECT i, j FROM t ORDER BY i") == found


def test_a_block_that_takes_numbers_has_parameters_and_is_part_of_a_transaction(db):
    run(db, "CREATE SEQUENCE s", "CREATE TABLE t (id INT PRIMARY KEY)")
    run(db, "INSERT INTO t VALUES (1), (2), (3)")
    sql = (
        "WITH q AS (SELECT id, nextval('s') AS n FROM t WHERE id > ? ORDER BY id), "
        "unread AS (SELECT nextval('s') AS n FROM t WHERE id = ?) "
        "SELECT sum(n), max(id) + ? FROM q WHERE n < ?"
    )
    assert db.cursor().execute(sql, [1, 7, 10, 100]).fetchall() == [(3, 13)]
    with pytest.raises(DatabaseError, match="4 parameters, 1"):
        db.cursor().execute(sql, [1])
    run(db, "BEGIN", "INSERT INTO t VALUES (4)")
    found = db.cursor().execute(
        "SELECT max(n), currval('s') FROM (SELECT nextval('s') AS n FROM t) q"
    )
    assert found.fetchall() == [(6, 6)]
    assert found.served_by == ["t"]
    assert db.cursor().execute("SELECT currval('s'), lastval()").fetchall() == [(6, 6)]
    run(db, "COMMIT")
    table = db.cursor().arrow("SELECT DISTINCT nextval('s') * 0 AS z FROM t")
    assert table.to_pylist() == [{"z": 0}]
    lines = db.cursor().execute("EXPLAIN SELECT n FROM (SELECT nextval('s') AS n FROM t) q, t")
    assert lines.fetchall()
    assert db.cursor().execute("SELECT nextval('s')").fetchall() == [(11,)]


def test_restart_stands_among_other_options(db):
    """As in PostgreSQL: the options are changed, and the next number is the one of RESTART."""
    run(db, "CREATE SEQUENCE s", "CREATE TABLE t (k INT GENERATED BY DEFAULT AS IDENTITY)")
    assert value(db, "SELECT nextval('s')") == 1
    run(db, "ALTER SEQUENCE s INCREMENT BY 5 RESTART WITH 20 MAXVALUE 25 CYCLE MINVALUE 2 START 3")
    assert [value(db, "SELECT nextval('s')") for _ in range(3)] == [20, 25, 2]
    run(db, "ALTER SEQUENCE IF EXISTS public.s RESTART START 4 INCREMENT 1")
    assert [value(db, "SELECT nextval('s')") for _ in range(2)] == [4, 5]
    run(db, "ALTER SEQUENCE s INCREMENT -1 RESTART 10")
    assert [value(db, "SELECT nextval('s')") for _ in range(2)] == [10, 9]
    run(db, "ALTER SEQUENCE t_k_seq INCREMENT BY 2 RESTART WITH 7;")
    assert rows(db, "INSERT INTO t DEFAULT VALUES RETURNING k") == [(7,)]
    run(db, "ALTER TABLE t ALTER COLUMN k SET INCREMENT BY 3 RESTART WITH 100")
    inserted = "INSERT INTO t (k) VALUES (DEFAULT), (DEFAULT) RETURNING k"
    assert rows(db, inserted) == [(100,), (103,)]


def test_a_restart_beyond_the_new_bounds_changes_nothing(db):
    run(db, "CREATE SEQUENCE s")
    with pytest.raises(ProgrammingError, match="beyond MAXVALUE 10"):
        run(db, "ALTER SEQUENCE s INCREMENT BY 5 MAXVALUE 10 RESTART WITH 20")
    assert [value(db, "SELECT nextval('s')") for _ in range(2)] == [1, 2]


def test_restart_may_be_a_name(db):
    run(db, "CREATE SEQUENCE restart", "CREATE TABLE t (restart INT PRIMARY KEY)")
    run(db, "ALTER SEQUENCE restart INCREMENT 2", "ALTER TABLE t ALTER restart TYPE BIGINT")
    assert [value(db, "SELECT nextval('restart')") for _ in range(2)] == [1, 3]
    run(db, "ALTER SEQUENCE restart RESTART 9")
    assert value(db, "SELECT nextval('restart')") == 9


def test_setval_stands_in_a_transaction_that_has_written(db):
    """As Django's loaddata sends it: the number is that of the rows of the transaction."""
    run(db, "CREATE TABLE t (k INT PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, x INT)")
    sql = "SELECT setval(pg_get_serial_sequence('\"t\"','k'), coalesce(max(\"k\"), 1), max(k) > 0)"
    db.autocommit = False
    cursor = db.cursor()
    cursor.execute("INSERT INTO t VALUES (50, 1)")
    assert rows(db, f'{sql} FROM "t";') == [(50,)]
    assert rows(db, "INSERT INTO t (x) VALUES (2) RETURNING k") == [(51,)]
    assert rows(db, "SELECT setval('t_k_seq', NULL)") == [(None,)]
    db.commit()
    assert rows(db, "SELECT k FROM t ORDER BY k") == [(50,), (51,)]
    cursor.execute("INSERT INTO t VALUES (70, 1)")
    assert rows(db, f"{sql} FROM t") == [(70,)]
    db.rollback()
    assert rows(db, "INSERT INTO t (x) VALUES (3) RETURNING k") == [(71,)]  # setval stays
    db.commit()


def test_truncate_restarts_numbers_when_it_commits(db):
    run(
        db,
        "CREATE TABLE t (k INT PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, x INT)",
        "CREATE TABLE u (k INT PRIMARY KEY REFERENCES t (k))",
        "CREATE SEQUENCE n OWNED BY u.k",
    )
    inserted = "INSERT INTO t (x) VALUES (1) RETURNING k"
    assert [rows(db, inserted), rows(db, "SELECT nextval('n')")] == [[(1,)], [(1,)]]
    db.commit()
    db.autocommit = False
    db.cursor().execute("TRUNCATE t, u RESTART IDENTITY")
    with pytest.raises(NotSupportedError, match="writes nothing behind it"):
        rows(db, inserted)
    db.rollback()
    assert rows(db, inserted) == [(2,)]
    db.commit()
    db.cursor().execute("TRUNCATE t RESTART IDENTITY CASCADE")
    db.commit()
    assert [rows(db, inserted), rows(db, "SELECT nextval('n')")] == [[(1,)], [(1,)]]
    db.commit()
