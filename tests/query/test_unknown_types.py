"""A type that Hornbeam does not have is refused by its name, with what to write instead."""

from __future__ import annotations

import pytest

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import SchemaError, Unsupported
from hornbeam_server.schema.model import Schema


@pytest.mark.parametrize(
    ("expression", "name", "cure"),
    [
        ("'10.1.0.1'::inet", "INET", "VARCHAR(43)"),
        ("inet '10.1.0.1'", "INET", "VARCHAR(43)"),
        ("CAST('10.1.0.1' AS INET)", "INET", "VARCHAR(43)"),
        ("'{10.1.0.1}'::inet[]", "INET", "VARCHAR(43)"),
        ("ARRAY['10.1.0.1'::inet]", "INET", "VARCHAR(43)"),
        ("'x'::bytes", "BYTES", "BYTEA"),
        ("'101'::varbit", "VARBIT", "VARCHAR(n)"),
        ("'<a/>'::xml", "XML", "TEXT"),
        ("'12.50'::money", "MONEY", "DECIMAL(19,2)"),
        ("'11:00+01'::timetz", "TIMETZ", "TIMESTAMP WITH TIME ZONE"),
        ("'11:00+01'::time with time zone", "TIMETZ", "TIMESTAMP WITH TIME ZONE"),
        ("'a'::mood", "MOOD", "an array of them"),
    ],
)
def test_type_is_refused_by_its_name(expression: str, name: str, cure: str) -> None:
    with pytest.raises(Unsupported) as refused:
        bind(f"SELECT {expression}", Catalog(0, Schema(()), Forest(())))
    assert refused.value.message == f"Type {name} is not supported."
    assert cure in (refused.value.cure or "")


SIZES = ["7001, 7002", "40, 2", "2, 40", "0", "39", "1, 2, 3", "A"]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(
    "expression",
    [
        "CAST(5 AS {})",
        "CAST(NULL AS {})",
        "CAST('5' AS {})",
        "TRY_CAST(a AS {})",
        "{} '5'",
        "CAST(b AS {}[])",
        "CAST(ARRAY[a] AS {}[])",
        "(SELECT x FROM jsonb_to_record(j) AS r(x {}))",
    ],
)
def test_decimal_out_of_range_is_refused_in_every_cast(expression: str, sizes: str) -> None:
    with pytest.raises(Unsupported) as refused:
        parse(f"SELECT {expression.format(f'DECIMAL({sizes})')} FROM t")
    assert refused.value.message.startswith(f"Type DECIMAL({sizes}) is out of range")
    assert refused.value.cure == "DECIMAL(p,s) needs 1 ≤ p ≤ 38 and 0 ≤ s ≤ p."


@pytest.mark.parametrize("sizes", SIZES)
def test_decimal_out_of_range_is_refused_in_a_default(sizes: str) -> None:
    default = f"d DECIMAL(9,2) DEFAULT CAST(5 AS DECIMAL({sizes}))"
    with pytest.raises(SchemaError, match=r"is out of range|not whole numbers"):
        load_ddl(f"CREATE TABLE t (k INT PRIMARY KEY, {default});")


@pytest.mark.parametrize("sizes", sorted({*SIZES} - {"40, 2", "39"}))
def test_decimal_out_of_range_is_refused_as_a_column(sizes: str) -> None:
    """A column of more digits, as files of other databases have it, gets 38, with a note."""
    with pytest.raises(SchemaError, match=r"is out of range|not whole numbers"):
        load_ddl(f"CREATE TABLE t (k INT PRIMARY KEY, d DECIMAL({sizes}));")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("B'101'", "The bit string B'101' is not supported."),
        ("x'1F'", "The bit string x'1F' is not supported."),
        ("a >>= b", "Operator >>= is not supported: there is no type INET."),
        ("a <<= b", "Operator <<= is not supported: there is no type INET."),
    ],
)
def test_literal_or_operator_of_an_unknown_type_is_refused_by_name(
    expression: str, said: str
) -> None:
    with pytest.raises(Unsupported) as refused:
        parse(f"SELECT {expression} FROM t")
    assert refused.value.message == said


@pytest.mark.parametrize(
    "expression",
    ["'1'::oid", "'1'::uint8", "date'2020-01-01'", "1 >> 2", "1 << 2", "a b", "E'b'", "'b' 'c'"],
)
def test_known_types_and_operators_are_read(expression: str) -> None:
    assert parse(f"SELECT {expression} FROM t")


@pytest.mark.parametrize("function", ["nextval", "currval", "NEXTVAL", "pg_catalog.nextval"])
def test_a_sequence_is_named_with_regclass(function: str) -> None:
    assert parse(f"SELECT {function}('s'::regclass)", sequences=True)
    assert parse(f"SELECT {function}(('s'::text)::regclass)", sequences=True)
