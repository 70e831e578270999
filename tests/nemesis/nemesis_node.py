"""A node whose clock can be set while it runs: `hornbeam serve`, set up by the environment.

`python -m tests.nemesis.nemesis_node FILE ADDRESS=WAY …`: FILE says how many milliseconds the
node's wall clock is ahead of the machine's, and the node reaches the other node at each ADDRESS
through that WAY. The segments of its log are small, so they are rolled all the time.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from hornbeam_server.api.serve import serve
from hornbeam_server.storage.hdfs.log import HdfsLog
from hornbeam_server.storage.local.system import SystemClock
from hornbeam_server.storage.ports import Link
from hornbeam_server.storage.tcp.peers import TcpPeers

SEGMENT_BYTES = 1 << 16


def skew(file: Path) -> None:
    right = SystemClock.wall_ms

    def wall_ms(clock: SystemClock) -> int:
        return right(clock) + int(file.read_text() or 0)

    SystemClock.wall_ms = wall_ms


def lead_through(ways: Mapping[str, str]) -> None:
    direct = TcpPeers.connect

    async def connect(peers: TcpPeers, name: str, address: str, number: int) -> Link:
        return await direct(peers, name, ways[address], number)

    TcpPeers.connect = connect


def main() -> None:
    clock, *ways = sys.argv[1:]
    skew(Path(clock))
    lead_through(dict(way.split("=") for way in ways))
    HdfsLog.open = staticmethod(partial(HdfsLog.open, segment_bytes=SEGMENT_BYTES))
    serve()


if __name__ == "__main__":
    main()
