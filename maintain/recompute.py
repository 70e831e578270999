"""Views and indexes made from nothing but base relations.

Two ways that share nothing with the maintenance programs' choice of affected rows:

- `recompute` is the reference: whole relations as dictionaries, nested look-ups by column name,
  deliberately dumb. Tests and verification compare everything else with it.
- `build_batches` is set-at-a-time: it scans the last relation in key order and walks up in
  batches. Online builds use it; it can begin again after any batch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import NamedTuple

from maintain.indexes import compile_index
from maintain.paths import BaseRows, Key, compile_path
from schema.catalog import Catalog
from schema.types import Row, Value
from storage.codec.keyrange import KeyRange
from storage.codec.rows import Codecs
from storage.snapshot import RowReader

Record = dict[tuple[str, str], Value]
"""(relation, column) → value."""


def recompute(catalog: Catalog, base: Mapping[str, Iterable[Row]], name: str) -> list[Row]:
    """All rows of view or index `name` over the base relations' rows. Raises KeyError."""
    if name in catalog.schema:
        return list(base[name])
    if name in catalog.view:
        return _view_rows(catalog, base, name)
    layout = catalog.layout(name)
    source = catalog.layout(layout.source).column_names
    records = (
        dict(zip(source, row, strict=True)) for row in recompute(catalog, base, layout.source)
    )
    return [tuple(record[column] for column in layout.column_names) for record in records]


def _view_rows(catalog: Catalog, base: Mapping[str, Iterable[Row]], name: str) -> list[Row]:
    view = catalog.view[name]
    joined = [_record(catalog, view.last, row) for row in base[view.last]]
    for edge, child in zip(reversed(view.edges), reversed(view.path[1:]), strict=True):
        parents = {}
        for row in base[edge.parent]:
            parent = _record(catalog, edge.parent, row)
            parents[tuple(parent[edge.parent, column] for column in edge.parent_columns)] = parent
        joined = [
            record | parents[key]
            for record in joined
            if (key := tuple(record[child, column] for column in edge.columns)) in parents
        ]
    return [tuple(r[column.relation, column.column] for column in view.columns) for r in joined]


def _record(catalog: Catalog, relation: str, row: Row) -> Record:
    columns = catalog.schema.relation(relation).column_names
    return {(relation, c): value for c, value in zip(columns, row, strict=True)}


class BuiltBatch(NamedTuple):
    """Rows of a view or index with their encoded keys. `resume` is the key in the scanned base
    relation after which a build goes on; it is the only state that a build has."""

    rows: list[tuple[bytes, Row]]
    resume: Key


async def build_batches(
    catalog: Catalog, codecs: Codecs, name: str, reader: RowReader, *, after: Key | None = None
) -> AsyncIterator[BuiltBatch]:
    """Rows of view or index `name` as of `reader`, in the order of the last relation's key.

    Reads base relations only, so the state of the view or index does not matter. Batches are as
    large as the reader's scan makes them; a batch may hold no rows (NULL foreign keys). `after`
    is the `resume` of an earlier batch. Raises KeyError, and what the reader raises.
    """
    source = catalog.layout(name).source
    view = catalog.view.get(source)
    path = None if view is None else compile_path(catalog, view)
    relation = source if path is None else path.last.relation
    layout = catalog.layout(relation)
    async for batch in _scan_after(reader, relation, after):
        by_key = {tuple(row[i] for i in layout.key_positions): row for row in batch}
        if path is None:
            rows = list(batch)
        else:
            joined = await path.join(BaseRows(reader), by_key, BaseRows.before)
            rows = list(joined.values())
        yield BuiltBatch(_stored_rows(catalog, codecs, name, rows), list(by_key)[-1])


async def rows_from(
    catalog: Catalog, codecs: Codecs, name: str, reader: RowReader, keys: Sequence[Key]
) -> dict[bytes, Row]:
    """What view or index `name` should hold for the rows `keys` of its last (or only) relation,
    by encoded key. Reads base relations only; repair uses it."""
    source = catalog.layout(name).source
    view = catalog.view.get(source)
    path = None if view is None else compile_path(catalog, view)
    relation = source if path is None else path.last.relation
    found = zip(keys, await reader.get(relation, keys), strict=True)
    by_key = {key: version.row for key, version in found if version is not None}
    if path is not None:
        by_key = dict(await path.join(BaseRows(reader), by_key, BaseRows.before))
    return dict(_stored_rows(catalog, codecs, name, list(by_key.values())))


def _stored_rows(
    catalog: Catalog, codecs: Codecs, name: str, rows: list[Row]
) -> list[tuple[bytes, Row]]:
    if name in catalog.index:
        project = compile_index(catalog, codecs, name).project
        rows = [project(row) for row in rows]
    key = codecs(name).key
    return [(key(row), row) for row in rows]


async def _scan_after(
    reader: RowReader, relation: str, after: Key | None
) -> AsyncIterator[list[Row]]:
    """Rows with a greater key than `after`: after (a, b) come (a, >b), then (>a)."""
    if after is None:
        ranges = [KeyRange()]
    else:
        ranges = [
            KeyRange(prefix=after[:i], low=after[i], low_inclusive=False)
            for i in reversed(range(len(after)))
        ]
    for key_range in ranges:
        async for batch in reader.scan(relation, key_range):
            if batch:
                yield batch
