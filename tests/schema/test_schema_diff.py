"""Differences between schemas, and which of them are refused."""

from dataclasses import replace

import pytest
from hypothesis import given

from hornbeam_server.schema.copies import Using
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.diff import DiffRow, SchemaDiff, diff
from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.schema.model import DeclaredView, Refresh, Schema
from tests.strategies import schemas

BASE = """
CREATE TABLE p (id INTEGER PRIMARY KEY, name VARCHAR(10) NOT NULL);
CREATE TABLE c (id INTEGER PRIMARY KEY, p INTEGER CONSTRAINT up REFERENCES p, n INTEGER DEFAULT 1);
CREATE INDEX by_n ON c (n);
"""


def changed(old: str, new: str, base: str = BASE) -> SchemaDiff:
    assert old in base
    return diff(load_ddl(base), load_ddl(base.replace(old, new)))


def rows(found: SchemaDiff) -> list[tuple[str, str, str]]:
    return [(row.action, row.kind, row.name) for row in found.rows()]


@given(schemas(with_defaults=True))
def test_a_schema_does_not_differ_from_itself(schema: Schema) -> None:
    found = diff(schema, schema)
    assert found == SchemaDiff()
    assert not found


@given(schemas(), schemas())
def test_the_empty_schema_is_extended_and_dropped_to(old: Schema, new: Schema) -> None:
    assert diff(Schema(()), new).added_relations == new.relations
    assert diff(Schema(()), new).added_indexes == new.indexes
    assert diff(Schema(()), new).added_enumerations == new.enumerations
    assert diff(old, Schema(())) == SchemaDiff(
        dropped_relations=old.relations, dropped_enumerations=old.enumerations
    )


ALLOWED = [
    ("CREATE INDEX", "CREATE TABLE x (i INT PRIMARY KEY);CREATE INDEX", ("add", "relation", "x")),
    ("CREATE INDEX by_n ON c (n);", "", ("drop", "index", "by_n")),
    ("ON c (n);", "ON c (n); CREATE INDEX i ON p (name);", ("add", "index", "i")),
    (" CONSTRAINT up REFERENCES p", "", ("drop", "foreign key", "c.up")),
    ("DEFAULT 1)", "DEFAULT 1, x TEXT)", ("add", "column", "c.x")),
    ("DEFAULT 1)", "DEFAULT 1, x INT NOT NULL DEFAULT 2)", ("add", "column", "c.x")),
    ("DEFAULT 1)", "DEFAULT 1, x DATE DEFAULT now())", ("add", "column", "c.x")),
    ("VARCHAR(10) NOT NULL", "VARCHAR(10)", ("relax", "column", "p.name")),
    ("VARCHAR(10)", "VARCHAR(11)", ("relax", "column", "p.name")),
    ("VARCHAR(10)", "TEXT", ("relax", "column", "p.name")),
    ("n INTEGER", "n BIGINT", ("relax", "column", "c.n")),
    ("n INTEGER", "n SMALLINT", ("restrict", "column", "c.n")),
    ("VARCHAR(10)", "VARCHAR(9)", ("restrict", "column", "p.name")),
    ("DEFAULT 1", "NOT NULL DEFAULT 1", ("restrict", "column", "c.n")),
    (", name VARCHAR(10) NOT NULL", "", ("drop", "column", "p.name")),
    ("DEFAULT 1", "DEFAULT 2", ("change", "default", "c.n")),
    (" DEFAULT 1", "", ("change", "default", "c.n")),
]


@pytest.mark.parametrize(("old", "new", "row"), ALLOWED)
def test_allowed_changes_are_listed(old: str, new: str, row: tuple[str, str, str]) -> None:
    found = changed(old, new)
    assert rows(found) == [row]
    assert not found.refused


def test_a_changed_foreign_key_or_index_is_dropped_and_added() -> None:
    assert rows(changed("REFERENCES p", "REFERENCES p ON DELETE CASCADE")) == [
        ("drop", "foreign key", "c.up"),
        ("add", "foreign key", "c.up"),
    ]
    assert rows(changed("ON c (n)", "ON c (n DESC) INCLUDE (p)")) == [
        ("drop", "index", "by_n"),
        ("add", "index", "by_n"),
    ]


def test_indexes_of_a_dropped_relation_are_not_listed() -> None:
    old = load_ddl(BASE)
    assert rows(diff(old, Schema(old.relations[:1]))) == [("drop", "relation", "c")]


REFUSED = [
    (
        "id INTEGER PRIMARY KEY, name VARCHAR(10) NOT NULL",
        "name VARCHAR(10) NOT NULL, id INTEGER PRIMARY KEY",
        "order of columns",
        "p",
        "begin with id, name",
    ),
    ("id INTEGER PRIMARY KEY, p", "x INT, id INTEGER PRIMARY KEY, p", "order of columns", "c", ""),
    ("DEFAULT 1)", "DEFAULT 1, x INT NOT NULL)", "new column", "c.x", "give it a default"),
]


@pytest.mark.parametrize(("old", "new", "change", "name", "cure"), REFUSED)
def test_refused_changes_have_a_reason_and_a_cure(
    old: str, new: str, change: str, name: str, cure: str
) -> None:
    base = BASE.replace("CREATE INDEX by_n ON c (n);", "")
    found = changed(old, new, base)
    refusals = [row for row in found.rows() if row.action == "refuse"]
    assert (change, name) in [(row.kind, row.name) for row in refusals]
    assert any(cure in row.detail for row in refusals)
    assert all(refusal.reason and refusal.cure for refusal in found.refused)


