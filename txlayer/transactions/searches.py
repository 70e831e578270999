"""The searches of one attempt: queries at its snapshot, overlaid with its own changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence, Set
from contextlib import contextmanager

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.query.engine import QueryStream
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.storage.ports import TableReader
from hornbeam_server.storage.read_ranges import ReadRange
from hornbeam_server.storage.snapshot import Overlay, RowReader, Snapshot
from hornbeam_server.txlayer.locking.read_checks import noting_store
from hornbeam_server.txlayer.statements.requests import Parameters
from hornbeam_server.txlayer.statements.write_plans import Subquery
from hornbeam_server.txlayer.transactions.workspace import Key, Workspace, changed_since


class Searches:
    """The queries of an attempt's statements. All read at one snapshot. The first search gets it
    from `snapshot`, which returns a snapshot at or above its argument; so it holds all commits for
    which the attempt has waited by then."""

    def __init__(
        self,
        workspace: Workspace,
        store: TableReader,
        snapshot: Callable[[int], Awaitable[int]],
        ranges: list[ReadRange] | None = None,
    ) -> None:
        """`ranges` collects the ranges that the queries read."""
        self._workspace = workspace
        self._state = workspace.state
        self._store = store
        self._noted = noting_store(store, workspace.state.catalog, ranges)
        self._snapshot = snapshot
        self._found: Snapshot | None = None
        self._fixed: RowReader | None = None

    async def run(self, query: Subquery, parameters: Parameters) -> QueryStream:
        reader = await self.reader(query.prepared.sources)
        return await query.prepared.run(reader, query.parameters(parameters))

    @contextmanager
    def reading(self, reader: RowReader) -> Iterator[None]:
        """Let all searches read by `reader` while the context lasts."""
        self._fixed = reader
        try:
            yield
        finally:
            self._fixed = None

    async def reader(self, sources: Set[str]) -> RowReader:
        """The snapshot for the WHERE and subqueries of a statement, overlaid with this
        transaction's changes to the relations and views `sources`. Raises TransactionAborted."""
        if self._fixed is not None:
            return self._fixed
        base = await self._base()
        state, workspace = self._state, self._workspace
        changed = (name for name, changes in workspace.changes.items() if changes)
        if not state.programs.sources(changed) & sources:
            return self._base_noted(base)
        layout, states = state.catalog.layout, state.catalog.state
        mutations = [
            m
            for m in await workspace.overlay()
            # No query reads an index or view under construction, and the snapshot lacks its rows.
            if layout(m.layout).source in sources
            and states.get(m.layout, State.READABLE) is State.READABLE
        ]
        await self._require_base(mutations)
        if not state.catalog.transactional_view.keys().isdisjoint(sources):
            await workspace.require_added(base)
        return Snapshot(self._noted, state.codecs, base.at, mutations=Overlay(mutations))

    async def require_unchanged(self, relation: str, keys: Sequence[Key]) -> None:
        """Raises TransactionAborted if a committed row with one of these keys has changed since the
        snapshot. The rows must be locked."""
        base = await self._base()
        for some in chunks(keys):
            if await self._workspace.reader.get(relation, some) != await base.get(relation, some):
                raise changed_since(relation)
            await turn(some)

    async def _base(self) -> Snapshot:
        """The snapshot of the searches, without the transaction's own changes."""
        if self._found is None:
            at = await self._snapshot(self._workspace.waited_for())
            self._found = Snapshot(self._store, self._state.codecs, at)
        return self._found

    def _base_noted(self, base: Snapshot) -> Snapshot:
        """`base`, whose reads are noted."""
        if self._noted is self._store:
            return base
        return Snapshot(self._noted, self._state.codecs, base.at)

    async def _require_base(self, mutations: Sequence[Mutation]) -> None:
        """Raises TransactionAborted unless the old row of each mutation is the row in the snapshot.
        Else an overlay of the mutations would show both its old and its new entries in an index."""
        by_layout: dict[str, list[Mutation]] = {}
        for mutation in mutations:
            by_layout.setdefault(mutation.layout, []).append(mutation)
        base = await self._base()
        for layout, changed in by_layout.items():
            codec = self._state.codecs(layout)
            for some in chunks(changed):
                keys = [codec.decode_key(mutation.key) for mutation in some]
                for version, mutation in zip(await base.get(layout, keys), some, strict=True):
                    if (version.row if version is not None else None) != mutation.old:
                        raise changed_since(layout)
                await turn(some)
