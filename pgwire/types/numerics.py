"""NUMERIC in the binary format: digits of base 10 000, as `numeric_send` of PostgreSQL writes it.

    ndigits int16 | weight int16 | sign uint16 | dscale int16 | digits int16 …

`weight` is the power of 10 000 of the first digit, `dscale` the number of decimals that are shown.
"""

from __future__ import annotations

import struct
from decimal import Decimal

_HEAD = struct.Struct("!HhHH")
_POSITIVE, _NEGATIVE, _NAN, _INFINITY, _MINUS_INFINITY = 0, 0x4000, 0xC000, 0xD000, 0xF000
_GROUP = 4
_SPECIAL = {_NAN: "NaN", _INFINITY: "Infinity", _MINUS_INFINITY: "-Infinity"}
_MAX_GROUPS = 40_000


def binary_of_numeric(value: Decimal) -> bytes:
    if not value.is_finite():
        sign = _NAN if value.is_nan() else _INFINITY if value > 0 else _MINUS_INFINITY
        return _HEAD.pack(0, 0, sign, 0)
    text = format(value.copy_abs(), "f")
    whole, _, fraction = text.partition(".")
    whole = whole.lstrip("0")
    before = -(-len(whole) // _GROUP)
    digits = whole.rjust(before * _GROUP, "0")
    digits += fraction.ljust(-(-len(fraction) // _GROUP) * _GROUP, "0")
    groups = [int(digits[at : at + _GROUP]) for at in range(0, len(digits), _GROUP)]
    weight = before - 1
    while groups and groups[0] == 0:
        del groups[0]
        weight -= 1
    while groups and groups[-1] == 0:
        del groups[-1]
    sign = _NEGATIVE if value < 0 else _POSITIVE
    head = _HEAD.pack(len(groups), weight if groups else 0, sign, len(fraction))
    return head + struct.pack(f"!{len(groups)}H", *groups)


def numeric_of_binary(data: bytes) -> Decimal:
    """Raises ValueError for other bytes."""
    if len(data) < _HEAD.size:
        raise ValueError("a numeric has a head of 8 bytes")
    count, weight, sign, scale = _HEAD.unpack_from(data)
    if sign in _SPECIAL:
        return Decimal(_SPECIAL[sign])
    if len(data) != _HEAD.size + 2 * count or sign not in {_POSITIVE, _NEGATIVE}:
        raise ValueError("a numeric has another number of digits, or another sign")
    groups = struct.unpack_from(f"!{count}H", data, _HEAD.size)
    if any(each > 9_999 for each in groups) or abs(weight) > _MAX_GROUPS:
        raise ValueError("a digit of a numeric is 0 to 9999")
    number = int("".join(f"{each:04}" for each in groups) or "0")
    places = _GROUP * (count - 1 - weight)
    text = str(number).rjust(places + 1, "0") if places > 0 else str(number) + "0" * -places
    whole, fraction = (text[:-places], text[-places:]) if places > 0 else (text, "")
    shown = f"{whole}.{fraction[:scale].ljust(scale, '0')}" if scale else whole
    return Decimal(f"-{shown}" if sign == _NEGATIVE else shown)
