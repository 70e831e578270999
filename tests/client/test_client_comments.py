"""COMMENT ON of a client: statements, files and dumps, and where comments are shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

import hornbeam
from hornbeam.connection import Connection
from hornbeam.errors import ProgrammingError
from tests.client.client_world import Run, embedded

DDL = (
    "CREATE TABLE t (a INT PRIMARY KEY, b INT CONSTRAINT small CHECK (b < 9))",
    "CREATE VIEW v AS SELECT a FROM t",
)
COMMENTS = (
    "COMMENT ON TABLE t IS 'the table';\n",
    "COMMENT ON COLUMN t.a IS 'it''s\n\"a\"';\n",
    "COMMENT ON CONSTRAINT small ON t IS 'few';\n",
    "COMMENT ON VIEW v IS 'the view';\n",
    "COMMENT ON COLUMN v.a IS 'a of v';\n",
)
DUMP = """
--
-- PostgreSQL database dump
--
CREATE TABLE public.t (a integer NOT NULL, b text);
COMMENT ON TABLE public.t IS 'the table';
COMMENT ON COLUMN public.t.b IS 'the "b"';
COMMENT ON EXTENSION plpgsql IS 'PL/pgSQL procedural language';
COPY public.t (a, b) FROM stdin;
1	x
\\.
ALTER TABLE ONLY public.t ADD CONSTRAINT t_pkey PRIMARY KEY (a);
COMMENT ON CONSTRAINT t_pkey ON public.t IS 'the key';
COMMENT ON INDEX public.nothing IS 'passed over';
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return embedded(tmp_path / "db")


@pytest.fixture
def db(url: str) -> Iterator[Connection]:
    with hornbeam.connect(url, autocommit=True) as connection:
        run_all(connection, *DDL)
        yield connection


def run_all(db: Connection, *statements: str) -> None:
    for sql in statements:
        db.cursor().execute(sql)


def rows(db: Connection, sql: str) -> list[tuple[object, ...]]:
    cursor = db.cursor()
    cursor.execute(sql)
    return cursor.fetchall()


def document(db: Connection) -> dict[str, object]:
    found: dict[str, object] = db.schema_document()
    return found


def test_a_comment_is_shown_by_functions_and_in_the_document(db: Connection) -> None:
    assert "comments" not in document(db)
    run_all(db, *COMMENTS)
    assert rows(
        db,
        "SELECT obj_description('t'::regclass), obj_description('t'::regclass, 'pg_class'),"
        " obj_description('t'::regclass, 'pg_type'), col_description('t'::regclass, 1),"
        " col_description('v'::regclass, 1), col_description('t'::regclass, 2)",
    ) == [("the table", "the table", None, 'it\'s\n"a"', "a of v", None)]
    assert rows(
        db,
        "SELECT conname, obj_description(oid, 'pg_constraint') FROM pg_constraint"
        " WHERE conrelid = 't'::regclass ORDER BY conname",
    ) == [("small", "few"), ("t_pkey", None)]
    assert rows(db, "SELECT count(*), count(DISTINCT objoid) FROM pg_description") == [(5, 3)]
    shown = document(db)
    assert sorted(str(shown["comments"]).split(";\n")) == sorted("".join(COMMENTS).split(";\n"))
    (table,) = shown["relations"]  # type: ignore[misc]
    assert table["comment"] == "the table"
    assert [column.get("comment") for column in table["columns"]] == ['it\'s\n"a"', None]
    assert table["checks"][0]["comment"] == "few"
    (view,) = shown["plain_views"]  # type: ignore[misc]
    assert (view["comment"], view["columns"][0]["comment"]) == ("the view", "a of v")
    run_all(db, "COMMENT ON TABLE t IS NULL", "COMMENT ON COLUMN t.a IS ''")
    assert rows(db, "SELECT obj_description('t'::regclass), col_description('t'::regclass, 1)") == [
        (None, None)
    ]
    assert "comment" not in document(db)["relations"][0]  # type: ignore[index]


def test_a_comment_stands_in_a_transaction_that_has_written(db: Connection) -> None:
    """It takes effect at once, and a rollback leaves it."""
    run_all(db, "BEGIN", "INSERT INTO t VALUES (1, 1)", "COMMENT ON TABLE t IS 'x'")
    assert rows(db, "SELECT a, obj_description('t'::regclass) FROM t") == [(1, "x")]
    run_all(db, "INSERT INTO t VALUES (2, 1)", "ROLLBACK")
    assert rows(db, "SELECT count(*), obj_description('t'::regclass) FROM t") == [(0, "x")]
    run_all(db, "BEGIN READ ONLY")
    with pytest.raises(ProgrammingError):
        run_all(db, "COMMENT ON TABLE t IS 'y'")
    run_all(db, "ROLLBACK")


def test_a_comment_on_another_database_has_a_notice(db: Connection) -> None:
    cursor = db.cursor()
    cursor.execute("COMMENT ON DATABASE another IS 'x'")
    assert cursor.notice == "There is no database another."
    cursor.execute("COMMENT ON DATABASE hornbeam IS 'x'")
    assert cursor.notice == ""
    assert rows(db, "SELECT shobj_description(oid, 'pg_database') FROM pg_database") == [("x",)]