CONVERTED = [
    ("n INTEGER DEFAULT 1", "n TEXT DEFAULT '1'", "c.n", "TEXT, using n"),
    ("n INTEGER DEFAULT 1", "n DECIMAL(20,0) DEFAULT 1", "c.n", "DECIMAL(20,0), using n"),
    ("VARCHAR(10)", "JSON", "p.name", "JSON NOT NULL, using name"),
    ("DEFAULT 1)", "DEFAULT 1, x INT AS (n + 1) STORED)", "c.x", "INTEGER, computed again"),
    ("DEFAULT 1)", "AS (id + 1) STORED)", "c.n", "INTEGER, computed again"),
]


@pytest.mark.parametrize(("old", "new", "name", "detail"), CONVERTED)
def test_values_that_change_are_written_again(old: str, new: str, name: str, detail: str) -> None:
    found = changed(old, new)
    assert DiffRow("rewrite", "column", name, detail) in list(found.rows())
    assert [copy.relation for copy in found.copies] == [name.partition(".")[0]]
    assert not found.refused


def test_a_conversion_is_given_by_using() -> None:
    base = load_ddl(BASE)
    found = diff(base, base, [Using("c", "n", "n + 1")])
    assert list(found.rows()) == [DiffRow("rewrite", "column", "c.n", "INTEGER, using n + 1")]
    for wrong in (Using("c", "x", "1"), Using("x", "n", "1")):
        with pytest.raises(InvalidRequest, match=f"no column {wrong.relation}.{wrong.column}"):
            diff(base, base, [wrong])
    assert diff(base, base, [Using("c", "id", "n")]).refused


NO_KEY = "CREATE TABLE t (a INT, b INT)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, b))",
            "CREATE TABLE t (a INT, b INT, PRIMARY KEY (b, a))",
        ),
        (NO_KEY, "CREATE TABLE t (a INT PRIMARY KEY, b INT)"),
    ],
)
def test_another_primary_key_moves_all_rows(old: str, new: str) -> None:
    found = diff(load_ddl(old), load_ddl(new))
    assert ("change", "primary key", "t") in [(r.action, r.kind, r.name) for r in found.rows()]
    assert [copy.relation for copy in found.copies] == ["t"]
    assert not found.refused
    assert not any("rowid" in f"{row.name} {row.detail}" for row in found.rows())


@pytest.mark.parametrize(
    ("old", "new", "cure"),
    [
        (NO_KEY, "CREATE TABLE t (a INT, b INT, c UUID PRIMARY KEY)", "add the columns first"),
    ],
)
def test_a_key_that_stored_rows_cannot_have_is_refused(old: str, new: str, cure: str) -> None:
    refused = [row for row in diff(load_ddl(old), load_ddl(new)).rows() if row.action == "refuse"]
    (detail,) = [row.detail for row in refused if row.kind == "primary key"]
    assert cure in detail


def test_a_relation_without_a_primary_key_is_changed_like_others() -> None:
    assert not diff(load_ddl(NO_KEY), load_ddl(NO_KEY))
    found = diff(
        load_ddl(NO_KEY), load_ddl("CREATE TABLE t (a INT, b INT, c INT); CREATE INDEX i ON t (b)")
    )
    assert [(r.action, r.kind, r.name) for r in found.rows()] == [
        ("add", "column", "t.c"),
        ("add", "index", "i"),
    ]


def test_an_appended_column_cannot_have_the_name_of_the_row_identity() -> None:
    found = diff(load_ddl(NO_KEY), load_ddl("CREATE TABLE t (a INT, b INT, rowid INT)"))
    (refusal,) = found.refused
    assert (refusal.name, refusal.change) == ("rowid", "column")


def test_a_changed_check_is_dropped_and_added() -> None:
    old = load_ddl("CREATE TABLE t (a INT PRIMARY KEY, CHECK (a > 1), CONSTRAINT k CHECK (a > 5))")
    new = load_ddl("CREATE TABLE t (a INT PRIMARY KEY, CHECK (a > 2), CONSTRAINT k CHECK (a > 5))")
    assert list(diff(old, new).rows()) == [
        DiffRow("drop", "check", "t.t_a_check", "a > 1"),
        DiffRow("add", "check", "t.t_a_check", "a > 2"),
    ]


def test_rows_describe_an_added_index() -> None:
    found = changed("ON c (n)", "ON c (n DESC, p) INCLUDE (id)")
    assert list(found.rows())[1] == DiffRow("add", "index", "by_n", "on c (n desc, p) include (id)")


def test_a_changed_view_is_dropped_and_added() -> None:
    kept, old = DeclaredView("kept", "SELECT 1"), DeclaredView("v", "SELECT 1")
    new = replace(old, interval_s=60.0)
    changes = diff(Schema((), (), (kept, old)), Schema((), (), (kept, new)))
    assert changes == SchemaDiff(added_views=(new,), dropped_views=(old,))
    assert list(changes.rows()) == [
        DiffRow("drop", "view", "v", "deferred, every 5 s, group default"),
        DiffRow("add", "view", "v", "deferred, every 60 s, group default"),
    ]
    whole = replace(old, refresh=Refresh.RECOMPUTE)
    changes = diff(Schema((), (), (old,)), Schema((), (), (whole,)))
    assert list(changes.rows())[1].detail == "recomputed, every 5 s, group default"


def test_the_owner_of_a_sequence_is_shown_with_its_schema() -> None:
    table = "CREATE SCHEMA shop; CREATE TABLE shop.item (id INTEGER PRIMARY KEY, n INTEGER);"
    owned = table + "CREATE SEQUENCE shop.s OWNED BY shop.item.n;"
    (row,) = diff(load_ddl(table), load_ddl(owned)).rows()
    assert (row.name, row.detail) == ("shop.s", "OWNED BY shop.item.n")
