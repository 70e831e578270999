"""Housekeeping of a node: old row versions, log segments and outcomes, row counts, exports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog

from hornbeam_server.node.assembly import Parts
from hornbeam_server.node.deferred_views import DeferredViews
from hornbeam_server.node.exports import Exports
from hornbeam_server.node.ownership import Ownership
from hornbeam_server.schema.errors import Corruption, HornbeamError, Unavailable
from hornbeam_server.storage.ports import TOMBSTONE, Put
from hornbeam_server.storage.together import all_tried
from hornbeam_server.txlayer.cluster.log_retention import GoneLogs, drop_old_segments
from hornbeam_server.txlayer.cluster.low_water_mark import LowWater
from hornbeam_server.txlayer.cluster.member import Member
from hornbeam_server.txlayer.ddl.claim import TABLE as CATALOG_TABLE
from hornbeam_server.txlayer.transactions import outcomes

_LOG = structlog.get_logger(__name__)


class Housekeeping:
    """Purges what no snapshot needs, and refreshes row counts, from time to time."""

    def __init__(
        self,
        parts: Parts,
        deferred: DeferredViews,
        exports: Exports,
        ownership: Ownership,
        low_water: LowWater,
        member: Member | None,
    ) -> None:
        ports = parts.ports
        self._settings = parts.settings
        self._clock = ports.clock
        self._store = ports.store
        self._log = parts.log
        self._committer = parts.committer
        self._keeper = parts.keeper
        self._deferred = deferred
        self._exports = exports
        self._ownership = ownership
        self._low_water = low_water
        self._member = member
        self._gone_logs = (
            None
            if ports.logs is None
            else GoneLogs(ports.logs, ports.coordination, ports.clock, low_water)
        )
        self._forget_at = self._clock.monotonic()

    async def run(self) -> None:
        """Purge old versions and log segments periodically, until cancelled. A failed task is tried
        again in the next round, and does not keep the other tasks from running."""
        while True:
            await self._clock.sleep(self._settings.housekeeping_interval_s)
            for chore in (self._keeper.refresh_counts, self.purge, self._exports.end_old):
                try:
                    await chore()
                except (OSError, HornbeamError) as error:
                    _LOG.warning("housekeeping failed", error=str(error))
                except Exception as error:  # a bug must not end the loop silently
                    _LOG.error("housekeeping failed", exc_info=error)

    async def purge(self) -> int:
        """Drop row versions that no snapshot within the retention needs, old log segments and old
        outcomes. Returns the number of versions. A part that fails does not keep the other parts
        from being dropped. Raises OSError, HornbeamError."""
        log_retention_ms = int(self._settings.log_retention_s * 1000)
        held = await self._deferred.held()
        log_horizon = min([self._clock.wall_ms() - log_retention_ms, *held])
        works: list[Callable[[], Awaitable[object]]] = [
            lambda: drop_old_segments(
                self._log, self._committer.checkpointed, log_horizon, self._low_water
            )
        ]
        dropped = 0

        async def purge_tables() -> None:
            nonlocal dropped
            # The snapshot moves on even when no query reads here.
            await self._ownership.snapshots.read_point()
            if self._purges:
                horizon = self._horizon(held)
                tables = [t for t in await self._store.tables() if t != CATALOG_TABLE]
                await all_tried(partial(purge_table, table, horizon) for table in tables)

        async def purge_table(table: str, horizon: int) -> None:
            nonlocal dropped
            try:
                dropped += await self._store.purge(table, horizon)
            except (Unavailable, Corruption):
                if table in await self._store.tables():  # else it has been dropped
                    raise

        works.append(purge_tables)
        if self._purges:
            works.append(self._forget_outcomes)
            if self._gone_logs is not None:
                works.append(partial(self._gone_logs.remove, log_horizon))
        await all_tried(works)
        return dropped

    @property
    def _purges(self) -> bool:
        """Does this node purge the tables, on behalf of all nodes?"""
        return self._keeper.leads and (self._member is None or self._member.may_purge)

    def _horizon(self, held: Sequence[int]) -> int:
        """The horizon of a purge: no snapshot below it is needed."""
        building = [b.at for b in self._keeper.builds.values() if not (b.ended or b.external)]
        holding = [self._keeper.readers.oldest_snapshot()]
        replayed = []
        if self._member is not None:
            holding.append(self._member.holding)
            # Else recovery could bring a row back whose tombstone, from another log, was purged.
            replayed.append(self._member.replays_above)
        return min([self._ownership.kept_from(held), *building, *filter(None, holding), *replayed])

    async def _forget_outcomes(self) -> None:
        """Delete outcomes that are older than their retention. Looks once per tenth of it."""
        now = self._clock.monotonic()
        if now < self._forget_at:
            return
        self._forget_at = now + self._settings.outcome_retention_s / 10
        horizon = self._clock.wall_ms() - int(self._settings.outcome_retention_s * 1000)
        async for cells in self._store.scan(outcomes.TABLE, b"", None, horizon):
            deleted = [Put(cell.key, TOMBSTONE) for cell in cells]
            await self._store.put({outcomes.TABLE: deleted}, await self._committer.reserve())
