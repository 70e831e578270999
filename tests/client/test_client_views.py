"""CREATE VIEW and CREATE MATERIALIZED VIEW as statements of the client."""

import pytest

import hornbeam
from hornbeam.errors import InterfaceError, NotSupportedError, ProgrammingError
from tests.client.client_world import DDL, apply, embedded


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    url = embedded(tmp_path_factory.mktemp("shop"))
    apply(url, DDL, "")
    with hornbeam.connect(url, autocommit=True) as connection:
        run(connection, "INSERT INTO author VALUES (1, 'Ann'), (2, 'Bob')")
        values = "(1, 1, 'A', 5, 10), (2, 1, 'B', 7.5, 0), (3, 2, 'C', 1, 4)"
        run(connection, f"INSERT INTO book VALUES {values}")
        yield connection


@pytest.fixture
def db(shop):
    """The shop, without views at the end."""
    yield shop
    document = shop.transport.json("GET", "/v1/schema")
    for view in reversed(document["plain_views"]):
        run(shop, f"DROP VIEW {view['name']}")
    for view in document["views"]:
        run(shop, f"DROP MATERIALIZED VIEW {view['name']}")


def run(db, sql, parameters=()):
    cursor = db.cursor()
    cursor.execute(sql, parameters)
    return cursor


def rows(db, sql, parameters=()):
    return [tuple(row) for row in run(db, sql, parameters).fetchall()]


def test_a_query_over_a_view_is_a_query_over_its_select(db):
    run(
        db,
        "CREATE VIEW stocked AS SELECT b_id, b_title, b_stock * 2 AS twice, a_name"
        " FROM book JOIN author ON a_id = b_a_id WHERE b_stock > 0",
    )
    everything = [(1, "A", 20, "Ann"), (3, "C", 8, "Bob")]
    assert rows(db, "SELECT * FROM stocked ORDER BY b_id") == everything
    assert rows(db, "TABLE stocked ORDER BY b_id DESC LIMIT 1") == everything[1:]
    assert rows(db, "SELECT s.twice FROM stocked AS s WHERE s.b_id = ?", (3,)) == [(8,)]
    assert rows(db, "WITH book AS (SELECT 1) SELECT count(*) FROM stocked, book") == [(2,)]
    run(db, "CREATE VIEW dear (name, n) AS SELECT a_name, count(*) FROM stocked GROUP BY a_name")
    assert rows(db, "SELECT * FROM public.dear ORDER BY name") == [("Ann", 1), ("Bob", 1)]
    run(db, "UPDATE book SET b_stock = 1 WHERE b_id = 2")
    assert rows(db, "SELECT n FROM dear WHERE name = 'Ann'") == [(2,)]
    run(db, "UPDATE book SET b_stock = 0 WHERE b_id IN (SELECT b_id FROM stocked WHERE twice = 2)")
    assert rows(db, "SELECT n FROM dear WHERE name = 'Ann'") == [(1,)]


def test_or_replace_takes_the_place_of_the_view(db):
    run(db, "CREATE VIEW one AS SELECT a_id FROM author")
    run(db, "CREATE VIEW two AS SELECT a_id + 10 AS k FROM one")
    run(db, "CREATE OR REPLACE VIEW one AS SELECT b_id AS a_id FROM book")
    assert rows(db, "SELECT k FROM two ORDER BY k") == [(11,), (12,), (13,)]
    with pytest.raises(ProgrammingError, match='The view "one" exists already'):
        run(db, "CREATE VIEW one AS SELECT 1 AS n")
    with pytest.raises(ProgrammingError, match="name of a relation"):
        run(db, "CREATE VIEW book AS SELECT 1 AS n")


def test_what_a_view_reads_is_not_dropped(db):
    run(db, "CREATE TABLE note (n_id INTEGER PRIMARY KEY)")
    run(db, "CREATE VIEW notes AS SELECT * FROM note")
    run(db, "CREATE VIEW many AS SELECT count(*) AS n FROM notes")
    with pytest.raises(ProgrammingError, match="View notes reads note"):
        run(db, "DROP TABLE note")
    with pytest.raises(ProgrammingError, match="In view many: Relation notes is unknown"):
        run(db, "DROP VIEW notes")
    run(db, "DROP VIEW many, notes")
    run(db, "DROP VIEW IF EXISTS many")
    run(db, "DROP TABLE note")
    with pytest.raises(ProgrammingError, match="does not exist"):
        run(db, "DROP VIEW many")


