"""Stored rows: encoded rows decode to themselves, rows of older layouts are padded, damage is
reported."""

import datetime as dt
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.catalog import Layout
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.model import Column, Default, DefaultKind, KeyPart
from hornbeam_server.schema.types import ColumnType, Kind
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from tests.storage.storage_world import PLAIN, catalog
from tests.strategies import values

COLUMNS = (
    Column("id", ColumnType(Kind.INTEGER), nullable=False),
    Column("name", ColumnType(Kind.TEXT)),
    Column("price", PLAIN[Kind.DECIMAL], False, Default(DefaultKind.LITERAL, Decimal("1.50"))),
    Column("at", ColumnType(Kind.TIMESTAMP), True, Default(DefaultKind.NOW)),
)


def codec(count=4):
    return LayoutCodec(Layout("t", "t", COLUMNS[:count], (KeyPart("id"),), "t"))


@st.composite
def typed_rows(draw):
    types = [PLAIN[kind] for kind in draw(st.lists(st.sampled_from(tuple(Kind)), min_size=1))]
    return types, tuple(draw(st.none() | values(type_)) for type_ in types)


@given(typed_rows())
def test_a_row_decodes_to_itself(case):
    types, row = case
    columns = tuple(Column(f"c{i}", type_) for i, type_ in enumerate([*types, PLAIN[Kind.UUID]]))
    codec = LayoutCodec(Layout("t", "t", columns, (KeyPart(columns[-1].name),), "t"))
    row = (*row, None)
    decoded = codec.decode(codec.encode(row))
    assert decoded == row
    assert [type(value) for value in decoded] == [type(value) for value in row]
    assert [str(value) for value in decoded] == [str(value) for value in row]


@pytest.mark.parametrize(
    "moment",
    [
        dt.datetime.min.replace(tzinfo=dt.UTC),
        dt.datetime.max.replace(tzinfo=dt.UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
    ],
)
def test_instants_keep_their_microseconds(moment):
    columns = (Column("c", ColumnType(Kind.TIMESTAMPTZ)),)
    codec = LayoutCodec(Layout("t", "t", columns, (KeyPart("c"),), "t"))
    assert codec.decode(codec.encode((moment,))) == (moment,)


def test_bytes_of_a_row():
    assert codec(2).encode((7, "ä")).hex() == "019207a2c3a4"


def test_appended_columns_of_old_rows_have_their_literal_default_or_null():
    old = codec(2).encode((1, "a"))
    for _ in range(2):
        assert codec().decode(old) == (1, "a", Decimal("1.50"), None)
    assert codec(3).decode(old) == (1, "a", Decimal("1.50"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x02\x92\x07\xa1a", "unknown format 02"),
        (b"\x01\x92\x07\xa2a", "truncated"),
        (b"\x01\x93\x07\xa1a\x01", "more values than columns"),
        (b"\x01\x92\xa1b\xa1a", "Expected `int`"),
        (b"\x01\x91\xc0", "Expected `int`"),
        (b"\x01\x07", "Expected `array`"),
        (b"\x01", "truncated"),
    ],
)
def test_damage_is_corruption_and_names_the_layout(data, reason):
    with pytest.raises(Corruption, match=reason) as caught:
        codec(2).decode(data)
    assert "of t " in str(caught.value)


@given(st.binary(max_size=12))
def test_no_bytes_make_decoding_fail_with_another_error(data):
    try:
        row = codec().decode(b"\x01" + data)
    except Corruption:
        return
    assert len(row) == len(COLUMNS)


def test_each_layout_has_one_codec():
    codecs = Codecs(catalog())
    assert codecs("t") is codecs("t")
    assert codecs("t").key_values((1, 2, "x")) == (1, 2)
    assert LayoutCodec(codec().layout).key_values((5, None, Decimal(1), None)) == (5,)
    with pytest.raises(KeyError):
        codecs("nothing")


def test_a_value_of_the_wrong_type_is_refused_by_the_encoder():
    with pytest.raises((TypeError, msgspec.ValidationError)):
        codec(2).encode((1, object()))


def keyed(codec, rows):
    return [(codec.key(row), codec.encode(row)) for row in rows]


def test_rows_under_their_keys_are_decoded_together():
    full, rows = codec(), [(n, f"row {n}", Decimal(n), None) for n in range(300)]
    cells = keyed(full, rows)
    assert full.decode_keyed(cells) == rows
    assert full.decode_keyed([]) == []
    one, two = cells[7], cells[8]
    for wrong in (
        [(two[0], one[1])],
        [(one[0], one[1] + two[1][1:]), (two[0], two[1][:1])],
        [one, (two[0], b"\x02" + two[1][1:])],
        [one, (two[0], two[1][:-1])],
        [one, (two[0], b"")],
        keyed(codec(3), [row[:3] for row in rows]),
    ):
        assert full.decode_keyed(wrong) is None, wrong


def test_keys_are_recognised_among_other_bytes():
    full = codec()
    assert full.is_key(full.key_of((7,)))
    for strange in (b"", b"\xee", full.key_of((7,)) + b"\x01", b"\x30a\0\x01", b"\x16\x00\x07"):
        assert not full.is_key(strange), strange


def test_a_row_without_a_column_of_its_key_is_damaged():
    layout = Layout("t", "t", COLUMNS, (KeyPart("name"), KeyPart("id")), "t")
    with pytest.raises(Corruption, match="lacks columns of its key"):
        LayoutCodec(layout).decode(b"\x01\x90")
    assert LayoutCodec(layout).decode(b"\x01\x91\x07") == (7, None, Decimal("1.50"), None)
