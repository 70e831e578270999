"""JSON bodies, read in steps that are short each, so that other requests go on.

Decoding is one call of C code, which lets no other Python thread run before it returns. What it
takes depends on more than bytes: a float of 17 digits may take 10 µs, a key of an object 0.5 µs.
So a long body is read in a thread, value by value, after its values have been counted.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hornbeam_server.schema.errors import LimitExceeded

SHORT_BYTES = 16 * 1024
"""A body of so many bytes is decoded by one call: at most some 10 ms of work."""
MAX_VALUES = 500_000
"""Values and keys of one body, about: its commas and opening brackets are counted."""
MAX_LONG_DEPTH = 16
"""How deeply arrays and objects of more than SHORT_BYTES may be nested in one another: each level
is read again."""
_SLICE = 1 << 20
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SPACE = b" \t\r\n"


def read_json(body: bytes) -> Any:
    """The JSON value that `body` is, as RFC 8259 has it: no NaN, no infinities, no lone surrogates.

    Raises LimitExceeded for too many values; msgspec.MsgspecError, UnicodeDecodeError or
    RecursionError for what is no JSON or is nested too deeply.
    """
    if len(body) <= SHORT_BYTES:
        return msgspec.json.decode(body)
    _require_few_values(body)
    return _read(memoryview(body), MAX_LONG_DEPTH)


def _require_few_values(body: bytes) -> None:
    count = 0
    for start in range(0, len(body), _SLICE):
        part = body[start : start + _SLICE]
        count += len(part) - len(part.translate(None, b",[{"))
        if count > MAX_VALUES:
            raise LimitExceeded(
                f"The body holds more than {MAX_VALUES} values (commas and opening brackets are"
                " counted, also those in text).",
                cure="Send less at a time, or use /v1/load for many rows.",
            )


def _read(part: memoryview | msgspec.Raw, depth: int) -> Any:
    if len(memoryview(part)) <= SHORT_BYTES:
        return msgspec.json.decode(part)
    if depth == 0:
        raise RecursionError
    match _first(part):
        case b"[":
            return [_read(item, depth - 1) for item in _ITEMS.decode(part)]
        case b"{":
            return {key: _read(item, depth - 1) for key, item in _MEMBERS.decode(part).items()}
    return msgspec.json.decode(part)


def _first(part: memoryview | msgspec.Raw) -> bytes:
    """The first byte that is no white space."""
    view = memoryview(part)
    for start in range(0, len(view), _SLICE):
        if found := bytes(view[start : start + _SLICE]).lstrip(_SPACE)[:1]:
            return found
    return b""
