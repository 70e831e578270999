"""`to_char` and `to_number` of PostgreSQL: numbers in the form of a template such as `FM9,990.00`.

The meaning is that of PostgreSQL 15 in the locale C, also where it is odd: a template says how many
digits stand before and behind the point, where the sign is, and what fills the places without a
digit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Context, Decimal

from hornbeam_server.query.values.ordinals import ending, roman
from hornbeam_server.query.values.quotes import quoted
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION

_PATTERNS = (
    "EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "SP", "TH", "B", "C", "D", "G", "L", "S", "V",
    ",", ".", "0", "9",
)  # fmt: skip
_SIGNS = {"MI", "PL", "SG"}
_WIDE = Context(prec=2_000, rounding=ROUND_HALF_UP)
_DOUBLE_DIGITS = 15
_NO_ROMAN = "#" * 15
_DATA = "0123456789.,+-"
"""Characters of the input that `TH`, `L` and signs do not pass over."""


@dataclass(frozen=True, slots=True)
class Node:
    """A pattern of the template, or (`literal`) a character that stands for itself. `lower`: the
    pattern is written in lower case."""

    text: str
    literal: bool = False
    lower: bool = False


@dataclass(frozen=True, slots=True)
class Template:
    """A template: its patterns, and how many digits it has before (`before`) and behind
    (`behind`) the point. `zero_start` and `zero_end` are the places of its first and last `0`."""

    nodes: tuple[Node, ...] = ()
    used: frozenset[str] = frozenset()
    before: int = 0
    behind: int = 0
    shifted: int = 0
    zero_start: int = 0
    zero_end: int = 0
    sign: str = ""
    """Where `S` stands: `before` or `behind` the digits; empty without it."""
    digits_before_sign: int = 0

    @property
    def fill(self) -> bool:
        """Does FM leave out what only fills?"""
        return "FM" in self.used

    @property
    def has_point(self) -> bool:
        return not self.used.isdisjoint((".", "D"))


def nodes_of(text: str) -> Iterator[Node]:
    """The patterns and characters of a template, with text in double quotes."""
    at = 0
    while at < len(text):
        if text[at] == '"':
            characters, at = quoted(text, at)
            yield from (Node(each, literal=True) for each in characters)
            continue
        found = next((p for p in _PATTERNS if text.startswith((p, p.lower()), at)), None)
        if found is not None:
            yield Node(found, lower=text.startswith(found.lower(), at) and found.isalpha())
            at += len(found)
            continue
        at += text.startswith('\\"', at)
        yield Node(text[at], literal=True)
        at += 1


@functools.lru_cache(256)
def template_of(text: str) -> Template:
    """Raises TypeMismatch."""
    found = Template(nodes=tuple(nodes_of(text)))
    for node in found.nodes:
        if not node.literal:
            found = _with(found, node.text)
    return found


def _with(template: Template, pattern: str) -> Template:
    _check(template.used, pattern)
    used = template.used | {pattern}
    if pattern in "90":
        return _with_digit(replace(template, used=used), pattern, template)
    if pattern == "S":
        place = "behind" if template.has_point else "before"
        return replace(template, used=used, sign=place, digits_before_sign=template.before)
    return replace(template, used=used)


def _with_digit(template: Template, pattern: str, before: Template) -> Template:
    if pattern == "9" and "V" in template.used:
        return replace(template, shifted=template.shifted + 1)
    first_zero = pattern == "0" and "0" not in before.used and not template.has_point
    start = template.before + 1 if first_zero else template.zero_start
    counted = (
        replace(template, behind=template.behind + 1)
        if template.has_point
        else replace(template, before=template.before + 1)
    )
    if pattern == "9":
        return counted
    if not first_zero and "0" not in before.used:  # a zero behind the point fills no places
        counted = replace(counted, used=before.used)
    return replace(counted, zero_start=start, zero_end=counted.before + counted.behind)


_CONFLICTS: dict[str, frozenset[str]] = {
    "9": frozenset({"PR"}),
    "0": frozenset({"PR"}),
    ".": frozenset({".", "D", "V"}),
    "D": frozenset({".", "D", "V"}),
    "S": frozenset({"S", "PR"}) | _SIGNS,
    "MI": frozenset({"S"}),
    "PL": frozenset({"S"}),
    "SG": frozenset({"S"}),
    "PR": frozenset({"S"}) | _SIGNS,
    "V": frozenset({".", "D"}),
    "EEEE": frozenset({"EEEE", "B", "FM", "S", "PR", "RN", "V"}) | _SIGNS,
}
"""The patterns that may not stand before a pattern."""


def _check(used: frozenset[str], pattern: str) -> None:
    """Raises TypeMismatch for patterns that do not go together."""
    if "EEEE" in used and pattern != "EEEE":
        raise _misused("EEEE must be the last pattern of a template")
    conflict = sorted(_CONFLICTS.get(pattern, frozenset()) & used)
    if conflict:
        raise _misused(f"{pattern} may not stand behind {conflict[0]}")


def _misused(what: str) -> TypeMismatch:
    return TypeMismatch(
        f"The template is wrong: {what}.", cure="Write a template such as 'FM9990.00'."
    )


# ---------------------------------------------------------------- to_char


def number_to_char(value: int | Decimal | float, text: str) -> str:
    """A number in the form of the template `text`. Raises TypeMismatch."""
    template = template_of(text)
    if not text:
        return ""
    if "EEEE" in template.used:
        return _scientific(value, template)
    if "RN" in template.used:
        return _romans(value, template)
    template, digits, negative = _digits(value, template)
    whole, _, _ = digits.partition(".")
    if len(whole) > template.before:
        digits = f"{'#' * template.before}.{'#' * template.behind}"
    blanks = max(template.before - len(whole), 0)
    return _Writer(template, digits, blanks, "-" if negative else "+").written()


def _digits(value: int | Decimal | float, template: Template) -> tuple[Template, str, bool]:
    """The digits that are shown, and whether the number is negative. V moves the point; a DOUBLE
    has 15 digits at most."""
    moved = replace(template, before=template.before + template.shifted)
    if isinstance(value, float):
        shifted = value * 10.0**template.shifted if template.shifted else value
        whole = f"{abs(shifted):.0f}".replace("inf", "Infinity").replace("nan", "NaN")
        places = max(min(template.behind, _DOUBLE_DIGITS - len(whole)), 0)
        moved = replace(moved, behind=places)
        if not math.isfinite(shifted):
            return moved, whole, shifted < 0
        shown = f"{shifted:.{places}f}"
    else:
        exact = _WIDE.scaleb(Decimal(value), template.shifted)
        rounded = _WIDE.quantize(exact, Decimal(1).scaleb(-template.behind))
        shown = f"{rounded:f}" if rounded else f"{abs(rounded):f}"
    return moved, shown.removeprefix("-"), shown.startswith("-")


def _scientific(value: int | Decimal | float, template: Template) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f" {'#' * template.before}.{'#' * (template.behind + 4)}"
    if isinstance(value, Decimal):
        exponent = value.adjusted() if value else 0
        unit = Decimal(1).scaleb(-template.behind)
        mantissa = _WIDE.quantize(_WIDE.scaleb(value, -exponent), unit)
        shown = f"{mantissa:+f}e{exponent:+03d}"
    else:
        shown = f"{value:+.{template.behind}e}"
    return shown.replace("+", " ", 1) if shown.startswith("+") else shown


def _romans(value: int | Decimal | float, template: Template) -> str:
    if isinstance(value, float):
        number = round(value) if math.isfinite(value) else 0
    else:
        number = int(Decimal(value).to_integral_value(ROUND_HALF_UP))
    numeral = roman(number) or _NO_ROMAN
    parts = []
    for node in template.nodes:
        if node.literal:
            parts.append(node.text)
        elif node.text == "RN":
            shown = numeral.lower() if node.lower else numeral
            parts.append(shown if template.fill else shown.rjust(15))
    return "".join(parts)


@dataclass(slots=True)
class _Writer:
    """The state of writing a number: the next digit (`at`), and the place in the template
    (`place`), which counts patterns of digits and the point."""

    template: Template
    digits: str
    blanks: int
    sign: str
    at: int = 0
    place: int = 0
    inside: bool = False
    """Has a digit been written?"""
    signed: bool = False
    relevant: int | None = None
    """The last digit that FM keeps; None if it keeps all."""
    sign_place: str = ""
    in_brackets: bool = False
    count: int = 0
    exhausted: bool = False
    """Has a DOUBLE fewer digits than the template? PostgreSQL then ends the text."""
    parts: list[str] = field(default_factory=list)

    def written(self) -> str:
        self._prepare()
        for node in self.template.nodes:
            self.parts.append(node.text if node.literal else self._pattern(node))
            if self.exhausted:
                break
        return "".join(self.parts)

    def _prepare(self) -> None:
        template = self.template
        used, fill = template.used, template.fill
        self.sign_place, self.in_brackets = template.sign, "PR" in used
        self.count = template.before + template.behind - 1
        if not used.isdisjoint(_SIGNS):
            self.signed = used.isdisjoint(("PL",)) or not used.isdisjoint(("MI", "SG"))
        else:
            self.in_brackets = self.in_brackets and not (fill and self.sign == "+")
            self.signed = self.sign == "+" and fill and not self.sign_place
            if self.sign_place == "before" and template.before == template.digits_before_sign:
                self.sign_place = "behind"
        if fill and template.has_point:
            self.relevant = self._last_relevant()
        if not self.signed and not self.blanks:
            self.count += 1

    def _last_relevant(self) -> int | None:
        point = self.digits.find(".")
        if point < 0:
            return None
        last = max(len(self.digits.rstrip("0")) - 1, point)
        if self.template.zero_end > self.blanks:
            last = max(last, min(len(self.digits) - 1, self.template.zero_end - self.blanks))
        return last

    def _pattern(self, node: Node) -> str:
        fill, negative = self.template.fill, self.sign == "-"
        match node.text:
            case "9" | "0" | "." | "D":
                return self._digit(node.text)
            case "," | "G":
                return node.text.replace("G", ",") if self.inside else "" if fill else " "
            case "L":
                return " "
            case "MI":
                return "-" if negative else "" if fill else " "
            case "PL":
                return "+" if not negative else "" if fill else " "
            case "SG":
                return self.sign
            case "TH":
                whole = not (negative or self.template.has_point or self.digits[:1] == "#")
                shown = ending(self.digits) if whole else ""
                return shown if node.lower else shown.upper()
        return ""

    def _leads(self) -> bool:
        """Is the next digit a zero before the point, which is not shown?"""
        return (
            "0" not in self.template.used
            and self.at == 0
            and self.digits[:1] == "0"
            and self.template.behind != 0
        )

    def _ends_at_point(self) -> bool:
        return self.relevant is not None and self.digits[self.relevant] == "."

    def _digit(self, pattern: str) -> str:
        shown = self._sign_before(pattern) + self._place(pattern)
        self.place += 1
        return shown

    def _sign_before(self, pattern: str) -> str:
        template = self.template
        reached = self.place >= self.blanks or (
            "0" in template.used and template.zero_start - 1 == self.place
        )
        if self.signed or not reached or (self._leads() and not self._ends_at_point()):
            return ""
        if self.sign_place == "behind":
            return ""
        self.signed = True
        if self.sign_place:
            return self.sign
        if self.in_brackets:
            return " " if self.sign == "+" else "<"
        if self.sign == "-":
            return "-"
        return "" if template.fill else " "

    def _place(self, pattern: str) -> str:
        template = self.template
        zeros = "0" in template.used
        if self.place < self.blanks:
            if not zeros or template.zero_start - 1 > self.place:
                return self._ended("" if template.fill else " ")
            self.inside = True
            return self._ended("0")
        shown = self._next(pattern)
        if self.at < len(self.digits):
            self.at += 1
        return self._ended(shown)

    def _next(self, pattern: str) -> str:
        following = self.digits[self.at : self.at + 1]
        if following == ".":
            return "."
        if self.relevant is not None and self.at > self.relevant and pattern != "0":
            return ""
        if self._leads():
            if not self.template.fill:
                return " "
            return "0" if self._ends_at_point() else ""
        self.inside = True
        self.exhausted = not following
        return following

    def _ended(self, shown: str) -> str:
        """`shown`, with the sign behind the last digit."""
        end = self.count + bool(self.blanks) + self.template.has_point
        if self.relevant is not None and self.relevant == self.at:
            end = self.place
        if self.place + 1 != end:
            return shown
        if self.signed and self.in_brackets:
            return shown + (">" if self.sign == "-" else " ")
        return shown + self.sign if self.sign_place == "behind" else shown


# ---------------------------------------------------------------- to_number


def number_size(template_text: str) -> tuple[int, int]:
    """(digits, decimal places) of the numbers that a template reads. Raises TypeMismatch."""
    template = template_of(template_text)
    places = min(template.behind + template.shifted, MAX_DECIMAL_PRECISION)
    digits = template.before + template.shifted + template.behind
    return min(max(digits, places, 1), MAX_DECIMAL_PRECISION), places


def to_number(text: str, template_text: str) -> Decimal | None:
    """The number in a text of the form of the template. Raises TypeMismatch."""
    if not template_text:
        return None
    template = template_of(template_text)
    if not template.used.isdisjoint(("EEEE", "RN")):
        raise _misused("to_number does not take EEEE and RN")
    reader = _Reader(template, text)
    for node in template.nodes:
        if reader.at >= len(text):
            break
        reader.read(node)
    return _numeric(reader, text, template_text)


def _numeric(reader: _Reader, text: str, template_text: str) -> Decimal:
    template, digits = reader.template, "".join(reader.digits).removesuffix(".")
    try:
        number = Decimal(reader.sign.strip() + digits)
    except ArithmeticError:
        raise TypeMismatch(f"{text!r} has no number of the form {template_text!r}.") from None
    if len(digits.partition(".")[0].lstrip("0")) > template.before + template.shifted:
        raise TypeMismatch(f"{text!r} has more digits than {template_text!r}.")
    return _WIDE.scaleb(number, -template.shifted)


@dataclass(slots=True)
class _Reader:
    """The state of reading a number: the next character (`at`) and what has been read."""

    template: Template
    text: str
    at: int = 0
    sign: str = " "
    digits: list[str] = field(default_factory=list)
    behind: int | None = None
    """The number of digits behind the point; None before it."""

    def read(self, node: Node) -> None:
        """Read what stands for one pattern."""
        if node.literal:
            self.at += 1
            return
        match node.text:
            case "9" | "0" | "." | "D":
                self._number(node.text)
                self.at += 1
            case "," | "G":
                self.at += not self.template.fill and self._here() == ","
            case "L":
                self._pass_over(1)
            case "TH" if not self.template.has_point:
                self._pass_over(2)
            case "MI" | "PL" | "SG":
                self._sign(node.text)

    def _here(self) -> str:
        return self.text[self.at : self.at + 1]

    def _pass_over(self, count: int) -> None:
        while count and self._here() and self._here() not in _DATA:
            self.at += 1
            count -= 1

    def _sign(self, pattern: str) -> None:
        if self._here() and self._here() in {"MI": "-", "PL": "+"}.get(pattern, "+-"):
            self.sign = self._here()
            self.at += 1
        else:
            self._pass_over(1)

    def _number(self, pattern: str) -> None:
        self.at += self._here() == " "
        self._leading_sign(pattern)
        here, found = self._here(), False
        if here.isascii() and here.isdigit():
            if self.behind is not None and self.behind == self.template.behind:
                return
            self.digits.append(here)
            self.behind = None if self.behind is None else self.behind + 1
            found = True
        elif here == "." and self.template.has_point and self.behind is None:
            self.digits.append(".")
            self.behind, found = 0, True
        if self._here() and self.sign == " " and any(each != "." for each in self.digits):
            self._trailing_sign(found)

    def _leading_sign(self, pattern: str) -> None:
        if self.sign != " " or pattern not in "90" or any(each != "." for each in self.digits):
            return
        here = self._here()
        negative = here == "-" or (here == "<" and "PR" in self.template.used)
        if here and (negative or here == "+"):
            self.sign = "-" if negative else "+"
            self.at += 1

    def _trailing_sign(self, found: bool) -> None:
        """A sign behind the last digit: its place is not known before."""
        following = self.text[self.at + 1 : self.at + 2]
        if self.template.sign:
            if found and following and following in "+-":
                self.sign = following
                self.at += 1
        elif not found and not self.template.used.isdisjoint(_SIGNS) and self._here() in "+-":
            self.sign = self._here()
