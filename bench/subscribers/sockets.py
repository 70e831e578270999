"""The subscribers of the benchmark: many connections in one process, which counts messages.

`python -m bench.subscribers.sockets PORT COUNT PATH …` opens COUNT subscriptions, which have the
paths in turn. When all have begun, it prints its counts as JSON for each line on standard input.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import asdict, dataclass

import msgspec
import uvloop

from bench.serving import get
from hornbeam_server.api.rest.http_protocol import room_for

AT_ONCE = 100
"""Connections that are opened at the same time."""
WAIT_S = 60.0
"""They have all begun within this time."""


@dataclass
class Counts:
    """What has come to all subscribers. `first` and `last` are the times of the monotonic clock at
    which the first and the last change came since the counts were read."""

    begun: int = 0
    heartbeats: int = 0
    changes: int = 0
    lost: int = 0
    bytes: int = 0
    first: float = 0.0
    last: float = 0.0


class Subscriber(asyncio.Protocol):
    """One subscription. `begun` is done when its first message has come."""

    def __init__(self, path: str, counts: Counts) -> None:
        self._request = get(path)
        self._counts = counts
        self.begun = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        counts = self._counts
        counts.bytes += len(data)
        if not self.begun.done() and b'"type":"begin"' in data:
            counts.begun += 1
            self.begun.set_result(None)
        counts.heartbeats += data.count(b'"type":"moment"')
        if changes := data.count(b'"type":"changes"'):
            counts.changes += changes
            counts.last = time.monotonic()
            counts.first = counts.first or counts.last

    def connection_lost(self, error: Exception | None) -> None:
        self._counts.lost += 1
        if not self.begun.done():
            self.begun.set_result(None)


async def _subscribe(port: int, paths: list[str], counts: Counts) -> None:
    """Open a subscription for each path."""
    loop = asyncio.get_running_loop()
    for start in range(0, len(paths), AT_ONCE):
        some = [Subscriber(path, counts) for path in paths[start : start + AT_ONCE]]
        for each in some:
            await loop.create_connection(lambda each=each: each, "127.0.0.1", port)  # type: ignore[misc]
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*[each.begun for each in some])


async def run(port: int, paths: list[str]) -> None:
    counts = Counts()
    await _subscribe(port, paths, counts)
    asked = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asked), sys.stdin)
    while await asked.readline():
        print(msgspec.json.encode(asdict(counts)).decode(), flush=True)
        counts.first = 0.0


if __name__ == "__main__":
    room_for(1)  # raises the limit of file descriptors
    port, count, *paths = sys.argv[1:]
    uvloop.run(run(int(port), [paths[n % len(paths)] for n in range(int(count))]))
