"""Whether a node may serve requests, and which snapshots it may read."""

from __future__ import annotations

from collections.abc import Sequence

from hornbeam_server.node.assembly import Parts
from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.txlayer.cluster.member import Member
from hornbeam_server.txlayer.commit.snapshots import LastSnapshots, Snapshots


class Ownership:
    """Whether this node may serve, and up to which snapshot.

    A node that has lost the coordination service may have been replaced: another process may own
    its data by then. A node that has retired serves reads at its last snapshot.
    """

    def __init__(self, parts: Parts, member: Member | None) -> None:
        self.snapshots: Snapshots = parts.snapshots
        self._settings = parts.settings
        self._clock = parts.ports.clock
        self._coordination = parts.ports.coordination
        self._committer = parts.committer
        self._member = member
        self._last: LastSnapshots | None = None

    def retire(self) -> None:
        """From now on reads see the last snapshot."""
        retention_s = self._settings.snapshot_retention_s
        at, logged = self.snapshots.newest(), self.snapshots.newest(logged=True)
        self._last = LastSnapshots(at, logged, self._clock, retention_s)
        self.snapshots = self._last

    @property
    def behind_s(self) -> float | None:
        """Age in seconds of the last snapshot of a retired node, which learns of no later commit.
        None: this node has not retired."""
        return None if self._last is None else self._last.behind_s

    def ready(self) -> bool:
        """May requests be sent here?"""
        serves = self._member is None or self._member.serves
        return serves and self._committer.failed is None and self._coordination.alive()

    def require_ready(self) -> None:
        """Raises Unavailable or DiskFull, with the reason, when requests must not be sent here."""
        self._committer.require_working()
        self.require_owner()
        if self._member is not None:
            self._member.require_serving()

    def require_owner(self) -> None:
        """Raises Unavailable when another process may have replaced this one: then reads here may
        lack its commits."""
        if not self._coordination.alive():
            raise Unavailable(
                "This process may have been replaced: it has not heard of the coordination service"
                " for too long.",
                cure="Ask again; another process answers, or this one once it has restarted.",
            )

    def require_kept(self, at: int) -> None:
        """Raises Unavailable if versions that snapshot `at` needs may have been purged.

        No node purges them while this node serves. Once this node may have been replaced, they are
        safe while the snapshot is no older than half of the retention.
        """
        if self._coordination.alive() and self._last is None:
            return
        age_s = max((self._clock.wall_ms() - at) / 1000, self.behind_s or 0)
        if age_s > self._settings.snapshot_retention_s / 2:
            raise Unavailable(
                f"Snapshot {at} may have been purged: this node has lost the others, and it is"
                f" {age_s:.0f} s old.",
                cure="Send it to another node, or again in a moment.",
                standby=True,
            )

    def watermark(self) -> int:
        """The newest snapshot that this node knows and whose rows the store has. By default queries
        read there or later."""
        return self.snapshots.newest()

    def lag_s(self) -> float:
        """The age in seconds of the oldest commit that a query may not read yet. A node that serves
        alone knows all commits: the age is 0 while all of them are applied."""
        if self._member is None and self._committer.idle:
            return 0.0
        return max(self._clock.wall_ms() - self.watermark(), 0) / 1000

    def kept_from(self, held: Sequence[int]) -> int:
        """The timestamp above which all snapshots are kept, whether or not a query reads them.
        `held` has the snapshots that deferred views need."""
        newest = self.watermark() if self._member is None else self._member.newest
        retention_ms = int(self._settings.snapshot_retention_s * 1000)
        return min([newest - retention_ms, *held])
