"""The known end of a log: all applied batches must be in the log.

A log alone does not show that its newest segment is missing, or was cut off between two appends: it
looks like a log that was never written further. So the store keeps, along with the rows of a batch,
the position where the batch ends in the log. A log that ends before that position has lost records,
and perhaps commits that were acknowledged later. A torn end is different: a crash leaves one, and a
torn record was not acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from hornbeam_server.storage.log.format import segment_name
from hornbeam_server.storage.ports import NEWEST, Position, Put, TableStore

TABLE = "s.log_ends"


@dataclass(frozen=True, slots=True)
class LostEnd:
    """A log that ends at `found`, although batches up to `known` were applied."""

    log: str
    found: Position
    known: Position

    def document(self) -> dict[str, str]:
        return {"log": self.log, "ends_at": shown(self.found), "known_to_reach": shown(self.known)}


def note_of(log: str, end: Position) -> Put:
    """The put that notes that the batch which ends at `end` is applied."""
    return Put(log.encode(), msgspec.json.encode(end))


async def known_end(store: TableStore, log: str) -> tuple[Position, int] | None:
    """The end of the last noted batch, and its timestamp; None if no batch was noted."""
    (cell,) = await store.get(TABLE, [log.encode()], NEWEST)
    return None if cell is None else (msgspec.json.decode(cell.value, type=Position), cell.ts)


def shown(position: Position) -> str:
    """The form of a position in messages and the status."""
    if not position.sequence:
        return "the beginning"
    return f"{segment_name(position.epoch, position.sequence)}:{position.offset}"
