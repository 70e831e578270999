"""Advanced regular expressions of PostgreSQL, as those of Python.

A pattern is parsed and written again, since escapes, classes of characters and options differ.
PostgreSQL takes the longest of the matches that begin first, or the shortest if the first
quantifier of the expression is not greedy; Python takes the first one that it finds. So, where the
two may differ, longer or shorter matches are tried.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hornbeam_server.schema.errors import TypeMismatch

FARTHEST = 1_000
"""The number of characters by which a longest or shortest match may differ from the one found."""
_LETTERS = frozenset("bceimnpqstwxg")
_ESCAPES = {
    "a": "\\x07", "b": "\\x08", "B": r"\\", "e": "\\x1b", "f": "\\f", "n": "\\n", "r": "\\r",
    "t": "\\t", "v": "\\v",
}  # fmt: skip
_CLASSES = {"d": "0-9", "s": r"\s", "w": r"\w"}
_OUTSIDE = {"D": "[^0-9]", "S": r"\S", "W": r"\W", "d": "[0-9]", "s": r"\s", "w": r"\w"}
_BEGIN, _END = r"(?<!\w)(?=\w)", r"(?<=\w)(?!\w)"
_PLACES = {"A": r"\A", "Z": r"\Z", "m": _BEGIN, "M": _END, "y": r"\b", "Y": r"\B"}
_HEX = {"x": re.compile(r"[0-9a-fA-F]{1,255}"), "u": re.compile(r"[0-9a-fA-F]{4}"),
        "U": re.compile(r"[0-9a-fA-F]{8}")}  # fmt: skip
_BOUND = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_DUPLICATES = 255
_ONCE = "{1,1}"
"""The quantifier that says whether a match is the longest or the shortest, and repeats nothing."""
_OPENING = ("(?:", "(?=", "(?!", "(?<=", "(?<!", "(")


@dataclass(frozen=True, slots=True)
class Regex:
    """A compiled expression. `greedy`: the longest match counts. `mixed`: Python may find another
    match than PostgreSQL."""

    compiled: re.Pattern[str]
    greedy: bool
    mixed: bool

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        """The match that begins first, from `start` on."""
        found = self.compiled.search(text, start)
        return self._preferred(text, found) if found is not None and self.mixed else found

    def _preferred(self, text: str, found: re.Match[str]) -> re.Match[str]:
        begin, end = found.span()
        if self.greedy:
            ends = range(min(len(text), end + FARTHEST), end, -1)
        else:
            ends = range(begin, min(end, begin + FARTHEST))
        others = (self.compiled.fullmatch(text, begin, other) for other in ends)
        return next((other for other in others if other is not None), found)

    def matches(self, text: str, start: int = 0) -> Iterator[re.Match[str]]:
        """Yield the matches that do not overlap, from `start` on."""
        while start <= len(text):
            found = self.search(text, start)
            if found is None:
                return
            yield found
            start = found.end() + (found.end() == found.start())


@functools.lru_cache(512)
def regex(pattern: str, flags: str = "") -> Regex:
    """The expression `pattern` with the options `flags`. Raises TypeMismatch."""
    unknown = sorted(set(flags) - _LETTERS)
    if unknown:
        raise TypeMismatch(f"{unknown[0]!r} is no option of regular expressions.")
    parser = _Parser(pattern, flags)
    greedy = parser.whole()
    try:
        compiled = re.compile("".join(parser.parts), re.IGNORECASE if parser.insensitive else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise _wrong(pattern, str(error)) from None
    return Regex(compiled, greedy is not False, parser.mixed and not parser.looks_around)


def _wrong(pattern: str, reason: str) -> TypeMismatch:
    shown = pattern if len(pattern) <= 60 else pattern[:57] + "..."
    return TypeMismatch(f"{shown!r} is no regular expression: {reason}.")


class _Parser:
    """Writes a pattern in Python's form. Methods return whether what they have read is greedy; None
    if it has no quantifier."""

    def __init__(self, pattern: str, flags: str) -> None:
        self.pattern = pattern
        self.parts: list[str] = []
        self.mixed = self.looks_around = False
        self._at = 0
        self._quantifiers = 0
        self._forced: str | None = None
        self._literal = "q" in flags or pattern.startswith("***=")
        if "q" not in flags and pattern.startswith(("***=", "***:")):
            self._at = 4
        options = flags.replace("g", "") + self._embedded()
        self.insensitive = False
        self._expanded = False
        self._dots_stop = self._lines = False
        for letter in options:
            self._option(letter)

    def _embedded(self) -> str:
        """The options at the beginning of the pattern, as in `(?i)abc`."""
        found = re.compile(r"\(\?([a-z]+)\)").match(self.pattern, self._at)
        if found is None or self._literal:
            return ""
        self._at = found.end()
        return found[1]

    def _option(self, letter: str) -> None:
        match letter:
            case "i":
                self.insensitive = True
            case "c":
                self.insensitive = False
            case "n" | "m":
                self._dots_stop = self._lines = True
            case "p":
                self._dots_stop, self._lines = True, False
            case "w":
                self._dots_stop, self._lines = False, True
            case "s":
                self._dots_stop = self._lines = False
            case "x" | "t":
                self._expanded = letter == "x"
            case "q":
                self._literal = True
            case "b" | "e":
                pass
            case _:
                raise _wrong(self.pattern, f"{letter!r} is no option")

    def whole(self) -> bool | None:
        if self._literal:
            self.parts.append(re.escape(self.pattern[self._at :]))
            return None
        greedy = self._alternatives()
        if self._at < len(self.pattern):
            raise _wrong(self.pattern, "a parenthesis is closed that was not opened")
        return greedy

    def _here(self, length: int = 1) -> str:
        return self.pattern[self._at : self._at + length]

    def _alternatives(self) -> bool | None:
        greedy = self._branch()
        while self._here() == "|":
            self._at += 1
            self.parts.append("|")
            self._branch()
            greedy, self.mixed = True, True
        return greedy

    def _branch(self) -> bool | None:
        greedy: bool | None = None
        while self._at < len(self.pattern) and self._here() not in "|)":
            if self._expanded and self._skipped():
                continue
            found = self._quantified()
            greedy = found if greedy is None else greedy
        return greedy

    def _skipped(self) -> bool:
        """Pass over white space and comments, which options allow."""
        if self._here().isspace():
            self._at += 1
            return True
        if self._here() != "#":
            return False
        end = self.pattern.find("\n", self._at)
        self._at = len(self.pattern) if end < 0 else end
        return True

    def _quantified(self) -> bool | None:
        begin, first, inside = self._at, len(self.parts), self._quantifiers
        greedy = self._atom()
        group = self.pattern[begin] == "("
        inside = self._quantifiers - inside
        quantifier = self._quantifier()
        if quantifier is None:
            return greedy
        times, fixed = quantifier
        self._quantifiers += 1
        lazy = (self._here() == "?") if self._forced is None or fixed else self._forced == "lazy"
        self._at += self._here() == "?"
        if self._quantifier() is not None:
            raise _wrong(self.pattern, "a quantifier follows another one")
        if group and greedy is lazy and times == _ONCE and inside == 1 and self._forced is None:
            self._read_again(begin, first, "lazy" if lazy else "greedy")
        atom = "".join(self.parts[first:])
        self.parts[first:] = [f"{atom}{times}{'?' if lazy else ''}"]
        self.mixed = self.mixed or lazy or group
        return greedy if fixed else not lazy

    def _read_again(self, begin: int, first: int, preference: str) -> None:
        """Write the group at `begin` again: as the quantifier behind it takes the longest or the
        shortest match of the group, the one in it does."""
        end, self._at, self._forced = self._at, begin, preference
        del self.parts[first:]
        self._atom()
        self._at, self._forced = end, None

    def _quantifier(self) -> tuple[str, bool] | None:
        """The quantifier here, and whether it says one number of times; None without one."""
        here = self._here()
        if here and here in "*+?":
            self._at += 1
            return here, False
        found = _BOUND.match(self.pattern, self._at)
        if found is None:
            return None
        self._at = found.end()
        least, most = int(found[1]), int(found[3] or found[1])
        if max(least, most) > _DUPLICATES or most < least:
            raise _wrong(self.pattern, "a number of repetitions is out of range")
        return found[0], found[2] is None

    def _atom(self) -> bool | None:
        here = self._here()
        if here == "(":
            return self._group()
        if here in "*+?" or (here == "{" and _BOUND.match(self.pattern, self._at)):
            raise _wrong(self.pattern, "a quantifier follows nothing")
        self._at += 1
        if here == "[":
            self.parts.append(self._bracket())
        elif here == "\\":
            self.parts.append(self._escape())
        elif here == ".":
            self.parts.append("[^\\n]" if self._dots_stop else "(?s:.)")
        elif here in "^$":
            self.parts.append(self._anchor(here))
        else:
            self.parts.append(re.escape(here))
        return None

    def _anchor(self, sign: str) -> str:
        self.looks_around = self.looks_around or sign == "$"
        if self._lines:
            return f"(?m:{sign})"
        return r"\A" if sign == "^" else r"\Z"

    def _group(self) -> bool | None:
        opened = next(sign for sign in _OPENING if self._here(len(sign)) == sign)
        if self._here(3) == "(?#":
            end = self.pattern.find(")", self._at)
            self._at = len(self.pattern) if end < 0 else end + 1
            return None
        self.looks_around = self.looks_around or opened not in ("(?:", "(")
        self._at += len(opened)
        first = len(self.parts)
        self.parts.append(opened)
        greedy = self._alternatives()
        if self._here() != ")":
            raise _wrong(self.pattern, "a parenthesis is not closed")
        self._at += 1
        self.parts[first:] = ["".join(self.parts[first:]) + ")"]
        return greedy

    # --- escapes

    def _escape(self) -> str:
        sign = self._here()
        if not sign:
            raise _wrong(self.pattern, "it ends with a backslash")
        self._at += 1
        if sign in _OUTSIDE:
            return _OUTSIDE[sign]
        if sign in _PLACES:
            self.looks_around = True
            return _PLACES[sign]
        if sign in "123456789":
            digits = re.compile(r"[0-9]*").match(self.pattern, self._at)
            assert digits is not None
            self._at += len(digits[0])
            return f"(?:\\{sign}{digits[0]})"
        return self._character(sign)

    def _character(self, sign: str) -> str:
        """The character that an escape means, for Python."""
        if sign in _ESCAPES:
            return _ESCAPES[sign]
        if sign in _HEX or sign == "0":
            reader = _HEX.get(sign, re.compile(r"[0-7]{0,2}"))
            digits = reader.match(self.pattern, self._at)
            if digits is None:
                raise _wrong(self.pattern, f"\\{sign} has no digits")
            self._at = digits.end()
            number = int(digits[0] or "0", 8 if sign == "0" else 16)
            if number > sys.maxunicode:
                raise _wrong(self.pattern, f"\\{sign} is out of range")
            return re.escape(chr(number))
        if sign == "c" and self._here():
            self._at += 1
            return re.escape(chr(ord(self.pattern[self._at - 1]) & 0x1F))
        if sign.isascii() and sign.isalnum():
            raise _wrong(self.pattern, f"\\{sign} is no escape")
        return re.escape(sign)

    # --- brackets

    def _bracket(self) -> str:
        for word, place in (("[:<:]]", _BEGIN), ("[:>:]]", _END)):
            if self._here(6) == word:
                self._at += 6
                self.looks_around = True
                return place
        negated = self._here() == "^"
        self._at += negated
        parts: list[str] = []
        while self._here() != "]" or not parts:
            parts.append(self._element())
        self._at += 1
        inside = "".join(parts) + ("\\n" if negated and self._dots_stop else "")
        return f"[{'^' if negated else ''}{inside}]"

    def _element(self) -> str:
        first, single = self._member()
        if not single or self._here() != "-" or self._here(2) == "-]":
            return first
        self._at += 1
        last, single = self._member()
        if not single:
            raise _wrong(self.pattern, "a range ends with a class")
        return f"{first}-{last}"

    def _member(self) -> tuple[str, bool]:
        """A character or a class in brackets, for Python; is it a character?"""
        here = self._here()
        if not here:
            raise _wrong(self.pattern, "a bracket is not closed")
        if self._here(2) in ("[:", "[.", "[="):
            return self._named(self._here(2)[1])
        self._at += 1
        if here != "\\":
            return re.escape(here), True
        sign = self._here()
        self._at += 1
        if sign in _CLASSES:
            return _CLASSES[sign], False
        if not sign or sign in "123456789":
            raise _wrong(self.pattern, "an escape in brackets is no character")
        return self._character(sign), True

    def _named(self, sign: str) -> tuple[str, bool]:
        end = self.pattern.find(f"{sign}]", self._at + 2)
        name = self.pattern[self._at + 2 : end]
        if end < 0:
            raise _wrong(self.pattern, "a class is not closed")
        self._at = end + 2
        if sign == ":":
            if name not in _MEMBERS:
                raise _wrong(self.pattern, f"there is no class {name!r}")
            return class_of(name), False
        if len(name) != 1:
            raise _wrong(self.pattern, f"{name!r} is no character")
        return re.escape(name), True


def _graph(sign: str) -> bool:
    return sign.isprintable() and not sign.isspace()


_MEMBERS: dict[str, Callable[[str], bool] | str] = {
    "alnum": str.isalnum,
    "alpha": str.isalpha,
    "ascii": r"\x00-\x7f",
    "blank": r"\ \t",
    "cntrl": r"\x00-\x1f\x7f-\x9f",
    "digit": "0-9",
    "graph": _graph,
    "lower": str.islower,
    "print": str.isprintable,
    "punct": lambda sign: unicodedata.category(sign)[0] in "PS",
    "space": r"\s",
    "upper": str.isupper,
    "word": r"\w",
    "xdigit": "0-9A-Fa-f",
}
"""The members of classes of characters: in Python's form, or a test of a character."""


@functools.cache
def class_of(name: str) -> str:
    """The members of a class of characters, in Python's form: ranges of Unicode."""
    test = _MEMBERS[name]
    if isinstance(test, str):
        return test
    ranges: list[str] = []
    first: int | None = None
    for code in range(sys.maxunicode + 2):
        member = code <= sys.maxunicode and test(chr(code))
        if member and first is None:
            first = code
        elif not member and first is not None:
            ranges.append(f"\\U{first:08x}-\\U{code - 1:08x}")
            first = None
    return "".join(ranges)
