"""Rows of an operator as a view stores them: the view's own rows, and those of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.maintain.deltas.planned import Planned
from hornbeam_server.maintain.deltas.relations import (
    Field,
    Fields,
    columns_sql,
    evaluate,
    net,
    with_one_nan,
)
from hornbeam_server.maintain.deltas.zsets import Weighted, ZSet
from hornbeam_server.schema.catalog import Layout
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import ColumnType, Kind, Row
from hornbeam_server.schema.views import StateLayout
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.snapshot import RowReader

COPY = "_copy"


@dataclass(frozen=True)
class StoredRows(Planned):
    """Rows of `columns` in the layout `name`. `places` are the positions of the stored columns in
    a row; `order` are the first columns of the key, by which rows are read.

    `counted`: a last stored column numbers equal rows from 1. Their number at S0 is read from the
    rows themselves, since all other columns are the beginning of their key.
    """

    view: str
    name: str
    state: StateLayout
    columns: Fields
    places: tuple[int, ...]
    counted: bool
    order: tuple[str, ...] = ()

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.name, "", self.state.columns, self.state.key, self.name)

    @cached_property
    def codec(self) -> LayoutCodec:
        return LayoutCodec(self.layout)

    @cached_property
    def _stored(self) -> Projection:
        """The stored columns of a row."""
        return projection(self.places)

    @cached_property
    def _row(self) -> Projection:
        """The row of stored columns."""
        return projection([self.places.index(i) for i in range(len(self.columns))])

    async def by_prefix(self, reader: RowReader, prefixes: Sequence[Row]) -> list[Row]:
        """The rows that have one of the values of the first columns of `order`."""
        found = await reader.prefixes(self.name, prefixes) if prefixes else []
        return with_one_nan(self.columns, [self._row(v.row) for rows in found for v in rows])

    async def whole(self, reader: RowReader) -> list[Row]:
        """All rows."""
        stored = [row async for batch in reader.scan(self.name) for row in batch]
        return with_one_nan(self.columns, list(map(self._row, stored)))

    async def mutations(self, zset: ZSet, old: RowReader) -> list[Mutation]:
        """The mutations of a change of the rows."""
        if not zset:
            return []
        if not self.counted:
            return self.keyed(ZSet(self.columns, table=net(zset.typed).table).rows)
        columns = columns_sql(self.columns)
        count = Field("n", "BIGINT", ColumnType(Kind.BIGINT))
        change = "CAST(SUM(_w) AS BIGINT)"
        sql = f"SELECT {columns}, {change} AS n FROM z GROUP BY ALL HAVING {change} <> 0"
        counted = evaluate(sql, {"z": zset.typed}, (*self.columns, count)).rows()
        counts = [(row[:-1], int(row[-1])) for row in counted]  # type: ignore[arg-type]
        return await self.copies(counts, old)

    def keyed(self, rows: Iterable[Weighted]) -> list[Mutation]:
        """The mutations of a net change."""
        before: dict[bytes, Row] = {}
        after: dict[bytes, Row] = {}
        for row, weight in rows:
            rows_, stored = after if weight == 1 else before, self._stored(row)
            key = self.codec.key(stored)
            if key in rows_:
                raise Corruption(f"Two rows of {self.view} have one key.", cure="Rebuild it.")
            rows_[key] = stored
        return [Mutation(self.name, key, before.get(key), after.get(key)) for key in before | after]

    async def copies(self, counts: Sequence[Weighted], old: RowReader) -> list[Mutation]:
        """The mutations of distinct rows, each of which gets so many copies more or less."""
        changed = [(self._stored(row), more) for row, more in counts]
        found = await old.prefixes(self.name, [row for row, _ in changed]) if changed else []
        return [
            mutation
            for (row, more), stored in zip(changed, found, strict=True)
            for mutation in self._copied(row, len(stored), len(stored) + more)
        ]

    def _copied(self, row: Row, before: int, after: int) -> Iterator[Mutation]:
        if after < 0:
            raise Corruption(f"{self.view} has too few copies of a row.", cure="Rebuild it.")
        for number in range(min(before, after) + 1, max(before, after) + 1):
            copy = (*row, number)
            old, new = (None, copy) if after > before else (copy, None)
            yield Mutation(self.name, self.codec.key(copy), old, new)
