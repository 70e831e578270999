"""Division of NUMERIC with PostgreSQL's number of decimal places.

PostgreSQL computes at least 16 significant digits, in groups of four (`select_div_scale` in its
numeric.c). A DECIMAL has one number of places for all its values, so a quotient has 20, the most
that PostgreSQL gives to a quotient of 0.0001 or more.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

from hornbeam_server.schema.errors import DivisionByZero, TypeMismatch
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind

PLACES = 20
"""The decimal places of the type of a quotient."""
QUOTIENT = ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, PLACES)
_SIGNIFICANT, _GROUP = 16, 4
_EXACT = Context(prec=4 * MAX_DECIMAL_PRECISION, rounding=ROUND_HALF_UP)
_UNIT = Decimal((0, (1,), -PLACES))
_LIMIT = 10 ** (MAX_DECIMAL_PRECISION - PLACES)


def quotient(dividend: Decimal | int, divisor: Decimal | int) -> Decimal:
    """The quotient as PostgreSQL rounds it, halves away from zero, as a value of `QUOTIENT`. The
    decimals of an argument count as its scale. Raises DivisionByZero, and TypeMismatch for a
    quotient of more than 18 digits before the point.

    >>> quotient(Decimal("10.0"), 3), quotient(1, 3)
    (Decimal('3.33333333333333330000'), Decimal('0.33333333333333333333'))
    """
    a, b = Decimal(dividend), Decimal(divisor)
    if not b:
        raise DivisionByZero.of(f"{a} / {b}")
    places = _places(a, b)
    shift_a, shift_b = (max(-int(number.as_tuple().exponent), 0) for number in (a, b))
    over = abs(int(_EXACT.scaleb(a, shift_a))) * 10 ** (places + shift_b)
    under = abs(int(_EXACT.scaleb(b, shift_b))) * 10**shift_a
    whole, rest = divmod(over, under)
    digits = (whole + (2 * rest >= under)) * 10 ** (PLACES - places)
    signed = Decimal(digits if (a < 0) is (b < 0) else -digits)
    return _checked(_EXACT.scaleb(signed, -PLACES), f"The quotient of {a} and {b}")


def product(a: Decimal, b: Decimal) -> Decimal:
    """The product with the decimal places of a quotient, rounded half away from zero. Raises
    TypeMismatch for more than 18 digits before the point."""
    exact = _EXACT.multiply(a, b)
    return _checked(_EXACT.quantize(exact, _UNIT), f"The product of {a} and {b}")


def _checked(number: Decimal, what: str) -> Decimal:
    if abs(number) < _LIMIT:
        return number or abs(number)  # no negative zero
    raise TypeMismatch(
        f"{what} is out of range: it has more than {MAX_DECIMAL_PRECISION - PLACES} digits before"
        " the point.",
        cure="CAST one of them to DOUBLE.",
    )


def _places(a: Decimal, b: Decimal) -> int:
    """The decimal places that PostgreSQL computes, but not more than `PLACES`."""
    (weight_a, first_a), (weight_b, first_b) = _first_group(a), _first_group(b)
    weight = weight_a - weight_b - (first_a <= first_b)
    return min(max(_SIGNIFICANT - weight * _GROUP, _scale(a), _scale(b)), PLACES)


def _first_group(number: Decimal) -> tuple[int, int]:
    """The first four digits that PostgreSQL stores as one, with their power of 10 000."""
    if not number:
        return 0, 0
    weight = number.adjusted() // _GROUP
    return weight, int(_EXACT.scaleb(number.copy_abs(), -weight * _GROUP))


def _scale(number: Decimal) -> int:
    """The decimal places of a number, as PostgreSQL has them. A quotient has 20 here; there it has
    those that its size gives it, and its digits."""
    places = -int(number.as_tuple().exponent)
    if places < PLACES:
        return max(places, 0)
    weight, _ = _first_group(number)
    digits = -int(number.normalize(_EXACT).as_tuple().exponent)
    return max(digits, min(_SIGNIFICANT - weight * _GROUP, _SIGNIFICANT), 0)
