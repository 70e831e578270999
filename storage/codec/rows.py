"""Rows of a layout as stored: key and value codecs, compiled per layout.

Value: byte 0x01 (format), then all columns of the layout as a MessagePack array, in column order
(DECIMAL, DATE, TIME, TIMESTAMP and UUID as text, TIMESTAMPTZ as the timestamp extension, BYTES as
bin; msgspec's native forms; an ENUM as the text of its label's position, `schema/enumerations.py`;
an array of any type as a MessagePack array of its elements, of which NULL is nil). A row written
before columns were appended to its relation is shorter; the missing ones read as
`Column.value_in_older_rows`. A dropped column keeps its place: older rows have its value, later
rows NULL. An INTERVAL is a map of `months`, `days` and `microseconds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec

from hornbeam_server.schema.catalog import Catalog, Layout
from hornbeam_server.schema.enumerations import Label, stored_position
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.rows import projection
from hornbeam_server.schema.sizes import kept_sizes, kept_sizes_of_rows
from hornbeam_server.schema.types import PYTHON_TYPES, ColumnType, Row, Value
from hornbeam_server.schema.views import ImmediateView
from hornbeam_server.storage.codec.folds import Compute, Fold
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.codec.keys import decode_parts, part_encoder, successor
from hornbeam_server.storage.codec.many_rows import ManyRows, many_rows

FORMAT = b"\x01"
_ENCODER = msgspec.msgpack.Encoder(enc_hook=stored_position)
_LOOSE = msgspec.msgpack.Decoder(list[msgspec.Raw])


class LayoutCodec:
    """Keys and values of one layout.

    The first `shared` columns are often equal in neighbouring rows: of a view, all columns but
    those of its last relation.
    """

    def __init__(self, layout: Layout, shared: int = 0) -> None:
        self.layout = layout
        kinds = [layout.columns[i].type.kind for i in layout.key_positions]
        self._descending = [part.descending for part in layout.key]
        self._parts = [
            part_encoder(kind, down) for kind, down in zip(kinds, self._descending, strict=True)
        ]
        self._positions = layout.key_positions
        of_key = (layout.columns[i].type.enumeration for i in layout.key_positions)
        self._labels = [(part, e.by_position) for part, e in enumerate(of_key) if e is not None]
        self.key: Callable[[Row], bytes] = _key_encoder(layout)
        """Encoded key of a full row."""
        self.key_values: Callable[[Row], tuple[Value, ...]] = projection(self._positions)
        types = tuple(_annotation(column) for column in layout.columns)
        self._decoder = _decoder(tuple[types])  # type: ignore[valid-type]
        self.begin = FORMAT + _array_header(len(types))
        """The first bytes of the value of every row with all columns; the columns follow."""
        self._batch_decoder = _decoder(list[tuple[types]])  # type: ignore[valid-type]
        self._kept_size = kept_sizes(column.type for column in layout.columns)
        self._runs = _Runs(types, shared) if 0 < shared < len(types) else None
        self._least = max([0, *(i + 1 for i in self._positions if _is_required(layout.columns[i]))])
        self._short: dict[int, tuple[msgspec.msgpack.Decoder[Row], Row]] = {}

    @cached_property
    def many(self) -> ManyRows:
        """Work on many stored rows at once."""
        return many_rows(self)

    def key_of(self, values: Sequence[Value]) -> bytes:
        """Encoded key from full key values, in key order."""
        return b"".join([encode(value) for encode, value in zip(self._parts, values, strict=True)])

    def key_at(self, positions: Sequence[int]) -> Callable[[Row], bytes]:
        """A function from a row of any layout, which has the values of a key at `positions`, to the
        encoded key."""
        return _joined(tuple(zip(self._parts, positions, strict=True)))

    def prefix(self, values: Sequence[Value]) -> bytes:
        """Encoded leading key values: a prefix of every key that begins with them."""
        return b"".join([encode(value) for encode, value in zip(self._parts, values, strict=False)])

    def decode_key(self, key: bytes) -> tuple[Value, ...]:
        """Key values of an encoded key. Raises Corruption.

        A decimal comes back with another number of trailing zeros: equal, not identical.
        """
        values = decode_parts(key, self._descending)
        if not self._labels:
            return values
        found = list(values)
        for part, labels in self._labels:
            position = found[part]
            label = None if position is None else labels.get(str(position))
            if label is None is not position:
                raise Corruption(f"A key of {self.layout.name} has no label: {key.hex()}")
            found[part] = label
        return tuple(found)

    def is_key(self, key: bytes) -> bool:
        """True if a row of this layout can have `key` as its encoded key."""
        try:
            return self.key_of(self.decode_key(key)) == key
        except (Corruption, TypeError, AttributeError, ValueError, OverflowError):
            return False  # no parts, or parts of other types than the columns

    def range(self, key_range: KeyRange) -> tuple[bytes, bytes | None]:
        """Encoded bounds of a key range: from (included), to (excluded; None: to the end)."""
        prefix = self.prefix(key_range.prefix)
        low, high = key_range.low, key_range.high
        if low is None and high is None:
            return prefix, successor(prefix)
        at = len(key_range.prefix)
        encode, descending = self._parts[at], self._descending[at]
        # NULLs match no bound: they lie first ascending, last descending.
        nulls = prefix + encode(None)
        start, end = (prefix, nulls) if descending else (successor(nulls) or nulls, None)
        first, first_in, last, last_in = (
            (high, key_range.high_inclusive, low, key_range.low_inclusive)
            if descending
            else (low, key_range.low_inclusive, high, key_range.high_inclusive)
        )
        if first is not None:
            bound = prefix + encode(first)
            start = bound if first_in else successor(bound) or bound
        if last is not None:
            bound = prefix + encode(last)
            end = successor(bound) if last_in else bound
        return start, end if end is not None else successor(prefix)

    def long_bytes(self, row: Row | None) -> int:
        """Size of the texts and bytes of a row: the values that can have any length."""
        return 0 if row is None else self._kept_size(row)

    @cached_property
    def long_bytes_of(self) -> Callable[[Sequence[Row]], int]:
        """`long_bytes` of many rows together."""
        return kept_sizes_of_rows(column.type for column in self.layout.columns)

    def encode(self, row: Row) -> bytes:
        return FORMAT + _ENCODER.encode(row)

    def decode(self, data: bytes) -> Row:
        """The row of a stored value. Raises Corruption."""
        if data[:1] != FORMAT:
            raise Corruption(
                f"A row of {self.layout.name} has the unknown format {data[:1].hex()}.",
                cure="It was written by a newer version, or the store is damaged.",
            )
        try:
            row: Row = self._decoder.decode(memoryview(data)[1:])
        except msgspec.ValidationError:
            return self._decode_short(data)
        except msgspec.DecodeError as error:
            raise self._corrupt(error) from None
        return row

    def decode_all(self, values: Sequence[bytes]) -> list[Row]:
        """`decode` for many rows, preferably in key order. Raises Corruption."""
        if self._runs is not None and _has_runs(values):
            return self._runs.decode(values, self.decode)
        rows = self._decode_together(values)
        return rows if rows is not None else [self.decode(data) for data in values]

    def decode_keyed(self, cells: Sequence[tuple[bytes, bytes]]) -> list[Row] | None:
        """`decode` for many pairs of key and value; None if a row does not belong to its key, or
        cannot be decoded together with the others (alone it may still be right)."""
        rows = self._decode_together([value for _, value in cells])
        if rows is None:
            return None
        return rows if list(map(self.key, rows)) == [key for key, _ in cells] else None

    def _decode_together(self, values: Sequence[bytes]) -> list[Row] | None:
        """The rows of `values`, in a third of the time of `decode`; None if one of the values is
        no row with all columns.

        All values are decoded as one array. A value begins with a row's header and ends with its
        last column, since MessagePack is self-delimiting; a row's header begins no element of an
        array.
        """
        begin = self.begin
        bare = [value[1:] for value in values if value.startswith(begin)]
        if len(bare) != len(values):
            return None
        try:
            return list(self._batch_decoder.decode(_long_header(len(bare)) + b"".join(bare)))
        except msgspec.DecodeError:
            return None

    def _decode_short(self, data: bytes) -> Row:
        """The row of a value that was written before columns were appended. Raises Corruption."""
        try:
            given = len(_LOOSE.decode(memoryview(data)[1:]))
            if given > len(self.layout.columns):
                raise self._corrupt("more values than columns")
            if given < self._least:
                raise self._corrupt("it lacks columns of its key")
            decoder, defaults = self._short_decoder(given)
            return decoder.decode(memoryview(data)[1:]) + defaults
        except msgspec.DecodeError as error:
            raise self._corrupt(error) from None

    def _short_decoder(self, given: int) -> tuple[msgspec.msgpack.Decoder[Row], Row]:
        """Decoder of the first `given` columns, and the values of the other columns."""
        known = self._short.get(given)
        if known is None:
            columns = self.layout.columns
            types = tuple(_annotation(column) for column in columns[:given])
            decoder = _decoder(tuple[types] if types else tuple[()])  # type: ignore[valid-type]
            defaults = tuple(column.value_in_older_rows for column in columns[given:])
            known = self._short[given] = (decoder, defaults)
        return known

    def _corrupt(self, error: object) -> Corruption:
        return Corruption(f"A row of {self.layout.name} cannot be decoded: {error}")


class _Runs:
    """Decodes runs of rows with equal first columns; these columns are decoded once per run.

    MessagePack is self-delimiting, so rows that have the same bytes up to the end of a column have
    equal columns up to there.
    """

    def __init__(self, types: Sequence[Any], shared: int) -> None:
        self._columns = len(types)
        self._shared = shared
        self._rest_header = _array_header(len(types) - shared)
        rest = tuple(types[shared:])
        self._rest = _decoder(tuple[rest])  # type: ignore[valid-type]

    def decode(self, values: Sequence[bytes], decode: Callable[[bytes], Row]) -> list[Row]:
        rows: list[Row] = []
        rest, header = self._rest.decode, self._rest_header
        head: Row = ()
        common = _NEVER
        for data, following in zip(values, [*values[1:], b""], strict=False):
            if data.startswith(common):
                try:
                    rows.append(head + rest(header + data[len(common) :]))
                except msgspec.DecodeError:
                    rows.append(decode(data))  # decodes the row alone, or reports the fault
                continue
            row = decode(data)
            rows.append(row)
            if following.startswith(data[:_ALIKE]):
                head = row[: self._shared]
                common = self._bytes(head)
        return rows

    def _bytes(self, head: Row) -> bytes:
        """The first bytes of the value of a row that begins with the columns `head`."""
        values = _ENCODER.encode(head)[len(_array_header(len(head))) :]
        return FORMAT + _array_header(self._columns) + values


def _has_runs(values: Sequence[bytes]) -> bool:
    """True if most rows begin as the previous row does, judged by the first rows."""
    first = values[:_SAMPLE]
    alike = sum(a[:_ALIKE] == b[:_ALIKE] for a, b in pairwise(first))
    return 2 * alike >= len(first) - 1


_SAMPLE = 100
_NEVER = b"\0"
"""Begins no value: values begin with FORMAT."""
_ALIKE = 16
"""Rows that agree in so many first bytes are likely to agree in their first columns."""


def _array_header(length: int) -> bytes:
    return _ENCODER.encode((None,) * length)[:-length]


def _long_header(length: int) -> bytes:
    """The header of an array of any length, in MessagePack's longest form."""
    return b"\xdd" + length.to_bytes(4)


