"""Indexes: declared indexes, those that foreign keys need, and those that the workload justifies.

Names are `<on>__by_<columns>`. Foreign-key indexes find the children of a row. Filter indexes (on
base relations) and view-indexes (Synergy, VI-C) serve a query's filters. Maintenance indexes
(VII-C) lead from an ancestor's key to the view rows that hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from hornbeam_server.query.binding.algebra import Block, Comparison, Filter
from hornbeam_server.query.expressions.declared import compile_key
from hornbeam_server.query.optimizer.access_paths import equal_columns
from hornbeam_server.schema.catalog import Catalog, Index, IndexExpression, Layout, Purpose
from hornbeam_server.schema.model import DeclaredIndex, ForeignKey, KeyPart, Relation, Schema
from hornbeam_server.schema.types import UNORDERED
from hornbeam_server.schema.views import JoinView

MAX_EQUALITIES = 3
"""Maximum equality columns of one index. A fourth column hardly narrows the range and makes every
index key longer; the remaining filters are checked on the included columns."""

_EQUAL = {Comparison.EQ, Comparison.IN, Comparison.IS_NULL}
_RANGE = {Comparison.LT, Comparison.LE, Comparison.GT, Comparison.GE, Comparison.PREFIX}


def index_name(on: str, columns: Sequence[KeyPart]) -> str:
    return f"{on}__by_" + "_".join(
        part.column + ("_desc" if part.descending else "") for part in columns
    )


def free_name(name: str, taken: Container[str]) -> str:
    """`name`, with `_` appended until it is not taken."""
    while name in taken:
        name += "_"
    return name


# -- indexes that follow from the schema


def base_indexes(schema: Schema) -> tuple[Index, ...]:
    """Declared indexes on relations, then the indexes that foreign keys need in addition."""
    declared = [
        _declared(index, schema.relation(index.relation))
        for index in schema.indexes
        if index.relation in schema
    ]
    found = list(declared)
    for relation in schema.relations:
        for key in relation.foreign_keys:
            if not _leads(relation, key, found):
                taken = {*schema.names, *(index.name for index in found)}
                found.append(_foreign_key_index(relation, key, taken))
    return tuple(found)


def _declared(index: DeclaredIndex, relation: Relation) -> Index:
    reason = "UNIQUE in the schema" if index.unique else "declared in the schema"
    return Index(
        index.name,
        index.relation,
        index.columns,
        index.include,
        index.unique,
        reason=reason,
        where=index.where,
        expressions=tuple(
            IndexExpression(e.column, e.sql, compile_key(index.name, e.sql, relation).type)
            for e in index.expressions
        ),
        nulls_distinct=index.nulls_distinct,
    )


def _leads(relation: Relation, key: ForeignKey, indexes: Iterable[Index]) -> bool:
    """Does the relation's key or one of its indexes begin with the foreign key, in any order?"""
    keys = [relation.primary_key]
    whole = (i for i in indexes if i.on == relation.name and i.is_whole)
    keys += [tuple(p.column for p in index.columns) for index in whole]
    wanted = sorted(key.columns)
    return any(sorted(columns[: len(wanted)]) == wanted for columns in keys)


def _foreign_key_index(relation: Relation, key: ForeignKey, taken: set[str]) -> Index:
    columns = tuple(KeyPart(column) for column in dict.fromkeys(key.columns))
    reason = f"finds rows of {relation.name} by {key.parent} ({key.name}): on delete, and below"
    return Index(
        free_name(index_name(relation.name, columns), taken), relation.name, columns,
        purpose=Purpose.FOREIGN_KEY, reason=reason,
    )  # fmt: skip


# -- indexes that filters want


@dataclass(frozen=True)
class Wanted:
    """An index that would serve one block's filters. `on` is a relation's or view's name."""

    on: str
    columns: tuple[KeyPart, ...]
    include: frozenset[str]
    statements: tuple[str, ...] = ()

    def begins(self, other: Wanted) -> bool:
        """Is this index's column list a prefix of the other's?"""
        return self.on == other.on and other.columns[: len(self.columns)] == self.columns

    def merge(self, other: Wanted) -> Wanted:
        """One index that serves both. Requires `self.begins(other)`."""
        return replace(
            other,
            include=self.include | other.include,
            statements=tuple(dict.fromkeys((*self.statements, *other.statements))),
        )

    def index(self, catalog: Catalog) -> Index:
        source = catalog.layout(self.on)
        key = {part.column for part in (*self.columns, *source.key)}
        include = tuple(c for c in source.column_names if c in self.include and c not in key)
        purpose = Purpose.VIEW if self.on in catalog.view else Purpose.FILTER
        reason = "serves the filters of " + ", ".join(self.statements)
        others = {n for n, index in catalog.index.items() if index.columns != self.columns}
        taken = {*catalog.schema.names, *catalog.view, *others}
        return Index(
            free_name(index_name(self.on, self.columns), taken), self.on, self.columns, include,
            purpose=purpose, reason=reason,
        )  # fmt: skip


