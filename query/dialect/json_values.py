"""PostgreSQL's functions that take JSON apart. Unlike JSONB, a part keeps its text: its spaces, the
order of its keys, and keys that come twice. They raise TypeMismatch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from hornbeam_server.query.dialect.jsonb_values import of_text
from hornbeam_server.schema.errors import TypeMismatch

_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, strict=False)
_SPACE = re.compile(r"[ \t\n\r]*")


def elements(text: str) -> list[str]:
    """The elements of an array."""
    of_text(text)  # its errors
    return list(_parts(text, _begin(text, "[", "an array")))


def element_texts(text: str) -> list[str | None]:
    return [_plain(part) for part in elements(text)]


def keys(text: str) -> list[str]:
    return [key for key, _ in _members(text)]


def member_values(text: str) -> list[str]:
    return [value for _, value in _members(text)]


def member_texts(text: str) -> list[str | None]:
    return [_plain(value) for _, value in _members(text)]


def _members(text: str) -> Iterator[tuple[str, str]]:
    of_text(text)  # its errors
    parts = _parts(text, _begin(text, "{", "an object"))
    for key in parts:
        yield _DECODER.decode(key), next(parts)


def _begin(text: str, opening: str, wanted: str) -> int:
    """The position behind the opening bracket of a valid text."""
    start = _spaces(text, 0)
    if text[start] != opening:
        raise TypeMismatch(f"JSON is not {wanted}: {text[:60]}.", cure=f"Give it {wanted}.")
    return start + 1


def _parts(text: str, start: int) -> Iterator[str]:
    """The values from `start` on, up to the closing bracket: elements, or keys and members."""
    while True:
        start = _spaces(text, start)
        if text[start] in "]}":
            return
        if text[start] in ",:":
            start += 1
            continue
        _, end = _DECODER.raw_decode(text, start)
        yield text[start:end]
        start = end


def _spaces(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _plain(part: str) -> str | None:
    """The text of a part: a string without quotes, and None for null."""
    if part == "null":
        return None
    return str(_DECODER.decode(part)) if part.startswith('"') else part
