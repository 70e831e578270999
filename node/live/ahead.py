"""Live and deferred views at a snapshot that no batch has reached yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.storage.earlier import EarlierTables
from hornbeam_server.storage.logged import Layer, LoggedRows, LoggedStore
from hornbeam_server.storage.ports import TableReader


@dataclass(frozen=True, slots=True)
class Ahead:
    """Views at snapshot `at`: their rows as of `as_of`, with the rows of `layer` over them.

    The store may have rows of the views above `as_of`: those of an unfinished batch, whose end is
    not `at`. So `tables`, those of the views, are read at `as_of`, and all others at `at`.
    """

    as_of: int
    at: int
    tables: frozenset[str]
    layer: Layer

    def over(self, store: TableReader) -> TableReader:
        """`store`, whose readers at `at` get the rows of the views there."""
        rows = LoggedRows()
        rows.add(self.layer)
        return LoggedStore(EarlierTables(store, self.tables, self.as_of), rows)


@dataclass(frozen=True, slots=True)
class Tentative:
    """What a tentative answer says about its snapshot. The named live and deferred views are stored
    as of `as_of`, and computed from there on; without such views it is the snapshot itself.
    `reason`: why the answer is only as of `as_of`; "": it is not."""

    as_of: int
    reason: str = ""


class ReadsAhead(Protocol):
    """How a node computes views for tentative reads (`tentative.py`)."""

    async def ahead(
        self, catalog: Catalog, names: tuple[str, ...], *, least: int, asked: int | None
    ) -> Ahead:
        """The views `names` of one group at snapshot `asked`, or at a new one at or above `least`.

        Raises Left, with the reason, if the node does not compute them; InvalidRequest for a
        `least` in the future.
        """
