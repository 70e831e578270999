"""The cells of immediate views that this process writes.

Each member of a cluster has a *lane*, a number that no other member has. It stores what its commits
add to a group in one cell, under the key (group, lane). The cell is cumulative: its version at a
timestamp is the sum of all additions of the lane up to it. So writers of one group need no common
lock: transactions of one member are added up in its batches, and different members write different
cells. docs/protocols/lanes.md has the protocol and its invariants.

The newest value of a cell, with the batches in flight, is known before a transaction is handed to
the committer, and for as long as the transaction is in flight: the log stage never reads the store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from hornbeam_server.maintain.changes import Addition
from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.schema.turns import chunks, made, turn, worked_off
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.folds import plus, require_within_lane
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.limits import require_storable
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Put, TableStore

RECENT = 65_536
"""Number of cells that are kept in memory after their last use."""


class LaneCell:
    """One cell: `amounts` is its newest value, or None while it is not known."""

    __slots__ = ("__weakref__", "amounts", "codec", "key", "row_start")

    def __init__(self, codec: LayoutCodec, key: bytes, row_start: Row) -> None:
        self.codec = codec
        self.key = key
        self.row_start = row_start
        """The grouping columns and the lane."""
        self.amounts: Row | None = None

    @property
    def place(self) -> tuple[str, bytes]:
        """Its table and its key."""
        return self.codec.layout.table, self.key

    def put(self) -> Put:
        """The cell as stored; without amounts it is removed."""
        assert self.amounts is not None
        if not any(self.amounts):
            return Put(self.key, TOMBSTONE)
        return Put(self.key, self.codec.encode((*self.row_start, *self.amounts)))


@dataclass(frozen=True, slots=True)
class LaneAddition:
    """The amounts that a transaction adds to a cell."""

    cell: LaneCell
    amounts: Row


class Lanes:
    """The cells of one lane. While a transaction refers to a cell, its value stays known."""

    def __init__(self, store: TableStore, lane: Callable[[], int | None]) -> None:
        """`lane` returns None while this member has no lane."""
        self._store = store
        self._lane = lane
        self._cells: WeakValueDictionary[tuple[str, bytes], LaneCell] = WeakValueDictionary()
        self._recent: deque[LaneCell] = deque(maxlen=RECENT)

    async def prepared(
        self, additions: Sequence[Addition], codecs: Codecs
    ) -> tuple[LaneAddition, ...]:
        """The additions of a transaction with their cells, whose values are known from now on.

        Raises Unavailable if this member has no lane, or the store does not answer, and
        LimitExceeded for a group that is too large for a key.
        """
        if not additions:
            return ()
        lane = self._lane()
        if lane is None:
            raise Unavailable(
                "This node cannot write relations of immediate views: it has no lane.",
                cure="Send the transaction to another node; at most 15 nodes have lanes.",
            )
        found = await made(self._addition(addition, codecs, lane) for addition in additions)
        unknown = [each.cell for each in found if each.cell.amounts is None]
        for some in chunks(unknown):
            await self._read(some)
            await turn(some)
        return tuple(found)

    def _addition(self, addition: Addition, codecs: Codecs, lane: int) -> LaneAddition:
        codec = codecs(addition.layout)
        start = (*addition.group, lane)
        row = (*start, *addition.amounts)
        key = codec.key(row)
        place = (codec.layout.table, key)
        cell = self._cells.get(place)
        if cell is None:
            stored = Put(key, codec.encode(row))
            require_storable({codec.layout.table: [stored]})
            cell = self._cells[place] = LaneCell(codec, key, start)
        self._recent.append(cell)
        return LaneAddition(cell, addition.amounts)

    async def _read(self, cells: Sequence[LaneCell]) -> None:
        """Read the stored values of cells. No batch in flight has them: it would know them."""
        tables: dict[str, list[LaneCell]] = {}
        for cell in cells:
            tables.setdefault(cell.codec.layout.table, []).append(cell)
        for table, of_table in tables.items():
            stored = await self._store.get(table, [cell.key for cell in of_table], NEWEST)
            for cell, found in zip(of_table, stored, strict=True):
                if cell.amounts is not None:
                    continue  # another transaction has read it, and may have changed it since
                width = len(cell.row_start)
                if found is None:
                    cell.amounts = (0,) * (len(cell.codec.layout.columns) - width)
                else:
                    cell.amounts = cell.codec.decode(found.value)[width:]


async def add_all(additions: Iterable[LaneAddition]) -> None:
    """Add the amounts of a transaction to its cells. Adds nothing and raises LimitExceeded if one
    of the sums would leave the range of its lane."""
    sums = await made((each.cell, _sum(each)) for each in additions)
    for cell, amounts in sums:
        cell.amounts = amounts


def _sum(addition: LaneAddition) -> Row:
    cell = addition.cell
    amounts = tuple(map(plus, _known(cell), addition.amounts))
    require_within_lane(cell.codec.layout, cell.row_start, amounts)
    return amounts


async def values(additions: Iterable[LaneAddition]) -> dict[LaneCell, Row]:
    """The present values of the cells, which are known."""
    return dict(await made((each.cell, _known(each.cell)) for each in additions))


def _known(cell: LaneCell) -> Row:
    assert cell.amounts is not None
    return cell.amounts


def restore(values: Mapping[LaneCell, Row]) -> None:
    """Give cells back the values that they had before a batch that is not in the log."""
    for cell, amounts in values.items():
        cell.amounts = amounts


async def puts(cells: Iterable[LaneCell]) -> dict[str, list[Put]]:
    """The cells as stored, by table."""
    found: dict[str, list[Put]] = {}
    await worked_off(_encoded(cells, found))
    return found


def _encoded(cells: Iterable[LaneCell], found: dict[str, list[Put]]) -> Iterator[int]:
    """Add the cells to `found`. Yields the bytes of each."""
    for cell in cells:
        found.setdefault(cell.codec.layout.table, []).append(cell.put())
        yield len(cell.key)
