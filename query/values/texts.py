"""PostgreSQL's functions of text: `format`, quotes, `normalize`, `unistr` and others."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from hornbeam_server.schema.assignment import text_of
from hornbeam_server.schema.errors import TypeMismatch

_RESERVED = frozenset(
    """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit
    boolean both case cast char character check coalesce collate collation column concurrently
    constraint create cross current_catalog current_date current_role current_schema
    current_time current_timestamp current_user dec decimal default deferrable desc distinct do
    else end except exists extract false fetch float for foreign freeze from full grant greatest
    group grouping having ilike in initially inner inout int integer intersect interval into is
    isnull join lateral leading least left like limit localtime localtimestamp national natural
    nchar none normalize not notnull null nullif numeric offset on only or order out outer
    overlaps overlay placing position precision primary real references returning right row
    select session_user setof similar smallint some substring symmetric table tablesample then
    time timestamp to trailing treat trim true union unique user using values varchar variadic
    verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest
    xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
    """.split()  # noqa: SIM905  (a list has a line for each word)
)
"""Keywords of PostgreSQL 15 that a name may not be without quotes."""
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def shown(value: Any) -> str | None:
    """A value as the text that PostgreSQL shows: a boolean is one letter."""
    if isinstance(value, bool):
        return "t" if value else "f"
    return value if isinstance(value, str) else text_of(value)


def quote_ident(name: str) -> str:
    """The name, in quotes if it needs them."""
    if _PLAIN.fullmatch(name) and name not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_literal(value: Any) -> str:
    """A value as a literal of text."""
    plain = value if isinstance(value, str) else text_of(value) or ""
    text = plain.replace("'", "''")
    return f"E'{text.replace(_BACKSLASH, _BACKSLASH * 2)}'" if _BACKSLASH in text else f"'{text}'"


def quote_nullable(value: Any) -> str:
    return "NULL" if value is None else quote_literal(value)


_BACKSLASH = "\\"

# ---------------------------------------------------------------- format

_SPECIFIER = re.compile(
    r"%(?:(?P<percent>%)|(?:(?P<place>[0-9]+)\$)?(?P<flag>-*)"
    r"(?:(?P<width>[0-9]+)|\*(?:(?P<width_place>[0-9]+)\$|(?P<next_width>)))?"
    r"(?P<kind>[sIL]))"
)


def format_text(template: str, values: Sequence[str | None] | None) -> str:
    """PostgreSQL's `format`, whose values are texts. Raises TypeMismatch."""
    given = values or ()
    parts: list[str] = []
    at, last = 0, 0
    while (found := template.find("%", at)) >= 0:
        specifier = _SPECIFIER.match(template, found)
        if specifier is None:
            raise TypeMismatch(
                f"The text {template!r} of format has a wrong specifier at {template[found:]!r}.",
                cure="Write %s, %I, %L or %%, with a position n$, - and a width between.",
            )
        parts.append(template[at:found])
        at = specifier.end()
        if specifier["percent"]:
            parts.append("%")
            continue
        width, last = _width(specifier, given, last)
        last = int(specifier["place"]) if specifier["place"] else last + 1
        text = _converted(specifier["kind"], _argument(given, last))
        left = bool(specifier["flag"]) or width < 0
        parts.append(text.ljust(abs(width)) if left else text.rjust(width))
    return "".join((*parts, template[at:]))


def _width(found: re.Match[str], given: Sequence[str | None], last: int) -> tuple[int, int]:
    """The width of a specifier, which may be a value, and the last value that was taken."""
    if found["width"] is not None:
        return int(found["width"]), last
    if found["width_place"] is None and found["next_width"] is None:
        return 0, last
    place = int(found["width_place"]) if found["width_place"] else last + 1
    text = _argument(given, place) or "0"
    try:
        return int(text), place
    except ValueError:
        raise TypeMismatch(f"{text!r} is no width for format.") from None


def _argument(given: Sequence[str | None], place: int) -> str | None:
    if not 1 <= place <= len(given):
        raise TypeMismatch(
            f"format has no value {place}.", cure="Give one value for each specifier."
        )
    return given[place - 1]


def _converted(kind: str, text: str | None) -> str:
    if kind == "L":
        return quote_nullable(text)
    if kind == "s":
        return text or ""
    if text is None:
        raise TypeMismatch("NULL is no name for %I.", cure="Give a text.")
    return quote_ident(text)


# ---------------------------------------------------------------- characters


def character(code: int) -> str:
    """`chr`. Raises TypeMismatch for a number that is no character."""
    if not 0 < code < 0x110000 or 0xD800 <= code < 0xE000:
        raise TypeMismatch(f"{code} is no character.")
    return chr(code)


def split_part(text: str, separator: str, number: int) -> str:
    """The part of this number between separators; a negative number counts from the end."""
    if number == 0:
        raise TypeMismatch("There is no part 0.", cure="Parts are numbered from 1, or from -1.")
    parts = text.split(separator) if separator else [text]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def normalize(text: str, form: str = "NFC") -> str:
    if form.upper() not in ("NFC", "NFD", "NFKC", "NFKD"):
        raise TypeMismatch(f"{form!r} is no form of Unicode.", cure="Write NFC, NFD, NFKC or NFKD.")
    return unicodedata.normalize(form.upper(), text)  # type: ignore[arg-type]
