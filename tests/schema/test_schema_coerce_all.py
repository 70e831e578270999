"""Coercion of a whole column equals coercion of its values one by one, to the last bit."""

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.types import ColumnType, Kind

TYPES = [
    ColumnType(Kind.INTEGER),
    ColumnType(Kind.BIGINT),
    ColumnType(Kind.DECIMAL, 6, 2),
    ColumnType(Kind.DECIMAL, 3, 3),
    ColumnType(Kind.DOUBLE),
    ColumnType(Kind.BOOLEAN),
    ColumnType(Kind.TEXT),
    ColumnType(Kind.TEXT, length=4),
    ColumnType(Kind.BYTES),
    ColumnType(Kind.DATE),
    ColumnType(Kind.TIMESTAMP),
    ColumnType(Kind.TIMESTAMPTZ),
    ColumnType(Kind.UUID),
    ColumnType(Kind.JSON),
]
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**70), 2**70),
    st.integers(-5, 5),
    st.floats(),
    st.decimals(),
    st.decimals(-100, 100, places=2),
    st.booleans(),
    st.text(max_size=6),
    st.sampled_from(["\ud800", "é", "12", "2026-01-01", "true"]),
    st.binary(max_size=4),
    st.dates(),
    st.datetimes(allow_imaginary=False),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.uuids(),
    st.sampled_from([-0.0, Decimal("-0.00"), Decimal("1.5"), Decimal("1E+2"), Decimal("1000.00")]),
)
NUMBERS_AS_TEXT = st.one_of(
    st.integers(-(2**33), 2**33).map(str),
    st.decimals(-2000, 2000, places=2).map(str),
    st.floats().map(str),
    st.sampled_from(["1_0", " 7 ", "-0", "-0.001", "+3", "1e2", "1E-9", "٣", "", "1" * 5_000]),
)
OF_ONE_KIND = st.one_of(
    st.lists(st.none() | st.integers(-(2**31), 2**31 - 1).map(str), max_size=6),
    st.lists(st.none() | st.decimals(-10, 10, places=2).map(str), max_size=6),
    st.lists(NUMBERS_AS_TEXT, max_size=6),
    st.lists(st.integers(-(2**33), 2**33), max_size=6),
    st.lists(st.decimals(-2000, 2000, places=2), max_size=6),
    st.lists(st.floats(), max_size=6),
    st.lists(st.text(max_size=6), max_size=6),
    st.lists(st.datetimes(), max_size=6),
    st.lists(VALUES, max_size=6),
)


def outcome(type_: ColumnType, values: list[Any], *, at_once: bool) -> Any:
    """Return type, `repr` and fold of the coerced values, or the text of the error."""
    try:
        coerced = type_.coerce_all(values) if at_once else [type_.coerce(value) for value in values]
    except TypeMismatch as error:
        return str(error)
    return [(type(value), repr(value), getattr(value, "fold", 0)) for value in coerced]


@pytest.mark.parametrize("type_", TYPES, ids=ColumnType.sql)
@given(values=OF_ONE_KIND)
def test_a_column_is_coerced_like_its_values(type_: ColumnType, values: list[Any]) -> None:
    assert outcome(type_, values, at_once=True) == outcome(type_, values, at_once=False)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (ColumnType(Kind.INTEGER), [1, None, 2**31 - 1]),
        (ColumnType(Kind.DECIMAL, 4, 2), [Decimal("12.30"), Decimal("-0.01"), Decimal("0.00")]),
        (ColumnType(Kind.DOUBLE), [1.5, -2.0]),
        (ColumnType(Kind.TEXT, length=3), ["abc", ""]),
        (ColumnType(Kind.TIMESTAMP), [dt.datetime(2026, 1, 1)]),
        (ColumnType(Kind.UUID), [uuid.UUID(int=1)]),
    ],
)
def test_values_of_the_type_are_returned_unchanged(type_: ColumnType, values: list[Any]) -> None:
    assert type_.coerce_all(values) is values


def test_a_negative_zero_becomes_zero() -> None:
    (zero,) = ColumnType(Kind.DOUBLE).coerce_all([-0.0])
    assert isinstance(zero, float)
    assert math.copysign(1, zero) == 1
