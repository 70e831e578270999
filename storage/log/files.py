"""The port below the log: the storage of one slave's segments.

A log needs little of a file system: named files that only grow at their end, one writer, and a
fence against the former writer. Local files, HDFS and the simulation each provide that;
`storage/log/segments.py` uses them all in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hornbeam_server.schema.errors import DiskFull


class NoRoom(DiskFull):
    """A change found no room and has had no effect: it can be repeated later."""


class LogFiles(Protocol):
    """The files of one slave's log, for one owner of the log.

    One file at most is open for `append`. The caller makes one change at a time, and no further
    change once a create, append or finish has failed or was cancelled, unless it failed by NoRoom.
    The caller may read at any time, and reads none or all of a change that succeeds.

    Errors: NoRoom, DiskFull, and Unavailable for all else (also for a missing file). After NoRoom
    everything is as before the change. After another error the change may have taken effect wholly,
    in part or not at all, and may yet do so until the next `fence`; before that fence, bytes that
    are read need not be durable.
    """

    async def fence(self, epoch: int) -> None:
        """Take over from the owners of lower epochs; called before anything else.

        On return no `create`, `append` or `finish` of these owners takes effect any more, and all
        content of the files survives a crash of the machine: records that recovery reads and
        applies must not be lost afterwards. Raises Unavailable when a higher epoch has taken over.
        Deletes are not fenced, since an owner deletes only files that no successor needs.
        """

    async def names(self) -> list[str]:
        """The names of all files, in any order."""

    async def create(self, name: str, data: bytes) -> None:
        """Create a file that does not exist yet, open for `append`; its name and `data` are durable
        on return."""

    async def append(self, name: str, pieces: Sequence[bytes]) -> None:
        """Write `pieces`, in order, at the end of the file created last; on return they survive a
        crash of the machine."""

    async def finish(self, name: str, data: bytes) -> None:
        """Append for the last time. The file is closed even if that fails, unless by NoRoom."""

    async def read(self, name: str) -> bytes:
        """The whole content of a file, open or not."""

    async def tail(self, name: str, count: int) -> tuple[int, bytes]:
        """The size of a file, and its last `count` bytes, or all if it is shorter."""

    async def delete(self, names: Sequence[str]) -> None:
        """Remove files in the given order, durably: after a crash a first part of them is gone."""

    async def close(self) -> None:
        """Release all resources; later calls raise Unavailable. Changes no file. Idempotent."""
