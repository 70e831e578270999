"""pg_size_pretty."""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal

_KEPT, _ROUNDED = 10 * 1024, 20 * 1024 - 1
"""The numbers from which on a larger unit is shown: of bytes, and of halves of a larger unit."""
_UNITS = ("kB", "MB", "GB", "TB")
_LARGEST = "PB"


def pretty(size: Decimal) -> str:
    """A number of bytes in the unit that shows at least two digits, rounded half away from zero.
    The number of bytes itself keeps its decimal places."""
    if abs(size) < _KEPT:
        return f"{size:f} bytes"
    halves = int((size / 512).to_integral_value(ROUND_DOWN))
    for unit in _UNITS:
        if abs(halves) < _ROUNDED:
            return f"{_half(halves)} {unit}"
        halves = _divided(halves, 1024)
    return f"{_half(halves)} {_LARGEST}"


def _half(halves: int) -> int:
    return _divided(halves + (1 if halves > 0 else -1), 2)


def _divided(number: int, by: int) -> int:
    """The quotient towards zero."""
    return number // by if number >= 0 else -(-number // by)
