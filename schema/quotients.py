"""Division of NUMERIC with PostgreSQL's number of decimal places.

PostgreSQL computes at least 16 significant digits, in groups of four (`select_div_scale` in its
numeric.c). A DECIMAL has one number of places for all its values, so a quotient has 20, the most
that PostgreSQL gives to a quotient of 0.0001 or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from math import isqrt

from hornbeam_server.schema.errors import DivisionByZero, TypeMismatch
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind

PLACES = 20
"""The decimal places of the type of a quotient."""
QUOTIENT = ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, PLACES)
_SIGNIFICANT, _GROUP = 16, 4
_EXACT = Context(prec=4 * MAX_DECIMAL_PRECISION)
_ONE = 10**PLACES
_POWERS: tuple[int, ...] = tuple(10**n for n in range(PLACES + 1))
_LIMIT = 10**MAX_DECIMAL_PRECISION


def quotient(dividend: Decimal | int, divisor: Decimal | int) -> Decimal:
    """The quotient as PostgreSQL rounds it, halves away from zero, as a value of `QUOTIENT`. The
    decimals of an argument count as its scale. Raises DivisionByZero, and TypeMismatch for a
    quotient of more than 18 digits before the point.

    >>> quotient(Decimal("10.0"), 3), quotient(1, 3)
    (Decimal('3.33333333333333330000'), Decimal('0.33333333333333333333'))
    """
    return _decimal(_quotient(_number(dividend), _number(divisor)))


def quotient_of_texts(dividend: str, divisor: str) -> str:
    """`quotient` of numbers as DuckDB writes them."""
    found = _quotient_by_count(dividend, divisor)
    return _text(_quotient(_read(dividend), _read(divisor))) if found is None else found


def _quotient_by_count(total: str, count: str) -> str | None:
    """The quotient of a number of 1 or more by a whole number, as most averages are, in two thirds
    of the time: the texts show the digits that `_first_group` finds. None for other numbers."""
    sign = "-" if total[:1] == "-" else ""
    whole, _, behind = total.removeprefix("-").partition(".")
    by_whole = count.isdecimal() and count[0] != "0"
    if not (by_whole and whole.isdecimal() and whole[0] != "0"):
        return None
    if max(len(whole), len(behind)) > _SIGNIFICANT or not f"0{behind}".isdecimal():
        return None
    above, below = len(whole) - 1, len(count) - 1
    smaller = int(whole[: above % _GROUP + 1]) <= int(count[: below % _GROUP + 1])
    weight = above // _GROUP - below // _GROUP - smaller
    places = min(max(_SIGNIFICANT - weight * _GROUP, len(behind)), PLACES)
    divisor = int(count)
    units, rest = divmod(int(whole + behind) * _POWERS[places - len(behind)], divisor)
    digits = str(units + (2 * rest >= divisor)).rjust(places + 1, "0")
    point = len(digits) - places
    return f"{sign}{digits[:point]}.{digits[point:]:0<{PLACES}}"


def product(a: Decimal | int, b: Decimal | int) -> Decimal:
    """The product with the decimal places of a quotient, rounded half away from zero. Raises
    TypeMismatch for more than 18 digits before the point."""
    return _decimal(_product(_number(a), _number(b)))


def product_of_texts(a: str, b: str) -> str:
    """`product` of numbers as DuckDB writes them."""
    return _text(_product(_read(a), _read(b)))


def remainder_of_texts(dividend: str, divisor: str) -> str:
    """The remainder of numbers as DuckDB writes them, with the sign of the dividend and the places
    of both. Raises DivisionByZero."""
    places, (over, under) = units_of((dividend, divisor))
    if not under:
        raise DivisionByZero.of(f"{dividend} % {divisor}")
    units = abs(over) % abs(under)
    return f"{_EXACT.scaleb(Decimal(-units if over < 0 else units), -places):f}"


def units_of(texts: Sequence[str]) -> tuple[int, list[int]]:
    """The most decimal places among numbers that DuckDB has written, and the numbers in units of
    it."""
    numbers = list(map(_read, texts))
    places = max((scale for _, scale in numbers), default=0)
    return places, [units * 10 ** (places - scale) for units, scale in numbers]


def deviation(
    count: int, total: int, squares: int, places: int, *, sample: bool, root: bool
) -> str | None:
    """The variance of `count` numbers, or its square root (`root`), as the text of a value of
    `QUOTIENT`; None of too few numbers. `sample`: it is that of a sample. `total` and `squares` are
    the sums of the numbers and of their squares, which are in units of `places`. Raises
    TypeMismatch for more than 18 digits before the point."""
    if count < 1 + sample:
        return None
    over = count * squares - total * total, 2 * places
    under = count * (count - sample), 0
    if not over[0]:
        return _text(0)
    scale = max(_significant(over, under), over[1])
    variance = _divided(over, under, scale)
    if root:
        shown = min(scale, PLACES)
        units = _scaled(_root(_scaled(variance, 2 * shown - scale)), PLACES - shown)
        return _text(_checked(units, "The standard deviation"))
    return _text(_checked(_scaled(variance, PLACES - scale), "The variance"))


# ---------------------------------------------------------------- numbers as units of their scale

_Number = tuple[int, int]
"""A number in units of its last decimal place, and the number of its places."""


def _number(number: Decimal | int) -> _Number:
    return (number, 0) if isinstance(number, int) else _read(f"{number:f}")


def _read(text: str) -> _Number:
    if "e" in text:  # of a literal with more digits than a DECIMAL has
        text = f"{Decimal(text):f}"
    if "." not in text:
        return int(text), 0
    whole, _, places = text.partition(".")
    return int(whole + places), len(places)


def _text(units: int) -> str:
    whole, places = divmod(abs(units), _ONE)
    return f"{'-' * (units < 0)}{whole}.{places:0{PLACES}d}"


def _decimal(units: int) -> Decimal:
    return _EXACT.scaleb(Decimal(units), -PLACES)


def _quotient(dividend: _Number, divisor: _Number) -> int:
    """The quotient in units of `PLACES`."""
    if not divisor[0]:
        raise DivisionByZero.of(f"{_shown(dividend)} / {_shown(divisor)}")
    places = min(_places(dividend, divisor), PLACES)
    units = _divided(dividend, divisor, places) * _POWERS[PLACES - places]
    return _checked(units, "The quotient of {} and {}", dividend, divisor)


def _product(a: _Number, b: _Number) -> int:
    """The product in units of `PLACES`."""
    units = _scaled(a[0] * b[0], PLACES - a[1] - b[1])
    return _checked(units, "The product of {} and {}", a, b)


def _divided(dividend: _Number, divisor: _Number, places: int) -> int:
    """The quotient in units of `places`, rounded half away from zero."""
    shift = places + divisor[1] - dividend[1]
    over, under = abs(dividend[0]), abs(divisor[0])
    if shift >= 0:
        over *= 10**shift
    else:
        under *= 10**-shift
    whole, rest = divmod(over, under)
    if 2 * rest >= under:
        whole += 1
    return whole if (dividend[0] < 0) is (divisor[0] < 0) else -whole


def _root(number: int) -> int:
    """The square root as a whole number, rounded."""
    root = isqrt(number)
    return root + (number - root * root > root)


def _scaled(units: int, shift: int) -> int:
    """Units of a scale that is greater by `shift`, rounded half away from zero."""
    power: int = 10 ** abs(shift)
    return units * power if shift >= 0 else _divided((units, 0), (power, 0), 0)


def _checked(units: int, what: str, *numbers: _Number) -> int:
    """`units`, if a quotient has room for them. Raises TypeMismatch, with `what` over `numbers`."""
    if -_LIMIT < units < _LIMIT:
        return units
    raise TypeMismatch(
        f"{what.format(*map(_shown, numbers))} is out of range: it has more than"
        f" {MAX_DECIMAL_PRECISION - PLACES} digits before the point.",
        cure="CAST one of them to DOUBLE.",
    )


def _shown(number: _Number) -> Decimal:
    return _EXACT.scaleb(Decimal(number[0]), -number[1])


# ---------------------------------------------------------------- decimal places


def scale_of(number: Decimal) -> int:
    """The decimal places that PostgreSQL has for a number."""
    return _scale(_number(number))


def first_group(number: Decimal) -> tuple[int, int]:
    """The power of 10 000 of a number, and the first four digits that PostgreSQL stores as one."""
    return _first_group(_number(number))


def _places(a: _Number, b: _Number) -> int:
    """The decimal places that PostgreSQL computes."""
    return max(_significant(a, b), _scale(a), _scale(b))


def _significant(a: _Number, b: _Number) -> int:
    """The decimal places that a quotient needs for 16 significant digits."""
    (weight_a, first_a), (weight_b, first_b) = _first_group(a), _first_group(b)
    weight = weight_a - weight_b - (first_a <= first_b)
    return max(_SIGNIFICANT - weight * _GROUP, 0)


def _first_group(number: _Number) -> tuple[int, int]:
    """The first four digits that PostgreSQL stores as one, with their power of 10 000."""
    units, scale = number
    if not units:
        return 0, 0
    digits = str(abs(units))
    weight = (len(digits) - scale - 1) // _GROUP
    behind = weight * _GROUP + scale  # the digits behind the first group
    return weight, int(digits[:-behind] if behind > 0 else digits) * 10 ** max(-behind, 0)


def _scale(number: _Number) -> int:
    """The decimal places of a number, as PostgreSQL has them. A quotient has 20 here; there it has
    those that its size gives it, and its digits."""
    units, scale = number
    if scale < PLACES:
        return scale
    weight, _ = _first_group(number)
    text = str(abs(units))
    digits = scale - (len(text) - len(text.rstrip("0"))) if units else 0
    return max(digits, min(_SIGNIFICANT - weight * _GROUP, _SIGNIFICANT), 0)
