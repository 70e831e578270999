"""Values of JSON and the canonical text of JSONB.

Two texts are the same JSONB value exactly if their canonical texts are equal: keys are sorted by
length and bytes, the last of equal keys counts, strings have the fewest escapes, and numbers have
all their digits but no exponent and no zeros at the end of a fraction. The form is that of
PostgreSQL, which keeps these zeros.
"""

from __future__ import annotations

import json
import re
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

MAX_JSON_DEPTH = 500
"""Maximum nesting of arrays and objects. The interpreter's own limit differs by version."""
MAX_NUMBER_DIGITS = 1_000
"""Maximum digits before and behind the point of a number."""
_SHORT_NUMBER = 18
_CACHED_TEXT = 200
"""Maximum characters of a text whose value is cached: constants of statements are read per row."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_ZERO_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_PLAIN_NUMBER = Context(prec=4 * MAX_NUMBER_DIGITS)


def require_shallow(text: str) -> None:
    """Raises ValueError if arrays and objects are nested too deeply."""
    if text.count("[") + text.count("{") <= MAX_JSON_DEPTH:
        return
    depth = 0
    for bracket in re.findall(r"[\[{}\]]", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_JSON_DEPTH:
            raise ValueError(f"it is nested too deeply: more than {MAX_JSON_DEPTH} levels")


def canonical(text: str) -> str:
    """The canonical text of a JSON text. Raises ValueError for text that is not JSONB."""
    return write(read(text))


def read(text: str) -> Any:
    """The value of a JSON text, which is not to be changed: dict, list, str, bool, None, int, or
    Decimal for a number with a fraction. Raises ValueError."""
    return _cached(text) if len(text) <= _CACHED_TEXT else _read(text)


def _read(text: str) -> Any:
    require_shallow(text)
    if "\\u0000" in text and _ZERO_BYTE.search(text):
        raise ValueError(r"the character \u0000 is no text")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ArithmeticError:
        raise ValueError("a number is out of range") from None


_cached = lru_cache(1_024)(_read)


def _number(digits: str) -> int | Decimal:
    """A number without an exponent; an integer if it is whole. Raises ValueError if it is long."""
    if len(digits) <= _SHORT_NUMBER and digits.lstrip("-").isdigit():
        return int(digits)
    number = Decimal(digits)
    last = int(number.as_tuple().exponent)
    if number and (number.adjusted() >= MAX_NUMBER_DIGITS or last < -MAX_NUMBER_DIGITS):
        raise ValueError(
            f"a number has more than {MAX_NUMBER_DIGITS} digits before or behind the point"
        )
    if not number:
        return 0
    short = number.normalize(_PLAIN_NUMBER)
    return int(short) if short == short.to_integral_value() else short


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_float=_number, parse_int=_number, parse_constant=_constant)
_quoted = json.encoder.encode_basestring
"""A string in quotes; only quotes, backslashes and control characters are escaped."""


def write(value: Any) -> str:
    """The canonical text of a value. Raises ValueError for strings that are not Unicode text."""
    parts: list[str] = []
    _write(value, parts)
    text = "".join(parts)
    if not text.isascii():
        text.encode()  # raises for half a surrogate pair
    return text


def _write(value: Any, parts: list[str]) -> None:
    match value:
        case str():
            parts.append(_quoted(value))
        case None | bool():
            parts.append(_WORDS[value])
        case dict():
            between = "{"
            for key in sorted(value, key=key_order):
                parts.append(f"{between}{_quoted(key)}: ")
                _write(value[key], parts)
                between = ", "
            parts.append("}" if value else "{}")
        case list():
            between = "["
            for item in value:
                parts.append(between)
                _write(item, parts)
                between = ", "
            parts.append("]" if value else "[]")
        case Decimal():
            parts.append(format(value, "f"))
        case _:
            parts.append(str(value))


_WORDS = {None: "null", True: "true", False: "false"}


def key_order(key: str) -> tuple[int, bytes]:
    """The place of a key among the keys of an object, as in PostgreSQL."""
    encoded = key.encode()
    return len(encoded), encoded
