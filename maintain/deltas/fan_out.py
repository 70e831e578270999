"""Estimates of the rows that a look-up reads, by which `access.py` chooses among several.

The rows of a relation are those that were counted when the schema was last planned. A foreign key
of one column has as many values as its parent has rows; any other column has the square root of its
relation's rows, as in the choice of partial aggregates (`partials/choice.py`). A wrong estimate
costs time, never a row: every look-up finds all rows that have one of the keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hornbeam_server.maintain.deltas.lookups import (
    Joined,
    Lookup,
    Mapped,
    Narrowed,
    Stored,
    United,
)
from hornbeam_server.maintain.deltas.range_lookups import Limited
from hornbeam_server.schema.catalog import Catalog

UNCOUNTED = 10_000.0
"""Assumed rows of a relation that was not counted, and of a state."""
PASSING = 0.5
"""Assumed share of rows that pass a filter."""
MANY = 10.0
"""Assumed rows per key of look-ups of other kinds."""


class FanOut(NamedTuple):
    """The rows that a look-up reads from the store for one key, and those that it returns."""

    read: float
    found: float


def fan_out(lookup: Lookup, catalog: Catalog) -> FanOut:
    """The estimate for a look-up by single values."""
    match lookup:
        case Stored():
            rows = 1.0 if lookup.constant is not None else _stored(lookup, catalog)
            return FanOut(rows if lookup.source.base is None else 2 * rows, rows)
        case Mapped():
            inner = fan_out(lookup.inner, catalog)
            return inner._replace(found=inner.found * PASSING) if lookup.map.where else inner
        case Joined():
            first, second = fan_out(lookup.first, catalog), fan_out(lookup.second, catalog)
            return FanOut(first.read + first.found * second.read, first.found * second.found)
        case United():
            parts = [fan_out(part, catalog) for part in lookup.parts]
            return FanOut(sum(part.read for part in parts), sum(part.found for part in parts))
        case Narrowed() | Limited():
            return fan_out(lookup.inner, catalog)
    return FanOut(MANY, MANY)


def _stored(lookup: Stored, catalog: Catalog) -> float:
    """The rows of a layout under one value of its leading key columns."""
    source = lookup.source
    columns = [part.column for part in source.layout.key][: len(lookup.targets)]
    if len(columns) == len(source.layout.key):
        return 1.0
    relation = (source.base or source.layout).name
    rows = float(catalog.row_count.get(relation, UNCOUNTED))
    return max(1.0, rows / _values(relation, columns, rows, catalog))


def _values(relation: str, columns: Sequence[str], rows: float, catalog: Catalog) -> float:
    """The number of distinct values of columns of a relation."""
    schema = catalog.schema
    keys = schema.relation(relation).foreign_keys if relation in schema else ()
    parents = {
        key.columns: float(catalog.row_count.get(key.parent, UNCOUNTED / MANY)) for key in keys
    }
    single = math.prod(parents.get((column,), math.sqrt(rows)) for column in columns)
    whole = [count for names, count in parents.items() if set(names) <= set(columns)]
    return min(rows, max([single, *whole]))
