"""Validation of row versions that a client relies on, and repair of damaged rows."""

from __future__ import annotations

from collections.abc import Sequence

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.maintain.recompute import rows_from
from hornbeam_server.schema.errors import (
    Corruption,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
    ReadConflict,
)
from hornbeam_server.schema.intervals import identical
from hornbeam_server.schema.model import Relation
from hornbeam_server.schema.sqltext import shown
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.ports import NEWEST, Cell, TableReader
from hornbeam_server.storage.snapshot import CATALOG, ReadItem
from hornbeam_server.txlayer.locking.locks import Mode
from hornbeam_server.txlayer.statements.requests import Precondition, RepairRows, StatementResult
from hornbeam_server.txlayer.transactions.workspace import Key, Workspace


class StoredRows:
    """Stored rows that a client or a repair names by encoded key, under the locks of their
    roots."""

    def __init__(self, workspace: Workspace, store: TableReader) -> None:
        self._workspace = workspace
        self._state = workspace.state
        self._store = store

    async def validate(
        self, reads: Sequence[ReadItem], preconditions: Sequence[Precondition]
    ) -> None:
        """Check the row versions on which the client relies. Raises ReadConflict,
        PreconditionFailed, NotFound, InvalidRequest, TypeMismatch."""
        if any(r.layout == CATALOG and r.ts != self._state.meaning for r in reads):
            raise ReadConflict(
                "The schema has changed since this transaction read under it.", cure="Begin again."
            )
        reads = [item for item in reads if item.layout != CATALOG]
        await self._workspace.reader.prefetch(self._relied_on(reads, preconditions))
        for item in reads:
            known = item.layout in self._state.catalog
            if not known or await self._version(item.layout, item.key) != item.ts:
                raise ReadConflict(
                    f"A row of {item.layout} that this transaction read has changed since.",
                    cure="Begin again and read it again.",
                )
        for condition in preconditions:
            relation, key = self._precondition_key(condition)
            encoded = self._state.codecs(relation.name).key_of(key)
            version = await self._version(relation.name, encoded)
            if version != condition.version:
                raise PreconditionFailed(
                    f"{relation.name} {shown(relation.primary_key, key)}"
                    + (" is absent." if version is None else f" is at version {version}."),
                    relation=relation.name,
                    version=version,
                )

    def _relied_on(
        self, reads: Sequence[ReadItem], preconditions: Sequence[Precondition]
    ) -> dict[str, list[Key]]:
        """The keys of all rows whose versions are checked, and of their base rows, by name."""
        wanted: dict[str, list[Key]] = {}
        for item in reads:
            if item.layout in self._state.catalog:
                relation, base_key = self._read_origin(item.layout, item.key)
                key = self._state.codecs(item.layout).decode_key(item.key)
                wanted.setdefault(relation, []).append(base_key)
                wanted.setdefault(item.layout, []).append(key)
        for condition in preconditions:
            of, key = self._precondition_key(condition)
            wanted.setdefault(of.name, []).append(key)
        return wanted

    def _precondition_key(self, condition: Precondition) -> tuple[Relation, Key]:
        if condition.relation not in self._state.catalog.schema:
            raise NotFound(f"There is no relation {condition.relation}.")
        relation = self._state.catalog.schema.relation(condition.relation)
        if len(condition.key) != len(relation.primary_key):
            raise InvalidRequest(
                f"The key of a precondition on {relation.name} has the wrong number of values.",
                cure=f"Give one value for each of {', '.join(relation.primary_key)}.",
            )
        pairs = zip(relation.primary_key, condition.key, strict=True)
        return relation, tuple(relation.column(name).type.coerce(value) for name, value in pairs)

    async def _version(self, layout: str, key: bytes) -> int | None:
        """The commit timestamp of a stored row, under a shared lock of its root; None if there is
        no such row."""
        relation, base_key = self._read_origin(layout, key)
        encoded = self._state.codecs(relation).key_of(base_key)
        await self._workspace.lock_existence(relation, [encoded], Mode.SHARED)
        while True:
            rows = [
                r
                for r in await self._workspace.committed_rows(relation, [base_key])
                if r is not None
            ]
            names = await self._state.roots.find(relation, rows, self._workspace.committed_rows)
            if not await self._workspace.lock(names, Mode.SHARED):
                break
        (version,) = await self._workspace.reader.get(
            layout, [self._state.codecs(layout).decode_key(key)]
        )
        return version.ts if version is not None else None

    def _read_origin(self, layout: str, key: bytes) -> tuple[str, Key]:
        """`_origin` of a row that a client reports as read. Raises ReadConflict if the relation,
        view or index is gone, InvalidRequest for a malformed key and for a declared view, whose
        reads are not validated."""
        catalog = self._state.catalog
        if layout in catalog.declared_view:
            raise InvalidRequest(
                f"Rows of {layout} cannot be validated.", cure="Send only reads of relations."
            )
        if layout not in catalog.schema and not catalog.maintained(layout):
            raise ReadConflict(f"{layout}, which this transaction read, is gone since.")
        try:
            return self._origin(layout, key)
        except Corruption:
            raise InvalidRequest(
                f"{key.hex()!r} is no key of {layout}.", cure="Send keys as a query returned them."
            ) from None

    def _origin(self, layout: str, key: bytes) -> tuple[str, Key]:
        """The base row of a stored row: the last relation of its source, and the key there. Raises
        Corruption for a malformed key."""
        catalog, codec = self._state.catalog, self._state.codecs(layout)
        source = catalog.layout(codec.layout.source)
        columns = (part.column for part in codec.layout.key)
        by_column = dict(zip(columns, codec.decode_key(key), strict=True))
        relation = catalog.view[source.name].last if source.name in catalog.view else source.name
        return relation, tuple(by_column[part.column] for part in source.key)

    async def repair(self, damaged: RepairRows) -> StatementResult:
        """Compute rows of a view or index again, under the locks of their roots, and write those
        that differ.

        A malformed key needs no lock: it belongs to no base row, and no writer uses it.
        """
        codecs, catalog = self._state.codecs, self._state.catalog
        codec = codecs(damaged.layout)
        origins = [self._origin(damaged.layout, k) for k in damaged.keys if codec.is_key(k)]
        expected: dict[bytes, Row] = {}
        if origins:
            keys = list(dict.fromkeys(key for _, key in origins))
            await self._workspace.lock_and_read(origins[0][0], keys)
            expected = await rows_from(
                catalog, codecs, damaged.layout, self._workspace.reader, keys
            )
        stored = await self._store.get(codec.layout.table, damaged.keys, NEWEST)
        for key, cell in zip(damaged.keys, stored, strict=True):
            old, new = _decoded(codec, cell), expected.get(key)
            if not identical(old, new) or (cell is not None and old is None):
                self._workspace.repairs.append(Mutation(damaged.layout, key, old, new))
        return StatementResult(len(self._workspace.repairs))


def _decoded(codec: LayoutCodec, cell: Cell | None) -> Row | None:
    """The row in `cell`; None if there is no cell, or it cannot be decoded."""
    try:
        return codec.decode(cell.value) if cell is not None else None
    except Corruption:
        return None
