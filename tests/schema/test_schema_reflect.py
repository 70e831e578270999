"""Reflection of SQLite files: the same schemas and the same refusals as for DDL files."""

import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest

from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import (
    HornbeamError,
    InvalidRequest,
    NotFound,
    SchemaError,
    Unavailable,
)
from hornbeam_server.schema.model import DeclaredIndex, Default, DefaultKind, KeyPart
from hornbeam_server.schema.reflect import reflect
from hornbeam_server.schema.types import ColumnType, Kind


def database(folder: Path, ddl: str) -> str:
    file = folder / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.executescript(ddl)
    connection.close()
    return f"sqlite:///{file}"


def test_the_reflected_tpcw_schema_equals_its_ddl(tmp_path: Path) -> None:
    ddl = (Path(__file__).parents[2] / "demo" / "tpcw" / "schema.sql").read_text()
    reflected, loaded = reflect(database(tmp_path, ddl)), load_ddl(ddl)
    assert sorted(reflected.names) == sorted(loaded.names)
    for relation in loaded.relations:
        found = reflected.relation(relation.name)
        assert (found.columns, found.primary_key) == (relation.columns, relation.primary_key)
        assert set(found.foreign_keys) == set(relation.foreign_keys)


KINDS = """
CREATE TABLE kinds (
  id INTEGER NOT NULL, other DECIMAL(5,2) NOT NULL DEFAULT 1.5,
  big BIGINT, d DOUBLE PRECISION, ok BOOLEAN DEFAULT TRUE, v VARCHAR(7) UNIQUE, t TEXT,
  bl BLOB DEFAULT X'ab', da DATE DEFAULT CURRENT_DATE, ts TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  tz TIMESTAMPTZ, u UUID, j JSON, ba BYTEA,
  PRIMARY KEY (other, id)
);
CREATE TABLE child (
  a INTEGER, b DECIMAL(5,2), id INTEGER NOT NULL PRIMARY KEY,
  CONSTRAINT up FOREIGN KEY (a, b) REFERENCES kinds (id, other) ON DELETE SET NULL,
  CONSTRAINT once UNIQUE (a, b)
);
CREATE UNIQUE INDEX by_v ON kinds (v DESC, big);
CREATE INDEX by_t ON kinds (t);
"""


def test_types_keys_and_indexes_are_reflected(tmp_path: Path) -> None:
    schema = reflect(database(tmp_path, KINDS))
    kinds = schema.relation("kinds")
    assert {column.name: column.type.sql() for column in kinds.columns} == {
        "id": "INTEGER",
        "other": "DECIMAL(5,2)",
        "big": "BIGINT",
        "d": "DOUBLE",
        "ok": "BOOLEAN",
        "v": "VARCHAR(7)",
        "t": "TEXT",
        "bl": "BLOB",
        "da": "DATE",
        "ts": "TIMESTAMP",
        "tz": "TIMESTAMP WITH TIME ZONE",
        "u": "UUID",
        "j": "JSON",
        "ba": "BLOB",
    }
    assert kinds.column("other").type == ColumnType(Kind.DECIMAL, 5, 2)
    assert kinds.column("other").default == Default(DefaultKind.LITERAL, Decimal("1.50"))
    assert kinds.column("bl").default == Default(DefaultKind.LITERAL, b"\xab")
    assert kinds.column("da").default == Default(DefaultKind.NOW)
    loaded = load_ddl(KINDS)
    assert schema.relation("child") == loaded.relation("child")
    assert set(schema.indexes) == set(loaded.indexes)


def test_a_table_without_a_primary_key_is_reflected(tmp_path: Path) -> None:
    ddl = "CREATE TABLE t (a INT, b INT UNIQUE)"
    assert reflect(database(tmp_path, ddl)) == load_ddl(ddl)


