"""ALTER and DROP through a connection: planned, applied, and seen by the next statement."""

from __future__ import annotations

from pathlib import Path

import pytest

import hornbeam
from tests.client import client_world
from tests.client.client_world import Run


@pytest.fixture
def url(tmp_path: Path) -> str:
    return client_world.embedded(tmp_path / "db")


def test_statements_alter_a_table_with_rows(url: str) -> None:
    client_world.apply(url)
    with hornbeam.connect(url, autocommit=True) as db:
        cursor = db.cursor()
        cursor.execute("INSERT INTO author VALUES (1, 'A'), (2, 'B')")
        cursor.execute("INSERT INTO book VALUES (1, 1, 'x', 2, 3), (2, NULL, NULL, 1, NULL)")
        for statement in (
            "ALTER TABLE book ALTER b_stock SET DEFAULT 7, ADD COLUMN b_new INT DEFAULT 1",
            "ALTER TABLE author ALTER COLUMN a_id TYPE BIGINT",
            "ALTER TABLE book DROP COLUMN b_price",
            "ALTER TABLE author ALTER a_name DROP NOT NULL",
            "ALTER TABLE author RENAME COLUMN a_id TO id",
            "ALTER INDEX book_title RENAME TO titles",
        ):
            cursor.execute(statement)
        cursor.execute("SELECT a_name, id FROM author WHERE id = 1")
        assert cursor.fetchall() == [("A", 1)]
        cursor.execute("INSERT INTO author VALUES (5000000000, NULL)")
        cursor.execute("INSERT INTO book (b_id, b_a_id) VALUES (3, 5000000000)")
        cursor.execute("SELECT * FROM book ORDER BY b_id")
        assert cursor.fetchall() == [
            (1, 1, "x", 3, 1),
            (2, None, None, None, 1),
            (3, 5000000000, None, 7, 1),
        ]
        cursor.execute("ALTER TABLE book ALTER b_new TYPE TEXT USING 'no ' || b_new::TEXT")
        cursor.execute("SELECT b_new FROM book WHERE b_id = 3")
        assert cursor.fetchall() == [("no 1",)]
        with pytest.raises(hornbeam.DataError, match=r"\(b_id = 1\).*b_new = 'no 1'"):
            cursor.execute(
                "ALTER TABLE book ALTER b_new DROP DEFAULT, ALTER b_new TYPE DATE USING b_new::DATE"
            )
        with pytest.raises(hornbeam.IntegrityError, match="2 stored rows have NULL"):
            cursor.execute("ALTER TABLE book ALTER b_title SET NOT NULL")
        with pytest.raises(hornbeam.ProgrammingError, match="statement by_author: Column b_title"):
            cursor.execute("ALTER TABLE book DROP b_title")
        with pytest.raises(hornbeam.ProgrammingError, match="foreign key book_b_a_id_fkey"):
            cursor.execute("DROP TABLE author RESTRICT")
        cursor.execute("ALTER TABLE IF EXISTS nothing DROP x")
        with pytest.raises(hornbeam.ProgrammingError, match="Statement by_author"):
            cursor.execute("DROP TABLE author CASCADE")


def test_a_changed_file_says_which_columns_it_renames(run: Run, url: str, tmp_path: Path) -> None:
    client_world.apply(url)
    assert run("sql", "INSERT INTO book (b_id, b_stock) VALUES (1, 77)")[0] == 0
    file = tmp_path / "schema.sql"
    file.write_text(client_world.DDL.replace("b_stock", "stock"))
    code, _, err = run("schema", "apply", str(file), "-y")
    assert code == 3
    assert "columns book.b_stock" in err
    assert "--rename" in err
    code, _, err = run("schema", "apply", str(file), "-y", "--rename", "b_stock")
    assert "Write --rename relation.column=new" in err
    renamed = ("--rename", "book.b_stock=stock")
    code, out, err = run("schema", "apply", str(file), "-y", *renamed)
    assert code == 0, err
    assert "rename" in out
    assert "77" in run("sql", "SELECT stock FROM book")[1]


