"""Coercion returns exactly the column's value or raises TypeMismatch, and no other exception."""

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.types import PYTHON_TYPES, ColumnType, Kind
from tests.strategies import column_types

INTEGER, BIGINT = ColumnType(Kind.INTEGER), ColumnType(Kind.BIGINT)
DOUBLE = ColumnType(Kind.DOUBLE)
WIDE = ColumnType(Kind.DECIMAL, 38, 2)

ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.text(max_size=12)
    | st.binary(max_size=4)
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(dt.UTC))
    | st.uuids()
    | st.sampled_from([10**400, Decimal("1E+999999999"), Decimal("sNaN"), "1e999", "\ud800"])
)


@given(column_types(), ANYTHING)
def test_coercion_is_total_and_idempotent(type_: ColumnType, value: Any) -> None:
    try:
        coerced = type_.coerce(value)
    except TypeMismatch:
        return
    assert coerced is None or type(coerced) is PYTHON_TYPES[type_.kind]
    assert repr(type_.coerce(coerced)) == repr(coerced)


@pytest.mark.parametrize(
    ("type_", "value", "wanted"),
    [
        (INTEGER, "-7", "-7"),
        (INTEGER, Decimal("3.00"), "3"),
        (WIDE, 0.1, "Decimal('0.10')"),
        (WIDE, "-0", "Decimal('0.00')"),
        # 32 digits: more than the thread's decimal context holds.
        (WIDE, "1" * 30 + ".125", f"Decimal('{'1' * 30}.13')"),
        (WIDE, Decimal("-0.125"), "Decimal('-0.13')"),
        (WIDE, "0.1249", "Decimal('0.12')"),
        (WIDE, 0.005, "Decimal('0.01')"),
        (WIDE, 1e30, "Decimal('1000000000000000000000000000000.00')"),
        (ColumnType(Kind.DECIMAL, 2, 2), "0.994", "Decimal('0.99')"),
        (DOUBLE, -0.0, "0.0"),
        (DOUBLE, "-inf", "-inf"),
        (ColumnType(Kind.BYTES), "AP8=", repr(b"\0\xff")),
        (ColumnType(Kind.DATE), dt.datetime(2024, 2, 29), "datetime.date(2024, 2, 29)"),
        (ColumnType(Kind.DATE), "2024-02-29 0:0:0", "datetime.date(2024, 2, 29)"),
        (ColumnType(Kind.TIME), "7:9", "datetime.time(7, 9)"),
        (ColumnType(Kind.TIME), "7:9:5.5", "datetime.time(7, 9, 5, 500000)"),
        (ColumnType(Kind.TIMESTAMP), "2024-1-2 7:9:5", "datetime.datetime(2024, 1, 2, 7, 9, 5)"),
        (ColumnType(Kind.UUID), "0" * 31 + "1", repr(uuid.UUID(int=1))),
        (
            ColumnType(Kind.TIMESTAMPTZ),
            "2024-01-01T01:00:00+01:00",
            "datetime.datetime(2024, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)",
        ),
    ],
)
def test_values_are_coerced_exactly(type_: ColumnType, value: Any, wanted: str) -> None:
    assert repr(type_.coerce(value)) == wanted


@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        (INTEGER, 1 << 31, "out of range"),
        (INTEGER, Decimal("1E+999999999"), "out of range"),
        (INTEGER, 1.5, "fraction"),
        (INTEGER, True, "a number is wanted"),
        (INTEGER, "1_000", "written in digits"),
        (BIGINT, -(1 << 63) - 1, "out of range"),
        (WIDE, "1E+36", "out of range"),
        (WIDE, "1E+999999", "not a number in range"),
        (WIDE, "abc", "written in digits"),
        (WIDE, "Infinity", "not finite"),
        (WIDE, Decimal("Infinity"), "not finite"),
        (ColumnType(Kind.DECIMAL, 2, 2), "0.995", "out of range"),
        (DOUBLE, "1e400", "out of range"),
        (DOUBLE, Decimal("1e400"), "out of range"),
        (DOUBLE, float("nan"), "NaN"),
        (ColumnType(Kind.TEXT, length=2), "abc", "longer than 2"),
        (ColumnType(Kind.TEXT), "\ud800", "surrogates"),
        (ColumnType(Kind.JSON), "{", "truncated"),
        (ColumnType(Kind.JSON), "[" * 100_000 + "]" * 100_000, "nested too deeply"),
        (ColumnType(Kind.TIMESTAMP), "2024-01-01T00:00:00Z", "time zone"),
        (ColumnType(Kind.DATE), " Infinity ", "no date or timestamp is infinite"),
        (ColumnType(Kind.TIMESTAMP), "-infinity", "no date or timestamp is infinite"),
        (ColumnType(Kind.TIMESTAMPTZ), "+INFINITY", "no date or timestamp is infinite"),
        (ColumnType(Kind.TIMESTAMPTZ), dt.datetime(2024, 1, 1), "no time zone"),
        (ColumnType(Kind.TIMESTAMPTZ), "0001-01-01T00:00:00+10:00", "out of range"),
    ],
)
def test_wrong_values_are_refused_with_a_reason(type_: ColumnType, value: Any, reason: str) -> None:
    with pytest.raises(TypeMismatch, match=reason):
        type_.coerce(value)
