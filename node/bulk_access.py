"""Access to many rows at once, for Spark, loaders and external builders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hornbeam_server.maintain.deltas.batches import SegmentBytes
from hornbeam_server.node.assembly import Parts
from hornbeam_server.node.change_feed import Changes, begun, loaded, segments_of
from hornbeam_server.node.deferred_views import BatchWork, DeferredViews
from hornbeam_server.node.exports import Export, Exports
from hornbeam_server.node.ownership import Ownership
from hornbeam_server.node.reads import Reads
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import (
    InvalidRequest,
    NotFound,
    SnapshotTooOld,
    Unsupported,
)
from hornbeam_server.storage.limits import require_storable
from hornbeam_server.storage.log.recent_segments import RecentSegments
from hornbeam_server.storage.ports import Put
from hornbeam_server.txlayer.cluster.low_water_mark import LowWater
from hornbeam_server.txlayer.cluster.member import Member
from hornbeam_server.txlayer.cluster.segment_positions import Following
from hornbeam_server.txlayer.ddl.bulk_tables import bulk_tables
from hornbeam_server.txlayer.ddl.claim import load_catalog


@dataclass(frozen=True, slots=True)
class DeferredBatch:
    """A batch of deferred views with its inputs: an export, from which all rows can be read at the
    snapshots at both ends of the batch, and the changes between these snapshots."""

    work: BatchWork
    export: Export
    changes: Changes


class BulkAccess:
    """Access to many rows past the queries: exports, puts into tables that are being built, changes
    from the logs, and batches of deferred views."""

    def __init__(
        self,
        parts: Parts,
        deferred: DeferredViews,
        exports: Exports,
        reads: Reads,
        ownership: Ownership,
        low_water: LowWater,
        member: Member | None,
    ) -> None:
        ports = parts.ports
        self._settings = parts.settings
        self._clock = ports.clock
        self._store = ports.store
        self._committer = parts.committer
        self._manager = parts.manager
        self._holds = parts.keeper.readers
        self.deferred = deferred
        self._exports = exports
        self._reads = reads
        self._ownership = ownership
        self._member = member
        self._log_source = ports.log_source
        logs = None if member is None else ports.logs
        self._segments = None if ports.log_reader is None else RecentSegments(ports.log_reader)
        self._following = (
            None
            if self._segments is None
            else Following(self._segments, logs, ports.coordination, low_water)
        )

    async def export(self, asked: int | None = None, view: str | None = None) -> Export:
        """Where external readers find all rows as of one snapshot: `asked`, or else the newest.
        For a deferred `view` it is the snapshot of its group.

        Raises NotFound, SnapshotTooOld, Unsupported, InvalidRequest, Unavailable.
        """
        if view in self._manager.state.catalog.deferred_view:
            return await self._export_deferred(view, asked)
        async with self._reads.at(asked, strong=asked is None) as (state, at):
            # Purges may reckon from a later time than the watermark, which lags on an idle node.
            age_ms = max(self._committer.watermark(), self._clock.wall_ms()) - at
            keep_ms = int(self._settings.snapshot_retention_s * 1000) - age_ms
            return await self._exports.begin(at, state.catalog, keep_ms)

    async def _export_deferred(self, view: str, asked: int | None) -> Export:
        async with self._reads.at(strong=True) as (state, _):
            (at,) = await self.deferred.as_of(state.catalog, [view])
            if asked not in (None, at):
                raise InvalidRequest(
                    f"View {view} cannot be read as of snapshot {asked}: its group is as of {at}.",
                    cure="Ask for no snapshot.",
                )
            return await self._exports.begin(at, state.catalog, self.deferred.use_ms(at))

    async def put(
        self, writes: Mapping[str, Sequence[Put]], ts: int, *, forced: bool = False
    ) -> None:
        """Write rows as of snapshot `ts`, without a transaction, into tables that are being built,
        as `TableStore.put` does.

        Only a process that owns its store does this, because it also purges the store: nothing may
        be put at or below the horizon of a purge (`pipeline.spark.sink`). A purge that began
        earlier has a horizon no higher than `Ownership.kept_from` was then, and that only rises. A
        purge that begins during the call stays below the snapshot that is held here. Raises
        NotFound, SnapshotTooOld, InvalidRequest, LimitExceeded, Unsupported, Unavailable.
        """
        if self._member is not None:
            raise Unsupported(
                "A node does not put rows into this store.",
                cure="Let Spark put them into HBase itself.",
            )
        self._ownership.require_owner()
        state, newest = self._manager.state, self._ownership.watermark()
        async with self._reads.reading(state.catalog.version):
            strange = sorted(writes.keys() - bulk_tables(state.catalog))
            if strange:
                raise NotFound(f"No table {strange[0]} is being built.", cure="It may have ended.")
            if ts > newest:
                raise InvalidRequest(
                    f"{ts} is newer than the newest snapshot, {newest}.",
                    cure="Put rows as of an existing snapshot.",
                )
            require_storable(writes)
            with self._holds.holding(ts):
                if ts <= self._ownership.kept_from(await self.deferred.held()):
                    raise SnapshotTooOld(f"Snapshot {ts} is older than what is kept.")
                await self._store.put(writes, ts, forced=forced)

    async def changes(self, after: int | None = None, upto: int | None = None) -> Changes:
        """The commits above `after` and at or below `upto`, as log segments. `upto` defaults to a
        snapshot that holds every acknowledged commit, and `after` to `upto`: no commits.

        Raises SnapshotTooOld when the logs have lost some of these commits, InvalidRequest,
        Unsupported, Unavailable, Corruption.
        """
        self._ownership.require_ready()
        if self._following is None or self._log_source is None:
            raise Unsupported("Other processes cannot read these logs.")
        least = max(after or 0, upto or 0)
        async with self._reads.at(bookmark=least, strong=upto is None) as (state, at):
            newest = state.catalog
        upto = at if upto is None else upto
        after = upto if after is None else after
        if after > upto:
            raise InvalidRequest(
                f"Snapshot {after} is newer than {upto}.", cure="Give an after at or below upto."
            )
        read = await self.catalogs_between(newest, after, upto)
        segments = []
        if after < upto:
            segments = await self._following.between(after, upto, await self._sealed())
        log = self._log_source
        return Changes(after, upto, read[0], begun(read), loaded(read), log, tuple(segments))

    async def segments_of(self, found: Changes) -> list[SegmentBytes]:
        """The content of the segments that `changes` has found. Raises SnapshotTooOld, Corruption,
        Unavailable."""
        assert self._segments is not None  # else `changes` finds none
        return await segments_of(found, self._segments)

    async def catalogs_between(self, newest: Catalog, after: int, upto: int) -> list[Catalog]:
        """The catalogs in force at `upto` and before, down to that at `after`; `newest` is the one
        in force now."""
        catalogs = [newest]
        while catalogs[-1].since > after:
            catalogs.append(await load_catalog(self._store, catalogs[-1].version - 1))
        return [catalog for catalog in catalogs if catalog.since <= upto]

    async def require_logged(self, work: BatchWork) -> None:
        """Raises SnapshotTooOld if changes that the batch needs are in no log, Unavailable."""
        catalogs = await self.catalogs_between(work.catalog, work.as_of, work.upto)
        self.deferred.require_logged(work, loaded(catalogs))

    async def _sealed(self) -> dict[str, tuple[int, int]]:
        """The result of `Member.sealed`, also for a node that serves alone."""
        if self._member is not None:
            return await self._member.sealed()
        end = await self._committer.seal()
        return {self._settings.slave: end[:2]}

    async def begin_batch(self, group: str) -> DeferredBatch:
        """The next batch of a group of deferred views, with its inputs.

        Raises NotFound, SnapshotTooOld, Unsupported, Unavailable, Corruption.
        """
        work = await self.deferred.begin(group, self._reads.snapshot_after)
        use_ms = self.deferred.use_ms(work.upto)
        export = await self._exports.begin(work.upto, work.catalog, use_ms)
        changes = await self.changes(work.as_of, work.upto)
        self.deferred.require_logged(work, changes.loaded)
        return DeferredBatch(work, export, changes)
