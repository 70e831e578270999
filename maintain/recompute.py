"""Computation of views and indexes from base relations only.

Neither function uses the maintenance programs' choice of affected rows:

- `recompute` is the reference: whole relations as dictionaries, nested look-ups by column name,
  deliberately simple. Tests and verification compare everything else with it.
- `build_batches` is set-at-a-time: it takes rows of the last relation and walks up in batches.
  Online builds use it, for the whole relation or for a range of its keys.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from typing import NamedTuple

from hornbeam_server.maintain.indexes import compile_index, condition_of
from hornbeam_server.maintain.paths import BaseRows, Key, compile_path
from hornbeam_server.query.expressions.declared import compile_key
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.snapshot import RowReader

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
    holds = condition_of(catalog, name)
    computed = {
        each.column: compile_key(name, each.sql, catalog.schema.relation(layout.source))
        for each in catalog.index[name].expressions
    }
    return [
        tuple(computed[c](row) if c in computed else row[source.index(c)] for c in names)
        for names in (layout.column_names,)
        for row in recompute(catalog, base, layout.source)
        if holds is None or holds(row)
    ]


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
    """Rows of views and indexes by name, with their encoded keys, derived from `scanned` rows."""

    rows: dict[str, list[tuple[bytes, Row]]]
    scanned: int
    last: bytes
    """Encoded key of the last row scanned."""


def scanned_relation(catalog: Catalog, name: str) -> str:
    """The relation to scan for view or index `name`: each of its rows yields at most one row of
    `name`, whose key contains the relation's key. For a view, or an index on a view, it is the last
    relation of the path. For an immediate view it is the fact: each of its rows adds to at most one
    group. Raises KeyError."""
    source = catalog.layout(name).source
    if source in catalog.immediate_view:
        return catalog.immediate_view[source].relations[0]
    view = catalog.view.get(source)
    return source if view is None else view.last


async def build_batches(
    catalog: Catalog,
    codecs: Codecs,
    names: Sequence[str],
    reader: RowReader,
    scanned: AsyncIterable[Sequence[Row]],
) -> AsyncIterator[BuiltBatch]:
    """Rows of the views, indexes or copies `names`, all of one source (`Layout.source`).

    `scanned` has rows of their `scanned_relation` in key order, as of `reader`. Every scanned batch
    yields one batch, which may have no rows (NULL foreign keys). Reads base relations only, so the
    state of a view or index does not matter. Raises KeyError, and the reader's errors.
    """
    relation = scanned_relation(catalog, names[0])
    view = catalog.view.get(catalog.layout(names[0]).source)
    path = None if view is None else compile_path(catalog, view)
    key_values = codecs(relation).key_values
    async for batch in scanned:
        if path is None:
            rows = list(batch)
        else:
            by_key = dict(zip(map(key_values, batch), batch, strict=True))
            joined = await path.join(BaseRows(reader), by_key, BaseRows.before)
            rows = list(joined.values())
        made = {name: _stored_rows(catalog, codecs, name, rows) for name in names}
        yield BuiltBatch(made, len(batch), codecs(relation).key(batch[-1]))


async def rows_from(
    catalog: Catalog, codecs: Codecs, name: str, reader: RowReader, keys: Sequence[Key]
) -> dict[bytes, Row]:
    """The correct rows of view or index `name` for the rows `keys` of its last (or only) relation,
    by encoded key. Reads base relations only. Repair uses it."""
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
        rows = compile_index(catalog, codecs, name).rows(rows)
    key = codecs(name).key
    return [(key(row), row) for row in rows]