def test_actions_and_references_to_unique_columns_are_reflected(tmp_path: Path) -> None:
    ddl = (
        "CREATE TABLE t (i INT PRIMARY KEY, u INT UNIQUE, a INT DEFAULT 1"
        " REFERENCES t (u) ON DELETE SET DEFAULT ON UPDATE CASCADE)"
    )
    assert reflect(database(tmp_path, ddl)) == load_ddl(ddl)


def test_actions_of_inline_foreign_keys_are_kept(tmp_path: Path) -> None:
    ddl = "CREATE TABLE t (i INT PRIMARY KEY, up INT REFERENCES t (i) ON DELETE CASCADE)"
    assert reflect(database(tmp_path, ddl)) == load_ddl(ddl)


def test_checks_are_reflected(tmp_path: Path) -> None:
    ddl = "CREATE TABLE t (a INT PRIMARY KEY, b INT CHECK (b >  1), CONSTRAINT c CHECK (a > (b)))"
    reflected, loaded = reflect(database(tmp_path, ddl)), load_ddl(ddl)
    assert {*reflected.relation("t").checks} == {*loaded.relation("t").checks}


def test_generated_columns_are_reflected(tmp_path: Path) -> None:
    ddl = (
        "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL GENERATED ALWAYS AS (a + (1))"
        " STORED, c INT, "
        "d TEXT GENERATED ALWAYS AS (lower('(' || a)) STORED CHECK (d <> ')'))"
    )
    reflected, loaded = reflect(database(tmp_path, ddl)), load_ddl(ddl)
    assert reflected.relation("t") == loaded.relation("t")


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("CREATE TABLE t (a INT PRIMARY KEY, b MONEY)", "t.b: Type MONEY is not supported"),
        ("CREATE TABLE t (a INT PRIMARY KEY, b FOO)", "t.b: Type FOO is not supported"),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INET)", "t.b: Type INET"),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT DEFAULT 'x')", "t.b: The default does not fit"),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT AS (a + 1))", "Computed column t.b is not"),
        ("CREATE TABLE t (a INT PRIMARY KEY REFERENCES q (x))", "references q"),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT REFERENCES t (b))", "nor UNIQUE"),
        ("CREATE TABLE t (a INT PRIMARY KEY); CREATE INDEX i ON t (abs(a))", "completely"),
        ("", "no tables"),
    ],
)
def test_unsupported_schemas_are_refused_with_a_cure(
    tmp_path: Path, ddl: str, message: str
) -> None:
    url = database(tmp_path, ddl)
    with pytest.raises(SchemaError, match=message) as caught:
        reflect(url)
    assert caught.value.cure
    assert "shop.db" in str(caught.value)


def test_a_partial_index_is_reflected(tmp_path: Path) -> None:
    ddl = "CREATE TABLE t (a INT PRIMARY KEY); CREATE UNIQUE INDEX i ON t (a) WHERE a > 1"
    (index,) = reflect(database(tmp_path, ddl)).indexes
    assert index == DeclaredIndex("i", "t", (KeyPart("a"),), unique=True, where="a > 1")


def test_a_circle_of_foreign_keys_is_reflected(tmp_path: Path) -> None:
    ddl = (
        "CREATE TABLE a (i INT PRIMARY KEY, b INT REFERENCES b (i));"
        "CREATE TABLE b (i INT PRIMARY KEY, a INT REFERENCES a (i));"
    )
    schema = reflect(database(tmp_path, ddl))
    keys = [(r.name, fk.parent) for r in schema.relations for fk in r.foreign_keys]
    assert keys == [("a", "b"), ("b", "a")]


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("no url", InvalidRequest),
        ("nosuchthing://host/db", InvalidRequest),
        ("sqlite:////no/such/file.db", NotFound),
    ],
)
def test_bad_urls_are_refused_with_a_cure(url: str, error: type[HornbeamError]) -> None:
    with pytest.raises(error) as caught:
        reflect(url)
    assert caught.value.cure


def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(Unavailable, match="not a database"):
        reflect(f"sqlite:///{tmp_path / 'x.db'}")
