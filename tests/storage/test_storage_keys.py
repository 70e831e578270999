"""Keys: bytes compare as values do, decode to the encoded values, and never contain one another."""

import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hornbeam_server.storage.codec.keys
from hornbeam_server.schema.enumerations import position_of
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.types import Kind
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.codec.keys import Code, decode_parts, part_encoder, successor
from hornbeam_server.storage.codec.rows import LayoutCodec
from tests.storage.storage_world import PLAIN, layout
from tests.strategies import KEY_KINDS, few_values, values

KEYS_MD = Path(hornbeam_server.storage.codec.keys.__file__).with_name("KEYS.md").read_text()
VECTORS = re.findall(r"^\| (\w+) \| `(.*?)` \| `([0-9a-f]+)` \| `([0-9a-f]+)` \|$", KEYS_MD, re.M)
CODES = re.findall(r"^\| `0x([0-9a-f]{2})` \| (\w+) \|", KEYS_MD, re.M)


def parsed(kind, text):
    return None if text == "NULL" else PLAIN[kind].coerce(text)


def test_the_document_names_every_code():
    assert {name: int(code, 16) for code, name in CODES} == {code.name: code.value for code in Code}


def test_the_document_has_vectors_for_every_type():
    assert {Kind(kind) for kind, *_ in VECTORS} == set(KEY_KINDS)


@pytest.mark.parametrize(("kind", "text", "up", "down"), VECTORS)
def test_vector_of_the_document(kind, text, up, down):
    kind = Kind(kind)
    value = parsed(kind, text)
    assert part_encoder(kind)(value).hex() == up
    assert part_encoder(kind, descending=True)(value).hex() == down
    assert decode_parts(bytes.fromhex(up), [False]) == (position_of(value),)
    assert decode_parts(bytes.fromhex(down), [True]) == (position_of(value),)


@st.composite
def two_keys(draw):
    """Column types, directions, and two keys that often agree in their first parts."""
    kinds = draw(st.lists(st.sampled_from(KEY_KINDS), min_size=1, max_size=3))
    descending = tuple(draw(st.booleans()) for _ in kinds)
    parts = [st.none() | values(PLAIN[kind]) | few_values(PLAIN[kind]) for kind in kinds]
    return kinds, descending, draw(st.tuples(*parts)), draw(st.tuples(*parts))


def compared(left, right, descending):
    """The sign of the comparison, as the port defines it."""
    for a, b, down in zip(left, right, descending, strict=True):
        sign = (a is not None) - (b is not None) if a is None or b is None else (a > b) - (a < b)
        if sign:
            return -sign if down else sign
    return 0


@given(two_keys())
def test_bytes_compare_as_values(case):
    kinds, descending, left, right = case
    codec = LayoutCodec(
        layout([PLAIN[k] for k in kinds], {i for i, d in enumerate(descending) if d})
    )
    a, b = codec.key_of(left), codec.key_of(right)
    assert (a > b) - (a < b) == compared(left, right, descending)
    assert codec.decode_key(a) == left
    assert a == b or not (a.startswith(b) or b.startswith(a))
    assert codec.key(left) == a
    assert all(a.startswith(codec.prefix(left[:n])) for n in range(len(left) + 1))


@given(st.lists(st.integers(-(1 << 300), 1 << 300) | st.integers(-70_000, 70_000), min_size=2))
def test_integers_of_any_size(numbers):
    encode = part_encoder(Kind.BIGINT)
    assert sorted(numbers) == [decode_parts(k, [False])[0] for k in sorted(map(encode, numbers))]


def test_integers_at_every_change_of_length():
    edges = sorted({s * (1 << bits) + d for bits in range(80) for d in (-1, 0, 1) for s in (-1, 1)})
    keys = [part_encoder(Kind.BIGINT)(number) for number in edges]
    assert keys == sorted(keys)
    assert [decode_parts(key, [False])[0] for key in keys] == edges