def _no_compiler(view: ImmediateView) -> Compute:
    raise AssertionError(f"the columns of {view.name} are computed: use maintain.immediate.reading")


class Codecs:
    """Codecs of one catalog version by layout name; `codecs("customer")`.

    `compiled` compiles the expressions of immediate views, which this folder cannot evaluate
    (`maintain.immediate.reading.codecs_of` gives it). Without it, views that compute columns cannot
    be read.
    """

    def __init__(
        self, catalog: Catalog, compiled: Callable[[ImmediateView], Compute] = _no_compiler
    ) -> None:
        self.catalog = catalog
        self._compiled = compiled
        self._codecs: dict[str, LayoutCodec] = {}
        self._folds: dict[str, Fold | None] = {}

    def fold(self, name: str) -> Fold | None:
        """The fold of an immediate view, or of an index on one; None for any other layout."""
        if name not in self._folds:
            self._folds[name] = self._fold(name)
        return self._folds[name]

    def _fold(self, name: str) -> Fold | None:
        index = self.catalog.index.get(name)
        view = self.catalog.immediate_view.get(name if index is None else index.on)
        if view is None:
            return None
        compute = None if view.computed is None else self._compiled(view)
        return Fold(view, compute, None if index is None else index.name)

    def __call__(self, name: str) -> LayoutCodec:
        """Raises KeyError."""
        codec = self._codecs.get(name)
        if codec is None:
            codec = self._codecs[name] = LayoutCodec(self.catalog.layout(name), self._shared(name))
        return codec

    def _shared(self, name: str) -> int:
        """The number of a view's columns above its last relation, in which sibling rows agree; 0
        for other layouts."""
        view = self.catalog.view.get(name)
        if view is None:
            return 0
        return sum(column.relation != view.last for column in view.columns)


