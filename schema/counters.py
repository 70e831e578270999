"""The counters of identity columns and of sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from hornbeam_server.schema.copies import Copy
from hornbeam_server.schema.model import (
    Column,
    DeclaredSequence,
    DefaultKind,
    Identity,
    Schema,
    sequence_of_column,
)
from hornbeam_server.schema.render import spelled

SEQUENCE = ""
"""The relation in the key of a declared sequence's counter; the column there is the sequence."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The current counter of an identity column or a sequence: the counter with this `number` began
    at `at`. Numbers that a node has reserved from an earlier counter are discarded. An identity
    column without an entry (in databases older than this class) has counter number 0. `cell`: the
    names of relation and column in the key of the counter's cell; "" if they are its own."""

    relation: str
    column: str
    number: int
    at: int
    cell: str = ""


@dataclass(frozen=True, slots=True)
class Counter:
    """The counter of an identity column, or of a declared sequence, which has the relation
    `SEQUENCE`: it counts as `identity` says, up to `last`; the counter with this `number` began at
    `at`. `again`: the number behind `last`, with CYCLE. `first`: the bound of a sequence at its
    other end, before which it has no number. `sequence`: the name for nextval; "" for the row
    identity, which has none."""

    relation: str
    column: str
    number: int
    at: int
    identity: Identity
    last: int
    cell: str
    """The names of relation and column in the keys of its cells."""
    again: int | None = None
    first: int | None = None
    sequence: str = ""
    written: str = ""
    """The relation or the declared sequence in SQL."""

    @property
    def shown(self) -> str:
        """The name of the counter in messages."""
        if self.relation == SEQUENCE:
            return f"sequence {self.column}"
        return f"identity column {self.relation}.{self.column}"


def counters_of(
    schema: Schema, beginnings: Iterable[Beginning], copies: Iterable[Copy] = ()
) -> dict[tuple[str, str], Counter]:
    """The counters of identity columns, by relation and column, and of declared sequences, by
    `SEQUENCE` and their names. Those of `copies`, which are not in force yet, count already."""
    begun = {(one.relation, one.column): one for one in beginnings}
    found = {}
    for key, identity, (last, again, first), sequence in chain(
        _counted(schema), _counted_by(copies)
    ):
        began = begun.get(key, Beginning(*key, 0, identity.start))
        cell = began.cell or "\0".join(key)
        written = spelled(key[0] or key[1], schema.spaces)
        found[key] = Counter(
            *key, began.number, began.at, identity, last, cell, again, first, sequence, written
        )
    return found


def sequence_names(schema: Schema) -> frozenset[str]:
    """The names of all sequences that SQL can name, also of those of identity columns."""
    return frozenset(name for *_, name in _counted(schema) if name)


_Ends = tuple[int, int | None, int | None]
"""The last number, the number behind it, and the bound at the other end."""
_Counted = tuple[tuple[str, str], Identity, _Ends, str]


def _counted(schema: Schema) -> Iterator[_Counted]:
    """Key, numbers, ends, and name of each sequence."""
    for relation in schema.relations:
        yield from _identities(relation.name, relation.columns)
    yield from map(_of_sequence, schema.sequences)


def _counted_by(copies: Iterable[Copy]) -> Iterator[_Counted]:
    """The same of the columns and sequences that come with `copies`."""
    for copy in copies:
        yield from _identities(copy.relation, map(copy.target.column, copy.draws))
        yield from map(_of_sequence, copy.sequences)


def _identities(relation: str, columns: Iterable[Column]) -> Iterator[_Counted]:
    for column in columns:
        if column.default is None or column.default.kind is not DefaultKind.IDENTITY:
            continue
        identity, numbers = column.default.identity, column.type.integers
        edge = numbers[-1] if identity.increment > 0 else numbers[0]
        last = edge if identity.last is None else identity.last
        name = "" if column.hidden else sequence_of_column(relation, column.name)
        yield (relation, column.name), identity, (last, None, None), name


def _of_sequence(sequence: DeclaredSequence) -> _Counted:
    return (SEQUENCE, sequence.name), sequence.numbers, _ends(sequence), sequence.name


def _ends(sequence: DeclaredSequence) -> _Ends:
    up = sequence.increment > 0
    last, first = (sequence.most, sequence.least) if up else (sequence.least, sequence.most)
    return last, first if sequence.cycle else None, first
