"""PostgreSQL's functions of BYTEA."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

from hornbeam_server.schema.errors import TypeMismatch

_LINE = 76
_ESCAPE = re.compile(rb"\\(?:(?P<plain>\\)|(?P<octal>[0-3][0-7]{2})|(?P<wrong>))")
_ENCODINGS = {
    "utf8": "utf-8", "unicode": "utf-8", "sqlascii": "utf-8", "latin1": "latin-1",
    "latin2": "iso8859-2", "latin9": "iso8859-15", "win1250": "cp1250",
    "win1251": "cp1251", "win1252": "cp1252",
    "koi8r": "koi8-r", "eucjp": "euc-jp", "sjis": "shift-jis", "big5": "big5", "gbk": "gbk",
    "gb18030": "gb18030", "euckr": "euc-kr",
}  # fmt: skip
"""PostgreSQL's names of encodings, without signs, and Python's."""


def _codec(name: str) -> str:
    found = _ENCODINGS.get(re.sub(r"[^a-z0-9]", "", name.lower()))
    if found is None:
        raise TypeMismatch(f"There is no encoding {name!r} here.", cure="Write UTF8 or LATIN1.")
    return found


def text_of_bytes(value: bytes, encoding: str) -> str:
    """`convert_from`. Raises TypeMismatch."""
    try:
        return value.decode(_codec(encoding))
    except UnicodeDecodeError as error:
        raise TypeMismatch(f"The bytes are no text in {encoding}: {error.reason}.") from None


def bytes_of_text(text: str, encoding: str) -> bytes:
    """`convert_to`. Raises TypeMismatch."""
    try:
        return text.encode(_codec(encoding))
    except UnicodeEncodeError:
        raise TypeMismatch(f"The text has characters that {encoding} does not have.") from None


def converted(value: bytes, source: str, target: str) -> bytes:
    return bytes_of_text(text_of_bytes(value, source), target)


def encoded(value: bytes, form: str) -> str:
    """`encode`: bytes as text in the forms hex, base64 and escape."""
    match form.lower():
        case "hex":
            return value.hex()
        case "base64":
            text = base64.b64encode(value).decode()
            return "\n".join(text[i : i + _LINE] for i in range(0, len(text), _LINE))
        case "escape":
            return "".join(_octal(byte) for byte in value)
    raise _no_form(form)


def _octal(byte: int) -> str:
    if byte == 0 or byte >= 128:
        return f"\\{byte:03o}"
    return "\\\\" if byte == 92 else chr(byte)


def _no_form(form: str) -> TypeMismatch:
    return TypeMismatch(f"There is no form {form!r} of bytes.", cure="Write hex, base64 or escape.")


def decoded(text: str, form: str) -> bytes:
    """`decode`: the bytes of a text. Raises TypeMismatch."""
    try:
        match form.lower():
            case "hex":
                return bytes.fromhex(text)
            case "base64":
                return base64.b64decode(re.sub(r"\s", "", text), validate=True)
            case "escape":
                return _ESCAPE.sub(_octet, text.encode())
    except (ValueError, binascii.Error) as error:
        raise TypeMismatch(f"The text is no {form.lower()} form of bytes: {error}.") from None
    raise _no_form(form)


def _octet(found: re.Match[bytes]) -> bytes:
    if found["plain"]:
        return found["plain"]
    if found["octal"] is None:
        raise ValueError("a backslash is written twice")
    return bytes([int(found["octal"], 8)])


# ---------------------------------------------------------------- parts


def length(value: bytes, encoding: str | None = None) -> int:
    """The number of bytes, or of the characters that they are in an encoding."""
    return len(value) if encoding is None else len(text_of_bytes(value, encoding))


def bit_length(value: bytes) -> int:
    return 8 * len(value)


def bit_count(value: bytes) -> int:
    return int.from_bytes(value).bit_count()


def part(value: bytes, start: int, count: int | None = None) -> bytes:
    """`substring`; positions before the first byte count, too."""
    if count is None:
        return value[max(start, 1) - 1 :]
    if count < 0:
        raise TypeMismatch("The length of a substring is negative.")
    return value[max(start, 1) - 1 : max(start + count - 1, 0)]


def position(value: bytes, wanted: bytes) -> int:
    return value.find(wanted) + 1


def overlaid(value: bytes, new: bytes, start: int, count: int | None = None) -> bytes:
    if start <= 0:
        raise TypeMismatch("The start of overlay is below 1.")
    behind = start + (len(new) if count is None else count)
    return value[: start - 1] + new + value[max(behind, 1) - 1 :]


def trimmed(value: bytes, signs: bytes) -> bytes:
    return value.strip(signs) if signs else value


def left_trimmed(value: bytes, signs: bytes) -> bytes:
    return value.lstrip(signs) if signs else value


def right_trimmed(value: bytes, signs: bytes) -> bytes:
    return value.rstrip(signs) if signs else value


def get_byte(value: bytes, place: int) -> int:
    """The byte at a place, counted from 0."""
    return value[_within(place, len(value))]


def set_byte(value: bytes, place: int, new: int) -> bytes:
    _within(place, len(value))
    return value[:place] + bytes([new & 255]) + value[place + 1 :]


def get_bit(value: bytes, place: int) -> int:
    """The bit at a place, counted from 0 in the first byte's lowest bit."""
    _within(place, 8 * len(value))
    return value[place // 8] >> place % 8 & 1


def set_bit(value: bytes, place: int, new: int) -> bytes:
    _within(place, 8 * len(value))
    if new not in (0, 1):
        raise TypeMismatch(f"{new} is no bit.", cure="Write 0 or 1.")
    rest = value[place // 8] & ~(1 << place % 8)
    return set_byte(value, place // 8, rest | new << place % 8)


def _within(place: int, size: int) -> int:
    if not 0 <= place < size:
        raise TypeMismatch(f"{place} is out of range: 0 to {size - 1}.")
    return place


# ---------------------------------------------------------------- hashes


def sha224(value: bytes) -> bytes:
    return hashlib.sha224(value).digest()


def sha256(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


def sha384(value: bytes) -> bytes:
    return hashlib.sha384(value).digest()


def sha512(value: bytes) -> bytes:
    return hashlib.sha512(value).digest()
