"""Guards: ranges of keys into which no other transaction commits a row.

A serializable transaction takes guards at every member before it checks that the ranges it has read
are unchanged (`read_checks`), and keeps them until it is applied (docs/protocols/guards.md). Each
member compares a transaction with the guards that it has, in the step that hands the transaction to
its log. So other transactions pay nothing while there are no guards.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.storage.read_ranges import ReadRange
from hornbeam_server.txlayer.commit.batches import Prepared
from hornbeam_server.txlayer.commit.committer import Committer

Bounds = tuple[bytes, bytes | None]
"""The keys from the first (included) to the second (excluded; None: to the last)."""


class Ranges:
    """A set of keys, as ranges by table: disjoint and in order."""

    def __init__(self, bounds: Mapping[str, Iterable[Bounds]]) -> None:
        self.by_table: dict[str, list[Bounds]] = {
            table: _merged(some) for table, some in bounds.items()
        }
        self._starts = {t: [start for start, _ in some] for t, some in self.by_table.items()}

    @classmethod
    def of(cls, reads: Iterable[ReadRange]) -> Ranges:
        bounds: dict[str, list[Bounds]] = {}
        for read in reads:
            bounds.setdefault(read.table, []).append((read.start, read.end))
        return cls(bounds)

    def have(self, table: str, key: bytes) -> bool:
        """Is `key` of `table` in one of the ranges?"""
        place = bisect_right(self._starts.get(table, ()), key)
        if not place:
            return False
        _, end = self.by_table[table][place - 1]
        return end is None or key < end

    def have_any(self, prepared: Prepared) -> bool:
        """Does a transaction change a row in one of the ranges?"""
        return any(
            self.have(table, put.key)
            for table, puts in prepared.writes.items()
            if table in self.by_table
            for put in puts
        ) or any(self.have(*addition.cell.place) for addition in prepared.additions)


def _merged(bounds: Iterable[Bounds]) -> list[Bounds]:
    found: list[Bounds] = []
    for start, end in sorted(bounds, key=lambda each: each[0]):
        if found and (found[-1][1] is None or start <= found[-1][1]):
            first, last = found[-1]
            found[-1] = first, None if last is None or end is None else max(last, end)
        else:
            found.append((start, end))
    return found


@dataclass(frozen=True, slots=True)
class Guarded:
    """The answer of members that guard ranges: `newest` has the newest commit of each table of the
    ranges, where one is known. All unknown commits are at or below `since`."""

    since: int = 0
    newest: Mapping[str, int] = field(default_factory=dict)

    def and_also(self, other: Guarded) -> Guarded:
        tables = {*self.newest, *other.newest}
        newest = {t: max(self.newest.get(t, 0), other.newest.get(t, 0)) for t in tables}
        return Guarded(max(self.since, other.since), newest)

    def is_unchanged(self, table: str, at: int) -> bool:
        """Is it certain that no transaction has changed `table` after snapshot `at`?"""
        return self.since <= at and self.newest.get(table, 0) <= at


async def applied_under(committer: Committer, ranges: Ranges) -> Guarded:
    """Return when all transactions that change rows in `ranges`, and that this member has handed to
    its log before the call, are applied. The ranges must be guarded. Raises Unavailable."""
    for some in chunks(committer.unapplied()):
        if any(ranges.have_any(prepared) for prepared in some):
            await committer.drain()
            break
        await turn(some)
    newest = {t: at for t in ranges.by_table if (at := committer.newest.get(t))}
    return Guarded(committer.since, newest)
