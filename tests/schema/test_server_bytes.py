"""Values of SQL Server's scripts that are written as bytes."""

import pytest

from hornbeam_server.schema.ddl.server_bytes import value_of


@pytest.mark.parametrize(
    ("written", "type_", "wanted"),
    [
        ("0000000000000000", "datetime", "1900-01-01 00:00:00"),
        ("FFFF2E4600000000", "DateTime", "1753-01-01 00:00:00"),
        ("0000A5DE00C5C101", "DateTime", "2016-04-04 12:00:00.003000"),
        ("A5DE02D0", "SmallDateTime", "2016-04-04 12:00:00"),
        ("5B3A0B", "Date", "2015-08-26"),
        ("0700E03495645B3A0B", "DateTime2", "2015-08-26 12:00:00"),
        ("0300A6930200", "Time", "12:00:30.720000"),
        ("0700E03495645B3A0B3C00", "DateTimeOffset", "2015-08-26 12:00:00+00:00"),
        ("1202000139300000", "Decimal", "123.45"),
        ("1202000039300000", "numeric", "-123.45"),
    ],
)
def test_bytes_are_values_of_their_type(written: str, type_: str, wanted: str) -> None:
    found = value_of(bytes.fromhex(written), type_)
    assert isinstance(found, str)
    assert found.startswith(wanted)


def test_bytes_of_other_types_stay_bytes() -> None:
    assert value_of(b"ab", "varbinary") == b"ab"


@pytest.mark.parametrize("type_", ["Decimal", "DateTime", "Date"])
def test_bytes_that_are_no_value_are_refused(type_: str) -> None:
    with pytest.raises(ValueError, match=r"0x|out of range|year"):
        value_of(b"" if type_ == "Decimal" else b"\x7f" * 8, type_)


def test_a_decimal_keeps_all_its_digits() -> None:
    digits = 12345678901234567890123456789012345678
    for sign, text in ((1, ""), (0, "-")):
        data = bytes([38, 2, 0, sign]) + digits.to_bytes(16, "little")
        assert value_of(data, "decimal") == f"{text}123456789012345678901234567890123456.78"
