"""Look-ups of rows at S0 by few keys: `deltas/lookups.py` over rows instead of tables."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from hornbeam_server.maintain.deltas.algebra import JoinKind, Map
from hornbeam_server.maintain.deltas.lookups import (
    Between,
    Joined,
    Lookup,
    Mapped,
    Narrowed,
    Never,
    OfState,
    Partitioned,
    Recursive,
    Stored,
    United,
)
from hornbeam_server.maintain.deltas.range_lookups import Limited, Ranged, Whole
from hornbeam_server.maintain.deltas.relations import Fields, evaluate, from_rows
from hornbeam_server.maintain.deltas.rows.groups import finisher
from hornbeam_server.maintain.deltas.rows.joins import row_join
from hornbeam_server.maintain.deltas.rows.maps import compile_map
from hornbeam_server.maintain.deltas.rows.parsing import NotCompiledError
from hornbeam_server.maintain.deltas.states import GroupState
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.snapshot import RowReader

RowLookup = Callable[[RowReader, Sequence[Row]], Awaitable[Sequence[Row]]]
"""The rows that have one of the keys, and maybe others: `Lookup.rows`."""
Convert = Callable[[Sequence[Row]], Sequence[Row]]


def row_lookup(lookup: Lookup, given: Fields) -> RowLookup:
    """The look-up over rows. `given` are the columns of its keys."""
    match lookup:
        case Stored():
            return _stored(lookup, given)
        case Between():
            return _between(lookup, given)
        case Mapped():
            return _mapped(lookup, given)
        case Joined():
            return _joined(lookup, given)
        case United():
            return _united(lookup, given)
        case Narrowed():
            return _narrowed(lookup, given)
        case Partitioned():
            return _partitioned(lookup, given)
        case Recursive():
            return _recursive(lookup, given)
        case Ranged():
            return _ranged(lookup, given)
        case Limited():
            return _limited(lookup, given)
        case Whole():
            return _whole(lookup)
        case Never():
            return _never
    raise AssertionError(lookup)


def _stored(lookup: Stored, given: Fields) -> RowLookup:
    finish = _finish(lookup)

    async def rows(reader: RowReader, keys: Sequence[Row]) -> Sequence[Row]:
        prefixes = lookup.prefixes(keys, given)
        return finish(await lookup.source.by_prefix(reader, prefixes)) if prefixes else ()

    return rows


def _between(lookup: Between, given: Fields) -> RowLookup:
    finish = _finish(lookup)

    async def rows(reader: RowReader, keys: Sequence[Row]) -> Sequence[Row]:
        found = lookup.range(keys, given)
        return finish(await lookup.source.between(reader, *found)) if found else ()

    return rows


def _ranged(lookup: Ranged, given: Fields) -> RowLookup:
    finish = _finish(lookup)

    async def rows(reader: RowReader, keys: Sequence[Row]) -> Sequence[Row]:
        return finish(await lookup.stored(reader, keys, given))

    return rows


def _limited(lookup: Limited, given: Fields) -> RowLookup:
    inner = row_lookup(lookup.inner, lookup.limits(given))

    async def rows(reader: RowReader, keys: Sequence[Row]) -> Sequence[Row]:
        return await inner(reader, list(map(lookup.range, keys)))

    return rows


def _whole(lookup: Whole) -> RowLookup:
    finish = _finish(lookup)

    async def rows(reader: RowReader, keys: Sequence[Row]) -> Sequence[Row]:
        return finish(await lookup.source.between(reader, None, None)) if keys else ()

    return rows


def _finish(lookup: OfState) -> Convert:
    if lookup.state is None:
        return lambda rows: rows
    assert isinstance(lookup.state, GroupState)
    finish = finisher(lookup.state)
    return lambda rows: list(map(finish, rows))


async def _never(reader: RowReader, keys: Sequence[Row]) -> Sequence[Row]:
    return ()


def _mapped(lookup: Mapped, given: Fields) -> RowLookup:
    inner, convert = row_lookup(lookup.inner, given), _converted(lookup.map)

    async def rows(reader: RowReader, keys: Sequence[Row]) -> Sequence[Row]:
        found = await inner(reader, keys)
        return convert(found) if found else ()

    return rows


def _converted(map_: Map) -> Convert:
    try:
        return compile_map(map_).rows
    except NotCompiledError:
        return lambda rows: evaluate(
            map_.select("found"), {"found": from_rows(map_.input.fields, rows)}, map_.fields
        ).rows()


def _joined(lookup: Joined, given: Fields) -> RowLookup:
    join, by_left = row_join(lookup.join), lookup.from_left
    side = lookup.join.left if by_left else lookup.join.right
    columns = tuple(side.field[name] for name in lookup.join.compared(0 if by_left else 1))
    key = projection([side.fields.index(column) for column in columns])
    first, second = row_lookup(lookup.first, given), row_lookup(lookup.second, columns)
    kind = lookup.join.kind if by_left else JoinKind.INNER

    async def rows(reader: RowReader, keys: Sequence[Row]) -> Sequence[Row]:
        found = await first(reader, keys)
        if not found:
            return ()
        partners = await second(reader, distinct_keys(found, key))
        left, right = (found, partners) if by_left else (partners, found)
        return [row for part in join.results(left, join.by_key(right), kind) for row in part]

    return rows


def distinct_keys(rows: Sequence[Row], key: Projection) -> list[Row]:
    """The distinct keys of rows, without NULLs: NULL joins nothing."""
    return [found for found in dict.fromkeys(map(key, rows)) if None not in found]


def _united(lookup: United, given: Fields) -> RowLookup:
    parts = [row_lookup(part, given) for part in lookup.parts]

    async def rows(reader: RowReader, keys: Sequence[Row]) -> Sequence[Row]:
        return [row for part in parts for row in await part(reader, keys)]

    return rows


def _partitioned(lookup: Partitioned, given: Fields) -> RowLookup:
    async def rows(reader: RowReader, keys: Sequence[Row]) -> Sequence[Row]:
        found = await lookup.inputs(reader, keys, given)
        return lookup.computed(found).rows() if found else ()

    return rows


def _recursive(lookup: Recursive, given: Fields) -> RowLookup:
    async def rows(reader: RowReader, keys: Sequence[Row]) -> Sequence[Row]:
        return await lookup.listed(reader, keys, given)

    return rows


def _narrowed(lookup: Narrowed, given: Fields) -> RowLookup:
    inner = row_lookup(lookup.inner, tuple(given[i] for i in lookup.positions))
    pick = projection(lookup.positions)

    async def rows(reader: RowReader, keys: Sequence[Row]) -> Sequence[Row]:
        return await inner(reader, list(map(pick, keys)))

    return rows
