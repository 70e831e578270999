"""Ranges of row keys, given by values."""

from __future__ import annotations

from dataclasses import dataclass

from hornbeam_server.schema.types import Value


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys between two tuples of key values; a tuple shorter than the key is a prefix.

    `prefix` holds equalities on the first key columns; `low` and `high` bound the next column. The
    terms are SQL's: for a descending key part `low` is still the smaller value. NULLs match only
    `prefix` values of None and an open range (`low` and `high` both None).
    """

    prefix: tuple[Value, ...] = ()
    low: Value = None
    low_inclusive: bool = True
    high: Value = None
    high_inclusive: bool = True
