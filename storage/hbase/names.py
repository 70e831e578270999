"""Names of Hornbeam's tables as HBase spells them, and back.

HBase allows letters, digits, `_`, `-` and `.` in a name, but no `-` or `.` in front. `-` is the
escape: every other byte of the name's UTF-8, and `-` itself, becomes `-` and two hexadecimal
digits. If the first byte is no ASCII letter or digit, it is escaped and a `_` goes before it. So
`order_line` stays `order_line`, `größe` becomes `gr-c3-b6-c3-9fe` and `_x` becomes `_-5fx`.
"""

from __future__ import annotations

import re

_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_PLAIN = _LETTERS | frozenset(b"_.")
_ESCAPED = re.compile(rb"-([0-9a-f]{2})")


def encode(table: str) -> bytes:
    name = table.encode()
    if name[:1] and name[0] in _LETTERS:
        return _escaped(name)
    return b"_" + b"".join(b"-%02x" % byte for byte in name[:1]) + _escaped(name[1:])


def _escaped(name: bytes) -> bytes:
    return b"".join(bytes([byte]) if byte in _PLAIN else b"-%02x" % byte for byte in name)


def decode(name: bytes) -> str:
    name = name.removeprefix(b"_")
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), name).decode()
