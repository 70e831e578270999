r"""Texts with escapes, as PostgreSQL writes them: E'…' with `\n`, `\u00e4` and `\xc3\xa4`, and
U&'…' with `\00e4`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hornbeam_server.schema.errors import TypeMismatch

_ESCAPE = re.compile(
    r"\\(?:u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|x(?P<hex>[0-9a-fA-F]{1,2})"
    r"|(?P<octal>[0-7]{1,3})|(?P<plain>.))|''",
    re.DOTALL,
)
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def unescaped(text: str) -> str:
    r"""The text between the quotes of E'…'. Raises UnicodeError for one that is no valid text."""
    return b"".join(_bytes(text)).decode()


def _bytes(text: str) -> Iterator[bytes]:
    """Yield the parts of the text between the quotes of E'…' in UTF-8. Raises UnicodeError."""
    at, characters = 0, ""
    for found in _ESCAPE.finditer(text):
        characters += text[at : found.start()]
        byte = _byte(found)
        if byte is None:
            characters += _character(found)
        else:
            yield _in_utf8(characters)
            yield bytes([byte])
            characters = ""
        at = found.end()
    yield _in_utf8(characters + text[at:])


def _byte(found: re.Match[str]) -> int | None:
    if found["hex"]:
        return int(found["hex"], 16)
    return int(found["octal"], 8) & 255 if found["octal"] else None


def _in_utf8(characters: str) -> bytes:
    """The characters in UTF-8, where two halves make one character. Raises UnicodeError."""
    return characters.encode("utf-16", "surrogatepass").decode("utf-16").encode()


def _character(found: re.Match[str]) -> str:
    if (plain := found["plain"]) is not None:
        return _CONTROLS.get(plain, plain)
    code = found["short"] or found["long"]
    if code is None:
        return "'"
    number = int(code, 16)
    return chr(number) if number < 0x110000 else "\ud800"  # refused with the text


_UNICODE = re.compile(
    r"\\(?:(?P<plain>\\)|u?(?P<four>[0-9a-fA-F]{4})|\+(?P<six>[0-9a-fA-F]{6})"
    r"|U(?P<eight>[0-9a-fA-F]{8})|(?P<wrong>))"
)


def unistr(text: str) -> str:
    r"""The text with its escapes `\0061`, `\+000061`, `\u0061` and `\U00000061` read."""
    joined = _UNICODE.sub(_escaped, text).encode("utf-16", "surrogatepass")
    try:
        return joined.decode("utf-16")  # joins the halves of a character
    except UnicodeDecodeError:
        raise TypeMismatch(f"{text!r} is no valid text in Unicode.") from None


def _escaped(found: re.Match[str]) -> str:
    if found["plain"]:
        return "\\"
    digits = found["four"] or found["six"] or found["eight"]
    number = int(digits, 16) if digits else 0
    if not 0 < number < 0x110000:
        raise TypeMismatch(f"{found.string!r} has a wrong escape.", cure=r"Write \0061 or \\.")
    return chr(number)
