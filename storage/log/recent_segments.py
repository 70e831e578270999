"""Keeps the segments in memory that were read last. A follower of a log reads a segment for its
timestamps first, and then for its commits; the next follower reads it again."""

from __future__ import annotations

from collections import OrderedDict

from hornbeam_server.storage.ports import LogReader

KEPT_BYTES = 16 << 20


class RecentSegments:
    """A `LogReader` for segments to which no process appends any more: these do not change. It
    keeps up to `most_bytes` of them, those that were read last."""

    def __init__(self, reader: LogReader, most_bytes: int = KEPT_BYTES) -> None:
        self._reader = reader
        self._most_bytes = most_bytes
        self._kept: OrderedDict[tuple[str, int, int], bytes] = OrderedDict()
        self._bytes = 0

    async def segments(self, name: str) -> list[tuple[int, int]]:
        return await self._reader.segments(name)

    async def read(self, name: str, epoch: int, sequence: int) -> bytes | None:
        place = (name, epoch, sequence)
        data = self._kept.get(place)
        if data is None:
            data = await self._reader.read(name, epoch, sequence)
            if data is None or len(data) > self._most_bytes:
                return data
            self._keep(place, data)
        else:
            self._kept.move_to_end(place)
        return data

    async def close(self) -> None:
        await self._reader.close()

    def _keep(self, place: tuple[str, int, int], data: bytes) -> None:
        self._bytes += len(data) - len(self._kept.pop(place, b""))
        self._kept[place] = data
        while self._bytes > self._most_bytes:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped)
