"""CREATE TABLE … AS: the table of a query."""

import pytest

import hornbeam
from hornbeam.errors import DataError, NotSupportedError, ProgrammingError
from tests.client.client_world import DDL, apply, embedded
from tests.client.test_client_views import rows, run


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    url = embedded(tmp_path_factory.mktemp("shop"))
    apply(url, DDL, "")
    with hornbeam.connect(url, autocommit=True) as connection:
        run(connection, "INSERT INTO author VALUES (1, 'Ann'), (2, 'Bob')")
        run(connection, "INSERT INTO book VALUES (1, 1, 'A', 5, 10), (2, 1, NULL, 7.5, 0)")
        yield connection


def columns(db, table):
    return rows(
        db,
        "SELECT column_name, data_type, numeric_scale FROM information_schema.columns"
        f" WHERE table_name = '{table}' ORDER BY ordinal_position",
    )


def test_the_table_has_the_columns_types_and_rows_of_the_query(db):
    run(
        db,
        'CREATE TABLE dear AS SELECT b_id, b_title AS "Title", b_price * 2 AS twice,'
        " b_price > 6 AS dear, current_date AS day FROM book WITH DATA",
    )
    assert columns(db, "dear") == [
        ("b_id", "integer", 0),
        ("Title", "text", None),
        ("twice", "numeric", 2),
        ("dear", "boolean", None),
        ("day", "date", None),
    ]
    found = rows(db, 'SELECT b_id, "Title", twice, dear FROM dear ORDER BY b_id')
    assert found == [(1, "A", 10, False), (2, None, 15, True)]
    run(db, "INSERT INTO dear (b_id) VALUES (1)")  # it has no key
    assert rows(db, "SELECT count(*) FROM dear") == [(3,)]
    run(db, "CREATE TABLE IF NOT EXISTS dear AS SELECT 1 AS other")
    assert rows(db, "SELECT count(*) FROM dear") == [(3,)]
    with pytest.raises(ProgrammingError, match="dear exists already"):
        run(db, "CREATE TABLE dear AS SELECT 1 AS other")


def test_columns_may_be_named_and_rows_left_out(db):
    run(
        db,
        "CREATE TABLE IF NOT EXISTS public.counted (k, n) AS"
        " WITH b AS (SELECT b_a_id FROM book) SELECT b_a_id, count(*), 'x' AS x FROM b GROUP BY 1",
    )
    assert rows(db, "SELECT k, n, x FROM counted") == [(1, 2, "x")]
    run(db, "CREATE TABLE empty AS SELECT * FROM counted WITH NO DATA")
    assert columns(db, "empty") == columns(db, "counted")
    assert rows(db, "SELECT * FROM empty") == []


@pytest.mark.parametrize(
    ("sql", "error", "said"),
    [
        ("CREATE TABLE t AS SELECT 1 / (b_id - 1) AS n FROM book", DataError, "by zero"),
        ("CREATE TABLE t AS SELECT nothing FROM book", ProgrammingError, "nothing is unknown"),
        ("CREATE TABLE t (a, b) AS SELECT 1 AS n", ProgrammingError, "2 names for 1 columns"),
        ("CREATE TABLE t AS SELECT ? AS n", ProgrammingError, "no parameters"),
        ("CREATE TABLE t AS SELECT b_id, b_id FROM book", ProgrammingError, "two columns called"),
        ("SELECT 1 / (b_id - 1) AS n INTO t FROM book", DataError, "by zero"),
    ],
)
def test_nothing_is_left_of_a_statement_that_fails(db, sql, error, said):
    with pytest.raises(error, match=said):
        run(db, sql)
    with pytest.raises(ProgrammingError, match="t is unknown"):
        run(db, "SELECT * FROM t")


def test_a_statement_that_cannot_be_parsed_is_an_error_of_the_statement(db):
    with pytest.raises(ProgrammingError, match="CREATE TABLE is not understood"):
        run(db, "CREATE TABLE torn AS FRUM book")


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("SELECT b_id, b_title INTO taken FROM book WHERE b_id = 1", "taken"),
        ("select b_id, b_title into table public.taken_too from book where b_id = 1", "taken_too"),
        (
            'WITH w AS (SELECT * FROM book) SELECT b_id, b_title INTO "Taken" FROM w'
            " WHERE b_id = 1",
            '"Taken"',
        ),
    ],
)
def test_select_into_makes_a_table(db, sql, table):
    run(db, sql)
    assert rows(db, f"SELECT * FROM {table}") == [(1, "A")]
    with pytest.raises(ProgrammingError, match="exists already"):
        run(db, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TEMP TABLE brief (a INT)",
        "CREATE TEMPORARY TABLE brief AS SELECT 1 AS a",
        "SELECT b_id INTO TEMP brief FROM book",
    ],
)
def test_a_temporary_table_is_refused_with_a_cure(db, sql):
    with pytest.raises(NotSupportedError, match="WITH in the query"):
        run(db, sql)


def test_an_into_elsewhere_is_no_select_into(db):
    assert rows(db, "SELECT 'into' AS b, \"b_id\" FROM book WHERE b_title = 'A'") == [("into", 1)]
