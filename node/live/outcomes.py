"""How a batch of a node can end, besides well."""

from __future__ import annotations

CURE = "Run: hornbeam refresh. The setting resident_rows bounds the batches of nodes."


class Left(Exception):
    """The node does not do the batch, or compute the rows of a tentative read, for the `reason`.
    `hornbeam refresh` does the batch."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The nodes leave the next batch to Spark: {reason}.")
        self.reason = reason


class Superseded(Exception):
    """The schema has changed during the batch, which begins again under the new one; or another
    process has begun a batch, which is done instead."""
