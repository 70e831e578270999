"""Names of primary keys: they are read, written, compared and stored."""

from dataclasses import replace
from pathlib import Path

import pytest

from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.codec import decode_catalog, encode_catalog
from hornbeam_server.schema.ddl import load_ddl, render_ddl
from hornbeam_server.schema.diff import diff
from hornbeam_server.schema.errors import SchemaError
from hornbeam_server.schema.namespaces import key_name

NAMED = Path(__file__).parent / "fixtures" / "catalog_20_key_names.json"
"""A catalog with a primary key that has a name of its own."""


@pytest.mark.parametrize(
    ("ddl", "own", "name"),
    [
        ("CREATE TABLE t (a INT CONSTRAINT pk PRIMARY KEY);", "pk", "pk"),
        ('CREATE TABLE t (a INT, CONSTRAINT "P k" PRIMARY KEY (a));', "P k", "P k"),
        ("CREATE TABLE t (a INT); ALTER TABLE t ADD CONSTRAINT x PRIMARY KEY (a);", "x", "x"),
        ("CREATE TABLE t (a INT, CONSTRAINT t_pkey PRIMARY KEY (a));", "", "t_pkey"),
        ("CREATE TABLE t (a INT PRIMARY KEY);", "", "t_pkey"),
        ("CREATE TABLE t (a INT);", "", ""),
        (
            "CREATE TABLE t (a INT CONSTRAINT x PRIMARY KEY); ALTER TABLE t DROP CONSTRAINT x,"
            " ADD CONSTRAINT y PRIMARY KEY (a);",
            "y",
            "y",
        ),
        ("CREATE SCHEMA s; CREATE TABLE s.t (a INT CONSTRAINT t_pkey PRIMARY KEY);", "", "t_pkey"),
        ("CREATE SCHEMA s; CREATE TABLE s.t (a INT CONSTRAINT pk PRIMARY KEY);", "pk", "pk"),
    ],
)
def test_the_name_of_a_key_is_read_and_written(ddl: str, own: str, name: str) -> None:
    schema = load_ddl(ddl)
    (relation,) = schema.relations
    assert relation.key_name == own
    assert key_name(relation, schema.spaces) == name
    assert load_ddl(render_ddl(schema)) == replace(schema, notes=())


@pytest.mark.parametrize(
    "other",
    [
        "CREATE TABLE pk (a INT PRIMARY KEY);",
        "CREATE TABLE u (a INT CONSTRAINT pk PRIMARY KEY);",
        "CREATE TABLE u (a INT PRIMARY KEY, b INT CONSTRAINT pk UNIQUE);",
        "CREATE VIEW pk AS SELECT 1;",
    ],
)
def test_a_name_that_something_else_has_is_refused(other: str) -> None:
    with pytest.raises(SchemaError, match="has the name pk"):
        load_ddl("CREATE TABLE t (a INT CONSTRAINT pk PRIMARY KEY);" + other)
    load_ddl("CREATE SCHEMA s; CREATE TABLE s.t (a INT CONSTRAINT pk PRIMARY KEY);" + other)


@pytest.mark.parametrize(
    ("before", "name"),
    [
        ("CREATE TABLE b (k INT CONSTRAINT a_pkey PRIMARY KEY);", "a_pkey1"),
        ("CREATE TABLE a_pkey (k INT PRIMARY KEY);", "a_pkey1"),
        (
            "CREATE TABLE b (k INT CONSTRAINT a_pkey PRIMARY KEY);"
            "CREATE TABLE c (k INT CONSTRAINT a_pkey1 PRIMARY KEY);",
            "a_pkey2",
        ),
        ("CREATE SCHEMA s; CREATE TABLE s.b (k INT CONSTRAINT a_pkey PRIMARY KEY);", "a_pkey"),
    ],
)
def test_a_key_without_a_name_gets_the_first_free_one(before: str, name: str) -> None:
    schema = load_ddl(f"{before} CREATE TABLE a (k INT PRIMARY KEY);")
    relation = schema.relation("a")
    assert key_name(relation, schema.spaces) == name
    assert relation.key_name == ("" if name == "a_pkey" else name)
    assert load_ddl(render_ddl(schema)) == replace(schema, notes=())


def test_names_of_sqlite_need_not_differ() -> None:
    table = "CREATE TABLE {} (a INTEGER, b TEXT COLLATE NOCASE, CONSTRAINT pk PRIMARY KEY (a, b));"
    text = f"PRAGMA foreign_keys=OFF; {table.format('t')} {table.format('u')}"
    assert [relation.key_name for relation in load_ddl(text).relations] == ["pk", ""]


def test_another_name_is_a_change_without_rows() -> None:
    old = load_ddl("CREATE TABLE t (a INT PRIMARY KEY);")
    new = load_ddl("CREATE TABLE t (a INT CONSTRAINT pk PRIMARY KEY);")
    (row,) = diff(old, new).rows()
    assert (row.action, row.kind, row.name, row.detail) == (
        "rename",
        "primary key",
        "t.t_pkey",
        "pk",
    )
    assert not diff(new, new)


def test_a_catalog_with_a_named_key_has_another_format() -> None:
    schema = load_ddl("CREATE TABLE t (a INT CONSTRAINT pk PRIMARY KEY);")
    catalog = Catalog(1, schema, Forest(("t",)))
    assert encode_catalog(catalog) == NAMED.read_bytes()
    assert decode_catalog(NAMED.read_bytes()) == catalog
