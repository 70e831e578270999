"""Ranges of row keys, in terms of their values."""

from __future__ import annotations

from dataclasses import dataclass

from hornbeam_server.schema.types import Value


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys between two tuples of key values; a tuple shorter than the key is a prefix.

    `prefix` are equalities on the first key columns; `low`/`high` bound the next one. All in
    SQL's terms: for a descending key part `low` is still the smaller value. NULLs match nothing
    but `prefix` values of None and an open range (`low` and `high` both None).
    """

    prefix: tuple[Value, ...] = ()
    low: Value = None
    low_inclusive: bool = True
    high: Value = None
    high_inclusive: bool = True