def _is_required(column: Column) -> bool:
    """Must every row have a value of this column?"""
    return not column.nullable and column.value_in_older_rows is None


def _annotation(column: Column) -> Any:
    type_ = _python_type(column.type)
    return type_ | None if column.nullable else type_


def _python_type(type_: ColumnType) -> Any:
    if type_.enumeration is not None:
        return type_.enumeration.class_
    if type_.element is None:
        return PYTHON_TYPES[type_.kind]
    return tuple[_python_type(type_.element) | None, ...]  # type: ignore[misc]


def _decoder(type_: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(type_, dec_hook=_labelled)


def _labelled(class_: type[Label], position: str) -> Label:
    """The label at a position in the enumeration of `class_`. Raises ValueError, which msgspec
    reports as a value of another type."""
    found = class_.of.by_position.get(position)
    if found is None:
        raise ValueError(f"{position!r} is the position of no label")
    return found


def _key_encoder(layout: Layout) -> Callable[[Row], bytes]:
    """A function from a full row to its encoded key."""
    columns = [layout.columns[i] for i in layout.key_positions]
    encoders = [
        part_encoder(column.type.kind, part.descending, column.nullable)
        for column, part in zip(columns, layout.key, strict=True)
    ]
    return _joined(tuple(zip(encoders, layout.key_positions, strict=True)))


def _joined(placed: Sequence[tuple[Callable[[Any], bytes], int]]) -> Callable[[Row], bytes]:
    """A function from a row to the encoded values at the given positions, one after the other. Most
    keys have one or two parts, and need no loop."""
    match placed:
        case ((encode, i),):
            return lambda row: encode(row[i])
        case ((first, i), (second, j)):
            return lambda row: first(row[i]) + second(row[j])
    return lambda row: b"".join([encode(row[i]) for encode, i in placed])
