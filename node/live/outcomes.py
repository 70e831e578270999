"""How a batch of a node can end, besides well."""

from __future__ import annotations


class Left(Exception):
    """The node leaves the batch to `hornbeam refresh`, for the `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Superseded(Exception):
    """The schema has changed during the batch, which begins again under the new one."""
