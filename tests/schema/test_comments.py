"""Comments: they are read, rendered, stored, found by their names, and shown in parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.codec import decode_catalog, encode_catalog, meaning_of
from hornbeam_server.schema.commented import objects_of
from hornbeam_server.schema.comments import (
    Comment,
    Commented,
    Key,
    render_comments,
    with_comments,
)
from hornbeam_server.schema.ddl import load_comment, load_ddl, read_file, render_ddl
from hornbeam_server.schema.ddl.comments import as_comment
from hornbeam_server.schema.ddl.suggest import suggestion
from hornbeam_server.schema.errors import HornbeamError, SchemaError
from hornbeam_server.schema.parts import part_of

FIXTURES = Path(__file__).parent / "fixtures"
COMMENTED = FIXTURES / "catalog_21_comments.json"
"""A catalog with a comment of each kind of objects."""
DDL = """
CREATE SCHEMA s;
CREATE DOMAIN s.d AS INT CONSTRAINT small CHECK (value < 9);
CREATE TYPE s.e AS ENUM ('x');
CREATE SEQUENCE n;
CREATE TABLE t (a INT CONSTRAINT pk PRIMARY KEY, b INT CONSTRAINT once UNIQUE, "C d" s.d);
CREATE TABLE s.u (a INT PRIMARY KEY, b INT CONSTRAINT r REFERENCES t, CONSTRAINT c CHECK (b > 0));
CREATE INDEX i ON s.u (b);
"""
OBJECTS = (
    """
