"""The hidden row identity: the key of a relation that declares no primary key.

It is a BIGINT column that queries and writes can name, and that no `*` and no list of columns
shows. Nodes give its numbers from a counter, as they do for identity columns; they take them in
blocks, so no insert waits for another node. A number is *spread* before it is stored: consecutive
groups of numbers lie far apart, so a table that grows is written at several places, and the rows
of one batch lie side by side. Initial loads number rows by their place in the input, below zero,
where no node gives numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, count

from hornbeam_server.schema.model import Column, Default, DefaultKind, Identity, Relation
from hornbeam_server.schema.types import ColumnType, Kind

NAME = "rowid"
GROUP = 1_000
"""Numbers of one group stay side by side: those of one block of a node."""
_GROUP_BITS = GROUP.bit_length()
_SPREAD_BITS = 63 - _GROUP_BITS
LAST = GROUP << _SPREAD_BITS
"""The last number that can be spread."""
_NUMBERS = Default(DefaultKind.IDENTITY, identity=Identity(last=LAST))


def row_identity(taken: Collection[str]) -> Column:
    """The hidden column of a relation whose declared columns have the names `taken`."""
    names = chain((NAME,), (f"{NAME}_{number}" for number in count(1)))
    name = next(name for name in names if name not in taken)
    return Column(name, ColumnType(Kind.BIGINT), nullable=False, default=_NUMBERS, hidden=True)


def is_row_identity(column: Column) -> bool:
    return column.hidden and column.default == _NUMBERS


def shared_identity_name(old: Relation, new: Relation) -> str:
    """The name of a row identity, before or after a change of a relation, that a column has at the
    other time; "" if there is none."""
    for one, other in ((old, new), (new, old)):
        if one.identity is not None and one.identity.name in other.visible_names:
            return one.identity.name
    return ""


def spread(number: int) -> int:
    """The identity for a number of a counter, from 1 to `LAST`: from 0 to below 2**63, another for
    each number. It reverses the bits of the number of the group."""
    group, within = divmod(number - 1, GROUP)
    reversed_bits = int(f"{group:0{_SPREAD_BITS}b}"[::-1], 2)
    return reversed_bits << _GROUP_BITS | within


def of_loaded(origin: int) -> int:
    """The identity of a row that an initial load finds at `origin`, from 0 to below 2**63; in the
    order of the input."""
    return origin - (1 << 63)
