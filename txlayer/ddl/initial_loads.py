"""Initial loads: an external loader fills empty relations, invisible to clients until the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from hornbeam_server.maintain.spans import Span
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import NotFound, StalePlan
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.ddl import load_records
from hornbeam_server.txlayer.ddl.build_records import Finished
from hornbeam_server.txlayer.ddl.catalog_keeper import CatalogKeeper
from hornbeam_server.txlayer.transactions.manager import TransactionManager


class InitialLoads:
    """The initial load of a database, of which there is at most one at a time."""

    def __init__(
        self, keeper: CatalogKeeper, manager: TransactionManager, committer: Committer
    ) -> None:
        self._keeper = keeper
        self._manager = manager
        self._committer = committer

    async def begin(
        self, relations: Sequence[str], identity: str, splits: Mapping[str, Sequence[bytes]]
    ) -> None:
        """Begin a load of `relations` by an external loader (`txlayer.ddl.load_records`), which
        calls `finish` for each part, and `end` at the end. Idempotent while it is under
        way.

        Raises NotFound or InvalidRequest for wrong names, StalePlan when a relation has rows or a
        view or index is not readable, BeingLoaded when another load is under way, Unavailable.
        """

        async def make(current: Catalog) -> Catalog:
            return load_records.begun(current, relations, identity)

        await self._keeper.change(make, splits=splits)

    async def finish(
        self,
        number: int,
        relation: str,
        span: Span,
        rows: int,
        numbers: Mapping[str, tuple[int, int]] = MappingProxyType({}),
    ) -> None:
        """Record that the keys in `span` of `relation` are loaded: `rows` rows of it, and their
        entries in views and indexes, are on disk. `numbers`: the minimum and maximum of each
        identity column in them. Raises NotFound, Unavailable."""
        self._keeper.led()
        await self._keeper.tasks.carry_out(self._finish(number, relation, span, rows, numbers))

    async def _finish(
        self,
        number: int,
        relation: str,
        span: Span,
        rows: int,
        numbers: Mapping[str, tuple[int, int]],
    ) -> None:
        async with self._keeper.changing:
            self._keeper.led()[0].require_session()
            catalog = self._keeper.state.catalog
            if relation not in load_records.require(catalog, number).relations:
                raise NotFound(f"Relation {relation} is not being loaded.")
            table = catalog.loaded.layout(relation).table
            known = {table: self._keeper.known(table).plus(span, rows, rows, numbers)}
            await self._keeper.external.note(known, await self._committer.reserve())

    def finished(self) -> dict[str, Finished]:
        """The finished part of the load under way, by relation. Raises Unavailable when another
        node leads."""
        self._keeper.led()
        catalog = self._keeper.state.catalog
        relations = () if catalog.load is None else catalog.load.relations
        return {name: self._keeper.known(catalog.loaded.layout(name).table) for name in relations}

    async def end(self, number: int) -> None:
        """Make the loaded rows visible to all clients at once. Raises NotFound, StalePlan while
        keys are missing, Unavailable."""

        async def make(current: Catalog) -> Catalog:
            load_records.require(current, number)
            known = self.finished()
            if missing := sorted(name for name, known in known.items() if known.missing):
                raise StalePlan(
                    f"The load of {', '.join(missing)} is not finished.",
                    cure="Load the missing keys first: hornbeam load --spark --resume.",
                )
            for key, counter in current.counters.items():
                done = known.get(key[0])
                if done is not None and key[1] in done.numbers:
                    least, most = done.numbers[key[1]]
                    farthest = most if counter.identity.increment > 0 else least
                    await self._manager.move_past(counter, farthest, done.rows)
            return load_records.ended(current, {name: f.rows for name, f in known.items()})

        await self._keeper.change(make)
        await self._keeper.forget()

    async def cancel(self) -> tuple[str, ...]:
        """Give up the load under way and drop its tables. Returns the relations of the load.
        Raises NotFound, Unavailable."""
        gone: tuple[str, ...] = ()

        async def make(current: Catalog) -> Catalog:
            nonlocal gone
            without = load_records.cancelled(current)
            gone = () if current.load is None else current.load.relations
            return without

        await self._keeper.change(make)
        await self._keeper.forget()
        return gone