def test_a_changed_file_says_which_relations_it_renames(run: Run, url: str, tmp_path: Path) -> None:
    client_world.apply(url)
    assert run("sql", "INSERT INTO book (b_id, b_stock) VALUES (1, 77)")[0] == 0
    file = tmp_path / "schema.sql"
    file.write_text(
        client_world.DDL.replace("TABLE book", "TABLE volume").replace("ON book", "ON volume")
    )
    code, _, err = run("schema", "apply", str(file), "-y")
    assert code != 0
    assert "Relation book is unknown" in err
    renames = ("--rename", "book=volume", "--rename", "volume.b_stock=stock")
    file.write_text(file.read_text().replace("b_stock", "stock"))
    code, out, err = run("schema", "apply", str(file), "-y", *renames)
    assert code == 0, err
    assert "rename" in out
    assert "77" in run("sql", "SELECT stock FROM volume")[1]


def test_tables_and_views_are_renamed_by_statements(url: str) -> None:
    client_world.apply(url)
    with hornbeam.connect(url, autocommit=True) as db:
        cursor = db.cursor()
        cursor.execute("INSERT INTO author VALUES (1, 'A')")
        cursor.execute("CREATE VIEW named AS SELECT author.a_name FROM author")
        cursor.execute("RENAME TABLE author TO writer, book TO author")
        cursor.execute("ALTER VIEW named RENAME TO names")
        cursor.execute("INSERT INTO author (b_id, b_a_id) VALUES (1, 1)")
        with pytest.raises(hornbeam.IntegrityError):
            cursor.execute("DELETE FROM writer")
        cursor.execute("SELECT a_name FROM names")
        assert cursor.fetchall() == [("A",)]
        with pytest.raises(hornbeam.ProgrammingError, match="index writer already"):
            cursor.execute("ALTER TABLE author RENAME TO writer")


def test_a_changed_file_says_how_values_are_converted(run: Run, url: str, tmp_path: Path) -> None:
    client_world.apply(url)
    assert run("sql", "INSERT INTO book (b_id, b_title) VALUES (1, '77')")[0] == 0
    file = tmp_path / "schema.sql"
    assert client_world.DDL.count("b_title TEXT") == 1
    file.write_text(client_world.DDL.replace("b_title TEXT", "b_title INTEGER"))
    code, _, err = run("schema", "apply", str(file), "-y")
    assert code == 3
    assert "--using" in err
    code, _, err = run("schema", "apply", str(file), "-y", "--using", "b_title")
    assert "Write --using relation.column=expression" in err
    using = ("--using", "book.b_title=CAST(b_title AS INTEGER)")
    code, out, err = run("schema", "plan", str(file), *using)
    assert "all rows are written again:\n  book: about " in out, err
    code, out, err = run("schema", "apply", str(file), "-y", *using)
    assert code == 0, err
    assert "78" in run("sql", "SELECT b_title + 1 FROM book")[1]


def test_a_view_that_is_built_again_can_be_read_after_the_statement(url: str) -> None:
    with hornbeam.connect(url, autocommit=True) as db:
        cursor = db.cursor()
        cursor.execute("CREATE TABLE sold (id INTEGER PRIMARY KEY, price NUMERIC(8,2))")
        cursor.executemany("INSERT INTO sold VALUES (?, ?)", [(n, n % 7) for n in range(5_000)])
        cursor.execute(
            "CREATE MATERIALIZED VIEW by_price AS"
            " SELECT price, count(*) AS n FROM sold GROUP BY price"
        )
        cursor.execute("ALTER TABLE sold ALTER price TYPE TEXT USING price::text")
        cursor.execute("SELECT price, n FROM by_price WHERE price = '6.00'")
        assert cursor.fetchall() == [("6.00", 714)]


