"""What a run of a plan reads: rows, calls and seconds of each access path, for EXPLAIN ANALYZE."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from hornbeam_server.query.optimizer.access_paths import Access
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.snapshot import RowReader, RowVersion

B = TypeVar("B", list[Row], pa.RecordBatch)


@dataclass(slots=True)
class Measure:
    """The reads of one access path: its rows, its calls of the reader, and the seconds that they
    took. Rows that an index entry points to are not counted again."""

    rows: int = 0
    calls: int = 0
    seconds: float = 0.0


@dataclass
class Measures:
    """The reads of a run. `plan` is the plan that ran last: a run whose rows do not fit into memory
    begins again in DuckDB. `prepared` is the query of this plan, whose parameters may have become
    literals."""

    now: Callable[[], float]
    prepared: Any = None
    plan: Any = None
    _reads: dict[int, Measure] = field(default_factory=dict)
    """By the identity of the plan's access paths, of which several may be equal."""

    def begin(self, prepared: Any, plan: Any) -> None:
        """Note that `plan` begins, and forget what an earlier plan has read."""
        self.prepared, self.plan = prepared, plan
        self._reads.clear()

    def of(self, access: Access) -> Measure | None:
        """The reads of an access path of the plan; None if it was not taken."""
        return self._reads.get(id(access))

    def take(self, access: Access) -> Measure:
        """The reads of an access path that is taken now."""
        return self._reads.setdefault(id(access), Measure())

    @property
    def seconds(self) -> float:
        """The seconds of all reads."""
        return sum(measure.seconds for measure in self._reads.values())


class Measuring(RowReader):
    """A `RowReader` that measures the reads of `inner` for `access`."""

    def __init__(self, inner: RowReader, measures: Measures, access: Access | None = None) -> None:
        self.catalog = inner.catalog
        self.inner = inner
        self.measures = measures
        self.access = access

    def of(self, access: Access) -> Measuring:
        self.measures.take(access)
        return Measuring(self.inner, self.measures, access)

    async def get(
        self, layout: str, keys: Sequence[tuple[Value, ...]], *, room: int | None = None
    ) -> list[RowVersion | None]:
        began = self.measures.now()
        found = await self.inner.get(layout, keys, room=room)
        self._note(layout, sum(version is not None for version in found), began)
        return found

    async def prefixes(
        self, layout: str, prefixes: Sequence[tuple[Value, ...]], *, room: int | None = None
    ) -> list[list[RowVersion]]:
        began = self.measures.now()
        found = await self.inner.prefixes(layout, prefixes, room=room)
        self._note(layout, sum(map(len, found)), began)
        return found

    def scan(
        self,
        layout: str,
        key_range: KeyRange = KeyRange(),
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncGenerator[list[Row], None]:
        scanned = self.inner.scan(layout, key_range, reverse=reverse, limit=limit)
        return self._noting(layout, scanned)

    def scan_columns(
        self,
        layout: str,
        at: Sequence[int],
        key_range: KeyRange = KeyRange(),
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        scanned = self.inner.scan_columns(layout, at, key_range, reverse=reverse, limit=limit)
        return self._noting(layout, scanned)

    async def _noting(
        self, layout: str, scanned: AsyncGenerator[B, None]
    ) -> AsyncGenerator[B, None]:
        """The batches of a scan, which are noted."""
        began = self.measures.now()
        async with aclosing(scanned) as batches:
            async for batch in batches:
                self._note(layout, len(batch), began)
                yield batch
                began = self.measures.now()

    def _note(self, layout: str, rows: int, began: float) -> None:
        if self.access is None:
            return
        measure = self.measures.take(self.access)
        measure.rows += rows if layout == self.access.layout.name else 0
        measure.calls += 1
        measure.seconds += self.measures.now() - began


def for_access(reader: RowReader, access: Access) -> RowReader:
    """The reader for one access path: `reader` itself, unless it measures."""
    return reader.of(access) if isinstance(reader, Measuring) else reader


def begins(reader: RowReader, prepared: Any, plan: Any) -> None:
    """Note that a plan begins, if `reader` measures."""
    if isinstance(reader, Measuring):
        reader.measures.begin(prepared, plan)
