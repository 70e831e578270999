"""Assigned values are cast as PostgreSQL casts them; the expected values are its answers."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.assignment import assign, assign_all_of_file, assign_of_file, text_of
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.types import ColumnType, Kind

INTEGER, TEXT = ColumnType(Kind.INTEGER), ColumnType(Kind.TEXT)
THREE = ColumnType(Kind.TEXT, length=3)
NOON = dt.datetime(2026, 1, 31, 12, 0, 0, 250_000)
EAST = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        *[(Decimal("2.5"), 3), (Decimal("-2.5"), -3), (Decimal("2.49"), 2), (Decimal("7E1"), 70)],
        *[(2.5, 3), (-0.5, -1), (0.49, 0), (1e9, 1_000_000_000)],
    ],
)
def test_a_number_is_rounded_for_an_integer(value: Any, stored: int) -> None:
    found = assign(INTEGER, value)
    assert (found, type(found)) == (stored, int)


@pytest.mark.parametrize(
    "value",
    ["2.5", Decimal("2147483647.5"), 1e300, float("nan"), float("inf"), b"1", Decimal("NaN")],
)
def test_what_no_integer_is_near_is_refused(value: Any) -> None:
    with pytest.raises(TypeMismatch):
        assign(INTEGER, value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(5, "5"), (True, "true"), (False, "false"), (Decimal("1.50"), "1.50")],
        *[(Decimal("1E+3"), "1000"), (0.1, "0.1"), (5.0, "5"), (1e14, "100000000000000")],
        *[
            (1e15, "1e+15"),
            (1.5e-7, "1.5e-07"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (-2e300, "-2e+300"),
        ],
        *[(0.0, "0"), (123456789012345.6, "123456789012345.6"), (float("-inf"), "-Infinity")],
        *[(dt.date(2026, 1, 31), "2026-01-31"), (NOON, "2026-01-31 12:00:00.25")],
        *[(NOON.replace(tzinfo=EAST, microsecond=0), "2026-01-31 10:00:00+00")],
        *[(uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"), (b"\xde\xad", r"\xdead")],
    ],
)
def test_every_value_has_a_text(value: Any, text: str) -> None:
    assert assign(TEXT, value) == text_of(value) == text


def test_blanks_that_are_too_many_are_cut() -> None:
    assert assign(THREE, "abc  ") == "abc"
    assert assign(THREE, "a    ") == "a  "
    assert assign(THREE, 123) == "123"
    for value in ("abcd", "abc\t", " abc", 1234):
        with pytest.raises(TypeMismatch, match="longer than 3"):
            assign(THREE, value)


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (Kind.DATE, NOON, dt.date(2026, 1, 31)),
        (Kind.DATE, dt.datetime(2026, 1, 31, 1, tzinfo=EAST), dt.date(2026, 1, 30)),
        (Kind.TIMESTAMP, NOON.replace(tzinfo=EAST), NOON - dt.timedelta(hours=2)),
        (Kind.TIMESTAMPTZ, NOON, NOON.replace(tzinfo=dt.UTC)),
        (Kind.TIMESTAMPTZ, dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, tzinfo=dt.UTC)),
    ],
)
def test_dates_and_moments_become_each_other_in_utc(kind: Kind, value: Any, stored: Any) -> None:
    assert assign(ColumnType(kind), value) == stored


@pytest.mark.parametrize("kind", [Kind.BOOLEAN, Kind.UUID, Kind.BYTES, Kind.JSON, Kind.DOUBLE])
def test_other_types_take_only_their_own_values(kind: Kind) -> None:
    with pytest.raises(TypeMismatch):
        assign(ColumnType(kind), NOON)


@given(st.lists(st.none() | st.integers(-9, 9) | st.floats(-9, 9) | st.decimals(-9, 9, places=2)))
def test_a_column_is_assigned_as_its_values_are(values: list[Any]) -> None:
    for type_ in (INTEGER, TEXT, ColumnType(Kind.DOUBLE), ColumnType(Kind.DECIMAL, 6, 1)):
        found = list(assign_all_of_file(type_, values))
        assert found == [assign_of_file(type_, value) for value in values]


@pytest.mark.parametrize("text", ["20.0", "+20.", " 20.000 ", "20"])
def test_whole_numbers_of_files_may_have_zeros_behind_a_point(text: str) -> None:
    assert assign_of_file(INTEGER, text) == 20
    assert assign_all_of_file(INTEGER, [text, None, 7]) == [20, None, 7]
    if "." in text:
        with pytest.raises(TypeMismatch):
            assign(INTEGER, text)


@pytest.mark.parametrize("text", ["20.5", ".0", "2e1", "20.0.0", "20,0"])
def test_other_texts_of_files_are_no_integers(text: str) -> None:
    with pytest.raises(TypeMismatch):
        assign_of_file(INTEGER, text)
    assert assign_of_file(TEXT, "20.0") == "20.0"


@pytest.mark.parametrize(
    ("texts", "value"), [("true TRUE t Yes y on 1", True), ("False f no N OFF 0", False)]
)
def test_booleans_of_files_have_all_spellings(texts: str, value: bool) -> None:
    for text in texts.split():
        assert assign_of_file(ColumnType(Kind.BOOLEAN), text) is value
