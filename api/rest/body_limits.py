"""JSON bodies, decoded in short steps, so that other requests go on.

Decoding is one call of C code, and no other Python thread runs before the call returns. Its time
depends on more than the number of bytes: a float of 17 digits may take 10 µs, a key of an object
0.5 µs. So a long body is decoded in a thread, value by value, after its values have been counted.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hornbeam_server.schema.errors import LimitExceeded

SHORT_BYTES = 16 * 1024
"""Maximum size of a body that one call decodes: at most some 10 ms of work."""
MAX_VALUES = 500_000
"""Maximum number of values and keys of a body, approximately: its commas and opening brackets are
counted."""
MAX_LONG_DEPTH = 16
"""Maximum nesting depth of arrays and objects of more than SHORT_BYTES each: every level is read
again."""
_SLICE = 1 << 20
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SPACE = b" \t\r\n"


def read_json(body: bytes) -> Any:
    """Decode a body as strict JSON (RFC 8259): no NaN, no infinities, no lone surrogates.

    Raises LimitExceeded for too many values; msgspec.MsgspecError, UnicodeDecodeError or
    RecursionError for a body that is no JSON or is nested too deeply.
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
    """The first byte of `part` that is no white space."""
    view = memoryview(part)
    for start in range(0, len(view), _SLICE):
        if found := bytes(view[start : start + _SLICE]).lstrip(_SPACE)[:1]:
            return found
    return b""