TABLE t, TABLE s.u, COLUMN t.a, COLUMN t."C d", COLUMN s.u.b, INDEX pk, INDEX s.u_pkey, INDEX s.i,
INDEX once, SEQUENCE n, TYPE s.e, DOMAIN s.d, SCHEMA s, SCHEMA public, DATABASE hornbeam,
CONSTRAINT pk ON t, CONSTRAINT once ON t, CONSTRAINT r ON s.u, CONSTRAINT c ON s.u,
CONSTRAINT u_pkey ON s.u, CONSTRAINT small ON DOMAIN s.d
""".replace(",\n", ", ")
    .strip()
    .split(", ")
)


def catalog_of(ddl: str) -> Catalog:
    schema = replace(load_ddl(ddl), notes=())
    return Catalog(1, schema, Forest(schema.names))


def commented(ddl: str, *statements: str) -> Catalog:
    catalog = catalog_of(ddl)
    return replace(
        catalog, comments=with_comments((), [load_comment(s, catalog) for s in statements])
    )


def all_commented() -> Catalog:
    return commented(DDL, *(f"COMMENT ON {each} IS 'the ''{each}'''" for each in OBJECTS))


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("'it''s'", "it's"),
        ("''", ""),
        ("NULL", ""),
        ("null", ""),
        (r"'a\n'", r"a\n"),
        (r"E'a\n\'\x41\xc3\xa4\u00e4'", "a\n'Aää"),
        ("$$it's$$", "it's"),
        ("$x$a$$b$x$", "a$$b"),
        (r"U&'d\0061t\+000061'", "data"),
        ("U&'d!0061t!+000061' UESCAPE '!'", "data"),
        ("'one '\n  'two'", "one two"),
        ("'a; b -- c'", "a; b -- c"),
    ],
)
def test_a_text_has_all_forms_of_postgresql(written: str, text: str) -> None:
    catalog = catalog_of(DDL)
    (read,) = read_file(f"COMMENT ON TABLE t IS {written};").comments
    assert read.text == text
    assert load_comment(f"comment on /* x */ table t is {written};", catalog) == Comment(
        Key(Commented.TABLE, "t"), text
    )


@pytest.mark.parametrize(
    "sql",
    [
        "COMMENT ON TABLE t",
        "COMMENT ON TABLE t IS",
        "COMMENT ON TABLE t IS 5",
        "COMMENT ON TABLE t IS 'a' || 'b'",
        "COMMENT ON TABLE t IS NULL NULL",
        "COMMENT ON TABLE IS 'x'",
        "COMMENT ON TABLE t. IS 'x'",
        "COMMENT ON TABLE 't' IS 'x'",
        "COMMENT ON COLUMN a IS 'x'",
        "COMMENT ON CONSTRAINT once IS 'x'",
        "COMMENT ON MATERIALIZED t IS 'x'",
        r"COMMENT ON TABLE t IS E'\xff'",
        r"COMMENT ON TABLE t IS U&'\00'",
        "COMMENT ON TABLE t IS 'x'; COMMENT ON TABLE t IS 'y'",
        "COMMENT ON FUNCTION f() IS 'x'",
        "DROP TABLE t",
    ],
)
def test_what_is_not_one_comment_is_refused_with_its_place(sql: str) -> None:
    with pytest.raises(SchemaError) as caught:
        load_comment(sql, catalog_of(DDL))
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("on", "code", "message"),
    [
        ("TABLE no", "sql-unknown-name", "Table no is unknown"),
        ("TABLE s.no", "sql-unknown-name", "Table s.no is unknown"),
        ("TABLE no.t", "sql-unknown-name", "There is no schema no"),
        ("VIEW no", "sql-unknown-name", "View no is unknown"),
        (
            "VIEW t",
            "sql-type-mismatch",
            "Wrong kind of object: t is no view, but has the kind table",
        ),
        ("TABLE n", "sql-type-mismatch", "Wrong kind of object"),
        ("INDEX t", "sql-type-mismatch", "Wrong kind of object"),
        ("COLUMN n.a", "sql-type-mismatch", "Wrong kind of object"),
        ("COLUMN t.no", "sql-unknown-name", "Column no of t is unknown"),
        ("COLUMN no.a", "sql-unknown-name", "Table no is unknown"),
        ("CONSTRAINT no ON t", "sql-unknown-name", "There is no constraint no of t"),
        ("CONSTRAINT r ON t", "sql-unknown-name", "There is no constraint r of t"),
        ("CONSTRAINT r ON no", "sql-unknown-name", "Table no is unknown"),
        ("CONSTRAINT no ON DOMAIN s.d", "sql-unknown-name", "There is no constraint no of s.d"),
        ("CONSTRAINT small ON DOMAIN no", "sql-unknown-name", "There is no type no"),
        ("TYPE no", "sql-unknown-name", "There is no type no"),
        ("DOMAIN no", "sql-unknown-name", "There is no type no"),
        ("DOMAIN s.e", "sql-type-mismatch", "Wrong kind of object"),
        ("SCHEMA no", "sql-unknown-name", "There is no schema no"),
        ("SEQUENCE no", "sql-unknown-name", "Sequence no is unknown"),
        ("INDEX t_pkey", "sql-unknown-name", "Index t_pkey is unknown"),
    ],
)
def test_an_object_that_is_not_there_is_refused_by_its_kind(
    on: str, code: str, message: str
) -> None:
    with pytest.raises(HornbeamError) as caught:
        load_comment(f"COMMENT ON {on} IS 'x'", catalog_of(DDL))
    assert caught.value.code == code
    assert caught.value.message.startswith(message)


def test_a_comment_on_another_database_has_no_effect() -> None:
    comment = load_comment("COMMENT ON DATABASE no IS 'x'", catalog_of(DDL))
    assert comment == Comment(Key(Commented.DATABASE, "no"), "")


def test_names_are_found_along_the_search_path() -> None:
    catalog = catalog_of(DDL)

    def found(on: str, *path: str) -> Key:
        return load_comment(f"COMMENT ON {on} IS 'x'", catalog, path).on

    assert found("TABLE u", "s", "public").name == "s.u"
    assert found("TABLE t", "s", "public").name == "t"
    assert found("COLUMN u.b", "no", "s") == Key(Commented.COLUMN, "s.u", "b")
    assert found("INDEX u_pkey", "s").name == "s.u_pkey"
    assert found("TYPE d", "public", "s") == Key(Commented.DOMAIN, "s.d")
    assert found('TABLE hornbeam.public."t"', "s").name == "t"
    with pytest.raises(HornbeamError, match="no schema of the search path"):
        found("TABLE t", "no")


def test_every_object_can_be_commented_and_is_rendered_so_that_it_is_read_back() -> None:
    catalog = all_commented()
    assert {comment.on for comment in catalog.comments} >= {
        key for key in objects_of(catalog) if key.kind is not Commented.COLUMN
    }
    text = render_comments(catalog.comments, catalog.schema.spaces)
    read = read_file(render_ddl(catalog.schema) + text)
    assert not read.problems.found()
    assert with_comments((), map(as_comment, read.comments)) == catalog.comments


def test_a_name_that_is_also_that_of_a_schema_is_rendered_with_its_own() -> None:
    ddl = (
        "CREATE SCHEMA s; CREATE TABLE s (s INT PRIMARY KEY); CREATE TABLE s.s (s INT PRIMARY KEY);"
    )
    catalog = commented(
        ddl, "COMMENT ON COLUMN public.s.s IS 'x'", "COMMENT ON COLUMN s.s.s IS 'y'"
    )
    read = read_file(ddl + render_comments(catalog.comments, ("s",)))
    assert with_comments((), map(as_comment, read.comments)) == catalog.comments


def test_a_file_of_mysql_has_comments_behind_columns_and_tables() -> None:
    read = read_file(
        "CREATE TABLE `T` (`id` int NOT NULL COMMENT 'the ''id', `b` text COMMENT 'it\\'s\\n',"
        " PRIMARY KEY (`id`)) ENGINE=InnoDB COMMENT='a; \"table\"';"
    )
    assert not read.problems.found()
    assert [as_comment(each) for each in read.comments] == [
        Comment(Key(Commented.TABLE, "t"), 'a; "table"'),
        Comment(Key(Commented.COLUMN, "t", "id"), "the 'id"),
        Comment(Key(Commented.COLUMN, "t", "b"), "it's\n"),
    ]


def test_other_kinds_are_passed_over_with_a_note() -> None:
    read = read_file(
        "CREATE TABLE t (a INT); COMMENT ON EXTENSION x IS 'x'; COMMENT ON ROLE r IS 'x';"
    )
    assert read.schema.notes == ("passed over: COMMENT (lines 1, 1)",)
    assert not read.comments


def test_a_suggestion_keeps_the_comments() -> None:
    read = read_file("CREATE TABLE t (a INT, b NO_TYPE); COMMENT ON COLUMN t.a IS 'x';")
    assert suggestion(read, "f").endswith("COMMENT ON COLUMN t.a IS 'x';\n")


def test_a_catalog_with_comments_has_another_format() -> None:
    catalog = all_commented()
    assert encode_catalog(catalog) == COMMENTED.read_bytes()
    assert decode_catalog(COMMENTED.read_bytes()) == catalog
    bare = replace(catalog, comments=())
    assert b'"comments"' not in encode_catalog(bare)
    assert b'"format":20,' in encode_catalog(bare)


def test_comments_change_no_meaning_of_statements() -> None:
    catalog = all_commented()
    assert meaning_of(catalog) == meaning_of(replace(catalog, comments=()))


def test_a_catalog_of_the_format_before_opens_without_comments() -> None:
    catalog = decode_catalog((FIXTURES / "catalog_20_key_names.json").read_bytes())
    assert catalog.comments == ()


def test_a_part_shows_the_comments_on_what_it_shows() -> None:
    catalog = all_commented()
    part = part_of(catalog, frozenset({"t"})).catalog
    shown = {comment.on for comment in part.comments}
    assert {key for key in shown if key.name in {"s.u", "s.i", "s.u_pkey", "n", "s.e"}} == set()
    assert {Key(Commented.TABLE, "t"), Key(Commented.COLUMN, "t", "a")} <= shown
    assert {Key(Commented.DOMAIN, "s.d"), Key(Commented.CONSTRAINT, "t", "once")} <= shown
    assert not {key for key in shown if key not in objects_of(part)}
