"""Segments that were read last are kept in memory, and no more bytes than asked for."""

from __future__ import annotations

import pytest

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.log.recent_segments import RecentSegments


class Logs:
    """Segments of one log, by their sequence. `reads` has the sequences that were read."""

    def __init__(self, content: dict[int, bytes]) -> None:
        self.content = content
        self.reads: list[int] = []
        self.closed = False

    async def segments(self, name: str) -> list[tuple[int, int]]:
        return [(1, sequence) for sequence in self.content]

    async def read(self, name: str, epoch: int, sequence: int) -> bytes | None:
        self.reads.append(sequence)
        if sequence < 0:
            raise Unavailable("The logs cannot be read.")
        return self.content.get(sequence)

    async def close(self) -> None:
        self.closed = True


async def test_a_segment_is_read_once():
    logs = Logs({1: b"one", 2: b"two"})
    recent = RecentSegments(logs)
    assert [await recent.read("log", 1, n) for n in (1, 2, 1, 2)] == [b"one", b"two"] * 2
    assert logs.reads == [1, 2]
    assert await recent.segments("log") == [(1, 1), (1, 2)]


async def test_segments_of_other_logs_and_epochs_are_others():
    logs = Logs({1: b"one"})
    recent = RecentSegments(logs)
    for name, epoch in (("log", 1), ("log", 2), ("other", 1)):
        await recent.read(name, epoch, 1)
    assert logs.reads == [1, 1, 1]


async def test_the_segments_that_were_read_last_are_kept():
    logs = Logs({n: bytes(10) for n in range(5)})
    recent = RecentSegments(logs, most_bytes=30)
    for n in (0, 1, 2, 0, 3):  # 1 has to go
        await recent.read("log", 1, n)
    logs.reads.clear()
    for n in (0, 2, 3, 1):
        await recent.read("log", 1, n)
    assert logs.reads == [1]


async def test_a_segment_that_is_larger_than_all_that_is_kept_displaces_none():
    logs = Logs({1: bytes(10), 2: bytes(31)})
    recent = RecentSegments(logs, most_bytes=30)
    for n in (1, 2, 2, 1):
        await recent.read("log", 1, n)
    assert logs.reads == [1, 2, 2]


async def test_what_is_not_there_is_looked_for_again():
    logs = Logs({})
    recent = RecentSegments(logs)
    assert await recent.read("log", 1, 1) is None
    logs.content[1] = b"one"
    assert await recent.read("log", 1, 1) == b"one"
    for _ in range(2):
        with pytest.raises(Unavailable):
            await recent.read("log", 1, -1)
    assert logs.reads == [1, 1, -1, -1]


async def test_close_closes_the_logs():
    logs = Logs({})
    await RecentSegments(logs).close()
    assert logs.closed
