"""Many stored rows of a layout at once: as Arrow record batches, and the keys of the rows.

`PythonRows` is the reference. `SpedUpRows` has the same results and errors: it asks the module
(`implementation.py`), and the reference for all rows that the module refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from hornbeam_server.schema.catalog import Layout
from hornbeam_server.schema.types import REAL, ColumnType, Kind, array_of, enumeration_of
from hornbeam_server.storage.codec.arrow import arrow_type, picked_batch
from hornbeam_server.storage.codec.implementation import Native, implementation

if TYPE_CHECKING:
    from hornbeam_server.storage.codec.rows import LayoutCodec


class ManyRows(Protocol):
    """Work on many stored rows of one layout."""

    def to_arrow(self, values: Sequence[bytes], at: Sequence[int]) -> pa.RecordBatch:
        """The columns at the positions `at`, at least one, in this order. Raises Corruption, and
        Arrow's errors for values that are not of their column's type."""

    def keys(self, values: Sequence[bytes]) -> list[bytes]:
        """The encoded keys under which the rows belong. Raises Corruption."""

    def with_keys(
        self, values: Sequence[bytes], at: Sequence[int]
    ) -> tuple[pa.RecordBatch, list[bytes]]:
        """The results of both."""


class PythonRows:
    """The reference."""

    def __init__(self, codec: LayoutCodec) -> None:
        self._codec = codec

    def to_arrow(self, values: Sequence[bytes], at: Sequence[int]) -> pa.RecordBatch:
        return picked_batch(self._codec.layout.columns, at, self._codec.decode_all(values))

    def keys(self, values: Sequence[bytes]) -> list[bytes]:
        return list(map(self._codec.key, self._codec.decode_all(values)))

    def with_keys(
        self, values: Sequence[bytes], at: Sequence[int]
    ) -> tuple[pa.RecordBatch, list[bytes]]:
        rows = self._codec.decode_all(values)
        batch = picked_batch(self._codec.layout.columns, at, rows)
        return batch, list(map(self._codec.key, rows))


class SpedUpRows:
    """`native` for the rows that it takes, and the reference for the others."""

    def __init__(self, codec: LayoutCodec, native: Native) -> None:
        layout = codec.layout
        older = codec.encode(tuple(column.value_in_older_rows for column in layout.columns))
        key = [
            (position, part.descending)
            for position, part in zip(layout.key_positions, layout.key, strict=True)
        ]
        self._reference = PythonRows(codec)
        types = [column.type for column in layout.columns]
        self._reals = {i: arrow_type(t) for i, t in enumerate(types) if _decoded(t) != t}
        self._positions = {
            i: {None, *enumeration.positions}
            for i, type_ in enumerate(types)
            if (enumeration := enumeration_of(type_)) is not None
        }
        """By the number of each column of an ENUM, the values that it may have."""
        self._native = native.Rows(_schema(layout), older, key)

    def to_arrow(self, values: Sequence[bytes], at: Sequence[int]) -> pa.RecordBatch:
        found = self._decode(values, at)
        return self._reference.to_arrow(values, at) if found is None else found

    def keys(self, values: Sequence[bytes]) -> list[bytes]:
        found = self._keys(values)
        return self._reference.keys(values) if found is None else found

    def with_keys(
        self, values: Sequence[bytes], at: Sequence[int]
    ) -> tuple[pa.RecordBatch, list[bytes]]:
        batch, keys = self._decode(values, at), self._keys(values)
        if batch is None or keys is None:
            return self._reference.with_keys(values, at)
        return batch, keys

    def _decode(self, values: Sequence[bytes], at: Sequence[int]) -> pa.RecordBatch | None:
        """The columns at the positions `at`; None if the reference must decide."""
        found = self._native.decode(values, [*at, *self._positions])
        if found is None or not (self._positions or self._reals):
            return found
        if not self._has_labels(found.columns[len(at) :]):
            return None
        columns = [
            column.cast(self._reals[i]) if i in self._reals else column
            for column, i in zip(found.columns, at, strict=False)
        ]
        return pa.RecordBatch.from_arrays(columns, names=found.schema.names[: len(at)])

    def _keys(self, values: Sequence[bytes]) -> list[bytes] | None:
        """The keys; None if the reference must decide."""
        if self._positions and self._decode(values, ()) is None:
            return None
        return self._native.keys(values)

    def _has_labels(self, columns: Sequence[pa.Array]) -> bool:
        """Has each value of the columns of an ENUM a label?"""
        return all(
            known.issuperset(_elements(column).unique().to_pylist())
            for column, known in zip(columns, self._positions.values(), strict=True)
        )


def _elements(column: pa.Array) -> pa.Array:
    return column.flatten() if pa.types.is_list(column.type) else column


def many_rows(codec: LayoutCodec) -> ManyRows:
    """Work on the rows of a codec, by the implementation of this process."""
    native = implementation().native
    return PythonRows(codec) if native is None else SpedUpRows(codec, native)


def _schema(layout: Layout) -> pa.Schema:
    """The Arrow types in which the module decodes a layout, and whether a column may be NULL. A
    REAL, which is stored as a DOUBLE, is decoded as one."""
    fields = [pa.field(c.name, arrow_type(_decoded(c.type)), c.nullable) for c in layout.columns]
    return pa.schema(fields)


def _decoded(type_: ColumnType) -> ColumnType:
    if type_.element is not None:
        return array_of(_decoded(type_.element))
    return ColumnType(Kind.DOUBLE) if type_ == REAL else type_
