"""Reading rows: a store, a catalog and a timestamp, seen as decoded rows.

`Snapshot` is what queries, view maintenance, constraint checks and verification read through.
Two things can be laid over the store: *mutations* of a transaction that is not committed yet
(read your own writes, dry runs), and a *trace* that notes every row version that was read (for
optimistic transactions).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from schema.catalog import Catalog
from schema.types import Row, Value


class RowVersion(NamedTuple):
    """A row with the commit timestamp of the version read. `ts` 0: written by this transaction."""

    key: bytes
    ts: int
    row: Row


class ReadItem(NamedTuple):
    """What a trace notes: this layout's row `key` was read at version `ts`; None: it was absent."""

    layout: str
    key: bytes
    ts: int | None


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys between two tuples of key values; a tuple shorter than the key is a prefix.

    `prefix` are equalities on the first key columns; `low`/`high` bound the next one. All in
    SQL's terms: for a descending key part `low` is still the smaller value. NULLs match nothing
    but `prefix` values of None and an open range (`low` and `high` both None).
    """

    prefix: tuple[Value, ...] = ()
    low: Value = None
    low_inclusive: bool = True
    high: Value = None
    high_inclusive: bool = True


class RowReader(Protocol):
    """Rows of any layout (relation, view, index) by name, as of one moment."""

    catalog: Catalog

    async def get(self, layout: str, keys: Sequence[tuple[Value, ...]]) -> list[RowVersion | None]:
        """By full key values, in order."""

    async def prefixes(
        self, layout: str, prefixes: Sequence[tuple[Value, ...]]
    ) -> list[list[RowVersion]]:
        """For each tuple of leading key values, all rows under it in key order."""

    def scan(
        self,
        layout: str,
        key_range: KeyRange = KeyRange(),
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[list[Row]]:
        """Batches of rows in key order."""
