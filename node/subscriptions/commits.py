"""The commits between two snapshots: from the newest commits in memory, else from the logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hornbeam_server.node.bulk_access import BulkAccess
from hornbeam_server.node.subscriptions.changes import RowChange, too_old
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.types import Value
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.log.following import batches_between
from hornbeam_server.storage.log.records import CellBatch, KeyedCommit, commits, decode_commit
from hornbeam_server.storage.ports import Put
from hornbeam_server.txlayer.commit.newest_commits import NewestCommits

LOG_BYTES = 64 << 20
"""Maximum bytes of logs that one step reads."""


class Logged(NamedTuple):
    """A batch of commits, and the cells of immediate views that it changes, by physical table."""

    ts: int
    commits: Sequence[KeyedCommit]
    cells: Mapping[str, Sequence[Put]]


@dataclass(frozen=True)
class CommitLog:
    """The commits of all nodes."""

    bulk: BulkAccess
    newest: NewestCommits

    async def between(self, after: int, upto: int) -> list[Logged]:
        """The batches above snapshot `after` and at or below snapshot `upto`, in the order of their
        timestamps. Raises SnapshotTooOld if some are not kept any more, or are too many;
        Unsupported, Unavailable, Corruption."""
        applied = await self.newest.between(after, upto)
        if applied is None:
            return await self._of_segments(after, upto)
        return [
            Logged(ts, [decode_commit(ts, b"".join(pieces)) for pieces in encoded], cells)
            for ts, encoded, cells, _ in applied
        ]

    async def _of_segments(self, after: int, upto: int) -> list[Logged]:
        found = await self.bulk.changes(after, upto)
        if found.bytes > LOG_BYTES:
            raise too_old(
                f"{found.bytes >> 20} MB were logged after {after}; at most {LOG_BYTES >> 20} MB"
                " are read again."
            )
        logged = []
        for segment in await self.bulk.segments_of(found):
            for batch in batches_between(*segment, after, upto):
                cells = batch.cells if isinstance(batch, CellBatch) else {}
                logged.append(Logged(batch.ts, commits(batch), cells))
        return sorted(logged, key=lambda each: each.ts)


def changes_of(relation: str, logged: Sequence[Logged], codecs: Codecs) -> list[RowChange]:
    """The changes of the rows of a relation, transaction by transaction."""
    codec = codecs(relation)
    name, decode = codec.layout.stored_name, codec.decode
    return [
        RowChange(
            None if before is None else decode(before),
            None if after is None else decode(after),
            batch.ts,
            commit.transaction_id.hex(),
            commit.idempotency_key,
        )
        for batch in logged
        for commit in batch.commits
        for changed, before, after in commit.changes
        if changed == name
    ]


def keys_written(view: str, logged: Sequence[Logged], codecs: Codecs) -> list[tuple[Value, ...]]:
    """The keys of the rows of a view that commits have written, in the order of the keys. A group
    of an immediate view is written if one of its cells or of its values is."""
    catalog = codecs.catalog
    width = len(catalog.layout(view).key)
    found: dict[bytes, tuple[Value, ...]] = {}
    for layout in _layouts(view, catalog):
        codec = codecs(layout)
        for key in {put.key for put in _puts(codec.layout.table, logged)}:
            values = codec.decode_key(key)[:width]
            found[codecs(view).key_of(values)] = values
    return [values for _, values in sorted(found.items())]


def _layouts(view: str, catalog: Catalog) -> Sequence[str]:
    immediate = catalog.immediate_view.get(view)
    return [view] if immediate is None else [immediate.cells_name, *immediate.values_names]


def _puts(table: str, logged: Sequence[Logged]) -> Iterator[Put]:
    for batch in logged:
        yield from batch.cells.get(table, ())
        for commit in batch.commits:
            yield from commit.writes.get(table, ())
