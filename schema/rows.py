"""Compiled projections of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from hornbeam_server.schema.types import Row

Projection = Callable[[Row], Row]


def projection(positions: Sequence[int]) -> Projection:
    """A compiled projection: row → tuple of the values at `positions`."""
    if positions and list(positions) == list(range(positions[0], positions[0] + len(positions))):
        return itemgetter(slice(positions[0], positions[0] + len(positions)))
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda row: ()
