"""Numbers of REAL: floats of 32 bits, each held as the Python float that equals it.

A REAL is shown with as few digits as distinguish it from its neighbours: 0.1, not
0.10000000149011612. Computing and comparing use its exact value.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from decimal import Decimal

_FLOAT = struct.Struct("<f")
_BITS = struct.Struct("<I")
_RANGE = "out of range for type real"
_SIX, _NINE = 6, 9
"""Any six digits survive in a REAL, and nine distinguish all of them."""
_PLAIN = range(-4, 6)
"""The exponents of numbers that PostgreSQL writes without an exponent."""


def real_of(value: float | Decimal) -> float:
    """The REAL that is nearest to a number; a tie goes to the even one. Raises ValueError for a
    finite number that is too large, and for one that would become zero."""
    number = float(value)
    if not math.isfinite(number):
        if isinstance(value, int | Decimal) and Decimal(value).is_finite():
            raise ValueError(_RANGE)
        return number
    try:
        (found,) = _FLOAT.unpack(_FLOAT.pack(number))
    except OverflowError:
        raise ValueError(_RANGE) from None
    if found != number and not isinstance(value, float):
        found = _beside_tie(Decimal(value), number, found)
    if not found and value:
        raise ValueError(_RANGE)
    return float(found)


def _beside_tie(exact: Decimal, number: float, found: float) -> float:
    """The REAL nearest to `exact`, where rounding to the double `number` first may have made a tie
    that `exact` is not."""
    if exact == Decimal(number):
        return found
    above = exact > Decimal(number)
    other = _neighbour(found, above=number > found)
    tie = abs(number - found) == abs(other - number)
    return other if tie and above == (other > found) else found


def _neighbour(value: float, *, above: bool) -> float:
    """The next REAL above or below a finite one."""
    if not value:
        return math.copysign(_FLOAT.unpack(_BITS.pack(1))[0], 1 if above else -1)
    (bits,) = _BITS.unpack(_FLOAT.pack(value))
    away = above == (value > 0)
    (found,) = _FLOAT.unpack(_BITS.pack(bits + 1 if away else bits - 1))
    return float(found)


def shortest(value: float) -> float:
    """The float with the shortest decimal form that reads as this REAL.

    >>> shortest(real_of(0.1))
    0.1
    """
    if not math.isfinite(value):
        return value
    first = 1 if abs(value) < _NORMAL else _SIX
    for digits in range(first, _NINE):
        for found in _written(value, digits):
            if abs(found) < _LIMIT and _FLOAT.unpack(_FLOAT.pack(found))[0] == value:
                return found
    return float(f"{value:.{_NINE}g}")


def _written(value: float, digits: int) -> Iterator[float]:
    """Yield the nearest number of so many digits. A power of two is farther from its neighbour
    above, so then also yield the next one there."""
    text = f"{value:.{digits - 1}e}"
    yield float(text)
    if abs(math.frexp(value)[0]) == _POWER_OF_TWO:
        number = Decimal(text)
        yield float(
            number + Decimal((number.as_tuple().sign, (1,), number.adjusted() - digits + 1))
        )


_LIMIT = 2.0**128
"""Larger than all numbers of REAL."""
_NORMAL = 2.0**-126
"""Smaller numbers have fewer digits."""
_POWER_OF_TWO = 0.5
"""The mantissa of a power of two, as `frexp` has it."""


def text_of_real(value: float) -> str:
    """A REAL as PostgreSQL prints it.

    >>> text_of_real(real_of(0.1)), text_of_real(1e6), text_of_real(real_of(12345678.9))
    ('0.1', '1e+06', '1.2345679e+07')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    number = Decimal(repr(shortest(value))).normalize()
    if not number or number.adjusted() in _PLAIN:
        return f"{number:f}"
    sign, digits, _ = number.as_tuple()
    first, rest = digits[0], "".join(map(str, digits[1:]))
    mantissa = f"{first}.{rest}" if rest else f"{first}"
    exponent = number.adjusted()
    return f"{'-' * sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
