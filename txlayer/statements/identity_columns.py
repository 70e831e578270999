"""Identity columns and sequences: numbers in blocks, taken by compare-and-set; gaps are allowed.

A counter (`Catalog.counters`) has a cell with the beginning of the next block. Nodes reserve
blocks, and give numbers from them without any message. A counter that begins again (RESTART, or a
table dropped and created again) is a new counter with its own cell. It comes with a new catalog,
and no transaction outlives the old one, so no node gives a number of an old block afterwards.

Loaded rows bring their own numbers. The node that loads them takes its next block behind them, and
records in a second cell, the *mark*, that numbers before the mark may be taken. Another node may
still have a block before the mark. When one of its numbers is refused because a row has it already,
that node reads the mark and gives the block up, and the transaction is retried.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from hornbeam_server.query.parsing.sequence_calls import SequenceCall
from hornbeam_server.schema.counters import SEQUENCE, Counter
from hornbeam_server.schema.errors import InvalidRequest, LimitExceeded, SqlError
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.storage.ports import NEWEST, TableStore

TABLE = "s.identity"
BLOCK = 1_000
_NUMBER = struct.Struct(">q")
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
"""The range of a cell's value. A counter at its end has no more numbers."""
_CELL, _MARK = b"\1", b"\2"
"""Prefixes of keys. No name begins with them."""


@dataclass(frozen=True, slots=True)
class _Block:
    """The rest of a block of numbers that was reserved from `begin` on."""

    begin: int = 0
    rest: range = range(0)


_NONE = _Block()
_Key = tuple[str, int]
"""The names in the keys of a counter's cells, and its number. A renamed column or sequence keeps
them."""


