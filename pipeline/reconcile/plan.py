"""The scans of a reconciliation: one of each relation that views, indexes or constraints depend on,
one of each index, and one of each table of a declared view.

A view's key is that of its last relation. So one scan of a range of that relation, with lookups of
parents, gives all rows of the same range of each view that ends there. It also gives the rows of
the indexes on both, but not in the order in which they are stored: the expected and the stored rows
of an index come from different scans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hornbeam_server.pipeline.reconcile.report import Kind, Range
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import NotFound


@dataclass(frozen=True, slots=True)
class RelationScan:
    """A scan of one relation, for the views, indexes and constraints to compare with its rows.
    `indexes` are on the relation or on a view that ends there, even if that view itself is not
    compared."""

    relation: str
    views: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    foreign_keys: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredScan:
    """A scan of the stored rows of one index or of one table of a deferred view. The expected rows
    do not come from this scan."""

    name: str
    kind: Kind = Kind.INDEX


@dataclass(frozen=True, slots=True)
class CellScan:
    """A scan of the cells of an immediate view in one layout: that of its groups, which bears the
    view's name in results, or one of values. It finds cells that cannot be read, or lie under wrong
    keys; the amounts are compared in `immediate`."""

    name: str
    layout: str
    kind: Kind


Scan = RelationScan | StoredScan | CellScan


@dataclass(frozen=True, slots=True)
class Task:
    """A part of a scan: the work of one Spark task."""

    scan: Scan
    range: Range


def all_names(catalog: Catalog) -> list[str]:
    """Readable views and indexes that commits maintain."""
    return [
        name
        for name in (*catalog.view, *catalog.index)
        if catalog.readable(name) and catalog.layout(name).source not in catalog.declared_view
    ]


def with_indexes(catalog: Catalog, names: Sequence[str]) -> list[str]:
    """`names` and the indexes on those that are views. Raises NotFound for a name that is no
    readable view or index."""
    known = all_names(catalog)
    for name in names:
        source = catalog.layout(name).source if name in catalog else name
        if source in catalog.transactional_view:
            raise NotFound(
                f"Spark does not compare {name}, which is or belongs to an immediate view.",
                cure="Compare it by hornbeam verify.",
            )
        if name not in known:
            raise NotFound(
                f"There is no readable view or index {name}.",
                cure=f"There are: {', '.join(known) or 'none'}.",
            )
    return [name for name in known if name in names or catalog.layout(name).source in names]


def immediate_names(catalog: Catalog, names: Sequence[str]) -> list[str]:
    """Those of `names` that are readable immediate views; without names, all of these. Raises
    NotFound for an immediate view that is not readable."""
    for name in names:
        if name in catalog.immediate_view and not catalog.readable(name):
            raise NotFound(
                f"View {name} is {catalog.state[name]}, not readable.",
                cure="Wait for its build, or build it again: hornbeam materialize.",
            )
    wanted = names or catalog.immediate_view
    return [name for name in catalog.immediate_view if name in wanted and catalog.readable(name)]


def scans(
    catalog: Catalog, names: Sequence[str], *, constraints: bool, declared: Sequence[str] = ()
) -> list[Scan]:
    """The scans for the views and indexes `names` and, if wanted, for all foreign keys and
    CHECKs. The scans of the relations of the views `declared` show whether all rows of these can be
    read."""
    read = {name for view in declared for name in catalog.declared_view[view].relations}
    views = [name for name in names if name in catalog.view]
    indexes = [name for name in names if name in catalog.index]
    made = [
        RelationScan(
            relation.name,
            tuple(v for v in views if catalog.view[v].last == relation.name),
            tuple(i for i in indexes if last_relation(catalog, i) == relation.name),
            tuple(fk.name for fk in relation.foreign_keys) if constraints else (),
            tuple(check.name for check in relation.checks) if constraints else (),
        )
        for relation in catalog.schema.relations
    ]
    needed = [
        scan
        for scan in made
        if scan.views or scan.indexes or scan.foreign_keys or scan.checks or scan.relation in read
    ]
    return [*needed, *map(StoredScan, indexes)]


def deferred_scans(catalog: Catalog, names: Iterable[str]) -> list[StoredScan]:
    """The scans for deferred views: of their rows, and of their state (`Kind.STATE`)."""
    return [
        StoredScan(stored, Kind.DEFERRED_VIEW if stored == name else Kind.STATE)
        for name in names
        for stored in catalog.deferred_view[name].stored
    ]


def cell_scans(catalog: Catalog, names: Iterable[str]) -> list[CellScan]:
    """The scans for immediate views: of their groups, and of their values (`Kind.STATE`)."""
    return [
        scan
        for view in (catalog.immediate_view[name] for name in names)
        for scan in (
            CellScan(view.name, view.cells_name, Kind.IMMEDIATE_VIEW),
            *(CellScan(values, values, Kind.STATE) for values in view.values_names),
        )
    ]


def last_relation(catalog: Catalog, name: str) -> str:
    """The relation each of whose rows gives at most one row of a view or index."""
    source = catalog.layout(name).source
    return catalog.view[source].last if source in catalog.view else source


def tables(catalog: Catalog, scan: Scan) -> list[str]:
    """Names of the layouts that a scan reads in their key order: all have the same keys."""
    match scan:
        case StoredScan(name):
            return [name]
        case CellScan(_, layout):
            return [layout]
    return [scan.relation, *scan.views]


class Subject(NamedTuple):
    """The object of a result. `table` is the layout whose keys bound the result's ranges."""

    kind: Kind
    table: str


def subjects(scan: Scan) -> dict[str, Subject]:
    """The objects that a scan gives results for, by name."""
    if isinstance(scan, StoredScan):
        return {scan.name: Subject(scan.kind, scan.name)}
    if isinstance(scan, CellScan):
        return {scan.name: Subject(scan.kind, scan.layout)}
    key, check = (Subject(kind, scan.relation) for kind in (Kind.FOREIGN_KEY, Kind.CHECK))
    return {
        scan.relation: Subject(Kind.RELATION, scan.relation),
        **{view: Subject(Kind.VIEW, view) for view in scan.views},
        **{constraint(scan.relation, name): key for name in scan.foreign_keys},
        **{constraint(scan.relation, name): check for name in scan.checks},
    }


def constraint(relation: str, name: str) -> str:
    """The name of a foreign key or CHECK in reports."""
    return f"{relation}.{name}"


def tasks(
    catalog: Catalog, scans_: Sequence[Scan], splits: Callable[[str], Sequence[bytes]]
) -> list[Task]:
    """The tasks of `scans_`. `splits` returns the keys at which a layout's table is split."""
    return [
        Task(scan, where)
        for scan in scans_
        for where in ranges(key for name in tables(catalog, scan) for key in splits(name))
    ]


def ranges(keys: Iterable[bytes]) -> list[Range]:
    cuts = sorted({key for key in keys if key})
    return [Range(a, b) for a, b in zip([b"", *cuts], [*cuts, None], strict=True)]
