"""The logs' low-water mark: every commit above it is in a log that exists.

The mark is one value of the coordination service. A process that drops a part of a log raises the
mark before. So a reader that lists the segments, and reads the mark *afterwards*, knows that
nothing above the mark was gone when it listed them.

A change of a relation's rows that is in no log raises the mark, too: followers of the logs must
begin again after it.
"""

from __future__ import annotations

from hornbeam_server.schema.errors import StalePlan
from hornbeam_server.storage.ports import Coordination

PATH = "low-water"


class LowWater:
    """One process's access to the mark. All methods raise Unavailable."""

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination

    async def read(self) -> int | None:
        """The mark. None: it was never set, and nothing is known about dropped parts."""
        known = await self._coordination.read(PATH)
        return None if known is None else int(known.value)

    async def begin(self, ts: int) -> None:
        """Set the mark if it was never set. Everything dropped before is at or below `ts`."""
        if await self.read() is None:
            await self.raise_to(ts)

    async def raise_to(self, ts: int) -> None:
        """Raise the mark to `ts` at least. It never falls again."""
        while True:
            known = await self._coordination.read(PATH)
            if known is not None and int(known.value) >= ts:
                return
            try:
                await self._coordination.write(
                    PATH, str(ts).encode(), known.version if known is not None else 0
                )
            except StalePlan:
                continue  # another process has raised it, perhaps not as high
            return