class IdentityBlocks:
    """Gives the numbers of counters. Unused numbers of a block are lost with the process."""

    def __init__(self, store: TableStore, tick: Callable[[], int]) -> None:
        self._store = store
        self._tick = tick
        self._blocks: dict[_Key, _Block] = {}
        self._marks: dict[_Key, int] = {}

    async def next(self, counter: Counter) -> int:
        """A number never given before for this counter. Raises LimitExceeded when none is left."""
        while not (block := self._block(counter)).rest:
            fresh = await self._take(counter, BLOCK)
            if not fresh.rest:
                raise _exhausted(counter)
            # Another coroutine may have taken a block during the wait: use that up first.
            if not self._block(counter).rest:
                self._blocks[_key(counter)] = fresh
        self._blocks[_key(counter)] = _Block(block.begin, block.rest[1:])
        return block.rest[0]

    async def move_past(self, counter: Counter, number: int, rows: int) -> None:
        """Give only numbers behind `number` from now on: `rows` rows with numbers up to it were
        loaded at once."""
        await self.move_to(counter, number + counter.identity.increment, 4 * rows)

    async def move_to(self, counter: Counter, number: int, wanted: int = BLOCK) -> None:
        """Give `number` next, unless the counter is past it. `wanted`: the size of a block that is
        worth reserving."""
        key, block, up = _key(counter), self._block(counter), counter.identity.increment > 0
        if block.rest and _before(counter, number, block.rest.stop):
            first = block.rest[0]
            first = max(first, number) if up else min(first, number)
            block = _Block(block.begin, range(first, block.rest.stop, block.rest.step))
        else:
            block = await self._take(counter, max(BLOCK, wanted), least=number)
        self._blocks[key] = block
        # No other node has numbers behind the beginning of this block.
        if key not in self._marks or _before(counter, self._marks[key], block.begin):
            await self._raise(counter, block.begin)
            self._marks[key] = block.begin

    async def give_up(self, counter: Counter, number: int) -> bool:
        """Handle a given number that a row has already. True if rows were loaded behind `number`;
        then numbers before the mark are not given any more."""
        (cell,) = await self._store.get(TABLE, [_mark(counter)], NEWEST)
        if cell is None or not _before(counter, number, _NUMBER.unpack(cell.value)[0]):
            return False
        mark = _NUMBER.unpack(cell.value)[0]
        if _before(counter, self._block(counter).begin, mark):
            self._blocks.pop(_key(counter), None)
        return True

    async def require_bounds(self, before: Counter, after: Counter) -> None:
        """Require that the bounds of a changed counter leave out neither the last number that this
        node has given nor the next one. Raises InvalidRequest."""
        following, begun = await self._next(before)
        number = following - before.identity.increment * begun
        words = ("MINVALUE", "MAXVALUE")[:: 1 if after.identity.increment > 0 else -1]
        if _before(after, after.last, number):
            raise _left_out(after, number, f"{words[1]} {after.last}")
        if after.first is not None and _before(after, number, after.first):
            raise _left_out(after, number, f"{words[0]} {after.first}")

    async def turned(self, before: Counter, after: Counter) -> int:
        """The first number of `after`, which counts in the other direction than `before`: the one
        behind the last number that this node has given. Raises InvalidRequest."""
        await self.require_bounds(before, after)
        following, begun = await self._next(before)
        return following + (after.identity.increment - before.identity.increment) * begun

    # ------------------------------------------------------------ inside

    async def _next(self, counter: Counter) -> tuple[int, bool]:
        """The number that this node would give, which may be behind the last one, and whether
        numbers have been given."""
        block = self._blocks.get(_key(counter))
        if block is not None:
            return block.rest.start, True
        (cell,) = await self._store.get(TABLE, [_cell(counter)], NEWEST)
        if cell is None:
            return counter.at, False
        return int(_NUMBER.unpack(cell.value)[0]), True

    def _block(self, counter: Counter) -> _Block:
        """The rest of the counter's block, under its present increment and last number."""
        block, step = self._blocks.get(_key(counter), _NONE), counter.identity.increment
        rest = block.rest
        if rest.step != step:
            if not rest or rest.step * step < 0:
                return _NONE
            given = rest.start != block.begin
            rest = range(rest.start - (rest.step - step) * given, rest.stop, step)
        return _Block(block.begin, _span(counter, rest.start, rest.stop))

    async def _take(self, counter: Counter, numbers: int, least: int | None = None) -> _Block:
        step = counter.identity.increment

        def block(known: int | None) -> range:
            start = counter.at if known is None else known
            if least is not None and _before(counter, start, least):
                start = least
            found = _span(counter, start, start + numbers * step)
            if not found and counter.again is not None:
                found = _span(counter, counter.again, counter.again + numbers * step)
            return found

        def end(known: int | None) -> int:
            taken = block(known)
            return max(_LEAST, min(_MOST, taken.start + len(taken) * step))

        before, _ = await self._change(_cell(counter), end)
        taken = block(before)
        return _Block(taken.start, taken)

    async def _raise(self, counter: Counter, mark: int) -> None:
        """Move the mark to `mark`, unless it is behind that already."""

        def raised(known: int | None) -> int:
            return mark if known is None or _before(counter, known, mark) else known

        await self._change(_mark(counter), raised)

    async def _change(
        self, key: bytes, change: Callable[[int | None], int]
    ) -> tuple[int | None, int]:
        """Change a cell; returns its old and new value. The new value is on disk on return: a
        number must not be given twice even if the machine fails."""
        while True:
            (cell,) = await self._store.get(TABLE, [key], NEWEST)
            known = None if cell is None else _NUMBER.unpack(cell.value)[0]
            after = change(known)
            expected = None if cell is None else cell.value
            if await self._store.check_and_put(
                TABLE, key, expected, _NUMBER.pack(after), self._tick()
            ):
                await self._store.flush()
                return known, after


def _key(counter: Counter) -> _Key:
    return counter.cell, counter.number


def _span(counter: Counter, start: int, stop: int) -> range:
    """The numbers from `start` on and before `stop`, up to the counter's last one."""
    step, last = counter.identity.increment, counter.last
    end = min(stop, last + 1, _MOST) if step > 0 else max(stop, last - 1, _LEAST)
    return range(start, end, step)


def _exhausted(counter: Counter) -> LimitExceeded:
    if counter.relation == SEQUENCE:
        return LimitExceeded(
            f"Sequence {counter.column} has no number behind {counter.last}.",
            cure=f"ALTER SEQUENCE {counter.written} RESTART WITH n, or give it another bound, or"
            " CYCLE.",
        )
    return LimitExceeded(
        f"Identity column {counter.relation}.{counter.column} has no number behind {counter.last}.",
        cure=f"ALTER TABLE {counter.written} ALTER COLUMN {identifier(counter.column)} RESTART WITH"
        " n, where n is free, or give the number in INSERT.",
    )


