"""Where the write path can be cut by a crash: the registry of its named steps.

The committer, recovery and the catalog's keeper call a hook with each step as they reach it. In
production it does nothing; a simulation raises there, throws the process's memory away, recovers,
and compares. A new step is added here and is thereby crashed at by every such test.
"""

from __future__ import annotations

import enum
from collections.abc import Callable


class Step(enum.StrEnum):
    """In the order in which one transaction meets them, then a recovery, then a schema change."""

    QUEUED = "queued"
    """Encoded, about to wait for the next batch; nothing is durable."""
    TICKED = "ticked"
    """The batch has its timestamp; nothing is durable."""
    LOGGED = "logged"
    """The batch is durable in the log: the commit point has passed; nothing is in the store."""
    APPLYING = "applying"
    """The batch's puts are about to be sent."""
    APPLIED = "applied"
    """The batch's puts are in the store; the watermark has not moved, nobody has an answer."""
    FINISHED = "finished"
    """The watermark has moved and the answers are out."""
    CHECKPOINT_FLUSHED = "checkpoint flushed"
    """The store is durable up to the new checkpoint; its record is not written."""
    CHECKPOINTED = "checkpointed"
    """The checkpoint's record is durable."""
    REPLAYING = "replaying"
    """Recovery is about to put one batch again."""
    REPLAYED = "replayed"
    """Recovery has put everything; the store is not flushed."""
    RECOVERED = "recovered"
    """Recovery's own checkpoint is durable."""
    TABLES_CREATED = "tables created"
    """All tables of the next catalog exist; it is not stored."""
    ADMITTED = "admitted"
    """Stored rows hold the next catalog's constraints, its UNIQUE indexes are filled."""
    CATALOG_STORED = "catalog stored"
    """The next catalog is durable, and not in force."""
    CATALOG_IN_FORCE = "catalog in force"
    """A restart would find the next catalog; writers still use the old one."""
    SWITCHED = "switched"
    """Writers use the new catalog."""
    BUILDING = "building"
    """A build is about to put a batch of rows."""
    BUILT = "built"
    """What was built is durable; the catalog does not say so."""
    DROPPING = "dropping"
    """A table that no catalog names is about to be dropped."""
    DROPPED = "dropped"
    """All such tables are gone."""


Steps = Callable[[str], None]
"""Called with a `Step`. What it raises ends the stage that called it."""


def no_steps(step: str) -> None:
    """The production hook."""
