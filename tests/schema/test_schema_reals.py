"""REAL: rounding, and the digits that distinguish a number."""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal

import numpy as np
import pytest

from hornbeam_server.schema.reals import real_of, shortest, text_of_real
from hornbeam_server.schema.types import REAL, ColumnType, Kind, takes_all

_FLOAT, _BITS = struct.Struct("<f"), struct.Struct("<I")


def _reals() -> list[float]:
    chosen = random.Random(7)
    patterns = [chosen.getrandbits(32) for _ in range(20_000)]
    found = [_FLOAT.unpack(_BITS.pack(bits))[0] for bits in patterns]
    powers = [2.0**n for n in range(-149, 128)]
    return [value for value in (*found, *powers) if math.isfinite(value)]


def test_the_digits_are_as_few_as_distinguish_a_real() -> None:
    for value in _reals():
        assert shortest(value) == float(str(np.float32(value))), value


def test_a_number_becomes_the_nearest_real() -> None:
    chosen = random.Random(8)
    for _ in range(20_000):
        number = chosen.uniform(-1, 1) * 10.0 ** chosen.randint(-30, 38)
        assert real_of(number) == float(np.float32(number))


def test_a_decimal_is_rounded_once() -> None:
    tie = 2**24 + 1  # between two REALs; a double nearest to the numbers beside it is the tie
    assert real_of(Decimal(tie)) == 2**24
    assert real_of(tie + Decimal("1e-20")) == 2**24 + 2
    assert real_of(Decimal(tie + 2) - Decimal("1e-20")) == 2**24 + 2
    assert real_of((1 << 60) + (1 << 36) + 1) == (1 << 60) + (1 << 37)


@pytest.mark.parametrize("number", [1e39, -1e39, 1e-46, Decimal("1e400"), 3.4028235677973366e38])
def test_a_number_out_of_range_is_no_real(number: float | Decimal) -> None:
    with pytest.raises(ValueError, match="out of range for type real"):
        real_of(number)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.1, "0.1"), (1e6, "1e+06"), (12345678.9, "1.2345679e+07"), (123456, "123456"),
        (0.0001, "0.0001"), (0.00001, "1e-05"), (-2.5, "-2.5"), (0, "0"), (3.4e38, "3.4e+38"),
        (math.inf, "Infinity"), (-math.inf, "-Infinity"), (math.nan, "NaN"),
    ],
)  # fmt: skip
def test_the_text_is_postgresqls(number: float, text: str) -> None:
    assert text_of_real(real_of(number)) == text


def test_a_double_takes_all_reals_and_not_the_reverse() -> None:
    double = ColumnType(Kind.DOUBLE)
    assert takes_all(double, REAL)
    assert not takes_all(REAL, double)
    assert REAL.coerce("0.1") == REAL.coerce(Decimal("0.1")) == real_of(0.1)
