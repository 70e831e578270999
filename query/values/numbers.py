"""PostgreSQL's functions of numbers that DuckDB lacks."""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from typing import Any

from hornbeam_server.schema.errors import DivisionByZero, TypeMismatch
from hornbeam_server.schema.reals import real_of
from hornbeam_server.schema.types import NUMERIC_SCALE

Number = float | Decimal
_WIDE = Context(prec=200, rounding=ROUND_DOWN)


def whole_quotient(a: Decimal, b: Decimal) -> Decimal:
    """`div`: the quotient without its decimal places."""
    if not b:
        raise DivisionByZero.of(f"div({a}, {b})")
    return _WIDE.divide_int(a, b)


def greatest_divisor(a: Decimal, b: Decimal) -> Decimal:
    """`gcd` of decimals."""
    places = _places(a, b)
    return _of_units(math.gcd(_units(a, places), _units(b, places)), places)


def least_multiple(a: Decimal, b: Decimal) -> Decimal:
    """`lcm` of decimals."""
    places = _places(a, b)
    return _of_units(math.lcm(_units(a, places), _units(b, places)), places)


def _places(*numbers: Decimal) -> int:
    places = max(scale(number) for number in numbers)
    if places > NUMERIC_SCALE:
        raise TypeMismatch(
            f"A result of NUMERIC has at most {NUMERIC_SCALE} decimal places.",
            cure="Round the numbers.",
        )
    return places


def _units(number: Decimal, places: int) -> int:
    return int(_WIDE.scaleb(number, places))


def _of_units(units: int, places: int) -> Decimal:
    return _WIDE.scaleb(Decimal(units), -places)


def scale(number: Decimal) -> int:
    """The number of decimal places, with zeros at the end."""
    return max(-int(number.as_tuple().exponent), 0)


def min_scale(number: Decimal) -> int:
    """The number of decimal places, without zeros at the end."""
    return scale(_WIDE.normalize(number))


def width_bucket(value: Any, low: Any, high: Any, count: int) -> int:
    """The number of the bucket of `value` among `count` equal ones from `low` to `high`, which may
    be in either order; 0 before them, and `count + 1` behind them."""
    given = (value, low, high)
    if not all(isinstance(each, int | float | Decimal) for each in given):
        raise TypeMismatch("The value and the bounds of width_bucket are numbers.")
    if any(isinstance(each, float) for each in given):
        value, low, high = float(value), float(low), float(high)
        if math.isnan(value) or not (math.isfinite(low) and math.isfinite(high)):
            raise TypeMismatch("The bounds of width_bucket are finite, and its value is a number.")
    else:
        value, low, high = Fraction(value), Fraction(low), Fraction(high)  # with all their digits
    if count <= 0:
        raise TypeMismatch("The number of buckets of width_bucket is positive.")
    if low == high:
        raise TypeMismatch("The bounds of width_bucket differ.")
    if low > high:
        value, low, high = -value, -low, -high
    if value < low:
        return 0
    if value >= high:
        return count + 1
    return int((value - low) * count / (high - low)) + 1


def to_real(number: Number) -> float:
    """The REAL that is nearest to a number. Raises TypeMismatch for one that is out of range."""
    try:
        return real_of(number)
    except ValueError as error:
        raise TypeMismatch(f"{number} is {error}.") from None


# ---------------------------------------------------------------- angles in degrees

_EXACT = {0: 0.0, 30: 0.5, 90: 1.0}
_TANGENTS = {0: 0.0, 45: 1.0}


def _require_finite(angle: float) -> None:
    if math.isinf(angle):
        raise TypeMismatch("An angle is finite.")


def _sine(angle: float) -> float:
    """The sine of 0 to 90 degrees, exact where it is a simple number."""
    found = _EXACT.get(angle)  # type: ignore[call-overload]
    if found is not None:
        return float(found)
    if angle <= 30:
        return math.sin(math.radians(angle)) / math.sin(math.radians(30)) / 2
    return 1 - (1 - math.cos(math.radians(90 - angle))) / (1 - math.cos(math.radians(60))) / 2


def sind(angle: float) -> float:
    _require_finite(angle)
    sign, rest = math.copysign(1.0, angle), math.fmod(abs(angle), 360)
    if rest > 180:
        sign, rest = -sign, 360 - rest
    return sign * _sine(180 - rest if rest > 90 else rest)


def cosd(angle: float) -> float:
    _require_finite(angle)
    rest = math.fmod(abs(angle), 360)
    rest = 360 - rest if rest > 180 else rest
    return -_sine(rest - 90) if rest > 90 else _sine(90 - rest)


def tand(angle: float) -> float:
    _require_finite(angle)
    sign, rest = math.copysign(1.0, angle), math.fmod(abs(angle), 360)
    if rest > 180:
        sign, rest = -sign, 360 - rest
    if rest > 90:
        sign, rest = -sign, 180 - rest
    return sign * _tangent(rest) + 0.0  # 0, not -0


def _tangent(angle: float) -> float:
    if angle == 90:
        return math.inf
    found = _TANGENTS.get(angle)  # type: ignore[call-overload]
    return float(found) if found is not None else _sine(angle) / _sine(90 - angle)


def cotd(angle: float) -> float:
    _require_finite(angle)
    rest = math.fmod(angle, 360)
    if math.fmod(rest, 180) == 0:
        return math.copysign(math.inf, angle) * (1 if abs(rest) < 180 else -1)
    return 1 / tand(angle) + 0.0  # 0, not -0


_HALF_ASIN, _HALF_ACOS = math.asin(0.5), math.acos(0.5)


def _arc_sine(value: float) -> float:
    """The degrees whose sine is 0 to 1, exact where they are a simple number."""
    if value <= 0.5:
        return math.asin(value) / _HALF_ASIN * 30
    return 90 - math.acos(value) / _HALF_ACOS * 60


def _arc_cosine(value: float) -> float:
    """The degrees whose cosine is 0 to 1, exact where they are a simple number."""
    if value <= 0.5:
        return 90 - math.asin(value) / _HALF_ASIN * 30
    return math.acos(value) / _HALF_ACOS * 60


def _require_ratio(value: float) -> None:
    if abs(value) > 1:
        raise TypeMismatch(f"{value} is out of range: -1 to 1.")


def asind(value: float) -> float:
    _require_ratio(value)
    return math.copysign(_arc_sine(abs(value)), value)


def acosd(value: float) -> float:
    _require_ratio(value)
    return 90 + _arc_sine(-value) if value < 0 else _arc_cosine(value)


def atand(value: float) -> float:
    return math.atan(value) / math.atan(1) * 45


def atan2d(y: float, x: float) -> float:
    return math.atan2(y, x) / math.atan(1) * 45
