"""Schema changes that write the rows of relations again, beside transactions.

A relation whose columns get other values (`schema/copies.py`) is copied:

1. *Begun*: a catalog with the copy, an empty second table, is put into force. Every transaction
   from then on also writes the row as it becomes (`maintain/copies.py`); a row that does not fit is
   refused. Queries read the relation as before.
2. *Filled*: the node that leads puts the rows of the switch's timestamp T into the copy, with
   timestamp T, as it builds an index. A stored row that does not fit ends the change.
3. *Arrived*: the change is planned again, over the catalog that is then in force, and put into
   force with the table of the copy as that of the relation. All views over the relation, and the
   indexes on columns with other values, are built again. The old table is dropped.

Until 3 the schema in force is the old one, so a failure drops the copy, and nothing has changed. A
change may have two stages (`schema/stages.py`), each with copies of its own. No other change of the
schema comes between them, and a failure of the second one undoes the first one. A node that begins
to lead drops the copies, and undoes the first stage, that it finds: the client that waits for the
change is gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.copies import Copy, seeded
from hornbeam_server.schema.errors import HornbeamError, StalePlan
from hornbeam_server.schema.renames import Rename
from hornbeam_server.storage.ports import Clock, Ids
from hornbeam_server.txlayer.ddl import copy_records
from hornbeam_server.txlayer.ddl.catalog_keeper import CatalogKeeper

POLL_S = 0.05
"""Seconds between two looks at the copies that are being filled."""

Make = Callable[[Catalog], Awaitable[Catalog]]


def _ends() -> bool:
    """Goes on after the first stage: no."""
    return False


class RelationCopies:
    """Carries out changes of the schema, those that need copies of relations in three steps."""

    def __init__(self, keeper: CatalogKeeper, clock: Clock, ids: Ids) -> None:
        self._keeper = keeper
        self._clock = clock
        self._ids = ids

    async def change(
        self,
        make: Make,
        *,
        external: bool = False,
        renames: Sequence[Rename] = (),
        goes_on: Callable[[], bool] = _ends,
    ) -> None:
        """Put the result of `make` into force, as `CatalogKeeper.change` does. If it has copies,
        they are filled first, and `make` is called again with the catalog that is then in force.
        `goes_on` says after the first stage whether there is a second one, for which `make` is
        called in the same way.

        Raises the errors of `CatalogKeeper.change`, those of `Converter` for a stored row that does
        not fit, and BeingLoaded while another change is under way; nothing has changed then.
        """
        self._keeper.led()
        await self._keeper.tasks.carry_out(self._stages(make, external, renames, goes_on))

    async def _stages(
        self, make: Make, external: bool, renames: Sequence[Rename], goes_on: Callable[[], bool]
    ) -> None:
        await self._change(make, external, renames)
        if not goes_on():
            return
        staged = self._keeper.state.catalog.staged
        try:
            await self._change(make, external, ())
        except HornbeamError:
            await self._keeper.undo(staged)
            raise

    async def _change(self, make: Make, external: bool, renames: Sequence[Rename]) -> None:
        copies: tuple[Copy, ...] = ()
        seed = cache(self._ids.new)

        async def plan(current: Catalog) -> Catalog:
            planned = await make(current)
            copy_records.require_stage(planned, current)
            schema = current.schema
            found = (seeded(c, schema.relation(c.relation), seed()) for c in planned.copies)
            return replace(planned, copies=tuple(found))

        async def begin(current: Catalog) -> Catalog:
            nonlocal copies
            planned = await plan(current)
            if not planned.copies and not current.copies:
                return planned
            catalog = copy_records.begun(planned, current)
            copies = planned.copies
            return catalog

        async def arrive(current: Catalog) -> Catalog:
            return copy_records.arrived(await plan(current), current)

        try:
            await self._keeper.change(begin, external=external, renames=renames)
            if copies:
                await self._filled([copy.name for copy in copies])
                await self._keeper.change(arrive, external=external)
        except HornbeamError:
            await self._keeper.abandon_copies(copies)
            raise

    async def _filled(self, names: Sequence[str]) -> None:
        """Return when all copies are filled. Raises the error of one that cannot be, and StalePlan
        when the copies are given up."""
        while True:
            catalog = self._keeper.state.catalog
            if any(name not in catalog.copy for name in names):
                raise StalePlan(
                    "The copies of relations were given up; nothing is changed.",
                    cure="Plan again, look at the plan, and apply it.",
                )
            if all(map(catalog.readable, names)):
                return
            for name in names:
                build = self._keeper.builds.get(name)
                if build is not None and build.failure is not None:
                    raise build.failure
            await self._clock.sleep(POLL_S)
