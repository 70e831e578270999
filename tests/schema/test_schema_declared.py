"""Each SQL type that DDL may name has PostgreSQL's meaning, or a note states its replacement, or
it is refused by name with a cure."""

import re
from decimal import Decimal

import pytest

from hornbeam_server.schema.ddl import load_ddl, render_ddl
from hornbeam_server.schema.errors import SchemaError, TypeMismatch
from hornbeam_server.schema.model import Column, DefaultKind
from hornbeam_server.schema.types import ColumnType, Kind


def declared(text: str) -> tuple[Column, str]:
    """Return the column and the notes of the schema about it."""
    schema = load_ddl(f"CREATE TABLE t (k INT PRIMARY KEY, c {text});")
    again = load_ddl(render_ddl(schema))
    assert again.relations == schema.relations
    return schema.relation("t").column("c"), " ".join(schema.notes)


@pytest.mark.parametrize("name", ["NUMERIC", "numeric", "DECIMAL", "DEC"])
def test_numeric_without_precision_refuses_values_that_lose_digits(name: str) -> None:
    column, note = declared(name)
    assert "t.c: NUMERIC without precision is kept as DECIMAL(38,9)" in note
    for value in ("0.00012345", Decimal("1.0000001"), "12345678901234567890123456789", 0.1, 7):
        assert column.type.coerce(value) == Decimal(str(value))
        assert column.type.coerce_all([value, value]) == [Decimal(str(value))] * 2
    for lost in ("0.0000000001", Decimal("1.00000000005"), 1e-10, "1e29", 10**29):
        with pytest.raises(TypeMismatch, match="NUMERIC"):
            column.type.coerce(lost)
        with pytest.raises(TypeMismatch, match="NUMERIC"):
            column.type.coerce_all([lost])
    assert column.type.comparand("0.0000000001") == Decimal("0.0000000001")


def test_numeric_with_precision_rounds() -> None:
    column, note = declared("NUMERIC(18,3)")
    assert not note
    assert column.type == ColumnType(Kind.DECIMAL, 18, 3)
    assert column.type.coerce("1.0005") == Decimal("1.001")


@pytest.mark.parametrize("name", ["SMALLINT", "INT2", "SMALLSERIAL", "SERIAL2"])
def test_smallint_has_sixteen_bits(name: str) -> None:
    column, note = declared(name)
    assert not note
    assert (column.default is not None) == name.endswith(("SERIAL", "SERIAL2"))
    for value in (-32768, 32767, "32767"):
        assert column.type.coerce(value) == int(value)
        assert column.type.coerce_all([value]) == [int(value)]
    for wide in (300000, -32769, "32768", Decimal(40000)):
        with pytest.raises(TypeMismatch, match="SMALLINT: out of range"):
            column.type.coerce(wide)
        with pytest.raises(TypeMismatch, match="SMALLINT: out of range"):
            column.type.coerce_all([wide])
    assert column.type.comparand(300000) == 300000


@pytest.mark.parametrize(
    ("name", "type_", "note"),
    [
        ("REAL", "REAL", ""),
        ("FLOAT4", "REAL", ""),
        ("FLOAT(24)", "REAL", ""),
        ("FLOAT(25)", "DOUBLE", ""),
        ("FLOAT", "DOUBLE", ""),
        ("FLOAT8", "DOUBLE", ""),
        ("DOUBLE PRECISION", "DOUBLE", ""),
        ("CHAR(3)", "VARCHAR(3)", "blanks at its end"),
        ("CHARACTER(3)", "VARCHAR(3)", "blanks at its end"),
        ("CHAR", "VARCHAR(1)", "blanks at its end"),
        ("BPCHAR(3)", "VARCHAR(3)", "blanks at its end"),
        ("VARCHAR(3)", "VARCHAR(3)", ""),
        ("CHARACTER VARYING(3)", "VARCHAR(3)", ""),
        ("VARCHAR", "TEXT", ""),
        ("INT4", "INTEGER", ""),
        ("INT8", "BIGINT", ""),
        ("BOOL", "BOOLEAN", ""),
        ("BYTEA", "BLOB", ""),
        ("TIMESTAMP(6)", "TIMESTAMP", ""),
        ("TIMESTAMP WITHOUT TIME ZONE", "TIMESTAMP", ""),
        ("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE", ""),
        ("TIMESTAMP(6) WITH TIME ZONE", "TIMESTAMP WITH TIME ZONE", ""),
        ("JSON", "JSON", ""),
        ("UUID", "UUID", ""),
    ],
)
def test_other_names_of_types_are_resolved(name: str, type_: str, note: str) -> None:
    column, said = declared(name)
    assert column.type.sql() == type_
    assert bool(said) == bool(note)
    assert note in said


@pytest.mark.parametrize("name", ["SERIAL", "SERIAL4", "BIGSERIAL", "SERIAL8"])
def test_serials_are_identities(name: str) -> None:
    column, _ = declared(name)
    assert column.default is not None
    assert column.default.kind is DefaultKind.IDENTITY
    assert not column.nullable
    assert column.type.kind is (Kind.BIGINT if name in ("BIGSERIAL", "SERIAL8") else Kind.INTEGER)


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("TINYINT", "SMALLINT"),
        ("UTINYINT", "SMALLINT"),
        ("USMALLINT", "INTEGER"),
        ("UINTEGER", "BIGINT"),
        ("UBIGINT", "DECIMAL(20,0)"),
        ("MEDIUMINT", "INTEGER"),
        ("MONEY", "DECIMAL(19,2)"),
        ("NAME", "VARCHAR(63)"),
        ("OID", "BIGINT"),
        ("CITEXT", "lower(column)"),
        ("INTERVAL YEAR TO MONTH", "INTERVAL"),
        ("JSON[]", "Use JSONB"),
        ("mood", "Use INTEGER"),
        ("SMALLINT(3)", "SMALLINT"),
        ("TIMESTAMP(7)", "0 ≤ n ≤ 6"),
        ("TIME(7)", "0 ≤ n ≤ 6"),
        ("DATE(3)", "DATE"),
        ("FLOAT(54)", "DOUBLE"),
        ("NUMERIC(9,12)", "DECIMAL"),
        ("BYTEA(3)", "BLOB"),
    ],
)
def test_unsupported_types_are_refused_by_name(name: str, cure: str) -> None:
    with pytest.raises(SchemaError) as refused:
        declared(name)
    assert re.match(r"\w+", name)[0].lower() in refused.value.message.lower().replace(  # type: ignore[index]
        "blob", "bytea"
    ).replace("varbinary", "bytea").replace("double", "float").replace("decimal", "numeric")
    assert cure in refused.value.cure
