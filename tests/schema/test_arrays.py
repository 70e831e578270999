"""Arrays: PostgreSQL's text of them, their values, and their order."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.arrays import elements_of, order_of, text_of_elements
from hornbeam_server.schema.assignment import assign, assign_of_file, text_of
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.sizes import bytes_of, kept_sizes, kept_sizes_of_rows, size_of
from hornbeam_server.schema.types import ColumnType, Kind, array_of, encoded_alike, takes_all
from tests.strategies import KEY_KINDS, TEXTS, column_types, values

INTEGERS, TEXT = array_of(ColumnType(Kind.INTEGER)), array_of(ColumnType(Kind.TEXT))
PRICES = array_of(ColumnType(Kind.DECIMAL, 5, 2))


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("{}", []),
        (" { } ", []),
        ("{a,b}", ["a", "b"]),
        ('{ a , "b" }', ["a", "b"]),
        ("{a b,c}", ["a b", "c"]),
        ('{"a,b","c d",""}', ["a,b", "c d", ""]),
        ("{NULL,null,Null}", [None, None, None]),
        ('{"NULL",nulls}', ["NULL", "nulls"]),
        (r'{"a\"b","c\\d",e\,f,\NULL}', ['a"b', r"c\d", "e,f", "NULL"]),
    ],
)
def test_the_text_of_an_array_is_read_as_in_postgresql(text, elements):
    assert elements_of(text) == elements


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "{", "}", "{a", "a}", "{a,}", "{,a}", "{a,,b}", '{"a"b}', '{a"b"}', '{"a}'),
        *("{a}b", "{{1,2},{3,4}}", "[1:2]={1,2}", "{a{b}"),
    ],
)
def test_other_texts_are_no_arrays(text):
    with pytest.raises(ValueError, match="array"):
        elements_of(text)


UNUSUAL = ["null", "NULL", "", " ", '"', "\\", "{}", "\x85", "\xa0", "a\u3000", "\x1fa"]


@given(st.lists(st.none() | TEXTS | st.sampled_from(UNUSUAL)))
def test_the_text_of_elements_is_read_back(elements):
    assert elements_of(text_of_elements(elements)) == elements


@given(st.data())
def test_values_are_read_back_from_their_text_and_stay_under_coercion(data):
    type_ = array_of(data.draw(column_types(KEY_KINDS)))
    value = data.draw(values(type_))
    assert type_.coerce(value) == value
    assert type_.coerce(list(value)) == value
    assert type_.coerce(text_of(value)) == value


@pytest.mark.parametrize(
    ("type_", "given", "stored"),
    [
        (INTEGERS, ["1", None, 2], (1, None, 2)),
        (INTEGERS, [2.5, Decimal("-2.5")], (3, -3)),
        (PRICES, "{1.255,2}", (Decimal("1.26"), Decimal("2.00"))),
        (TEXT, [1, True, dt.date(2024, 2, 29)], ("1", "true", "2024-02-29")),
        (array_of(ColumnType(Kind.TEXT, length=2)), ["ab  "], ("ab",)),
        (array_of(ColumnType(Kind.BYTES)), r'{"\\x6162",cd}', (b"ab", b"cd")),
        (array_of(ColumnType(Kind.BYTES)), ["YWI="], (b"ab",)),
        (ColumnType(Kind.TEXT), (True, None, "a b", b"a"), r'{t,NULL,"a b","\\x61"}'),
    ],
)
def test_elements_are_assigned_like_values(type_, given, stored):
    assert assign(type_, given) == stored


@pytest.mark.parametrize("given", [1, {"a": 1}, [[1]], [[]], "{{1}}", "1,2", ["x"], [1 << 31]])
def test_other_values_are_refused(given):
    with pytest.raises(TypeMismatch):
        assign(INTEGERS, given)


def test_a_file_may_have_lists_of_json():
    assert assign_of_file(TEXT, '["a", null, "b,c"]') == ("a", None, "b,c")
    assert assign_of_file(PRICES, "[1.10, 2]") == (Decimal("1.10"), Decimal("2.00"))
    assert assign_of_file(TEXT, "{a}") == ("a",)
    with pytest.raises(TypeMismatch):
        assign_of_file(TEXT, "[1,")


def test_null_is_the_largest_element_and_shorter_arrays_come_first():
    arrays = [(), (1,), (1, 2), (1, 2, 3), (1, None), (2,), (None,), (None, 1), (None, None)]
    mixed = [*arrays[1::2], *arrays[::2]]
    assert sorted(mixed, key=order_of) == arrays


def test_sizes_count_the_elements():
    assert size_of(("abc", b"de", None, 1)) == 3 + 2 + 8 + 8
    assert bytes_of([1, "ab", ("abc",), None]) == 5


def test_types_of_arrays_are_alike_if_their_elements_are():
    big = array_of(ColumnType(Kind.BIGINT))
    assert encoded_alike(INTEGERS, big)
    assert not encoded_alike(INTEGERS, ColumnType(Kind.INTEGER))
    assert takes_all(big, INTEGERS)
    assert not takes_all(INTEGERS, big)


@given(
    st.lists(
        st.tuples(
            st.integers(),
            st.none() | st.text(),
            st.none() | st.binary(),
            st.none() | st.lists(st.none() | st.text()).map(tuple),
        )
    )
)
def test_sizes_of_rows_together_are_the_sum_of_their_sizes(rows):
    text = ColumnType(Kind.TEXT)
    types = [ColumnType(Kind.INTEGER), text, ColumnType(Kind.BYTES), array_of(text)]
    assert kept_sizes_of_rows(types)(rows) == sum(map(kept_sizes(types), rows))
