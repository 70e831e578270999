"""Identity columns: numbers in blocks, taken by compare-and-set; gaps are allowed."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable

from storage.ports import NEWEST, TableStore

TABLE = "s.identity"
BLOCK = 1_000
_NUMBER = struct.Struct(">q")


class IdentityBlocks:
    """Hands out 1, 2, 3, … per relation and column; a block is lost with the process."""

    def __init__(self, store: TableStore, tick: Callable[[], int]) -> None:
        self._store = store
        self._tick = tick
        self._blocks: dict[tuple[str, str], range] = {}

    async def next(self, relation: str, column: str) -> int:
        """A number never given before for this column."""
        name = (relation, column)
        while not (block := self._blocks.get(name, range(0))):
            fresh = await self._take(name)
            # Another coroutine may have taken a block meanwhile: use that up first.
            if not self._blocks.get(name):
                self._blocks[name] = fresh
        self._blocks[name] = block[1:]
        return block[0]

    async def _take(self, name: tuple[str, str]) -> range:
        key = "\0".join(name).encode()
        while True:
            (cell,) = await self._store.get(TABLE, [key], NEWEST)
            expected = cell.value if cell is not None else None
            start = _NUMBER.unpack(expected)[0] if expected is not None else 1
            value = _NUMBER.pack(start + BLOCK)
            if await self._store.check_and_put(TABLE, key, expected, value, self._tick()):
                # A number must not be given twice even if the machine fails now.
                await self._store.flush()
                return range(start, start + BLOCK)


class Numbers:
    """Identity numbers of one transaction: first those that its dry run was given, then new ones.

    `taken` is everything handed out, in order.
    """

    def __init__(self, source: IdentityBlocks, given: Iterable[tuple[str, str, int]] = ()) -> None:
        self._source = source
        self._given: dict[tuple[str, str], deque[int]] = {}
        for relation, column, number in given:
            self._given.setdefault((relation, column), deque()).append(number)
        self.taken: list[tuple[str, str, int]] = []

    async def next(self, relation: str, column: str) -> int:
        given = self._given.get((relation, column))
        number = given.popleft() if given else await self._source.next(relation, column)
        self.taken.append((relation, column, number))
        return number