def test_a_change_that_writes_rows_again_keeps_comments(db: Connection) -> None:
    """By copies of relations, and in two stages."""
    run_all(
        db,
        *COMMENTS[:2],
        "DROP VIEW v",
        "INSERT INTO t VALUES (1, 1)",
        "COMMENT ON CONSTRAINT t_pkey ON t IS 'the key'",
        "ALTER TABLE t ADD COLUMN n SERIAL, ADD COLUMN x TEXT DEFAULT 'xyz'",
        "COMMENT ON COLUMN t.x IS 'the x'",
        "ALTER TABLE t ALTER COLUMN x DROP DEFAULT, ALTER COLUMN x TYPE INT USING length(x)",
    )
    shown, a = "SELECT description FROM pg_description ORDER BY 1", 'it\'s\n"a"'
    assert rows(db, shown) == [(a,), ("the key",), ("the table",), ("the x",)]
    run_all(db, "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD COLUMN id SERIAL PRIMARY KEY")
    assert rows(db, "SELECT a, x, n, id FROM t") == [(1, 3, 1, 1)]
    assert rows(db, shown) == [(a,), ("the table",), ("the x",)]


def test_the_tag_is_that_of_postgresql(db: Connection) -> None:
    from hornbeam.statements import kind
    from hornbeam.tags import tag_of

    assert tag_of(kind(COMMENTS[0]), COMMENTS[0]) == "COMMENT"
    assert tag_of(kind("COMMENT ON ROLE r IS 'x'"), "COMMENT ON ROLE r IS 'x'") == "COMMENT"


def test_schema_show_gives_a_file_with_the_same_comments(
    db: Connection, run: Run, tmp_path: Path
) -> None:
    run_all(db, *COMMENTS)
    code, text, _ = run("schema", "show", "--ddl")
    assert code == 0
    file = tmp_path / "schema.sql"
    file.write_text(text)
    other = embedded(tmp_path / "other")
    with hornbeam.connect(other, autocommit=True) as second:
        assert run("schema", "apply", str(file), "--yes", on=other)[0] == 0
        assert document(second)["comments"] == document(db)["comments"]
        assert document(second)["ddl"] == document(db)["ddl"]


def test_a_file_sets_comments_and_the_plan_shows_them(
    db: Connection, run: Run, tmp_path: Path
) -> None:
    run_all(db, *COMMENTS)
    file = tmp_path / "schema.sql"
    file.write_text(";\n".join(DDL) + ";\nCOMMENT ON TABLE t IS 'another';\n")
    code, text, _ = run("schema", "diff", str(file), "--json")
    changes = [each for each in json.loads(text) if each["action"] == "comment"]
    assert (code, changes) == (
        1,
        [{"action": "comment", "kind": "table", "name": "t", "detail": "another"}],
    )
    assert run("schema", "apply", str(file), "--yes")[0] == 0
    assert rows(db, "SELECT obj_description('t'::regclass), col_description('v'::regclass, 1)") == [
        ("another", "a of v")
    ]
    assert run("schema", "diff", str(file))[0] == 0


def test_an_import_has_the_comments_of_the_dump(url: str, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "dump.sql"
    file.write_text(DUMP.replace("\\\\.", "\\."))
    with hornbeam.connect(url, autocommit=True) as db:
        code, _, err = run("import", str(file))
        assert code == 0, err
        assert rows(db, "SELECT a, b FROM t") == [(1, "x")]
        text = str(document(db)["comments"])
        assert sorted(text.splitlines()) == [
            "COMMENT ON COLUMN t.b IS 'the \"b\"';",
            "COMMENT ON CONSTRAINT t_pkey ON t IS 'the key';",
            "COMMENT ON TABLE t IS 'the table';",
        ]


def test_sqlalchemy_writes_and_reflects_comments(url: str) -> None:
    engine = sa.create_engine(url)
    metadata = sa.MetaData()
    sa.Table(
        "t",
        metadata,
        sa.Column("a", sa.Integer, primary_key=True, comment="it's a"),
        sa.Column("b", sa.Integer),
        sa.CheckConstraint("b < 9", name="small", comment="few"),
        sa.UniqueConstraint("b", name="once", comment="only one"),
        comment="the table",
    )
    metadata.create_all(engine)
    inspector = sa.inspect(engine)
    assert inspector.get_table_comment("t") == {"text": "the table"}
    assert [column["comment"] for column in inspector.get_columns("t")] == ["it's a", None]
    assert inspector.get_check_constraints("t")[0]["comment"] == "few"
    assert inspector.get_unique_constraints("t")[0]["comment"] == "only one"
    assert inspector.get_pk_constraint("t")["comment"] is None
    reflected = sa.Table("t", sa.MetaData(), autoload_with=engine)
    assert (reflected.comment, reflected.c.a.comment) == ("the table", "it's a")
    with engine.begin() as connection:
        connection.execute(sa.schema.DropTableComment(reflected))
        check = next(c for c in metadata.tables["t"].constraints if c.name == "small")
        connection.execute(sa.schema.DropConstraintComment(check))
    inspector = sa.inspect(engine)
    assert inspector.get_table_comment("t") == {"text": None}
    assert inspector.get_check_constraints("t")[0]["comment"] is None
    engine.dispose()
