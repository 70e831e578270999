"""The port below the log: where one slave's segments are kept.

What a log needs of a file system is little: named files that only grow at their end, one writer,
and a fence against the writer before. Local files, HDFS and the simulation each give that; what is
done with it (`storage/log/segments.py`) is the same over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hornbeam_server.schema.errors import DiskFull


class NoRoom(DiskFull):
    """There is no room for a change, and it has had no effect: it can be made again later."""


class LogFiles(Protocol):
    """The files of one slave's log, as one owner of it sees them.

    One file at most is open for `append`. The caller makes one change at a time, and no more of
    them once a create, append or finish has failed or was cancelled, unless by NoRoom. He may read
    at any time, and sees none or all of a change that succeeds.

    Errors: NoRoom, DiskFull, and Unavailable for all else (a file that is not there, too). After
    NoRoom everything is as before the change. After another error the change may have taken effect
    wholly, in part or not at all, and may yet do so until the next `fence`; before that, what is
    read need not be durable.
    """

    async def fence(self, epoch: int) -> None:
        """Take over from the owners of lower epochs; called before anything else.

        On return no `create`, `append` or `finish` of theirs takes effect any more, and all that
        the files hold survives a crash of the machine: what recovery reads and applies must not
        be lost afterwards. Raises Unavailable when a higher epoch has taken over. Deletes are not
        fenced, since an owner deletes only what no successor needs.
        """

    async def names(self) -> list[str]:
        """Of all files, in any order."""

    async def create(self, name: str, data: bytes) -> None:
        """Make a file that was not there, open for `append`; its name and `data` are durable."""

    async def append(self, name: str, pieces: Sequence[bytes]) -> None:
        """Write `pieces`, in order, at the end of the file created last; on return they survive a
        crash of the machine."""

    async def finish(self, name: str, data: bytes) -> None:
        """Append for the last time. The file is closed even if that fails, unless by NoRoom."""

    async def read(self, name: str) -> bytes:
        """All of a file, open or not."""

    async def tail(self, name: str, count: int) -> tuple[int, bytes]:
        """The size of a file, and its last `count` bytes, or all if it is shorter."""

    async def delete(self, names: Sequence[str]) -> None:
        """Remove in the order given, durably: after a crash the first so many are gone."""

    async def close(self) -> None:
        """Release everything; later calls raise Unavailable. Changes nothing. Idempotent."""