def test_the_information_schema_and_the_document_show_views(db):
    run(db, "CREATE VIEW priced AS SELECT b_id, b_price * 2 AS twice, b_title FROM book")
    assert rows(
        db,
        "SELECT column_name, data_type FROM information_schema.columns"
        " WHERE table_name = 'priced' ORDER BY ordinal_position",
    ) == [("b_id", "integer"), ("twice", "numeric"), ("b_title", "text")]
    sql = "SELECT b_id, b_price * 2 AS twice, b_title FROM book"
    assert rows(
        db,
        "SELECT table_name, view_definition FROM information_schema.views"
        " WHERE table_name = 'priced'",
    ) == [("priced", sql)]
    (view,) = db.transport.json("GET", "/v1/schema")["plain_views"]
    assert (view["name"], view["sources"], view["sql"]) == ("priced", ["book"], sql)
    assert f"CREATE VIEW priced AS\n{sql};\n" in db.transport.json("GET", "/v1/schema")["ddl"]


@pytest.mark.parametrize(
    ("sql", "error", "said"),
    [
        ("CREATE VIEW v AS SELECT nothing FROM book", ProgrammingError, "nothing is unknown"),
        ("CREATE VIEW v AS SELECT a_id, a_id FROM author", ProgrammingError, "two columns called"),
        ("CREATE VIEW v AS SELECT * FROM book WHERE b_id = ?", ProgrammingError, "no parameters"),
        ("CREATE TEMP VIEW v AS SELECT 1 AS n", NotSupportedError, "no temporary tables and views"),
        ("CREATE VIEW v AS SELECT * FROM v", ProgrammingError, "v is unknown"),
        ("CREATE VIEW v (a, b, c) AS SELECT 1 AS n", ProgrammingError, "3 names for 1 columns"),
        ("CREATE INDEX i ON stable (k)", ProgrammingError, "not stored"),
        ("INSERT INTO stable VALUES (1)", NotSupportedError, "stable is a view"),
        ("UPDATE stable SET k = 1", NotSupportedError, "Write to author"),
    ],
)
def test_refusals(db, sql, error, said):
    run(db, "CREATE VIEW stable AS SELECT a_id AS k FROM author")
    with pytest.raises(error, match=said):
        run(db, sql)
    assert rows(db, "SELECT k FROM stable ORDER BY k") == [(1,), (2,)]


def test_a_materialized_view_is_readable_after_its_statement(db):
    run(
        db,
        "CREATE MATERIALIZED VIEW stock AS SELECT b_a_id AS k, sum(b_stock) AS stock, count(*) AS n"
        " FROM book GROUP BY b_a_id WITH DATA",
    )
    assert rows(db, "SELECT k, stock, n FROM stock ORDER BY k") == [(1, 10, 2), (2, 4, 1)]
    run(db, "UPDATE book SET b_stock = b_stock + 1 WHERE b_id = 3")
    run(db, "REFRESH MATERIALIZED VIEW CONCURRENTLY stock")
    assert rows(db, "SELECT stock FROM stock WHERE k = 2") == [(5,)]
    run(db, "UPDATE book SET b_stock = b_stock - 1 WHERE b_id = 3")
    run(db, "CREATE VIEW over AS SELECT k FROM stock WHERE n > 1")
    assert rows(db, "SELECT * FROM over") == [(1,)]
    with pytest.raises(ProgrammingError, match="In view over: Relation stock is unknown"):
        run(db, "DROP MATERIALIZED VIEW stock")
    with pytest.raises(ProgrammingError, match='materialized view "over" does not exist'):
        run(db, "REFRESH MATERIALIZED VIEW over")


def test_a_batch_that_the_nodes_leave_to_spark_is_refused_as_a_statement(db):
    run(
        db,
        "CREATE MATERIALIZED VIEW later WITH (refresh = 'deferred') AS SELECT b_a_id AS k,"
        " count(*) AS n FROM book GROUP BY b_a_id",
    )
    with pytest.raises(NotSupportedError, match="Spark: resident_refresh is off"):
        run(db, "REFRESH MATERIALIZED VIEW later")


