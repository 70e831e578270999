"""Compiled projections of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from hornbeam_server.schema.types import Row

Projection = Callable[[Row], Row]
_NONE = type(None)


def has_null(row: Row) -> bool:
    """Is a value of the row NULL? `None in row` would compare None with each value, for which a
    Decimal takes a microsecond."""
    return _NONE in map(type, row)


def projection(positions: Sequence[int]) -> Projection:
    """A compiled projection: row → tuple of the values at `positions`."""
    if positions and list(positions) == list(range(positions[0], positions[0] + len(positions))):
        return itemgetter(slice(positions[0], positions[0] + len(positions)))
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda row: ()
