"""Roman numerals and the endings of ordinal numbers, in templates of `to_char`."""

from __future__ import annotations

ROMAN_MONTHS = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
_ROMAN = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"),
    (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip
_ENDINGS = {"1": "st", "2": "nd", "3": "rd"}


def ending(digits: str) -> str:
    """`st`, `nd`, `rd` or `th` of a number."""
    teen = digits[-2:-1] == "1"
    return "th" if teen else _ENDINGS.get(digits[-1:], "th")


def roman(number: int) -> str | None:
    """The Roman numeral of 1 to 3999; None for other numbers."""
    if not 0 < number < 4000:
        return None
    parts = []
    for value, sign in _ROMAN:
        count, number = divmod(number, value)
        parts.append(sign * count)
    return "".join(parts)
