import contextlib
import datetime as dt
import struct
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam.intervals import Interval
from hornbeam_server.pgwire.types import oids
from hornbeam_server.pgwire.types.numerics import binary_of_numeric, numeric_of_binary
from hornbeam_server.pgwire.types.oids import field_of
from hornbeam_server.pgwire.types.read import BadValue, value_of
from hornbeam_server.pgwire.types.written import of_server, writers

DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=None).filter(
    lambda value: abs(value.adjusted()) < 60 and value.as_tuple().exponent > -60
)
TIMESTAMPS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
VALUES = {
    oids.BOOL: st.booleans(),
    oids.BYTEA: st.binary(max_size=20),
    oids.INT2: st.integers(-(1 << 15), (1 << 15) - 1),
    oids.INT4: st.integers(-(1 << 31), (1 << 31) - 1),
    oids.INT8: st.integers(-(1 << 63), (1 << 63) - 1),
    oids.TEXT: st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20),
    oids.FLOAT8: st.floats(allow_nan=False),
    oids.FLOAT4: st.floats(allow_nan=False, width=32),
    oids.NUMERIC: DECIMALS,
    oids.DATE: st.dates(),
    oids.TIME: st.times(),
    oids.TIMESTAMP: TIMESTAMPS,
    oids.TIMESTAMPTZ: TIMESTAMPS.map(lambda value: value.replace(tzinfo=dt.UTC)),
    oids.UUID: st.uuids(),
    oids.INTERVAL: st.builds(
        Interval,
        st.integers(-1_000, 1_000),
        st.integers(-1_000, 1_000),
        st.integers(-(10**12), 10**12),
    ),
}


@pytest.mark.parametrize("oid", VALUES)
@pytest.mark.parametrize("format_", [0, 1])
def test_a_written_value_reads_as_itself(oid, format_):
    (write,) = writers((oid,), (format_,))

    @given(VALUES[oid])
    def check(value):
        assert value_of(write(of_server(value)), oid, format_) == value

    check()


@pytest.mark.parametrize("oid", VALUES)
@pytest.mark.parametrize("format_", [0, 1])
def test_arrays_of_it_do_too(oid, format_):
    array = oids.OF_OID[oid].array
    (write,) = writers((array,), (format_,))

    @given(st.lists(st.none() | VALUES[oid], max_size=4))
    def check(values):
        given_ = [None if each is None else of_server(each) for each in values]
        assert value_of(write(given_), array, format_) == values

    check()


@given(st.sampled_from([*VALUES, *(oids.OF_OID[oid].array for oid in VALUES)]), st.binary())
def test_any_bytes_are_a_value_or_are_refused(oid, data):
    for format_ in (0, 1):
        with contextlib.suppress(BadValue):
            value_of(data, oid, format_)


@pytest.mark.parametrize(
    ("value", "binary"),
    [  # as numeric_send of PostgreSQL 15 writes them
        ("0", "0000 0000 0000 0000"),
        ("0.00", "0000 0000 0000 0002"),
        ("1", "0001 0000 0000 0000 0001"),
        ("-12345.678", "0003 0001 4000 0003 0001 0929 1a7c"),
        ("10000", "0001 0001 0000 0000 0001"),
        ("0.0001", "0001 ffff 0000 0004 0001"),
        ("NaN", "0000 0000 c000 0000"),
    ],
)
def test_numerics_have_postgresqls_bytes(value, binary):
    data = bytes.fromhex(binary)
    assert binary_of_numeric(Decimal(value)) == data
    assert str(numeric_of_binary(data)) == value


def test_text_is_postgresqls():
    def text(oid, value):
        return writers((oid,), (0,))[0](value)

    assert text(oids.BOOL, True) == b"t"
    assert text(oids.FLOAT8, 1e15) == b"1e+15"
    assert text(oids.FLOAT8, 5.0) == b"5"
    assert text(oids.BYTEA, b"\x01\xff") == b"\\x01ff"
    assert (
        text(oids.TIMESTAMPTZ, dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC))
        == b"2024-01-02 03:00:00+00"
    )
    assert text(1009, ["a", None, 'b"c']) == b'{a,NULL,"b\\"c"}'
    assert text(oids.INTERVAL, dt.timedelta(days=1, seconds=1)) == b"1 day 00:00:01"
    assert text(oids.TEXT, None) is None


def test_fields_have_postgresqls_types_and_modifiers():
    def field(name):
        return tuple(field_of("c", name))[1:]

    assert field("INTEGER") == (oids.INT4, 4, -1)
    assert field("DECIMAL(10,2)") == (oids.NUMERIC, -1, ((10 << 16) | 2) + 4)
    assert field("VARCHAR(5)") == (oids.VARCHAR, -1, 9)
    assert field("TIMESTAMP(3) WITH TIME ZONE") == (oids.TIMESTAMPTZ, 8, 3)
    assert field("TEXT[]") == (1009, -1, -1)
    assert field("mood") == (oids.TEXT, -1, -1)
    assert field("mood[]") == (1009, -1, -1)


def test_text_of_another_type_is_refused():
    for oid, text in ((oids.INT4, b"x"), (oids.DATE, b"2024-13-01"), (oids.TEXT, b"a\0b")):
        with pytest.raises(BadValue):
            value_of(text, oid, 0)
    assert value_of(str(uuid.UUID(int=1)).encode(), oids.UUID, 0) == uuid.UUID(int=1)


@pytest.mark.parametrize(
    ("oid", "form"), [(oids.DATE, "!i"), (oids.TIMESTAMP, "!q"), (oids.TIMESTAMPTZ, "!q")]
)
def test_infinity_is_refused_by_name(oid, form):
    bits = 8 * struct.calcsize(form) - 1
    binary = [(struct.pack(form, edge), 1) for edge in (-(1 << bits), (1 << bits) - 1)]
    for data, format_ in (*binary, (b"infinity", 0), (b"-infinity", 0)):
        with pytest.raises(BadValue, match="no date or timestamp is infinite"):
            value_of(data, oid, format_)
    if oid != oids.DATE:
        value_of(struct.pack(form, (1 << 31) - 1), oid, 1)
