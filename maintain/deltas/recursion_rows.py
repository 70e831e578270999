"""The rows of a recursion as a view stores them.

Each distinct row is stored once, with the number of its derivations: how often `start` has it, and
how often a step derives it from stored rows (of UNION ALL: from each copy of them). Its key is made
of the columns by whose values it is looked up, and a digest of all columns. So a row may have
columns that are part of no key, such as an array with its path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.maintain.deltas.planned import Planned
from hornbeam_server.maintain.deltas.relations import Fields, with_one_nan
from hornbeam_server.schema.catalog import Layout
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.model import Column, KeyPart
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import UNORDERED, ColumnType, Kind, Row, Value
from hornbeam_server.schema.views import StateLayout
from hornbeam_server.storage.codec.keys import part_encoder
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.snapshot import RowReader

Counts = Mapping[Row, int]
"""Row → number of derivations."""
DIGEST, COUNT = "_digest", "_count"
_BYTES = 20
"""The size of a digest: no two rows of a view have the same one."""


@dataclass(frozen=True)
class RecursionRows(Planned):
    """`orders`: for each layout, the columns with which its key begins. All layouts have all rows.
    By the first one, a step finds the rows with which changed rows are joined."""

    view: str
    number: int
    columns: Fields
    orders: tuple[tuple[str, ...], ...]

    @cached_property
    def states(self) -> tuple[StateLayout, ...]:
        columns = [Column(f"c{i}", field.type) for i, field in enumerate(self.columns)]
        columns += [Column(DIGEST, ColumnType(Kind.TEXT)), Column(COUNT, ColumnType(Kind.BIGINT))]
        place = {field.name: i for i, field in enumerate(self.columns)}
        return tuple(
            StateLayout(
                f"recursion{self.number}" + (f"_{i}" if i else ""),
                tuple(columns),
                tuple(KeyPart(name) for name in (*(f"c{place[n]}" for n in order), DIGEST)),
            )
            for i, order in enumerate(self.orders)
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the layouts."""
        return tuple(f"{self.view}.{state.name}" for state in self.states)

    @cached_property
    def codecs(self) -> tuple[LayoutCodec, ...]:
        pairs = zip(self.names, self.states, strict=True)
        return tuple(LayoutCodec(Layout(n, "", s.columns, s.key, n)) for n, s in pairs)

    @cached_property
    def _encoders(self) -> tuple[Callable[[Value], bytes], ...]:
        kinds = [field.type.kind for field in self.columns]
        return tuple(msgspec.msgpack.encode if k in UNORDERED else part_encoder(k) for k in kinds)

    @cached_property
    def _first_key(self) -> Projection:
        place = {field.name: i for i, field in enumerate(self.columns)}
        return projection([place[name] for name in self.orders[0]])

    def _digest(self, row: Row) -> str:
        digest = hashlib.blake2b(digest_size=_BYTES)
        for encode, value in zip(self._encoders, row, strict=True):
            part = encode(value)
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()

    def _counted(self, stored: Iterable[Row]) -> dict[Row, int]:
        found = list(stored)
        rows = with_one_nan(self.columns, [row[:-2] for row in found])
        return {row: each[-1] for row, each in zip(rows, found, strict=True)}  # type: ignore[misc]

    async def counts(self, reader: RowReader, rows: Sequence[Row]) -> dict[Row, int]:
        """The number of derivations of each of the distinct `rows`; 0 if it is not stored."""
        keys = [(*self._first_key(row), self._digest(row)) for row in rows]
        found = await reader.get(self.names[0], keys) if keys else []
        return {
            row: 0 if version is None else version.row[-1]  # type: ignore[misc]
            for row, version in zip(rows, found, strict=True)
        }

    async def by_prefix(
        self, reader: RowReader, prefixes: Sequence[Row], order: int = 0
    ) -> dict[Row, int]:
        """The rows that have one of the values of the first columns of an order."""
        found = await reader.prefixes(self.names[order], prefixes) if prefixes else []
        return self._counted(version.row for rows in found for version in rows)

    async def whole(self, reader: RowReader) -> dict[Row, int]:
        """All rows."""
        return self._counted([row async for rows in reader.scan(self.names[0]) for row in rows])

    def mutations(self, before: Counts, after: Counts) -> Iterator[Mutation]:
        """The mutations of rows whose numbers of derivations change. Raises Corruption."""
        for row, count in after.items():
            old, digest = before[row], self._digest(row)
            if count < 0:
                raise Corruption(
                    f"{self.names[0]} has too few derivations of a row.",
                    cure=f"hornbeam refresh --rebuild {self.view}",
                )
            if count == old:
                continue
            stored = [(*row, digest, number) if number else None for number in (old, count)]
            for name, codec in zip(self.names, self.codecs, strict=True):
                yield Mutation(name, codec.key((*row, digest, 0)), *stored)
