"""Python and the module give the same record batches, keys and errors for any stored bytes."""

import datetime as dt
import uuid
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.catalog import Layout
from hornbeam_server.schema.enumerations import Enumeration
from hornbeam_server.schema.intervals import Interval
from hornbeam_server.schema.model import Column, Default, DefaultKind, KeyPart
from hornbeam_server.schema.types import REAL, ColumnType, Kind, array_of, enum_of
from hornbeam_server.storage.codec.many_rows import PythonRows, SpedUpRows
from hornbeam_server.storage.codec.rows import LayoutCodec
from tests.strategies import KEY_KINDS, column_types, values

EXTREMES = {
    Kind.INTEGER: [0, -1, 127, 128, -129, (1 << 31) - 1, -(1 << 31)],
    Kind.BIGINT: [0, 1 << 62, (1 << 63) - 1, -(1 << 63)],
    Kind.DOUBLE: [0.0, -0.0, 1.5, float("inf"), float("-inf"), 5e-324],
    Kind.BOOLEAN: [False, True],
    Kind.TEXT: ["", "a\0b", "日本", "x" * 70_000, "😀"],
    Kind.JSON: ['{"a": 1}', '"é"'],
    Kind.BYTES: [b"", b"\0\xff\0", b"x" * 70_000],
    Kind.DATE: [dt.date.min, dt.date.max, dt.date(1969, 12, 31), dt.date(2000, 2, 29)],
    Kind.TIME: [dt.time.min, dt.time.max, dt.time(12, 30, 0, 500_000)],
    Kind.TIMESTAMP: [dt.datetime.min, dt.datetime.max, dt.datetime(1969, 12, 31, 23, 59, 59, 1)],
    Kind.TIMESTAMPTZ: [
        moment.replace(tzinfo=dt.UTC)
        for moment in (dt.datetime.min, dt.datetime.max, dt.datetime(2514, 5, 30, 1, 53, 4, 1))
    ],
    Kind.INTERVAL: [Interval(), Interval(-(1 << 31), (1 << 31) - 1, -1), Interval(0, 0, 10**15)],
    Kind.UUID: [uuid.UUID(int=0), uuid.UUID(int=(1 << 128) - 1)],
}
"""Values at the ends of each type."""


@st.composite
def layouts(draw):
    """A layout with columns of any types, some of which may be NULL or have a value in older rows;
    its key is any of them that a key can have."""
    types = draw(st.lists(column_types(), min_size=1, max_size=6))
    columns = []
    for i, type_ in enumerate([*types, draw(column_types(KEY_KINDS))]):
        value = draw(st.none() | values(type_))
        default = None if value is None else Default(DefaultKind.LITERAL, value)
        columns.append(Column(f"c{i}", type_, draw(st.booleans()), default))
    able = [column.name for column in columns if column.type.kind in KEY_KINDS]
    names = draw(st.lists(st.sampled_from(able), min_size=1, max_size=3, unique=True))
    key = tuple(KeyPart(name, draw(st.booleans())) for name in names)
    return Layout("t", "t", tuple(columns), key, "t")


@st.composite
def stored(draw, well_formed=False):
    """A codec and stored rows; unless `well_formed`, some of them may be damaged."""
    layout = draw(layouts())
    codec = LayoutCodec(layout, draw(st.integers(0, len(layout.columns))))
    rows = st.tuples(
        *(values(c.type) | st.none() if c.nullable else values(c.type) for c in layout.columns)
    )
    found = []
    for row in draw(st.lists(rows, max_size=5)):
        given = draw(st.integers(codec._least if well_formed else 0, len(row)) | st.just(len(row)))
        value = codec.encode(row[:given])
        found.append(value if well_formed else draw(st.just(value) | damaged(value)))
    if not well_formed:
        found += draw(st.lists(st.binary(max_size=20).map(lambda data: b"\x01" + data), max_size=1))
    return codec, found


@st.composite
def damaged(draw, value):
    """`value` with another byte, cut off, or with bytes too many."""
    at = draw(st.integers(0, len(value)))
    middle = draw(st.binary(max_size=2))
    skipped = draw(st.integers(0, 2))
    return value[:at] + middle + value[at + skipped :]


def outcome(work):
    """The result, or the class and message of the error."""
    try:
        return work()
    except Exception as error:
        return type(error), str(error)


def content(batch):
    """All that can be read of a batch. Values are shown, so that NaN equals itself."""
    if not isinstance(batch, pa.RecordBatch):
        return batch
    return batch.schema, batch.num_rows, repr(plain(batch).to_pydict())