def wanted_indexes(block: Block, alias: str, catalog: Catalog, statement: str) -> Iterator[Wanted]:
    """Indexes that could serve one source of a block, without those that an existing key serves.

    One index for its filters: equality columns first, in the order of the relation's columns; then
    the columns of ORDER BY, so that a LIMIT ends the scan early, otherwise one column with a range.
    Of columns that a view's own joins make equal, the index has the first only. A LIKE counts only
    if its pattern begins with a literal, since a parameter may be '%x%'. One index for each join,
    for look-ups from the other side.
    """
    source = catalog.layout(block.relation(alias))
    kinds = {column.name: column.type.kind for column in source.columns}
    filters = [f for f in block.filters_of(alias) if kinds[f.column] not in UNORDERED]
    stored = (column.name for column in source.columns if not column.dropped)
    include = frozenset(block.columns.get(alias, stored))
    same = equal_columns(catalog, source)
    filtered = _filter_parts(block, alias, source, filters, same)
    if filtered and not _served(catalog, source, filtered, same):
        yield Wanted(source.name, filtered, include, (statement,))
    for parts in _join_parts(block, alias):
        if not _served(catalog, source, parts):
            yield Wanted(source.name, parts, include, (statement,))


def _filter_parts(
    block: Block, alias: str, source: Layout, filters: Sequence[Filter], same: Mapping[str, str]
) -> tuple[KeyPart, ...]:
    fixed = {f.column for f in filters if f.comparison in _EQUAL}
    single = {f.column for f in filters if f.comparison in _EQUAL and len(f.values) < 2}
    if fixed >= {part.column for part in source.key}:
        return ()
    first: dict[str, KeyPart] = {}
    for column in source.column_names:
        if column in fixed:
            first.setdefault(same.get(column, column), KeyPart(column))
    equal = list(first.values())[:MAX_EQUALITIES]
    ranged = [KeyPart(f.column) for f in filters if _is_range(f) and f.column not in fixed]
    order = [KeyPart(o.column, o.descending) for o in block.order if o.column not in fixed]
    in_order = fixed == single and len(first) == len(equal) > 0
    if in_order and order and all(o.alias == alias for o in block.order):
        return (*equal, *dict.fromkeys(order))
    return (*equal, *ranged[:1])


def _is_range(item: Filter) -> bool:
    if item.comparison is Comparison.PREFIX:
        pattern = item.values[0]
        return isinstance(pattern, str) and not pattern.startswith(("%", "_")) and bool(pattern)
    return item.comparison in _RANGE


def _join_parts(block: Block, alias: str) -> Iterator[tuple[KeyPart, ...]]:
    for join in block.equi_joins:
        if join.left == alias:
            yield tuple(map(KeyPart, dict.fromkeys(join.left_columns)))
        if join.right == alias:
            yield tuple(map(KeyPart, dict.fromkeys(join.right_columns)))


def _served(
    catalog: Catalog,
    source: Layout,
    parts: tuple[KeyPart, ...],
    same: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Does the source's key or one of its indexes begin with the same columns? Columns with one
    value in `same` are the same."""

    def named(key: Iterable[KeyPart]) -> list[KeyPart]:
        return [replace(part, column=same.get(part.column, part.column)) for part in key]

    names = [source.name, *(index.name for index in catalog.whole_indexes_on(source.name))]
    return any(named(catalog.layout(name).key[: len(parts)]) == named(parts) for name in names)


def shared(wanted: Iterable[Wanted]) -> tuple[Wanted, ...]:
    """One index for all with a common prefix: the longest index serves the shorter ones as well."""
    by_source: dict[str, list[Wanted]] = {}
    for item in sorted(wanted, key=lambda item: -len(item.columns)):
        found = by_source.setdefault(item.on, [])
        for number, longer in enumerate(found):
            if item.begins(longer):
                found[number] = item.merge(longer)
                break
        else:
            found.append(item)
    every = (item for found in by_source.values() for item in found)
    return tuple(sorted(every, key=lambda item: index_name(item.on, item.columns)))


# -- indexes that view maintenance needs


def maintenance_indexes(
    view: JoinView, catalog: Catalog, updated: Callable[[str], bool]
) -> Iterator[Index]:
    """Indexes from updated ancestors, two or more levels above the last relation, to view rows.

    For nearer ancestors the foreign-key index is enough. No index is needed if the view's own key
    or a view-index begins with the ancestor's key, or with columns that the path's joins equate
    with it.
    """
    equal = view.equal_columns
    for level in range(len(view.path) - 2):
        ancestor = catalog.schema.relation(view.path[level])
        columns = [equal[view.names[ancestor.name, c]] for c in ancestor.primary_key]
        if not updated(ancestor.name) or _reached(view, catalog, equal, columns):
            continue
        parts = tuple(KeyPart(column) for column in dict.fromkeys(columns))
        reason = f"an update of {ancestor.name} finds its rows of {view.name}"
        yield Index(
            index_name(view.name, parts), view.name, parts,
            purpose=Purpose.MAINTENANCE, reason=reason,
        )  # fmt: skip


def _reached(
    view: JoinView, catalog: Catalog, equal: Mapping[str, str], columns: Sequence[str]
) -> bool:
    names = [view.name, *(index.name for index in catalog.indexes_on(view.name))]
    keys = ([equal[part.column] for part in catalog.layout(name).key] for name in names)
    return any(sorted(key[: len(columns)]) == sorted(columns) for key in keys)
