"""The counters of identity columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hornbeam_server.schema.model import DefaultKind, Identity, Schema


@dataclass(frozen=True, slots=True)
class Beginning:
    """The current counter of an identity column: the counter with this `number` began at `at`.
    Numbers that a node has reserved from an earlier counter are discarded. An identity column
    without an entry (in databases older than this class) has counter number 0. `cell`: the names
    of relation and column in the key of the counter's cell; "" if they are its own."""

    relation: str
    column: str
    number: int
    at: int
    cell: str = ""


@dataclass(frozen=True, slots=True)
class Counter:
    """The counter of an identity column: it counts as `identity` says, up to `last`; the counter
    with this `number` began at `at`."""

    relation: str
    column: str
    number: int
    at: int
    identity: Identity
    last: int
    cell: str
    """The names of relation and column in the keys of its cells."""


def counters_of(schema: Schema, beginnings: Iterable[Beginning]) -> dict[tuple[str, str], Counter]:
    """The counters of identity columns, by relation and column."""
    begun = {(one.relation, one.column): one for one in beginnings}
    found = {}
    for relation in schema.relations:
        for column in relation.columns:
            if column.default is None or column.default.kind is not DefaultKind.IDENTITY:
                continue
            key, identity = (relation.name, column.name), column.default.identity
            began = begun.get(key, Beginning(*key, 0, identity.start))
            numbers = column.type.integers
            edge = numbers[-1] if identity.increment > 0 else numbers[0]
            last = edge if identity.last is None else identity.last
            cell = began.cell or "\0".join(key)
            found[key] = Counter(*key, began.number, began.at, identity, last, cell)
    return found
