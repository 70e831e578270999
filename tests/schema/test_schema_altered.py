"""Relations that are declared again: their columns at the places of the stored rows."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.altered import placed
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.model import Relation, Schema
from hornbeam_server.schema.types import (
    ColumnType,
    Declared,
    Kind,
    Value,
    encoded_alike,
    takes_all,
)
from hornbeam_server.storage.codec.keys import part_encoder
from tests import strategies


def relation(ddl: str, base: Relation | None = None) -> Relation:
    schema = load_ddl(ddl)
    before = Schema(()) if base is None else Schema((base,))
    return placed(schema, before).relation("t")


def shown(found: Relation) -> list[str]:
    return ["-" if column.dropped else column.name for column in found.columns]


def test_a_dropped_column_keeps_its_place_and_its_name_is_free() -> None:
    first = relation("CREATE TABLE t (k INT PRIMARY KEY, a INT, b INT)")
    second = relation("CREATE TABLE t (k INT PRIMARY KEY, b INT, c INT)", first)
    assert shown(second) == ["k", "-", "b", "c"]
    assert second.visible_names == ("k", "b", "c")
    third = relation("CREATE TABLE t (k INT PRIMARY KEY, b INT, a TEXT)", second)
    assert shown(third) == ["k", "-", "b", "-", "a"]
    assert len(set(third.column_names)) == 5
    assert third.columns[1].nullable
    assert placed(load_ddl("CREATE TABLE t (k INT PRIMARY KEY, b INT, a TEXT)"), Schema((third,)))


def test_a_dropped_column_yields_its_name_to_a_declared_one() -> None:
    first = relation("CREATE TABLE t (k INT PRIMARY KEY, a INT)")
    second = relation('CREATE TABLE t (k INT PRIMARY KEY, "..dropped.1.." INT)', first)
    assert shown(second) == ["k", "-", "..dropped.1.."]
    assert len(set(second.column_names)) == 3


def test_a_relation_without_a_key_keeps_its_row_identity() -> None:
    first = relation("CREATE TABLE t (a INT, b INT)")
    second = relation("CREATE TABLE t (b INT)", first)
    assert shown(second) == ["rowid", "-", "b"]
    assert second.declared_key == ()
    assert second.primary_key == ("rowid",)
    keyed = relation("CREATE TABLE t (k INT PRIMARY KEY, a INT)")
    assert relation("CREATE TABLE t (k INT PRIMARY KEY)", keyed).declared_key == ("k",)


def test_older_rows_keep_the_default_that_the_column_had() -> None:
    first = relation("CREATE TABLE t (k INT PRIMARY KEY, a INT DEFAULT 1)")
    for default, value in (("DEFAULT 2", 2), ("", None), ("DEFAULT (1 + 1)", None)):
        ddl = f"CREATE TABLE t (k INT PRIMARY KEY, a INT {default})"
        second = relation(ddl, first)
        assert second.column("a").value_in_older_rows == 1
        assert second.column("a").default == load_ddl(ddl).relation("t").column("a").default
        again = relation("CREATE TABLE t (k INT PRIMARY KEY, a INT DEFAULT 3)", second)
        assert again.column("a").value_in_older_rows == 1
        fresh = relation(ddl)
        assert fresh.column("a").value_in_older_rows == value
        assert fresh.column("a").missing is None


@given(strategies.column_types(), strategies.column_types(), st.data())
def test_each_value_has_the_same_bytes_in_a_type_that_takes_all(
    one: ColumnType, other: ColumnType, data: st.DataObject
) -> None:
    assert takes_all(one, one)
    if not takes_all(other, one):
        return
    assert encoded_alike(one, other)
    value: Value = one.coerce(data.draw(strategies.values(one)))
    assert other.coerce(value) == value
    assert msgspec.msgpack.encode(other.coerce(value)) == msgspec.msgpack.encode(value)
    assert part_encoder(one.kind)(value) == part_encoder(other.kind)(value)


TEXT, JSON = ColumnType(Kind.TEXT), ColumnType(Kind.JSON)
CHAR = ColumnType(Kind.TEXT, length=4, declared=Declared.CHAR)
SMALL, LARGE = ColumnType(Kind.INTEGER, declared=Declared.SMALLINT), ColumnType(Kind.BIGINT)


@pytest.mark.parametrize(
    ("wider", "narrower"),
    [
        (LARGE, ColumnType(Kind.INTEGER)),
        (ColumnType(Kind.INTEGER), SMALL),
        (ColumnType(Kind.DECIMAL, 12, 2), ColumnType(Kind.DECIMAL, 9, 2)),
        (TEXT, ColumnType(Kind.TEXT, length=3)),
        (ColumnType(Kind.TEXT, length=4), ColumnType(Kind.TEXT, length=3)),
        (TEXT, JSON),
        (TEXT, CHAR),
        (replace(CHAR, length=5), CHAR),
    ],
)
def test_a_wider_type_takes_all_values(wider: ColumnType, narrower: ColumnType) -> None:
    assert takes_all(wider, narrower)
    assert not takes_all(narrower, wider)
    assert encoded_alike(narrower, wider)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LARGE, TEXT),
        (LARGE, ColumnType(Kind.DECIMAL, 20, 0)),
        (ColumnType(Kind.DECIMAL, 9, 2), ColumnType(Kind.DECIMAL, 9, 3)),
        (ColumnType(Kind.TIMESTAMP), ColumnType(Kind.TIMESTAMPTZ)),
    ],
)
def test_other_types_are_encoded_otherwise(one: ColumnType, other: ColumnType) -> None:
    assert not encoded_alike(one, other)
    assert not takes_all(one, other)
