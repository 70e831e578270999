"""Limits of the bytes that one transaction gathers (decision 46)."""

from __future__ import annotations

from collections.abc import Sequence

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.schema.sizes import Budget, Limit
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.limits import MAX_ROW_BYTES

MAX_BYTES = 64 << 20
"""Maximum size of the texts and byte strings that a transaction reads in order to write, and of
those that it writes."""
MAX_STORED_BYTES = 2 * MAX_BYTES
"""Maximum size of the texts and byte strings that a transaction stores, with views and indexes."""
SPLIT = "Split it into transactions over fewer rows, or smaller ones."
READ = Limit(MAX_BYTES, "What the transaction reads in order to write", "read", SPLIT)
WRITTEN = Limit(MAX_BYTES, "What the transaction writes", "written", SPLIT)
STORED = Limit(
    MAX_STORED_BYTES, "What the transaction stores, with views and indexes,", "stored", SPLIT
)
RETURNED = Limit(MAX_ROW_BYTES, "What RETURNING gives, which is one row,", "stored", SPLIT)


def budget_of_reads() -> Budget:
    return Budget(READ)


def budget_of_writes() -> Budget:
    return Budget(WRITTEN)


def budget_of_stored() -> Budget:
    return Budget(STORED)


def budget_of_returned() -> Budget:
    return Budget(RETURNED)


async def require_moderate(mutations: Sequence[Mutation], codecs: Codecs) -> None:
    """Raises LimitExceeded for too large mutations. They may be much larger than the changes that
    cause them: a view repeats a parent's columns in the row of each child."""
    budget = budget_of_stored()
    for some in chunks(mutations):
        budget.take(sum([codecs(m.layout).long_bytes(m.new) for m in some]))
        await turn(some)
