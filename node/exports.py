"""Exports: a snapshot, and the place from which external readers read whole relations.

The rows of a snapshot are kept for the retention. In HBase an export needs nothing else. An
embedded store makes a checkpoint, a folder of linked files. Until the export is ended the
checkpoint takes the space of files that the store drops while the checkpoint exists.
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
    """The rows of all layouts of `catalog` as of `snapshot`. They may be read from `source` until
    the wall clock shows `until_ms`."""

    name: str
    snapshot: int
    catalog: Catalog
    source: Source
    until_ms: int


class Exports:
    """The exports of one node."""

    def __init__(
        self,
        make: Callable[[str], Awaitable[Source]] | None,
        folder: Path,
        clock: Clock,
        ids: Ids,
    ) -> None:
        """`make` makes the source of an export with the given name; None: the store has no exports.
        `folder` is the parent of the checkpoints that `make` may create."""
        self._make = make
        self._folder = folder
        self._clock = clock
        self._ids = ids

    async def begin(self, snapshot: int, catalog: Catalog, keep_ms: int) -> Export:
        """Begin an export that is kept for `keep_ms`. Requires that all commits at or below
        `snapshot` are in the store. Raises Unsupported, Unavailable."""
        if self._make is None:
            raise Unsupported(
                "Other processes cannot read this store.", cure="Read it through its server."
            )
        until_ms = self._clock.wall_ms() + keep_ms
        name = f"{until_ms}-{self._ids.new()}"
        return Export(name, snapshot, catalog, await self._make(name), until_ms)

    async def end(self, name: str) -> bool:
        """Remove the checkpoint of an export. False: it has none, or none any more."""
        kept = await asyncio.to_thread(self._kept)
        if name not in kept:
            return False
        await asyncio.to_thread(shutil.rmtree, kept[name], ignore_errors=True)
        return True

    async def end_old(self) -> None:
        """Remove the checkpoints of expired exports."""
        now = self._clock.wall_ms()
        for name in await asyncio.to_thread(self._kept):
            if int(name.partition("-")[0]) < now:
                await self.end(name)

    def _kept(self) -> dict[str, Path]:
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        return {path.name: path for path in found if path.name.partition("-")[0].isdigit()}
