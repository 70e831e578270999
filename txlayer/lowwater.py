"""The logs' low-water mark: every commit above it stands in a log that is there.

One value of the coordination service, raised by whoever drops a part of a log, before that. So who
lists what there is of the logs, and reads the mark *afterwards*, knows that nothing above it was
gone when it listed them.

What changes rows of a relation and is in no log raises the mark, too: who follows the logs must
begin anew behind it.
"""

from __future__ import annotations

from schema.errors import StalePlan
from storage.ports import Coordination

PATH = "low-water"


class LowWater:
    """As one process sees and raises it. Raises Unavailable."""

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination

    async def read(self) -> int | None:
        """None: it has never been set; then nothing is known of what was dropped."""
        known = await self._coordination.read(PATH)
        return None if known is None else int(known.value)

    async def begin(self, ts: int) -> None:
        """Set it if it never was. Everything that was dropped before it is at or below `ts`."""
        if await self.read() is None:
            await self.raise_to(ts)

    async def raise_to(self, ts: int) -> None:
        """On return it is no lower, for good."""
        while True:
            known = await self._coordination.read(PATH)
            if known is not None and int(known.value) >= ts:
                return
            try:
                await self._coordination.write(
                    PATH, str(ts).encode(), known.version if known is not None else 0
                )
            except StalePlan:
                continue  # somebody else has raised it, perhaps not as high
            return
