"""Where the changes of a relation or view come from, moment by moment.

A moment is a snapshot. A relation has the changes that the logs hold. A view that transactions keep
has the differences between two snapshots of the rows that the logs say were written. A live or
deferred view has those between two batches of its group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager, aclosing, asynccontextmanager
from functools import partial
from itertools import takewhile

from hornbeam_server.node.assembly import Parts
from hornbeam_server.node.bulk_access import BulkAccess
from hornbeam_server.node.change_feed import loaded
from hornbeam_server.node.deferred_views import DeferredViews
from hornbeam_server.node.ownership import Ownership
from hornbeam_server.node.reads import Reads
from hornbeam_server.node.subscriptions import differences
from hornbeam_server.node.subscriptions.changes import ROW_BYTES, RowChange, Wanted, too_old
from hornbeam_server.node.subscriptions.commits import CommitLog, changes_of, keys_written
from hornbeam_server.schema.catalog import Catalog, Layout
from hornbeam_server.schema.errors import NotFound, Unavailable
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.storage.together import first_of
from hornbeam_server.txlayer.cluster.member import Member
from hornbeam_server.txlayer.transactions.compiled_catalog import CatalogState
from hornbeam_server.txlayer.views.recent_batches import RecentBatches

LOOK_S = 1.0
"""A node looks this often for batches of which it does not learn: those that Spark does."""
STEP_BYTES = 64 << 20
"""Maximum bytes of the changes from one moment to the next."""


class Altered(Unavailable):
    """The subscribed relation or view is another one now. A new subscription may go on."""


class Access:
    """The parts of a node that sources read through."""

    def __init__(
        self, parts: Parts, reads: Reads, bulk: BulkAccess, deferred: DeferredViews,
        ownership: Ownership, member: Member | None,
    ) -> None:  # fmt: skip
        """`member` is this node among others; None: it serves alone."""
        self.parts = parts
        self.reads = reads
        self.bulk = bulk
        self.deferred = deferred
        self.member = member
        self._ownership = ownership
        self.log = CommitLog(bulk, parts.commits)

    @property
    def state(self) -> CatalogState:
        return self.parts.manager.state

    @property
    def kept_s(self) -> float:
        """The seconds for which a moment is kept."""
        settings = self.parts.settings
        return min(settings.snapshot_retention_s, settings.log_retention_s)

    def snapshot(self, codecs: Codecs, at: int) -> Snapshot:
        valid = partial(self._ownership.require_kept, at)
        return Snapshot(self.parts.committer.reader, codecs, at, require_valid=valid)

    def holding(self, at: int) -> AbstractContextManager[None]:
        """Keep a snapshot from being purged while the context lasts."""
        return self.parts.keeper.readers.holding(at)

    async def require_kept(self, at: int) -> None:
        """Raises SnapshotTooOld unless the versions of rows that a snapshot reads are kept.
        Requires that it is held (`holding`)."""
        retention_ms = int(self.parts.settings.snapshot_retention_s * 1000)
        oldest = self._ownership.watermark() - retention_ms
        if at < min([oldest, *await self.deferred.held()]):
            raise too_old(f"Snapshot {at} is older than what is kept.")


class Source(ABC):
    """The changes of one relation or view. `columns` are those that queries show; `size` returns
    the bytes of the texts of a stored row."""

    def __init__(self, name: str, access: Access) -> None:
        self.name = name
        self.access = access
        self.layout = self._present(access.state.catalog)
        self.columns: Sequence[Column] = access.state.catalog.visible(name)
        self.size = access.state.codecs(name).long_bytes

    @abstractmethod
    async def news(self, after: int) -> None:
        """Return once there may be changes after moment `after`."""

    @abstractmethod
    async def newest(self) -> int:
        """The newest moment that readers may see. Raises HornbeamError."""

    @abstractmethod
    async def require_kept(self, moment: int) -> None:
        """Raises SnapshotTooOld unless the rows at this moment, which is held, can be read."""

    @abstractmethod
    async def changes(self, after: int, upto: int) -> list[RowChange]:
        """The changes after one moment, up to a later one. Raises HornbeamError."""

    def _present(self, catalog: Catalog) -> Layout:
        """The layout in force. Raises NotFound, and Unavailable for a view that is being built."""
        if self.name not in catalog.schema and self.name not in catalog.all_views:
            raise NotFound(f"There is no relation or view {self.name}.")
        if self.name in catalog.all_views and not catalog.readable(self.name):
            raise Unavailable(
                f"View {self.name} is being built.",
                cure="Subscribe again when it is readable: hornbeam view list.",
            )
        return catalog.layout(self.name)

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[Codecs, None]:
        """The codecs of the catalog in force, whose tables are not dropped inside the context.
        Raises Altered if the layout is another one now."""
        state = self.access.state
        async with self.access.reads.reading(state.catalog.version):
            if self._present(state.catalog) != self.layout:
                raise Altered(
                    f"{self.name} has been altered or rebuilt.",
                    cure="Subscribe again; the columns may be others.",
                )
            yield state.codecs

    async def rows(self, at: int, wanted: Wanted) -> AsyncGenerator[list[Row], None]:
        """Stored rows at a moment, in the order of their keys: at least those that match `wanted`.
        Raises HornbeamError."""
        values = dict(wanted)
        prefix = tuple(
            [values[i] for i in takewhile(values.__contains__, self.layout.key_positions)]
        )
        async with self.reading() as codecs:
            scan = self.access.snapshot(codecs, at).scan(self.name, KeyRange(prefix))
            async with aclosing(scan) as batches:
                async for batch in batches:
                    yield batch

    async def _compared(
        self, codecs: Codecs, after: int, upto: int, keys: Sequence[tuple[Value, ...]] | None
    ) -> list[RowChange]:
        """The differences between two snapshots, of all rows if `keys` is None. Raises
        SnapshotTooOld if they are too large."""
        before, now = self.access.snapshot(codecs, after), self.access.snapshot(codecs, upto)
        if keys is not None:
            return await differences.of_keys(self.name, keys, before, now)
        codec = codecs(self.name)
        found, size = [], 0
        scans = differences.of_scans(self.name, codec.key, before, now)
        async with aclosing(scans) as differing:
            async for change in differing:
                size += ROW_BYTES + codec.long_bytes(change.before) + codec.long_bytes(change.after)
                if size > STEP_BYTES:
                    raise too_old(
                        f"More than {STEP_BYTES >> 20} MB of {self.name} have changed since"
                        f" {after}."
                    )
                found.append(change)
        return found


class Committed(Source):
    """A relation, or a view that transactions keep."""

    async def news(self, after: int) -> None:
        await self.access.parts.commits.news(after)

    async def newest(self) -> int:
        async with self.access.reads.at(strong=self.access.member is not None) as (_, at):
            return at

    async def require_kept(self, moment: int) -> None:
        if self.name not in self.access.state.catalog.schema:  # the logs have those of relations
            await self.access.require_kept(moment)

    async def changes(self, after: int, upto: int) -> list[RowChange]:
        async with self.reading() as codecs:
            await self._require_logged(codecs.catalog, after, upto)
            logged = await self.access.log.between(after, upto)
            if not logged:
                return []
            if self.name in codecs.catalog.schema:
                return changes_of(self.name, logged, codecs)
            keys = keys_written(self.name, logged, codecs)
            return await self._compared(codecs, after, upto, keys)

    async def _require_logged(self, catalog: Catalog, after: int, upto: int) -> None:
        """Raises SnapshotTooOld if the rows were not there at `after`, or if some have come since
        without the logs: those of an initial load, of a copy, or of a build."""
        if catalog.since <= after:
            return
        catalogs = await self.access.bulk.catalogs_between(catalog, after, upto)
        if self.name in loaded(catalogs) or not all(map(self._has, catalogs)):
            raise too_old(f"{self.name} has been made, loaded or rebuilt after {after}.")

    def _has(self, catalog: Catalog) -> bool:
        """Does this catalog read the rows from the same table?"""
        names = (*catalog.schema.names, *filter(catalog.readable, catalog.all_views))
        return any(catalog.layout(name).table == self.layout.table for name in names)


class OfGroup(Source):
    """A live or deferred view."""

    def __init__(self, name: str, access: Access) -> None:
        super().__init__(name, access)
        view = access.state.catalog.deferred_view[name]
        self._group = view.declared.group
        self._recent: RecentBatches = access.deferred.recent(self._group)

    async def news(self, after: int) -> None:
        member = self.access.member
        if member is None:
            others = self.access.parts.ports.clock.sleep(LOOK_S)
        else:
            others = member.batches.news(self._group, after)
        await first_of(self._recent.news(), others)

    async def newest(self) -> int:
        catalog = self.access.state.catalog
        self._present(catalog)
        found = await self.access.deferred.as_of(catalog, [self.name])
        (at,) = found
        return at

    async def require_kept(self, moment: int) -> None:
        state = await self.access.deferred.state(self._group)
        if not state.was_as_of(moment):
            raise too_old(
                f"{self.name} did not show the moment {moment}, or it is not remembered any more."
            )
        await self.access.require_kept(moment)

    async def changes(self, after: int, upto: int) -> list[RowChange]:
        async with self.reading() as codecs:
            codec = codecs(self.name)
            put = self._recent.between(after, upto, codec.layout.table)
            if put is None and self.access.member is not None:
                await self.access.member.batches.learn(self._group, after, 0)
                put = self._recent.between(after, upto, codec.layout.table)
            keys = None if put is None else [codec.decode_key(key) for key in sorted(put)]
            return await self._compared(codecs, after, upto, keys)


def source_of(name: str, access: Access) -> Source:
    """The source of a relation's or view's changes. Raises NotFound, Unavailable."""
    return (OfGroup if name in access.state.catalog.deferred_view else Committed)(name, access)
