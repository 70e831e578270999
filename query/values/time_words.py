"""The patterns of PostgreSQL's templates for dates and times, and how a template is read."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from hornbeam_server.query.values.quotes import quoted

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
JULIAN = 1_721_425
"""The Julian day before 0001-01-01."""

_NUMBERS = {
    "HH24": 2, "HH12": 2, "HH": 2, "MI": 2, "SSSSS": 5, "SSSS": 4, "SS": 2, "MS": 3, "US": 6,
    "FF1": 1, "FF2": 2, "FF3": 3, "FF4": 4, "FF5": 5, "FF6": 6, "Y,YYY": 5, "YYYY": 4, "YYY": 3,
    "YY": 2, "Y": 1, "IYYY": 4, "IYY": 3, "IY": 2, "I": 1, "MM": 2, "DDD": 3, "IDDD": 3, "DD": 2,
    "D": 1, "ID": 1, "W": 1, "WW": 2, "IW": 2, "CC": 2, "J": 1, "Q": 1, "TZM": 3,
}  # fmt: skip
"""Patterns of digits, and how many digits they have."""
_WORDS = (
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "P.M.", "PM", "RM", "TZH", "TZ", "OF", "FX",
)  # fmt: skip
_NAMES = ("MONTH", "MON", "DAY", "DY")
"""Patterns of words, which also have a form with a capital letter."""
_PATTERNS = tuple(
    sorted(
        [
            *(spelled for name in (*_NUMBERS, *_WORDS) for spelled in (name, name.lower())),
            *(spelled for name in _NAMES for spelled in (name, name.capitalize(), name.lower())),
        ],
        key=len,
        reverse=True,
    )
)
_BEFORE = {"FM": "fill", "fm": "fill", "TM": "local", "tm": "local"}
_ENDINGS = ("TH", "th")
_SPELLED = ("SP", "sp")


class Sort(Enum):
    PATTERN = "pattern"
    SPACE = "space"
    SEPARATOR = "separator"
    CHARACTER = "character"


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a template. `text` is the pattern in upper case, or a character; `written` is the
    pattern as it is written. `fill` is FM, `local` TM, `ending` TH or th."""

    sort: Sort
    text: str
    written: str = ""
    fill: bool = False
    local: bool = False
    ending: str = ""

    @property
    def is_number(self) -> bool:
        return self.sort is Sort.PATTERN and self.text in _NUMBERS

    @property
    def digits(self) -> int:
        return _NUMBERS.get(self.text, 0)


@functools.lru_cache(256)
def nodes_of(text: str) -> tuple[Node, ...]:
    """The parts of a template."""
    return tuple(_nodes(text))


def _nodes(text: str) -> Iterator[Node]:
    at = 0
    while at < len(text):
        node, end = _pattern(text, at)
        if node is not None:
            yield node
            at = end
        elif text[at] == '"':
            characters, at = quoted(text, at)
            yield from (Node(Sort.CHARACTER, each) for each in characters)
        elif end > at:
            at = end  # FM alone
        else:
            at += text.startswith('\\"', at)
            yield _character(text[at])
            at += 1


def _pattern(text: str, start: int) -> tuple[Node | None, int]:
    """The pattern at `start` with what stands before and behind it, and its end."""
    fill, local, at = False, False, start
    before = _BEFORE.get(text[at : at + 2])
    if before is not None:
        fill, local, at = before == "fill", before == "local", at + 2
    found = next((p for p in _PATTERNS if text.startswith(p, at)), None)
    if found is None:
        return None, at
    at += len(found)
    behind = text[at : at + 2]
    ending = behind if behind in _ENDINGS else ""
    at += 2 if ending or behind in _SPELLED else 0
    return Node(Sort.PATTERN, found.upper(), found, fill, local, ending), at


def _character(sign: str) -> Node:
    if sign.isspace():
        return Node(Sort.SPACE, sign)
    return Node(Sort.SEPARATOR if is_separator(sign) else Sort.CHARACTER, sign)


def is_separator(sign: str) -> bool:
    return sign.isascii() and sign.isprintable() and not sign.isalnum() and sign != " "
