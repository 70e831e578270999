"""Changes of base rows and the mutations of stored rows that follow from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from hornbeam_server.schema.types import Row


class Change(NamedTuple):
    """One base row before and after a transaction; None: the row did not or does not exist.

    A change is the net effect of the transaction on one (relation, key). An update of the primary
    key is two changes.
    """

    relation: str
    old: Row | None
    new: Row | None


class Mutation(NamedTuple):
    """One stored row before and after. `layout` names a relation, view or index; `new` None
    writes a tombstone. `key` is the encoded row key."""

    layout: str
    key: bytes
    old: Row | None
    new: Row | None


make_mutation: Callable[[tuple[str, bytes, Row | None, Row | None]], Mutation] = partial(
    tuple.__new__, Mutation
)
"""Makes a `Mutation` from a tuple, in half the time of `Mutation(…)`."""


@dataclass(frozen=True, slots=True)
class Addition:
    """The amounts that a transaction adds to one group of an immediate view.

    `layout` is the layout of the view's cells. `amounts` are the number of rows and the sums, in
    the order of the layout's columns after the lane.
    """

    layout: str
    group: Row
    amounts: Row
