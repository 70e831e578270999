"""Spark's filters as ranges of keys.

They narrow what is read and nothing more: Spark looks at every row again. So a filter that does not
fit is left out, and of a type whose order could differ from Spark's none is used (DOUBLE has two
zeros, timestamps two kinds).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
)

from schema.catalog import Layout
from schema.types import Kind, Value
from storage.codec.keyrange import KeyRange

_TYPES: dict[Kind, type] = {
    Kind.INTEGER: int,
    Kind.BIGINT: int,
    Kind.DECIMAL: Decimal,
    Kind.BOOLEAN: bool,
    Kind.TEXT: str,
    Kind.DATE: dt.date,
}
_LOW = (GreaterThan, GreaterThanOrEqual)
_HIGH = (LessThan, LessThanOrEqual)
Comparison = EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual


def key_range(layout: Layout, filters: Iterable[Filter]) -> KeyRange:
    """The narrowest range of `layout`'s keys with all rows that pass `filters`: equalities on the
    first columns of the key, then bounds on the next."""
    by_column: dict[str, list[Comparison]] = {}
    for f in filters:
        if isinstance(f, Comparison) and _fits(layout, f):
            by_column.setdefault(f.attribute[0], []).append(f)
    prefix: list[Value] = []
    for part in layout.key:
        usable = by_column.get(part.column, [])
        equal = next((f.value for f in usable if isinstance(f, EqualTo)), None)
        if equal is None:
            low = max((f.value for f in usable if isinstance(f, _LOW)), default=None)
            high = min((f.value for f in usable if isinstance(f, _HIGH)), default=None)
            # Bounds are taken as included: Spark drops what lies on one that is not.
            return KeyRange(tuple(prefix), low, True, high, True)
        prefix.append(equal)
    return KeyRange(tuple(prefix))


def _fits(layout: Layout, f: Comparison) -> bool:
    """Is it a comparison of a column with a value of the column's own Python type?"""
    at = layout.positions.get(f.attribute[0]) if len(f.attribute) == 1 else None
    return at is not None and type(f.value) is _TYPES.get(layout.columns[at].type.kind)
