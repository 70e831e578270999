"""The named steps of the write path, at which crash tests stop a process.

The committer, recovery and the catalog keeper call a hook with each step when they reach it. In
production the hook does nothing. In a crash test it raises; the test then discards the memory of
the process, recovers, and compares. Such tests crash at every step in this list.
"""

from __future__ import annotations

import enum
from collections.abc import Callable


class Step(enum.StrEnum):
    """The steps of a transaction, of a checkpoint, of recovery and of a schema change, in order."""

    QUEUED = "queued"
    """The transaction is encoded, and about to wait for the next batch; nothing is durable."""
    TICKED = "ticked"
    """The batch has its timestamp; nothing is durable."""
    LOGGED = "logged"
    """The batch is durable in the log: the commit point has passed; nothing is in the store."""
    ANSWERED = "answered"
    """The clients of a batch have their answers, since the store is remote; it has no rows yet."""
    APPLYING = "applying"
    """The batch's puts are about to be sent."""
    APPLIED = "applied"
    """The batch's puts are in the store; the watermark has not moved, the locks are held."""
    FINISHED = "finished"
    """The watermark has moved, and all clients of the batch have their answers."""
    CHECKPOINT_FLUSHED = "checkpoint flushed"
    """The store is durable up to the new checkpoint; its record is not written."""
    CHECKPOINTED = "checkpointed"
    """The checkpoint's record is durable."""
    REPLAYING = "replaying"
    """Recovery is about to put one batch again."""
    REPLAYED = "replayed"
    """Recovery has put all batches; the store is not flushed."""
    RECOVERED = "recovered"
    """Recovery's own checkpoint is durable."""
    TABLES_CREATED = "tables created"
    """All tables of the next catalog exist; it is not stored."""
    ADMITTED = "admitted"
    """Stored rows meet the next catalog's constraints, and its UNIQUE indexes are filled."""
    CATALOG_STORED = "catalog stored"
    """The next catalog is durable, but not in force."""
    CATALOG_IN_FORCE = "catalog in force"
    """A restart would find the next catalog; writers still use the old one."""
    SWITCHED = "switched"
    """Writers use the new catalog."""
    BUILDING = "building"
    """A build is about to put a batch of rows."""
    BUILT = "built"
    """The built rows are durable; the view or index is not READABLE yet."""
    DROPPING = "dropping"
    """A table that no catalog names is about to be dropped."""
    DROPPED = "dropped"
    """All such tables are gone."""


Steps = Callable[[str], None]
"""A hook, called with a `Step`. An error that it raises ends the calling stage."""


def no_steps(step: str) -> None:
    """Do nothing: the hook in production."""
