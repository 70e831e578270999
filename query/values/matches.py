"""PostgreSQL's functions of regular expressions and of the patterns of SIMILAR TO."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from hornbeam_server.query.values.regexes import regex
from hornbeam_server.schema.errors import TypeMismatch

Texts = tuple[str | None, ...]


def like(text: str, pattern: str, flags: str = "") -> bool:
    """`text ~ pattern`, and regexp_like."""
    return regex(pattern, _single(flags)).compiled.search(text) is not None


def first_part(text: str, pattern: str) -> str | None:
    """`substring(text FROM pattern)`: the first group of the first match, or the whole match."""
    found = regex(pattern).search(text)
    return None if found is None else _groups(found)[0]


def match(text: str, pattern: str, flags: str = "") -> Texts | None:
    """The groups of the first match, or the whole match without groups."""
    found = regex(pattern, _single(flags)).search(text)
    return None if found is None else _groups(found)


def all_matches(text: str, pattern: str, flags: str = "") -> tuple[Texts, ...]:
    """The groups of each match with the option `g`, and of the first one without it."""
    found = regex(pattern, flags).matches(text)
    return tuple(_groups(each) for each in (found if "g" in flags else islice(found, 1)))


def _groups(found: re.Match[str]) -> Texts:
    return found.groups() if found.re.groups else (found[0],)


def count(text: str, pattern: str, start: int = 1, flags: str = "") -> int:
    return sum(1 for _ in _from(text, pattern, start, flags))


def part(
    text: str, pattern: str, start: int = 1, number: int = 1, flags: str = "", group: int = 0
) -> str | None:
    """The match of this number, or its group; NULL without one."""
    found = _numbered(text, pattern, start, number, flags)
    _require(group >= 0, "group", group)
    return None if found is None or group > found.re.groups else found[group]


def place(
    text: str,
    pattern: str,
    start: int = 1,
    number: int = 1,
    behind: int = 0,
    flags: str = "",
    group: int = 0,
) -> int:
    """Where the match of this number, or its group, begins, or (`behind`) what follows it; 0
    without a match."""
    found = _numbered(text, pattern, start, number, flags)
    _require(behind in (0, 1), "endoption", behind)
    _require(group >= 0, "group", group)
    if found is None or group > found.re.groups or found.start(group) < 0:
        return 0
    return (found.end(group) if behind else found.start(group)) + 1


def replace(text: str, pattern: str, new: str, flags: str = "") -> str:
    """The text with `new` for the first match, or with the option `g` for all of them."""
    return _replaced(text, pattern, new, 1, 0 if "g" in flags else 1, flags)


def replace_from(
    text: str, pattern: str, new: str, start: int, number: int = 1, flags: str = ""
) -> str:
    """The text with `new` for the match of this number from `start` on; 0 means all matches."""
    _require(number >= 0, "n", number)
    return _replaced(text, pattern, new, start, number, flags)


def split(text: str, pattern: str, flags: str = "") -> Texts:
    """The parts between the matches. An empty match at the beginning, at the end or directly
    behind another match does not count."""
    parts, at = [], 0
    for found in regex(pattern, _single(flags)).matches(text):
        if found.start() < len(text) and found.end() > at:
            parts.append(text[at : found.start()])
            at = found.end()
    return (*parts, text[at:])


def _single(flags: str) -> str:
    if "g" in flags:
        raise TypeMismatch(
            "The option g is for functions of several matches.",
            cure="Write regexp_matches or regexp_replace, or leave it out.",
        )
    return flags


def _require(fits: bool, name: str, value: int) -> None:
    if not fits:
        raise TypeMismatch(f"{value} is out of range for {name}.")


def _from(text: str, pattern: str, start: int, flags: str) -> Iterator[re.Match[str]]:
    _require(start > 0, "start", start)
    return regex(pattern, _single(flags)).matches(text, start - 1)


def _numbered(text: str, pattern: str, start: int, number: int, flags: str) -> re.Match[str] | None:
    _require(number > 0, "n", number)
    return next(islice(_from(text, pattern, start, flags), number - 1, None), None)


_REFERENCE = re.compile(r"\\([1-9&\\])")


def _replaced(text: str, pattern: str, new: str, start: int, number: int, flags: str) -> str:
    """`number` 0 replaces all matches."""
    _require(start > 0, "start", start)
    parts, at = [], 0
    found = regex(pattern, flags).matches(text, start - 1)
    chosen = found if number == 0 else islice(found, number - 1, number)
    for each in chosen:
        parts += [text[at : each.start()], _filled(new, each)]
        at = each.end()
    return "".join((*parts, text[at:]))


def _filled(new: str, found: re.Match[str]) -> str:
    r"""`new` with the groups for `\1` to `\9`, and the whole match for `\&`."""

    def part(reference: re.Match[str]) -> str:
        sign = reference[1]
        if sign == "\\":
            return sign
        group = 0 if sign == "&" else int(sign)
        return (found[group] or "") if group <= found.re.groups else ""

    return _REFERENCE.sub(part, new)


# ---------------------------------------------------------------- LIKE, SIMILAR TO


def like_escape(pattern: str, escape: str) -> str:
    """A pattern of LIKE with the backslash for its escape character, as PostgreSQL's function of
    this name gives it. An empty `escape` means that no character is one."""
    _check_escape(escape)
    if escape == "\\":
        return pattern
    signs, escaped = [], False
    for sign in pattern:
        if sign == escape and not escaped:
            signs.append("\\")
            escaped = True
            continue
        signs.append("\\\\" if sign == "\\" and not escaped else sign)
        escaped = False
    return "".join(signs)


def _check_escape(escape: str) -> None:
    if len(escape) > 1:
        raise TypeMismatch("ESCAPE takes one character.", cure="Write ESCAPE '!', or ESCAPE ''.")


def similar(text: str, pattern: str, escape: str = "\\") -> bool:
    """`text SIMILAR TO pattern ESCAPE escape`."""
    return regex(regex_of_similar(pattern, escape)).compiled.search(text) is not None


def similar_part(text: str, pattern: str, escape: str) -> str | None:
    """`substring(text SIMILAR pattern ESCAPE escape)`: the part between the escaped quotes."""
    found = regex(regex_of_similar(pattern, escape)).compiled.search(text)
    if found is None:
        return None
    return found[1] if found.re.groups else found[0]


_SIGNS = {"%": ".*", "_": ".", "(": "(?:"} | {sign: f"\\{sign}" for sign in ".^$\\"}


def regex_of_similar(pattern: str, escape: str = "\\") -> str:
    """A pattern of SIMILAR TO as a regular expression. Escaped quotes divide it into three parts:
    the first takes as little as possible, the second is a group."""
    _check_escape(escape)
    parts, quotes, bracket = ["^(?:"], 0, ""
    divided = f'{escape}"' in pattern
    signs = iter(pattern)
    for sign in signs:
        if escape and sign == escape:
            escaped = next(signs, "")
            if escaped == '"' and not bracket:
                parts.append((")(", ")(?:")[quotes] if quotes < 2 else "")
                quotes += 1
            else:
                parts.append(f"\\{escaped}" if escaped else "")
        elif bracket:
            parts.append("\\\\" if sign == "\\" else sign)
            bracket = bracket + sign if sign != "]" or bracket in ("[", "[^") else ""
        else:
            bracket = "[" if sign == "[" else ""
            parts.append(_SIGNS.get(sign, sign))
            lazy = divided and not quotes and (sign in "*+?%" or parts[-1] == "}")
            parts.append("?" if lazy else "")
    if quotes > 2:
        raise TypeMismatch("A pattern has at most two escaped quotes.")
    return "".join((*parts, ")$"))
