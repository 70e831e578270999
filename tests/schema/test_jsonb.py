"""The canonical text of JSONB."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema import jsonb
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.types import JSONB

TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=5)
NUMBERS = st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=3)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def _text(value: Any, shift: int) -> str:
    """A JSON text of `value` in another form: other blanks, escapes and order of keys."""
    match value:
        case Decimal():
            return f"{value:f}{'0' * shift}" if shift % 2 else f"{value * 1000:f}e-3"
        case dict():
            pairs = sorted(value.items(), reverse=bool(shift % 2))
            return "{" + ",".join(f" {_text(k, shift)}:{_text(v, shift)}" for k, v in pairs) + "}"
        case list():
            return "[" + " , ".join(_text(item, shift) for item in value) + "]"
    return json.dumps(value, ensure_ascii=bool(shift % 2))


@given(DOCUMENTS, st.integers(0, 3), st.integers(0, 3))
def test_all_texts_of_a_value_have_one_canonical_text(value: Any, one: int, other: int) -> None:
    text = jsonb.canonical(_text(value, one))
    assert text == jsonb.canonical(_text(value, other))
    assert jsonb.canonical(text) == text
    assert json.loads(text, parse_float=Decimal) == value


@given(DOCUMENTS, DOCUMENTS)
def test_different_values_have_different_texts(a: Any, b: Any) -> None:
    """In Python, true equals 1."""
    same = a == b and repr(_marked(a)) == repr(_marked(b))
    assert (jsonb.canonical(_text(a, 0)) == jsonb.canonical(_text(b, 0))) is same


def _marked(value: Any) -> Any:
    match value:
        case dict():
            return sorted((key, repr(_marked(inner))) for key, inner in value.items())
        case list():
            return [_marked(item) for item in value]
        case bool():
            return str(value)
        case int() | Decimal():
            return Decimal(value).normalize() + 0
    return value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NaN", "NaN"),
        ("1e1001", "digits"),
        ("1e-1001", "digits"),
        ("1e99999999999999999999", "out of range"),
        (r'"\u0000"', "u0000"),
        (r'"\ud83d"', "surrogates"),
        ("[" * 501 + "]" * 501, "nested"),
        ("[1,]", "Expecting value|Illegal trailing comma"),  # Python 3.13 says the latter
        ("'a'", "Expecting value"),
    ],
)
def test_other_text_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(TypeMismatch, match=reason) as raised:
        JSONB.coerce(text)
    assert "JSONB" in raised.value.message


def test_the_text_is_postgresqls() -> None:
    text = r'{"bb":[ ],"a":"\u00e4\n\/","c":{"x":1e3},"":-0.0}'
    assert JSONB.coerce(text) == '{"": 0, "a": "ä\\n/", "c": {"x": 1000}, "bb": []}'