def plain(batch):
    storages = [c.storage if isinstance(c, pa.ExtensionArray) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(storages, [str(i) for i in range(len(storages))])


def both(native, codec):
    return PythonRows(codec), SpedUpRows(codec, native)


@given(case=stored(), data=st.data())
def test_any_bytes_give_the_same_columns_or_the_same_error(native, case, data):
    codec, rows = case
    width = len(codec.layout.columns)
    at = data.draw(st.lists(st.integers(0, width - 1), min_size=1, max_size=2 * width))
    python, sped_up = both(native, codec)
    expected = outcome(lambda: python.to_arrow(rows, at))
    found = outcome(lambda: sped_up.to_arrow(rows, at))
    assert content(found) == content(expected)
    if isinstance(found, pa.RecordBatch):
        found.validate(full=True)
        keyed = outcome(lambda: sped_up.with_keys(rows, at))
        assert shown(keyed) == shown(outcome(lambda: python.with_keys(rows, at)))


def shown(keyed):
    batch, keys = keyed
    return content(batch), keys


@given(case=stored())
def test_any_bytes_give_the_same_keys_or_the_same_error(native, case):
    codec, rows = case
    python, sped_up = both(native, codec)
    assert outcome(lambda: sped_up.keys(rows)) == outcome(lambda: python.keys(rows))


@given(case=stored(well_formed=True))
def test_the_module_takes_all_rows_that_hornbeam_writes(native, case):
    codec, rows = case
    module = SpedUpRows(codec, native)._native
    assert module.decode(rows, [0]) is not None
    assert module.keys(rows) is not None


def one_column(type_, nullable=True):
    column = Column("c", type_, nullable)
    key = (KeyPart("k"),)
    return LayoutCodec(Layout("t", "t", (column, Column("k", ColumnType(Kind.INTEGER))), key, "t"))


@pytest.mark.parametrize("kind", EXTREMES, ids=str)
@pytest.mark.parametrize("wrap", [False, True], ids=["value", "array"])
def test_values_at_the_ends_of_their_types_are_taken(native, kind, wrap):
    type_ = array_of(ColumnType(kind)) if wrap else ColumnType(kind)
    codec = one_column(type_)
    given = [(*EXTREMES[kind], None), ()] if wrap else EXTREMES[kind]
    rows = [codec.encode((value, i)) for i, value in enumerate([*given, None])]
    python, sped_up = both(native, codec)
    assert sped_up._native.decode(rows, [0]) is not None
    assert content(sped_up.to_arrow(rows, [0])) == content(python.to_arrow(rows, [0]))


@pytest.mark.parametrize("type_", [REAL, array_of(REAL)], ids=["value", "array"])
def test_reals_are_floats_of_32_bits_with_and_without_keys(native, type_):
    codec = one_column(type_)
    given = [0.5, -0.0, float("inf")]
    rows = [codec.encode((v, i)) for i, v in enumerate([given, None] if type_ != REAL else given)]
    python, sped_up = both(native, codec)
    assert sped_up._native.decode(rows, [0]) is not None
    assert content(sped_up.to_arrow(rows, [1, 0])) == content(python.to_arrow(rows, [1, 0]))
    assert shown(sped_up.with_keys(rows, [1, 0])) == shown(python.with_keys(rows, [1, 0]))


@pytest.mark.parametrize("kind", sorted(set(EXTREMES) - {Kind.JSON}), ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_keys_of_values_at_the_ends_of_their_types_are_equal(native, kind, descending):
    key = (KeyPart("c", descending),)
    codec = LayoutCodec(Layout("t", "t", (Column("c", ColumnType(kind)),), key, "t"))
    rows = [codec.encode((value,)) for value in [*EXTREMES[kind], None]]
    python, sped_up = both(native, codec)
    assert sped_up._native.keys(rows) == python.keys(rows)


DECIMALS = [
    *("0", "-0", "0E-9", "0E+3", "1E-7", "-1.5", "1.500", "00012.5", "99999.999", "-99999.999"),
    *("100000", "1E+4", "1.25E+3", "1E+5", "1E+400", "1E-400", "+1", "1_0", " 1", "1.", ".5", "."),
    *("", "-", "NaN", "Infinity", "1e5", "1E", "1E5", "--1", "1.2.3", "٣"),
]


@pytest.mark.parametrize("text", DECIMALS)
@pytest.mark.parametrize("key", [False, True], ids=["column", "key"])
def test_texts_of_decimals_mean_the_same(native, text, key):
    type_ = ColumnType(Kind.DECIMAL, 8, 3)
    layout = Layout("t", "t", (Column("c", type_),), (KeyPart("c"),), "t")
    codec = LayoutCodec(layout)
    rows = [b"\x01\x91" + msgspec.msgpack.encode(text)]
    python, sped_up = both(native, codec)
    if key:
        assert outcome(lambda: sped_up.keys(rows)) == outcome(lambda: python.keys(rows))
        return
    found = outcome(lambda: sped_up.to_arrow(rows, [0]))
    assert content(found) == content(outcome(lambda: python.to_arrow(rows, [0])))


def test_a_decimal_of_38_digits_is_taken(native):
    codec = one_column(ColumnType(Kind.DECIMAL, 38, 38))
    rows = [codec.encode((Decimal(f"{sign}0.{'9' * 38}"), 1)) for sign in ("", "-")]
    batch = SpedUpRows(codec, native)._native.decode(rows, [0])
    assert batch.equals(PythonRows(codec).to_arrow(rows, [0]))


FORMS = [
    b"\xc0",  # nil
    b"\xca\x3f\x80\x00\x00",  # a float of 32 bits
    b"\xcf" + b"\xff" * 8,  # a number beyond 64 signed bits
    b"\xd9\x01a",  # a text with a longer header than it needs
    b"\xd9\x02\xc3\x28",  # a text that is no UTF-8
    b"\xa3\xed\xa0\x80",  # a surrogate
    b"\xdd\xff\xff\xff\xff",  # an array of four thousand million elements
    b"\xdc\xff\xff" + b"\xc0" * 9,
    b"\xdb\xff\xff\xff\xff",  # a text of 4 GiB
    b"\xc6\xff\xff\xff\xff",
    b"\xd6\xff\x00\x00\x00\x00",
    b"\xd7\xff\xff\xff\xff\xfc\x00\x00\x00\x00",  # a timestamp of too many nanoseconds
    b"\xd7\xff\x00\x00\x00\x04\x00\x00\x00\x00",  # a timestamp of one nanosecond
    b"\xc7\x0c\xff\x00\x00\x00\x00" + b"\x7f" + b"\xff" * 7,
    b"\xc7\x0c\x05" + b"\x00" * 12,  # another extension
    b"\x80",
    b"\x81\xa4days\x01",  # an interval without months
    b"\x83\xa4days\x01\xa6months\x02\xacmicroseconds\x03",
    b"\x83\xa6months\xce\xff\xff\xff\xff\xa4days\x01\xacmicroseconds\x03",
    b"\x83\xa6months\x01\xa4days\x01\xacmicroseconds\xd3\x7f" + b"\xff" * 7,
    *(
        msgspec.msgpack.encode(text)
        for text in (
            *("2023-02-29", "1900-02-29", "0000-01-01", "2024-13-01", "2024-04-31", "2024-1-1"),
            *("2024-02-29 12:00:00", "2024-02-29T24:00:00", "2024-02-29T12:00:60"),
            *("2024-02-29T12:00:00Z", "2024-02-29T12:00:00.5", "2024-02-29t12:00:00"),
            *("2024-02-29T12:00:00.123456", "2024-02-29T12:00:00.1234567", "12:00:00.123456"),
            *("12:00", "12:00:00.1", "12:00:00+01:00", "25:00:00", "1:00:00"),
            *("00112233445566778899aabbccddeeff", "00112233-4455-6677-8899-AABBCCDDEEFF"),
            *("00112233-4455-6677-8899aabbccddeeff-", "0011223344-55-6677-8899-aabbccddeeff"),
        )
    ),
]
"""MessagePack that Hornbeam does not write, or writes for values of one type only."""


@pytest.mark.parametrize("kind", list(Kind), ids=str)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[:24].hex())
@pytest.mark.parametrize("nullable", [False, True])
def test_other_forms_of_values_mean_the_same(native, kind, form, nullable):
    type_ = ColumnType(kind)
    if kind is Kind.DECIMAL:
        type_ = ColumnType(kind, 8, 3)
    if kind is Kind.ARRAY:
        type_ = array_of(ColumnType(Kind.TEXT))
    if kind is Kind.ENUM:
        type_ = enum_of(Enumeration.of("", "mood", ("sad", "ok")))
    codec = one_column(type_, nullable)
    rows = [b"\x01\x92" + form + b"\x01"]
    python, sped_up = both(native, codec)
    for at in ([0], [1]):
        found = outcome(lambda at=at: sped_up.to_arrow(rows, at))
        assert content(found) == content(outcome(lambda at=at: python.to_arrow(rows, at)))
    assert outcome(lambda: sped_up.keys(rows)) == outcome(lambda: python.keys(rows))


def test_a_position_outside_of_the_layout_is_refused(native):
    codec = one_column(ColumnType(Kind.INTEGER))
    with pytest.raises(ValueError, match="not in the layout"):
        SpedUpRows(codec, native).to_arrow([codec.encode((1, 2))], [2])


def test_a_schema_without_a_column_type_is_refused(native):
    with pytest.raises(ValueError, match="no column has the type"):
        native.Rows(pa.schema([("c", pa.duration("s"))]), b"\x01\x91\xc0", [])
    with pytest.raises(ValueError, match="not in the schema"):
        native.Rows(pa.schema([("c", pa.int32())]), b"\x01\x91\xc0", [(1, False)])
