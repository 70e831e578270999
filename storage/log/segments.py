"""The log over files: it begins, rolls and seals segments, and reads their records.

After a change that failed, or whose caller was cancelled, the log refuses appends and rolls: the
content of the file is unknown, and a second sync could report success for pages that the kernel has
given up. The caller reopens the log under a new epoch and reads its content. Only a change that
found no room, and so had no effect, may be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise

import structlog

from hornbeam_server.schema.errors import Corruption, Unavailable
from hornbeam_server.storage.log.files import LogFiles, NoRoom
from hornbeam_server.storage.log.format import (
    SEAL_BYTES,
    Header,
    Scanned,
    encode_append,
    encode_seal,
    parse_name,
    require_payloads,
    scan_segment,
    segment_name,
)
from hornbeam_server.storage.ports import Payload, Position, Segment

_LOG = structlog.get_logger(__name__)
SEGMENT_BYTES = 64 << 20


class SegmentedLog:
    """A `Log` over `LogFiles`. Open with `SegmentedLog.open`, under an epoch never used before."""

    def __init__(
        self, files: LogFiles, slave: str, epoch: int, catalog_version: int, segment_bytes: int
    ) -> None:
        self._files = files
        self._slave = slave
        self._epoch = epoch
        self._catalog_version = catalog_version
        self._segment_bytes = segment_bytes
        self._sequence = 0
        self._open = ""
        """Name of the open segment; empty if there is none."""
        self._size = 0
        self._known: dict[tuple[int, int], Segment] = {}
        """Segments that were found sealed: they do not change. There may be thousands."""
        self._turn = asyncio.Lock()  # wakes waiters in the order of their arrival
        self._failed = False
        self._closing = False
        self._closed = False
        self._torn: set[str] = set()
        self.torn_bytes = 0
        """Bytes of torn tails that `read` has dropped."""

    @classmethod
    async def open(
        cls,
        files: LogFiles,
        slave: str,
        epoch: int,
        *,
        catalog_version: int = 0,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> SegmentedLog:
        """Take over the log of `slave` from lower epochs; closes `files` if that fails.

        Raises Corruption when the epoch was used before, Unavailable when a higher one has begun.
        """
        log = cls(files, slave, epoch, catalog_version, segment_bytes)
        try:
            await files.fence(epoch)
            if any(used >= epoch for used, _ in await log._segment_names()):
                raise Corruption(f"The log of {slave} has segments of epoch {epoch} or later.")
        except BaseException:
            await files.close()
            raise
        return log

    async def append(self, payloads: Sequence[Payload]) -> Position:
        require_payloads(payloads)
        async with self._turn:
            self._require_working()
            return await self._append(payloads)

    async def roll(self) -> Position:
        # Housekeeping may be cancelled at any time; the log must not fail because of that.
        return await asyncio.shield(self._roll())

    async def read(self, start: Position) -> AsyncIterator[tuple[Position, bytes]]:
        names = [name for name in await self._segment_names() if name >= start[:2]]
        if start.sequence and start[:2] not in names:
            raise _missing(*start[:2])
        require_no_gap(names)
        last = dict(names)  # epoch → its last sequence
        for epoch, sequence in names:
            name = segment_name(epoch, sequence)
            scanned = scan_segment(await self._files.read(name), name)
            if not scanned.sealed and sequence != last[epoch]:
                raise Corruption(
                    f"Log segment {name} has no seal, but another follows.",
                    position=f"{name}:end",
                )
            self._note_torn(name, scanned)
            for payload, offset in scanned.frames:
                position = Position(epoch, sequence, offset)
                if position > start:
                    yield position, payload

    def _note_torn(self, name: str, scanned: Scanned) -> None:
        if not scanned.torn_bytes:
            return
        self.torn_bytes += scanned.torn_bytes
        if name not in self._torn:
            self._torn.add(name)
            at = scanned.frames[-1][1] if scanned.frames else 0
            _LOG.warning(
                "the torn end of a log segment is dropped, as a crash in a write leaves one",
                position=f"{name}:{at}",
                bytes=scanned.torn_bytes,
            )

    async def segments(self) -> list[Segment]:
        async with self._turn:
            return await self._segments()

    async def drop_before(self, position: Position) -> int:
        async with self._turn:
            return await self._drop_before(position)

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        try:
            async with self._turn:
                await self._finish()
        finally:
            await self._files.close()

    # ------------------------------------------------------------ one at a time

    async def _roll(self) -> Position:
        async with self._turn:
            self._require_working()
            await self._seal()
            return Position(self._epoch, self._sequence + 1, 0)

    async def _append(self, payloads: Sequence[Payload]) -> Position:
        with self._changing():
            if not self._open:
                await self._begin()
            pieces = encode_append(payloads, self._epoch, self._sequence, self._size)
            await self._files.append(self._open, pieces)
        self._size += sum(map(len, pieces))
        position = Position(self._epoch, self._sequence, self._size)
        if self._size >= self._segment_bytes:
            with suppress(NoRoom):  # the frames are durable; a later append seals the segment
                await self._seal()
        return position

    async def _begin(self) -> None:
        sequence = self._sequence + 1
        name = segment_name(self._epoch, sequence)
        header = Header(self._epoch, sequence, self._catalog_version, self._slave).encode()
        await self._files.create(name, header)
        self._sequence, self._open, self._size = sequence, name, len(header)

    async def _seal(self) -> None:
        if not self._open:
            return
        seal = encode_seal(self._epoch, self._sequence, self._size)
        with self._changing():
            await self._files.finish(self._open, seal)
        self._open = ""

    async def _finish(self) -> None:
        try:
            if not self._failed:
                with suppress(NoRoom):  # the last segment of an epoch may have no seal
                    await self._seal()
        finally:
            self._closed = True

    async def _drop_before(self, position: Position) -> int:
        """Front to back, so that a crash in between leaves no gap."""
        names = await self._segment_names()
        gone = [segment_name(*name) for name in names if name < position[:2]]
        if self._open in gone:
            gone.remove(self._open)
        if gone:
            await self._files.delete(gone)
        return len(gone)

    async def _segments(self) -> list[Segment]:
        names = await self._segment_names()
        found = [self._known.get(name) or await self._look(*name) for name in names]
        self._known = {(s.epoch, s.sequence): s for s in found if s.sealed}
        return found

    async def _look(self, epoch: int, sequence: int) -> Segment:
        size, tail = await self._files.tail(segment_name(epoch, sequence), SEAL_BYTES)
        begin = max(size - SEAL_BYTES, 0)
        return Segment(epoch, sequence, tail == encode_seal(epoch, sequence, begin), size)

    async def _segment_names(self) -> list[tuple[int, int]]:
        """(epoch, sequence) of all segments, in order."""
        return sorted_segments(await self._files.names())

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            yield
        except NoRoom:
            raise
        except BaseException:
            self._failed = True
            raise

    def _require_working(self) -> None:
        """Raises Unavailable after a failed change or `close`. The caller holds `_turn`, so that no
        change is written behind the remains of a failed one."""
        if self._failed or self._closed:
            raise Unavailable(
                "The log is closed after a failed write." if self._failed else "The log is closed.",
                cure="Restart; recovery reads what the log holds.",
            )


def sorted_segments(files: Iterable[str]) -> list[tuple[int, int]]:
    """(epoch, sequence) of the `files` that are segments, in order."""
    parsed = [parse_name(name) for name in files]
    return sorted(name for name in parsed if name is not None)


def require_no_gap(names: Sequence[tuple[int, int]]) -> None:
    """Raises Corruption if a segment is missing. Segments are dropped from the front only: the
    segments of one epoch have consecutive numbers, and a later epoch begins with its first."""
    for (epoch, sequence), (next_epoch, next_sequence) in pairwise(names):
        expected = sequence + 1 if epoch == next_epoch else 1
        if next_sequence > expected:
            raise _missing(next_epoch, expected)


def _missing(epoch: int, sequence: int) -> Corruption:
    name = segment_name(epoch, sequence)
    return Corruption(f"Log segment {name} is missing.", position=f"{name}:0")