@pytest.mark.parametrize(
    "column",
    [
        "n INT DEFAULT nextval('s')",
        "n TEXT DEFAULT 'A' || nextval('s')",
        "n SERIAL",
        "n INT GENERATED ALWAYS AS IDENTITY",
    ],
)
def test_stored_rows_get_numbers_of_their_own(url: str, column: str) -> None:
    with hornbeam.connect(url, autocommit=True) as db:
        cursor = db.cursor()
        cursor.execute("CREATE SEQUENCE s")
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO t VALUES (7), (3)")
        cursor.execute(f"ALTER TABLE t ADD COLUMN {column}")
        cursor.execute("INSERT INTO t (id) VALUES (1)")
        rows = cursor.execute("SELECT id, n FROM t").fetchall()
        numbers = {id_: int(str(n).removeprefix("A")) for id_, n in rows}
        assert numbers[3] == 1
        assert numbers[7] == 2
        assert numbers[1] > 2
        cursor.execute("DROP TABLE t")
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        cursor.execute(f"ALTER TABLE t ADD COLUMN {column}")
        cursor.execute("INSERT INTO t (id) VALUES (1), (2)")
        ((distinct,),) = cursor.execute("SELECT count(DISTINCT n) FROM t").fetchall()
        assert distinct == 2


def test_a_computed_default_is_added_while_rows_are_written_again(url: str) -> None:
    with hornbeam.connect(url, autocommit=True) as db:
        cursor = db.cursor()
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, price INT)")
        cursor.execute("INSERT INTO t VALUES (1, 6), (2, 7)")
        cursor.execute(
            "ALTER TABLE t ADD COLUMN at TIMESTAMPTZ DEFAULT now(), ALTER price TYPE TEXT"
            " USING price::text"
        )
        rows = cursor.execute("SELECT price, at FROM t ORDER BY id").fetchall()
        assert [price for price, _ in rows] == ["6", "7"]
        ((at,),) = {row[1:] for row in rows}
        assert at is not None


def test_a_conversion_that_has_no_value_is_an_error(url: str) -> None:
    with hornbeam.connect(url, autocommit=True) as db:
        cursor = db.cursor()
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, a TIMESTAMP, m INT)")
        cursor.execute("INSERT INTO t VALUES (1, '2024-01-01', 1)")
        with pytest.raises(hornbeam.DataError, match="time zone Nowhere/Land is not known"):
            cursor.execute(
                "ALTER TABLE t ALTER a TYPE TIMESTAMPTZ USING a AT TIME ZONE 'Nowhere/Land'"
            )
        with pytest.raises(hornbeam.DataError, match="outside of the years"):
            cursor.execute("ALTER TABLE t ALTER m TYPE TIMESTAMPTZ USING to_timestamp(m * 1e12)")


def test_a_constraint_is_added_without_its_validation(tmp_path: Path) -> None:
    """As migrations of Django and Rails do: NOT VALID first, then VALIDATE."""
    with hornbeam.connect(client_world.embedded(tmp_path), autocommit=True) as db:
        cursor = db.cursor()
        cursor.execute("CREATE UNLOGGED TABLE a (id INT PRIMARY KEY)")
        cursor.execute("CREATE TABLE b (id INT PRIMARY KEY, a INT, n INT)")
        cursor.execute("INSERT INTO b VALUES (1, NULL, 0)")
        cursor.execute(
            "ALTER TABLE b ADD CONSTRAINT fk FOREIGN KEY (a) REFERENCES a (id) NOT VALID"
        )
        cursor.execute("ALTER TABLE b VALIDATE CONSTRAINT fk")
        with pytest.raises(hornbeam.IntegrityError, match="b_n_check"):
            cursor.execute("ALTER TABLE b ADD CHECK (n > 0) NO INHERIT NOT VALID")
        cursor.execute("UPDATE b SET n = 1")
        cursor.execute("ALTER TABLE b ADD CHECK (n > 0) NOT VALID")
        with pytest.raises(hornbeam.IntegrityError):
            cursor.execute("INSERT INTO b VALUES (2, NULL, 0)")
        with pytest.raises(hornbeam.IntegrityError):
            cursor.execute("INSERT INTO b VALUES (2, 7, 1)")
