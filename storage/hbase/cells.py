"""The form of rows in HBase: one column, `d:r`, with one cell per version at its timestamp.

**Keys** are the row keys of the port. HBase has no empty row key, so a key of nothing but zero
bytes (also the empty one) gets one more zero byte. This keeps the order; reads undo it.

**Values** are the values of the port, but for a first byte 0xff, the mark:

=====================  ==========================================================
`mark`                 a tombstone
`mark, 16 bytes, v`    the value v (or, if that is empty, a tombstone), signed
=====================  ==========================================================

A tombstone is not an empty cell, since HBase's check-and-put takes an empty cell for an absent
one. A value that begins with the mark is stored signed with zeros. `check_and_put` signs with
16 random bytes, so that only this one version has the bytes of its cell: see
`HBaseStore.check_and_put`.
"""

from __future__ import annotations

import os
from typing import Any

from hornbeam_server.storage.hbase.interface import THRIFT

FAMILY, QUALIFIER = b"d", b"r"
COLUMNS = [THRIFT.TColumn(family=FAMILY, qualifier=QUALIFIER)]
"""The columns that every read asks for."""
FLUSHED = b"s"
"""Qualifier of the cells that `flush` writes, in rows that may have no other cell."""
MARK = b"\xff"
_SIGNATURE = 16
_VALUE = len(MARK) + _SIGNATURE
"""Offset of the value behind a signature."""


def stored_key(key: bytes) -> bytes:
    return key if key.strip(b"\0") else key + b"\0"


def key_of(stored: bytes) -> bytes:
    return stored if stored.strip(b"\0") else stored[:-1]


def stored_value(value: bytes) -> bytes:
    if not value:
        return MARK
    return value if value[:1] != MARK else MARK + bytes(_SIGNATURE) + value


def signed(value: bytes) -> bytes:
    """`value` as a cell that no other version equals."""
    return MARK + os.urandom(_SIGNATURE) + value


def is_signed(stored: bytes) -> bool:
    """True if no other version has these bytes."""
    return stored[:1] == MARK and any(stored[1:_VALUE])


def value_of(stored: bytes) -> bytes:
    return stored if stored[:1] != MARK else stored[_VALUE:]


def is_plain(stored: bytes, value: bytes) -> bool:
    """True if a stored key and its stored value are those that readers get."""
    return value[:1] != MARK and bool(stored.strip(b"\0"))


def get_of(row: bytes, when: Any, versions: int) -> Any:
    """A request for the newest `versions` versions of a row, in the time range `when`."""
    return THRIFT.TGet(row=row, columns=COLUMNS, timeRange=when, maxVersions=versions)
