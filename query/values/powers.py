"""`sqrt`, `exp`, `ln`, `log` and `power` of NUMERIC, with as many digits as PostgreSQL computes.

PostgreSQL estimates the size of a result, and computes at least 16 significant digits, and at least
the decimal places of the arguments (numeric.c). A result is a value of `QUOTIENT`, which has 20
decimal places.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal, Overflow

from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.quotients import PLACES, QUOTIENT, first_group, scale_of

_SIGNIFICANT, _GROUP = 16, 4
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP, Emax=10**6, Emin=-(10**6))
_LOG10_OF_E = 0.434294481903252
_NEAR_ONE = Decimal("0.9"), Decimal("1.1")
_LARGE = 60
"""A result of so many digits before the point is far out of range."""
_WHOLE_POWERS = range(-(1 << 31), 1 << 31)
_TEN = Decimal(10)


def square_root(number: Decimal) -> Decimal:
    """Raises TypeMismatch, as all functions of this module do for what they are not defined for,
    and for a result that `QUOTIENT` has no room for."""
    if number < 0:
        raise TypeMismatch(f"The square root of {number} is not defined: it is negative.")
    weight, _ = first_group(number)
    size = (weight + 1) * _GROUP // 2 - 1
    return _rounded(_EXACT.sqrt(number), size, number)


def exponential(number: Decimal) -> Decimal:
    size = float(number) * _LOG10_OF_E
    _require_small(size, f"exp({number})")
    return _rounded(_EXACT.exp(number), int(size), number)


def natural_logarithm(number: Decimal) -> Decimal:
    _require_positive(number)
    return _rounded(_EXACT.ln(number), _size_of_ln(number), number)


def logarithm(base: Decimal, number: Decimal) -> Decimal:
    """The logarithm of `number` to a base."""
    _require_positive(base)
    _require_positive(number)
    if base == 1:
        raise TypeMismatch("There is no logarithm to the base 1.", cure="Choose another base.")
    found = _EXACT.divide(_EXACT.ln(number), _EXACT.ln(base))
    return _rounded(found, _size_of_ln(number) - _size_of_ln(base), base, number)


def common_logarithm(number: Decimal) -> Decimal:
    return logarithm(_TEN, number)


def power(base: Decimal, exponent: Decimal) -> Decimal:
    whole = exponent == exponent.to_integral_value()
    if not base:
        return _power_of_zero(exponent)
    if base < 0 and not whole:
        raise TypeMismatch(f"{base} ^ {exponent} is a complex number.")
    written = f"{base} ^ {exponent}"
    size = float(exponent) * math.log10(abs(base))
    _require_small(size, written)
    try:
        found = _EXACT.power(base, exponent)
    except Overflow:  # the base differs from 1 by less than a float shows
        raise _out_of_range(written) from None
    if whole and int(exponent) in _WHOLE_POWERS:
        return _rounded(found, 0, base)
    size = float(exponent) * float(_EXACT.ln(abs(base))) * _LOG10_OF_E
    return _rounded(found, int(size), base, exponent)


def _power_of_zero(exponent: Decimal) -> Decimal:
    if exponent < 0:
        raise TypeMismatch(f"0 ^ {exponent} is not defined: the power is negative.")
    return Decimal(0 if exponent else 1)


def _require_positive(number: Decimal) -> None:
    if number <= 0:
        raise TypeMismatch(f"The logarithm of {number} is not defined: it is not positive.")


def _require_small(size: float, what: str) -> None:
    if size > _LARGE:
        raise _out_of_range(what)


def _out_of_range(what: object) -> TypeMismatch:
    digits = (QUOTIENT.precision or 0) - PLACES
    return TypeMismatch(
        f"{what} is out of range: it has more than {digits} digits before the point.",
        cure="CAST an argument to DOUBLE.",
    )


def _size_of_ln(number: Decimal) -> int:
    """About the decimal exponent of the logarithm, as PostgreSQL estimates it
    (`estimate_ln_dweight`)."""
    if _NEAR_ONE[0] <= number <= _NEAR_ONE[1]:
        rest = _EXACT.subtract(number, Decimal(1))
        if not rest:
            return 0
        weight, first = first_group(rest)
        return weight * _GROUP + int(math.log10(first))
    return int(math.log10(abs(float(_EXACT.ln(number)))))


def _rounded(found: Decimal, size: int, *arguments: Decimal) -> Decimal:
    """`found`, whose decimal exponent is about `size`, with PostgreSQL's decimal places."""
    places = max(_SIGNIFICANT - size, *map(scale_of, arguments), 0)
    unit = Decimal((0, (1,), -min(places, PLACES)))
    if found and found.adjusted() > _LARGE:
        raise _out_of_range("The result")
    result = _EXACT.quantize(found, unit)
    if result.adjusted() >= (QUOTIENT.precision or 0) - PLACES:
        raise _out_of_range("The result")
    return result
