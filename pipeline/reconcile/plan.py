"""What a reconciliation reads: one scan of each relation that something is made from, and one of
each index, and of each table of a deferred view.

A view's key is that of its last relation. So one scan of a range of that relation, with look-ups
upwards, gives all rows of the same range of each view that ends there. It gives the rows of the
indexes on both, too, but in another order than they are stored in: what is expected and what is
stored in an index come from different scans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.reconcile.report import Kind, Range
from schema.catalog import Catalog
from schema.errors import NotFound


@dataclass(frozen=True, slots=True)
class RelationScan:
    """All that is to be made of one relation's rows. `indexes` are on it or on a view that ends
    there, whether that view itself is compared or not."""

    relation: str
    views: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    foreign_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredScan:
    """What is stored in one index, or of a deferred view: what should be comes from elsewhere."""

    name: str
    kind: Kind = Kind.INDEX


Scan = RelationScan | StoredScan


@dataclass(frozen=True, slots=True)
class Task:
    """A part of a scan: the work of one task of Spark."""

    scan: Scan
    range: Range


def all_names(catalog: Catalog) -> list[str]:
    """Views and indexes that commits keep, and queries may use."""
    return [
        name
        for name in (*catalog.view, *catalog.index)
        if catalog.readable(name) and catalog.layout(name).source not in catalog.deferred_view
    ]


def with_indexes(catalog: Catalog, names: Sequence[str]) -> list[str]:
    """`names` and the indexes on those that are views. Raises NotFound for a name that is no
    readable view or index."""
    known = all_names(catalog)
    for name in names:
        if name not in known:
            raise NotFound(
                f"There is no readable view or index {name}.",
                cure=f"There are: {', '.join(known) or 'none'}.",
            )
    return [name for name in known if name in names or catalog.layout(name).source in names]


def scans(catalog: Catalog, names: Sequence[str], *, foreign_keys: bool) -> list[Scan]:
    """Of the views and indexes `names` and, if wanted, all foreign keys."""
    views = [name for name in names if name in catalog.view]
    indexes = [name for name in names if name in catalog.index]
    made = [
        RelationScan(
            relation.name,
            tuple(v for v in views if catalog.view[v].last == relation.name),
            tuple(i for i in indexes if last_relation(catalog, i) == relation.name),
            tuple(fk.name for fk in relation.foreign_keys) if foreign_keys else (),
        )
        for relation in catalog.schema.relations
    ]
    needed = [scan for scan in made if scan.views or scan.indexes or scan.foreign_keys]
    return [*needed, *map(StoredScan, indexes)]


def deferred_scans(catalog: Catalog, names: Iterable[str]) -> list[StoredScan]:
    """Of deferred views: their rows, and what they keep for themselves."""
    return [
        StoredScan(stored, Kind.DEFERRED_VIEW if stored == name else Kind.STATE)
        for name in names
        for stored in catalog.deferred_view[name].stored
    ]


def last_relation(catalog: Catalog, name: str) -> str:
    """Whose rows those of a view or index hang on, one each."""
    source = catalog.layout(name).source
    return catalog.view[source].last if source in catalog.view else source


def tables(catalog: Catalog, scan: Scan) -> list[str]:
    """Names of the layouts that a scan reads in their key order: all have the same keys."""
    return [scan.name] if isinstance(scan, StoredScan) else [scan.relation, *scan.views]


class Subject(NamedTuple):
    """What results are of; `table` is the layout whose keys they are cut by."""

    kind: Kind
    table: str


def subjects(scan: Scan) -> dict[str, Subject]:
    """What a scan gives results of."""
    if isinstance(scan, StoredScan):
        return {scan.name: Subject(scan.kind, scan.name)}
    checked = Subject(Kind.FOREIGN_KEY, scan.relation)
    return {
        scan.relation: Subject(Kind.RELATION, scan.relation),
        **{view: Subject(Kind.VIEW, view) for view in scan.views},
        **{constraint(scan.relation, name): checked for name in scan.foreign_keys},
    }


def constraint(relation: str, foreign_key: str) -> str:
    """A foreign key's name in reports."""
    return f"{relation}.{foreign_key}"


def tasks(
    catalog: Catalog, scans_: Sequence[Scan], splits: Callable[[str], Sequence[bytes]]
) -> list[Task]:
    """`splits` of a layout's table are where it can be cut."""
    return [
        Task(scan, where)
        for scan in scans_
        for where in ranges(key for name in tables(catalog, scan) for key in splits(name))
    ]


def ranges(keys: Iterable[bytes]) -> list[Range]:
    cuts = sorted({key for key in keys if key})
    return [Range(a, b) for a, b in zip([b"", *cuts], [*cuts, None], strict=True)]