def test_a_deferred_view_has_all_that_is_committed_after_its_refresh(tmp_path, monkeypatch):
    monkeypatch.setenv("HORNBEAM_RESIDENT_REFRESH", "true")
    with hornbeam.connect(f"hornbeam:///{tmp_path / 'db'}", autocommit=True) as db:
        run(db, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        run(
            db,
            "CREATE MATERIALIZED VIEW sums WITH (refresh = 'deferred', interval = '1 h') AS"
            " SELECT n, count(*) AS c FROM t GROUP BY n",
        )
        run(db, "INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)")
        run(db, "REFRESH MATERIALIZED VIEW sums")
        assert rows(db, "SELECT * FROM sums ORDER BY n") == [(1, 2), (2, 1)]
        run(db, "DELETE FROM t WHERE id = 2")
        run(db, "REFRESH MATERIALIZED VIEW sums")
        assert rows(db, "SELECT * FROM sums ORDER BY n") == [(1, 1), (2, 1)]


LIVE = (
    "CREATE MATERIALIZED VIEW sums WITH (refresh = 'live', interval = '100 ms') AS"
    " SELECT n, count(*) AS c FROM t GROUP BY n"
)


def test_a_session_sees_its_own_writes_in_live_views_if_it_asks_for_them(tmp_path, monkeypatch):
    monkeypatch.setenv("HORNBEAM_RESIDENT_REFRESH", "true")
    with hornbeam.connect(f"hornbeam:///{tmp_path / 'db'}", autocommit=True) as db:
        run(db, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        run(db, LIVE)
        run(db, "REFRESH MATERIALIZED VIEW sums")
        run(db, "SET hornbeam.views_show_own_writes = on")
        for number in range(5):
            run(db, "INSERT INTO t VALUES (?, 1)", (number,))
            assert rows(db, "SELECT c FROM sums") == [(number + 1,)]
        assert rows(db, "SHOW hornbeam.views_show_own_writes") == [("on",)]
        run(db, "RESET hornbeam.views_show_own_writes")
        assert rows(db, "SHOW hornbeam.views_show_own_writes") == [("off",)]
        with pytest.raises(InterfaceError, match="on or off, not 'maybe'"):
            run(db, "SET hornbeam.views_show_own_writes = maybe")


def test_a_transaction_that_has_read_a_live_view_writes(tmp_path, monkeypatch):
    monkeypatch.setenv("HORNBEAM_RESIDENT_REFRESH", "true")
    with hornbeam.connect(f"hornbeam:///{tmp_path / 'db'}") as db:
        run(db, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        run(db, LIVE)
        run(db, "INSERT INTO t VALUES (1, 1)")
        db.commit()
        run(db, "REFRESH MATERIALIZED VIEW sums")
        assert rows(db, "SELECT c FROM sums, t") == [(1,)]
        run(db, "INSERT INTO t VALUES (2, 1)")
        db.commit()
        assert rows(db, "SELECT count(*) FROM t") == [(2,)]


def test_the_age_of_views_is_bounded_by_a_setting(db):
    assert rows(db, "SHOW hornbeam.max_staleness") == [("0",)]
    run(db, "SET hornbeam.max_staleness = '90 s'")
    assert rows(db, "SHOW hornbeam.max_staleness") == [("90s",)]
    assert db._session._freshness() == {"max_staleness_ms": 90_000, "view_wait_ms": 5_000}
    run(db, "SET hornbeam.max_staleness TO DEFAULT")
    assert db._session._freshness() == {}
    with pytest.raises(InterfaceError, match="max_staleness = '5s'"):
        run(db, "SET hornbeam.max_staleness = soon")


def test_a_session_reads_live_views_tentatively_if_it_asks_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HORNBEAM_RESIDENT_REFRESH", "true")
    url = f"hornbeam:///{tmp_path / 'db'}"
    with hornbeam.connect(url, autocommit=True, consistency="tentative") as db:
        run(db, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        run(db, LIVE.replace("100 ms", "1 h"))
        run(db, "INSERT INTO t VALUES (0, 1)")
        run(db, "REFRESH MATERIALIZED VIEW sums")
        for number in range(1, 4):
            run(db, "INSERT INTO t VALUES (?, 1)", (number,))
            found = run(db, "SELECT c, (SELECT count(*) FROM t) FROM sums")
            assert [tuple(row) for row in found.fetchall()] == [(number + 1, number + 1)]
            assert found.tentative.as_of <= found.tentative.snapshot == db.bookmark
            assert found.tentative.reason == ""
        plan = "\n".join(line for (line,) in rows(db, "EXPLAIN SELECT c FROM sums"))
        assert "tentative: sums at the newest snapshot" in plan
        assert rows(db, "SHOW hornbeam.consistency") == [("tentative",)]
        run(db, "SET hornbeam.consistency = snapshot")
        stored = run(db, "SELECT c FROM sums")
        assert stored.tentative is None
        db.consistency = "Tentative"
        assert rows(db, "SELECT c FROM sums") == [(4,)]
        db.autocommit = False
        found = run(db, "SELECT c FROM sums")
        run(db, "INSERT INTO t VALUES (9, 2)")
        db.commit()
        assert run(db, "SELECT count(*) FROM sums").fetchone() == (2,)
        assert run(db, "SELECT count(*) FROM sums").fetchone() == (2,)
        db.rollback()
        with pytest.raises(InterfaceError, match="snapshot or tentative, not 'eventual'"):
            run(db, "SET hornbeam.consistency = eventual")
    with pytest.raises(InterfaceError, match="snapshot or tentative"):
        hornbeam.connect(f"{url}?consistency=strong")
