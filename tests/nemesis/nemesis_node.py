"""A node whose clock can be set while it runs: `hornbeam serve`, set up by the environment.

`python -m nemesis_node FILE`: the node's wall clock shows as many milliseconds more than the
machine's as FILE says. Segments of its log are small, so that they are rolled all the time.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from api.serve import serve
from storage.hdfs.log import HdfsLog
from storage.local.system import SystemClock

SEGMENT_BYTES = 1 << 16


def skew(file: Path) -> None:
    right = SystemClock.wall_ms

    def wall_ms(clock: SystemClock) -> int:
        return right(clock) + int(file.read_text() or 0)

    SystemClock.wall_ms = wall_ms


def main() -> None:
    skew(Path(sys.argv[1]))
    HdfsLog.open = staticmethod(partial(HdfsLog.open, segment_bytes=SEGMENT_BYTES))
    serve()


if __name__ == "__main__":
    main()
