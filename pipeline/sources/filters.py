"""Spark's filters as ranges of keys.

A range only narrows the scan; Spark applies every filter to the rows again. So unsuitable filters
are ignored, and so are filters on types whose order may differ from Spark's (DOUBLE has two zeros,
and there are two kinds of timestamps).
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

from hornbeam_server.schema.catalog import Layout
from hornbeam_server.schema.types import Kind, Value
from hornbeam_server.storage.codec.keyrange import KeyRange

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
            # All bounds are inclusive: Spark drops the rows on an exclusive bound.
            return KeyRange(tuple(prefix), low, True, high, True)
        prefix.append(equal)
    return KeyRange(tuple(prefix))


def _fits(layout: Layout, f: Comparison) -> bool:
    """Whether the filter compares a column with a value of the column's own Python type."""
    at = layout.positions.get(f.attribute[0]) if len(f.attribute) == 1 else None
    return at is not None and type(f.value) is _TYPES.get(layout.columns[at].type.kind)
