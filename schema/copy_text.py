r"""The text format of PostgreSQL's COPY: lines of fields, with escapes that begin with a backslash.

A field that is `\N` is NULL. A backslash before a delimiter or a line feed makes it a part of the
field.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

NULL = r"\N"
ESCAPES = {"b": "\b", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "f": "\f"}
"""The characters that escapes of a letter mean."""
OF_BYTES = r"(?P<bytes>(?:\\(?:x[0-9a-fA-F]{1,2}|[0-7]{1,3}))+)"
"""Escapes of adjacent bytes, which are UTF-8 together."""
_ESCAPE = re.compile(rf"{OF_BYTES}|\\(?P<other>.)", re.DOTALL)


def fields_of(line: str, delimiter: str = "\t", null: str = NULL) -> list[str | None]:
    r"""The fields of a line without its end; None is NULL. Escaped bytes that are not UTF-8 become
    surrogates (`surrogateescape`).

    >>> fields_of(r"a\tb|\N|c\|d", "|")
    ['a\tb', None, 'c|d']
    """
    if "\\" not in line:
        return [None if field == null else field for field in line.split(delimiter)]
    whole = f"\\{delimiter}" not in line
    parts = line.split(delimiter) if whole else _divided(delimiter)(line)
    return [None if part == null else unescaped(part) for part in parts]


def continues(line: str) -> bool:
    """Is the line feed behind this line a part of its last field?"""
    return line.endswith("\\") and (len(line) - len(line.rstrip("\\"))) % 2 == 1


def unescaped(text: str) -> str:
    """A text with the characters that its escapes mean."""
    return _ESCAPE.sub(unescaped_match, text) if "\\" in text else text


def unescaped_match(found: re.Match[str]) -> str:
    """The characters of an escape (group `other`), or of adjacent bytes (group `bytes`)."""
    if found["bytes"]:
        codes = (int(each[1:], 16) if each[0] == "x" else int(each, 8)
                 for each in found["bytes"].split("\\")[1:])  # fmt: skip
        return bytes(code & 0xFF for code in codes).decode(errors="surrogateescape")
    escape = found["other"]
    return ESCAPES.get(escape, escape)


@lru_cache(maxsize=64)
def _divided(delimiter: str) -> Callable[[str], list[str]]:
    sign = re.escape(delimiter)
    field = re.compile(rf"((?:[^\\{sign}]++|\\.|\\\Z)*+)(?:{sign}|\Z)", re.DOTALL)

    def divided(line: str) -> list[str]:
        found, at = list[str](), 0
        while match := field.match(line, at):
            found.append(match[1])
            at = match.end()
            if at == match.end(1):  # no delimiter behind it
                break
        return found

    return divided