def _left_out(counter: Counter, number: int, bound: str) -> InvalidRequest:
    shown = counter.shown
    restart = (
        f"ALTER SEQUENCE {counter.written} RESTART"
        if counter.relation == SEQUENCE
        else f"ALTER TABLE {counter.written} ALTER COLUMN {identifier(counter.column)} RESTART"
    )
    return InvalidRequest(
        f"{shown[0].upper()}{shown[1:]} has come to {number}, which {bound} leaves out.",
        cure=f"Give another bound, or write {restart} WITH n before it.",
    )


def _before(counter: Counter, one: int, other: int) -> bool:
    """Is `one` given before `other`?"""
    return one < other if counter.identity.increment > 0 else one > other


def _cell(counter: Counter) -> bytes:
    """The key of a counter's cell. Counters of databases older than such numbers have number 0."""
    if not counter.number:
        return counter.cell.encode()
    return _named(_CELL, counter)


def _mark(counter: Counter) -> bytes:
    return _named(_MARK, counter)


def _named(kind: bytes, counter: Counter) -> bytes:
    """A key. No key is a prefix of another, as stores require."""
    name = f"{counter.cell}\0"
    return kind + counter.number.to_bytes(8, "big") + name.encode()


class Numbers:
    """Numbers of one transaction: first the numbers of its dry run, then new ones.

    `taken` has all numbers given out, in order. `last` are the last numbers of the client's
    session, by the names of their sequences, the last one at the end; it is updated.
    """

    def __init__(
        self,
        source: IdentityBlocks,
        given: Iterable[tuple[str, str, int]] = (),
        last: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._source = source
        self._given: dict[tuple[str, str], deque[int]] = {}
        for relation, column, number in given:
            self._given.setdefault((relation, column), deque()).append(number)
        self.taken: list[tuple[str, str, int]] = []
        self._fresh: dict[Counter, list[int]] = {}
        self._last = dict(last)
        self.drawn: dict[str, int] = {}
        """The numbers of `last` that this transaction has taken, in the same order."""

    def beside(self) -> Numbers:
        """New numbers from the same source. They are not among those of the transaction."""
        return Numbers(self._source)

    async def next(self, counter: Counter) -> int:
        relation, column = counter.relation, counter.column
        given = self._given.get((relation, column))
        if given:
            number = given.popleft()
        else:
            number = await self._source.next(counter)
            self._fresh.setdefault(counter, []).append(number)
        self.taken.append((relation, column, number))
        if counter.sequence:
            _put_last(self._last, counter.sequence, number)
            _put_last(self.drawn, counter.sequence, number)
        return number

    def in_session(self, last: Mapping[str, int]) -> None:
        """Continue with the last numbers that the client reports."""
        for name, number in last.items():
            _put_last(self._last, name, number)

    def last(self, counter: Counter | None) -> int:
        """Currval of the sequence, or lastval for None. Raises SqlError before the first nextval of
        the session."""
        if counter is None and self._last:
            return next(reversed(self._last.values()))
        if counter is None or counter.sequence not in self._last:
            what = "lastval" if counter is None else f"currval of {counter.shown}"
            raise SqlError(
                f"{what[0].upper()}{what[1:]} is not defined yet in this session.",
                cure="Call nextval before it, in the same session.",
            )
        return self._last[counter.sequence]

    async def value(self, call: SequenceCall) -> int:
        """The value of a call. Raises SqlError, LimitExceeded."""
        if call.function == "nextval" and call.counter is not None:
            return await self.next(call.counter)
        return self.last(call.counter)

    async def move_past(self, counter: Counter, numbers: Sequence[int]) -> None:
        """Give only numbers behind `numbers` from now on: rows with them were loaded."""
        farthest = max(numbers) if counter.identity.increment > 0 else min(numbers)
        await self._source.move_past(counter, farthest, len(numbers))

    async def give_up(self) -> bool:
        """Handle a number of this transaction that another row has already. True if loaded rows
        may be the reason; a retry then gets other numbers."""
        given_up = [
            await self._source.give_up(counter, min(numbers, key=_order(counter)))
            for counter, numbers in self._fresh.items()
        ]
        return any(given_up)


def _put_last(numbers: dict[str, int], name: str, number: int) -> None:
    """Put a number at the end."""
    numbers.pop(name, None)
    numbers[name] = number


def _order(counter: Counter) -> Callable[[int], int]:
    sign = 1 if counter.identity.increment > 0 else -1
    return lambda number: sign * number