DECIMALS = st.builds(
    lambda sign, number, exponent: Decimal((sign, tuple(map(int, str(number))), exponent)),
    st.integers(0, 1),
    st.integers(0, 10**40),
    st.integers(-400, 400),
)


@given(DECIMALS, DECIMALS)
def test_decimals_of_any_precision(left, right):
    encode = part_encoder(Kind.DECIMAL)
    a, b = encode(left), encode(right)
    assert (a > b) - (a < b) == (left > right) - (left < right)
    assert decode_parts(a, [False]) == (left,)


def test_equal_values_have_equal_keys():
    decimal, double = part_encoder(Kind.DECIMAL), part_encoder(Kind.DOUBLE)
    assert decimal(Decimal("1.0")) == decimal(Decimal("1.00")) == decimal(Decimal(1))
    assert decimal(Decimal("-0.0")) == decimal(Decimal(0))
    assert double(-0.0) == double(0.0)


@given(st.text(max_size=6), st.text(max_size=6))
def test_text_with_nul_characters(left, right):
    encode = part_encoder(Kind.TEXT)
    a, b = encode(left), encode(right)
    assert (a < b) == (left.encode() < right.encode())
    assert decode_parts(a, [False]) == (left,)


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_successor_is_the_least_bound(prefix, other):
    bound = successor(prefix)
    if other.startswith(prefix):
        assert bound is None or other < bound
    elif other > prefix:
        assert bound is not None
        assert other >= bound


@given(two_keys(), st.integers(0, 10_000), st.integers(1, 255))
def test_damaged_keys_raise_nothing_but_corruption(case, at, flip):
    kinds, descending, left, _ = case
    codec = LayoutCodec(
        layout([PLAIN[k] for k in kinds], {i for i, d in enumerate(descending) if d})
    )
    key = bytearray(codec.key_of(left))
    key[at % len(key)] ^= flip
    try:
        decoded = codec.decode_key(bytes(key))
    except Corruption:
        return
    assert len(decoded) == len(kinds)


@pytest.mark.parametrize("kind", KEY_KINDS)
@given(st.data())
def test_truncated_and_prolonged_keys_raise_corruption(kind, data):
    key = part_encoder(kind)(data.draw(values(PLAIN[kind])))
    for cut in range(len(key)):
        with pytest.raises(Corruption):
            decode_parts(key[:cut], [False])
    with pytest.raises(Corruption, match="1 bytes too many"):
        decode_parts(key + b"\x01", [False])


@st.composite
def ranges(draw):
    kind = draw(st.sampled_from(KEY_KINDS))
    few = few_values(PLAIN[kind])
    bounds = KeyRange(
        (draw(st.none() | st.integers(0, 2)),),
        draw(st.none() | few),
        draw(st.booleans()),
        draw(st.none() | few),
        draw(st.booleans()),
    )
    rows = draw(st.lists(st.tuples(st.none() | st.integers(0, 2), st.none() | few)))
    return kind, draw(st.booleans()), draw(st.booleans()), bounds, rows


def matches(bounds, row):
    first, value = row
    if first != bounds.prefix[0]:
        return False
    if bounds.low is None and bounds.high is None:
        return True
    if value is None:
        return False
    low = bounds.low is None or value > bounds.low or (bounds.low_inclusive and value == bounds.low)
    high = (
        bounds.high is None
        or value < bounds.high
        or (bounds.high_inclusive and value == bounds.high)
    )
    return low and high


@given(ranges())
def test_a_key_range_has_the_keys_that_sql_selects(case):
    kind, down0, down1, bounds, rows = case
    descending = {i for i, down in enumerate((down0, down1)) if down}
    codec = LayoutCodec(layout([PLAIN[Kind.INTEGER], PLAIN[kind]], descending))
    start, end = codec.range(bounds)
    for row in rows:
        key = codec.key_of(row)
        assert (start <= key and (end is None or key < end)) == matches(bounds, row)
