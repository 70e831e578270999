"""Reading whole relations beside the nodes: a snapshot, and where its rows lie.

The rows of a snapshot stay where they are for the retention. In HBase that is all there is to it;
of an embedded store a checkpoint is made, a folder of linked files, which takes the space of what
the store drops meanwhile, until it is ended.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.storage.ports import Clock, Ids
from hornbeam_server.storage.source import Source


@dataclass(frozen=True, slots=True)
class Export:
    """Rows of `catalog`'s layouts as of `snapshot`, to be read until the wall clock says
    `until_ms`."""

    name: str
    snapshot: int
    catalog: Catalog
    source: Source
    until_ms: int


class Exports:
    """Of one node."""

    def __init__(
        self,
        make: Callable[[str], Awaitable[Source]] | None,
        folder: Path,
        clock: Clock,
        ids: Ids,
    ) -> None:
        """`folder` is where `make` puts what it makes, if anywhere."""
        self._make = make
        self._folder = folder
        self._clock = clock
        self._ids = ids

    async def begin(self, snapshot: int, catalog: Catalog, keep_ms: int) -> Export:
        """Everything at or below `snapshot` is in the store. Raises Unsupported, Unavailable."""
        if self._make is None:
            raise Unsupported("This store cannot be read beside its process.")
        until_ms = self._clock.wall_ms() + keep_ms
        name = f"{until_ms}-{self._ids.new()}"
        return Export(name, snapshot, catalog, await self._make(name), until_ms)

    async def end(self, name: str) -> bool:
        """Nobody reads it any more. False: there is nothing of it."""
        kept = await asyncio.to_thread(self._kept)
        if name not in kept:
            return False
        await asyncio.to_thread(shutil.rmtree, kept[name], ignore_errors=True)
        return True

    async def end_old(self) -> None:
        """Remove what may be read no more."""
        now = self._clock.wall_ms()
        for name in await asyncio.to_thread(self._kept):
            if int(name.partition("-")[0]) < now:
                await self.end(name)

    def _kept(self) -> dict[str, Path]:
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        return {path.name: path for path in found if path.name.partition("-")[0].isdigit()}
