"""Changes of rows, and their division among subscribers. All functions are pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from hornbeam_server.schema.errors import SnapshotTooOld
from hornbeam_server.schema.types import Row

Wanted = tuple[tuple[int, Any], ...]
"""The wish of a subscriber: positions of columns, in order, each with the value that a row must
have there. Without positions it is all rows."""


class RowChange(NamedTuple):
    """A row before and after a change; None: there is no such row. `commit` is the timestamp of the
    transaction that changed it, `transaction_id` its id, and `idempotency_key` that of its request,
    if there was one. They are 0 and "" for a view, whose changes are differences between two
    moments."""

    before: Row | None
    after: Row | None
    commit: int = 0
    transaction_id: str = ""
    idempotency_key: str = ""

    @property
    def operation(self) -> str:
        if self.before is None:
            return "insert"
        return "delete" if self.after is None else "update"


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """The changes from one moment to the next, `moment`, for all subscribers with the same wish.
    `encoded` remembers the bytes that they get, by format."""

    moment: int
    changes: Sequence[RowChange]
    size: int
    """The bytes of the changes, roughly."""
    encoded: dict[Hashable, Sequence[bytes]] = field(default_factory=dict)


def too_old(message: str) -> SnapshotTooOld:
    """The error for a moment after which the changes cannot be found."""
    return SnapshotTooOld(
        message, cure="Subscribe without a moment: the stream begins with all rows."
    )


ROW_BYTES = 100
"""The memory of a row besides its texts and bytes."""


def step(moment: int, changes: Sequence[RowChange], size: Callable[[Row | None], int]) -> Step:
    """A step. `size` returns the bytes of the texts of a row."""
    sizes = (size(each.before) + size(each.after) + ROW_BYTES for each in changes)
    return Step(moment, changes, sum(sizes))


def matches(row: Row | None, wanted: Wanted) -> bool:
    return row is not None and all(row[i] == value for i, value in wanted)


def of_interest(changes: Iterable[RowChange], wanted: Wanted) -> Iterator[RowChange]:
    """The changes of the rows that a subscriber wants. A row that begins to match is inserted for
    it, and one that ends to match is deleted."""
    for change in changes:
        before = change.before if matches(change.before, wanted) else None
        after = change.after if matches(change.after, wanted) else None
        if before is not None or after is not None:
            yield change._replace(before=before, after=after)


def divided(
    changes: Sequence[RowChange], wishes: Iterable[Wanted]
) -> Mapping[Wanted, Sequence[RowChange]]:
    """The changes by wish, without wishes that no change concerns. Each change is looked at once
    for each combination of columns, however many subscribers there are."""
    by_columns: dict[tuple[int, ...], set[Wanted]] = {}
    for wanted in wishes:
        by_columns.setdefault(tuple(map(itemgetter(0), wanted)), set()).add(wanted)
    found: dict[Wanted, list[RowChange]] = {}
    for positions, known in by_columns.items():
        for change in changes:
            rows = [row for row in (change.before, change.after) if row is not None]
            for wanted in {tuple([(i, row[i]) for i in positions]) for row in rows}:
                if wanted in known:
                    found.setdefault(wanted, []).extend(of_interest([change], wanted))
    return found
