"""ENUM in queries and writes: values are ordered, compared and shown as their labels."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.enumerations import Enumeration, are_ordered, between, spread
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.types import enum_of

SIZE = Enumeration.of("", "size", ["S", "XL", "L"])


@given(st.integers(0, 1500))
def test_first_positions_are_in_order_and_leave_room(count: int) -> None:
    positions = list(spread(count))
    assert len(positions) == count
    assert are_ordered(positions)
    assert not any(position.endswith("0") for position in positions)


@given(st.integers(0, 5), st.lists(st.floats(0, 1), max_size=60))
def test_a_position_fits_between_any_two(count: int, places: list[float]) -> None:
    positions = list(spread(count))
    for place in places:
        at = round(place * len(positions))
        low = positions[at - 1] if at else ""
        high = positions[at] if at < len(positions) else None
        positions.insert(at, between(low, high))
    assert are_ordered(positions)
    assert not any(position.endswith("0") for position in positions)


def test_labels_are_ordered_by_their_positions_and_equal_their_texts() -> None:
    labels = [SIZE.by_label[text] for text in ("L", "S", "XL")]
    assert sorted(labels) == ["S", "XL", "L"]
    assert max(labels) == "L"
    assert {*labels} == {"S", "XL", "L"}


def test_a_label_keeps_its_enumeration_when_it_is_pickled() -> None:
    again = pickle.loads(pickle.dumps([*SIZE.by_label.values()]))
    assert sorted(again) == ["S", "XL", "L"]
    assert again[0].enumeration == SIZE


def test_labels_that_are_added_leave_the_positions_of_the_others() -> None:
    grown = Enumeration.of("", "size", ["XS", "S", "M", "XL", "L", "XXL"]).following(SIZE)
    assert are_ordered(grown.positions)
    assert grown.holds(SIZE)
    kept = dict(zip(grown.labels, grown.positions, strict=True))
    assert tuple(kept[label] for label in SIZE.labels) == SIZE.positions


def test_a_text_that_is_no_label_is_refused() -> None:
    with pytest.raises(TypeMismatch, match='Invalid input value for enum size: "M"') as raised:
        enum_of(SIZE).coerce("M")
    assert raised.value.cure == "Its labels are: S, XL, L."


def test_a_label_of_another_enumeration_is_refused() -> None:
    other = Enumeration.of("shop", "size", ["S"]).by_label["S"]
    with pytest.raises(TypeMismatch, match=r"belongs to the type shop\.size"):
        enum_of(SIZE).coerce(other)
